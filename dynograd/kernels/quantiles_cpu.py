"""Medians and modes along a dim of NumPy arrays, as (values, indices)."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.reductions_cpu import widened
from dynograd.kernels.sorting_cpu import first_equal, found_at


def median(input: Any, dim: int, keepdim: bool, ignore_nan: bool) -> Any:
    """The lower of the two middle elements; the first NaN where there is one, unless `ignore_nan` (then only where all are)."""
    if not input.ndim:
        return input.copy(), numpy.zeros((), numpy.int64)
    rows = widened(input).swapaxes(dim, -1)
    size = rows.shape[-1]
    floats = rows.dtype.kind == "f"
    if floats and ignore_nan and numpy.isnan(rows).any():
        ordered = numpy.sort(rows, -1)
        counts = numpy.count_nonzero(rows == rows, -1, keepdims=True)
        middle = numpy.take_along_axis(ordered, numpy.maximum(counts - 1, 0) // 2, -1)
    else:
        middle = numpy.partition(rows, (size - 1) // 2, -1)[..., (size - 1) // 2, None]
        if floats:
            highest = rows.max(-1, keepdims=True)
            middle = numpy.where(highest != highest, highest, middle)
    return found_at(input, first_equal(rows, middle), dim, keepdim)


def mode(input: Any, dim: int, keepdim: bool) -> Any:
    """The most frequent element, of several the smallest, and the last place where it stands. NaN equals nothing."""
    if not input.ndim:
        return input.copy(), numpy.zeros((), numpy.int64)
    rows = widened(input).swapaxes(dim, -1)
    order = rows.argsort(-1, kind="stable")
    ordered = numpy.take_along_axis(rows, order, -1)
    places = numpy.arange(rows.shape[-1], dtype=numpy.int64)
    starts = numpy.zeros(rows.shape, numpy.int64)
    starts[..., 1:] = numpy.where(ordered[..., 1:] != ordered[..., :-1], places[1:], 0)
    run = places - numpy.maximum.accumulate(starts, -1)
    best = run.argmax(-1, keepdims=True)
    return found_at(input, numpy.take_along_axis(order, best, -1), dim, keepdim)


def whole_places(input: Any, rounding: str) -> Any:
    return {"lower": numpy.floor, "higher": numpy.ceil, "nearest": numpy.rint}[rounding](input).astype(numpy.int64)
