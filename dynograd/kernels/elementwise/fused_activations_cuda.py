"""Activations together with what stands before or behind them, in one pass over CudaArrays (row programs).

Half types are computed in float32 and rounded once.
"""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.rows.folding_cuda import one_row, rows_of, vector_of
from dynograd.kernels.rows.row_programs_cuda import run


def in_one_pass(*arrays: Any) -> bool:
    """Whether the kernels here take these arrays."""
    first = arrays[0]
    return all(type(array) is type(first) and array.dtype == first.dtype for array in arrays) and (
        first.dtype.kind in "fV" and first.size > 0
    )


def bias_activation_forward(name: str, x: Any, bias: Any) -> Any:
    """The activation `name` of x + bias; bias (C,) runs along the last dim."""
    return run(f"bias_{name}", [rows_of(x, 1), _vector(bias)])[0].reshape(x.shape)


def bias_activation_backward(name: str, g: Any, x: Any, bias: Any) -> Any:
    """Gradients (gx, gb)."""
    arrays = [rows_of(g, 1), rows_of(x, 1), _vector(bias)]
    gx, gb = run(f"bias_{name}_backward", arrays, kinds=[x.dtype, bias.dtype])
    return gx.reshape(x.shape), gb


def swiglu_forward(gate: Any, x: Any) -> Any:
    """silu(gate) * x."""
    return run("swiglu", [one_row(gate), one_row(x)])[0].reshape(x.shape)


def swiglu_backward(g: Any, gate: Any, x: Any) -> Any:
    """Gradients of gate and x."""
    return tuple([array.reshape(x.shape) for array in run("swiglu_backward", [one_row(g), one_row(gate), one_row(x)])])


def add_layer_norm_forward(x: Any, residual: Any, weight: Any, bias: Any, rank: int, eps: float) -> Any:
    """(y, total, mean, rstd) with total = x + residual and y its layer norm over the last `rank` dims."""
    rows = rows_of(x, rank)
    arrays = [rows, rows_of(residual, rank), vector_of(weight, 1, rows), vector_of(bias, 0, rows), float(eps)]
    y, total, mean, rstd = run("add_layer_norm", arrays)
    return y.reshape(x.shape), total.reshape(x.shape), mean, rstd


def add_layer_norm_backward(g: Any, g_total: Any, total: Any, mean: Any, rstd: Any, weight: Any, rank: int) -> Any:
    """Gradients (gx, gw, gb); that of the residual is gx too."""
    shape = total.shape[total.ndim - rank :]
    rows = rows_of(total, rank)
    kind = total.dtype if weight is None else weight.dtype
    arrays = [rows_of(g, rank), rows_of(g_total, rank), rows, mean, rstd, vector_of(weight, 1, rows)]
    gx, gw, gb = run("add_layer_norm_backward", arrays, kinds=[total.dtype, kind, kind])
    return gx.reshape(total.shape), gw.reshape(shape), gb.reshape(shape)


def _vector(values: Any) -> Any:
    return contiguous(values).reshape((prod(values.shape),))
