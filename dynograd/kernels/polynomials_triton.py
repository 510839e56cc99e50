"""Orthogonal polynomials in Triton's language, computed in float64: the twins of `polynomials_numba`."""

import triton
import triton.language as tl

__all__ = ["chebyshev", "hermite", "laguerre", "legendre"]


@triton.jit
def _degrees(wide, n):
    """(the degrees as a block, their largest)."""
    degrees = wide * 0.0 + n
    degrees = tl.where(degrees > -1.0, tl.floor(tl.maximum(degrees, 0.0)), -1.0)
    return degrees, tl.max(degrees.to(tl.int64))


@triton.jit
def _ends(degrees, now, x):
    return tl.where(degrees < 0.0, 0.0, tl.where(degrees < 1.0, 1.0, now)).to(x.dtype)


@triton.jit
def chebyshev(x, n, slope, offset):
    """p(0) = 1, p(1) = slope x + offset, p(k + 1) = 2 x p(k) - p(k - 1)."""
    wide = x.to(tl.float64)
    degrees, most = _degrees(wide, n)
    before = wide * 0.0 + 1.0
    now = wide * slope + offset
    for k in range(1, most):
        after = (wide + wide) * now - before
        more = degrees > k
        before = tl.where(more, now, before)
        now = tl.where(more, after, now)
    return _ends(degrees, now, x)


@triton.jit
def hermite(x, n, scale):
    """p(k + 1) = scale (x p(k) - k p(k - 1))."""
    wide = x.to(tl.float64)
    degrees, most = _degrees(wide, n)
    before = wide * 0.0 + 1.0
    now = wide * scale
    for k in range(1, most):
        after = (wide * now - k * before) * scale
        more = degrees > k
        before = tl.where(more, now, before)
        now = tl.where(more, after, now)
    return _ends(degrees, now, x)


@triton.jit
def laguerre(x, n):
    """(k + 1) p(k + 1) = (2 k + 1 - x) p(k) - k p(k - 1)."""
    wide = x.to(tl.float64)
    degrees, most = _degrees(wide, n)
    before = wide * 0.0 + 1.0
    now = 1.0 - wide
    for k in range(1, most):
        after = ((2 * k + 1 - wide) * now - k * before) / (k + 1)
        more = degrees > k
        before = tl.where(more, now, before)
        now = tl.where(more, after, now)
    return _ends(degrees, now, x)


@triton.jit
def legendre(x, n):
    """(k + 1) p(k + 1) = (2 k + 1) x p(k) - k p(k - 1)."""
    wide = x.to(tl.float64)
    degrees, most = _degrees(wide, n)
    before = wide * 0.0 + 1.0
    now = wide
    for k in range(1, most):
        after = ((2 * k + 1) * wide * now - k * before) / (k + 1)
        more = degrees > k
        before = tl.where(more, now, before)
        now = tl.where(more, after, now)
    return _ends(degrees, now, x)
