"""Exponentials, logarithms, roots, trigonometric and hyperbolic functions, and the error function."""

from __future__ import annotations

from dynograd.arrays import Array
from dynograd.ops.op import elementwise

__all__ = ["exp", "log", "sqrt", "tanh"]


@elementwise(formula="exp(input)", derivative="g * output", promote="float", method=True, inplace=True)
def exp(input: Array) -> Array:
    """e to the power of `input`.

    >>> dynograd.exp(tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """


@elementwise(formula="log(input)", derivative="g / input", promote="float", method=True, inplace=True)
def log(input: Array) -> Array:
    """The natural logarithm; -inf at 0, NaN below.

    >>> dynograd.log(tensor([1.0, 0.0]))
    tensor([0., -inf])
    """


@elementwise(formula="sqrt(input)", derivative="g / (2 * output)", promote="float", method=True, inplace=True)
def sqrt(input: Array) -> Array:
    """The square root; NaN below 0.

    >>> dynograd.sqrt(tensor([4.0, 9.0]))
    tensor([2., 3.])
    """


@elementwise(formula="tanh(input)", derivative="g - g * output * output", promote="float", method=True, inplace=True)
def tanh(input: Array) -> Array:
    """The hyperbolic tangent, in (-1, 1).

    >>> dynograd.tanh(tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """
