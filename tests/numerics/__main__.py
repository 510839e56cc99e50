"""python -m tests.numerics: prints the tables of docs/reliability.md, section Numerics, beside PyTorch's figures where torch is installed.

python -m tests.numerics                 all parts
python -m tests.numerics elementwise     one of them: elementwise, gradients, sums, random
python -m tests.numerics --write         writes them into the page, too
"""

from __future__ import annotations

import importlib.util
import re
import sys
import warnings
from pathlib import Path
from typing import Any

from tests.numerics import elementwise, randomness, sums
from tests.ops.tables import title_of

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def _torch() -> Any:
    return importlib.import_module("torch") if importlib.util.find_spec("torch") else None


def _figure(value: float | None) -> str:
    return (
        "-" if value is None else f"{value:.2g}" if value < 1e4 else "inf" if value == float("inf") else f"{value:.0e}"
    )


def _table(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def elementwise_table() -> str:
    torch = _torch()
    lines, exact = [], []
    for row in [*elementwise.rows(1), *elementwise.rows(2)]:
        cells: list[str] = []
        worst = 0.0
        for dtype in elementwise.DTYPES:
            ours = elementwise.errors_of(row, dtype)
            theirs = None if torch is None else elementwise.errors_of(row, dtype, torch)
            worst = max(worst, ours[0] if ours else 0.0)
            cells.append(f"{_figure(ours and ours[0])} / {_figure(theirs and theirs[0])}")
        if any(cell != "- / -" for cell in cells):
            if worst <= 0.5001:
                exact.append(title_of(row))
            else:
                lines.append([f"`{title_of(row)}`", *cells])
    table = _table(["op", *elementwise.DTYPES], lines)
    return f"{table}\n\nRounded correctly in each of these dtypes: {', '.join(f'`{name}`' for name in exact)}."


def gradients_table() -> str:
    torch = _torch()
    lines = [
        [
            f"`{name}`",
            _figure(elementwise.gradient_error(name)),
            _figure(None if torch is None else elementwise.gradient_error(name, torch)),
        ]
        for name in elementwise.gradients()
    ]
    return _table(["op", "dynograd", "PyTorch"], lines)


def sums_table() -> str:
    torch = _torch()
    lines = []
    for row in sums.ROWS:
        for dtype in row.dtypes:
            for kind in row.inputs:
                cells = []
                for length in row.lengths:
                    ours = sums.error_of(row, kind, length, dtype)
                    theirs = None if torch is None else sums.error_of(row, kind, length, dtype, torch)
                    cells.append(f"{_figure(ours)} / {_figure(theirs)}")
                lengths = ", ".join(f"{length:.0e}".replace("e+0", "e") for length in row.lengths)
                lines.append([f"{row.name}", dtype, kind, lengths, ", ".join(cells)])
                print(lines[-1], file=sys.stderr, flush=True)
    return _table(["op", "dtype", "input", "numbers", "dynograd / PyTorch"], lines)


_SEQUENCES = 10


def random_table() -> str:
    lines = []
    for title, (source, words) in randomness.SOURCES.items():
        sequences = [randomness.bits_of_words(source(seed, words)) for seed in range(_SEQUENCES)]
        for name, test in randomness.BITS.items():
            lines.append([title, name, *_verdict([value for bits in sequences for value in test(bits)])])
        print(title, file=sys.stderr, flush=True)
    for name, draws in randomness.DRAWS.items():
        lines.append(["", name, *_verdict([value for seed in range(_SEQUENCES) for value in draws(seed, 300_000)])])
    return _table(["stream", "test", "p-values", "least", "of the least among so many", "of their uniformity"], lines)


def _verdict(values: list[float]) -> list[str]:
    if not values:
        return ["0", "-", "-", "-"]
    least, uniform = randomness.verdict(values)
    return [str(len(values)), f"{min(min(value, 1 - value) for value in values):.2g}", f"{least:.2g}", f"{uniform:.2g}"]


PARTS = {"elementwise": elementwise_table, "gradients": gradients_table, "sums": sums_table, "random": random_table}


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    parts = [part for part in PARTS if part in arguments] or list(PARTS)
    for part in parts:
        text = PARTS[part]()
        print(text, flush=True)
        if "--write" in arguments:
            pattern = re.compile(rf"(?<=<!-- numerics: {part} -->\n).*?(?=<!-- end -->)", re.DOTALL)
            page = PAGE.read_text()
            assert pattern.search(page), f"{PAGE}: no place for {part}"
            PAGE.write_text(pattern.sub(lambda _, text=text: f"{text}\n", page, count=1))


if __name__ == "__main__":
    main(sys.argv[1:])
