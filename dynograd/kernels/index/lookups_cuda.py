"""Where values are, which there are and how often, on CudaArrays. Results whose size depends on values wait for the device once."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.kernels.build import faults_cuda as faults
from dynograd.kernels.index import lookups_triton as kernels
from dynograd.kernels.index.scatters_cuda import add_slices, along, runs_of, sent_to, take, true_places
from dynograd.kernels.layout.copies_cuda import bits, contiguous, copied, is_big, is_half, zeros
from dynograd.kernels.sort.sorting_cuda import argsort, sort

_INT64, _FLOAT64 = numpy.dtype(numpy.int64), numpy.dtype(numpy.float64)
_BLOCK = 1024  # elements of a program, 8 for each thread of Triton's 4 warps


def nonzero(x: CudaArray) -> CudaArray:
    """(N, ndim) int64 positions of the nonzero elements, in row-major order."""
    places = true_places(x if x.dtype.kind == "b" else operations.elementwise("ne", x, 0))
    if x.ndim == 1:
        return places.reshape((places.size, 1))
    positions = cuda_arrays.empty((places.size, x.ndim), _INT64, x.device_index)
    step = x.size
    grid = (-(-places.size // _BLOCK),)
    for dim, size in enumerate(x.shape):
        step //= size or 1
        kernels.coordinates(grid, places, positions, step, size, dim, x.ndim, places.size, BLOCK=_BLOCK)
    return positions


def one_hot(x: CudaArray, classes: int) -> CudaArray:
    """int64 with a new last dim: 1 at the class, else 0."""
    out = cuda_arrays.empty((*x.shape, classes), _INT64, x.device_index)
    if out.size:
        kernels.class_bits(
            (-(-out.size // _BLOCK),), contiguous(x), out, classes, out.size, BIG=is_big(out.size), BLOCK=_BLOCK
        )
    return out


def bincount(x: CudaArray, weights: CudaArray | None, minlength: int) -> CudaArray:
    """How often each of 0, 1, ... occurs, or the sum of its weights (added up in float64). Waits for the largest."""
    size = max(minlength, x.max().item() + 1 if x.size else 0)
    if weights is None:
        return counted(x, size)
    kind = weights.dtype if weights.dtype.kind in "fV" else _FLOAT64
    result = zeros((size,), _FLOAT64, x.device_index)
    add_slices(result, 0, x.astype(_INT64, copy=False), weights.astype(_FLOAT64), "bincount", False)
    return result.astype(kind, copy=False)


def counted(x: CudaArray, size: int) -> CudaArray:
    """(size,) int64: how often each of 0 to size - 1 occurs."""
    result = zeros((size,), _INT64, x.device_index)
    if x.size:
        number = faults.site("bincount", x, 0, size)
        fault, flat = faults.word(x.device_index), contiguous(x)
        kernels.count_values((-(-x.size // _BLOCK),), flat, result, fault, number, size, x.size, BLOCK=_BLOCK)
    return result


def unique(x: CudaArray, dim: int | None, wants_inverse: bool = True) -> tuple[CudaArray, CudaArray, CudaArray]:
    """(values, inverse, counts): the distinct elements in ascending order, or the distinct slices along `dim`."""
    if dim is None:
        flat = contiguous(x).reshape(-1)
        ordered, order = sort(flat, 0, False)
        values, numbers, counts = _runs_of_numbers(ordered)
        return values, sent_to(order, numbers).reshape(x.shape), counts
    rows = _front(x, dim)
    order = _order_of_rows(rows)
    values, numbers, counts = _runs(take(rows, order, 0, ""))
    return _from_front(values, dim), sent_to(order, numbers), counts


def unique_consecutive(
    x: CudaArray, dim: int | None, wants_inverse: bool = True, wants_counts: bool = True
) -> tuple[CudaArray, CudaArray, CudaArray]:
    """(values, inverse, counts): only the first of each run of equal elements (or slices along `dim`)."""
    if dim is None:
        values, inverse, counts = _runs_of_numbers(contiguous(x).reshape(-1))
        return values, inverse.reshape(x.shape), counts
    values, inverse, counts = _runs(_front(x, dim))
    return _from_front(values, dim), inverse, counts


def _front(x: CudaArray, dim: int) -> CudaArray:
    order = (dim, *[other for other in range(x.ndim) if other != dim])
    return contiguous(x.transpose(order))


def _from_front(x: CudaArray, dim: int) -> CudaArray:
    order = (*range(1, dim + 1), 0, *range(dim + 1, x.ndim))
    return contiguous(x.transpose(order))


def _order_of_rows(rows: CudaArray) -> CudaArray:
    """What sorts rows by their first element, then by their second, ...: a stable sort by each column, from the last."""
    count = rows.shape[0]
    flat = rows.reshape((count, prod(rows.shape[1:])))
    order = None
    for column in range(flat.shape[1] - 1, -1, -1):
        line = copied(flat[:, column])
        next_order = argsort(line if order is None else take(line, order, 0, ""), 0, False)
        order = next_order if order is None else take(order, next_order, 0, "")
    if order is None:
        order = cuda_arrays.from_numpy(numpy.arange(count), rows.device_index)
    return order


def _runs_of_numbers(x: CudaArray) -> tuple[CudaArray, CudaArray, CudaArray]:
    fresh = cuda_arrays.empty(x.shape, numpy.int8, x.device_index)
    if x.size:
        floating = x.dtype.kind not in "iub"
        numbers = x.astype(numpy.float32) if is_half(x.dtype) else x if floating else bits(x)
        grid = (-(-x.size // _BLOCK),)
        kernels.begins_run_of_numbers(grid, numbers, fresh, x.size, BLOCK=_BLOCK)
    return _cut(x, fresh)


def _runs(rows: CudaArray) -> tuple[CudaArray, CudaArray, CudaArray]:
    """(first rows of the runs of equal rows, number of its run for each row, lengths)."""
    count = rows.shape[0]
    fresh = cuda_arrays.empty((count,), numpy.int8, rows.device_index)
    if count:
        numbers = rows.astype(numpy.float32) if is_half(rows.dtype) else rows if rows.dtype.kind == "f" else bits(rows)
        columns = prod(rows.shape[1:])
        block = min(1 << max(columns - 1, 0).bit_length(), 1024)
        kernels.begins_run((count,), numbers, fresh, count, columns, BLOCK=block)
    return _cut(rows, fresh)


def _cut(rows: CudaArray, fresh: CudaArray) -> tuple[CudaArray, CudaArray, CudaArray]:
    starts, numbers = runs_of(fresh)
    ends = cuda_arrays.empty(starts.shape, _INT64, rows.device_index)
    if starts.size:
        ends[:-1] = starts[1:]
        ends[-1:] = rows.shape[0]
    return take(rows, starts, 0, ""), numbers, ends - starts


def searchsorted(
    boundaries: CudaArray, values: CudaArray, side: str, sorter: CudaArray | None, dtype: Any
) -> CudaArray:
    """Where each value belongs in its sorted row: the leading dims of the two agree, or `boundaries` is one row for all."""
    if sorter is not None:
        boundaries = along(contiguous(boundaries), boundaries.ndim - 1, contiguous(sorter))
    return places_among(boundaries, values, side == "right", dtype)


def places_among(boundaries: CudaArray, values: CudaArray, right: bool, dtype: Any = _INT64) -> CudaArray:
    """Where each value belongs: in front of equal elements, or behind them when `right`."""
    boundaries, values = _comparable(boundaries, values)
    out = cuda_arrays.empty(values.shape, dtype, values.device_index)
    if out.size:
        size = boundaries.shape[-1]
        kernels.search(
            (-(-out.size // _BLOCK),), boundaries, values, out, size, values.shape[-1] if values.ndim else 1, size.bit_length(),
            out.size, ROWS=boundaries.ndim > 1, RIGHT=right, BLOCK=_BLOCK,
        )  # fmt: skip
    return out


def _comparable(first: CudaArray, other: CudaArray) -> tuple[CudaArray, CudaArray]:
    """Two arrays in one dtype in which kernels compare them."""
    kinds = [numpy.dtype(numpy.float32) if is_half(x.dtype) else x.dtype for x in (first, other)]
    kind = numpy.result_type(*kinds)
    if kind.kind in "iub" and kind != numpy.uint64:
        kind = _INT64
    return contiguous(first, kind), contiguous(other, kind)


def isin(x: CudaArray, tested: CudaArray, invert: bool) -> CudaArray:
    """bool: whether each element occurs in `tested`."""
    values, rows = _comparable(x, tested.reshape(-1))
    out = cuda_arrays.empty(x.shape, numpy.bool_, x.device_index)
    if out.size:
        rows = sort(rows, 0, False)[0]
        grid = (-(-out.size // _BLOCK),)
        kernels.contains(
            grid, rows, values, bits(out), rows.size, rows.size.bit_length(), out.size, INVERT=invert, BLOCK=_BLOCK
        )
    return out
