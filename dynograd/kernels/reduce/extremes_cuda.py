"""Largest and smallest elements of CudaArrays. NaN counts as larger than everything, and as smaller; of equals the first counts."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.kernels.elementwise.loops_cuda import triton_type
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.reduce import reductions_triton as device
from dynograd.kernels.reduce.reducing_cuda import (
    computed,
    cut,
    first_of,
    in_three,
    kept_shape,
    reduced,
    tiles,
    with_kept,
)

_INT64, _INT32 = numpy.dtype(numpy.int64), numpy.dtype(numpy.int32)


def amax(input: Any, dim: Any, keepdim: bool) -> Any:
    return reduced("max", input, dim, keepdim, input.dtype, _compute(input.dtype))


def amin(input: Any, dim: Any, keepdim: bool) -> Any:
    return reduced("min", input, dim, keepdim, input.dtype, _compute(input.dtype))


def _compute(kind: Any) -> Any:
    if kind.kind in "iub":
        if kind.name == "uint64":
            return kind
        return _INT64 if kind.itemsize == 8 or kind.name == "uint32" else _INT32
    return computed(kind)


def argmax(input: Any, dim: int | None, keepdim: bool) -> Any:
    return _along(input, dim, True, keepdim)[1]


def argmin(input: Any, dim: int | None, keepdim: bool) -> Any:
    return _along(input, dim, False, keepdim)[1]


def max_along(input: Any, dim: int, keepdim: bool) -> Any:
    """(values, indices) of the largest along `dim`."""
    return _along(input, dim, True, keepdim)


def min_along(input: Any, dim: int, keepdim: bool) -> Any:
    """(values, indices) of the smallest along `dim`."""
    return _along(input, dim, False, keepdim)


def _along(input: Any, dim: int | None, largest: bool, keepdim: bool) -> Any:
    if not input.ndim:
        places = cuda_arrays.empty((), _INT64, input.device_index)
        places.fill(0)
        return input.copy(), places
    x = contiguous(input)
    outer, n, inner = (1, x.size, 1) if dim is None else in_three(x.shape, dim % x.ndim)
    values, places = _over(x, x, outer, n, inner, largest, False)
    shape = kept_shape(input.shape, dim, keepdim)
    return values.reshape(shape), places.reshape(shape)


def _over(x: Any, places_in: Any, outer: int, n: int, inner: int, largest: bool, has_places: bool) -> Any:
    rows, block, blocks, programs = tiles(outer, n, inner)
    segment, splits = cut(n, block, programs)
    compute = _compute(x.dtype)
    values = cuda_arrays.empty((outer * splits * inner,), x.dtype, x.device_index)
    places = cuda_arrays.empty((outer * splits * inner,), _INT64, x.device_index)
    first = first_of("max" if largest else "min", compute)
    place = triton_type(_INT32 if n < 1 << 31 and not has_places else _INT64)
    device.extreme(
        (programs, splits), x, places_in, values, places, outer, n, inner, blocks, splits, segment,
        FIRST=first, GREATEST=largest, GIVEN=has_places, ACC=triton_type(compute), PLACE=place, INNER=inner > 1, ROWS=rows,
        BLOCK=block,
    )  # fmt: skip
    return (values, places) if splits == 1 else _over(values, places, outer, splits, inner, largest, True)


def tie_shares(input: Any, output: Any, dim: Any, keepdim: bool) -> Any:
    """1 / n where `input` equals the extreme `output` of its row, n the number of such places, and 0 elsewhere."""
    hits = input == with_kept(output, input.shape, dim)
    wide = numpy.dtype("float64" if input.dtype.itemsize == 8 else "float32")
    counts = reduced("sum", hits, dim, True, wide, _INT64)
    return (hits.astype(wide) / counts).astype(input.dtype, copy=False)
