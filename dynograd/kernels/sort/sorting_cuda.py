"""Sorting and selecting along a dim of CudaArrays. Equals keep their order (also descending), and NaN counts as the largest."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.cuda import driver
from dynograd.kernels.layout.copies_cuda import bits, contiguous, zeros
from dynograd.kernels.sort import sorting_radix_simt as radix
from dynograd.kernels.sort import sorting_rows_simt as in_blocks
from dynograd.kernels.sort import sorting_selection_simt as selection

SHORT = 9216  # rows up to here are sorted by one block; ITEMS times the 1024 threads that it has
_FEW = 2048  # rows up to here are sorted also where only some elements are wanted: many have room in a block
_SEGMENT = 16384  # elements of a row that one block selects from: near it after the first digit
_ROW_OF_BLOCK = 1 << 16  # rows up to here have one block that looks for the k-th element; longer ones are sorted
_BLOCKS = 528  # of a radix pass, four for each multiprocessor of an H100
_ADDED_UP = 32  # with up to so many chunks a row a block adds up what the ones before it have
_MOST = 1 << 31
_EMULATED = 32  # threads of a block in emulation
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
    values, index = _top(_rows(input, dim), k, largest, ordered)
    return _back(values, dim), _back(index, dim)


def kthvalue(input: CudaArray, k: int, dim: int, keepdim: bool) -> tuple[CudaArray, CudaArray]:
    """(values, indices) of the k-th smallest, counted from 1; of equals the first."""
    return kth(input, k - 1, dim, keepdim, 0)


def kth(input: CudaArray, k: int, dim: int, keepdim: bool, rule: int) -> tuple[CudaArray, CudaArray]:
    """(values, indices) of the first element that is k-th (from 0) in its row; for `rule` see `kth_of_rows`."""
    if not input.ndim:
        return input.copy(), zeros((), _INT64, input.device_index)
    rows = _rows(input, dim)
    size, count = rows.shape[-1], prod(rows.shape[:-1])
    device = rows.device_index
    values = cuda_arrays.empty((*rows.shape[:-1], 1), rows.dtype, device)
    index = cuda_arrays.empty(values.shape, _INT64, device)
    kind = _kind(rows.dtype)
    if count and _FEW < size <= _ROW_OF_BLOCK:
        threads = _threads(selection.THREADS)
        selection.kth_of_rows[rows.itemsize]((count,), threads, bits(rows), bits(values), index, size, k, rule, kind)
    elif count:
        ordered, order = _sorted(rows, False, True)
        selection.kth_of_sorted[rows.itemsize](
            (-(-count // 32),), 32, bits(ordered), order, bits(values), index, count, size, k, rule, kind
        )
    values, index = _back(values, dim), _back(index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def order_of(keys: CudaArray, limit: int) -> CudaArray:
    """The stable ascending order of a vector of int64 from 0 to `limit`; only as many bits are looked at as `limit` has."""
    return _sorted(keys, False, False, max(limit.bit_length(), 1))[1]


# --- rows ----------------------------------------------------------------------------------------------------------------


def _rows(input: CudaArray, dim: int) -> CudaArray:
    """`input` with `dim` last, row by row."""
    if input.shape[dim] >= _MOST:
        raise NotImplementedError(f"sort: a dim of {input.shape[dim]} elements has no CUDA kernel; x.cpu() works.")
    return contiguous(input if dim == input.ndim - 1 else input.swapaxes(dim, -1))


def _back(rows: CudaArray, dim: int) -> CudaArray:
    return contiguous(rows if dim == rows.ndim - 1 else rows.swapaxes(-1, dim))


def _kind(dtype: Any) -> int:
    """How a dtype's bits are ordered: see `key_of`."""
    return 0 if dtype.kind == "i" else 1 if dtype.kind in "ub" else 2 if dtype.kind == "f" else 3


def _unread(index: CudaArray) -> CudaArray:
    """What a kernel gets for places that it will not look at: a pointer of their type."""
    return CudaArray(index.storage, index.pointer, (1,), (4,), _INT32)


def _threads(most: int) -> int:
    """The threads of a block; in emulation, where each costs as much as many elements, one warp."""
    return _EMULATED if driver.is_emulated() else most


def _power(size: int) -> int:
    """The power of two from `size` on."""
    return 1 << max(size - 1, 0).bit_length()


def _sorted(rows: CudaArray, descending: bool, with_values: bool, width: int | None = None) -> tuple[Any, CudaArray]:
    """(values or None, indices) of sorted rows; `width` bits of int64 that are not negative can be all that is looked at."""
    index = cuda_arrays.empty(rows.shape, _INT64, rows.device_index)
    values = cuda_arrays.empty(rows.shape, rows.dtype, rows.device_index) if with_values else None
    if rows.size and rows.shape[-1] <= SHORT:
        _sort_short(rows, None, values, index, descending)
    elif rows.size:
        _sort_long(rows, values, index, descending, width)
    return values, index


def _sort_short(rows: CudaArray, places: Any, values: Any, index: CudaArray, descending: bool) -> None:
    """As many elements of each sorted row as a row of `index` has; `places`: where the elements stood, if not one after the other."""
    size, kept_count = rows.shape[-1], index.shape[-1]
    count = rows.size // size
    group = _power(-(-size // in_blocks.ITEMS))
    threads = max(group, min(_power(count * group), _threads(128)))
    in_blocks.sort_rows[rows.itemsize](
        (-(-count // (threads // group)),), threads, bits(rows), _unread(index) if places is None else places,
        bits(rows) if values is None else bits(values), index, count, size, kept_count, group, _kind(rows.dtype), descending,
        places is not None, values is not None, shared=in_blocks.bytes_of(rows.itemsize, threads),
    )  # fmt: skip


def _sort_long(rows: CudaArray, values: Any, index: CudaArray, descending: bool, width: int | None) -> None:
    device, size, item, kind = rows.device_index, rows.shape[-1], rows.itemsize, _kind(rows.dtype)
    count = rows.size // size
    if width is None:
        width = 1 if rows.dtype.kind == "b" else 8 * item
    threads = _threads(radix.MOST)
    tile = radix.ITEMS[item] * threads
    tiles = -(-size // tile)
    chunk = -(-tiles // max(1, _BLOCKS // count)) * tile
    blocks = -(-size // chunk)
    grid = (count * blocks,)
    counts = cuda_arrays.empty((count, 256, blocks), _INT32, device)
    totals = cuda_arrays.empty((count, 256), _INT32, device) if blocks > _ADDED_UP else counts
    passes = -(-width // 8)
    operands = bits(rows)
    results = operands if values is None else bits(values)
    spare = [cuda_arrays.empty(rows.shape, operands.dtype, device) for _ in range(min(passes - 1, 2))]
    lists = [cuda_arrays.empty(rows.shape, _INT32, device) for _ in range(min(passes - 1, 2))]
    places = counts  # of the elements before the first pass, which are as they are
    for number in range(passes):
        shift, last = 8 * number, number == passes - 1
        radix.radix_counts[item](grid, threads, operands, counts, size, chunk, blocks, shift, kind, descending)
        if blocks > _ADDED_UP:
            radix.radix_starts((count * 8192 // threads,), threads, counts, totals, blocks)
        moved, moved_places = (results, counts) if last else (spare[number % 2], lists[number % 2])
        radix.radix_move[item](
            grid, threads, operands, places, counts, totals, moved, moved_places, index, size, chunk, blocks, shift, kind,
            descending, blocks > _ADDED_UP, not number, last, values is not None,
        )  # fmt: skip
        operands, places = moved, moved_places


def _top(rows: CudaArray, k: int, largest: bool, ordered: bool) -> tuple[CudaArray, CudaArray]:
    size, device, item, kind = rows.shape[-1], rows.device_index, rows.itemsize, _kind(rows.dtype)
    count = prod(rows.shape[:-1])
    shape = (*rows.shape[:-1], k)
    values = cuda_arrays.empty(shape, rows.dtype, device)
    index = cuda_arrays.empty(shape, _INT64, device)
    if not values.size:
        return values, index
    if ordered and size <= _FEW:
        _sort_short(rows, None, values, index, largest)
        return values, index
    if ordered and k > min(SHORT, size // 4):
        result, order = _sorted(rows, largest, True)
        return contiguous(result[..., :k]), contiguous(order[..., :k])
    operands, places, left, first = rows, _unread(index), size, True
    while first or left > (SHORT if ordered else k):
        segments = max(1, min(left // _SEGMENT, left // (4 * k)))
        best = cuda_arrays.empty((count, segments * k), rows.dtype, device)
        best_places = cuda_arrays.empty(best.shape, _INT32, device)
        selection.select_rows[item](
            (count * segments,), _threads(selection.THREADS), bits(operands), places, bits(best), best_places, left, segments, k,
            kind, largest, not first,
        )  # fmt: skip
        operands, places, left, first = best, best_places, segments * k, False
    if not ordered:
        return operands.reshape(shape), places.astype(_INT64).reshape(shape)
    _sort_short(operands, places, values, index, largest)
    return values, index
