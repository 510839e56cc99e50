"""Joining NumPy arrays."""

from __future__ import annotations

from math import prod
from operator import attrgetter

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build.sizes import COPIED_BYTES, JOINED_BYTES, JOINED_RUN
from dynograd.kernels.layout.copies_cpu import copied, copy_into
from dynograd.kernels.small.few_cpu import entries

_bytes = attrgetter("nbytes")
_concatenate, _array, _empty = np.concatenate, np.array, np.empty


def cat(arrays, dim):
    """Arrays one after the other along `dim`; they agree in dtype."""
    first = arrays[0]
    if (first.nbytes + arrays[-1].nbytes) * len(arrays) < 2 * COPIED_BYTES or not first.ndim:
        return _row_major(_concatenate(arrays, dim), arrays)
    place = dim + first.ndim if dim < 0 else dim
    shape = list(first.shape)
    for array in arrays[1:]:
        if (
            array.ndim != first.ndim
            or array.shape[:place] != first.shape[:place]
            or array.shape[place + 1 :] != first.shape[place + 1 :]
        ):
            return _concatenate(arrays, dim)  # which says what is wrong
        shape[place] += array.shape[place]
    out = buffers.empty(shape, first.dtype)
    largest = max(arrays, key=_bytes)
    run = largest.nbytes // (prod(shape[:place]) or 1)
    if largest.nbytes < COPIED_BYTES or (largest.nbytes < JOINED_BYTES and run >= JOINED_RUN):
        return _concatenate(arrays, dim, out)
    lead, start = (slice(None),) * place, 0
    for array in arrays:
        stop = start + array.shape[place]
        copy_into(out[(*lead, slice(start, stop))], array)
        start = stop
    return out


def _row_major(joined, arrays):
    """NumPy keeps the order of the dims in memory; PyTorch does where channels are last in all, and gives row-major memory else."""
    if joined.flags.c_contiguous:
        return joined
    if joined.ndim in (4, 5) and np.moveaxis(joined, 1, -1).flags.c_contiguous:
        if not any([array.flags.c_contiguous for array in arrays]):
            return joined
    return copied(joined)


def cat_few(arrays, dim):
    """`cat` of small arrays as users give them; None where they differ in dtype, or the result is not row-major as it comes."""
    first = arrays[0]
    if first.nbytes * len(arrays) >= COPIED_BYTES:
        return None
    joined = joined_few(arrays, 0, dim, first)
    if joined is None:
        joined = _concatenate(arrays, dim)
    return joined if joined.dtype is first.dtype and joined.flags.c_contiguous else None


def stack_few(arrays, dim):
    """`stack` of few small arrays; None where they differ in dtype, or are not few."""
    first = arrays[0]
    stacked = stacked_few(arrays, 0, dim, first)
    if stacked is not None:
        return stacked
    if dim != 0 or len(arrays) > 8 or first.nbytes >= COPIED_BYTES // 8:
        return None
    if any([type(array) is not np.ndarray for array in arrays]):  # of device meta, whose memory would be read
        return None
    stacked = _array(arrays)
    return stacked if stacked.dtype is first.dtype and stacked.shape[1:] == first.shape else None


def joined_few(listed, fields, dim, first):
    """`cat` of a list of arrays or tensors (see `objects_numba.array_in`) by compiled code; None where they are not few, or not alike."""
    count = len(listed)
    if first.nbytes * count >= COPIED_BYTES:
        return None
    shape = first.shape
    rank = len(shape)
    if not dim and rank == 2:
        out = _empty((count * shape[0], shape[1]), first.dtype)
    else:
        if dim < 0:
            dim += rank
        out = _empty((*shape[:dim], count * shape[dim], *shape[dim + 1 :]), first.dtype)
    if entries["joins.join"](id(listed), fields, dim, 0, id(out)):
        return out
    length = entries["joins.length"](id(listed), fields, dim)
    if not 0 < length * first.itemsize < COPIED_BYTES:
        return None
    out = _empty((*shape[:dim], length, *shape[dim + 1 :]), first.dtype)
    return out if entries["joins.join"](id(listed), fields, dim, 0, id(out)) else None


def stacked_few(listed, fields, dim, first):
    """The same of `stack`."""
    count = len(listed)
    if first.nbytes * count >= COPIED_BYTES:
        return None
    shape = first.shape
    if dim < 0:
        dim += len(shape) + 1
    out = _empty((*shape[:dim], count, *shape[dim:]) if dim else (count, *shape), first.dtype)
    return out if entries["joins.join"](id(listed), fields, dim, 1, id(out)) else None


def stack(arrays, dim):
    """Arrays of one shape beside each other along a new dim."""
    shape = arrays[0].shape
    if not dim:
        if not shape or (len(arrays) <= 8 and arrays[0].nbytes < COPIED_BYTES // 8):
            return np.stack(arrays)
        return buffers.in_shape(cat(arrays, 0), (len(arrays), *shape))
    if dim == len(shape) and arrays[0].nbytes * len(arrays) >= COPIED_BYTES:
        out = buffers.empty((*shape, len(arrays)), arrays[0].dtype)
        return np.stack(arrays, dim, out=out)
    widened = (*shape[:dim], 1, *shape[dim:])
    return cat([array.reshape(widened) for array in arrays], dim)
