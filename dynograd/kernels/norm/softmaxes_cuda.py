"""Softmax, its logarithm and the logarithm of a sum of exponentials on CudaArrays: row programs. Half types are computed in float32.

A slice that is -inf throughout, or holds NaN or +inf, gives NaN, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays.cuda_arrays import operations
from dynograd.kernels.reduce.reducing_cuda import dims_of, kept_shape, with_kept
from dynograd.kernels.rows.folding_cuda import rows_along
from dynograd.kernels.rows.row_programs_cuda import run


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
    (result,) = run(name, [rows for rows, _ in folded], folded[0][1], [like.dtype])
    return result.reshape(like.shape)


# --- log of a sum of exponentials ----------------------------------------------------------------------------------------


def logsumexp_forward(input: Any, dim: Any, keepdim: bool) -> Any:
    """The maximum is taken out first; where it is infinite, 0 is."""
    shape = kept_shape(input.shape, dim, keepdim)
    rows, inner = rows_along(input, dims_of(input.ndim, dim))
    return run("logsumexp", [rows], inner, kinds=[input.dtype])[0].reshape(shape)


def logsumexp_backward(g: Any, input: Any, output: Any, dim: Any, keepdim: bool) -> Any:
    """g * exp(input - output)"""
    g, output = with_kept(g, input.shape, dim), with_kept(output, input.shape, dim)
    return g * exp_difference(input, output)


def exp_difference(input: Any, output: Any) -> Any:
    """exp(input - output), and 0 where output is -inf."""
    level = operations.elementwise("where", output == float("-inf"), 0.0, output)
    return operations.elementwise("exp", input - level)
