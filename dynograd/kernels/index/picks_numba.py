"""Numba kernels of plans that pick rows by indices of which some may count from the end."""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked
from dynograd.kernels.tiles.lines_numba import LINE, copy_line


@chunked(noalias=True)
def pick_rows(x, size, inner, index, low, out, outside, start, stop):
    """out[a, m] = x[a, index[m]] of flat (A, size, inner) arrays; items are (a, m).

    outside[0] = 1, and nothing picked there, for an index below `low`, which may be -size, or above size - 1.
    """
    count = index.size
    for item in range(start, stop):
        place = index[np.uint64(item % count)]
        if place < low or place >= size:
            outside[0] = 1
            continue
        place += size & (place >> 63)
        of, into = (item // count * size + place) * inner, item * inner
        c = 0
        while c + LINE <= inner:
            copy_line(out, into + c, x, of + c)
            c += LINE
        while c < inner:
            out[np.uint64(into + c)] = x[np.uint64(of + c)]
            c += 1


@chunked(noalias=True)
def join_indices(first, second, first_size, second_size, out, start, stop):
    """out[m] = first[m] * second_size + second[m], where both may count from the end; first_size * second_size where one leaves its dim."""
    for item in range(start, stop):
        m = np.uint64(item)
        row, column = first[m], second[m]
        row += first_size & (row >> 63)
        column += second_size & (column >> 63)
        if row < 0 or row >= first_size or column < 0 or column >= second_size:
            out[m] = first_size * second_size
        else:
            out[m] = row * second_size + column
