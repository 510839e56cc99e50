"""Numba kernels of writes: where a mask says so, without a branch for each element; and of a few elements of matrices."""

import numpy as np

from dynograd.kernels.compiling_numba import chunked, compiled

__all__ = ["combined", "fill_where", "write_few", "write_few_slices", "write_few_where", "write_where"]


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
def write_few_where(out, mask, src):
    """`write_where` for a few elements of arrays of any shape; False, and nothing written, where they are not enough."""
    target, chosen, source = out.reshape(-1), mask.reshape(-1), src.reshape(-1)
    if source.size < target.size:
        count = 0
        for i in range(target.size):
            count += chosen[i]
        if source.size < count:
            return False
    taken = 0
    for i in range(target.size):
        if chosen[i]:
            target[i] = source[taken]
            taken += 1
    return True


@compiled
def combined(held, value, how):
    """`value` (how 0), or sum (1), product (2), maximum (3) or minimum (4) of the two; NaN stays."""
    if how == 0:
        return value
    if how == 1:
        return held + value
    if how == 2:
        return held * value
    if how == 3:
        return value if value > held or value != value else held
    return value if value < held or value != value else held


@compiled
def write_few(x, index, src, dim, how):
    """x.scatter_(dim, index, src), or what `combined` makes, of matrices; False, and nothing written, where they do not fit together."""
    rows, columns = index.shape
    if dim != 0 and dim != 1:
        return False
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
            x[row, column] = combined(x[row, column], src[i, j], how)
    return True


@compiled
def write_few_slices(x, index, src, dim, how):
    """x.index_copy_(dim, index, src), or what `combined` makes, of matrices; False, and nothing written, where they do not fit together."""
    if dim != 0 and dim != 1:
        return False
    count, size = index.size, x.shape[dim]
    if src.shape[dim] != count or src.shape[1 - dim] != x.shape[1 - dim]:
        return False
    for m in range(count):
        if not 0 <= index[m] < size:
            return False
    for i in range(src.shape[0]):
        for j in range(src.shape[1]):
            row, column = (index[i], j) if dim == 0 else (i, index[j])
            x[row, column] = combined(x[row, column], src[i, j], how)
    return True
