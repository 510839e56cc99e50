"""Numba kernels of RMS norm on C-contiguous rows (R, D), all arrays of one float type."""

import math

from dynograd.kernels.compiling_numba import compiled

__all__ = ["rms_norm_gradients", "rms_norm_rows"]


@compiled
def rms_norm_rows(x, weight, eps, y, scale):
    """Each row over the root of its mean square, times weight; `scale` gets the reciprocal roots."""
    for r in range(x.shape[0]):
        row, result = x[r], y[r]
        squares = x.dtype.type(0)
        for j in range(row.size):
            squares += row[j] * row[j]
        factor = x.dtype.type(1 / math.sqrt(squares / row.size + eps))
        scale[r] = factor
        for j in range(row.size):
            result[j] = row[j] * factor * weight[j]


@compiled
def rms_norm_gradients(g, x, weight, scale, gx, gw):
    """Gradients of `rms_norm_rows`; `gw` is zero on entry."""
    for r in range(x.shape[0]):
        row, outer, result, factor = x[r], g[r], gx[r], scale[r]
        along = x.dtype.type(0)
        for j in range(row.size):
            along += outer[j] * weight[j] * row[j]
        slope = x.dtype.type(along / row.size) * factor * factor
        for j in range(row.size):
            result[j] = factor * (outer[j] * weight[j] - row[j] * slope)
        for j in range(row.size):
            gw[j] += outer[j] * row[j] * factor
