"""Orthogonal polynomials and spherical Bessel functions by recurrences: scalar functions for Numba kernels. A degree is cut to a whole number.

Computed in float64; degrees of -1 and below give 0.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import compiled

__all__ = ["chebyshev", "gegenbauer", "hermite", "laguerre", "spherical_bessel"]


@compiled(in_order=True)
def chebyshev(x, n, slope, offset):
    """p(0) = 1, p(1) = slope x + offset, p(k + 1) = 2 x p(k) - p(k - 1): all four kinds."""
    wide = np.float64(x)
    if not -1 < n < 1e9:
        return type(x)(0)
    before, now = 1.0, np.float64(slope) * wide + np.float64(offset)
    if n < 1:
        return type(x)(before)
    for _ in range(1, int(n)):
        before, now = now, (wide + wide) * now - before
    return type(x)(now)


@compiled(in_order=True)
def hermite(x, n, scale):
    """p(k + 1) = scale (x p(k) - k p(k - 1)): of physicists with scale 2, of probability with 1."""
    wide, factor = np.float64(x), np.float64(scale)
    if not -1 < n < 1e9:
        return type(x)(0)
    before, now = 1.0, factor * wide
    if n < 1:
        return type(x)(before)
    for k in range(1, int(n)):
        before, now = now, factor * (wide * now - k * before)
    return type(x)(now)


@compiled(in_order=True)
def laguerre(x, n, alpha):
    """(k + 1) p(k + 1) = (2 k + 1 + alpha - x) p(k) - (k + alpha) p(k - 1)."""
    wide, shift = np.float64(x), np.float64(alpha)
    if not -1 < n < 1e9:
        return type(x)(0)
    before, now = 1.0, 1.0 + shift - wide
    if n < 1:
        return type(x)(before)
    for k in range(1, int(n)):
        before, now = now, ((2 * k + 1 + shift - wide) * now - (k + shift) * before) / (k + 1)
    return type(x)(now)


@compiled(in_order=True)
def gegenbauer(x, n, alpha):
    """(k + 1) p(k + 1) = 2 (k + alpha) x p(k) - (k + 2 alpha - 1) p(k - 1)."""
    wide, double = np.float64(x), 2.0 * np.float64(alpha)
    if not -1 < n < 1e9:
        return type(x)(0)
    before, now = 1.0, double * wide
    if n < 1:
        return type(x)(before)
    for k in range(1, int(n)):
        before, now = now, ((2 * k + double) * wide * now - (k + double - 1) * before) / (k + 1)
    return type(x)(now)


@compiled(in_order=True)
def spherical_bessel(x, n):
    """The spherical Bessel function j(n)(x) over x ** n: near 0 by its series, else by s(n + 1) = ((2 n + 1) s(n) - s(n - 1)) / x ** 2."""
    wide = np.float64(x)
    square = wide * wide
    if square == np.inf:
        return type(x)(0)
    if square > 4 * n + 6:
        before, now = np.cos(wide), np.sin(wide) / wide
        for k in range(int(n)):
            before, now = now, ((2 * k + 1) * now - before) / square
        return type(x)(now)
    first = 1.0
    for k in range(int(n)):
        first /= 2 * k + 3
    total, term, k = first, first, 0
    while abs(term) > 1e-18 * abs(first):
        k += 1
        term *= -0.5 * square / (k * (2 * (n + k) + 1))
        total += term
    return type(x)(total)
