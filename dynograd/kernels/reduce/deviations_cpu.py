"""Variance and standard deviation of NumPy arrays, in two passes (mean, then squared distances), in float32 for half types.

What the distances sum to, which is 0 but for the mean's rounding, is taken off: far from 0 that rounding is more than the distances have digits for.

Over the last dims of a row-major float32 array of some size both passes run while a row is in cache.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays.buffers import in_shape
from dynograd.kernels.build.compiled_kernels import compiled_for
from dynograd.kernels.build.sizes import LOOP_OF_PASSES
from dynograd.kernels.reduce.reductions_cpu import count_of, total, widened

# Below this NumPy's five short passes cost about as much as one kernel.
_ROWS_SIZE = 256
_REAL = {"F": numpy.dtype(numpy.float32), "D": numpy.dtype(numpy.float64)}


def var_forward(input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    return _variance(input, dim, correction, keepdim).astype(_REAL.get(input.dtype.char, input.dtype), copy=False)


def std_forward(input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    return numpy.sqrt(_variance(input, dim, correction, keepdim)).astype(
        _REAL.get(input.dtype.char, input.dtype), copy=False
    )


def distance_times(g: Any, x: Any, dim: Any) -> Any:
    """(x - mean of x over `dim`) * g, where g has one number for each mean; None where the ops do as well."""
    folded = _rows(x, dim)
    if folded is None:
        return None
    kernels, rows = folded
    outer = numpy.ascontiguousarray(g, numpy.float32).reshape(-1)
    return in_shape(kernels["variance_backward"](rows, outer), x.shape)


def _rows(x: Any, dim: Any) -> Any:
    """(kernels, rows (R, C)) when `dim` are the last dims of a large row-major float32 array, else None."""
    if x.dtype.char != "f" or x.size < _ROWS_SIZE or not x.flags.c_contiguous:
        return None
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    first = min(dims)
    if len(dims) != x.ndim - first:
        return None
    rows = prod(x.shape[:first])
    kernels = compiled_for(x.size)
    return None if kernels is None or not rows else (kernels, x.reshape(rows, x.size // rows))


def _variance(input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    folded = _rows(input, dim)
    if folded is not None:
        kernels, rows = folded
        first = 0 if dim is None else dim if isinstance(dim, int) else min(dim)
        shape = (*input.shape[:first], *((1,) * (input.ndim - first) if keepdim else ()))
        return in_shape(kernels["variance"](rows, float(max(rows.shape[1] - correction, 0))), shape)
    few = input.dtype.char == "f" and input.size < LOOP_OF_PASSES
    wide = input.astype(numpy.float64) if few else widened(input)
    count = count_of(input.shape, dim)
    mean = total(wide, dim, True) / wide.dtype.type(count or 1)
    distance = wide - mean
    rest = total(distance, dim, keepdim)
    rest = (rest * rest.conj()).real
    if wide.dtype.kind == "c":
        squares = distance.real * distance.real
        squares += distance.imag * distance.imag
    else:
        squares = numpy.multiply(distance, distance, distance if distance.ndim else None)
    kind = squares.dtype.type
    sums = numpy.maximum(total(squares, dim, keepdim) - rest / kind(count or 1), kind(0))
    freedom = max(count - correction, 0)
    if freedom:
        return sums / kind(freedom)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return sums / kind(0)
