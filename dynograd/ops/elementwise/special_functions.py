"""The error function, the gamma function, and their relatives; those of `dynograd.special` alone have `special_` in front."""

from __future__ import annotations

import math
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import whole_number
from dynograd.kernels import kernel
from dynograd.ops.layout.conversions import contiguous
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import composed, elementwise
from dynograd.ops.reduce.reductions import sum

__all__ = ["digamma", "erf", "erfc", "erfinv", "igamma", "igammac", "lgamma", "mvlgamma", "polygamma"]


@elementwise(
    formula="erf(input)",
    derivative="g * 1.1283791670955126 * exp(-(input * input))",
    promote="float",
    method=True,
    inplace="function",
)
def erf(input: Array) -> Array:
    """The error function: `2 / sqrt(pi)` times the integral of `exp(-t**2)` from 0 to `input`.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.erf(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """


@elementwise(
    formula="erfc(input)",
    derivative="g * -1.1283791670955126 * exp(-(input * input))",
    promote="float",
    method=True,
    inplace="function",
)
def erfc(input: Array) -> Array:
    """`1 - erf(input)`, exact for large `input` too.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.erfc(tensor([0.0, 1.0]))
    tensor([1.0000, 0.1573])
    """


@elementwise(
    formula="erfinv(input)",
    derivative="g * 0.886226925452758 * exp(output * output)",
    promote="float",
    method=True,
    inplace=True,
    cast={"cuda": "wide"},
)
def erfinv(input: Array) -> Array:
    """The number whose `erf` is `input`; infinite at -1 and 1, NaN beyond.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.erfinv(tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """


@elementwise(
    name="special_erfcx",
    formula="error_erfcx(input)",
    derivative="g * (2 * (input * output) - 1.1283791670955126)",
    promote="float",
)
def erfcx(input: Array) -> Array:
    """`exp(input**2) * erfc(input)`, which does not underflow.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.erfcx(tensor([0.0, 10.0]))
    tensor([1.0000, 0.0561])
    """


@elementwise(
    name="special_ndtr",
    formula="normal_cdf(input)",
    derivative="g * 0.3989422804014327 * exp(input * input * -0.5)",
    promote="float",
)
def ndtr(input: Array) -> Array:
    """The distribution function of the standard normal distribution: the area below its density from -inf to `input`.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.ndtr(tensor([0.0, 1.0]))
    tensor([0.5000, 0.8413])
    """


@elementwise(
    name="special_ndtri",
    formula="error_ndtri(input)",
    derivative="g * 2.5066282746310002 * exp(output * output * 0.5)",
    promote="float",
)
def ndtri(input: Array) -> Array:
    """The inverse of `ndtr`: infinite at 0 and 1, NaN beyond.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.ndtri(tensor([0.5, 0.9]))
    tensor([0.0000, 1.2816])
    """


@elementwise(
    name="special_log_ndtr",
    formula="error_log_ndtr(input)",
    derivative="g * 0.7978845608028654 / special_erfcx(input * -0.7071067811865476)",
    promote="float",
)
def log_ndtr(input: Array) -> Array:
    """The logarithm of `ndtr`, exact far below 0 too.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.log_ndtr(tensor([-20.0, 0.0]))
    tensor([-203.9172,   -0.6931])
    """


@elementwise(
    name="special_entr",
    formula="input > 0 ? -input * log(input) : input == 0 ? 0 : input < 0 ? -inf : input",
    derivative="g * (-1 - log(input))",
    promote="float",
)
def entr(input: Array) -> Array:
    """The terms of an entropy, `-input * log(input)`: 0 at 0, minus infinity below.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.special.entr(tensor([0.0, 0.5]))
    tensor([0.0000, 0.3466])
    """


@elementwise(
    name="special_xlog1py",
    formula="input == 0 && !isnan(other) ? 0 : input * log1p(other)",
    derivative=("where((input == 0) & (other <= -1), 0.0, g * log1p(other))", "g * input / (other + 1)"),
    promote="float",
)
def xlog1py(input: Array, other: Array) -> Array:
    """`input * log1p(other)`, and 0 where `input` is 0 (NaN where `other` is).

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.xlog1py(tensor([0.0, 2.0]), tensor([-1.0, 1.0]))
    tensor([0.0000, 1.3863])
    """


@elementwise(
    name="special_zeta",
    formula="zeta(input, other)",
    derivative=(None, "-g * input * special_zeta(input + 1, other)"),
    promote="float",
)
def zeta(input: Array, other: Array) -> Array:
    """Hurwitz' zeta function: the sum of `(other + k) ** -input` over k = 0, 1, 2, ...; it has no gradient for `input`.

    Infinite at `input` = 1 and where `other` is 0, -1, -2, ...; NaN for `input` below 1.

    Args:
        input, other: tensors, or one of them a number; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.zeta(tensor([2.0]), tensor([1.0]))
    tensor([1.6449])
    """


_GAMMA_DENSITY = "exp((input - 1) * log(other) - other - lgamma(input))"


@elementwise(
    formula="igamma(input, other)",
    derivative=(None, f"g * {_GAMMA_DENSITY}"),
    promote="float",
    method=True,
    inplace=True,
    tensors="input other",
)
def igamma(input: Array, other: Array) -> Array:
    """The regularized lower incomplete gamma function: the integral of `exp(-t) t**(input - 1)` from 0 to `other`, over gamma(input).

    It has no gradient for `input`. NaN where either is negative.

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.igamma(tensor([1.0]), tensor([1.0]))
    tensor([0.6321])
    """


@elementwise(
    formula="igammac(input, other)",
    derivative=(None, f"-g * {_GAMMA_DENSITY}"),
    promote="float",
    method=True,
    inplace=True,
    tensors="input other",
)
def igammac(input: Array, other: Array) -> Array:
    """The regularized upper incomplete gamma function, `1 - igamma(input, other)` without the difference; see `igamma`.

    Args:
        input, other: tensors; they broadcast.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.igammac(tensor([1.0]), tensor([1.0]))
    tensor([0.3679])
    """


@elementwise(formula="lgamma(input)", derivative="g * digamma(input)", promote="float", method=True, inplace=True)
def lgamma(input: Array) -> Array:
    """The logarithm of the absolute value of the gamma function: `log((input - 1)!)` for whole numbers.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.lgamma(tensor([1.0, 5.0]))
    tensor([0.0000, 3.1781])
    """


@elementwise(formula="digamma(input)", derivative="g * polygamma(input, 1)", promote="float", method=True, inplace=True)
def digamma(input: Array) -> Array:
    """The derivative of `lgamma`; NaN at negative whole numbers.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.digamma(tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """


@elementwise(name="polygamma", formula="polygamma(input, n)", derivative="g * polygamma(input, n + 1)", promote="float")
def digamma_derivative(input: Array, n: int) -> Array:
    """The `n`th derivative of `digamma`."""


@composed(covers="polygamma")
def polygamma(n: int, input: Any) -> Array:
    """The `n`th derivative of `digamma`.

    Args:
        n: int of at least 0.
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.
    Raises:
        RuntimeError: `n` is negative.

    >>> dynograd.polygamma(1, tensor([1.0]))
    tensor([1.6449])
    """
    if (n := whole_number("polygamma", "n", n)) < 0:
        raise RuntimeError(f"polygamma: expected n to be at least 0, got {n}. polygamma(0, input) is digamma.")
    return digamma(input) if n == 0 else digamma_derivative(input, n)


@composed(method=True, inplace=True)
def mvlgamma(input: Any, p: int) -> Array:
    """The logarithm of the multivariate gamma function of dimension `p`; needs `input > (p - 1) / 2`.

    Args:
        input: tensor of any shape; integers become the default dtype.
        p: int of at least 1.
    Returns:
        A floating tensor of the shape of `input`.
    Raises:
        RuntimeError: `p` is below 1, or so large that its terms (`p` for each element) do not fit into memory.

    >>> dynograd.mvlgamma(tensor([3.0]), 2)
    tensor([1.5502])
    """
    if p < 1:
        raise RuntimeError(f"mvlgamma: expected p to be at least 1, got {p}.")
    total = p * (p - 1) / 4 * math.log(math.pi)
    if p <= 16:
        for place in range(p):
            total = lgamma(input - place / 2) + total
        return contiguous(total)
    shape = tuple(input.shape)
    if p * math.prod(shape) >= _MOST_TERMS:
        raise RuntimeError(
            f"mvlgamma: p={p} takes {p} terms for each of the {math.prod(shape)} elements of input (shape {shape}), more than memory "
            f"holds. It is the sum of lgamma(input - k / 2) for k below p: add it up in parts, or approximate it."
        )
    kind = input.dtype if input.dtype.is_floating_point else dtypes.get_default_dtype()
    steps = kernel("creation", "arange", 0)(0.0, -0.5, p, kind.numpy)
    steps = arrays.to_device(steps, arrays.place_of(getattr(input, "array", input)))
    return sum(lgamma(reshaped(input, (*shape, 1)) + steps), -1) + total


_MOST_TERMS = 1 << 32
