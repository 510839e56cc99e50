"""Activations together with what stands before or behind them, in one pass over float32 NumPy arrays (row programs)."""

from __future__ import annotations

from math import prod

import numpy as np

from dynograd.kernels.build.compiled_kernels import compiled_for, in_shape

__all__ = [
    "add_layer_norm_backward",
    "add_layer_norm_forward",
    "bias_activation_backward",
    "bias_activation_forward",
    "in_one_pass",
    "swiglu_backward",
    "swiglu_forward",
]


def in_one_pass(*arrays):
    """Whether the kernels here take these arrays."""
    first = arrays[0]
    return all(one.dtype.char == "f" for one in arrays) and first.size > 0 and compiled_for(first.size) is not None


def bias_activation_forward(name, x, bias):
    """The activation `name` of x + bias; bias (C,) runs along the last dim."""
    return in_shape(compiled_for(1 << 30)[f"bias_{name}"](_rows(x), _vector(bias)), x.shape)


def bias_activation_backward(name, g, x, bias):
    """Gradients (gx, gb)."""
    gx, gb = compiled_for(1 << 30)[f"bias_{name}_backward"](_rows(g), _rows(x), _vector(bias))
    return in_shape(gx, x.shape), gb


def swiglu_forward(gate, x):
    """silu(gate) * x."""
    return in_shape(compiled_for(1 << 30)["swiglu"](_rows(gate), _rows(x)), x.shape)


def swiglu_backward(g, gate, x):
    """Gradients of gate and x."""
    found = compiled_for(1 << 30)["swiglu_backward"](_rows(g), _rows(gate), _rows(x))
    return tuple(in_shape(one, x.shape) for one in found)


def add_layer_norm_forward(x, residual, weight, bias, rank, eps):
    """(y, total, mean, rstd) with total = x + residual and y its layer norm over the last `rank` dims."""
    size = prod(x.shape[x.ndim - rank :])
    scale = np.ones(size, np.float32) if weight is None else _vector(weight)
    shift = np.zeros(size, np.float32) if bias is None else _vector(bias)
    folded = (-1, size)
    given = [np.ascontiguousarray(one).reshape(folded) for one in (x, residual)]
    y, total, mean, rstd = compiled_for(1 << 30)["add_layer_norm"](*given, scale, shift, float(eps))
    return in_shape(y, x.shape), in_shape(total, x.shape), mean, rstd


def add_layer_norm_backward(g, g_total, total, mean, rstd, weight, rank):
    """Gradients (gx, gw, gb); that of the residual is gx too."""
    shape = total.shape[total.ndim - rank :]
    size = prod(shape)
    scale = np.ones(size, np.float32) if weight is None else _vector(weight)
    given = [np.ascontiguousarray(one).reshape(-1, size) for one in (g, g_total, total)]
    gx, gw, gb = compiled_for(1 << 30)["add_layer_norm_backward"](*given, mean, rstd, scale)
    return in_shape(gx, total.shape), in_shape(gw, shape), in_shape(gb, shape)


def _rows(x):
    """(R, C) along the last dim."""
    return np.ascontiguousarray(x).reshape(prod(x.shape[:-1]), x.shape[-1] if x.ndim else 1)


def _vector(values):
    return np.ascontiguousarray(values).reshape(-1)
