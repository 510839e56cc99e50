"""Sums, products, quotients and powers of tensors and numbers, signs, and the larger and smaller of two."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.errors import DtypeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.choices import where
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.op import Gradients, composed, elementwise, op

__all__ = ["add", "div", "mul", "neg", "pow", "sub"]


@elementwise(formula="0", derivative="zeroed(g)")
def zeroed(input: Array) -> Array:
    """Zeros like `input`, whatever it holds: the gradient of a step."""


@elementwise(name="add", formula="input + other", derivative=("g", "g"), inplace=True, tensors="")
def plus(input: Array, other: Array) -> Array:
    """`input + other`, broadcast and promoted."""


@elementwise(name="sub", formula="input - other", derivative=("g", "-g"), inplace=True, tensors="")
def minus(input: Array, other: Array) -> Array:
    """`input - other`, broadcast and promoted."""


@elementwise(formula="input * other", derivative=("g * other", "g * input"), method=True, inplace=True, tensors="")
def mul(input: Array, other: Array) -> Array:
    """`input * other`, broadcast and promoted.

    Args:
        input: tensor of any shape.
        other: tensor or number.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> dynograd.mul(tensor([1.0, 2.0]), 3)
    tensor([3., 6.])
    """


@elementwise(
    name="div",
    formula="input / other",
    derivative=("g / other", "-g * (input / other / other)"),  # not the output, which programs write into
    promote="float",
    inplace=True,
    tensors="",
)
def divide(input: Array, other: Array) -> Array:
    """`input / other`; integers give the default dtype.

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.true_divide(tensor([3, 4]), 2)
    tensor([1.5000, 2.0000])
    """


@composed(covers="add", method=True, direct=True)
def add(input: Any, other: Any, tensor: Any = None, *, alpha: Any = 1) -> Array:
    """`input + alpha * other`, broadcast and promoted.

    The old form `add(input, alpha, other)` works too.

    Args:
        input: tensor of any shape.
        other: tensor or number.
        tensor: only in the old form.
        alpha: number that `other` is multiplied by.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        DtypeError: a floating alpha for integer tensors, a bool where the sum is none.

    >>> dynograd.add(tensor([1, 2]), tensor([10, 20]), alpha=2)
    tensor([21, 42])
    """
    if tensor is not None:
        other, alpha = tensor, other
    return plus(input, other if alpha == 1 and alpha is not True else _scaled("add", input, other, alpha))


@composed(covers="sub", method=True, direct=True)
def sub(input: Any, other: Any, tensor: Any = None, *, alpha: Any = 1) -> Array:
    """`input - alpha * other`, broadcast and promoted.

    The old form `sub(input, alpha, other)` works too.

    Args:
        input: tensor of any shape.
        other: tensor or number.
        tensor: only in the old form.
        alpha: number that `other` is multiplied by.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        DtypeError: two bool tensors, or a floating alpha for integer tensors.

    >>> dynograd.sub(tensor([5.0]), 2)
    tensor([3.])
    """
    if tensor is not None:
        other, alpha = tensor, other
    if alpha == 1 and alpha is not True:
        return minus(input, other)
    for operand in (input, other):
        if getattr(getattr(getattr(operand, "array", operand), "dtype", None), "kind", "") == "b":
            raise DtypeError(
                f"sub: Subtraction, the `-` operator, with a bool tensor is not supported, got alpha={alpha}. Convert with .float(), or use "
                f"^ or logical_xor()."
            )
    return minus(input, _scaled("sub", input, other, alpha))


@composed(method=True, out=None)
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Array:
    """`other - alpha * input`.

    Args:
        input: tensor of any shape.
        other: tensor or number.
        alpha: number that `input` is multiplied by.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> dynograd.rsub(tensor([5.0]), 2)
    tensor([-3.])
    """
    if not hasattr(input, "shape"):
        raise TypeError(f"rsub(): argument 'input' must be Tensor, not {type(input).__name__} ({input!r}).")
    return sub(other, input, alpha=alpha)


def _scaled(who: str, input: Any, other: Any, alpha: Any) -> Array:
    if isinstance(alpha, float) and is_whole(input) and is_whole(other):
        raise DtypeError(
            f"{who}: for integer tensors, alpha must not be a floating-point number, got {alpha}. Use input.float()."
        )
    augend, addend = getattr(input, "array", input), getattr(other, "array", other)
    if dtypes.result_dtype(augend, addend) is dtypes.bool:
        return mul(other, bool(alpha))
    if isinstance(alpha, bool):
        raise DtypeError(
            f"{who}: Boolean alpha only supported for Boolean results, got {alpha}. Use alpha={int(alpha)}."
        )
    kind = getattr(addend, "dtype", None)
    if kind is not None and getattr(augend, "dtype", kind) is not kind:  # in the dtype of the sum, which may hold more
        other = convert(other, dtypes.result_dtype(augend, addend))
    return mul(other, alpha)


def is_whole(value: Any) -> bool:
    """Whether these are integers or bools."""
    if isinstance(value, (bool, int)):
        return True
    kind = getattr(getattr(value, "array", value), "dtype", None)
    return kind is not None and kind.kind in "iub"


@composed(covers="div", method=True, direct=True)
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Array:
    """`input / other`; `rounding_mode` "floor" or "trunc" rounds the quotient (integers then stay integers).

    Args:
        input, other: tensors, or one of them a number; they broadcast.
        rounding_mode: None, "floor" (down) or "trunc" (towards 0).
    Returns:
        A tensor of the broadcast shape; without a rounding_mode, integers give the default dtype.
    Raises:
        RuntimeError: another rounding_mode.

    >>> dynograd.div(tensor([7, -7]), 2, rounding_mode="floor")
    tensor([ 3, -4])
    """
    if rounding_mode is None:
        return divide(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode == "trunc":
        return trunc_divide(input, other)
    raise RuntimeError(f"div: expected rounding_mode to be None, 'trunc' or 'floor', got {rounding_mode!r}.")


@elementwise(
    formula="floor_divide(input, other)", derivative=("zeroed(g)", "zeroed(g)"), method=True, inplace=True, tensors=""
)
def floor_divide(input: Array, other: Array) -> Array:
    """`input / other` rounded down, in the promoted dtype. Gradient 0.

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> tensor([7, -7]).floor_divide(2)
    tensor([ 3, -4])
    """


@elementwise(formula="trunc(input / other)", derivative=("zeroed(g)", "zeroed(g)"))
def trunc_divide(input: Array, other: Array) -> Array:
    """`input / other` rounded towards zero, in the promoted dtype."""


@elementwise(
    formula="mod(input, other)",
    derivative=("g", "-g * floor_divide(input, other)"),
    method=True,
    inplace=True,
)
def remainder(input: Array, other: Array) -> Array:
    """The remainder with the sign of `other`, as Python's `%`.

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> dynograd.remainder(tensor([-3, 3]), 2)
    tensor([1, 1])
    """


@elementwise(
    formula="fmod(input, other)",
    derivative=("g", "-g * trunc_divide(input, other)"),
    method=True,
    inplace=True,
    tensors="input",
)
def fmod(input: Array, other: Array) -> Array:
    """The remainder with the sign of `input`, as C's fmod.

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> dynograd.fmod(tensor([-3, 3]), 2)
    tensor([-1,  1])
    """


@elementwise(formula="-input", derivative="-g", method=True, inplace="function", out="exact")
def neg(input: Array) -> Array:
    """`-input`.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        DtypeError: a bool tensor.

    >>> dynograd.neg(tensor([1, -2]))
    tensor([-1,  2])
    """


@elementwise(
    name="pow",
    formula="input ** other",
    derivative=(
        "where(other == 0, 0.0, g * (other * pow(input, other - 1)))",
        "where((input == 0) & (abs(other) == other), 0.0, g * output * log(input))",
    ),
    inplace=True,
    cast={"cuda": "wide"},
)
def power(input: Array, other: Array) -> Array:
    """`input ** other` elementwise, both tensors."""


@composed(covers="pow", method=True)
def pow(input: Any, exponent: Any) -> Array:
    """`input ** exponent`, broadcast and promoted; integers stay integers and then need exponents of at least 0.

    Args:
        input, exponent: tensors, or one of them a number; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.
    Raises:
        RuntimeError: an integer to a negative integer power.

    >>> tensor([1.0, 2.0, 3.0]).pow(2)
    tensor([1., 4., 9.])
    """
    if type(exponent) in (int, float) and not isinstance(input, (int, float)):
        kind = getattr(input, "array", input).dtype.kind
        floating = kind in "fcV"
        if exponent == 2 and (floating or (type(exponent) is int and kind != "b")):
            return square(input)
        if floating:
            if exponent == 1:
                return mul(input, 1.0)
            return half_power(input) if exponent == 0.5 else scalar_power(input, exponent)
        if type(exponent) is int and exponent < 0:
            raise RuntimeError(
                f"pow: Integers to negative integer powers are not allowed, got exponent {exponent}. Use input.float()."
            )
    return power(input, exponent)


@elementwise(
    formula="input ** exponent",
    derivative="g * exponent * scalar_power(input, exponent - 1) if exponent != 0 else zeroed(g)",
    promote="float",
    cast={"cuda": "wide"},
)
def scalar_power(input: Array, exponent: float) -> Array:
    """`input ** exponent` for a number."""


@elementwise(formula="sqrt(input)", derivative="g * 0.5 / sqrt(input)", promote="float")
def half_power(input: Array) -> Array:
    """`input ** 0.5`: `sqrt`, whose backward asks for the input instead, as that of powers does: the result may be written to."""


@composed(method=True, inplace=True, out="exact")
def float_power(input: Any, exponent: Any) -> Array:
    """`input ** exponent`, computed in float64 or complex128.

    Args:
        input, exponent: tensors, or one of them a number; they broadcast.
    Returns:
        A tensor of the broadcast shape, float64 or complex128.

    >>> dynograd.float_power(tensor([2, 3]), 3)
    tensor([ 8., 27.], dtype=dynograd.float64)
    """
    return pow(_double(input), _double(exponent))


def _double(value: Any) -> Array | float:
    if not hasattr(value, "shape"):
        return value if isinstance(value, complex) else float(value)
    return convert(value, dtypes.complex128 if value.dtype.is_complex else dtypes.float64)


@elementwise(formula="input * input", derivative="g * 2 * input", method=True, inplace="function")
def square(input: Array) -> Array:
    """`input * input`.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.square(tensor([3.0]))
    tensor([9.])
    """


@elementwise(
    formula="1 / input",
    derivative="-g * output * output",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def reciprocal(input: Array) -> Array:
    """`1 / input`.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.reciprocal(tensor([4.0]))
    tensor([0.2500])
    """


@elementwise(
    name="abs", formula="abs(input)", derivative="g * sign(input)", inplace="function", out="exact", float8=True
)
def absolute(input: Array) -> Array:
    """The absolute value of real numbers."""


@op(saves="input", ragged="packed")
def modulus(input: Array) -> Array:
    """The absolute value of complex numbers."""
    return kernel("complexes", "modulus", input)(input)


@modulus.backward
def modulus_backward(g: Any, saved: Any) -> Gradients:
    size = modulus(saved.input)  # once more: programs write into the result (`z.abs().clamp_(min=eps)`)
    return (g * (saved.input / (size + (size == 0))),)


@composed(covers="abs", method=True, direct=True)
def abs(input: Any) -> Array:
    """The absolute value; gradient 0 at 0.

    Args:
        input: tensor of any shape; bools are refused.
    Returns:
        A tensor of `input`'s shape and dtype; of complex numbers their sizes, in the real dtype.

    >>> dynograd.abs(tensor([-1.5, 2.0]))
    tensor([1.5000, 2.0000])
    """
    return modulus(input) if getattr(input, "array", input).dtype.kind == "c" else absolute(input)


@elementwise(formula="sign(input)", derivative="zeroed(g)", method=True, inplace=True, out="exact")
def sign(input: Array) -> Array:
    """-1, 0 or 1; gradient 0.

    Args:
        input: tensor of any shape and dtype.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.sign(tensor([-3.0, 0.0, 2.0]))
    tensor([-1.,  0.,  1.])
    """


@composed(method=True, inplace=True, out="exact")
def sgn(input: Any) -> Array:
    """`sign` for real tensors; for complex ones the number of size 1 in the same direction, 0 at 0.

    Args:
        input: tensor of any shape.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.sgn(tensor([3 + 4j]))
    tensor([0.6000+0.8000j])
    """
    if getattr(input, "array", input).dtype.kind != "c":
        return sign(input)
    size = abs(input)
    return where(size == 0, 0.0, input / (size + (size == 0)))


@elementwise(formula="conj(input)", derivative="conj(g)", out=None)
def conj(input: Array) -> Array:
    """The complex conjugate; real tensors are unchanged."""


def conjugated(input: Any) -> Array:
    """`input`, complex numbers conjugated; real ones as they are, without a copy."""
    return conj(input) if getattr(input, "array", input).dtype.kind == "c" else input


@elementwise(
    formula="max(input, other)",
    derivative=("g * ge_half(input, other)", "g * ge_half(other, input)"),
    method=True,
    tensors="input other",
    ordered=True,
)
def maximum(input: Array, other: Array) -> Array:
    """The larger of each pair; NaN wins. At ties each side gets half of the gradient.

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> dynograd.maximum(tensor([1, 5]), tensor([3, 2]))
    tensor([3, 5])
    """


@elementwise(
    formula="min(input, other)",
    derivative=("g * ge_half(other, input)", "g * ge_half(input, other)"),
    method=True,
    tensors="input other",
    ordered=True,
)
def minimum(input: Array, other: Array) -> Array:
    """The smaller of each pair; NaN wins. At ties each side gets half of the gradient.

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> dynograd.minimum(tensor([1, 5]), tensor([3, 2]))
    tensor([1, 2])
    """


@elementwise(
    formula="input < other ? 0 : input == other ? 0.5 : 1", derivative=("zeroed(g)", "zeroed(g)"), promote="float"
)
def ge_half(input: Array, other: Array) -> Array:
    """1 where input > other (or either is NaN), 0.5 at ties, else 0: how `maximum` shares its gradient."""


@elementwise(
    formula="fmax(input, other)",
    derivative=("where((input >= other) | isnan(other), g, 0.0)", "where((input >= other) | isnan(other), 0.0, g)"),
    method=True,
    tensors="input other",
    ordered=True,
)
def fmax(input: Array, other: Array) -> Array:
    """The larger of each pair; a number wins over NaN. At ties `input` gets the gradient.

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> dynograd.fmax(tensor([1.0, 5.0]), tensor([3.0, float("nan")]))
    tensor([3., 5.])
    """


@elementwise(
    formula="fmin(input, other)",
    derivative=("where((input <= other) | isnan(other), g, 0.0)", "where((input <= other) | isnan(other), 0.0, g)"),
    method=True,
    tensors="input other",
    ordered=True,
)
def fmin(input: Array, other: Array) -> Array:
    """The smaller of each pair; a number wins over NaN. At ties `input` gets the gradient.

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A tensor of the broadcast shape, in the promoted dtype.

    >>> dynograd.fmin(tensor([1.0, 5.0]), tensor([3.0, float("nan")]))
    tensor([1., 5.])
    """
