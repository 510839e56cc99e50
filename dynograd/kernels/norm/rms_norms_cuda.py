"""RMS norm over the last dimensions of CudaArrays. Half types are computed in float32."""

from __future__ import annotations

from typing import Any

from dynograd.kernels.rows.folding_cuda import rows_of, vector_of
from dynograd.kernels.rows.row_programs_cuda import run


def rms_norm_forward(x: Any, normalized_ndim: int, weight: Any, eps: float) -> Any:
    """(y, scale): x over the root of its mean square, times weight (may be None); scale (rows,) is 1 / that root."""
    rows = rows_of(x, normalized_ndim)
    y, scale = run("rms_norm", [rows, vector_of(weight, 1, rows), float(eps)])
    return y.reshape(x.shape), scale


def rms_norm_backward(g: Any, x: Any, weight: Any, scale: Any, normalized_ndim: int) -> Any:
    """Gradients (gx, gw); gw is None without a weight."""
    rows = rows_of(x, normalized_ndim)
    kind = None if weight is None else weight.dtype
    arrays = [rows_of(g, normalized_ndim), rows, vector_of(weight, 1, rows), scale]
    gx, gw = run("rms_norm_backward", arrays, kinds=[x.dtype, kind])
    return gx.reshape(x.shape), None if weight is None else gw.reshape(weight.shape)
