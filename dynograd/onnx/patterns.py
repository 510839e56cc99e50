"""Tensors that a program makes itself at any size: filled ones, ranges, bands of a matrix (causal masks), and repetitions of these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from dynograd.arrays import ndarray

__all__ = ["Pattern", "pattern_of"]


class Pattern(ABC):
    """What a tensor is at any size."""

    @abstractmethod
    def write(self, builder: Any) -> str:
        """Adds the nodes that make it; gives its name."""


@dataclass
class _Filled(Pattern):
    value: ndarray
    shapes: list[tuple[int, ...]]

    def write(self, builder: Any) -> str:
        return builder.node("Expand", [builder.constant(self.value), builder.numbers(self.shapes)])


@dataclass
class _FilledBySize(Pattern):
    """One whole number throughout, which follows from the sizes."""

    values: list[int]
    dtype: Any
    shapes: list[tuple[int, ...]]

    def write(self, builder: Any) -> str:
        value = builder.cast(builder.scalar(self.values), self.dtype)
        return str(builder.node("Expand", [value, builder.numbers(self.shapes)]))


@dataclass
class _Range(Pattern):
    starts: list[Any]
    step: Any
    dtype: Any
    counts: list[int]

    def write(self, builder: Any) -> str:
        name = builder.node(
            "Range", [builder.constant(0, numpy.int64), builder.scalar(self.counts), builder.constant(1, numpy.int64)]
        )
        if self.dtype != numpy.int64:
            name = builder.cast(name, self.dtype)
        if self.step != 1:
            name = builder.node("Mul", [name, builder.constant(self.step, self.dtype)])
        if len({*self.starts}) > 1:
            start = builder.scalar([int(start) for start in self.starts])
            return str(builder.node("Add", [name, builder.cast(start, self.dtype)]))
        if self.starts[0] != 0:
            name = builder.node("Add", [name, builder.constant(self.starts[0], self.dtype)])
        return name


@dataclass
class _Spaced(Pattern):
    """Numbers from `start` on, the last of which is `total` larger (or would be the next, if it is left out)."""

    start: float
    total: float
    with_last: bool
    dtype: Any
    counts: list[int]

    def write(self, builder: Any) -> str:
        places = _Range([0], 1, numpy.int64, self.counts).write(builder)
        count = builder.scalar([max(count - self.with_last, 1) for count in self.counts])
        shares = builder.node("Div", [builder.cast(name, numpy.float64) for name in (places, count)])
        name = builder.node("Mul", [shares, builder.constant(self.total, numpy.float64)])
        return str(builder.cast(builder.node("Add", [name, builder.constant(self.start, numpy.float64)]), self.dtype))


@dataclass
class _Eye(Pattern):
    """`value` on a diagonal, and zeros."""

    value: ndarray
    diagonal: int
    shapes: list[tuple[int, ...]]

    def write(self, builder: Any) -> str:
        zeros = _Filled(numpy.zeros((), numpy.float32), self.shapes).write(builder)
        name = builder.cast(builder.node("EyeLike", [zeros], k=self.diagonal), self.value.dtype)
        return str(name if self.value == 1 else builder.node("Mul", [name, builder.constant(self.value)]))


@dataclass
class _Band(Pattern):
    """`inside` on and below a diagonal, `outside` above it."""

    inside: ndarray
    outside: ndarray
    diagonals: list[int]
    shapes: list[tuple[int, ...]]

    def write(self, builder: Any) -> str:
        rows, columns = [[shape[axis] for shape in self.shapes] for axis in (0, 1)]
        zero, step = builder.constant(0, numpy.int64), builder.constant(1, numpy.int64)
        row = builder.node("Unsqueeze", [builder.node("Range", [zero, builder.scalar(rows), step]), builder.ints(1)])
        column = builder.node("Range", [zero, builder.scalar(columns), step])
        last = builder.node("Add", [row, builder.number(self.diagonals)])
        truth = builder.node("LessOrEqual", [column, last])
        if self.inside.dtype == bool:
            return str(truth if self.inside else builder.node("Not", [truth]))
        return builder.node("Where", [truth, builder.constant(self.inside), builder.constant(self.outside)])


@dataclass
class _Repeated(Pattern):
    """Another pattern, again and again along axes that it has not."""

    pattern: Pattern
    axes: list[int]
    shapes: list[tuple[int, ...]]

    def write(self, builder: Any) -> str:
        name = builder.node("Unsqueeze", [self.pattern.write(builder), builder.ints(*self.axes)])
        return str(builder.node("Expand", [name, builder.numbers(self.shapes)]))


def pattern_of(samples: Sequence[ndarray]) -> Pattern | None:
    """What these arrays are, at sizes that differ; None: none of the patterns."""
    first = samples[0]
    filled = [sample for sample in samples if sample.size]
    if any([sample.dtype != first.dtype or sample.ndim != first.ndim for sample in samples]) or not filled:
        return None
    value = filled[0].reshape(-1)[0]
    if all([bool((sample == value).all()) for sample in samples]):
        return _Filled(numpy.array(value, first.dtype), [sample.shape for sample in samples])
    if len(filled) < len(samples):
        return None
    if first.dtype.kind in "iuf" and all([bool((sample == sample.reshape(-1)[0]).all()) for sample in samples]):
        values = [float(sample.reshape(-1)[0]) for sample in samples]
        if all([number.is_integer() for number in values]):
            return _FilledBySize([int(number) for number in values], first.dtype, [sample.shape for sample in samples])
    if first.ndim == 1 and first.dtype.kind in "if" and first.size > 1:
        return _range_of(samples) or _spaced_of(samples)
    pattern = _band_of(samples) or _eye_of(samples) if first.ndim == 2 else None
    return pattern or _repeated_of(samples)


def _repeated_of(samples: Sequence[ndarray]) -> Pattern | None:
    axes = [
        axis
        for axis in range(samples[0].ndim)
        if all([bool((sample == sample.take([0], axis)).all()) for sample in samples])
    ]
    if not axes:
        return None
    places = tuple([0 if axis in axes else slice(None) for axis in range(samples[0].ndim)])
    pattern = pattern_of([sample[places] for sample in samples])
    return None if pattern is None else _Repeated(pattern, axes, [sample.shape for sample in samples])


def _range_of(samples: Sequence[ndarray]) -> Pattern | None:
    first = samples[0]
    step = first[1] - first[0]
    for sample in samples:
        if not numpy.array_equal(sample, (sample[0] + numpy.arange(sample.size) * step).astype(sample.dtype)):
            return None
    starts = [sample[0] for sample in samples]
    if len({*starts}) > 1 and not all([float(start).is_integer() for start in starts]):
        return None
    return _Range(starts, step, first.dtype, [sample.size for sample in samples])


def _spaced_of(samples: Sequence[ndarray]) -> Pattern | None:
    first = samples[0]
    if first.dtype.kind != "f" or any([sample.size < 2 or sample[0] != first[0] for sample in samples]):
        return None
    start, close = float(first[0]), 4 * numpy.finfo(first.dtype).eps
    for with_last in (True, False):
        totals = [
            (float(sample[-1]) - start) * (1 if with_last else sample.size / (sample.size - 1)) for sample in samples
        ]
        total = totals[0] if with_last else round(totals[0], 6)
        exact = [start + numpy.arange(sample.size) * (total / (sample.size - with_last)) for sample in samples]
        if all([numpy.allclose(sample, own, close, close * abs(total)) for sample, own in zip(samples, exact)]):
            return _Spaced(start, total, with_last, first.dtype, [sample.size for sample in samples])
    return None


def _eye_of(samples: Sequence[ndarray]) -> Pattern | None:
    first = samples[0]
    places = numpy.argwhere(first)
    if not len(places):
        return None
    value, diagonal = first[tuple(places[0])], int(places[0][1] - places[0][0])
    for sample in samples:
        if not numpy.array_equal(sample, numpy.eye(*sample.shape, diagonal, sample.dtype) * value):
            return None
    return _Eye(numpy.array(value), diagonal, [sample.shape for sample in samples])


def _band_of(samples: Sequence[ndarray]) -> Pattern | None:
    first = samples[0]
    inside, outside = first[-1, 0], first[0, -1]
    diagonals = []
    for sample in samples:
        row = sample[0] == inside
        diagonal = int(row.argmin()) - 1 if not row.all() else sample.shape[1] - 1
        if not numpy.array_equal(sample, numpy.where(numpy.tri(*sample.shape, diagonal, bool), inside, outside)):
            return None
        diagonals.append(diagonal)
    return _Band(numpy.array(inside), numpy.array(outside), diagonals, [sample.shape for sample in samples])
