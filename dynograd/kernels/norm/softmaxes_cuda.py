"""Softmax and its logarithm over one dimension, on CudaArrays: row programs. Half types are computed in float32.

A slice that is -inf throughout, or holds NaN or +inf, gives NaN, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from dynograd.kernels.reduce.reductions_cuda import dims_of
from dynograd.kernels.rows.row_programs_cuda import rows_along, run

__all__ = ["log_softmax_backward", "log_softmax_forward", "softmax_backward", "softmax_forward"]


def softmax_forward(x: Any, dim: int) -> Any:
    """exp(x) / sum(exp(x)) along `dim`; x's shape and dtype."""
    return _along("softmax", dim, x)


def softmax_backward(g: Any, y: Any, dim: int) -> Any:
    """Gradient of the input from that of the output `y`: y * (g - sum(y * g))."""
    return _along("softmax_backward", dim, g, y)


def log_softmax_forward(x: Any, dim: int) -> Any:
    """x - log(sum(exp(x))) along `dim`, without overflow; x's shape and dtype."""
    return _along("log_softmax", dim, x)


def log_softmax_backward(g: Any, y: Any, dim: int) -> Any:
    """Gradient of the input from that of the output `y`: g - exp(y) * sum(g)."""
    return _along("log_softmax_backward", dim, g, y)


def _along(name: str, dim: int, *arrays: Any) -> Any:
    like = arrays[-1]
    dims = dims_of(like.ndim, dim)
    folded = [rows_along(array, dims) for array in arrays]
    (found,) = run(name, [rows for rows, _ in folded], folded[0][1], [like.dtype])
    return found.reshape(like.shape)
