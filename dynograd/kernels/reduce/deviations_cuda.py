"""Variance and standard deviation of CudaArrays, in two passes (mean, then squared distances), in float32 for half types."""

from __future__ import annotations

from typing import Any

from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.reduce.reducing_cuda import dims_of, kept_shape
from dynograd.kernels.rows.folding_cuda import rows_along
from dynograd.kernels.rows.row_programs_cuda import run


def var_forward(input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    return _along("variance", input, dim, correction, keepdim)


def std_forward(input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    return _along("deviation", input, dim, correction, keepdim)


def distance_times(g: Any, x: Any, dim: Any) -> Any:
    """(x - mean of x over `dim`) * g, where g has one number for each mean; None where the dims do not lie side by side."""
    dims = sorted(dims_of(x.ndim, dim))
    if not dims or dims[-1] - dims[0] + 1 != len(dims):
        return None
    rows, inner = rows_along(x, tuple(dims))
    each = contiguous(g)
    return run("variance_backward", [rows, each], inner, [x.dtype])[0].reshape(x.shape)


def _along(name: str, input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    rows, inner = rows_along(input, dims_of(input.ndim, dim))
    freedom = max(rows.shape[1] - correction, 0)
    (result,) = run(name, [rows, float(freedom)], inner, [input.dtype])
    return result.reshape(kept_shape(input.shape, dim, keepdim))
