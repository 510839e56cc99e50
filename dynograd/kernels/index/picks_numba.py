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
