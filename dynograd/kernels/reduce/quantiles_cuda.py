"""Medians and modes along a dim of CudaArrays, as (values, indices): of sorted rows."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import operations
from dynograd.kernels.index import masks_triton
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.reduce import quantiles_triton, scans_cuda
from dynograd.kernels.reduce.extremes_cuda import argmax
from dynograd.kernels.sort import sorting_cuda

_INT64 = numpy.dtype(numpy.int64)


def median(input: Any, dim: int, keepdim: bool, ignore_nan: bool) -> Any:
    """The lower of the two middle elements; the first NaN where there is one, unless `ignore_nan` (then only where all are)."""
    return sorting_cuda.kth(input, 0, dim % max(input.ndim, 1), keepdim, 2 if ignore_nan else 1)


def mode(input: Any, dim: int, keepdim: bool) -> Any:
    """The most frequent element, of several the smallest, and the last place where it stands. NaN equals nothing."""
    rows, values, places = _rows_and_results(input, dim)
    if places.size and input.ndim:
        last = rows.ndim - 1
        rows, order = sorting_cuda.sort(rows, last, False)
        n = rows.shape[-1]
        line = cuda_arrays.empty((n,), _INT64, rows.device_index)
        masks_triton.counting((-(-n // 1024),), line, n, BLOCK=1024)
        starts = cuda_arrays.empty(rows.shape, _INT64, rows.device_index)
        starts[..., :1] = 0
        if n > 1:
            starts[..., 1:] = operations.elementwise("where", rows[..., 1:] != rows[..., :-1], line[1:], 0)
        lengths = line - scans_cuda.cummax(starts, last)[0]
        best = argmax(lengths, last, False)
        quantiles_triton.picked(
            (-(-places.size // 128),), rows, order, best, values, places, places.size, n, BLOCK=128
        )  # fmt: skip
    return _back(values, places, input, dim, keepdim)


def _rows_and_results(input: Any, dim: int) -> tuple[Any, Any, Any]:
    """(rows along the last dim, a value and a place for each); of an input without dims the results themselves."""
    index = input.device_index
    if not input.ndim:
        places = cuda_arrays.empty((), _INT64, index)
        places.fill(0)
        return input, input.copy(), places
    dim %= input.ndim
    rows = input if dim == input.ndim - 1 else input.swapaxes(dim, input.ndim - 1)
    rows = contiguous(rows)
    left = rows.shape[:-1]
    return rows, cuda_arrays.empty(left, input.dtype, index), cuda_arrays.empty(left, _INT64, index)


def _back(values: Any, places: Any, input: Any, dim: int, keepdim: bool) -> Any:
    """Results of rows in the places of the input's other dims."""
    if not input.ndim:
        return values, places
    dim %= input.ndim
    last = input.ndim - 1
    kept = (*input.shape[:dim], 1, *input.shape[dim + 1 :])
    shape = kept if keepdim else (*kept[:dim], *kept[dim + 1 :])
    if dim != last and prod(values.shape):
        values, places = (value.reshape((*value.shape, 1)).swapaxes(dim, last).copy() for value in (values, places))
    return values.reshape(shape), places.reshape(shape)


def whole_places(input: Any, rounding: str) -> Any:
    name = {"lower": "floor", "higher": "ceil", "nearest": "round"}[rounding]
    return operations.elementwise(name, input).astype(_INT64)
