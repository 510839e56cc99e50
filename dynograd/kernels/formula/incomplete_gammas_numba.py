"""The incomplete gamma functions, as scalar functions for Numba kernels, computed in float64.

P(a, x) is the series below x = a + 1, Q(a, x) the continued fraction above; for large a near x both are Temme's expansion. What the other one
is follows from P + Q = 1 where that loses nothing. Source: NIST Handbook of Mathematical Functions, 2010, 8.7, 8.9 and 8.12.
Relative errors are below 1e-13 up to a = 1000, and follow those of `exp` where the result is below 1e-100.
"""

import math

import numpy as np

from dynograd.kernels.build.compiling_numba import compiled

__all__ = ["igamma", "igammac"]

_EPSILON = 1.2e-16  # about half of the distance from 1 to the next float64: smaller terms change nothing
_LARGE = 1000.0  # from here on Temme's expansion has all digits with the terms that it is given


@compiled(in_order=True)
def igamma(a, x):
    """P(a, x): the integral of exp(-t) t**(a - 1) from 0 to x over gamma(a)."""
    return type(x)(_regularized(np.float64(a), np.float64(x), False))


@compiled(in_order=True)
def igammac(a, x):
    """Q(a, x) = 1 - P(a, x)."""
    return type(x)(_regularized(np.float64(a), np.float64(x), True))


@compiled(in_order=True)
def _regularized(a, x, upper):
    if not (a >= 0.0 and x >= 0.0) or (a == 0.0 and x == 0.0) or (a == math.inf and x == math.inf):
        return math.nan
    if a == 0.0 or x == math.inf:
        return 0.0 if upper else 1.0
    if x == 0.0 or a == math.inf:
        return 1.0 if upper else 0.0
    if a > _LARGE and abs(x - a) < 0.25 * a:
        return _near(a, x, upper)
    if x > 1.1 and x >= a:
        value = _fraction(a, x)
        return value if upper else 1.0 - value
    if upper and x <= 1.1 and ((x > 0.5 and 1.1 * x >= a) or (x <= 0.5 and a * math.log(x) <= -0.4)):
        return _small(a, x)
    value = _series(a, x)
    return 1.0 - value if upper else value


@compiled(in_order=True)
def _log1p_less(m):
    """log(1 + m) - m."""
    if not abs(m) <= 0.5:
        return math.log1p(m) - m
    r = m / (2.0 + m)
    square = r * r
    total = 0.0
    for k in range(19, 0, -1):
        total = total * square + 1.0 / (2 * k + 1)
    return 2.0 * r * square * total - m * r


@compiled(in_order=True)
def _factor(a, x):
    """x**a exp(-x) / gamma(a + 1)."""
    if a < 10.0:
        if x < 500.0 and not (x < 1e-30 and a > 1.0):
            return x**a * math.exp(-x) / math.gamma(a + 1.0)
        return math.exp(a * math.log(x) - x - math.lgamma(a + 1.0))
    over = 1.0 / (a * a)
    stirling = -691 / 360360
    for coefficient in (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        stirling = stirling * over + coefficient
    return math.exp(a * _log1p_less((x - a) / a) - stirling / a) / math.sqrt(2.0 * math.pi * a)


@compiled(in_order=True)
def _series(a, x):
    term, total, place = 1.0, 1.0, a
    for _ in range(100000):
        place += 1.0
        term *= x / place
        total += term
        if term <= _EPSILON * total:
            break
    return min(_factor(a, x) * total, 1.0)


@compiled(in_order=True)
def _fraction(a, x):
    """Q by Lentz's way through the continued fraction."""
    b = x + 1.0 - a
    c = 1e300
    d = 1.0 / b
    value = d
    for k in range(1, 100000):
        numerator = -k * (k - a)
        b += 2.0
        d = numerator * d + b
        c = b + numerator / c
        d = 1.0 / (d if d != 0.0 else 1e-300)
        step = d * c
        value *= step
        if abs(step - 1.0) <= _EPSILON:
            break
    return _factor(a, x) * a * value


@compiled(in_order=True)
def _small(a, x):
    """Q for x up to 1.1: 1 - x**a / gamma(a + 1) + ..., without the difference of ones."""
    term, total = 1.0, 0.0
    for k in range(1, 100):
        term *= -x / k
        step = term / (a + k)
        total += step
        if abs(step) <= _EPSILON * abs(total):
            break
    power = a * math.log(x) - _lgamma_above_one(a)
    return -math.expm1(power) - math.exp(power) * a * total


@compiled(in_order=True)
def _lgamma_above_one(a):
    """lgamma(1 + a), exact for small a too."""
    if a > 0.5:
        return math.lgamma(1.0 + a)
    p = 6.379047507619774e-08
    for coefficient in (
        -1.3412819758517287e-07, 2.0304806751615227e-07, -4.303558760359961e-07, 9.578663334114758e-07, -2.0449201467015115e-06,
        4.374374916915131e-06, -9.438458716242811e-06, 2.050726741605779e-05, -4.4926351103833334e-05, 9.945750909889392e-05,
        -0.00022315475074520367, 0.0005096695248853096, -0.0011927539120010226, 0.002890510330738737, -0.0073855510286681535,
        0.02058080842778457, -0.06735230105319814, 0.3224670334241132, 0.42278433509846713,
    ):  # fmt: skip
        p = p * a + coefficient
    return a * p - math.log1p(a)


@compiled(in_order=True)
def _near(a, x, upper):
    """Temme's expansion, uniform around x = a (8.12.3, 8.12.7 to 8.12.11)."""
    mu = (x - a) / a
    half_square = -_log1p_less(mu)
    eta = math.copysign(math.sqrt(2.0 * half_square), mu)
    p = -4.382036018453353e-09
    for coefficient in (
        1.0261809784240309e-08, 6.707853543401498e-09, -1.7665952736826078e-07, 8.296711340953087e-07, -1.85406221071516e-06,
        -2.185448510679992e-06, 3.919263178522438e-05, -0.0001787551440329218, 0.0003527336860670194, 0.0011574074074074073,
        -0.014814814814814815, 0.08333333333333333, -0.3333333333333333,
    ):  # fmt: skip
        p = p * eta + coefficient
    q = -1.6120900894563446e-06
    for coefficient in (
        7.64916091608111e-06, -1.8098550334489977e-05, -4.018775720164609e-07, 0.00020576131687242798, -0.0009902263374485596,
        0.0026455026455026454, -0.003472222222222222, -0.001851851851851852,
    ):  # fmt: skip
        q = q * eta + coefficient
    r = 0.004133597883597883 + eta * (
        -0.0026813271604938273 + eta * (0.0007716049382716049 + eta * 2.0093878600823047e-06)
    )
    s = 0.0006494341563786008 + eta * 0.00022947209362139917
    over = 1.0 / a
    total = p + over * (q + over * (r + over * s))
    rest = math.exp(-a * half_square) / math.sqrt(2.0 * math.pi * a) * total
    wave = eta * math.sqrt(0.5 * a)
    return 0.5 * math.erfc(wave) + rest if upper else 0.5 * math.erfc(-wave) - rest
