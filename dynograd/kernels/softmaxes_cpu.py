"""Softmax and its logarithm over one dimension, on NumPy arrays.

float32 rows go through Numba, small arrays and float64 through NumPy. Half types are computed in float32. A slice that
is -inf throughout, or holds NaN or +inf, gives NaN, as in PyTorch.
"""

from __future__ import annotations

import numpy as np

__all__ = ["log_softmax_backward", "log_softmax_forward", "softmax_backward", "softmax_forward"]

# Below this many elements NumPy's 5 us are no worse than loading Numba for a script's first softmax.
COMPILED_SIZE = 256


def softmax_forward(x, dim):
    """exp(x) / sum(exp(x)) along `dim`; x's shape and dtype."""
    if _is_compiled(x):
        from dynograd.kernels.softmaxes_numba import softmax_rows

        return _by_rows(softmax_rows, dim, x)
    wide = _wide(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.exp(wide - wide.max(axis=dim, keepdims=True, initial=-np.inf))
        y /= y.sum(axis=dim, keepdims=True)
    return y.astype(x.dtype, copy=False)


def softmax_backward(g, y, dim):
    """Gradient of the input from that of the output `y`: y * (g - sum(y * g))."""
    if _is_compiled(y):
        from dynograd.kernels.softmaxes_numba import softmax_backward_rows

        return _by_rows(softmax_backward_rows, dim, g, y)
    outer, wide = _wide(g), _wide(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = (outer * wide).sum(axis=dim, keepdims=True)
        return (wide * (outer - inner)).astype(y.dtype, copy=False)


def log_softmax_forward(x, dim):
    """x - log(sum(exp(x))) along `dim`, without overflow; x's shape and dtype."""
    if _is_compiled(x):
        from dynograd.kernels.softmaxes_numba import log_softmax_rows

        return _by_rows(log_softmax_rows, dim, x)
    wide = _wide(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        y = wide - wide.max(axis=dim, keepdims=True, initial=-np.inf)
        y -= np.log(np.exp(y).sum(axis=dim, keepdims=True))
    return y.astype(x.dtype, copy=False)


def log_softmax_backward(g, y, dim):
    """Gradient of the input from that of the output `y`: g - exp(y) * sum(g)."""
    if _is_compiled(y):
        from dynograd.kernels.softmaxes_numba import log_softmax_backward_rows

        return _by_rows(log_softmax_backward_rows, dim, g, y)
    outer, wide = _wide(g), _wide(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (outer - np.exp(wide) * outer.sum(axis=dim, keepdims=True)).astype(y.dtype, copy=False)


def _is_compiled(x):
    return x.size >= COMPILED_SIZE and (x.dtype == np.float32 or _is_half(x))


def _is_half(x):
    return x.dtype.itemsize == 2


def _wide(x):
    return x.astype(np.float32) if _is_half(x) else x


def _by_rows(rows_kernel, dim, *arrays):
    """Run a kernel on (R, C) views or copies whose last dimension is `dim`."""
    kind, shape = arrays[-1].dtype, arrays[-1].shape
    inner = dim not in (-1, len(shape) - 1)
    moved = [np.moveaxis(array, dim, -1) for array in arrays] if inner else arrays
    rows = [np.ascontiguousarray(_wide(array)).reshape(-1, shape[dim]) for array in moved]
    result = np.empty_like(rows[-1])
    rows_kernel(*rows, result)
    result = result.reshape(moved[-1].shape).astype(kind, copy=False)
    return np.ascontiguousarray(np.moveaxis(result, -1, dim)) if inner else result
