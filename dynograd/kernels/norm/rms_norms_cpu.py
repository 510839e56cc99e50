"""RMS norm over the last dimensions of NumPy arrays. Half types are computed in float32."""

from __future__ import annotations

import numpy as np

from dynograd.kernels.rows.folding_cpu import kernels_for, like, rows_of, vector_of


def rms_norm_forward(x, normalized_ndim, weight, eps):
    """(y, scale): x over the root of its mean square, times weight (may be None); scale (rows,) is 1 / that root."""
    rows = rows_of(x, normalized_ndim)
    factors = vector_of(weight, 1, rows.shape[1], rows.dtype)
    if (kernels := kernels_for(rows)) is not None:
        y, scale = kernels["rms_norm"](rows, factors, float(eps))
    else:
        count = max(rows.shape[1], 1)
        scale = 1 / np.sqrt(np.square(rows).sum(axis=1) / count + eps)
        y = rows * scale[:, None] * factors
    return like(y, x), scale


def rms_norm_backward(g, x, weight, scale, normalized_ndim):
    """Gradients (gx, gw); gw is None without a weight."""
    rows, outer = rows_of(x, normalized_ndim), rows_of(g, normalized_ndim)
    factors = vector_of(weight, 1, rows.shape[1], rows.dtype)
    if (kernels := kernels_for(rows)) is not None:
        gx, gw = kernels["rms_norm_backward"](outer, rows, factors, scale)
    else:
        normal, weighted = rows * scale[:, None], outer * factors
        along = (weighted * normal).sum(axis=1, keepdims=True) / max(rows.shape[1], 1)
        gx, gw = scale[:, None] * (weighted - normal * along), (outer * normal).sum(axis=0)
    return like(gx, x), None if weight is None else gw.reshape(weight.shape).astype(weight.dtype, copy=False)
