"""Joining NumPy arrays."""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.compiled_kernels import in_shape
from dynograd.kernels.copies_cpu import SMALLEST, copied, copy_into

__all__ = ["cat", "cat_few", "stack", "stack_few"]

_concatenate, _array = np.concatenate, np.array


def cat(arrays, dim):
    """Arrays one after the other along `dim`; they agree in dtype."""
    first = arrays[0]
    if (first.nbytes + arrays[-1].nbytes) * len(arrays) < 2 * SMALLEST or not first.ndim:
        return _row_major(_concatenate(arrays, dim), arrays)
    place = dim + first.ndim if dim < 0 else dim
    shape = list(first.shape)
    for one in arrays[1:]:
        if (
            one.ndim != first.ndim
            or one.shape[:place] != first.shape[:place]
            or one.shape[place + 1 :] != first.shape[place + 1 :]
        ):
            return _concatenate(arrays, dim)  # which says what is wrong
        shape[place] += one.shape[place]
    out = buffers.empty(shape, first.dtype)
    lead, start = (slice(None),) * place, 0
    for one in arrays:
        stop = start + one.shape[place]
        copy_into(out[(*lead, slice(start, stop))], one)
        start = stop
    return out


def _row_major(joined, arrays):
    """NumPy keeps the order of the dims in memory; PyTorch does where channels are last in all, and gives row-major memory else."""
    if joined.flags.c_contiguous:
        return joined
    if joined.ndim in (4, 5) and np.moveaxis(joined, 1, -1).flags.c_contiguous:
        if not any([one.flags.c_contiguous for one in arrays]):
            return joined
    return copied(joined)


def cat_few(arrays, dim):
    """`cat` of small arrays as users give them; None where they differ in dtype, or the result is not row-major as it comes."""
    first = arrays[0]
    if first.nbytes * len(arrays) >= SMALLEST or type(dim) is not int:
        return None
    joined = _concatenate(arrays, dim)
    return joined if joined.dtype is first.dtype and joined.flags.c_contiguous else None


def stack_few(arrays, dim):
    """`stack` of few small arrays in front; None where they differ in dtype."""
    first = arrays[0]
    if dim != 0 or type(dim) is not int or len(arrays) > 8 or first.nbytes >= SMALLEST // 8:
        return None
    stacked = _array(arrays)
    return stacked if stacked.dtype is first.dtype and stacked.shape[1:] == first.shape else None


def stack(arrays, dim):
    """Arrays of one shape beside each other along a new dim."""
    shape = arrays[0].shape
    if not dim:
        if not shape or (len(arrays) <= 8 and arrays[0].nbytes < SMALLEST // 8):
            return np.array(arrays)  # 0.6 us for two small arrays, joining takes 1.3
        return in_shape(cat(arrays, 0), (len(arrays), *shape))
    if dim == len(shape) and arrays[0].nbytes * len(arrays) >= SMALLEST:
        out = buffers.empty((*shape, len(arrays)), arrays[0].dtype)
        return np.stack(arrays, dim, out=out)
    widened = (*shape[:dim], 1, *shape[dim:])
    return cat([array.reshape(widened) for array in arrays], dim)
