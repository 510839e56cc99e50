"""Activations together with what stands before or behind them, in one pass over CudaArrays (row programs).

Half types are computed in float32 and rounded once.
"""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.kernels.norm.normalizations_cuda import folded, parameter
from dynograd.kernels.rows.row_programs_cuda import run

__all__ = [
    "add_layer_norm_backward",
    "add_layer_norm_forward",
    "bias_activation_backward",
    "bias_activation_forward",
    "in_one_pass",
    "swiglu_backward",
    "swiglu_forward",
]


def in_one_pass(*arrays: Any) -> bool:
    """Whether the kernels here take these arrays."""
    first = arrays[0]
    return all(type(one) is type(first) and one.dtype == first.dtype for one in arrays) and (
        first.dtype.kind in "fV" and first.size > 0
    )


def bias_activation_forward(name: str, x: Any, bias: Any) -> Any:
    """The activation `name` of x + bias; bias (C,) runs along the last dim."""
    return run(f"bias_{name}", [folded(x, 1), _vector(bias)])[0].reshape(x.shape)


def bias_activation_backward(name: str, g: Any, x: Any, bias: Any) -> Any:
    """Gradients (gx, gb)."""
    arrays = [folded(g, 1), folded(x, 1), _vector(bias)]
    gx, gb = run(f"bias_{name}_backward", arrays, kinds=[x.dtype, bias.dtype])
    return gx.reshape(x.shape), gb


def swiglu_forward(gate: Any, x: Any) -> Any:
    """silu(gate) * x."""
    return run("swiglu", [_line(gate), _line(x)])[0].reshape(x.shape)


def swiglu_backward(g: Any, gate: Any, x: Any) -> Any:
    """Gradients of gate and x."""
    return tuple([one.reshape(x.shape) for one in run("swiglu_backward", [_line(g), _line(gate), _line(x)])])


def add_layer_norm_forward(x: Any, residual: Any, weight: Any, bias: Any, rank: int, eps: float) -> Any:
    """(y, total, mean, rstd) with total = x + residual and y its layer norm over the last `rank` dims."""
    rows = folded(x, rank)
    arrays = [rows, folded(residual, rank), parameter(weight, 1, rows), parameter(bias, 0, rows), float(eps)]
    y, total, mean, rstd = run("add_layer_norm", arrays)
    return y.reshape(x.shape), total.reshape(x.shape), mean, rstd


def add_layer_norm_backward(g: Any, g_total: Any, total: Any, mean: Any, rstd: Any, weight: Any, rank: int) -> Any:
    """Gradients (gx, gw, gb); that of the residual is gx too."""
    shape = total.shape[total.ndim - rank :]
    rows = folded(total, rank)
    kind = total.dtype if weight is None else weight.dtype
    arrays = [folded(g, rank), folded(g_total, rank), rows, mean, rstd, parameter(weight, 1, rows)]
    gx, gw, gb = run("add_layer_norm_backward", arrays, kinds=[total.dtype, kind, kind])
    return gx.reshape(total.shape), gw.reshape(shape), gb.reshape(shape)


def _line(x: Any) -> Any:
    """All elements as one row."""
    return (x if x.is_contiguous else x.copy()).reshape((1, x.size, 1))


def _vector(values: Any) -> Any:
    return (values if values.is_contiguous else values.copy()).reshape((prod(values.shape),))
