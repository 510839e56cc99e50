"""Numba kernels of writes: where a mask says so, without a branch for each element; and of a few elements of matrices."""

import numpy as np

from dynograd.kernels.compiling_numba import chunked, compiled

__all__ = ["fill_where", "write_few", "write_few_slices", "write_where"]


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


@compiled
def write_few(x, index, src, dim, adds):
    """x.scatter_(dim, index, src), or scatter_add_, of matrices; False, and nothing written, where they do not fit together."""
    rows, columns = index.shape
    size = x.shape[dim]
    if src.shape != index.shape or index.shape[1 - dim] > x.shape[1 - dim]:
        return False
    for i in range(rows):
        for j in range(columns):
            if not 0 <= index[i, j] < size:
                return False
    for i in range(rows):
        for j in range(columns):
            row, column = (index[i, j], j) if dim == 0 else (i, index[i, j])
            x[row, column] = x[row, column] + src[i, j] if adds else src[i, j]
    return True


@compiled
def write_few_slices(x, index, src, dim, adds):
    """x.index_copy_(dim, index, src), or index_add_, of matrices; False, and nothing written, where they do not fit together."""
    count, size = index.size, x.shape[dim]
    if src.shape[dim] != count or src.shape[1 - dim] != x.shape[1 - dim]:
        return False
    for m in range(count):
        if not 0 <= index[m] < size:
            return False
    for i in range(src.shape[0]):
        for j in range(src.shape[1]):
            row, column = (index[i], j) if dim == 0 else (i, index[j])
            x[row, column] = x[row, column] + src[i, j] if adds else src[i, j]
    return True
