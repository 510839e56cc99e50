"""Floating point numbers as mantissa and exponent: `frexp`, `ldexp`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shown_names import show_in_lines
from dynograd.ops.elementwise.arithmetic import abs, mul
from dynograd.ops.elementwise.choices import clamp, where
from dynograd.ops.elementwise.comparisons import isfinite
from dynograd.ops.elementwise.exponentials import exp2, log2
from dynograd.ops.elementwise.roundings import floor
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.op import composed
from dynograd.ops.precisions import check_floating, narrowed, widened

__all__ = ["frexp", "ldexp"]

frexp_result = namedtuple("frexp", "mantissa exponent")  # type: ignore[name-match]
show_in_lines(frexp_result)


@composed(method=True)
def frexp(input: Any) -> frexp_result:
    """(mantissa, exponent) with `input = mantissa * 2 ** exponent` and 0.5 <= |mantissa| < 1; the exponent is int32.

    Zeros, infinities and NaN are their own mantissa, with exponent 0.

    Args:
        input: floating tensor of any shape.
    Returns:
        A named tuple of two tensors of the shape of `input`: `mantissa` in its dtype, `exponent` int32.

    >>> dynograd.frexp(tensor([8.0, -0.75])).mantissa
    tensor([ 0.5000, -0.7500])
    """
    check_floating("frexp", input)
    wide = widened(input)
    size = abs(wide.detach() if hasattr(wide, "detach") else wide)
    ordinary = isfinite(size) & (size > 0)
    size = where(ordinary, size, 1.0)
    exponent = floor(log2(size)) + 1
    mantissa = _scaled(size, -exponent)  # log2 rounds: the exponent may be one off
    exponent = where(mantissa >= 1, exponent + 1, where(mantissa < 0.5, exponent - 1, exponent))
    exponent = where(ordinary, exponent, 0.0)
    return frexp_result(narrowed(_scaled(wide, -exponent), input), convert(exponent, dtypes.int32))


@composed(method=True, inplace="function", tensors="input other")
def ldexp(input: Any, other: Any) -> Array:
    """`input * 2 ** other`; with whole `other` in the dtype of a floating `input`, rounded once, and finite wherever the product is.

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.ldexp(tensor([1.0, 1e-30]), tensor([2, 200]))
    tensor([4.0000e+00, 1.6069e+30])
    """
    if not (hasattr(input, "dtype") and hasattr(other, "dtype")):
        return mul(input, exp2(other))
    kind, exponents = [dtypes.of_array(getattr(operand, "array", operand)) for operand in (input, other)]
    if kind.category != dtypes.FLOATING or exponents.category >= dtypes.FLOATING:
        return mul(input, exp2(other))
    if kind is not dtypes.float64:  # products with float64's powers are exact
        exponent = clamp(convert(other, dtypes.float64), -600, 600)
        return convert(mul(convert(input, dtypes.float64), exp2(exponent)), kind)
    mantissa, exponent = frexp(input)
    exponent = exponent + clamp(convert(other, dtypes.float64), -5000, 5000)
    ordinary = clamp(exponent, -1021, 1023)  # the first product is exact, the second one rounds
    return mantissa * exp2(ordinary) * exp2(clamp(exponent - ordinary, -1074, 1023))  # 0 times infinity would be NaN


def _scaled(value: Any, exponent: Any) -> Array:
    """`value * 2 ** exponent` in two steps: the power of a subnormal number's exponent is no number."""
    half = floor(exponent / 2)
    return value * exp2(half) * exp2(exponent - half)
