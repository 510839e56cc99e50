"""Ragged tensors in notebooks: each row a bar as long as the row, coloured by its values; and statistics of the rows' lengths."""

from __future__ import annotations

import itertools
import math
from html import escape
from typing import Any

import numpy

from dynograd import arrays
from dynograd.ragged.partitions import Partition, RaggedSize

__all__ = ["RowStatistics", "rows_html"]

_ROWS, _CELLS = 20, 48  # at most so many bars, and so many colours in one
_LABELS, _BARS, _TALL = 110, 560, 14
_COOL, _WARM, _UNKNOWN = (33, 102, 172), (178, 24, 43), "#999999"
_STEPS = 8  # shades of each colour
_BINS = 24


def rows_html(x: Any) -> str:
    """The HTML of a ragged tensor: bars for the first and the last rows, and what the batch is in a line below.

    A cell is an element along the row's ragged dim, or the mean of several where a row has more than fit; its colour is the mean over
    the other dims, blue below 0 and red above, white at 0 and grey where it is no number.
    """
    count = x.partition.count
    shown: list[int | None] = list(range(count))
    if count > _ROWS:
        shown = [*range(_ROWS // 2), None, *range(count - _ROWS // 2, count)]
    cells = {number: _cells(x.detach()[number], _axis(x)) for number in shown if number is not None}
    lengths = {number: len(row) for number, row in cells.items()}
    longest = max(lengths.values(), default=0)
    together = {number: _together(row, longest) for number, row in cells.items()}
    numbers = [abs(value) for row in together.values() for value in row if math.isfinite(value)]
    most = max(numbers, default=0.0) or 1.0
    height = _TALL * len(shown) + 4
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABELS + _BARS + 4}" height="{height}" '
        f'viewBox="0 0 {_LABELS + _BARS + 4} {height}" font-family="monospace" font-size="10" role="img" '
        f'aria-label="rows of a ragged tensor as bars">'
    ]
    for line, number in enumerate(shown):
        top = 2 + _TALL * line
        if number is None:
            text = f"{count - _ROWS:,} more rows"
            lines.append(f'<text x="{_LABELS}" y="{top + 10}" fill="currentColor">\N{VERTICAL ELLIPSIS} {text}</text>')
            continue
        label = f"{number}: {_size_text(x, number)}"
        lines.append(
            f'<text x="{_LABELS - 6}" y="{top + 10}" text-anchor="end" fill="currentColor">{escape(label)}</text>'
        )
        lines.extend(_bar(together[number], _BARS * lengths[number] / max(longest, 1), top, most))
    summary = f"{RowStatistics(x)}"
    dtype = str(x.dtype).removeprefix("dynograd.")
    told = f"RaggedTensor {tuple(x.shape)} {dtype} on {x.device}; {summary}; colours from -{most:.3g} (blue) to {most:.3g} (red)"
    return "".join([*lines, "</svg>", f'<div style="font-family:monospace;font-size:11px">{escape(told)}</div>'])


def _axis(x: Any) -> int:
    """Which dim of a row is the first ragged one."""
    return next(dim for dim, size in enumerate(x.shape[1:]) if isinstance(size, RaggedSize))


def _cells(row: Any, axis: int) -> numpy.ndarray:
    """A number for each element along the ragged dim: the mean over the others."""
    if row.is_nested:
        return numpy.array([_mean(part) for part in row.unbind()], numpy.float64)
    values = _real(row)
    others = tuple(dim for dim in range(values.ndim) if dim != axis)
    if values.size == 0:
        return numpy.zeros(values.shape[axis] if values.ndim else 0)
    return values.mean(others) if others else values


def _mean(row: Any) -> float:
    while row.is_nested:
        row = row.values()
    values = _real(row)
    return float(values.mean()) if values.size else 0.0


def _real(row: Any) -> numpy.ndarray:
    values = arrays.to_numpy(row.array)
    return numpy.abs(values) if values.dtype.kind == "c" else values.astype(numpy.float64)


def _together(row: numpy.ndarray, longest: int) -> list[float]:
    """The row in at most as many cells as its length has of the longest row's: each the mean of its elements."""
    cells = min(len(row), math.ceil(_CELLS * len(row) / max(longest, 1)))
    if cells in (0, len(row)):
        return [float(value) for value in row]
    edges = numpy.linspace(0, len(row), cells + 1).astype(int)
    return [float(row[start:stop].mean()) for start, stop in itertools.pairwise(edges)]


def _bar(row: list[float], width: float, top: int, most: float) -> list[str]:
    """Rectangles, one for neighbours of the same colour, and the outline."""
    rectangles: list[str] = []
    step = width / max(len(row), 1)
    colours = [_colour(value, most) for value in row]
    start = 0
    for place in range(1, len(colours) + 1):
        if place == len(colours) or colours[place] != colours[start]:
            x, wide = _LABELS + start * step, (place - start) * step
            rectangles.append(
                f'<rect x="{x:.1f}" y="{top}" width="{wide:.1f}" height="{_TALL - 3}" fill="{colours[start]}"/>'
            )
            start = place
    outline = f'<rect x="{_LABELS}" y="{top}" width="{max(width, 0.5):.1f}" height="{_TALL - 3}" fill="none" stroke="#888888"/>'
    return [*rectangles, outline]


def _colour(value: float, most: float) -> str:
    if not math.isfinite(value):
        return _UNKNOWN
    share = round(_STEPS * min(abs(value) / most, 1.0)) / _STEPS
    red, green, blue = [round(255 + (end - 255) * share) for end in (_WARM if value > 0 else _COOL)]
    return f"#{red:02x}{green:02x}{blue:02x}"


def _size_text(x: Any, number: int) -> str:
    sizes = getattr(x.partition, "sizes", None)
    size = x.partition.lengths[number] if sizes is None else tuple(sizes[number].tolist())
    return str(size)


class RowStatistics:
    """How long the rows of a ragged tensor are; `x.statistics()`. As text a line, in notebooks a histogram.

    Attributes:
        rows: how many there are.
        total: of all lengths.
        shortest, longest, mean, median: of the lengths; 0 without rows.
        padding: which share of a padded batch would be padding.
        lengths: (rows,) int64, a NumPy array.
    """

    def __init__(self, x: Any) -> None:
        partition: Partition = x.partition
        self.lengths = numpy.array(partition.lengths)
        self.rows, self.total = len(self.lengths), int(self.lengths.sum())
        self.shortest = int(self.lengths.min()) if self.rows else 0
        self.longest = int(self.lengths.max()) if self.rows else 0
        self.mean = self.total / self.rows if self.rows else 0.0
        self.median = float(numpy.median(self.lengths)) if self.rows else 0.0
        self.padding = 1 - self.total / (self.rows * self.longest) if self.total else 0.0

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows of {self.shortest:,} to {self.longest:,} elements (mean {self.mean:.1f}, median {self.median:.1f}); "
            f"padded, {self.padding:.0%} would be padding"
        )

    def __repr__(self) -> str:
        return f"<RowStatistics: {self}>"

    def svg(self) -> str:
        """A histogram of the lengths, as SVG.

        >>> x = dynograd.ragged_tensor([dynograd.zeros(n) for n in (3, 5, 5, 9)])
        >>> x.statistics().svg()[:4]
        '<svg'
        """
        each = math.ceil((self.longest - self.shortest + 1) / _BINS)  # lengths in a bar
        bins = math.ceil((self.longest - self.shortest + 1) / each)
        counts = numpy.bincount((self.lengths - self.shortest) // each, minlength=bins)
        wide, tall, most = 480 / bins, 110, max(int(counts.max(initial=0)), 1)
        lines = [
            '<svg xmlns="http://www.w3.org/2000/svg" width="520" height="170" viewBox="0 0 520 170" font-family="sans-serif" '
            'font-size="11" role="img" aria-label="histogram of the lengths of rows">',
            f'<text x="20" y="16" fill="currentColor">{escape(str(self))}</text>',
        ]
        for place, count in enumerate(counts.tolist()):
            height = tall * count / most
            first = self.shortest + place * each
            name = str(first) if each == 1 else f"{first} to {first + each - 1}"
            lines.append(
                f'<rect x="{20 + wide * place:.1f}" y="{140 - height:.1f}" width="{wide * 0.92:.1f}" height="{height:.1f}" fill="#3b6ea5">'
                f"<title>{name} elements: {count} rows</title></rect>"
            )
        lines.append('<path d="M20 140H500" stroke="#888888"/>')
        for place, anchor, text in ((20, "start", self.shortest), (500, "end", self.longest)):
            lines.append(
                f'<text x="{place}" y="156" text-anchor="{anchor}" fill="currentColor">{text:,} elements</text>'
            )
        return "".join([*lines, "</svg>"])

    def _repr_svg_(self) -> str:
        return self.svg()
