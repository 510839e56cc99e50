"""Functions of numbers that ONNX does not have: sums of series, and loops that go on until all elements are done."""

from __future__ import annotations

import math

from dynograd.compat.inner import higher_order
from dynograd.onnx.writers.matrices import algorithm
from dynograd.tensor import creation
from dynograd.tensor.tensor import Tensor

__all__: list[str] = []

_TERMS = 16  # of a sum, before the rest is that of an integral and its corrections, to the precision of float64
_LARGEST = 1e6  # exponent: of all terms the first counts alone, and is 0 or infinite if it is not 1
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66)


@algorithm("special_zeta")
def _zeta(input: Tensor, other: Tensor) -> Tensor:
    """Infinite at an exponent of 1 and from whole places up to 0; NaN for smaller exponents, and broken ones of places below 0."""
    zeros = creation.zeros_like(input.double() + other.double())
    power, start = input.double().clamp(max=_LARGEST) + zeros, other.double() + zeros
    total = _sum_over_all(power, start).masked_fill(start == math.inf, 0)
    total = total.masked_fill((start < 0) & (power != power.floor()), math.nan)
    total = total.masked_fill((start <= 0) & (start == start.floor()), math.inf)
    total = total.masked_fill((power < 1) | start.isnan(), math.nan).masked_fill(power == 1, math.inf)
    return total.to(input.dtype)


@algorithm("polygamma")
def _polygamma(input: Tensor, n: int) -> Tensor:
    start = input.double()
    total = _sum_over_all(creation.full_like(start, n + 1), start).masked_fill(start == math.inf, 0)
    total = total.masked_fill((start <= 0) & (start == start.floor()), math.inf).masked_fill(
        start == -math.inf, math.nan
    )
    return ((-1) ** (n + 1) * math.factorial(n) * total).to(input.dtype)


def _sum_over_all(power: Tensor, start: Tensor) -> Tensor:
    """The sum of (start + k) ** -power over k = 0, 1, ..., for whole powers from starts below 0, too: those terms are, mirrored, a difference of two sums."""
    is_below = start < 0
    rest = (start - start.floor()).where(is_below, 0.5)
    mirrored = _sum_from(power, 1 - rest) - _sum_from(power, (1 - start).where(is_below, 0.5))
    mirrored = mirrored.where(power % 2 == 0, -mirrored).masked_fill(~is_below, 0)
    return _sum_from(power, rest.where(is_below, start)) + mirrored


def _sum_from(power: Tensor, start: Tensor) -> Tensor:
    """The same from starts of at least 0: some terms, and the rest by Euler and Maclaurin."""
    places = start.unsqueeze(-1) + creation.arange(_TERMS)
    total = (places ** (-power).unsqueeze(-1)).sum(-1)
    place = start + _TERMS
    edge = place ** (-power)
    total = total + edge * place / (power - 1) + edge / 2
    factor = power * edge / place
    for number, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + bernoulli / math.factorial(2 * number) * factor
        factor = factor * (power + (2 * number - 1)) * (power + 2 * number) / (place * place)
    return total


@algorithm("gcd")
def _greatest_divisor(input: Tensor, other: Tensor) -> Tensor:
    """Euclid's."""
    first, second = input.abs() + other * 0, other.abs() + input * 0
    divisor, _ = higher_order.while_loop(
        lambda first, second: (second > 0).any(),
        lambda first, second: (
            second.where(second > 0, first),
            (first % second.where(second > 0, 1)).where(second > 0, 0),
        ),
        (first, second),
    )
    return divisor.clone()


@algorithm("lcm")
def _least_multiple(input: Tensor, other: Tensor) -> Tensor:
    divisor = _greatest_divisor(input, other)
    return (input.div(divisor.where(divisor > 0, 1), rounding_mode="floor") * other).abs()
