"""Matrix products through NumPy's BLAS; half types and their accumulation in float32."""

from __future__ import annotations

from typing import Any

import numpy


def _is_half(kind: Any) -> bool:
    return kind.kind == "V" or kind.num == 23


def matmul_forward(input: Any, other: Any) -> Any:
    kind = input.dtype
    if _is_half(kind):
        return numpy.matmul(input.astype(numpy.float32), other.astype(numpy.float32)).astype(kind)
    if other.ndim == 2 and input.ndim > 2 and input.flags.c_contiguous:
        flat = input.reshape(-1, input.shape[-1]) if input.shape[-1] else numpy.zeros((input.size, 0), kind)
        if input.shape[-1]:
            return numpy.matmul(flat, other).reshape(*input.shape[:-1], other.shape[-1])
    return numpy.matmul(input, other)


def linear_forward(input: Any, weight: Any, bias: Any) -> Any:
    kind = input.dtype
    if _is_half(kind):
        out = matmul_forward(input.astype(numpy.float32), weight.T.astype(numpy.float32))
        return (out if bias is None else out + bias.astype(numpy.float32)).astype(kind)
    out = matmul_forward(input, weight.T)
    if bias is not None:
        if type(out) is not numpy.ndarray or out.shape[-1:] != bias.shape[-1:]:
            return out + bias
        out += bias
    return out
