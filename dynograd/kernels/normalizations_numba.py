"""Numba kernels of layer norm on rows (R, D) and batch norm on (N, C, L), C-contiguous, all arrays of one float type."""

import math

from dynograd.kernels.compiling_numba import compiled

__all__ = ["batch_norm", "batch_norm_gradients", "layer_norm_gradients", "layer_norm_rows"]


@compiled
def layer_norm_rows(x, weight, bias, eps, y, mean, rstd):
    """Each row minus its mean, over its standard deviation, times weight plus bias."""
    for r in range(x.shape[0]):
        row, result = x[r], y[r]
        total = x.dtype.type(0)
        for j in range(row.size):
            total += row[j]
        middle = x.dtype.type(total / row.size)
        squares = x.dtype.type(0)
        for j in range(row.size):
            squares += (row[j] - middle) ** 2
        scale = x.dtype.type(1 / math.sqrt(squares / row.size + eps))
        mean[r], rstd[r] = middle, scale
        for j in range(row.size):
            result[j] = (row[j] - middle) * scale * weight[j] + bias[j]


@compiled
def layer_norm_gradients(g, x, mean, rstd, weight, gx, gw, gb):
    """Gradients of `layer_norm_rows`; `gw` and `gb` are zero on entry."""
    for r in range(x.shape[0]):
        row, outer, result = x[r], g[r], gx[r]
        middle, scale = mean[r], rstd[r]
        total, along = x.dtype.type(0), x.dtype.type(0)
        for j in range(row.size):
            weighted = outer[j] * weight[j]
            total += weighted
            along += weighted * (row[j] - middle)
        shift = x.dtype.type(total / row.size)
        slope = x.dtype.type(along / row.size) * scale * scale
        for j in range(row.size):
            result[j] = scale * (outer[j] * weight[j] - shift - (row[j] - middle) * slope)
        for j in range(row.size):
            gb[j] += outer[j]
        for j in range(row.size):
            gw[j] += outer[j] * (row[j] - middle) * scale


@compiled
def batch_norm(x, weight, bias, eps, training, y, mean, variance, rstd):
    """Normalise each channel; `mean` and `variance` are written when training and read otherwise."""
    count = x.shape[0] * x.shape[2]
    for c in range(x.shape[1]):
        if training:
            total = x.dtype.type(0)
            for n in range(x.shape[0]):
                total += _sum(x[n, c])
            mean[c] = x.dtype.type(total / count)
            squares = x.dtype.type(0)
            for n in range(x.shape[0]):
                squares += _sum_of_squares(x[n, c], mean[c])
            variance[c] = x.dtype.type(squares / count)
        rstd[c] = x.dtype.type(1 / math.sqrt(variance[c] + eps))
        middle, scale, shift = mean[c], rstd[c] * weight[c], bias[c]
        for n in range(x.shape[0]):
            row, result = x[n, c], y[n, c]
            for j in range(row.size):
                result[j] = (row[j] - middle) * scale + shift


@compiled
def batch_norm_gradients(g, x, weight, mean, rstd, training, gx, gw, gb):
    """Gradients of `batch_norm`; when not training the statistics are constants."""
    count = x.shape[0] * x.shape[2]
    for c in range(x.shape[1]):
        total, along = x.dtype.type(0), x.dtype.type(0)
        for n in range(x.shape[0]):
            total += _sum(g[n, c])
            along += _sum_of_products(g[n, c], x[n, c], mean[c])
        gb[c], gw[c] = total, along * rstd[c]
        scale, middle = weight[c] * rstd[c], mean[c]
        shift, slope = x.dtype.type(0), x.dtype.type(0)
        if training:
            shift = x.dtype.type(total / count)
            slope = x.dtype.type(along / count) * rstd[c] * rstd[c]
        for n in range(x.shape[0]):
            outer, row, result = g[n, c], x[n, c], gx[n, c]
            for j in range(row.size):
                result[j] = scale * (outer[j] - shift - (row[j] - middle) * slope)


@compiled
def _sum(row):
    total = row.dtype.type(0)
    for j in range(row.size):
        total += row[j]
    return total


@compiled
def _sum_of_squares(row, middle):
    total = row.dtype.type(0)
    for j in range(row.size):
        total += (row[j] - middle) ** 2
    return total


@compiled
def _sum_of_products(outer, row, middle):
    total = row.dtype.type(0)
    for j in range(row.size):
        total += outer[j] * (row[j] - middle)
    return total
