"""What follows from the offsets of a ragged input: bounds and lengths of rows, places in them, and parts of rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from dynograd.arrays import ndarray

__all__ = ["longest_of_rows", "number_of_rows", "part_of_rows", "rows_of_padded"]

_FURTHEST = 8  # by which rows are rolled, and what is cut off them
_WIDEST_STEP = 4
_MOST_ROWS = 4  # that are taken from the front or the end, or left out there


class _Rows:
    """The nodes of rows with these offsets; each is written when it is first asked for, and left out of the model if none needs it."""

    def __init__(self, builder: Any, offsets: str) -> None:
        self.builder, self.offsets = builder, offsets
        self.ints, self.node = builder.ints, builder.node

    @functools.cached_property
    def starts(self) -> str:
        return str(self.node("Slice", [self.offsets, self.ints(0), self.ints(-1)]))

    @functools.cached_property
    def ends(self) -> str:
        return str(self.node("Slice", [self.offsets, self.ints(1), self.ints(2**62)]))

    @functools.cached_property
    def lengths(self) -> str:
        return self.binary("Sub", self.ends, self.starts)

    @functools.cached_property
    def longest(self) -> str:
        """Of no rows 0."""
        return str(self.node("ReduceMax", [self.node("Concat", [self.lengths, self.ints(0)], axis=0)], keepdims=1))

    @functools.cached_property
    def total(self) -> str:
        """The number of values."""
        return str(self.node("Slice", [self.offsets, self.ints(-1), self.ints(2**62)]))

    @functools.cached_property
    def places(self) -> str:
        """0 up to the number of values."""
        return self.range(self.total)

    @functools.cached_property
    def numbers(self) -> str:
        """The row of each value."""
        behind = self.node("GreaterOrEqual", [self.node("Unsqueeze", [self.places, self.ints(1)]), self.starts])
        counts = self.node("ReduceSum", [self.builder.cast(behind, numpy.int64), self.ints(1)], keepdims=0)
        return self.binary("Sub", str(counts), self.ints(1))

    @functools.cached_property
    def within(self) -> str:
        """The place of each value in its row."""
        return self.binary("Sub", self.places, self.of_values(self.starts))

    def range(self, count: str) -> str:
        """0 up to a number, which is a tensor of one element."""
        zero, step = self.builder.constant(0, numpy.int64), self.builder.constant(1, numpy.int64)
        return str(self.node("Range", [zero, self.node("Squeeze", [count]), step]))

    def of_values(self, of_rows: str) -> str:
        """What a row has, for each of its values."""
        return str(self.node("Gather", [of_rows, self.numbers], axis=0))

    def binary(self, kind: str, first: str, second: str) -> str:
        return str(self.node(kind, [first, second]))

    def cut(self, lengths: str) -> _Rows:
        """Rows of these lengths, behind one another."""
        summed = self.node("CumSum", [lengths, self.builder.constant(0, numpy.int64)])
        return _Rows(self.builder, str(self.node("Concat", [self.ints(0), summed], axis=0)))

    def at(self, mask: str) -> str:
        """The places where a mask of the values holds."""
        return str(self.node("Squeeze", [self.node("NonZero", [mask]), self.ints(0)]))


Pattern = tuple[Callable[[ndarray], ndarray], Callable[[_Rows], str]]
"""What arrays of NumPy are, from the offsets, and the node that is the same."""


def _bounds_of(change: Callable[[ndarray], ndarray], rows_of: Callable[[_Rows], _Rows]) -> Iterator[Pattern]:
    """What is told of rows: their offsets are a function of those of the input."""
    yield change, lambda rows: rows_of(rows).offsets
    yield lambda offsets: change(offsets)[:-1], lambda rows: rows_of(rows).starts
    yield lambda offsets: change(offsets)[1:], lambda rows: rows_of(rows).ends
    yield lambda offsets: change(offsets)[1:] - 1, lambda rows: rows.binary("Sub", rows_of(rows).ends, rows.ints(1))
    yield lambda offsets: numpy.diff(change(offsets)), lambda rows: rows_of(rows).lengths
    yield lambda offsets: _numbers(change(offsets)), lambda rows: rows_of(rows).numbers


def _numbers(offsets: ndarray) -> ndarray:
    return numpy.repeat(numpy.arange(len(offsets) - 1), numpy.diff(offsets))


def _places(offsets: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Of each value the start of its row, its place there, and the length of the row."""
    numbers = _numbers(offsets)
    starts, lengths = offsets[:-1][numbers], numpy.diff(offsets)[numbers]
    return starts, numpy.arange(offsets[-1]) - starts, lengths


def _turned(offsets: ndarray) -> ndarray:
    starts, within, lengths = _places(offsets)
    return starts + lengths - 1 - within


def _write_turned(rows: _Rows) -> str:
    """The first and the last place of the row, less the own one."""
    both = rows.binary("Sub", rows.binary("Add", rows.starts, rows.ends), rows.ints(1))
    return rows.binary("Sub", rows.of_values(both), rows.places)


def _rolled(by: int) -> Pattern:
    def places(offsets: ndarray) -> ndarray:
        starts, within, lengths = _places(offsets)
        return starts + (within - by) % numpy.maximum(lengths, 1)

    def write(rows: _Rows) -> str:
        moved = rows.binary("Sub", rows.within, rows.ints(by))
        return rows.binary("Add", rows.of_values(rows.starts), rows.binary("Mod", moved, rows.of_values(rows.lengths)))

    return places, write


def _part(
    keeps: Callable[[ndarray, ndarray], ndarray],
    mask: Callable[[_Rows], str],
    change: Callable[[ndarray], ndarray],
    lengths: Callable[[_Rows], str],
) -> Iterator[Pattern]:
    """Values of rows that are kept, and what is told of the rows of these.

    Args:
        keeps: whether a value is kept, by its place in the row and the length of that.
        mask: the same as a node.
        change: the lengths of the parts, from those of the rows.
        lengths: the same as a node.
    """
    yield lambda offsets: numpy.flatnonzero(keeps(*_places(offsets)[1:])), lambda rows: rows.at(mask(rows))
    yield from _bounds_of(
        lambda offsets: numpy.concatenate([[0], numpy.cumsum(change(numpy.diff(offsets)))]),
        lambda rows: rows.cut(lengths(rows)),
    )


def _parts_by(k: int) -> Iterator[Pattern]:
    """x[:, k:], x[:, :k], x[:, :-k] and x[:, -k:]."""

    def less(rows: _Rows) -> str:
        return rows.binary("Max", rows.binary("Sub", rows.lengths, rows.ints(k)), rows.ints(0))

    def few(rows: _Rows) -> str:
        return rows.binary("Min", rows.lengths, rows.ints(k))

    yield from _part(
        lambda place, length: place >= k,
        lambda rows: rows.binary("GreaterOrEqual", rows.within, rows.ints(k)),
        lambda lengths: numpy.maximum(lengths - k, 0),
        less,
    )
    yield from _part(
        lambda place, length: place < k,
        lambda rows: rows.binary("Less", rows.within, rows.ints(k)),
        lambda lengths: numpy.minimum(lengths, k),
        few,
    )
    yield from _part(
        lambda place, length: place < length - k,
        lambda rows: rows.binary("Less", rows.within, rows.of_values(less(rows))),
        lambda lengths: numpy.maximum(lengths - k, 0),
        less,
    )
    yield from _part(
        lambda place, length: place >= length - k,
        lambda rows: rows.binary("GreaterOrEqual", rows.within, rows.of_values(less(rows))),
        lambda lengths: numpy.minimum(lengths, k),
        few,
    )


def _steps_by(k: int) -> Iterator[Pattern]:
    """x[:, ::k]."""
    yield from _part(
        lambda place, length: place % k == 0,
        lambda rows: rows.binary("Equal", rows.binary("Mod", rows.within, rows.ints(k)), rows.ints(0)),
        lambda lengths: -(-lengths // k),
        lambda rows: rows.binary("Div", rows.binary("Add", rows.lengths, rows.ints(k - 1)), rows.ints(k)),
    )


def _padded(offsets: ndarray) -> ndarray:
    """The place of each value among padded rows."""
    return _numbers(offsets) * max(numpy.diff(offsets), default=0) + _places(offsets)[1]


def _write_padded(rows: _Rows) -> str:
    return rows.binary("Add", rows.binary("Mul", rows.numbers, rows.longest), rows.within)


def _mask(offsets: ndarray) -> ndarray:
    lengths = numpy.diff(offsets)
    return numpy.arange(max(lengths, default=0)) < lengths[:, None]


def _write_mask(rows: _Rows) -> str:
    return rows.binary("Less", rows.range(rows.longest), str(rows.node("Unsqueeze", [rows.lengths, rows.ints(1)])))


def _joined(offsets: ndarray) -> ndarray:
    """The place of each value of two ragged tensors with these rows, when the rows are joined one by one."""
    starts, within, lengths = _places(2 * offsets)
    half, total = lengths // 2, offsets[-1]
    return starts // 2 + within % numpy.maximum(half, 1) + (within >= half) * total


def _write_joined(rows: _Rows) -> str:
    two = _Rows(rows.builder, rows.binary("Mul", rows.offsets, rows.ints(2)))
    half = two.of_values(rows.lengths)
    is_second = rows.builder.cast(rows.binary("GreaterOrEqual", two.within, half), numpy.int64)
    own = rows.binary("Add", two.of_values(rows.starts), rows.binary("Mod", two.within, half))
    return rows.binary("Add", own, rows.binary("Mul", is_second, rows.total))


Some = tuple[Callable[[ndarray], ndarray], Callable[[_Rows], _Rows]]
"""Some of the rows, whose values lie behind one another: their offsets, from those of all, and the nodes that are the same."""


def _span(first: int, behind: int) -> Some:
    """Rows `first` up to `behind`, which count from the end where they are negative; 0 behind is the end."""

    def change(offsets: ndarray) -> ndarray:
        begin, end, _ = slice(first, behind or None).indices(len(offsets) - 1)
        own = offsets[begin : max(begin, end) + 1]
        return own - own[0]

    def rows_of(rows: _Rows) -> _Rows:
        count = rows.binary("Sub", str(rows.node("Shape", [rows.offsets])), rows.ints(1))

        def place(number: int) -> str:
            if number < 0:
                return rows.binary("Max", rows.binary("Add", count, rows.ints(number)), rows.ints(0))
            return rows.binary("Min", count, rows.ints(number))

        begin, end = place(first), place(behind) if behind else count
        end = rows.binary("Add", rows.binary("Max", begin, end), rows.ints(1))
        own = rows.node("Slice", [rows.offsets, begin, end])
        start = rows.node("Slice", [own, rows.ints(0), rows.ints(1)])
        return _Rows(rows.builder, rows.binary("Sub", str(own), str(start)))

    return change, rows_of


def _stepped(k: int) -> tuple[Some, Pattern]:
    """Each kth row, and the places of its values."""

    def change(offsets: ndarray) -> ndarray:
        return numpy.concatenate([[0], numpy.cumsum(numpy.diff(offsets)[::k])])

    def rows_of(rows: _Rows) -> _Rows:
        lengths = rows.node("Slice", [rows.lengths, rows.ints(0), rows.ints(2**62), rows.ints(0), rows.ints(k)])
        return rows.cut(str(lengths))

    def mask(rows: _Rows) -> str:
        return rows.binary("Equal", rows.binary("Mod", rows.numbers, rows.ints(k)), rows.ints(0))

    places = lambda offsets: numpy.flatnonzero(_numbers(offsets) % k == 0)  # noqa: E731
    return (change, rows_of), (places, lambda rows: rows.at(mask(rows)))


_SPANS: list[Some] = [
    _span(*bounds)
    for k in range(1, _MOST_ROWS + 1)
    for bounds in ((0, k), (k, 0), (0, -k), (-k, 0), (k - 1, k), (-k, 1 - k))
]
_STEPPED = [_stepped(k) for k in range(2, _WIDEST_STEP + 1)]
_SOME: list[Some] = [*_SPANS, *[some for some, _ in _STEPPED]]
_OF_ANY_ROWS: list[Pattern] = [
    *_bounds_of(lambda offsets: offsets, lambda rows: rows),
    (_turned, _write_turned),
    (lambda offsets: _places(offsets)[1], lambda rows: rows.within),
    (_padded, _write_padded),
    (_mask, _write_mask),
]


def _of_some(some: Some, pattern: Pattern) -> Pattern:
    """What is told of any rows, of these."""
    (change, rows_of), (part, write) = some, pattern
    return lambda offsets: part(change(offsets)), lambda rows: write(rows_of(rows))


_PATTERNS: list[Pattern] = [
    *_OF_ANY_ROWS,
    (_joined, _write_joined),
    *_bounds_of(
        lambda offsets: 2 * offsets, lambda rows: _Rows(rows.builder, rows.binary("Mul", rows.offsets, rows.ints(2)))
    ),
    *[pattern for k in range(1, _FURTHEST + 1) for pattern in _parts_by(k)],
    *[pattern for k in range(2, _WIDEST_STEP + 1) for pattern in _steps_by(k)],
    *[_rolled(by) for k in range(1, _FURTHEST + 1) for by in (k, -k)],
    *[places for _, places in _STEPPED],
    *[_of_some(some, pattern) for some in _SOME for pattern in _OF_ANY_ROWS],
]


def part_of_rows(builder: Any, name: str, offsets: Sequence[ndarray], samples: Sequence[ndarray]) -> str:
    """What follows from the offsets of a ragged input, if these arrays do: written, its name; else ""."""
    if samples[0].dtype.kind not in "iub":
        return ""
    for part, write in _PATTERNS:
        if all([_is_same(part(own), sample) for own, sample in zip(offsets, samples)]):
            written = write(_Rows(builder, name))
            return written if samples[0].dtype in (numpy.int64, bool) else str(builder.cast(written, samples[0].dtype))
    return ""


def number_of_rows(builder: Any, name: str, offsets: Sequence[ndarray], values: Sequence[int]) -> str:
    """A number that these are: of values in some of the rows of a ragged input, in the longest of them, or in all when they are padded to that.

    Returns:
        The name of what is written; "": it is none of these.
    """
    if len(offsets) != len(values):
        return ""
    for change, rows_of in _SOME:
        parts = [change(own) for own in offsets]
        longest = [int(max(numpy.diff(part), default=0)) for part in parts]
        padded = [(len(part) - 1) * size for part, size in zip(parts, longest)]
        for own, write in (
            ([int(part[-1]) for part in parts], lambda rows: rows.total),
            (longest, lambda rows: rows.longest),
            (padded, _write_padded_count),
        ):
            if own == [*values]:
                return write(rows_of(_Rows(builder, name)))
    return ""


def _write_padded_count(rows: _Rows) -> str:
    return rows.binary("Mul", str(rows.node("Shape", [rows.lengths])), rows.longest)


def _is_same(first: ndarray, second: ndarray) -> bool:
    return (
        first.shape == second.shape
        and (first.dtype == bool) == (second.dtype == bool)
        and numpy.array_equal(first, second)
    )


def longest_of_rows(builder: Any, name: str) -> str:
    """Writes the length of the longest row with these offsets, as a tensor of one element."""
    return _Rows(builder, name).longest


def rows_of_padded(builder: Any, padded: str, lengths: str) -> tuple[str, str]:
    """Writes what padded rows hold as values behind one another, and the offsets of the rows."""
    zero, step = builder.constant(0, numpy.int64), builder.constant(1, numpy.int64)
    steps = builder.node("Squeeze", [builder.node("Shape", [padded], start=1, end=2)])
    places = builder.node("Range", [zero, steps, step])
    mask = builder.node("Less", [places, builder.node("Unsqueeze", [lengths, builder.ints(1)])])
    values = builder.node(
        "GatherND", [padded, builder.node("Transpose", [builder.node("NonZero", [mask])], perm=[1, 0])]
    )
    return values, builder.node("Concat", [builder.ints(0), builder.node("CumSum", [lengths, zero])], axis=0)
