"""Softmax, its logarithm and softmin over one dim."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import class_dim
from dynograd.errors import DtypeError
from dynograd.kernels import kernel
from dynograd.ops.argument_kinds import ClassDim, Dtype
from dynograd.ops.elementwise.exponentials import exp
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.reduce.reductions import sum as sum_dims
from dynograd.ops.row import Row

__all__ = ["log_softmax", "softmax", "softmin"]

FAMILY = Row(functional=True)
_SCALED = Row(out="exact", cast={"cuda": "wide"}, uneven=True)


@op(method=True, saves="output", few="softmaxes.softmax_forward", few_dtypes="efd", **_SCALED)
def softmax(input: Array, dim: ClassDim = None, _stacklevel: Dtype = 3, dtype: Dtype = None) -> Array:
    """`exp(input)`, scaled to sum to 1 along `dim`.

    A slice that is -inf throughout gives NaN, as in PyTorch.

    Args:
        input: tensor of any shape.
        dim: which dimension; negative counts from the end.
        dtype: `input` is converted to it first.
    Returns:
        The shape of `input`; slices along `dim` sum to 1.
    Raises:
        DimError: `dim` is outside `input`.
        DtypeError: an integer input without `dtype`.

    >>> dynograd.softmax(tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    _check_dtype("softmax", input)
    return kernel("softmaxes", "softmax_forward", input)(input, dim)


@softmax.backward
def softmax_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    y = saved.output
    return (y * (g - sum_dims(y * g, (dim,), True)),)


@softmax.fast_backward
def softmax_fast_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (kernel("softmaxes", "softmax_backward", g)(g, saved.output, dim),)


@softmax.jvp
def softmax_jvp(tangents: Any, saved: Any, dim: Any) -> Array:
    y, way = saved.output, tangents[0]
    return y * (way - sum_dims(y * way, (dim,), True))


@op(method=True, saves="output", few="softmaxes.log_softmax_forward", few_dtypes="efd", **_SCALED)
def log_softmax(input: Array, dim: ClassDim = None, _stacklevel: Dtype = 3, dtype: Dtype = None) -> Array:
    """The logarithm of `softmax`, computed without overflow.

    Args:
        input: tensor of any shape.
        dim: which dimension; negative counts from the end.
        dtype: `input` is converted to it first.
    Returns:
        A tensor of the shape of `input`.
    Raises:
        DimError: `dim` is outside `input`.

    >>> dynograd.log_softmax(tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    _check_dtype("log_softmax", input)
    return kernel("softmaxes", "log_softmax_forward", input)(input, dim)


@log_softmax.backward
def log_softmax_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (g - exp(saved.output) * sum_dims(g, (dim,), True),)


@log_softmax.fast_backward
def log_softmax_fast_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (kernel("softmaxes", "log_softmax_backward", g)(g, saved.output, dim),)


@log_softmax.jvp
def log_softmax_jvp(tangents: Any, saved: Any, dim: Any) -> Array:
    way = tangents[0]
    return way - sum_dims(exp(saved.output) * way, (dim,), True)


@composed(out=None)
def softmin(input: Any, dim: Any = None, _stacklevel: Any = 3, dtype: Any = None) -> Array:
    """`softmax(-input)`: the smallest element gets most.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        dtype: `input` is converted to it first.
    Returns:
        The shape of `input`; slices along `dim` sum to 1.

    >>> dynograd.nn.functional.softmin(tensor([0.0, 100.0]), dim=0)
    tensor([1.0000e+00, 3.7835e-44])
    """
    if dtype is None and (_stacklevel is None or type(_stacklevel) is int):
        _check_dtype("softmin", getattr(input, "array", input))
    return softmax(-input, class_dim("softmin", dim, len(input.shape)), _stacklevel, dtype)


def _check_dtype(who: str, input: Any) -> None:
    if input.dtype.itemsize == 1:
        dtypes.refuse_float8(who, input)
    if input.dtype.kind in "iubc":
        kind = dtypes.of_array(input)
        raise DtypeError(
            f"{who}: not implemented for {kind}: expected a floating dtype. Use input.float(), or pass dtype=dynograd.float32."
        )
