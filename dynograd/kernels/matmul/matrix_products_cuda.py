"""What products of matrices and vectors need besides `matmul` on the GPU, twin of `matrix_products_cpu`."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays.cuda_arrays import empty, operations
from dynograd.kernels.matmul import matrix_products_triton as device

_BLOCK = 512  # elements of a program, 4 for each thread of its 4 warps


def cross(input: Any, other: Any, dim: int) -> Any:
    """The cross product along `dim`, of size 3, of two arrays of one shape."""
    out = empty(input.shape, input.dtype, input.device_index)
    if not out.size:
        return out
    if input.dtype.kind == "c":
        a, b, c, d = (operand.copy() for operand in (input.real, input.imag, other.real, other.imag))
        operations.copy_into(out.real, cross(a, c, dim) - cross(b, d, dim))
        operations.copy_into(out.imag, cross(a, d, dim) + cross(b, c, dim))
        return out
    x, y = (operand if operand.is_contiguous else operand.copy() for operand in (input, other))
    count, inner = out.size // 3, prod(out.shape[dim % out.ndim + 1 :])
    device.cross_products((-(-count // _BLOCK),), x, y, out, count, inner, BLOCK=_BLOCK, num_warps=4)
    return out


def identity_like(input: Any) -> Any:
    """Identity matrices in the shape and dtype of a batch of square ones."""
    out = empty(input.shape, input.dtype, input.device_index)
    out.fill(0)
    size = out.shape[-1]
    down, across = out.strides[-2:]
    diagonal = out.as_strided((*out.shape[:-2], size), (*out.strides[:-2], down + across))
    operations.fill(diagonal, 1)
    return out


def scaled(input: Any, factor: float) -> Any:
    """factor * input, in the dtype of `input`."""
    return operations.elementwise("mul", input, numpy.array(factor).astype(input.dtype).item())
