"""Numba kernels of writes where a mask says so, without a branch for each element."""

import numpy as np

from dynograd.kernels.compiling_numba import chunked, compiled

__all__ = ["fill_where", "write_where"]


@chunked
def fill_where(out, mask, value, start, stop):
    """out[i] = value where mask[i] is 1; items are elements of vectors."""
    for i in range(start, stop):
        out[np.uint64(i)] = value if mask[np.uint64(i)] else out[np.uint64(i)]


@compiled(noalias=True)
def write_where(out, mask, src):
    """The elements of `src`, one after the other, where the mask is 1; there are enough."""
    taken, last = np.uint64(0), np.uint64(src.size - 1)
    for i in range(out.size):
        held = mask[np.uint64(i)]
        out[np.uint64(i)] = src[min(taken, last)] if held else out[np.uint64(i)]
        taken += np.uint64(held)
