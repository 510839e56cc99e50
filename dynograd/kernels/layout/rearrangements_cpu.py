"""The elements of NumPy arrays in another order, or several times."""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build.sizes import COPIED_BYTES
from dynograd.kernels.layout.copies_cpu import contiguous, copied, copy_into, kept
from dynograd.kernels.layout.joins_cpu import cat
from dynograd.kernels.small.few_cpu import entries


def flip(x, dims):
    """A copy with the order along `dims` reversed."""
    index = tuple([slice(None, None, -1) if dim in dims else slice(None) for dim in range(x.ndim)])
    return copied(x[index]) if x.flags.c_contiguous else kept(x[index])


def flip_few(x, dim):
    """`flip` of few elements along one dim; None where they are not few, or not in order."""
    return _turned(x, dim, x.shape[dim] - 1, -1)


def roll_few(x, shift, dim):
    """The same of `roll`."""
    return _turned(x, dim, -shift % x.shape[dim] if x.shape[dim] else 0, 1)


def _turned(x, dim, begin, step):
    out = np.empty(x.shape, x.dtype) if x.nbytes < COPIED_BYTES else x
    return out if out is not x and entries["moves.turn"](id(x), id(out), dim, begin, step) else None


def roll(x, shifts, dims):
    """A copy moved by `shifts` along `dims`; what falls off one end comes back at the other."""
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        cut = -shift % size if size else 0
        lead = (slice(None),) * dim
        x = cat((x[(*lead, slice(cut, None))], x[(*lead, slice(None, cut))]), dim)
    return copied(x) if not dims else contiguous(x)


def repeat(x, counts):
    """Copies of `x` (whose dims are as many as `counts`) side by side."""
    shape = tuple([side for count, size in zip(counts, x.shape, strict=True) for side in (count, size)])
    once = x.reshape([side for size in x.shape for side in (1, size)])
    result = buffers.empty([count * size for count, size in zip(counts, x.shape, strict=True)], x.dtype)
    if result.nbytes < COPIED_BYTES:
        result.reshape(shape)[...] = once
    else:
        copy_into(result.reshape(shape), np.broadcast_to(once, shape))
    return result


def repeat_backward(g, shape, counts):
    """The sum of the copies that `repeat` made."""
    kind = _sum_dtype(g)
    split = g.reshape([side for count, size in zip(counts, shape, strict=True) for side in (count, size)])
    return split.sum(tuple(range(0, 2 * len(shape), 2)), dtype=kind).astype(g.dtype, copy=False)


def repeat_rows(x, counts, dim):
    """Each slice of `x` along `dim` as often as `counts` says (a number, or one per slice)."""
    if type(counts) is not int or x.nbytes * counts < COPIED_BYTES:
        return np.repeat(x, counts, dim)
    result = buffers.empty((*x.shape[:dim], x.shape[dim], counts, *x.shape[dim + 1 :]), x.dtype)
    copy_into(result, np.broadcast_to(np.expand_dims(x, dim + 1), result.shape))
    return result.reshape(*x.shape[:dim], x.shape[dim] * counts, *x.shape[dim + 1 :])


def sum_equal_runs(g, repeats, dim, size):
    """The sum of each run of `repeats` slices along `dim`, `size` runs in all."""
    split = g.reshape(*g.shape[:dim], size, repeats, *g.shape[dim + 1 :])
    if repeats > 16 or g.dtype.itemsize == 2 or not repeats:
        return split.sum(dim + 1, dtype=_sum_dtype(g)).astype(g.dtype, copy=False)
    # NumPy sums short inner dims one by one; slices of all runs add up 10 times faster
    lead = (slice(None),) * (dim + 1)
    result = copied(split[(*lead, 0)])
    for number in range(1, repeats):
        result += split[(*lead, number)]
    return result


def sum_runs(g, counts, dim):
    """The sum of each run of `counts[i]` slices along `dim`."""
    moved = np.moveaxis(g, dim, 0)
    result = np.zeros((len(counts), *moved.shape[1:]), _sum_dtype(g))
    filled = np.flatnonzero(counts)
    if filled.size and moved.size:
        starts = np.cumsum(counts)[filled] - counts[filled]
        result[filled] = np.add.reduceat(moved, starts, 0, dtype=result.dtype)
    return np.ascontiguousarray(np.moveaxis(result, 0, dim)).astype(g.dtype, copy=False)


def _sum_dtype(g):
    """float32 for half types, else the dtype itself."""
    return np.dtype(np.float32) if g.dtype.itemsize == 2 and g.dtype.kind not in "iu" else g.dtype
