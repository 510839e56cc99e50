"""Layer norm and batch norm with their gradients, on NumPy arrays.

float32 arrays go through Numba; small ones, float64 and (N, C) batches take NumPy. Half types are computed in float32, and
the statistics returned for them are float32.
"""

from __future__ import annotations

from math import prod

import numpy as np

__all__ = ["batch_norm_backward", "batch_norm_forward", "layer_norm_backward", "layer_norm_forward"]

# Below this many elements NumPy's 10 us are no worse than loading Numba for a script's first norm.
COMPILED_SIZE = 256


def layer_norm_forward(x, normalized_ndim, weight, bias, eps):
    """(y, mean, rstd): x normalised over its last `normalized_ndim` dimensions, times weight plus bias (either may be None).

    rstd = 1 / sqrt(variance + eps) with the biased variance; mean and rstd keep the normalised dimensions with size 1.
    """
    kept = (*x.shape[: x.ndim - normalized_ndim], *(1,) * normalized_ndim)
    rows = _rows(x, normalized_ndim)
    scale, shift = _vector(weight, 1, rows), _vector(bias, 0, rows)
    if _is_compiled(rows):
        from dynograd.kernels.normalizations_numba import layer_norm_rows

        y, mean, rstd = np.empty_like(rows), np.empty(len(rows), rows.dtype), np.empty(len(rows), rows.dtype)
        layer_norm_rows(rows, scale, shift, float(eps), y, mean, rstd)
    else:
        count = max(rows.shape[1], 1)
        mean = rows.sum(axis=1) / count
        y = rows - mean[:, None]
        rstd = 1 / np.sqrt(np.square(y).sum(axis=1) / count + eps)
        y = y * rstd[:, None] * scale + shift
    return y.reshape(x.shape).astype(x.dtype, copy=False), mean.reshape(kept), rstd.reshape(kept)


def layer_norm_backward(g, x, mean, rstd, weight, normalized_ndim):
    """Gradients (gx, gw, gb); gw and gb have the shape of the normalised dimensions, whether or not there is a weight."""
    rows = _rows(x, normalized_ndim)
    outer, scale = _rows(g, normalized_ndim), _vector(weight, 1, rows)
    mean, rstd = mean.reshape(-1), rstd.reshape(-1)
    if _is_compiled(rows):
        from dynograd.kernels.normalizations_numba import layer_norm_gradients

        gx, gw, gb = np.empty_like(rows), np.zeros(rows.shape[1], rows.dtype), np.zeros(rows.shape[1], rows.dtype)
        layer_norm_gradients(outer, rows, mean, rstd, scale, gx, gw, gb)
    else:
        count = max(rows.shape[1], 1)
        normal = (rows - mean[:, None]) * rstd[:, None]
        weighted = outer * scale
        along = (weighted * normal).sum(axis=1, keepdims=True) / count
        gx = rstd[:, None] * (weighted - weighted.sum(axis=1, keepdims=True) / count - normal * along)
        gw, gb = (outer * normal).sum(axis=0), outer.sum(axis=0)
    shape, kind = x.shape[x.ndim - normalized_ndim :], x.dtype if weight is None else weight.dtype
    gw, gb = (vector.reshape(shape).astype(kind, copy=False) for vector in (gw, gb))
    return gx.reshape(x.shape).astype(x.dtype, copy=False), gw, gb


def batch_norm_forward(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """(y, mean, rstd, variance): x (N, C, *) normalised per channel, times weight plus bias (either may be None).

    While training the statistics are the batch's and `variance` is the unbiased one that running_var moves towards; else they
    are the running ones. The running statistics are only read here: `momentum` is their updater's business.
    """
    channels = _channels(x)
    scale, shift = _vector(weight, 1, channels), _vector(bias, 0, channels)
    count = max(channels.shape[0] * channels.shape[2], 1)
    if training:
        mean, variance = np.zeros((2, channels.shape[1]), channels.dtype)
    else:
        # Copies: a later training step writes into the running statistics, and backward still needs these.
        mean, variance = _vector(running_mean, 0, channels).copy(), _vector(running_var, 1, channels).copy()
    if _is_compiled(channels) and channels.shape[2] > 1:
        from dynograd.kernels.normalizations_numba import batch_norm

        y, rstd = np.empty_like(channels), np.empty_like(mean)
        batch_norm(channels, scale, shift, float(eps), training, y, mean, variance, rstd)
    else:
        if training:
            mean = channels.sum(axis=(0, 2)) / count
            variance = np.square(channels - mean[:, None]).sum(axis=(0, 2)) / count
        rstd = (1 / np.sqrt(variance + eps)).astype(channels.dtype, copy=False)
        y = (channels - mean[:, None]) * (rstd * scale)[:, None]
        y += shift[:, None]
    if training:
        variance = variance * (count / max(count - 1, 1))
    return y.reshape(x.shape).astype(x.dtype, copy=False), mean, rstd, variance


def batch_norm_backward(g, x, weight, mean, rstd, training):
    """Gradients (gx, gw, gb) from the mean and rstd that the forward kernel returned."""
    channels, outer = _channels(x), _channels(g)
    scale = _vector(weight, 1, channels)
    if _is_compiled(channels) and channels.shape[2] > 1:
        from dynograd.kernels.normalizations_numba import batch_norm_gradients

        gx, gw, gb = np.empty_like(channels), np.empty_like(mean), np.empty_like(mean)
        batch_norm_gradients(outer, channels, scale, mean, rstd, training, gx, gw, gb)
    else:
        normal = (channels - mean[:, None]) * rstd[:, None]
        gw, gb = (outer * normal).sum(axis=(0, 2)), outer.sum(axis=(0, 2))
        gx = outer
        if training:
            count = max(channels.shape[0] * channels.shape[2], 1)
            gx = outer - (gb[:, None] + normal * gw[:, None]) / count
        gx = gx * (scale * rstd)[:, None]
    kind = x.dtype if weight is None else weight.dtype
    return gx.reshape(x.shape).astype(x.dtype, copy=False), gw.astype(kind, copy=False), gb.astype(kind, copy=False)


def _is_compiled(x):
    return x.dtype == np.float32 and x.size >= COMPILED_SIZE


def _rows(x, normalized_ndim):
    """(rows, D), C-contiguous, in the type that computes."""
    split = x.ndim - normalized_ndim
    return np.ascontiguousarray(_wide(x)).reshape(prod(x.shape[:split]), prod(x.shape[split:]))


def _channels(x):
    """(N, C, L), C-contiguous, in the type that computes."""
    return np.ascontiguousarray(_wide(x)).reshape(*x.shape[:2], prod(x.shape[2:]))


def _vector(values, default, like):
    """A flat parameter in the type that computes; `default` throughout for None."""
    if values is None:
        return np.full(like.shape[1], default, like.dtype)
    return np.ascontiguousarray(values, like.dtype).reshape(-1)


def _wide(x):
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x
