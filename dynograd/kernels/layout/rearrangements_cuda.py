"""The elements of CudaArrays in another order, or several times."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.kernels.index.lookups_cuda import places_among
from dynograd.kernels.index.scatters_cuda import sums_before, take
from dynograd.kernels.layout import views_triton as kernels
from dynograd.kernels.layout.copies_cuda import contiguous, copied, empty_like, sum_dtype
from dynograd.kernels.layout.creation_cuda import counted_up


def flip(x: CudaArray, dims: Any) -> CudaArray:
    """A copy with the order along `dims` reversed."""
    return copied(x[tuple([slice(None, None, -1) if dim in dims else slice(None) for dim in range(x.ndim)])])


def roll(x: CudaArray, shifts: Any, dims: Any) -> CudaArray:
    """A copy moved by `shifts` along `dims`; what falls off one end comes back at the other."""
    total = [0] * x.ndim
    for shift, dim in zip(shifts, dims, strict=True):
        total[dim] += shift
    pieces = []
    for shift, size in zip(total, x.shape, strict=True):
        cut = shift % size if size else 0
        moves = [(slice(cut, size), slice(0, size - cut)), (slice(0, cut), slice(size - cut, size))]
        pieces.append(moves if cut else moves[:1])
    out = empty_like(x)
    for piece in product(*pieces):
        operations.copy_into(out[tuple([to for to, _ in piece])], x[tuple([of for _, of in piece])])
    return out


def repeat(x: CudaArray, counts: Any) -> CudaArray:
    """Copies of `x` (whose dims are as many as `counts`) side by side."""
    shape = tuple([side for count, size in zip(counts, x.shape, strict=True) for side in (count, size)])
    spread = x.reshape(tuple([side for size in x.shape for side in (1, size)])).broadcast_to(shape)
    whole = tuple([count * size for count, size in zip(counts, x.shape, strict=True)])
    out = cuda_arrays.empty(whole, x.dtype, x.device_index)
    operations.copy_into(out.reshape(shape), spread)
    return out


def repeat_backward(g: CudaArray, shape: tuple[int, ...], counts: Any) -> CudaArray:
    """The sum of the copies that `repeat` made."""
    split = g.reshape(tuple([side for count, size in zip(counts, shape, strict=True) for side in (count, size)]))
    return split.sum(tuple(range(0, 2 * len(shape), 2))).astype(g.dtype, copy=False)


def repeat_rows(x: CudaArray, counts: Any, dim: int) -> CudaArray:
    """Each slice of `x` along `dim` as often as `counts` says (a number, or one per slice: then it waits for their sum)."""
    if isinstance(counts, int):
        lead, size, tail = x.shape[:dim], x.shape[dim], x.shape[dim + 1 :]
        out = cuda_arrays.empty((*lead, size, counts, *tail), x.dtype, x.device_index)
        operations.copy_into(out, x.reshape((*lead, size, 1, *tail)).broadcast_to(out.shape))
        return out.reshape((*lead, size * counts, *tail))
    counts = _on_device(counts, x)
    if counts.size == 1 != x.shape[dim]:
        counts = contiguous(counts.reshape((1,)).broadcast_to((x.shape[dim],)))
    starts, total = sums_before(counts)
    index = places_among(starts + counts, counted_up(total.item(), x.device_index), True)
    return take(x, index, dim, "repeat_interleave", False)


def _on_device(counts: Any, like: CudaArray) -> CudaArray:
    if not isinstance(counts, CudaArray):
        counts = cuda_arrays.from_numpy(numpy.asarray(counts), like.device_index)
    return contiguous(counts, numpy.dtype(numpy.int64))


def sum_equal_runs(g: CudaArray, repeats: int, dim: int, size: int) -> CudaArray:
    """The sum of each run of `repeats` slices along `dim`, `size` runs in all."""
    split = g.reshape((*g.shape[:dim], size, repeats, *g.shape[dim + 1 :]))
    return split.sum((dim + 1,)).astype(g.dtype, copy=False)


def sum_runs(g: CudaArray, counts: Any, dim: int) -> CudaArray:
    """The sum of each run of `counts[i]` slices along `dim`."""
    counts = _on_device(counts, g)
    starts, _ = sums_before(counts)
    size = counts.size
    out = cuda_arrays.empty((*g.shape[:dim], size, *g.shape[dim + 1 :]), sum_dtype(g.dtype), g.device_index)
    if out.size:
        g = contiguous(g)
        outer, inner = 1, 1
        for extent in g.shape[:dim]:
            outer *= extent
        for extent in g.shape[dim + 1 :]:
            inner *= extent
        columns = min(1024, 1 << max(inner - 1, 0).bit_length())
        tiles = -(-inner // columns)
        kernels.sum_runs(
            (outer * size * tiles,), g, starts, counts, out, size, g.shape[dim], inner, tiles, COLS=columns
        )
    return out.astype(g.dtype, copy=False)
