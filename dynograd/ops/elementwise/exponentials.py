"""Exponentials, logarithms, roots, hyperbolic functions and the logistic function."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.ops.op import composed, elementwise

__all__ = ["exp", "log", "sigmoid", "sqrt", "tanh"]


@elementwise(
    formula="exp(input)",
    derivative="g * output",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def exp(input: Array) -> Array:
    """e to the power of `input`.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.exp(tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """


@elementwise(
    formula="exp2(input)",
    derivative="g * output * 0.6931471805599453",
    promote="float",
    method=True,
    inplace="function",
)
def exp2(input: Array) -> Array:
    """2 to the power of `input`.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.exp2(tensor([0.0, 3.0]))
    tensor([1., 8.])
    """


@elementwise(
    formula="expm1(input)",
    derivative="g * output + g",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def expm1(input: Array) -> Array:
    """`exp(input) - 1`, exact near 0.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.expm1(tensor([0.0, 1e-6]))
    tensor([0.0000e+00, 1.0000e-06])
    """


@elementwise(
    formula="log(input)",
    derivative="g / input",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def log(input: Array) -> Array:
    """The natural logarithm; -inf at 0, NaN below.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.log(tensor([1.0, 0.0]))
    tensor([0., -inf])
    """


@elementwise(
    formula="log2(input)",
    derivative="g / (input * 0.6931471805599453)",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def log2(input: Array) -> Array:
    """The logarithm to base 2.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.log2(tensor([1.0, 8.0]))
    tensor([0., 3.])
    """


@elementwise(
    formula="log10(input)",
    derivative="g / (input * 2.302585092994046)",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def log10(input: Array) -> Array:
    """The logarithm to base 10.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.log10(tensor([1.0, 0.5]))
    tensor([ 0.0000, -0.3010])
    """


@elementwise(
    formula="log1p(input)",
    derivative="g / (input + 1)",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def log1p(input: Array) -> Array:
    """`log(1 + input)`, exact near 0.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.log1p(tensor([0.0, 1e-6]))
    tensor([0.0000e+00, 1.0000e-06])
    """


@elementwise(formula="sqrt(input)", derivative="g / (2 * output)", promote="float", method=True, inplace="function")
def sqrt(input: Array) -> Array:
    """The square root; NaN below 0.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.sqrt(tensor([4.0, 9.0]))
    tensor([2., 3.])
    """


@elementwise(
    formula="1 / sqrt(input)",
    derivative="g * output * output * output * -0.5",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def rsqrt(input: Array) -> Array:
    """`1 / sqrt(input)`; inf at 0, NaN below.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.rsqrt(tensor([4.0, 0.25]))
    tensor([0.5000, 2.0000])
    """


@elementwise(
    formula="input == other ? input + 0.6931471805599453 : max(input, other) + log1p(exp(-abs(input - other)))",
    derivative=("g * sigmoid(input - other)", "g * sigmoid(other - input)"),
    promote="float",
    method=True,
    tensors="input other",
)
def logaddexp(input: Array, other: Array) -> Array:
    """`log(exp(input) + exp(other))` without overflow; -inf stands for a probability of 0.

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.logaddexp(tensor([0.0, 1e4]), tensor([0.0, 0.0]))
    tensor([6.9315e-01, 1.0000e+04])
    """


@elementwise(
    formula="input == other ? input + 1 : max(input, other) + log1p(exp2(-abs(input - other))) * 1.4426950408889634",
    derivative=(
        "g * sigmoid((input - other) * 0.6931471805599453)",
        "g * sigmoid((other - input) * 0.6931471805599453)",
    ),
    promote="float",
    method=True,
    tensors="input other",
)
def logaddexp2(input: Array, other: Array) -> Array:
    """`log2(2 ** input + 2 ** other)` without overflow.

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.logaddexp2(tensor([3.0]), tensor([3.0]))
    tensor([4.])
    """


@elementwise(
    formula="input == 0 && !isnan(other) ? 0 : input * log(other)",
    derivative=("where((input == 0) & (other <= 0), 0.0, g * log(other))", "g * input / other"),
    promote="float",
    method=True,
    inplace="function",
)
def xlogy(input: Array, other: Array) -> Array:
    """`input * log(other)`, and 0 where `input` is 0 (NaN where `other` is).

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.xlogy(tensor([0.0, 2.0]), tensor([0.0, 1.0]))
    tensor([0., 0.])
    """


@elementwise(
    formula="sigmoid(input)",
    derivative="g * (output - output * output)",
    promote="float",
    method=True,
    inplace="function",
    functional="inplace",
)
def sigmoid(input: Array) -> Array:
    """The logistic function `1 / (1 + exp(-input))`, in (0, 1); nothing overflows.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.sigmoid(tensor([0.0, -1000.0]))
    tensor([0.5000, 0.0000])
    """


@composed(method=True, inplace="function")
def logit(input: Any, eps: float | None = None) -> Array:
    """`log(input / (1 - input))`, the inverse of `sigmoid`; `input` is first clamped to [eps, 1 - eps] when `eps` is given.

    Without `eps`, 0 and 1 give -inf and inf, and everything outside NaN.

    Args:
        input: tensor of any shape, of probabilities.
        eps: number from 0 to 0.5, or None.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.logit(tensor([0.5, 1.0]), eps=0.1)
    tensor([0.0000, 2.1972])
    """
    return log_odds(input, float("-inf") if eps is None else eps)


@elementwise(
    formula="eps >= 0 ? log(min(max(input, eps), 1 - eps) / (1 - min(max(input, eps), 1 - eps))) : log(input / (1 - input))",
    derivative="where(isnan(output), output, where((input < eps) | (input > 1.0 - eps), 0.0, g / (input - input * input)))",
    promote="float",
)
def log_odds(input: Array, eps: float) -> Array:
    """`logit` with `eps`, which is -inf when there is none."""


@elementwise(
    formula="sinh(input)",
    derivative="g * cosh(input)",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def sinh(input: Array) -> Array:
    """The hyperbolic sine.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.sinh(tensor([0.0, 1.0]))
    tensor([0.0000, 1.1752])
    """


@elementwise(
    formula="cosh(input)",
    derivative="g * sinh(input)",
    promote="float",
    method=True,
    inplace="function",
    cast={"cuda": "wide"},
)
def cosh(input: Array) -> Array:
    """The hyperbolic cosine.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.cosh(tensor([0.0, 1.0]))
    tensor([1.0000, 1.5431])
    """


@elementwise(
    formula="tanh(input)",
    derivative="g - g * output * output",
    promote="float",
    method=True,
    inplace="function",
    functional="inplace",
)
def tanh(input: Array) -> Array:
    """The hyperbolic tangent, in (-1, 1).

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.tanh(tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """


@elementwise(
    formula="asinh(input)", derivative="g * rsqrt(input * input + 1)", promote="float", method=True, inplace="function"
)
def asinh(input: Array) -> Array:
    """The inverse hyperbolic sine.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.asinh(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8814])
    """


@elementwise(
    formula="acosh(input)", derivative="g * rsqrt(input * input - 1)", promote="float", method=True, inplace="function"
)
def acosh(input: Array) -> Array:
    """The inverse hyperbolic cosine; NaN below 1.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.acosh(tensor([1.0, 2.0]))
    tensor([0.0000, 1.3170])
    """


@elementwise(
    formula="atanh(input)", derivative="g / (1 - input * input)", promote="float", method=True, inplace="function"
)
def atanh(input: Array) -> Array:
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.atanh(tensor([0.0, 0.5]))
    tensor([0.0000, 0.5493])
    """
