"""The standard's elementwise functions: dynograd's ops under the standard's names, signatures and promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.base import dtypes
from dynograd.compat.array_api.promotion import in_dtype, promoted, result_type, tensors
from dynograd.compat.array_api.table import ops
from dynograd.tensor.tensor import Tensor

_UNARY = {
    **{
        name: name
        for name in """abs acos acosh asin asinh atan atanh ceil conj cos cosh exp floor isfinite isinf isnan log log10 log1p log2
        logical_not positive real reciprocal round signbit sin sinh sqrt square tan tanh trunc""".split()
    },
    "bitwise_invert": "bitwise_not",
    "negative": "neg",
}
# The standard's names -> ours.
_BINARY = {
    **{
        name: name
        for name in """atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign hypot
        logaddexp logical_and logical_or logical_xor maximum minimum nextafter pow remainder""".split()
    },
    "add": "add",
    "divide": "div",
    "equal": "eq",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "not_equal": "ne",
    "subtract": "sub",
}
# Ops that want tensors, not numbers.
_TENSORS_ONLY = {"atan2", "copysign", "hypot", "logaddexp", "maximum", "minimum", "nextafter", *_BINARY} - {
    *"add subtract multiply divide remainder equal not_equal less less_equal greater greater_equal".split()
}

__all__ = sorted([*_UNARY, *_BINARY, "clip", "expm1", "floor_divide", "imag", "sign"])


def _unary(name: str, op: Any) -> Callable[..., Any]:
    def function(x: Tensor, /) -> Tensor:
        return op(x)

    return _named(function, name, op)


def _binary(name: str, op: Any) -> Callable[..., Any]:
    prepare = tensors if name in _TENSORS_ONLY else promoted

    def function(x1: Any, x2: Any, /) -> Tensor:
        return op(*prepare(x1, x2))

    return _named(function, name, op)


def _named(function: Any, name: str, op: Any) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The standard's `{name}`. {(op.__doc__ or '').split('>>>')[0].strip()}"
    return function


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """`x` with values below `min` raised to it and values above `max` lowered to it; NaN of any of the three gives NaN.

    >>> xp.clip(xp.asarray([1, 5, 9]), 2, 8)
    tensor([2, 5, 8])
    """
    bounds = [bound for bound in (min, max) if bound is not None]
    kind = result_type(x, *[bound for bound in bounds if isinstance(bound, Tensor)])
    clipped = in_dtype(x, kind)
    if not bounds:
        return ops.clone(clipped)
    if not any([isinstance(bound, Tensor) for bound in bounds]):
        return ops.clamp(clipped, min, max)
    if min is not None:
        clipped = ops.maximum(*tensors(clipped, min))
    return clipped if max is None else ops.minimum(*tensors(clipped, max))


def imag(x: Tensor, /) -> Tensor:
    """The imaginary part.

    >>> xp.imag(xp.asarray([1 + 2j]))
    tensor([2.])
    """
    return ops.imag(x)


def expm1(x: Tensor, /) -> Tensor:
    """`exp(x) - 1`, exact near 0; complex infinities and NaN give the standard's values where PyTorch's expm1 gives NaN.

    >>> xp.expm1(xp.asarray([xp.inf + 0j]))
    tensor([inf+0.j])
    """
    result = ops.expm1(x)
    if not x.dtype.is_complex:
        return result
    result = ops.complex(ops.real(result) + 0.0, ops.imag(result))  # -0 becomes 0
    return ops.where(ops.isfinite(x), result, ops.exp(x) - 1)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1 by the sign of `x`, of complex numbers `x / abs(x)`; NaN of NaN, where PyTorch's sign gives 0.

    >>> xp.sign(xp.asarray([-2.0, 0.0, xp.nan]))
    tensor([-1.,  0.,  nan])
    """
    signs = ops.sgn(x)
    return ops.where(ops.isnan(x), x, signs) if x.dtype.category > dtypes.INTEGER else signs


def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """`x1 / x2` rounded down; where one of them is infinite, the quotient itself, where PyTorch gives NaN or -1.

    >>> xp.floor_divide(xp.asarray([7.0, xp.inf, 1.0]), xp.asarray([2.0, 2.0, -xp.inf]))
    tensor([3., inf, -0.])
    """
    x1, x2 = promoted(x1, x2)
    quotient = ops.floor_divide(x1, x2)
    if not quotient.dtype.is_floating_point:
        return quotient
    x1, x2 = tensors(x1, x2)
    return ops.where(ops.isinf(x1) != ops.isinf(x2), x1 / x2, quotient)


globals().update({name: _unary(name, getattr(ops, op)) for name, op in _UNARY.items() if hasattr(ops, op)})
globals().update({name: _binary(name, getattr(ops, op)) for name, op in _BINARY.items() if hasattr(ops, op)})
