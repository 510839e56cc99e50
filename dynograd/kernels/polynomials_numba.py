"""Orthogonal polynomials by their recurrences, as scalar functions for Numba kernels: the degree is a number, cut to a whole one.

Computed in float64; degrees of -1 and below give 0.
"""

import numpy as np

from dynograd.kernels.compiling_numba import compiled

__all__ = ["chebyshev", "hermite", "laguerre", "legendre"]


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
def laguerre(x, n):
    """(k + 1) p(k + 1) = (2 k + 1 - x) p(k) - k p(k - 1)."""
    wide = np.float64(x)
    if not -1 < n < 1e9:
        return type(x)(0)
    before, now = 1.0, 1.0 - wide
    if n < 1:
        return type(x)(before)
    for k in range(1, int(n)):
        before, now = now, ((2 * k + 1 - wide) * now - k * before) / (k + 1)
    return type(x)(now)


@compiled(in_order=True)
def legendre(x, n):
    """(k + 1) p(k + 1) = (2 k + 1) x p(k) - k p(k - 1)."""
    wide = np.float64(x)
    if not -1 < n < 1e9:
        return type(x)(0)
    before, now = 1.0, wide
    if n < 1:
        return type(x)(before)
    for k in range(1, int(n)):
        before, now = now, ((2 * k + 1) * wide * now - k * before) / (k + 1)
    return type(x)(now)
