"""Rounding and what is related to it: fractions, signs put on, whole numbers put together, NaN replaced."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import whole_number
from dynograd.errors import DtypeError
from dynograd.ops.elementwise.complexes import from_parts, imag, real
from dynograd.ops.op import composed, elementwise

__all__ = ["ceil", "floor", "frac", "nan_to_num", "round", "trunc"]


@elementwise(formula="floor(input)", derivative="zeroed(g)", method=True, inplace="function", out="exact")
def floor(input: Array) -> Array:
    """Rounded down; gradient 0.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.floor(tensor([-1.5, 1.5]))
    tensor([-2.,  1.])
    """


@elementwise(formula="ceil(input)", derivative="zeroed(g)", method=True, inplace="function", out="exact")
def ceil(input: Array) -> Array:
    """Rounded up; gradient 0.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.ceil(tensor([-1.5, 1.5]))
    tensor([-1.,  2.])
    """


@elementwise(formula="trunc(input)", derivative="zeroed(g)", method=True, inplace="function", out="exact")
def trunc(input: Array) -> Array:
    """Rounded towards zero; gradient 0.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.trunc(tensor([-1.5, 1.5]))
    tensor([-1.,  1.])
    """


@elementwise(name="round", formula="round(input)", derivative="zeroed(g)", inplace="function", out="exact")
def round_half_even(input: Array) -> Array:
    """Rounded to the nearest integer, halves to even."""


@elementwise(formula="round(input * 10 ** decimals) / 10 ** decimals", derivative="zeroed(g)")
def round_decimals(input: Array, decimals: int) -> Array:
    """Rounded to `decimals` places, halves to even."""


@composed(covers="round", method=True)
def round(input: Any, *, decimals: int = 0) -> Array:
    """Rounded to `decimals` places (negative: tens, hundreds, ...), halves to even; gradient 0.

    Args:
        input: tensor of any shape.
        decimals: int.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        DtypeError: an integer tensor with `decimals`.

    >>> dynograd.round(tensor([0.5, 1.5, 2.26]))
    tensor([0., 2., 2.])
    """
    if decimals == 0:
        return round_half_even(input)
    decimals = whole_number("round", "decimals", decimals)
    array = getattr(input, "array", input)
    if array.dtype.kind in "iub":
        raise DtypeError(
            f"round: decimals={decimals} is not defined for {dtypes.of_array(array)}. Use input.float() first."
        )
    return round_decimals(input, decimals)


@elementwise(formula="input - trunc(input)", derivative="g", method=True, inplace="function", out="exact")
def frac(input: Array) -> Array:
    """The part after the point, with the sign of `input`.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.frac(tensor([-1.5, 1.25]))
    tensor([-0.5000,  0.2500])
    """


@elementwise(
    name="nan_to_num",
    formula="isnan(input) ? nan : input == inf ? posinf : input == -inf ? neginf : input",
    derivative="where(isfinite(input), g, 0.0)",
    inplace="function",
)
def replace_nonfinite(input: Array, nan: float, posinf: float, neginf: float) -> Array:
    """`input` with NaN and the infinities replaced."""


@composed(covers="nan_to_num", method=True)
def nan_to_num(input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Array:
    """NaN becomes `nan` (0), infinity `posinf` (the largest number of the dtype), minus infinity `neginf` (the smallest).

    The parts of complex numbers are replaced one by one. The gradient there is 0.

    Args:
        input: tensor of any shape.
        nan, posinf, neginf: numbers; None: the defaults above.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.nan_to_num(tensor([float("nan"), float("-inf"), 1.0]), neginf=-9.0)
    tensor([ 0., -9.,  1.])
    """
    kind = dtypes.of_array(getattr(input, "array", input))
    if kind.category == dtypes.COMPLEX:
        return from_parts(*[nan_to_num(part, nan, posinf, neginf) for part in (real(input), imag(input))])
    if kind.category >= dtypes.FLOATING:
        limits = dtypes.finfo(kind)
        posinf = limits.max if posinf is None else posinf
        neginf = limits.min if neginf is None else neginf
    return replace_nonfinite(input, nan or 0.0, posinf, neginf)


@elementwise(
    formula="copysign(input, other)",
    derivative=("where(isnan(input), g * input, g * sign(input) * copysign(zeroed(input) + 1, other))", "zeroed(g)"),
    promote="float",
    method=True,
    inplace=True,
    tensors="input",
)
def copysign(input: Array, other: Array) -> Array:
    """The size of `input` with the sign of `other` (of -0.0 too).

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.copysign(tensor([1.0, -2.0]), tensor([-0.0, 3.0]))
    tensor([-1.,  2.])
    """


@elementwise(
    formula="input > 0 ? 1 : input == 0 ? values : 0",
    derivative=("zeroed(g)", "where(input == 0, g, 0.0)"),
    method=True,
    inplace=True,
    tensors="input values",
    ordered=True,
)
def heaviside(input: Array, values: Array) -> Array:
    """0 below 0, 1 above, `values` at 0.

    Args:
        input: tensor.
        values: tensor of `input`'s dtype, broadcast with it.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> dynograd.heaviside(tensor([-2.0, 0.0, 2.0]), tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """


@elementwise(
    formula="gcd(input, other)",
    derivative=None,
    promote="integer",
    method=True,
    inplace="function",
    tensors="input other",
)
def gcd(input: Array, other: Array) -> Array:
    """The greatest common divisor of each pair of integers.

    Args:
        input, other: tensors of integers; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        DtypeError: a tensor of bools or floating-point numbers.

    >>> dynograd.gcd(tensor([4, 9]), tensor([6, 12]))
    tensor([2, 3])
    """


@elementwise(
    formula="lcm(input, other)",
    derivative=None,
    promote="integer",
    method=True,
    inplace="function",
    tensors="input other",
)
def lcm(input: Array, other: Array) -> Array:
    """The least common multiple of each pair of integers.

    Args:
        input, other: tensors of integers; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        DtypeError: a tensor of bools or floating-point numbers.

    >>> dynograd.lcm(tensor([4, 9]), tensor([6, 12]))
    tensor([12, 36])
    """
