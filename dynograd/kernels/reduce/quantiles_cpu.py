"""Medians and modes along a dim of NumPy arrays, as (values, indices)."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.sizes import COMPILED_PASS
from dynograd.kernels.reduce.reductions_cpu import widened
from dynograd.kernels.small.few_cpu import lower_median
from dynograd.kernels.sort.sorting_cpu import found_at, kth, ordered_rows, take_along


def median_of_all(input: Any, ignore_nan: bool) -> Any:
    """`median` of all elements."""
    result = None if ignore_nan else lower_median(input)
    return median(input.reshape(-1), 0, False, ignore_nan)[0] if result is None else result


def median(input: Any, dim: int, keepdim: bool, ignore_nan: bool) -> Any:
    """The lower of the two middle elements; the first NaN where there is one, unless `ignore_nan` (then only where all are)."""
    if not input.ndim:
        return input.copy(), numpy.zeros((), numpy.int64)
    return kth(input, (input.shape[dim] - 1) // 2, dim, keepdim, 2 if ignore_nan else 1)


def mode(input: Any, dim: int, keepdim: bool) -> Any:
    """The most frequent element, of several the smallest, and the last place where it stands. NaN equals nothing."""
    if not input.ndim:
        return input.copy(), numpy.zeros((), numpy.int64)
    if input.size >= COMPILED_PASS:
        rows, ordered, order = ordered_rows(input, dim)
        size = rows.shape[-1]
        best = numpy.empty((*rows.shape[:-1], 1), numpy.int64)
        from dynograd.kernels.index.searches_numba import longest_runs

        longest_runs(ordered.reshape(-1), size, best.reshape(-1), count=best.size, work=rows.size)
        return found_at(input, take_along(order, best, rows.ndim - 1), dim, keepdim)
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
