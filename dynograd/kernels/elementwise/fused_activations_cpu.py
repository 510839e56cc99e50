"""Activations together with what stands before or behind them, in one pass over float32 NumPy arrays (row programs)."""

from __future__ import annotations

from math import prod

from dynograd.arrays.buffers import in_shape
from dynograd.kernels.build.compiled_kernels import compiled, compiled_for
from dynograd.kernels.rows.folding_cpu import rows_of, vector_of


def in_one_pass(*arrays):
    """Whether the kernels here take these arrays."""
    first = arrays[0]
    return all(array.dtype.char == "f" for array in arrays) and first.size > 0 and compiled_for(first.size) is not None


def bias_activation_forward(name, x, bias):
    """The activation `name` of x + bias; bias (C,) runs along the last dim."""
    return in_shape(compiled[f"bias_{name}"](rows_of(x, 1), vector_of(bias, 0, bias.size, x.dtype)), x.shape)


def bias_activation_backward(name, g, x, bias):
    """Gradients (gx, gb)."""
    gx, gb = compiled[f"bias_{name}_backward"](rows_of(g, 1), rows_of(x, 1), vector_of(bias, 0, bias.size, x.dtype))
    return in_shape(gx, x.shape), gb


def swiglu_forward(gate, x):
    """silu(gate) * x."""
    return in_shape(compiled["swiglu"](rows_of(gate, 1), rows_of(x, 1)), x.shape)


def swiglu_backward(g, gate, x):
    """Gradients of gate and x."""
    parts = compiled["swiglu_backward"](rows_of(g, 1), rows_of(gate, 1), rows_of(x, 1))
    return tuple(in_shape(part, x.shape) for part in parts)


def add_layer_norm_forward(x, residual, weight, bias, rank, eps):
    """(y, total, mean, rstd) with total = x + residual and y its layer norm over the last `rank` dims."""
    size = prod(x.shape[x.ndim - rank :])
    scale = vector_of(weight, 1, size, x.dtype)
    shift = vector_of(bias, 0, size, x.dtype)
    y, total, mean, rstd = compiled["add_layer_norm"](
        rows_of(x, rank), rows_of(residual, rank), scale, shift, float(eps)
    )
    return in_shape(y, x.shape), in_shape(total, x.shape), mean, rstd


def add_layer_norm_backward(g, g_total, total, mean, rstd, weight, rank):
    """Gradients (gx, gw, gb); that of the residual is gx too."""
    shape = total.shape[total.ndim - rank :]
    size = prod(shape)
    scale = vector_of(weight, 1, size, total.dtype)
    rows = [rows_of(operand, rank) for operand in (g, g_total, total)]
    gx, gw, gb = compiled["add_layer_norm_backward"](*rows, mean, rstd, scale)
    return in_shape(gx, total.shape), in_shape(gw, shape), in_shape(gb, shape)
