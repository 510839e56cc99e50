"""`dynograd.warmup()`: compiles the kernels of common programs ahead of time, several at once, into the cache on disk.

Each program below takes a few training steps with a small and a large batch, so that the serial and the parallel form of its
kernels are made. Numba compiles one function at a time in a process; so the programs run in processes of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

from dynograd import nn, optim
from dynograd.kernels.build import kernel_cache, notices, threads
from dynograd.utils import programs as command_lines

__all__ = ["PROGRAMS", "main", "warmup"]

dynograd: Any = sys.modules["dynograd"]  # the public names: these are users' programs

_LOOK = 0.2  # seconds between two looks at the processes: what a bar may lag behind

# Without tqdm's estimate of the rest: programs take very different times.
_BAR = "{desc}: |{bar}| {n_fmt} of {total_fmt} programs [{elapsed}{postfix}]"

PROGRAMS: dict[str, Callable[[], None]] = {}


def warmup(*programs: str, processes: int | None = None) -> dict[str, Any]:
    """Compiles the kernels that common programs use, so that a first training step does not wait for the compiler.

    Takes one to two minutes the first time and a few seconds later, when all is on disk; a bar on stderr says how far it is, unless
    `set_quiet` turned such lines off. Not needed: a kernel is otherwise compiled when it is first called, in 0.2 to 0.6 s.
    `python -m dynograd warmup` is the same.

    Args:
        programs: names from `dynograd.warming.PROGRAMS` ("mlp", "conv", "recurrent", "transformer", "elementwise",
            "indexing"); all when none is given.
        processes: how many compile at once; as many as `get_num_threads()` by default. 0: this process runs the programs itself.
    Returns:
        `compiled` and `loaded`, the numbers of kernels that had to be compiled or were on disk, and `seconds`.
    Raises:
        ValueError: a program that does not exist.
        RuntimeError: a program failed; its output is in the message.

    >>> sorted(dynograd.warmup("nothing"))
    ['compiled', 'loaded', 'seconds']
    """
    chosen = list(dict.fromkeys(programs)) or [name for name in PROGRAMS if name != "nothing"]
    unknown = [name for name in chosen if name not in PROGRAMS]
    if unknown:
        raise ValueError(f"warmup: no program is called {unknown[0]!r}. Programs: {', '.join(PROGRAMS)}.")
    start = time.perf_counter()
    with contextlib.closing(_Progress(chosen)) as progress:
        if kernel_cache.folder() is None or processes == 0:
            counts = _run_here(chosen, progress)
        else:
            counts = _run_beside(chosen, min(processes or threads.get_num_threads(), len(chosen)), progress)
    return {**counts, "seconds": round(time.perf_counter() - start, 1)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives 0."""
    parser = argparse.ArgumentParser(
        prog="python -m dynograd warmup", description="Compiles the kernels of common programs ahead of time."
    )
    parser.add_argument(
        "programs",
        type=_program_name,
        nargs="*",
        metavar="PROGRAM",
        help=f"{', '.join(PROGRAMS)}; all but the first by default",
    )
    parser.add_argument(
        "--processes", type=command_lines.whole_number(0), metavar="N",
        help="how many compile at once; as many as there are threads by default, 0 for none beside this one",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    return command_lines.run(lambda: _warm_and_tell(options), "warmup")


def _program_name(text: str) -> str:
    if text not in PROGRAMS:
        near = "".join(f" Did you mean {name}?" for name in difflib.get_close_matches(text, PROGRAMS, 1))
        raise argparse.ArgumentTypeError(f"no program is called {text!r}.{near} Programs: {', '.join(PROGRAMS)}.")
    return text


def _warm_and_tell(options: argparse.Namespace) -> None:
    counts = warmup(*options.programs, processes=options.processes)
    print(f"{counts['compiled']} kernels compiled, {counts['loaded']} were there, in {counts['seconds']} s")


class _Progress:
    """How far it is: a bar on a terminal, elsewhere a line for each program that has ended. Quiet where notices are."""

    def __init__(self, chosen: list[str]) -> None:
        self._stream, self._number, self._ended, self._before = sys.stderr, len(chosen), 0, _kernels_on_disk()
        self._bar = None
        if not notices.is_quiet() and notices.is_terminal(self._stream):
            self._bar = notices.bar(self._stream, total=len(chosen), desc="warmup", bar_format=_BAR)

    def working(self, names: list[str]) -> None:
        """These programs run."""
        if self._bar is not None:
            self._bar.set_description_str(f"warmup: {', '.join(names)}", refresh=False)
            self._bar.set_postfix_str(f"{_kernels_on_disk() - self._before} new kernels")

    def ended(self, name: str, counts: dict[str, int]) -> None:
        """A program has ended."""
        self._ended += 1
        if self._bar is not None:
            self._bar.update()
        elif not notices.is_quiet():
            text = f"{counts['compiled']} kernels compiled, {counts['loaded']} loaded"
            notices.write(self._stream, f"dynograd: warmup: {name} ({self._ended} of {self._number}): {text}")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _kernels_on_disk() -> int:
    folder = kernel_cache.folder()
    return 0 if folder is None else len(os.listdir(folder))


def _run_here(chosen: list[str], progress: _Progress) -> dict[str, int]:
    total = {"compiled": 0, "loaded": 0}
    for name in chosen:
        progress.working([name])
        counts = _counted(name)
        progress.ended(name, counts)
        _add(total, counts)
    return total


def _run_beside(chosen: list[str], processes: int, progress: _Progress) -> dict[str, int]:
    waiting, running, total = list(chosen), {}, {"compiled": 0, "loaded": 0}
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                name = waiting.pop(0)
                running[name] = _start(name)
            progress.working(list(running))
            first = next(iter(running.values()))[0]
            with contextlib.suppress(subprocess.TimeoutExpired):
                first.wait(_LOOK)
            for name, (child, output) in list(running.items()):
                if child.poll() is not None:
                    counts = _counts_of(name, child, output)
                    del running[name]
                    progress.ended(name, counts)
                    _add(total, counts)
    finally:
        for child, output in running.values():
            child.kill()
            child.wait()
            output.close()
    return total


def _start(name: str) -> tuple[subprocess.Popen, IO[str]]:
    """A process that runs a program, and the file that gets what it says (a pipe could fill while nobody reads it)."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "DYNOGRAD_QUIET": "1",
    }
    command = [sys.executable, "-c", f"from dynograd.warming import _tell; _tell({name!r})"]
    output = tempfile.TemporaryFile("w+")  # noqa: SIM115
    return subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT), output


def _counts_of(name: str, child: subprocess.Popen, output: IO[str]) -> dict[str, int]:
    with output:
        output.seek(0)
        text = output.read()
    if child.returncode:
        raise RuntimeError(f"warmup: the program {name!r} failed:\n{text.strip()}")
    compiled, loaded = text.split()[-2:]
    return {"compiled": int(compiled), "loaded": int(loaded)}


def _counted(name: str) -> dict[str, int]:
    """Runs a program; how many kernels it compiled and loaded."""
    before = kernel_cache.statistics()
    PROGRAMS[name]()
    after = kernel_cache.statistics()
    return {what: after[what] - before[what] for what in ("compiled", "loaded")}


def _add(total: dict[str, int], counts: dict[str, int]) -> None:
    for what, number in counts.items():
        total[what] += number


def _tell(name: str) -> None:
    """In a process of its own: runs a program and prints how many kernels were compiled and loaded."""
    counts = _counted(name)
    print(counts["compiled"], counts["loaded"])


# --- programs ----------------------------------------------------------------------------------------------------------------


def _program(function: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS[function.__name__.strip("_")] = function
    return function


def _train(model: Any, inputs: list[Any], loss_of: Callable[[Any], Any], optimizer_name: str = "AdamW") -> None:
    optimizer = getattr(optim, optimizer_name)(model.parameters(), lr=1e-3)
    for x in inputs:
        for _ in range(2):
            optimizer.zero_grad()
            loss_of(model(x)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def _class_loss(output: Any) -> Any:
    classes = dynograd.zeros(output.shape[0], *output.shape[2:], dtype=dynograd.int64)
    return dynograd.nn.functional.cross_entropy(output, classes)


@_program
def _nothing() -> None:
    """For trying `warmup` out."""


@_program
def _mlp() -> None:
    for optimizer in ("AdamW", "Adam", "SGD"):
        model = nn.Sequential(
            nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512)
        )
        _train(model, [dynograd.randn(4, 512), dynograd.randn(512, 512)], _class_loss, optimizer)


@_program
def _conv() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    _train(model, [dynograd.randn(2, 3, 16, 16), dynograd.randn(32, 3, 32, 32)], _class_loss, "SGD")
    model.eval()
    with dynograd.no_grad():
        model(dynograd.randn(32, 3, 32, 32))


@_program
def _recurrent() -> None:
    class Reader(nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.words, self.layer = nn.Embedding(1000, 64), layer
            self.out = nn.Linear(128, 50)

        def forward(self, words: Any) -> Any:
            lengths = dynograd.arange(words.shape[1], 0, -1).clamp(min=1).expand(words.shape[0], -1)[:, 0]
            inputs = nn.utils.rnn.pack_padded_sequence(self.words(words), lengths, batch_first=True)
            outputs, _ = self.layer(inputs)
            return self.out(outputs.data)

    for layer in (nn.LSTM, nn.GRU):
        model = Reader(layer(64, 64, batch_first=True, bidirectional=True))
        batches = [dynograd.zeros(size, 20, dtype=dynograd.int64) for size in (2, 64)]
        _train(model, batches, _class_loss, "Adam")


@_program
def _transformer() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, norm_first=True, activation="gelu")
    model = nn.Sequential(layer, nn.LayerNorm(64), nn.Linear(64, 100))
    for size in (2, 32):
        _train(model, [dynograd.randn(size, 64, 64)], lambda output: _class_loss(output.flatten(0, 1)))
    query = dynograd.randn(8, 4, 128, 16, requires_grad=True)
    dynograd.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True).sum().backward()


@_program
def _elementwise() -> None:
    names = "exp log sqrt tanh sigmoid abs neg sin cos rsqrt square".split()
    for size in (100, 10_000, 300_000):
        x = dynograd.rand(size, requires_grad=True)
        for name in names:
            getattr(dynograd, name)(x).sum().backward()
        for function in ("relu", "gelu", "silu", "elu", "leaky_relu", "softplus"):
            getattr(dynograd.nn.functional, function)(x).sum().backward()
        (x * x + x / 2 - x).mean().backward()
        dynograd.where(x > 0.5, x, -x).clamp(0, 1).var().backward()


@_program
def _indexing() -> None:
    for rows in (10, 5_000):
        table = dynograd.rand(rows, 64, requires_grad=True)
        index = dynograd.arange(rows)
        dynograd.zeros(rows, 64).index_add(0, index, table[index]).sum().backward()
        table.cumsum(0).max(1).values.sum().backward()
        dynograd.cat([table, table]).transpose(0, 1).contiguous().sum().backward()
        table.topk(3, 1).values.sum().backward()
        table.sort(1).values.mean().backward()
