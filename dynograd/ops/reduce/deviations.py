"""Variance and standard deviation. `correction` (1) is what is taken off the number of elements: 0 for the biased estimates."""

from __future__ import annotations

import warnings
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import reduced_dims
from dynograd.errors import DtypeError, user_level
from dynograd.kernels import kernel
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.reduce.norms import absolute_power
from dynograd.ops.reduce.reductions import count_of, kept
from dynograd.ops.reduce.reductions import mean as mean_dims

__all__ = ["std", "std_mean", "var", "var_mean"]


@op(name="var", saves="input", uneven=True)
def var_dims(input: Array, dim: Any, correction: float, keepdim: bool) -> Array:
    """The variance over `dim`."""
    if input.dtype.itemsize == 1:
        dtypes.refuse_float8("var", input)
    return kernel("deviations", "var_forward", input)(input, dim, correction, keepdim)


@op(name="std", saves="input output", uneven=True)
def std_dims(input: Array, dim: Any, correction: float, keepdim: bool) -> Array:
    """The standard deviation over `dim`."""
    if input.dtype.itemsize == 1:
        dtypes.refuse_float8("std", input)
    return kernel("deviations", "std_forward", input)(input, dim, correction, keepdim)


@var_dims.backward
def var_backward(g: Any, saved: Any, dim: Any, correction: Any, keepdim: Any) -> Gradients:
    return (_through_distance(g + g, saved.input, dim, correction, keepdim),)


@std_dims.backward
def std_backward(g: Any, saved: Any, dim: Any, correction: Any, keepdim: Any) -> Gradients:
    return (_through_distance(g * absolute_power(saved.output, -1), saved.input, dim, correction, keepdim),)


@var_dims.fast_backward
def var_fast_backward(g: Any, saved: Any, dim: Any, correction: Any, keepdim: Any) -> Gradients:
    x = saved.input
    freedom = count_of(x.shape, dim) - correction
    if freedom > 0:
        result = kernel("deviations", "distance_times", x)(g * (2 / freedom), x, dim)
        if result is not None:
            return (result,)
    return (_through_distance(g + g, x, dim, correction, keepdim),)


@std_dims.fast_backward
def std_fast_backward(g: Any, saved: Any, dim: Any, correction: Any, keepdim: Any) -> Gradients:
    x = saved.input
    scaled = g * absolute_power(saved.output, -1)
    freedom = count_of(x.shape, dim) - correction
    if freedom > 0:
        result = kernel("deviations", "distance_times", x)(scaled / freedom, x, dim)
        if result is not None:
            return (result,)
    return (_through_distance(scaled, x, dim, correction, keepdim),)


def _through_distance(g: Any, x: Any, dim: Any, correction: float, keepdim: bool) -> Array:
    """g times the distance of x from its mean, over the degrees of freedom."""
    shape = tuple(x.shape)
    freedom = count_of(shape, dim) - correction
    if freedom > 0:
        g = g / freedom
    else:
        g = g * float("nan")
    return kept(g, shape, dim, keepdim) * (x - mean_dims(x, dim, True))


def _quick_var(
    compute: Any, input: Any, dim: Any, unbiased: Any, keepdim: Any, correction: Any, axis: Any, keepdims: Any
) -> tuple | None:
    if (
        axis is None
        and keepdims is None
        and type(keepdim) is bool
        and input.dtype.num < 256
        and (dim is None or (type(dim) is int and -input.ndim <= dim < input.ndim))
        and unbiased is None
        and correction is None
        and input.dtype.kind == "f"
        and (input.size if dim is None else input.shape[dim]) > 1
    ):
        place = dim if dim is None or dim >= 0 else dim + input.ndim
        return compute(input, place, 1, keepdim), (place, 1, keepdim)
    return None


@composed(covers="var", method=True)
@shortcut(var_dims, _quick_var, compute="deviations.var_forward")
def var(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Array:
    """The variance over `dim`: squared distances from the mean, summed, over (number of elements - correction).

    Args:
        input: floating or complex tensor.
        dim: an int or several; None for all.
        unbiased: True is correction 1, False correction 0.
        keepdim: keep the reduced dims, with size 1.
        correction: 1 unless given. Where it leaves no degrees of freedom, the result is NaN or inf, with a warning.
    Returns:
        `input`'s shape without `dim`, real.

    >>> dynograd.var(tensor([1.0, 2.0, 3.0, 4.0]))
    tensor(1.6667)
    >>> dynograd.var(tensor([1.0, 2.0, 3.0, 4.0]), correction=0)
    tensor(1.2500)
    """
    return var_dims(input, *arguments_of_deviations("var", input, dim, unbiased, keepdim, correction, axis, keepdims))


@composed(covers="std", method=True)
@shortcut(std_dims, _quick_var, compute="deviations.std_forward")
def std(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Array:
    """The standard deviation over `dim`, the root of `var`, with its arguments. Where it is 0, so is the gradient.

    Args:
        input: floating or complex tensor.
        dim: an int or several; None for all.
        unbiased: True is correction 1, False correction 0.
        keepdim: keep the reduced dims, with size 1.
        correction: 1 unless given.
    Returns:
        `input`'s shape without `dim`, real.

    >>> dynograd.std(tensor([[1.0, 3.0], [2.0, 2.0]]), dim=1)
    tensor([1.4142, 0.0000])
    """
    return std_dims(input, *arguments_of_deviations("std", input, dim, unbiased, keepdim, correction, axis, keepdims))


@composed(out=None)
def var_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Array, Array]:
    """The variance and the mean over `dim`; arguments as in `var`.

    Args:
        input: floating or complex tensor.
        dim: an int or several; None for all.
        unbiased: True is correction 1, False correction 0.
        keepdim: keep the reduced dims, with size 1.
        correction: 1 unless given.
    Returns:
        Two tensors of `input`'s shape without `dim`.

    >>> dynograd.var_mean(tensor([1.0, 2.0, 3.0, 4.0]))
    (tensor(1.6667), tensor(2.5000))
    """
    dims, correction, keepdim = arguments_of_deviations("var_mean", input, dim, unbiased, keepdim, correction)
    return var_dims(input, dims, correction, keepdim), mean_dims(input, dims, keepdim)


@composed(out=None)
def std_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Array, Array]:
    """The standard deviation and the mean over `dim`; arguments as in `var`.

    Args:
        input: floating or complex tensor.
        dim: an int or several; None for all.
        unbiased: True is correction 1, False correction 0.
        keepdim: keep the reduced dims, with size 1.
        correction: 1 unless given.
    Returns:
        Two tensors of `input`'s shape without `dim`.

    >>> dynograd.std_mean(tensor([1.0, 2.0, 3.0, 4.0]))
    (tensor(1.2910), tensor(2.5000))
    """
    dims, correction, keepdim = arguments_of_deviations("std_mean", input, dim, unbiased, keepdim, correction)
    return std_dims(input, dims, correction, keepdim), mean_dims(input, dims, keepdim)


def arguments_of_deviations(
    who: str,
    input: Any,
    dim: Any,
    unbiased: Any,
    keepdim: bool,
    correction: Any,
    axis: Any = None,
    keepdims: Any = None,
) -> tuple[Any, float, bool]:
    """(dims, correction, keepdim) of the forms f(x, unbiased), f(x, dim, unbiased, keepdim) and f(x, dim, correction=c)."""
    if type(dim) is bool:
        dim, unbiased = None, dim
    if correction is not None and unbiased is not None:
        raise TypeError(f"{who}: got both unbiased={unbiased} and correction={correction}. Give one of them.")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    if getattr(input, "array", input).dtype.kind in "iub":
        raise DtypeError(
            f"{who}: std and var only support floating point and complex dtypes, got {input.dtype}. Use input.float()."
        )
    correction = int(correction) if correction == int(correction) else correction
    dim, keepdim = dim if axis is None else axis, keepdim if keepdims is None else keepdims
    shape = input.shape
    dims = None if dim is None else reduced_dims(who, dim, len(shape))
    if count_of(shape, dims) <= correction:
        warnings.warn(
            f"{who}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel divided "
            f"by output numel): correction is {correction}, shape {tuple(shape)}, dim {dim}.",
            UserWarning,
            stacklevel=user_level(),
        )
    return dims, correction, keepdim
