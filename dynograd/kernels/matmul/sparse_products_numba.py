"""Compiled products of compressed rows with dense matrices: rows of the result are independent, so parts give the same bits."""

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
            total = out[place] * 0
            for k in range(left.size):
                total += left[k] * right[k]
            out[place] = total


@compiled()
def count_places(crow, col, starts, rows, order):
    """Sorts entries by column: `starts` (zeros, one more than columns) gets each column's first place; stable."""
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
