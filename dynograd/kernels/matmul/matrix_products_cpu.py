"""What products of matrices and vectors need besides `matmul`, on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.reduce.reductions_cpu import widened


def cross(input: Any, other: Any, dim: int) -> Any:
    """The cross product along `dim`, of size 3, of two arrays of one shape."""
    x, y = (numpy.moveaxis(widened(operand), dim, 0) for operand in (input, other))
    out = numpy.empty(input.shape, x.dtype)
    rows = numpy.moveaxis(out, dim, 0)
    for place, (first, second) in enumerate(((1, 2), (2, 0), (0, 1))):
        numpy.multiply(x[first], y[second], rows[place, ...])
        rows[place, ...] -= x[second] * y[first]
    return out.astype(input.dtype, copy=False)


def identity_like(input: Any) -> Any:
    """Identity matrices in the shape and dtype of a batch of square ones."""
    out = numpy.zeros(input.shape, input.dtype)
    out[...] = numpy.eye(input.shape[-1])
    return out


def scaled(input: Any, factor: float) -> Any:
    """factor * input, in the dtype of `input`."""
    return numpy.multiply(input, input.dtype.type(factor))
