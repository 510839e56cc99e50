"""Numba kernels of sums for plans: their items are as many whatever the lengths that are summed, so that the launches are the same for any sizes.

Within a row or column, numbers are summed in blocks, as in `reductions_numba`. Positions go through np.uint64 because Numba counts
negative ones from the end.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked

__all__ = ["column_sums", "row_sums"]

_BLOCK = 8192  # elements of a row that are summed at a time
_ROWS, _TILE = 128, 1024  # of a block of columns
_LINE = 16  # columns that are not cut


@chunked(noalias=True)
def row_sums(x, n, shares, out, start, stop):
    """out[row * shares + s] = the sum of the s-th of so many even shares of a row of `n`; items are (row, s)."""
    zero = out.dtype.type(0)
    for item in range(start, stop):
        row, share = item // shares, item % shares
        begin, end = row * n + n * share // shares, row * n + n * (share + 1) // shares
        total = zero
        for first in range(begin, end, _BLOCK):
            part = zero
            for i in range(first, min(first + _BLOCK, end)):
                part += x[np.uint64(i)]
            total += part
        out[np.uint64(item)] = total


@chunked(noalias=True)
def column_sums(x, n, inner, shares, cuts, out, start, stop):
    """out[o, s, c] = the sum of column c over the s-th share of the n rows of x[o], each `inner` long; items are (o, s, cut of the columns)."""
    zero = out.dtype.type(0)
    part = np.empty(min(inner, _TILE), out.dtype)
    for item in range(start, stop):
        o, rest = item // (shares * cuts), item % (shares * cuts)
        share, cut = rest // cuts, rest % cuts
        low = inner * cut // cuts // _LINE * _LINE
        high = inner if cut + 1 == cuts else inner * (cut + 1) // cuts // _LINE * _LINE
        begin, end = n * share // shares, n * (share + 1) // shares
        for left in range(low, high, _TILE):
            count = min(_TILE, high - left)
            into = (o * shares + share) * inner + left
            for c in range(count):
                out[np.uint64(into + c)] = zero
            for first in range(begin, end, _ROWS):
                last = min(first + _ROWS, end)
                r = (o * n + first) * inner + left
                for c in range(count):
                    part[np.uint64(c)] = x[np.uint64(r + c)]
                r += inner
                rows = last - first - 1
                while rows >= 4:  # one after the other, as NumPy adds them
                    r1, r2, r3 = r + inner, r + 2 * inner, r + 3 * inner
                    for c in range(count):
                        value = part[np.uint64(c)] + x[np.uint64(r + c)]
                        value = value + x[np.uint64(r1 + c)]
                        value = value + x[np.uint64(r2 + c)]
                        part[np.uint64(c)] = value + x[np.uint64(r3 + c)]
                    r += 4 * inner
                    rows -= 4
                while rows > 0:
                    for c in range(count):
                        part[np.uint64(c)] += x[np.uint64(r + c)]
                    r += inner
                    rows -= 1
                for c in range(count):
                    out[np.uint64(into + c)] += part[np.uint64(c)]
