"""Orthogonal polynomials: functions of `dynograd.special`, here under their names with `special_` in front.

Each takes a place and a degree, which broadcast; degrees are cut to whole numbers, those below 0 give 0. Values come from the recurrence
of three terms, in float64. There are no gradients, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.ops.op import elementwise

__all__: list[str] = []


def _polynomial(name: str, formula: str) -> Any:
    return elementwise(name=f"special_{name}", formula=formula, derivative=None, promote="float")


@_polynomial("chebyshev_polynomial_t", "chebyshev(input, n, 1, 0)")
def chebyshev_polynomial_t(input: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the first kind and degree `n`: `cos(n * acos(input))`.

    >>> dynograd.special.chebyshev_polynomial_t(tensor([0.5, 1.0]), 2)
    tensor([-0.5000,  1.0000])
    """


@_polynomial("chebyshev_polynomial_u", "chebyshev(input, n, 2, 0)")
def chebyshev_polynomial_u(input: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the second kind and degree `n`.

    >>> dynograd.special.chebyshev_polynomial_u(tensor([0.5, 1.0]), 2)
    tensor([0., 3.])
    """


@_polynomial("chebyshev_polynomial_v", "chebyshev(input, n, 2, -1)")
def chebyshev_polynomial_v(input: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the third kind and degree `n`.

    >>> dynograd.special.chebyshev_polynomial_v(tensor([0.5, 1.0]), 2)
    tensor([-1.,  1.])
    """


@_polynomial("chebyshev_polynomial_w", "chebyshev(input, n, 2, 1)")
def chebyshev_polynomial_w(input: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the fourth kind and degree `n`.

    >>> dynograd.special.chebyshev_polynomial_w(tensor([0.5, 1.0]), 2)
    tensor([1., 5.])
    """


@_polynomial("shifted_chebyshev_polynomial_t", "chebyshev(2 * input - 1, n, 1, 0)")
def shifted_chebyshev_polynomial_t(input: Array, n: Array) -> Array:
    """`chebyshev_polynomial_t(2 * input - 1, n)`.

    >>> dynograd.special.shifted_chebyshev_polynomial_t(tensor([0.5, 1.0]), 2)
    tensor([-1.,  1.])
    """


@_polynomial("shifted_chebyshev_polynomial_u", "chebyshev(2 * input - 1, n, 2, 0)")
def shifted_chebyshev_polynomial_u(input: Array, n: Array) -> Array:
    """`chebyshev_polynomial_u(2 * input - 1, n)`.

    >>> dynograd.special.shifted_chebyshev_polynomial_u(tensor([0.5, 1.0]), 2)
    tensor([-1.,  3.])
    """


@_polynomial("shifted_chebyshev_polynomial_v", "chebyshev(2 * input - 1, n, 2, -1)")
def shifted_chebyshev_polynomial_v(input: Array, n: Array) -> Array:
    """`chebyshev_polynomial_v(2 * input - 1, n)`.

    >>> dynograd.special.shifted_chebyshev_polynomial_v(tensor([0.5, 1.0]), 2)
    tensor([-1.,  1.])
    """


@_polynomial("shifted_chebyshev_polynomial_w", "chebyshev(2 * input - 1, n, 2, 1)")
def shifted_chebyshev_polynomial_w(input: Array, n: Array) -> Array:
    """`chebyshev_polynomial_w(2 * input - 1, n)`.

    >>> dynograd.special.shifted_chebyshev_polynomial_w(tensor([0.5, 1.0]), 2)
    tensor([-1.,  5.])
    """


@_polynomial("hermite_polynomial_h", "hermite(input, n, 2)")
def hermite_polynomial_h(input: Array, n: Array) -> Array:
    """The Hermite polynomial of physicists, of degree `n`.

    >>> dynograd.special.hermite_polynomial_h(tensor([0.5, 1.0]), 2)
    tensor([-1.,  2.])
    """


@_polynomial("hermite_polynomial_he", "hermite(input, n, 1)")
def hermite_polynomial_he(input: Array, n: Array) -> Array:
    """The Hermite polynomial of probability, of degree `n`.

    >>> dynograd.special.hermite_polynomial_he(tensor([0.5, 1.0]), 2)
    tensor([-0.7500,  0.0000])
    """


@_polynomial("laguerre_polynomial_l", "laguerre(input, n)")
def laguerre_polynomial_l(input: Array, n: Array) -> Array:
    """The Laguerre polynomial of degree `n`.

    >>> dynograd.special.laguerre_polynomial_l(tensor([0.5, 1.0]), 2)
    tensor([ 0.1250, -0.5000])
    """


@_polynomial("legendre_polynomial_p", "legendre(input, n)")
def legendre_polynomial_p(input: Array, n: Array) -> Array:
    """The Legendre polynomial of degree `n`.

    >>> dynograd.special.legendre_polynomial_p(tensor([0.5, 1.0]), 2)
    tensor([-0.1250,  1.0000])
    """
