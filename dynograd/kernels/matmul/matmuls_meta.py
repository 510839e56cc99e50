"""What matrix products make of arrays without values (device "meta"): the shapes of `matmuls_cpu`."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import meta_arrays


def matmul_forward(input: Any, other: Any) -> meta_arrays.MetaArray:
    """The shape of `input @ other`.

    Raises:
        ValueError: the shapes do not fit.
    """
    if not input.ndim or not other.ndim:
        raise ValueError("a product of matrices and vectors has no operand without dims")
    left = input.shape if input.ndim > 1 else (1, *input.shape)
    right = other.shape if other.ndim > 1 else (*other.shape, 1)
    _check_inner(left[-1], right[-2])
    rows, columns = left[-2:-1] * (input.ndim > 1), right[-1:] * (other.ndim > 1)
    return meta_arrays.empty((*numpy.broadcast_shapes(left[:-2], right[:-2]), *rows, *columns), input.dtype)


def linear_forward(input: Any, weight: Any, bias: Any) -> meta_arrays.MetaArray:
    """The shape of `input @ weight.T + bias`.

    Raises:
        ValueError: the shapes do not fit.
    """
    _check_inner(input.shape[-1], weight.shape[-1])
    shape = (*input.shape[:-1], *weight.shape[:-1])
    return meta_arrays.empty(shape if bias is None else numpy.broadcast_shapes(shape, bias.shape), input.dtype)


def _check_inner(size: int, other: int) -> None:
    if size != other:
        raise ValueError(f"sizes {size} and {other} of the dim that is summed over differ")
