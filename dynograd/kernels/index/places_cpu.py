"""Where things lie in NumPy arrays: the limits of an index, positions named along each dim, the places where a mask is true."""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build.sizes import COMPILED_PASS, LARGE
from dynograd.kernels.layout.copies_cpu import contiguous

_BLOCK = 4096  # elements of a mask or an index that are looked at together, as `places_numba.BLOCK`
_min, _max = np.minimum.reduce, np.maximum.reduce


def limits(index):
    """The smallest and the largest of some integers."""
    if 0 in index.strides:  # expanded: each is there several times
        index = index[
            tuple([0 if not step and size else slice(None) for size, step in zip(index.shape, index.strides)])
        ]
    if index.size < LARGE or not index.flags.c_contiguous:
        return int(_min(index, None)), int(_max(index, None))
    from dynograd.kernels.index.places_numba import bounds

    bounds_of_blocks = np.empty((-(-index.size // _BLOCK), 2), index.dtype)
    bounds(index.reshape(-1), bounds_of_blocks, count=len(bounds_of_blocks), work=index.size)
    return int(_min(bounds_of_blocks[:, 0])), int(_max(bounds_of_blocks[:, 1]))


def true_places(mask):
    """The row-major positions of the elements of a mask that are True."""
    if mask.size < COMPILED_PASS:
        return mask.reshape(-1).nonzero()[0]
    from dynograd.kernels.index import places_numba

    flat = contiguous(mask).reshape(-1).view(np.uint8)
    counts = np.empty(-(-flat.size // _BLOCK), np.int64)
    places_numba.count_true(flat, counts, count=len(counts), work=flat.size // 4)
    ends = np.add.accumulate(counts)
    out = buffers.empty((int(ends[-1]),), np.int64)
    places_numba.true_places(flat, ends - counts, out, count=len(counts), work=2 * flat.size)
    return out


def joined_places(indices, shape):
    """Where elements lie, row-major over `shape`, from int64 vectors with their place along each dim; None if one is outside."""
    from dynograd.kernels.index.places_numba import join_places

    out = buffers.empty((indices[0].size,), np.int64)
    outside = np.zeros(-(-out.size // _BLOCK), np.int64)
    for number, (index, size) in enumerate(zip(indices, shape, strict=True)):
        join_places(index, size, number == 0, out, outside, count=outside.size, work=2 * out.size)
    return None if outside.any() else out


def wrapped(index, size):
    """`index` with negative numbers counted from the front."""
    return np.where(index < 0, index + size, index)
