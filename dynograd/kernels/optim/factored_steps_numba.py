"""A step of Adafactor on one matrix (or several of one shape), whose second moments are a row and a column, and on one vector."""

import numpy as np

from dynograd.kernels.build.compiling_numba import compiled


@compiled(noalias=True)
def _squares(g, p, columns):
    """(sum of g**2, sum of p**2) of a row; g**2 is added to `columns`."""
    zero = g.dtype.type(0)
    mine, other = zero, zero
    for c in range(g.size):
        square = g[c] * g[c]
        columns[c] += square
        mine += square
        other += p[c] * p[c]
    return mine, other


@compiled(noalias=True)
def _taken(g, columns, row, least):
    """The sum of squares of a row's step, g / sqrt(row * columns)."""
    total = g.dtype.type(0)
    for c in range(g.size):
        variance = row * columns[c]
        variance = least if variance < least else variance
        total += g[c] * g[c] / variance
    return total


@compiled(noalias=True)
def _move(p, g, columns, row, least, kept, size):
    for c in range(g.size):
        variance = row * columns[c]
        variance = least if variance < least else variance
        p[c] = p[c] * kept - size * g[c] / np.sqrt(variance)


@compiled
def matrices_step(p, g, rows, columns, fresh, least, smallest, lr, step, threshold, kept, sign):
    """Writes into p (N, R, C), rows (N, R) and columns (N, C). Norms are taken over all elements."""
    count, height, width = p.shape
    kind = p.dtype.type
    sums, squares = np.empty(width, p.dtype), 0.0
    for n in range(count):
        sums[:] = kind(0)
        for r in range(height):
            mine, other = _squares(g[n, r], p[n, r], sums)
            rows[n, r] += kind(fresh) * (mine / kind(width) - rows[n, r])
            squares += other
        for c in range(width):
            columns[n, c] += kind(fresh) * (sums[c] / kind(height) - columns[n, c])
    root = np.sqrt(squares / p.size)
    size = (root if root > smallest else smallest) * min(lr, 1 / np.sqrt(step))
    floor, total = kind(least * least), 0.0
    factors = np.empty((count, height), p.dtype)
    for n in range(count):
        mean = 0.0
        for r in range(height):
            mean += rows[n, r]
        mean /= height
        mean = least if mean < least else mean
        for r in range(height):
            factors[n, r] = rows[n, r] / kind(mean)
            total += _taken(g[n, r], columns[n], factors[n, r], floor)
    size /= max(1.0, np.sqrt(total / p.size) / threshold)
    for n in range(count):
        for r in range(height):
            _move(p[n, r], g[n, r], columns[n], factors[n, r], floor, kind(kept), kind(sign * size))


@compiled(noalias=True)
def _vector_squares(p, g, variance, fresh):
    total = p.dtype.type(0)
    for i in range(p.size):
        total += p[i] * p[i]
        variance[i] += fresh * (g[i] * g[i] - variance[i])
    return total


@compiled
def vector_step(p, g, variance, fresh, least, smallest, lr, step, threshold, kept, sign):
    """Writes into the vectors p and variance."""
    kind = p.dtype.type
    root = np.sqrt(_vector_squares(p, g, variance, kind(fresh)) / p.size)
    size = (root if root > smallest else smallest) * min(lr, 1 / np.sqrt(step))
    floor = kind(least * least)
    total = _taken(g, variance, kind(1), floor)
    size /= max(1.0, np.sqrt(total / p.size) / threshold)
    _move(p, g, variance, kind(1), floor, kind(kept), kind(sign * size))
