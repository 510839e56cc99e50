"""The error function, the gamma function, and their inverses and derivatives."""

from __future__ import annotations

import math
from typing import Any

from dynograd.arrays import Array
from dynograd.ops.op import composed, elementwise

__all__ = ["digamma", "erf", "erfc", "erfinv", "lgamma", "mvlgamma", "polygamma"]


@elementwise(
    formula="erf(input)",
    derivative="g * 1.1283791670955126 * exp(-(input * input))",
    promote="float",
    method=True,
    inplace=True,
)
def erf(input: Array) -> Array:
    """The error function: `2 / sqrt(pi)` times the integral of `exp(-t**2)` from 0 to `input`.

    >>> dynograd.erf(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """


@elementwise(
    formula="erfc(input)",
    derivative="g * -1.1283791670955126 * exp(-(input * input))",
    promote="float",
    method=True,
    inplace=True,
)
def erfc(input: Array) -> Array:
    """`1 - erf(input)`, exact for large `input` too.

    >>> dynograd.erfc(tensor([0.0, 1.0]))
    tensor([1.0000, 0.1573])
    """


@elementwise(
    formula="erfinv(input)",
    derivative="g * 0.886226925452758 * exp(output * output)",
    promote="float",
    method=True,
    inplace=True,
)
def erfinv(input: Array) -> Array:
    """The number whose `erf` is `input`; infinite at -1 and 1, NaN beyond.

    >>> dynograd.erfinv(tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """


@elementwise(formula="lgamma(input)", derivative="g * digamma(input)", promote="float", method=True, inplace=True)
def lgamma(input: Array) -> Array:
    """The logarithm of the absolute value of the gamma function: `log((input - 1)!)` for whole numbers.

    >>> dynograd.lgamma(tensor([1.0, 5.0]))
    tensor([0.0000, 3.1781])
    """


@elementwise(formula="digamma(input)", derivative="g * polygamma(input, 1)", promote="float", method=True, inplace=True)
def digamma(input: Array) -> Array:
    """The derivative of `lgamma`; NaN at negative whole numbers.

    >>> dynograd.digamma(tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """


@elementwise(name="polygamma", formula="polygamma(input, n)", derivative="g * polygamma(input, n + 1)", promote="float")
def digamma_derivative(input: Array, n: int) -> Array:
    """The `n`th derivative of `digamma`."""


@composed(covers="polygamma")
def polygamma(n: int, input: Any) -> Any:
    """The `n`th derivative of `digamma`.

    Raises:
        RuntimeError: `n` is negative.

    >>> dynograd.polygamma(1, tensor([1.0]))
    tensor([1.6449])
    """
    if n < 0:
        raise RuntimeError(f"polygamma: expected n to be at least 0, got {n}. polygamma(0, input) is digamma.")
    return digamma(input) if n == 0 else digamma_derivative(input, n)


@composed(method=True, inplace=True)
def mvlgamma(input: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension `p`; needs `input > (p - 1) / 2`.

    >>> dynograd.mvlgamma(tensor([3.0]), 2)
    tensor([1.5502])
    """
    if p < 1:
        raise RuntimeError(f"mvlgamma: expected p to be at least 1, got {p}.")
    total = p * (p - 1) / 4 * math.log(math.pi)
    for place in range(p):
        total = lgamma(input - place / 2) + total
    return total
