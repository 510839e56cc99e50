"""The error function's and the gamma function's relatives, as scalar functions for Numba kernels.

Computed in float64 and by branches, also for float32, so that they do not vectorise; but for erfinv of float32, whose polynomials do: 2 units in the
last place. Largest relative errors of float64: erfinv and polygamma 1e-14, digamma 1e-14 (absolute near its zeros), erfc and lgamma those of libm.
"""

import math

import numpy as np

from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.formula.logarithms_numba import _LN2_HIGH, _LN2_LOW, _bent, _parts
from dynograd.kernels.formula.scalars_numba import in_float32, polynomial

__all__ = ["digamma", "erfc", "erfinv", "lgamma", "polygamma", "zeta"]

_INFINITY = math.inf
_ONE = np.float32(1.0)
_NAN = np.float32(np.nan)


@compiled(in_order=True)
def erfc(x):
    """1 - erf(x), exact for large x too."""
    return type(x)(math.erfc(np.float64(x)))


@compiled(in_order=True)
def lgamma(x):
    """Logarithm of the absolute value of the gamma function."""
    return type(x)(math.lgamma(np.float64(x)))


# erfinv(x) / x in w = -log(1 - x^2): sqrt(pi) / 2 + w P(w) below 5, relative error 6e-9, and Q(sqrt(w) - 3) from there on, 8e-9 (minimax; the
# variables are those of Giles, Approximating the erfinv function, 2011).
_erfinv_near = polynomial(
    -8.81572e-09, 2.2163216e-07, -1.9826405e-06, 4.0180125e-06, 4.4448607e-05, -1.2724446e-04, -2.334581e-03, 1.154884e-02,
    2.3201376e-01
)  # fmt: skip
_erfinv_far = polynomial(
    1.306701e-04, -3.1647098e-04, -8.2595776e-05, 1.4928095e-03, -3.5815726e-03, 5.6847204e-03, -7.641144e-03, 9.445346e-03,
    1.0016752, 2.8329768
)  # fmt: skip
_HALF_ROOT_PI = np.float32(0.5 * math.sqrt(math.pi))
_HALF_ROOT_PI_REST = np.float32(0.5 * math.sqrt(math.pi) - float(_HALF_ROOT_PI))
_SLOPE = np.float32(0.26)  # of erfinv(x) / x in w, where what w has lost counts


def _erfinv_float32(x):
    # w is the negative logarithm, as in `log`; `lost` is what the last sum has rounded away
    exponent, f = _parts((_ONE - x) * (_ONE + x))
    rest = _bent(f) + exponent * _LN2_LOW + f
    whole = exponent * _LN2_HIGH
    w = -(rest + whole)
    lost = -(rest + (w + whole))
    near = (_erfinv_near(w) * w + (lost * _SLOPE + _HALF_ROOT_PI_REST)) * x + _HALF_ROOT_PI * x
    far = _erfinv_far(np.sqrt(w) - np.float32(3.0)) * x
    value = near if w < np.float32(5.0) else far
    size = abs(x)
    inside = np.copysign(np.float32(_INFINITY) if size == _ONE else value, x)
    return inside if size <= _ONE else _NAN


@compiled(in_order=True)
def digamma(x):
    """The derivative of lgamma."""
    return type(x)(_digamma(np.float64(x)))


@compiled(in_order=True)
def polygamma(x, n):
    """The n-th derivative of digamma (n a whole number as a float)."""
    wide = np.float64(x)
    return type(x)(_digamma(wide) if n == 0 else _polygamma(np.float64(n), wide))


@compiled(in_order=True)
def zeta(x, q):
    """The sum of (q + k)**-x over k = 0, 1, ...: infinite at x = 1 and at whole q up to 0, NaN for x below 1."""
    return type(x)(_hurwitz(np.float64(x), np.float64(q)))


@in_float32(_erfinv_float32)
def erfinv(x):
    """The number whose erf is x: infinite at -1 and 1, NaN beyond."""
    size = abs(x)
    if not size <= 1.0:
        return math.nan
    if size == 1.0:
        return math.copysign(_INFINITY, x)
    # A guess within 0.2 % (Winitzki, 2008), then Halley's method, which triples the digits each time.
    logarithm = math.log1p(-size * size)
    middle = 4.330746750799873 + 0.5 * logarithm
    y = math.sqrt(max(math.sqrt(middle * middle - logarithm / 0.147) - middle, 0.0))
    for _ in range(3):
        excess = (1.0 - size) - math.erfc(y) if size > 0.5 else math.erf(y) - size
        step = excess / (1.1283791670955126 * math.exp(-y * y))
        y -= step / (1.0 + y * step)
    return math.copysign(y, x)


@compiled(in_order=True)
def _digamma(x):
    if x == 0.0:
        return math.copysign(_INFINITY, -x)
    total = 0.0
    if x < 0.0:
        if x == math.floor(x):
            return math.nan
        total = -math.pi / math.tan(math.pi * (x - np.trunc(x)))
        x = 1.0 - x
    while x < 10.0:
        total -= 1.0 / x
        x += 1.0
    # log x - 1/2x - sum of B_2k / (2k x^2k)
    z = 1.0 / (x * x)
    series = 1 / 12
    for coefficient in (-691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
        series = series * z + coefficient
    return total + math.log(x) - 0.5 / x - series * z


@compiled(in_order=True, inline=True)
def _reciprocal_power(q, s):
    """q^-s; whole exponents, which derivatives of digamma have, by multiplication: a tenth of the time."""
    if s > 16.0 or s != math.floor(s):
        return q**-s
    power = q
    for _ in range(1, int(s)):
        power *= q
    return 1.0 / power


@compiled(in_order=True)
def _zeta(s, q):
    """Sum of (q + k)^-s over k >= 0 for q > 0, by Euler and Maclaurin after the first terms."""
    if s >= 1e6:  # of so high powers only the first counts
        return q**-s
    total = 0.0
    while q < 12.0 or q < s + 10.0:
        term = _reciprocal_power(q, s)
        total += term
        if term <= 1e-18 * total:
            return total
        q += 1.0
    power = _reciprocal_power(q, s)
    total += power * q / (s - 1.0) + 0.5 * power
    # B_2j / (2j)! times s (s+1) ... (s+2j-2) q^(1-s-2j)
    factor = s * power / q
    place = s
    for coefficient in (
        1 / 12,
        -1 / 720,
        1 / 30240,
        -1 / 1209600,
        1 / 47900160,
        -691 / 1307674368000,
        1 / 74724249600,
        -3617 / 10670622842880000,
    ):
        total += coefficient * factor
        factor *= (place + 1.0) * (place + 2.0) / (q * q)
        place += 2.0
    return total


@compiled(in_order=True)
def _hurwitz(s, q):
    if s == 1.0:
        return _INFINITY
    if not s > 1.0 or q != q:
        return math.nan
    if q > 0.0:
        return _positive_zeta(s, q)
    if q == math.floor(q):
        return _INFINITY
    if s != math.floor(s):  # powers of negative numbers
        return math.nan
    return _zeta_below(s, q)


@compiled(in_order=True)
def _positive_zeta(s, q):
    return 0.0 if q == _INFINITY else _zeta(s, q)


@compiled(in_order=True)
def _zeta_below(s, q):
    """For q below 0 and whole s: the terms below 0 are, mirrored, a difference of two sums."""
    rest = q - math.floor(q)
    mirrored = _zeta(s, 1.0 - rest) - _zeta(s, 1.0 - q)
    return _zeta(s, rest) + (mirrored if s == _INFINITY or s % 2.0 == 0.0 else -mirrored)


@compiled(in_order=True)
def _polygamma(n, x):
    s = n + 1.0
    sign = 1.0 if n % 2.0 == 1.0 else -1.0
    if x != x or x == -_INFINITY:
        return math.nan
    if x == _INFINITY:
        return 0.0 * sign
    if x > 0.0:
        value = _zeta(s, x)
    elif x == math.floor(x):
        value = _INFINITY
    else:
        value = _zeta_below(s, x)
    return sign * math.gamma(s) * value
