"""Writes the two halves of the picture of README.md and of the first page: `python -m tools.site.first_picture`.

A batch of sentences, and trees whose nodes of one height run together, with times out of docs/benchmarks.md below. On a phone the halves
stand one below the other.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs"
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
LENGTHS = (3, 14, 2, 5, 1, 4, 2)
Tree = tuple["Tree", ...]
TREES: tuple[Tree, ...] = (
    (((), ()), ((), ())),
    ((((), ()), ()), ()),
    ((), ()),
    ((), ((), ((), ()))),
)
HEIGHTS = ("#9ecae1", "#5fa2ce", "#2a7fb8", "#0b4f82")
WORD, PADDING, GREY, TEXT = "#2a7fb8", "#e9ecef", "#b4bcc4", "#263238"
WIDTH, HEIGHT, CELL = 350, 244, 15


def pictures() -> dict[str, str]:
    """Each half by the name of its file in docs/."""
    times = dict(times_of(BENCHMARKS.read_text(encoding="utf-8")))
    return {
        "what-for-sentences.svg": picture(
            "Sentences: only words are computed",
            *sentences(12, 40),
            *bars(12, 190, "padded, PyTorch", "ragged, dynograd", *times["ragged.transformer"]),
        ),
        "what-for-trees.svg": picture(
            "Trees: nodes of one colour run together",
            *trees(4, 52),
            *bars(12, 190, "node by node, PyTorch", "autobatch, dynograd", *times["dynamic.trees_25"]),
        ),
    }


def picture(title: str, *parts: str) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{TEXT}">'
    )
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    return "\n".join([head, background, text(12, 24, title, 14, "600"), *parts, "</svg>"]) + "\n"


def times_of(markdown: str) -> Iterator[tuple[str, tuple[float, float]]]:
    """(dynograd's, PyTorch's) milliseconds of each row of docs/benchmarks.md that gives both so."""
    pattern = r"^\| `([\w.]+)`[^|]*\| ([\d.]+) ms[^|]*\| ([\d.]+) ms"
    for name, own, other in re.findall(pattern, markdown, re.MULTILINE):
        yield name, (float(own), float(other))


def sentences(left: float, top: float) -> Iterator[str]:
    longest = max(LENGTHS)
    for row, length in enumerate(LENGTHS):
        for place in range(longest):
            color = WORD if place < length else PADDING
            yield box(left + place * (CELL + 3), top + row * (CELL + 3), CELL, CELL, color)
    yield text(left + longest * (CELL + 3) + 8, top + 12, "words", color=WORD)
    yield text(left + longest * (CELL + 3) + 8, top + 30, "padding", color="#7b858e")


def trees(left: float, top: float) -> Iterator[str]:
    for tree in TREES:
        width = leaves(tree) * 22
        lines: list[str] = []
        nodes: list[str] = []
        draw(tree, left, top, lines, nodes)
        yield from lines
        yield from nodes
        left += width + 10


def draw(tree: Tree, left: float, top: float, lines: list[str], nodes: list[str]) -> float:
    """Adds a tree's edges and nodes; gives where its root stands, from left to right."""
    if not tree:
        x = left + 11
    else:
        places = []
        for part in tree:
            places.append(draw(part, left, top + 32, lines, nodes))
            left += leaves(part) * 22
        x = sum(places) / len(places)
        lines += [f'<path d="M{x:g} {top:g}L{place:g} {top + 32:g}" stroke="{GREY}"/>' for place in places]
    nodes.append(f'<circle cx="{x:g}" cy="{top:g}" r="8" fill="{HEIGHTS[height(tree)]}"/>')
    return x


def leaves(tree: Tree) -> int:
    return sum(map(leaves, tree)) if tree else 1


def height(tree: Tree) -> int:
    return 1 + max(map(height, tree)) if tree else 0


def bars(left: float, top: float, other_name: str, own_name: str, own: float, other: float) -> Iterator[str]:
    """Two bars of times: PyTorch's as wide as there is room, dynograd's in proportion."""
    room = 118
    for row, (name, value, color) in enumerate(((other_name, other, GREY), (own_name, own, WORD))):
        y = top + row * 26
        yield text(left, y + 12, name)
        yield box(left + 148, y, max(2.0, room * value / other), 16, color)
        yield text(left + 154 + room * value / other, y + 12, f"{value:g} ms", weight="600" if row else "400")


def box(x: float, y: float, width: float, height: float, color: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:.4g}" height="{height:g}" rx="2" fill="{color}"/>'


def text(x: float, y: float, words: str, size: int = 12, weight: str = "400", color: str = TEXT) -> str:
    return f'<text x="{x:.4g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="{color}">{words}</text>'


def main() -> int:
    for name, drawing in pictures().items():
        (FOLDER / name).write_text(drawing, encoding="utf-8")
        print(FOLDER / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
