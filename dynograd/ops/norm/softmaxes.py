"""Softmax, its logarithm and softmin over one dim."""

from __future__ import annotations

import warnings
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import normalize_dim
from dynograd.errors import DtypeError, user_level
from dynograd.kernels import kernel
from dynograd.ops.elementwise.exponentials import exp
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.reduce.reductions import sum_dims
from dynograd.ops.row import Row

__all__ = ["log_softmax", "softmax", "softmin"]

FAMILY = Row(functional=True)


@op(name="softmax", saves="output", out="exact", cast={"cuda": "wide"}, uneven=True)
def softmax_over(input: Array, dim: int) -> Array:
    """`exp(input) / sum(exp(input))` along `dim`, counted from the front."""
    if input.dtype.itemsize == 1:
        dtypes.refuse_float8("softmax", input)
    return kernel("softmaxes", "softmax_forward", input)(input, dim)


@softmax_over.backward
def softmax_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    y = saved.output
    return (y * (g - sum_dims(y * g, (dim,), True)),)


@softmax_over.fast_backward
def softmax_fast_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (kernel("softmaxes", "softmax_backward", g)(g, saved.output, dim),)


@softmax_over.jvp
def softmax_jvp(tangents: Any, saved: Any, dim: Any) -> Array:
    y, way = saved.output, tangents[0]
    return y * (way - sum_dims(y * way, (dim,), True))


@op(name="log_softmax", saves="output", out="exact", cast={"cuda": "wide"}, uneven=True)
def log_softmax_over(input: Array, dim: int) -> Array:
    """`input - log(sum(exp(input)))` along `dim`, counted from the front."""
    if input.dtype.itemsize == 1:
        dtypes.refuse_float8("log_softmax", input)
    return kernel("softmaxes", "log_softmax_forward", input)(input, dim)


@log_softmax_over.backward
def log_softmax_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (g - exp(saved.output) * sum_dims(g, (dim,), True),)


@log_softmax_over.fast_backward
def log_softmax_fast_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (kernel("softmaxes", "log_softmax_backward", g)(g, saved.output, dim),)


@log_softmax_over.jvp
def log_softmax_jvp(tangents: Any, saved: Any, dim: Any) -> Array:
    way = tangents[0]
    return way - sum_dims(exp(saved.output) * way, (dim,), True)


def _quick_softmax(compute: Any, input: Any, dim: Any, _stacklevel: Any, dtype: Any) -> tuple | None:
    if (
        type(dim) is int
        and -input.ndim <= dim < input.ndim
        and dtype is None
        and _stacklevel == 3
        and input.dtype.char in "efd"
    ):
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place), (place,)
    return None


@composed(covers="softmax", method=True)
@shortcut(softmax_over, _quick_softmax, compute="softmaxes.softmax_forward")
def softmax(input: Any, dim: Any = None, _stacklevel: Any = 3, dtype: Any = None) -> Array:
    """`exp(input)`, scaled to sum to 1 along `dim`.

    A slice that is -inf throughout gives NaN, as in PyTorch.

    Args:
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
    return _over_dim("softmax", softmax_over, input, dim, _stacklevel, dtype)


@composed(covers="log_softmax", method=True)
@shortcut(log_softmax_over, _quick_softmax, compute="softmaxes.log_softmax_forward")
def log_softmax(input: Any, dim: Any = None, _stacklevel: Any = 3, dtype: Any = None) -> Array:
    """The logarithm of `softmax`, computed without overflow.

    Args:
        dim: which dimension; negative counts from the end.
        dtype: `input` is converted to it first.
    Raises:
        DimError: `dim` is outside `input`.

    >>> dynograd.log_softmax(tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    return _over_dim("log_softmax", log_softmax_over, input, dim, _stacklevel, dtype)


@composed(out=None)
def softmin(input: Any, dim: Any = None, _stacklevel: Any = 3, dtype: Any = None) -> Array:
    """`softmax(-input)`: the smallest element gets most.

    >>> dynograd.nn.functional.softmin(tensor([0.0, 100.0]), dim=0)
    tensor([1.0000e+00, 3.7835e-44])
    """
    return _over_dim("softmin", softmax_over, -input, dim, _stacklevel, dtype)


def _over_dim(who: str, over: Any, input: Any, dim: Any, stacklevel: Any, dtype: Any) -> Array:
    rank = len(input.shape)
    if type(stacklevel) is not int:  # dynograd.softmax(input, dim, dtype)
        dtype = stacklevel
    if dim is None:
        dim = 0 if rank in (0, 1, 3) else 1
        warnings.warn(
            f"Implicit dimension choice for {who} has been deprecated. Change the call to include dim=X as an argument (dim={dim} "
            f"is taken here).",
            UserWarning,
            stacklevel=user_level(),
        )
    if type(dim) is not int or not 0 <= dim < rank:
        dim = normalize_dim(who, dim, rank)
    if dtype is not None:
        input = convert(input, dtypes.as_dtype(dtype))
    elif getattr(input, "array", input).dtype.kind in "iubc":
        kind = dtypes.of_array(getattr(input, "array", input))
        raise DtypeError(
            f"{who}: not implemented for {kind}: expected a floating dtype. Use input.float(), or pass dtype=dynograd.float32."
        )
    if rank == 0:
        return reshaped(over(reshaped(input, (1,)), 0), ())
    return over(input, dim)
