"""The standard's elementwise functions: dynograd's ops under the standard's names, signatures and promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.base import dtypes
from dynograd.compat.array_api.promotion import in_dtype, promoted, result_type, tensors
from dynograd.compat.array_api.table import ops, sentence_of
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

# A call of each and its result; @ is `xp.asarray`.
_CALLS = """
abs(@([-2.0, 3.0])) = tensor([2., 3.])
acos(@([0.25, 0.5])) = tensor([1.3181, 1.0472])
acosh(@([1.0, 4.0])) = tensor([0.0000, 2.0634])
asin(@([0.25, 0.5])) = tensor([0.2527, 0.5236])
asinh(@([0.25, 0.5])) = tensor([0.2475, 0.4812])
atan(@([0.25, 0.5])) = tensor([0.2450, 0.4636])
atanh(@([0.25, 0.5])) = tensor([0.2554, 0.5493])
ceil(@([1.5, -1.5])) = tensor([ 2., -1.])
conj(@([1 + 2j])) = tensor([1.-2.j])
cos(@([0.25, 0.5])) = tensor([0.9689, 0.8776])
cosh(@([0.25, 0.5])) = tensor([1.0314, 1.1276])
exp(@([0.0, 1.0])) = tensor([1.0000, 2.7183])
floor(@([1.5, -1.5])) = tensor([ 1., -2.])
isfinite(@([1.0, xp.inf])) = tensor([ True, False])
isinf(@([1.0, xp.inf])) = tensor([False,  True])
isnan(@([1.0, xp.nan])) = tensor([False,  True])
log(@([1.0, 4.0])) = tensor([0.0000, 1.3863])
log10(@([0.1, 10.0])) = tensor([-1.,  1.])
log1p(@([0.0, 1.0])) = tensor([0.0000, 0.6931])
log2(@([1.0, 8.0])) = tensor([0., 3.])
logical_not(@([True, False])) = tensor([False,  True])
positive(@([1.0, -2.0])) = tensor([ 1., -2.])
real(@([1 + 2j])) = tensor([1.])
reciprocal(@([2.0, 4.0])) = tensor([0.5000, 0.2500])
round(@([0.5, 1.5])) = tensor([0., 2.])
signbit(@([-0.0, 2.0])) = tensor([ True, False])
sin(@([0.25, 0.5])) = tensor([0.2474, 0.4794])
sinh(@([0.25, 0.5])) = tensor([0.2526, 0.5211])
sqrt(@([1.0, 4.0])) = tensor([1., 2.])
square(@([2.0, 3.0])) = tensor([4., 9.])
tan(@([0.25, 0.5])) = tensor([0.2553, 0.5463])
tanh(@([0.25, 0.5])) = tensor([0.2449, 0.4621])
trunc(@([1.5, -1.5])) = tensor([ 1., -1.])
bitwise_invert(@([5, 12])) = tensor([ -6, -13])
negative(@([1.0, -2.0])) = tensor([-1.,  2.])
atan2(@([1.0, 0.0]), @([0.0, 1.0])) = tensor([1.5708, 0.0000])
bitwise_and(@([5, 12]), @([3, 4])) = tensor([1, 4])
bitwise_left_shift(@([1, 4]), @([1, 2])) = tensor([ 2, 16])
bitwise_or(@([5, 12]), @([3, 4])) = tensor([ 7, 12])
bitwise_right_shift(@([1, 4]), @([1, 2])) = tensor([0, 1])
bitwise_xor(@([5, 12]), @([3, 4])) = tensor([6, 8])
copysign(@([1.0, 2.0]), @([-1.0, 1.0])) = tensor([-1.,  2.])
hypot(@([3.0]), @([4.0])) = tensor([5.])
logaddexp(@([0.0]), @([0.0])) = tensor([0.6931])
logical_and(@([True, False]), @([True, True])) = tensor([ True, False])
logical_or(@([True, False]), @([True, True])) = tensor([True, True])
logical_xor(@([True, False]), @([True, True])) = tensor([False,  True])
maximum(@([1, 5]), @([3, 3])) = tensor([3, 5])
minimum(@([1, 5]), @([3, 3])) = tensor([1, 3])
nextafter(@([1.0]), @([2.0])) = tensor([1.0000])
pow(@([2, 3]), @([3, 2])) = tensor([8, 9])
remainder(@([7, -7]), @([3, 3])) = tensor([1, 2])
add(@([1, 5]), @([3, 3])) = tensor([4, 8])
divide(@([1.0, 4.0]), @([2.0, 2.0])) = tensor([0.5000, 2.0000])
equal(@([1, 5]), @([3, 3])) = tensor([False, False])
greater(@([1, 5]), @([3, 3])) = tensor([False,  True])
greater_equal(@([1, 5]), @([3, 3])) = tensor([False,  True])
less(@([1, 5]), @([3, 3])) = tensor([ True, False])
less_equal(@([1, 5]), @([3, 3])) = tensor([ True, False])
multiply(@([1, 5]), @([3, 3])) = tensor([ 3, 15])
not_equal(@([1, 5]), @([3, 3])) = tensor([True, True])
subtract(@([1, 5]), @([3, 3])) = tensor([-2,  2])
"""
_EXAMPLES = {
    call.partition("(")[0]: f"\n\n>>> xp.{call.replace('@', 'xp.asarray')}\n{result}"
    for call, result in [line.split(" = ") for line in _CALLS.split("\n")[1:-1]]
}

__all__ = sorted([*_UNARY, *_BINARY, "clip", "expm1", "floor_divide", "imag", "sign"])


def _unary(name: str, op: Any) -> Callable[..., Any]:
    def function(x: Tensor, /) -> Tensor:
        return op(x)

    return _named(function, name, op)


def _binary(name: str, op: Any) -> Callable[..., Any]:
    prepare = tensors if name in _TENSORS_ONLY else promoted

    def function(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
        return op(*prepare(x1, x2))

    return _named(function, name, op)


def _named(function: Any, name: str, op: Any) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    if name in _UNARY:
        sentence, arguments, shape = sentence_of(op), "x: a tensor", "The shape of `x`"
    else:
        sentence, arguments, shape = sentence_of(op, "x1"), "x1, x2: tensors or numbers", "The broadcast shape"
    function.__doc__ = f"The standard's `{name}`. {sentence}\n\nArgs:\n    {arguments}.\nReturns:\n    {shape}.{_EXAMPLES.get(name, '')}"
    return function


def clip(x: Tensor, /, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """`x` with values below `min` raised to it and values above `max` lowered to it; NaN of any of the three gives NaN.

    Args:
        x: a tensor.
        min, max: numbers or tensors; None: no bound.
    Returns:
        The shape of `x`.

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

    Args:
        x: a tensor.
    Returns:
        A real tensor of the shape of `x`.

    >>> xp.imag(xp.asarray([1 + 2j]))
    tensor([2.])
    """
    return ops.imag(x)


def expm1(x: Tensor, /) -> Tensor:
    """`exp(x) - 1`, exact near 0; complex infinities and NaN give the standard's values where PyTorch's expm1 gives NaN.

    Args:
        x: a tensor.
    Returns:
        The shape of `x`.

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

    Args:
        x: a tensor.
    Returns:
        The shape of `x`.

    >>> xp.sign(xp.asarray([-2.0, 0.0, xp.nan]))
    tensor([-1.,  0., nan])
    """
    signs = ops.sgn(x)
    return ops.where(ops.isnan(x), x, signs) if x.dtype.category > dtypes.INTEGER else signs


def floor_divide(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
    """`x1 / x2` rounded down; where one of them is infinite, the quotient itself, where PyTorch gives NaN or -1.

    Args:
        x1, x2: tensors that broadcast.
    Returns:
        The broadcast shape.

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
