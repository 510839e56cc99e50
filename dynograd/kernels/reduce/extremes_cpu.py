"""Largest and smallest elements of NumPy arrays. NaN counts as larger than everything, and as smaller; of equals the first counts."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.sizes import REDUCTIONS
from dynograd.kernels.layout.copies_cpu import contiguous
from dynograd.kernels.reduce.blocks_cpu import arg_extreme, reduced, suits
from dynograd.kernels.reduce.reductions_cpu import by_numpy, widened, with_kept
from dynograd.kernels.small import few_cpu

_COMPILED = "fdilq"  # float32, float64, int32, int64


def amax(input: Any, dim: Any, keepdim: bool) -> Any:
    return _extreme(numpy.maximum, input, dim, keepdim)


def amin(input: Any, dim: Any, keepdim: bool) -> Any:
    return _extreme(numpy.minimum, input, dim, keepdim)


def _extreme(function: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    extremes = few_cpu.extremes(input, dim, keepdim, function is numpy.maximum, False)
    if extremes is not None:
        return extremes
    if input.size >= REDUCTIONS and input.dtype.char in _COMPILED and suits(input, dim):
        return reduced("max" if function is numpy.maximum else "min", "same", input, dim, keepdim, input.dtype)
    if input.dtype.kind == "V":
        return by_numpy(function.reduce, widened(input), dim, keepdim).astype(input.dtype)
    return by_numpy(function.reduce, input, dim, keepdim)


def argmax(input: Any, dim: int | None, keepdim: bool) -> Any:
    if not input.ndim:
        return numpy.zeros((), numpy.int64)
    wide = widened(input)
    return _along(wide, dim, True, keepdim)[1] if _compiles(wide) else wide.argmax(dim, keepdims=keepdim)


def argmin(input: Any, dim: int | None, keepdim: bool) -> Any:
    if not input.ndim:
        return numpy.zeros((), numpy.int64)
    wide = widened(input)
    return _along(wide, dim, False, keepdim)[1] if _compiles(wide) else wide.argmin(dim, keepdims=keepdim)


def max_along(input: Any, dim: int, keepdim: bool) -> Any:
    """(values, indices) of the largest along `dim`."""
    result = few_cpu.extremes(input, dim, keepdim, True, True) if input.ndim else None
    if result is not None:
        return result
    wide = widened(input)
    if _compiles(wide):
        values, places = _along(wide, dim, True, keepdim)
        return values.astype(input.dtype, copy=False), places
    return _values(numpy.maximum, input, wide, dim, keepdim), argmax(wide, dim, keepdim)


def min_along(input: Any, dim: int, keepdim: bool) -> Any:
    """(values, indices) of the smallest along `dim`."""
    result = few_cpu.extremes(input, dim, keepdim, False, True) if input.ndim else None
    if result is not None:
        return result
    wide = widened(input)
    if _compiles(wide):
        values, places = _along(wide, dim, False, keepdim)
        return values.astype(input.dtype, copy=False), places
    return _values(numpy.minimum, input, wide, dim, keepdim), argmin(wide, dim, keepdim)


def _compiles(wide: Any) -> bool:
    """Places down columns are int32 there."""
    return wide.size >= REDUCTIONS and wide.dtype.char in _COMPILED and max(wide.shape) < 1 << 31


def _along(wide: Any, dim: int | None, largest: bool, keepdim: bool) -> Any:
    values, places = arg_extreme(contiguous(wide), dim, largest)
    if not keepdim:
        return values, places
    shape = [1 if dim in (None, place) else size for place, size in enumerate(wide.shape)]
    return values.reshape(shape), places.reshape(shape)


def _values(function: Any, input: Any, wide: Any, dim: int, keepdim: bool) -> Any:
    if not input.ndim:
        return input.copy()
    return by_numpy(function.reduce, wide, dim, keepdim).astype(input.dtype, copy=False)


def tie_shares(input: Any, output: Any, dim: Any, keepdim: bool) -> Any:
    """1 / n where `input` equals the extreme `output` of its row, n the number of such places, and 0 elsewhere."""
    hits = input == with_kept(output, dim, keepdim)
    counts = numpy.add.reduce(hits, dim, numpy.int64, None, True)
    wide = numpy.float64 if input.dtype.itemsize == 8 else numpy.float32
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return numpy.true_divide(hits, counts.astype(wide), dtype=wide).astype(input.dtype, copy=False)
