"""Softmax and its logarithm over one dimension, on NumPy arrays.

float32 goes through row programs (one pass for the maximum, one for the sum, one for the result, all while the row is in cache);
tiny arrays and float64 through NumPy. Half types are computed in float32. A slice that is -inf throughout, or holds NaN or +inf,
gives NaN, as in PyTorch.
"""

from __future__ import annotations

import numpy as np

from dynograd.kernels.build.compiled_kernels import compiled_for, in_shape

__all__ = ["log_softmax_backward", "log_softmax_forward", "softmax_backward", "softmax_forward"]


def softmax_forward(x, dim):
    """exp(x) / sum(exp(x)) along `dim`; x's shape and dtype."""
    if x.dtype.char != "d" and (kernels := compiled_for(x.size)) is not None:
        if dim == 1 == x.ndim - 1 and x.dtype.char == "f" and x.flags.c_contiguous:
            return kernels["softmax"](x)
        return _along(kernels, "softmax", dim, x)
    wide = _wide(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.exp(wide - wide.max(axis=dim, keepdims=True, initial=-np.inf))
        y /= y.sum(axis=dim, keepdims=True)
    return y.astype(x.dtype, copy=False)


def softmax_backward(g, y, dim):
    """Gradient of the input from that of the output `y`: y * (g - sum(y * g))."""
    if y.dtype.char != "d" and (kernels := compiled_for(y.size)) is not None:
        return _along(kernels, "softmax_backward", dim, g, y)
    outer, wide = _wide(g), _wide(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = (outer * wide).sum(axis=dim, keepdims=True)
        return (wide * (outer - inner)).astype(y.dtype, copy=False)


def log_softmax_forward(x, dim):
    """x - log(sum(exp(x))) along `dim`, without overflow; x's shape and dtype."""
    if x.dtype.char != "d" and (kernels := compiled_for(x.size)) is not None:
        return _along(kernels, "log_softmax", dim, x)
    wide = _wide(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        y = wide - wide.max(axis=dim, keepdims=True, initial=-np.inf)
        y -= np.log(np.exp(y).sum(axis=dim, keepdims=True))
    return y.astype(x.dtype, copy=False)


def log_softmax_backward(g, y, dim):
    """Gradient of the input from that of the output `y`: g - exp(y) * sum(g)."""
    if y.dtype.char != "d" and (kernels := compiled_for(y.size)) is not None:
        return _along(kernels, "log_softmax_backward", dim, g, y)
    outer, wide = _wide(g), _wide(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (outer - np.exp(wide) * outer.sum(axis=dim, keepdims=True)).astype(y.dtype, copy=False)


def _wide(x):
    """In float32 at least, and row-major: so are the results, as PyTorch's are."""
    if x.dtype.itemsize == 2:
        return x.astype(np.float32, order="C")
    return x if x.flags.c_contiguous else np.ascontiguousarray(x)


def _along(kernels, name, dim, *arrays):
    """Runs a row program on rows along `dim`: (R, C) where that is the last one, else (outer, C, inner) without a copy."""
    like = arrays[-1]
    shape, kind = like.shape, like.dtype
    if len(arrays) == 1 and dim == 1 == len(shape) - 1 and kind.char == "f" and like.flags.c_contiguous:
        return kernels[name](like)
    if kind.char != "f":
        arrays = [array.astype(np.float32) for array in arrays]
    arrays = [array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in arrays]
    last = len(shape) - 1
    if dim < 0:
        dim += last + 1
    inner = 1
    for size in shape[dim + 1 :]:
        inner *= size
    if inner != 1:
        count = shape[dim] * inner
        folded = (like.size // count if count else 0, shape[dim], inner)
        y = kernels[name + "_inner"](*[array.reshape(folded) for array in arrays])
    else:
        if last != 1 or dim != 1:
            rows = like.size // shape[dim] if shape[dim] else 0
            arrays = [array.reshape(rows, shape[dim]) for array in arrays]
        y = kernels[name](*arrays)
    if kind.char != "f":
        y = y.astype(kind)
    return in_shape(y, shape)
