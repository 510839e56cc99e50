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


def rows_below(text: str, heading: str) -> Iterator[Row]:
    """The rows of the first table below a heading that has a column torch / dynograd with one ratio in it."""
    match = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    if match is None:
        raise ValueError(f"docs/benchmarks.md has no heading {heading!r}, from which a plot is drawn.")
    lines = iter(match[1].split("\n"))
    header = next((line for line in lines if line.startswith("|") and "torch / dynograd" in line), None)
    if header is None:
        raise ValueError(f"docs/benchmarks.md has no table with a column torch / dynograd below {heading!r}.")
    column = next(index for index, cell in enumerate(_cells(header)) if cell.startswith("torch / dynograd"))
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        cells = _cells(line)
        ratio = re.fullmatch(r"([\d.]+)(?: \(.*\))?", cells[column])
        if ratio:
            yield Row(_short(cells[0]), float(ratio[1]))


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
