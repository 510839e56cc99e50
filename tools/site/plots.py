"""Plots of the site that show measured figures, drawn when the site is built from the tables of docs/benchmarks.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FASTER, SLOWER = "#2a7fb8", "#c8723a"
PLOTS = {
    "benchmarks-training.svg": ("Training steps", "PyTorch's time / dynograd's, training steps on two CPU cores"),
    "benchmarks-ragged.svg": (
        "Data that is not a rectangle",
        "PyTorch's time / dynograd's, data that is not a rectangle",
    ),
    "benchmarks-gpu.svg": ("On a GPU", "PyTorch's time / dynograd's, on an NVIDIA H200"),
}
"""Each picture: the heading of docs/benchmarks.md below which its first table stands, and what the picture is called."""
BATCHES = "A training step at several batch sizes"
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Row:
    name: str
    ratio: float


def draw_all(docs: Path, figures: Path) -> None:
    """Draws every plot into the folder `figures`."""
    figures.mkdir(parents=True, exist_ok=True)
    text = (docs / "benchmarks.md").read_text(encoding="utf-8")
    for file, (heading, title) in PLOTS.items():
        _draw_ratios(list(rows_below(text, heading)), title, figures / file)
    _draw_batches(times_below(text, BATCHES), figures / "benchmarks-batches.svg")


def rows_below(text: str, heading: str) -> Iterator[Row]:
    """The rows of the first table below a heading that has a column torch / dynograd with one ratio in it."""
    header, *lines = _table_below(text, heading, "torch / dynograd")
    column = next(index for index, name in enumerate(header) if name.startswith("torch / dynograd"))
    for cells in lines:
        ratio = re.fullmatch(r"([\d.]+)(?: \(.*\))?", cells[column])
        if ratio:
            yield Row(_short(cells[0]), float(ratio[1]))


def times_below(text: str, heading: str) -> dict[str, dict[int, float]]:
    """Seconds by side and batch size, of the first table below a heading whose rows end with a batch size."""
    header, *lines = _table_below(text, heading, ", median")
    sides = {name.partition(", median")[0]: column for column, name in enumerate(header) if ", median" in name}
    times: dict[str, dict[int, float]] = {side: {} for side in sides}
    for cells in lines:
        batch = re.search(r"(\d+)$", _short(cells[0]))
        for side, column in sides.items():
            time = re.match(r"([\d.]+) (\w+)", cells[column])
            if batch and time:
                times[side][int(batch[1])] = float(time[1]) * UNITS[time[2]]
    return times


def _table_below(text: str, heading: str, column: str) -> Iterator[list[str]]:
    """The cells of the first table below a heading that has such a column: of the head, then of the rows."""
    match = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    if match is None:
        raise ValueError(f"docs/benchmarks.md has no heading {heading!r}, from which a plot is drawn.")
    lines = iter(match[1].split("\n"))
    header = next((line for line in lines if line.startswith("|") and column in line), None)
    if header is None:
        raise ValueError(f"docs/benchmarks.md has no table with a column {column} below {heading!r}.")
    yield _cells(header)
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield _cells(line)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _short(name: str) -> str:
    """The name of a row without its explanation."""
    quoted = re.match(r"`([^`]+)`", name)
    return quoted[1] if quoted else re.split(r"[:;(]", name)[0].strip()


def _draw_ratios(rows: list[Row], title: str, file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from tools.site.run_pages import STYLE

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.5, 0.9 + 0.2 * len(rows)))
        colors = [FASTER if row.ratio >= 1 else SLOWER for row in rows]
        axes.barh([row.name for row in rows], [row.ratio for row in rows], color=colors, height=0.7)
        axes.axvline(1, color="#555555", linewidth=1)
        for index, row in enumerate(rows):
            axes.text(row.ratio * 1.03, index, f"{row.ratio:g}", va="center", fontsize=7, color="#333333")
        axes.set_xscale("log")
        axes.set_xticks([0.25, 0.5, 1, 2, 4, 8, 16], ["1/4", "1/2", "1", "2", "4", "8", "16"])
        axes.set_xticks([], minor=True)
        axes.set_xlim(min(0.4, *(row.ratio * 0.8 for row in rows)), max(row.ratio for row in rows) * 1.3)
        axes.tick_params(axis="y", labelsize=7.5, length=0)
        axes.invert_yaxis()
        axes.margins(y=0.01)
        axes.set_title(f"{title} (above 1: dynograd is faster)", fontsize=9, loc="left")
        figure.savefig(file, metadata={"Date": None})
        plt.close(figure)


def _draw_batches(times: dict[str, dict[int, float]], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from tools.site.run_pages import STYLE

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7.5, 3.6))
        for side, line in times.items():
            color = FASTER if side.startswith("dynograd") else SLOWER
            dashes = "-" if side.endswith(".compile") else "--"
            axes.plot(
                list(line), [1e3 * seconds for seconds in line.values()], dashes, color=color, marker="o", label=side
            )
        sizes = list(next(iter(times.values())))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("batch size")
        axes.set_ylabel("ms a step")
        axes.legend(frameon=False)
        axes.set_title(
            "A training step of an MLP (784-256-128-10, AdamW), as written and compiled", fontsize=9, loc="left"
        )
        figure.savefig(file, metadata={"Date": None})
        plt.close(figure)
