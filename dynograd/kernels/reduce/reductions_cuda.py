"""Reductions on CudaArrays. `dim` is None (all), an int or a tuple of ints. Half types are accumulated in float32."""

from __future__ import annotations

from math import nan, prod
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import operations
from dynograd.kernels.reduce import scans_cuda
from dynograd.kernels.reduce.reducing_cuda import (
    computed,
    dims_of,
    kept_shape,
    reduced,
    widened,
    with_kept,
)

_INT64, _INT32 = numpy.dtype(numpy.int64), numpy.dtype(numpy.int32)
_BOOL, _UINT8 = numpy.dtype(numpy.bool_), numpy.dtype(numpy.uint8)

# --- sums ----------------------------------------------------------------------------------------------------------------


def sum(input: Any, dim: Any, keepdim: bool) -> Any:
    kind = input.dtype
    if kind.kind in "iub":
        return reduced("sum", input, dim, keepdim, _INT64, _INT64)
    return reduced("sum", input, dim, keepdim, kind, computed(kind))


def sum_to(input: Any, shape: tuple[int, ...]) -> Any:
    lead = input.ndim - len(shape)
    dims = (
        *range(lead),
        *[place + lead for place, size in enumerate(shape) if size == 1 and input.shape[place + lead] != 1],
    )
    if not dims:
        return input
    kind = input.dtype
    compute = _INT64 if kind.kind in "iub" else computed(kind)
    return reduced("sum", input, dims, True, kind, compute).reshape(shape)


def spread(g: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """`g`, the gradient of a sum, at every element that went into it: a view with stride 0 where it repeats."""
    if dim is None:
        return g.as_strided(shape, (0,) * len(shape))
    places = dims_of(len(shape), dim)
    remaining = iter(g.strides)
    steps = []
    for place in range(len(shape)):
        if place not in places:
            steps.append(next(remaining))
            continue
        steps.append(0)
        if keepdim:
            next(remaining)
    return g.as_strided(shape, tuple(steps))


def mean_forward(input: Any, dim: Any, keepdim: bool) -> Any:
    kind = input.dtype
    count = prod([input.shape[place] for place in dims_of(input.ndim, dim)])
    return reduced("sum", input, dim, keepdim, kind, computed(kind), finish="divide", parameter=count or nan)


def count_nonzero(input: Any, dim: Any) -> Any:
    if input.dtype.kind in "iub":
        return reduced("sum", input, dim, False, _INT64, _INT64, "nonzero")
    if input.dtype.itemsize <= 4:  # a float32 counts to 2^24 only; a truth is a small integer
        input = input != 0
        return reduced("sum", input, dim, False, _INT64, _INT64)
    result = reduced("sum", input, dim, False, input.dtype, input.dtype, "nonzero")
    return result.astype(_INT64)


def zero_nan(input: Any) -> Any:
    """`input` with 0 in place of NaN."""
    return operations.elementwise("where", input == input, input, 0.0)


def not_nan(input: Any) -> Any:
    """1 where `input` is a number, 0 where it is NaN, in the dtype of `input`."""
    return (input == input).astype(input.dtype)


# --- truth ---------------------------------------------------------------------------------------------------------------


def any(input: Any, dim: Any, keepdim: bool) -> Any:
    return _truth("max", input, dim, keepdim)


def all(input: Any, dim: Any, keepdim: bool) -> Any:
    return _truth("min", input, dim, keepdim)


def _truth(op: str, input: Any, dim: Any, keepdim: bool) -> Any:
    """Whether the largest (or least) of the truths is 1; NaN is not zero."""
    kind = _UINT8 if input.dtype == _UINT8 else _BOOL
    input = input != 0 if input.dtype.kind == "c" else input
    count = prod([input.shape[place] for place in dims_of(input.ndim, dim)])
    if not count:
        result = cuda_arrays.empty(kept_shape(input.shape, dim, keepdim), kind, input.device_index)
        result.fill(op == "min")
        return result
    compute = input.dtype if input.dtype.kind == "f" and input.dtype.itemsize >= 4 else computed(input.dtype)
    if compute.kind in "iub":
        compute = _INT64 if compute.itemsize == 8 else _INT32
    return reduced(op, input, dim, keepdim, kind, compute, "nonzero")


# --- products ------------------------------------------------------------------------------------------------------------


def prod_forward(input: Any, dim: Any, keepdim: bool) -> Any:
    kind = input.dtype
    if kind.kind in "iub":
        return reduced("prod", input, dim, keepdim, _INT64, _INT64)
    return reduced("prod", input, dim, keepdim, kind, computed(kind))


def prod_backward(g: Any, input: Any, output: Any, dim: Any, keepdim: bool) -> Any:
    """g times the product of all the other elements, whatever zeros there are: of those before and those behind each."""
    kind, shape = input.dtype, input.shape
    dims = dims_of(len(shape), dim)
    g = with_kept(widened(g), shape, dim)
    if not dims:
        return g.astype(kind, copy=False)
    wide = widened(input)
    rows = wide.reshape((wide.size,)) if len(dims) == len(shape) else wide
    place = 0 if rows.ndim == 1 else dims[0]
    before = scans_cuda.cumprod_forward(scans_cuda.behind_one(rows, place), place)
    turned = scans_cuda.reversed_along(rows, place)
    behind = scans_cuda.cumprod_forward(scans_cuda.behind_one(turned, place), place)
    others = (before * scans_cuda.reversed_along(behind, place)).reshape(shape)
    return (g * others).astype(kind, copy=False)
