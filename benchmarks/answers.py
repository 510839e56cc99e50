"""Saved programs that answer in new processes: `python -m benchmarks.answers LIBRARY MODEL FILE` saves one.

A GRU in both directions over embedded words, as a server would run it: over padded rows (`words`), and over ragged ones (`words.ragged`).
"""

from __future__ import annotations

import atexit
import importlib
import shutil
import sys
import tempfile
import time

from benchmarks.sides import output_of

__all__ = ["MODELS", "seconds"]

MODELS = ("words", "words.ragged")
_WORDS = 10_000
_ANSWER = """
import {library} as library, time
example = {example}
with library.no_grad():
    answer = library.export.load({path!r}).module()(example).tolist()
assert len(answer) == 2
print(time.time())
"""
_EXAMPLES = {
    "words": "library.arange(12).reshape(2, 6)",
    "words.ragged": "library.ragged_tensor([[1, 2, 3], [4, 5]])",
}
_saved: dict[
    tuple[str, str, int], str
] = {}  # folders, each with a program and the kernels of a process that has run it


def seconds(model: str, library: str, threads: int) -> float:
    """From before a process starts to its first answer."""
    folder = _folder(model, library, threads)
    code = _ANSWER.format(library=library, example=_EXAMPLES[model], path=_path(folder, library))
    begun = time.time()
    return float(output_of(["-c", code], threads, DYNOGRAD_CACHE_DIR=folder)) - begun


def _path(folder: str, library: str) -> str:
    return f"{folder}/model.{'dg' if library == 'dynograd' else 'pt2'}"


def _folder(model: str, library: str, threads: int) -> str:
    key = (model, library, threads)
    if key not in _saved:
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        save = ["-m", "benchmarks.answers", library, model, _path(folder, library)]
        output_of(save, threads, DYNOGRAD_CACHE_DIR=folder)
        _saved[key] = folder
        seconds(model, library, threads)
    return _saved[key]


def _save(library: str, model: str, path: str) -> None:
    torch = importlib.import_module(library)
    nn = torch.nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(_WORDS, 100)
            self.gru = nn.GRU(100, 96, batch_first=True, bidirectional=True)
            self.output = nn.Linear(192, 1)

        def forward(self, words):
            return self.output(self.gru(self.embedding(words))[0].amax(1)).squeeze(1)

    example = eval(_EXAMPLES[model], {"library": torch})
    program = torch.export.export(Tagger().eval(), (example,))
    torch.export.save(program, path)


if __name__ == "__main__":
    _save(*sys.argv[1:])
