"""Compiled products of compressed rows with dense matrices: rows of the result are independent, so parts give the same bits."""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled


@chunked(noalias=True)
def product(values, crow, col, dense, out, start, stop):
    """Rows `start:stop` of the product."""
    for row in range(start, stop):
        target = out[row]
        target[:] = 0
        for place in range(crow[row], crow[row + 1]):
            value = values[place]
            result = dense[col[place]]
            for k in range(target.size):
                target[k] += value * result[k]


@chunked(noalias=True)
def sampled(x, y, crow, col, out, start, stop):
    """The products of rows of `x` with rows of `y`, for the entries of rows `start:stop`."""
    for row in range(start, stop):
        left = x[row]
        for place in range(crow[row], crow[row + 1]):
            right = y[col[place]]
            total = out.dtype.type(0)
            for k in range(left.size):
                total += left[k] * right[k]
            out[place] = total


@compiled()
def fit(crow, col, columns):
    """Whether they describe rows of entries in so many columns."""
    if crow[0] != 0 or crow[crow.size - 1] != col.size:
        return False
    falls = beyond = 0  # counted without branches, which vector instructions do
    for row in range(crow.size - 1):
        falls += crow[row + 1] < crow[row]
    for place in range(col.size):
        beyond += (col[place] < 0) | (col[place] >= columns)
    return falls + beyond == 0


@chunked(noalias=True)
def count_places(crow, col, starts, rows, order, start, stop):
    """Sorts entries by column: `starts` (one more than columns) gets each column's first place; stable. The only item is all of it."""
    starts[:] = 0
    for place in range(col.size):
        starts[col[place] + 1] += 1
    for column in range(1, starts.size):
        starts[column] += starts[column - 1]
    for row in range(crow.size - 1):
        for place in range(crow[row], crow[row + 1]):
            column = col[place]
            to = starts[column]
            rows[to] = row
            order[to] = place
            starts[column] = to + 1
    for column in range(starts.size - 1, 0, -1):
        starts[column] = starts[column - 1]
    starts[0] = 0


@chunked(noalias=True)
def take(values, order, result, start, stop):
    """result[i] = values[order[i]], which are there."""
    for i in range(start, stop):
        result[np.uint64(i)] = values[np.uint64(order[np.uint64(i)])]
