"""Orthogonal polynomials and spherical Bessel functions in Triton's language, computed in float64: the twins of `polynomials_numba`."""

import triton
import triton.language as tl

from dynograd.kernels.formula.angles_triton import cos, sin


@triton.jit
def _degrees(wide, n):
    """(the degrees as a block, their largest)."""
    degrees = tl.zeros_like(wide) + n
    degrees = tl.where((degrees > -1.0) & (degrees < 1e9), tl.floor(tl.maximum(degrees, 0.0)), -1.0)
    return degrees, tl.max(degrees.to(tl.int64))


@triton.jit
def _ends(degrees, now, x):
    return tl.where(degrees < 0.0, 0.0, tl.where(degrees < 1.0, 1.0, now)).to(x.dtype)


@triton.jit
def chebyshev(x, n, slope, offset):
    """p(0) = 1, p(1) = slope x + offset, p(k + 1) = 2 x p(k) - p(k - 1)."""
    wide = x.to(tl.float64)
    degrees, most = _degrees(wide, n)
    before = tl.zeros_like(wide) + 1.0
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
    before = tl.zeros_like(wide) + 1.0
    now = wide * scale
    for k in range(1, most):
        after = (wide * now - k * before) * scale
        more = degrees > k
        before = tl.where(more, now, before)
        now = tl.where(more, after, now)
    return _ends(degrees, now, x)


@triton.jit
def laguerre(x, n, alpha):
    """(k + 1) p(k + 1) = (2 k + 1 + alpha - x) p(k) - (k + alpha) p(k - 1)."""
    wide = x.to(tl.float64)
    degrees, most = _degrees(wide, n)
    shift = tl.zeros_like(wide) + alpha
    before = tl.zeros_like(wide) + 1.0
    now = 1.0 + shift - wide
    for k in range(1, most):
        after = ((2 * k + 1 + shift - wide) * now - (k + shift) * before) / (k + 1)
        more = degrees > k
        before = tl.where(more, now, before)
        now = tl.where(more, after, now)
    return _ends(degrees, now, x)


@triton.jit
def gegenbauer(x, n, alpha):
    """(k + 1) p(k + 1) = 2 (k + alpha) x p(k) - (k + 2 alpha - 1) p(k - 1)."""
    wide = x.to(tl.float64)
    degrees, most = _degrees(wide, n)
    double = (alpha - tl.zeros_like(wide)) * 2.0
    before = tl.zeros_like(wide) + 1.0
    now = double * wide
    for k in range(1, most):
        after = ((2 * k + double) * wide * now - (k + double - 1) * before) / (k + 1)
        more = degrees > k
        before = tl.where(more, now, before)
        now = tl.where(more, after, now)
    return _ends(degrees, now, x)


@triton.jit
def spherical_bessel(x, n):
    """j(n)(x) over x ** n: by its series where x ** 2 <= 4 n + 6, else by the recurrence."""
    wide = x.to(tl.float64)
    orders, most = _degrees(wide, n)
    square = wide * wide
    bound = 4 * orders + 6
    close = tl.where(square <= bound, square * -0.5, 0.0)
    total = close * 0.0 + 1.0
    for i in range(39):
        left = 39 - i
        total = total * close * (1.0 / (left * (2 * (orders + left) + 1))) + 1.0
    place = tl.where((square > bound) & (square < float("inf")), wide, 1.0)
    before = cos(place)
    now = sin(place) / place
    for k in range(most):
        after = ((2 * k + 1) * now - before) / (place * place)
        more = orders > k
        before = tl.where(more, now, before)
        now = tl.where(more, after, now)
        total = tl.where(more, total / (2 * k + 3), total)
    far = tl.where(square < float("inf"), now, square * 0.0)
    return tl.where(square <= bound, total, tl.where(square == float("inf"), 0.0, far)).to(x.dtype)
