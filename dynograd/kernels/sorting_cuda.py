"""Sorting and selecting along a dim of CudaArrays. Equals keep their order (also descending), and NaN counts as the largest."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels import sorting_triton as kernels
from dynograd.kernels.copies_cuda import bits, contiguous, zeros

__all__ = ["argsort", "kthvalue", "order_of", "sort", "sums_before", "topk"]

# Rows up to here are sorted by one block; its network has 55 steps, and one of twice the size spills.
SHORT = 1024
_TILE = 1024
_MOST_OF_TILE = 256  # of a tile's elements that are kept while the first ones of a long row are looked for
_MOST = 1 << 31
_INFINITIES = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}
_INT32, _INT64 = numpy.dtype(numpy.int32), numpy.dtype(numpy.int64)


def argsort(input: CudaArray, dim: int, descending: bool) -> CudaArray:
    if not input.ndim:
        return zeros((), _INT64, input.device_index)
    return _back(_sorted(_rows(input, dim), descending, False)[1], dim)


def sort(input: CudaArray, dim: int, descending: bool) -> tuple[CudaArray, CudaArray]:
    """(values, indices)"""
    if not input.ndim:
        return input.copy(), zeros((), _INT64, input.device_index)
    values, index = _sorted(_rows(input, dim), descending, True)
    return _back(values, dim), _back(index, dim)


def topk(input: CudaArray, k: int, dim: int, largest: bool, ordered: bool) -> tuple[CudaArray, CudaArray]:
    """(values, indices) of the k largest (or smallest), of equals the first; in the order of the indices unless `ordered`."""
    if not input.ndim:
        index = zeros((), _INT64, input.device_index)
        return (input.copy(), index) if k else (input.reshape(1)[:0], index.reshape(1)[:0])
    rows = _rows(input, dim)
    values, index = _top(rows, k, largest)
    if not ordered:
        index = contiguous(_sorted(index, False, True)[0])
        values = _taken(rows, index)
    return _back(values, dim), _back(index, dim)


def kthvalue(input: CudaArray, k: int, dim: int, keepdim: bool) -> tuple[CudaArray, CudaArray]:
    """(values, indices) of the k-th smallest, counted from 1; of equals the first."""
    if not input.ndim:
        return input.copy(), zeros((), _INT64, input.device_index)
    rows = _rows(input, dim)
    size, count = rows.shape[-1], prod(rows.shape[:-1])
    device = rows.device_index
    values = cuda_arrays.empty((*rows.shape[:-1], 1), rows.dtype, device)
    index = cuda_arrays.empty(values.shape, _INT64, device)
    if count:
        order = _sorted(rows, False, False)[1]
        block = _power(count, 128)
        grid = (-(-count // block),)
        steps = k.bit_length()
        kernels.kth_of_sorted(
            grid, bits(rows), bits(values), order, index, count, size, k - 1, steps, *_image(rows.dtype)[:1],
            **_image(rows.dtype)[1], BLOCK=block,
        )  # fmt: skip
    values, index = _back(values, dim), _back(index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def order_of(keys: CudaArray, limit: int) -> CudaArray:
    """The stable ascending order of a vector of int64 from 0 to `limit`; only as many bits are looked at as `limit` has."""
    return _sorted(keys, False, False, max(limit.bit_length(), 1))[1]


def sums_before(counts: CudaArray) -> tuple[CudaArray, CudaArray]:
    """(the sum of what stands before each number along the last dim, the sum of all)."""
    ends = cuda_arrays.empty(counts.shape, counts.dtype, counts.device_index)
    totals = cuda_arrays.empty((*counts.shape[:-1], 1), counts.dtype, counts.device_index)
    size = counts.shape[-1]
    kernels.sums_before((totals.size,), counts, ends, totals, size, BLOCK=_power(size, 2048), num_warps=8)
    return ends, totals


# --- rows ----------------------------------------------------------------------------------------------------------------


def _rows(input: CudaArray, dim: int) -> CudaArray:
    """`input` with `dim` last, row by row."""
    if input.shape[dim] >= _MOST:
        raise NotImplementedError(f"sort: a dim of {input.shape[dim]} elements has no CUDA kernel; x.cpu() works.")
    return contiguous(input if dim == input.ndim - 1 else input.swapaxes(dim, -1))


def _back(rows: CudaArray, dim: int) -> CudaArray:
    return contiguous(rows if dim == rows.ndim - 1 else rows.swapaxes(-1, dim))


def _image(dtype: Any) -> tuple[int, dict[str, int]]:
    """(bits of infinity, what kernels are made for): how a dtype's bits are ordered."""
    kind = 0 if dtype.kind == "i" else 1 if dtype.kind in "ub" else 2
    return _INFINITIES.get(dtype.name, 0), {"KIND": kind, "WIDTH": 8 * dtype.itemsize}


def _sorted(rows: CudaArray, descending: bool, with_values: bool, width: int | None = None) -> tuple[Any, CudaArray]:
    """(values or None, indices) of sorted rows; `width` bits of int64 that are not negative can be all that is looked at."""
    index = cuda_arrays.empty(rows.shape, _INT64, rows.device_index)
    values = cuda_arrays.empty(rows.shape, rows.dtype, rows.device_index) if with_values else None
    if not rows.size:
        return values, index
    size = rows.shape[-1]
    if size <= SHORT:
        _sort_short(rows, values, index, size, descending)
        return values, index
    _sort_long(rows, index, descending, width)
    return _taken(rows, index) if with_values else None, index


def _sort_short(rows: CudaArray, values: Any, index: CudaArray, wanted: int, descending: bool) -> None:
    size = rows.shape[-1]
    count = rows.size // size
    block = 32 if size <= 32 else 256 if size <= 256 else SHORT  # a network takes seconds to compile
    together = max(1, SHORT // block)
    infinity, image = _image(rows.dtype)
    kernels.sort_rows(
        (-(-count // together),), bits(rows), index if values is None else bits(values), index, count, size, wanted, infinity,
        **image, DESCENDING=descending, VALUES=values is not None, ROWS=together, BLOCK=block,
    )  # fmt: skip


def _sort_long(rows: CudaArray, index: CudaArray, descending: bool, width: int | None) -> None:
    device, size = rows.device_index, rows.shape[-1]
    count = rows.size // size
    infinity, image = _image(rows.dtype)
    if width is None:
        given = bits(rows)
        keys = cuda_arrays.empty(rows.shape, given.dtype, device)
        width = image["WIDTH"] if rows.dtype.kind != "b" else 1
        grid = (-(-rows.size // 1024),)
        kernels.radix_keys(grid, given, keys, infinity, rows.size, **image, DESCENDING=descending, BLOCK=1024)
        spare = cuda_arrays.empty(rows.shape, keys.dtype, device)
    else:
        keys, spare = rows, cuda_arrays.empty(rows.shape, rows.dtype, device)
    tiles = -(-size // _TILE)
    counts = cuda_arrays.empty((count, 16 * tiles), _INT32, device)
    places, moved = [cuda_arrays.empty(rows.shape, _INT32, device) for _ in range(2)]
    grid = (count * tiles,)
    for shift in range(0, width, 4):
        kernels.radix_counts(grid, keys, counts, size, tiles, shift, BLOCK=_TILE)
        before, _ = sums_before(counts)
        kernels.radix_move(
            grid, keys, spare, places, moved, index, before, size, tiles, shift, FIRST=not shift, LAST=shift + 4 >= width,
            BLOCK=_TILE, num_warps=8,
        )  # fmt: skip
        if keys is rows:  # the caller's own
            keys, spare = spare, cuda_arrays.empty(rows.shape, rows.dtype, device)
        else:
            keys, spare = spare, keys
        places, moved = moved, places


def _top(rows: CudaArray, k: int, largest: bool) -> tuple[CudaArray, CudaArray]:
    size, device = rows.shape[-1], rows.device_index
    shape = (*rows.shape[:-1], k)
    values = cuda_arrays.empty(shape, rows.dtype, device)
    index = cuda_arrays.empty(shape, _INT64, device)
    if not values.size:
        return values, index
    if size <= SHORT:
        _sort_short(rows, values, index, k, largest)
        return values, index
    if rows.itemsize == 8 or k > _MOST_OF_TILE:
        found, order = _sorted(rows, largest, True)
        return contiguous(found[..., :k]), contiguous(order[..., :k])
    infinity, image = _image(rows.dtype)
    count, left, given, packed = rows.size // size, size, bits(rows), False
    while left > k or not packed:
        tiles = -(-left // _TILE)
        kept = min(k, left)
        best = cuda_arrays.empty((count, tiles * kept), _INT64, device)
        kernels.top_of_tiles(
            (count * tiles,),
            given,
            best,
            left,
            tiles,
            kept,
            infinity,
            **image,
            DESCENDING=largest,
            PACKED=packed,
            BLOCK=_TILE,
        )
        given, left, packed = best, tiles * kept, True
    grid = (-(-index.size // 1024),)
    kernels.unpack_top(grid, bits(rows), given, bits(values), index, size, k, index.size, BLOCK=1024)
    return values, index


def _taken(rows: CudaArray, index: CudaArray) -> CudaArray:
    """The elements at `index` along the last dim."""
    from dynograd.kernels.scatters_cuda import along

    return along(rows, rows.ndim - 1, index)


def _power(size: int, most: int) -> int:
    """The power of two from `size` on, at most `most`."""
    return min(most, 1 << max(size - 1, 0).bit_length())
