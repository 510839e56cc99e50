"""RMS norm over the last dimensions of NumPy arrays. Half types are computed in float32."""

from __future__ import annotations

from math import prod

import numpy as np

__all__ = ["rms_norm_backward", "rms_norm_forward"]

# Below this many elements NumPy's 10 us are no worse than loading Numba for a script's first norm.
COMPILED_SIZE = 256


def rms_norm_forward(x, normalized_ndim, weight, eps):
    """(y, scale): x over the root of its mean square, times weight (may be None); scale (rows,) is 1 / that root."""
    rows, factors = _rows(x, normalized_ndim), _vector(weight, x, normalized_ndim)
    if rows.size >= COMPILED_SIZE:
        from dynograd.kernels.rms_norms_numba import rms_norm_rows

        y, scale = np.empty_like(rows), np.empty(len(rows), rows.dtype)
        rms_norm_rows(rows, factors, float(eps), y, scale)
    else:
        count = max(rows.shape[1], 1)
        scale = 1 / np.sqrt(np.square(rows).sum(axis=1) / count + eps)
        y = rows * scale[:, None] * factors
    return y.reshape(x.shape).astype(x.dtype, copy=False), scale


def rms_norm_backward(g, x, weight, scale, normalized_ndim):
    """Gradients (gx, gw); gw is None without a weight."""
    rows, outer = _rows(x, normalized_ndim), _rows(g, normalized_ndim)
    factors = _vector(weight, x, normalized_ndim)
    if rows.size >= COMPILED_SIZE:
        from dynograd.kernels.rms_norms_numba import rms_norm_gradients

        gx, gw = np.empty_like(rows), np.zeros(rows.shape[1], rows.dtype)
        rms_norm_gradients(outer, rows, factors, scale, gx, gw)
    else:
        normal, weighted = rows * scale[:, None], outer * factors
        along = (weighted * normal).sum(axis=1, keepdims=True) / max(rows.shape[1], 1)
        gx, gw = scale[:, None] * (weighted - normal * along), (outer * normal).sum(axis=0)
    gx = gx.reshape(x.shape).astype(x.dtype, copy=False)
    return gx, None if weight is None else gw.reshape(weight.shape).astype(weight.dtype, copy=False)


def _rows(x, normalized_ndim):
    """(rows, D), C-contiguous, in the type that computes."""
    split = x.ndim - normalized_ndim
    kind = np.float32 if x.dtype.itemsize == 2 else x.dtype
    return np.ascontiguousarray(x, kind).reshape(prod(x.shape[:split]), prod(x.shape[split:]))


def _vector(weight, x, normalized_ndim):
    """The flat weight in the type that computes; ones for None."""
    kind = np.float32 if x.dtype.itemsize == 2 else x.dtype
    if weight is None:
        return np.ones(prod(x.shape[x.ndim - normalized_ndim :]), kind)
    return np.ascontiguousarray(weight, kind).reshape(-1)
