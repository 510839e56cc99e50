"""Orthogonal polynomials: functions of `dynograd.special`, here under their names with `special_` in front.

Each takes a place and a degree, which broadcast; degrees are cut to whole numbers, those below 0 give 0. Values come from the recurrence
of three terms, in float64. The gradient of a place is again a polynomial (PyTorch has none): those of Gegenbauer and the generalized ones of
Laguerre are their own derivatives' kind, so that gradients of every order are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.arrays import Array
from dynograd.ops.op import elementwise


def _polynomial(name: str, formula: str, slope: str, parameters: int = 2) -> Callable[..., Any]:
    """`slope` is the derivative for the place; the degree and what else there is have none."""
    derivative = (f"g * {slope}", *(None,) * (parameters - 1))
    return elementwise(name=f"special_{name}", formula=formula, derivative=derivative, promote="float")


@_polynomial(
    "chebyshev_polynomial_t",
    "chebyshev(input, n, 1, 0)",
    "trunc(n) * special_chebyshev_polynomial_u(input, trunc(n) - 1)",
)
def chebyshev_polynomial_t(input: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the first kind and degree `n`: `cos(n * acos(input))`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.chebyshev_polynomial_t(tensor([0.5, 1.0]), 2)
    tensor([-0.5000,  1.0000])
    """


@_polynomial(
    "chebyshev_polynomial_u", "chebyshev(input, n, 2, 0)", "2 * special_gegenbauer_polynomial(input, trunc(n) - 1, 2)"
)
def chebyshev_polynomial_u(input: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the second kind and degree `n`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.chebyshev_polynomial_u(tensor([0.5, 1.0]), 2)
    tensor([0., 3.])
    """


@_polynomial(
    "chebyshev_polynomial_v",
    "chebyshev(input, n, 2, -1)",
    "2 * (special_gegenbauer_polynomial(input, trunc(n) - 1, 2) - special_gegenbauer_polynomial(input, trunc(n) - 2, 2))",
)
def chebyshev_polynomial_v(input: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the third kind and degree `n`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.chebyshev_polynomial_v(tensor([0.5, 1.0]), 2)
    tensor([-1.,  1.])
    """


@_polynomial(
    "chebyshev_polynomial_w",
    "chebyshev(input, n, 2, 1)",
    "2 * (special_gegenbauer_polynomial(input, trunc(n) - 1, 2) + special_gegenbauer_polynomial(input, trunc(n) - 2, 2))",
)
def chebyshev_polynomial_w(input: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the fourth kind and degree `n`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.chebyshev_polynomial_w(tensor([0.5, 1.0]), 2)
    tensor([1., 5.])
    """


@_polynomial(
    "shifted_chebyshev_polynomial_t",
    "chebyshev(2 * input - 1, n, 1, 0)",
    "2 * trunc(n) * special_shifted_chebyshev_polynomial_u(input, trunc(n) - 1)",
)
def shifted_chebyshev_polynomial_t(input: Array, n: Array) -> Array:
    """`chebyshev_polynomial_t(2 * input - 1, n)`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.shifted_chebyshev_polynomial_t(tensor([0.5, 1.0]), 2)
    tensor([-1.,  1.])
    """


@_polynomial(
    "shifted_chebyshev_polynomial_u",
    "chebyshev(2 * input - 1, n, 2, 0)",
    "4 * special_gegenbauer_polynomial(2 * input - 1, trunc(n) - 1, 2)",
)
def shifted_chebyshev_polynomial_u(input: Array, n: Array) -> Array:
    """`chebyshev_polynomial_u(2 * input - 1, n)`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.shifted_chebyshev_polynomial_u(tensor([0.5, 1.0]), 2)
    tensor([-1.,  3.])
    """


@_polynomial(
    "shifted_chebyshev_polynomial_v",
    "chebyshev(2 * input - 1, n, 2, -1)",
    "4 * (special_gegenbauer_polynomial(2 * input - 1, trunc(n) - 1, 2) - special_gegenbauer_polynomial(2 * input - 1, trunc(n) - 2, 2))",
)
def shifted_chebyshev_polynomial_v(input: Array, n: Array) -> Array:
    """`chebyshev_polynomial_v(2 * input - 1, n)`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.shifted_chebyshev_polynomial_v(tensor([0.5, 1.0]), 2)
    tensor([-1.,  1.])
    """


@_polynomial(
    "shifted_chebyshev_polynomial_w",
    "chebyshev(2 * input - 1, n, 2, 1)",
    "4 * (special_gegenbauer_polynomial(2 * input - 1, trunc(n) - 1, 2) + special_gegenbauer_polynomial(2 * input - 1, trunc(n) - 2, 2))",
)
def shifted_chebyshev_polynomial_w(input: Array, n: Array) -> Array:
    """`chebyshev_polynomial_w(2 * input - 1, n)`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.shifted_chebyshev_polynomial_w(tensor([0.5, 1.0]), 2)
    tensor([-1.,  5.])
    """


@_polynomial(
    "hermite_polynomial_h", "hermite(input, n, 2)", "2 * trunc(n) * special_hermite_polynomial_h(input, trunc(n) - 1)"
)
def hermite_polynomial_h(input: Array, n: Array) -> Array:
    """The Hermite polynomial of physicists, of degree `n`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.hermite_polynomial_h(tensor([0.5, 1.0]), 2)
    tensor([-1.,  2.])
    """


@_polynomial(
    "hermite_polynomial_he", "hermite(input, n, 1)", "trunc(n) * special_hermite_polynomial_he(input, trunc(n) - 1)"
)
def hermite_polynomial_he(input: Array, n: Array) -> Array:
    """The Hermite polynomial of probability, of degree `n`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.hermite_polynomial_he(tensor([0.5, 1.0]), 2)
    tensor([-0.7500,  0.0000])
    """


@_polynomial(
    "laguerre_polynomial_l",
    "laguerre(input, n, 0)",
    "(-special_generalized_laguerre_polynomial(input, trunc(n) - 1, 1))",
)
def laguerre_polynomial_l(input: Array, n: Array) -> Array:
    """The Laguerre polynomial of degree `n`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.laguerre_polynomial_l(tensor([0.5, 1.0]), 2)
    tensor([ 0.1250, -0.5000])
    """


@_polynomial(
    "legendre_polynomial_p", "gegenbauer(input, n, 0.5)", "special_gegenbauer_polynomial(input, trunc(n) - 1, 1.5)"
)
def legendre_polynomial_p(input: Array, n: Array) -> Array:
    """The Legendre polynomial of degree `n`.

    Args:
        input: tensor, or number.
        n: degree: whole number or a tensor of them, broadcast with `input`; below 0 the result is 0.
    Returns:
        A floating tensor of the broadcast shape.

    >>> dynograd.special.legendre_polynomial_p(tensor([0.5, 1.0]), 2)
    tensor([-0.1250,  1.0000])
    """


@_polynomial(
    "gegenbauer_polynomial",
    "gegenbauer(input, n, alpha)",
    "2 * alpha * special_gegenbauer_polynomial(input, trunc(n) - 1, alpha + 1)",
    3,
)
def gegenbauer_polynomial(input: Array, n: Array, alpha: Array) -> Array:
    """The Gegenbauer polynomial of degree `n`: Legendre's with `alpha` 1/2, Chebyshev's of the second kind with 1."""


@_polynomial(
    "generalized_laguerre_polynomial",
    "laguerre(input, n, alpha)",
    "(-special_generalized_laguerre_polynomial(input, trunc(n) - 1, alpha + 1))",
    3,
)
def generalized_laguerre_polynomial(input: Array, n: Array, alpha: Array) -> Array:
    """The Laguerre polynomial of degree `n` with a parameter `alpha`, 0 for the plain one."""
