"""Runs the training steps of `examples/` compiled, on little data, and says of each what became of its calls.

    python -m tools.compiled_examples                       a table of all of them
    python -m tools.compiled_examples dcgan gcn --report    of these, with the reports of their functions
    python -m tools.compiled_examples --write               the table of docs/compile.md

Each example runs twice, as it is written and compiled, and all that its steps give, losses above all, is compared.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import dynograd  # noqa: E402
from dynograd.plans.compiling import Compiled  # noqa: E402
from dynograd.utils import programs  # noqa: E402

__all__ = ["EXAMPLES", "PAGE", "Example", "table_in"]

PAGE = ROOT / "docs" / "compile.md"
BEGIN, END = "<!-- examples compiled: begin -->\n", "<!-- examples compiled: end -->\n"
PICTURE = "{folder}/drawn.pgm"
EXAMPLES: dict[str, dict[str, Any]] = {
    "bilstm_crf": dict(steps=40, sentences=300, hidden=24, batch_size=8),
    "char_lm": dict(steps=40, hidden=48, batch_size=8, length=16, characters=3),
    "dcgan": dict(steps=20, batch_size=16, latent=8, channels=4, images=200, picture=PICTURE),
    "gcn": dict(steps=25),
    "graph_net": dict(epochs=6, size=16),
    "hypernetwork": dict(steps=40, images=300, batch_size=32),
    "mixed_sizes": dict(steps=30, images=300, channels=4, batch_size=8),
    "mnist": dict(steps=40, images=400, batch_size=8, checkpoint="{folder}/mnist.safetensors"),
    "program_net": dict(steps=30, questions=20, size=16, batch_size=16),
    "reinforce": dict(steps=30, episodes=4, limit=30),
    "sentiment": dict(
        epochs=2, steps=30, sentences=160, batch_size=16, workers=0, checkpoint="{folder}/sentiment.safetensors"
    ),
    "seq2seq": dict(steps=30, pairs=200, hidden=24, batch_size=8),
    "shift_reduce": dict(steps=30, sentences=96, batch_size=8, size=24),
    "text_transformer": dict(steps=30, batch_size=16, sentences=160),
    "transformer_lm": dict(steps=20, batch_size=4, length=24, size=16, layers=1, characters=3),
    "tree_lstm": dict(trees=200, epochs=2, width=16, batch=10),
    "vae": dict(steps=40, images=400, hidden=32, latent=4, batch_size=32, picture=PICTURE),
    "wgan_gp": dict(steps=8, batch_size=8, latent=8, channels=4, critic_steps=3, images=80, picture=PICTURE),
}
"""Examples that train, and arguments of their `main` for a small run."""
_CLOSE = 1e-3  # by which a loss may differ at the end: rounding grows with training


@dataclass
class Step:
    """A compiled function of an example, and the numbers that its calls gave."""

    compiled: Compiled
    numbers: list[float] = field(default_factory=list)


class Example:
    """An example as it is written and compiled.

    Args:
        name: of the file.
        options: arguments of its `main`, in place of some in `EXAMPLES`.
    """

    def __init__(self, name: str, **options: Any) -> None:
        self.name, self.options = name, EXAMPLES[name] | options
        self.expected, self.expected_result = self._run("force_eager")
        self.steps, self.result = self._run("default")

    def _run(self, stance: str) -> tuple[list[Step], Any]:
        """The functions that the example compiles, and what its `main` gives."""
        main = importlib.import_module(f"examples.{self.name}").main
        with tempfile.TemporaryDirectory() as folder, _noted() as steps, contextlib.redirect_stdout(io.StringIO()):
            options = {
                name: value.format(folder=folder) if isinstance(value, str) else value
                for name, value in self.options.items()
            }
            with dynograd.compiler.set_stance(stance):
                if self.name == "tree_lstm":
                    arguments = [f"--{name}={value}" for name, value in options.items()]
                    return steps, main([*arguments, "--compile", "--compared=0"])
                return steps, main(**options, compile=True)

    def difference(self) -> float:
        """The largest relative one between what the calls of both runs gave."""
        largest = 0.0
        for step, other in zip(self.steps, self.expected, strict=True):
            for number, expected in zip(step.numbers, other.numbers, strict=True):
                largest = max(largest, abs(number - expected) / max(abs(expected), 1e-2))
        return largest

    def calls(self) -> int:
        return sum([step.compiled.report().calls for step in self.steps])

    def walked(self) -> int:
        return sum([step.compiled.report().walked for step in self.steps])

    def sequences(self) -> int:
        """How often sequences of ops came in scopes of autobatch."""
        return sum([row.times for step in self.steps for row in step.compiled.report().sequences])

    def remarks(self) -> str:
        """Why calls were left as they are written, and what Python computes in the others."""
        why: dict[str, int] = {}
        for step in self.steps:
            for reason, _, times in step.compiled.report().breaks:
                why[reason] = why.get(reason, 0) + times
        parts = [f"{times} x {reason}" for reason, times in sorted(why.items(), key=lambda item: -item[1])[:2]]
        names = {row.name for step in self.steps for way in step.compiled.report().ways for row in way.in_python}
        parts += ["in Python: " + ", ".join([f"`{name}`" for name in sorted(names)])] * bool(names)
        if self.sequences():
            parts.append("groups of its scope are compiled")
        return "; ".join(parts)

    def row(self) -> str:
        equal = "equal" if self.difference() == 0 else f"{self.difference():.0e}"
        return f"| `{self.name}` | {self.calls()} | {self.walked()} | {equal} | {self.remarks()} |\n"


@contextlib.contextmanager
def _noted() -> Iterator[list[Step]]:
    """Inside, `dynograd.compile` notes the functions that it makes, and what they give."""
    steps: list[Step] = []
    compile_ = dynograd.compile

    def noting(function: Any, **options: Any) -> Callable[..., Any]:
        step = Step(compile_(function, **options))
        steps.append(step)

        def call(*arguments: Any) -> Any:
            result = step.compiled(*arguments)
            step.numbers += _numbers_of(result)
            return result

        return call

    dynograd.compile = noting  # type: ignore[assignment]
    try:
        yield steps
    finally:
        dynograd.compile = compile_


def _numbers_of(result: Any) -> list[float]:
    """The first of each tensor: of a loss itself."""
    if isinstance(result, (tuple, list)):
        return [number for value in result for number in _numbers_of(value)]
    return [float(result.detach().flatten()[0])] if isinstance(result, dynograd.Tensor) else []


def table(names: list[str], report: bool = False) -> str:
    """The rows of these examples."""
    text = "| example | calls | along the record | results | what is not |\n| --- | --- | --- | --- | --- |\n"
    for name in names:
        example = Example(name)
        row = example.row()
        print(row, end="", file=sys.stderr, flush=True)
        if report:
            print(*[step.compiled.report() for step in example.steps], sep="\n", flush=True)
        if not example.difference() <= _CLOSE:
            raise SystemExit(f"{name}: compiled steps differ by {example.difference():.0e} from those as written.")
        text += row
    return text


def table_in(page: str) -> str:
    """The table as it stands in the page."""
    return page.split(BEGIN)[1].split(END)[0]


def main(names: list[str], report: bool = False, write: bool = False) -> int:
    strangers = [name for name in names if name not in EXAMPLES]
    if strangers:
        raise programs.UsageError(f"compiled_examples: expected some of {', '.join(EXAMPLES)}, got {strangers[0]}.")
    text = table(names or list(EXAMPLES), report)
    if write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page.replace(table_in(page), text), encoding="utf-8")
    else:
        print(text, end="")
    return 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="example", help=f"some of {', '.join(EXAMPLES)} (all)")
    parser.add_argument("--report", action="store_true", help="the reports of the compiled functions, too")
    parser.add_argument("--write", action="store_true", help="writes the table into docs/compile.md")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
