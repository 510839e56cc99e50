"""Numba kernels of batch norm where the channels of a place lie side by side: float32 rows of channels.

Short rows come folded, several side by side in one; vectors of channels then repeat along a row. Statistics are taken of pieces of
rows, mean first and then squared distances while the piece is in cache, and merged in float64. How rows are cut depends on sizes only.
"""

import math

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled


@compiled
def _repeated(vector, count):
    """A vector of channels along a folded row."""
    row = np.empty(count, vector.dtype)
    for begin in range(0, count, vector.size):
        for c in range(vector.size):
            row[begin + c] = vector[c]
    return row


@compiled
def _folded(row, result):
    """Sums over the parts of a folded row."""
    for c in range(result.size):
        result[c] = row[c]
    for begin in range(result.size, row.size, result.size):
        for c in range(result.size):
            result[c] += row[begin + c]


@chunked(noalias=True)
def column_moments(x, height, means, squares, start, stop):
    """Mean and sum of squared distances of each channel in the pieces start to stop of `height` rows."""
    columns = x.shape[1]
    sums, folded = np.empty(columns, x.dtype), np.empty(means.shape[1], x.dtype)
    for piece in range(start, stop):
        first, last = piece * height, min((piece + 1) * height, x.shape[0])
        sums[:] = 0
        for r in range(first, last):
            row = x[r]
            for j in range(columns):
                sums[j] += row[j]
        _folded(sums, folded)
        count = np.float32((last - first) * (columns // folded.size))
        for c in range(folded.size):
            folded[c] /= count
            means[piece, c] = folded[c]
        middle = _repeated(folded, columns)
        sums[:] = 0
        for r in range(first, last):
            row = x[r]
            for j in range(columns):
                sums[j] += (row[j] - middle[j]) ** 2
        _folded(sums, squares[piece])


@compiled
def merged_moments(means, squares, rows, height, times, eps, mean, variance, rstd):
    """Moments of all rows from those of pieces (Chan, Golub and LeVeque, 1979); the biased variance."""
    size = mean.size
    middle, total = np.zeros(size), np.zeros(size)
    count = 0.0
    for piece in range(means.shape[0]):
        own = float((min((piece + 1) * height, rows) - piece * height) * times)
        share, weight = own / (count + own), count * own / (count + own)
        for c in range(size):
            distance = means[piece, c] - middle[c]
            middle[c] += distance * share
            total[c] += squares[piece, c] + distance * distance * weight
        count += own
    for c in range(size):
        spread = total[c] / max(count, 1.0)
        mean[c], variance[c] = middle[c], spread
        rstd[c] = 1 / math.sqrt(spread + eps)


@chunked(noalias=True)
def column_scaled(x, mean, scale, shift, y, start, stop):
    """(x - mean) * scale + shift with numbers for each channel; items are rows."""
    middle, factor, summand = _repeated(mean, x.shape[1]), _repeated(scale, x.shape[1]), _repeated(shift, x.shape[1])
    for r in range(stop - 1, start - 1, -1):  # what was read last is still in cache
        row, result = x[r], y[r]
        for j in range(row.size):
            result[j] = (row[j] - middle[j]) * factor[j] + summand[j]


@chunked(noalias=True)
def column_products(g, x, height, mean, totals, products, start, stop):
    """Sums of g and of g * (x - mean) of each channel in the pieces start to stop of `height` rows."""
    columns = x.shape[1]
    middle = _repeated(mean, columns)
    sums, along = np.empty(columns, x.dtype), np.empty(columns, x.dtype)
    for piece in range(start, stop):
        sums[:] = 0
        along[:] = 0
        for r in range(piece * height, min((piece + 1) * height, x.shape[0])):
            outer, row = g[r], x[r]
            for j in range(columns):
                sums[j] += outer[j]
                along[j] += outer[j] * (row[j] - middle[j])
        _folded(sums, totals[piece])
        _folded(along, products[piece])


@compiled
def merged_products(totals, products, count, rstd, training, gw, gb, shift, slope):
    """Gradients of weight and bias from the sums of pieces, and the numbers that `column_gradient` wants."""
    size = gw.size
    total, along = np.zeros(size), np.zeros(size)
    for piece in range(totals.shape[0]):
        for c in range(size):
            total[c] += totals[piece, c]
            along[c] += products[piece, c]
    for c in range(size):
        gb[c], gw[c] = total[c], along[c] * rstd[c]
        shift[c] = total[c] / count if training else 0.0
        slope[c] = along[c] / count * rstd[c] * rstd[c] if training else 0.0


@chunked(noalias=True)
def column_gradient(g, x, mean, scale, shift, slope, gx, start, stop):
    """scale * (g - shift - (x - mean) * slope) with numbers for each channel; items are rows."""
    columns = x.shape[1]
    middle, factor = _repeated(mean, columns), _repeated(scale, columns)
    less, along = _repeated(shift, columns), _repeated(slope, columns)
    for r in range(stop - 1, start - 1, -1):  # what was read last is still in cache
        outer, row, result = g[r], x[r], gx[r]
        for j in range(row.size):
            result[j] = factor[j] * (outer[j] - less[j] - (row[j] - middle[j]) * along[j])
