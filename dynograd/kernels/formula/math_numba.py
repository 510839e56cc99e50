"""Scalar functions that vectorise inside Numba kernels.

float32 arguments take polynomials that LLVM turns into vector code (libm calls stay scalar and cost 15 to 70 times
as much); float64 takes libm. NaN stays NaN, and infinities, zeros and ends of domains give what IEEE 754 says. Largest errors in
float32, in units of the last place (`tests/kernels/test_math_numba.py` measures them):

    exp exp2 expm1 rsqrt tanh 2   sigmoid 3   hypot 1   (logarithms_numba:) log10 1   log log1p log2 1.5   log1pexp 2.5
    (normal_numba:) erf 2   normal_cdf 10 for x > -3, below relative error 5e-6; normal_gate and its slope: see there

Import this file, and every `*_numba.py`, only on first use of such a kernel: it loads Numba.
"""

import math

import numpy as np

from dynograd.kernels.build.bits_numba import float32_of
from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.formula.scalars_numba import in_float32, polynomial

__all__ = [
    "exp",
    "exp2",
    "expm1",
    "fmax",
    "fmin",
    "hypot",
    "maximum",
    "minimum",
    "minus",
    "rint",
    "rsqrt",
    "sigmoid",
    "sign",
    "tanh",
]


@compiled(in_order=True, inline=True)
def minus(x, y):
    """x - y, done before the result is used: `compiled` code may otherwise turn (x - y) - z into x - (y + z)."""
    return x - y


@compiled(in_order=True, inline=True)
def maximum(x, y):
    """The larger one; NaN when either is."""
    return x if (x > y) | (x != x) else y


@compiled(in_order=True, inline=True)
def minimum(x, y):
    """The smaller one; NaN when either is."""
    return x if (x < y) | (x != x) else y


@compiled(in_order=True, inline=True)
def fmax(x, y):
    """The larger one; the other one when one is NaN."""
    return x if (x > y) | (y != y) else y


@compiled(in_order=True, inline=True)
def fmin(x, y):
    """The smaller one; the other one when one is NaN."""
    return x if (x < y) | (y != y) else y


@compiled(in_order=True, inline=True)
def sign(x):
    """-1, 0 or 1; 0 for NaN."""
    return type(x)(x > 0) - type(x)(x < 0)


@compiled(in_order=True, inline=True)
def rint(x):
    """The nearest whole number, halves to even."""
    return np.rint(x)


_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)
_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_HALF = np.float32(0.5)
_EXP_MAX = np.float32(88.722839)
_TWO = np.float32(2.0)
_EXP_MIN = np.float32(-103.97208)
_EXP_NORMAL = np.float32(-87.33654)
_INFINITY = np.float32(np.inf)
_SMALLEST_NORMAL = np.float32(1.17549435e-38)
_TWO_TO_12 = np.float32(2.0**12)
_TWO_TO_24 = np.float32(2.0**24)
_MANTISSA_BITS = np.int32(23)
_EXPONENT_BIAS = np.int32(127)
# (exp(r) - 1 - r) / r^2 for r within log(2) / 2 (Cephes).
_exp_rest = polynomial(
    1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1
)
_LN2 = np.float32(math.log(2.0))
_TANH_MAX = np.float32(10.0)  # 1 from 9.02 on
_TWICE_LOG2_E = np.float32(2.0 * 1.4426950408889634)


@compiled(in_order=True, inline=True)
def _power_and_rest(x, least):
    """(n, r) with x = n log(2) + r, r within log(2) / 2, for x bounded to [least, 88.73]."""
    floored = least if x < least else x
    bounded = _EXP_MAX if floored > _EXP_MAX else floored
    power = np.floor(bounded * _LOG2_E + _HALF)
    rest = bounded - power * _LN2_HIGH
    return np.int32(power), rest - power * _LN2_LOW


@compiled(in_order=True, inline=True)
def _exp_series(rest):
    """exp(rest) - 1 for rest within log(2) / 2."""
    series = _exp_rest(rest)
    return series * rest * rest + rest


@compiled(in_order=True, inline=True)
def _two_to(power):
    return float32_of(np.int32((power + _EXPONENT_BIAS) << _MANTISSA_BITS))


def _exp_float32(x):
    power, rest = _power_and_rest(x, _EXP_MIN)
    half = np.int32(power >> np.int32(1))  # 2^128, and what is below the normal numbers, in two steps
    finite = (_exp_series(rest) + _ONE) * _two_to(half) * _two_to(np.int32(power - half))
    value = _ZERO if x < _EXP_MIN else finite
    return _INFINITY if x > _EXP_MAX else value


@in_float32(_exp_float32)
def exp(x):
    """e to the x."""
    return math.exp(x)


def _sigmoid_float32(x):
    above = _EXP_NORMAL if x < _EXP_NORMAL else x
    bounded = -_EXP_NORMAL if above > -_EXP_NORMAL else above
    power = np.floor(_HALF - bounded * _LOG2_E)
    rest = -bounded - power * _LN2_HIGH
    rest = rest - power * _LN2_LOW
    value = _ONE / (_ONE + (_exp_series(rest) + _ONE) * _two_to(np.int32(power)))
    return _ZERO if x < _EXP_NORMAL else value


@in_float32(_sigmoid_float32)
def sigmoid(x):
    """1 / (1 + exp(-x)); float32 results below 1.2e-38 are 0."""
    return 1.0 / (1.0 + math.exp(-x))


def _tanh_float32(x):
    # (1 - w) / (1 + w) with w = exp(-2 |x|) = scale + scale * series: both sums are rounded alone
    size = abs(x)
    bounded = _TANH_MAX if size > _TANH_MAX else size
    power = np.floor(_HALF - bounded * _TWICE_LOG2_E)
    rest = bounded + power * (_HALF * _LN2_HIGH)
    rest = rest + power * (_HALF * _LN2_LOW)
    series = _exp_series(-(rest + rest))
    scale = _two_to(np.int32(power))
    return np.copysign(((_ONE - scale) - series * scale) / ((_ONE + scale) + series * scale), x)


@in_float32(_tanh_float32)
def tanh(x):
    """Hyperbolic tangent; float32 within two units in the last place, near 0 too."""
    return math.tanh(x)


# --- other exponentials, hypot -------------------------------------------------------------------------------------------------


def _expm1_float32(x):
    power, rest = _power_and_rest(x, np.float32(-20.0))
    half = _two_to(np.int32(power - np.int32(1)))
    value = (_exp_series(rest) * half + (half - _HALF)) * _TWO
    small = x if abs(x) < np.float32(1e-8) else value  # keeps the sign of 0, and denormal numbers
    return _INFINITY if x > _EXP_MAX else small


@in_float32(_expm1_float32)
def expm1(x):
    """exp(x) - 1 without loss of digits near 0."""
    return math.expm1(x)


def _exp2_float32(x):
    floored = np.float32(-150.0) if x < np.float32(-150.0) else x
    bounded = np.float32(128.0) if floored > np.float32(128.0) else floored
    nearest = np.floor(bounded + _HALF)
    power = np.int32(nearest)
    half = np.int32(power >> np.int32(1))
    value = (_exp_series((bounded - nearest) * _LN2) + _ONE) * _two_to(half) * _two_to(np.int32(power - half))
    return _INFINITY if x >= np.float32(128.0) else value


@in_float32(_exp2_float32)
def exp2(x):
    """2 to the x."""
    return 2.0**x


def _hypot_float32(x, y):
    wide, other = np.float64(x), np.float64(y)
    value = np.float32(math.sqrt(wide * wide + other * other))
    return _INFINITY if (abs(x) == _INFINITY) | (abs(y) == _INFINITY) else value


@in_float32(_hypot_float32)
def hypot(x, y):
    """sqrt(x * x + y * y) without overflow in between."""
    return math.hypot(x, y)


# --- reciprocal square root ----------------------------------------------------------------------------------------------------


@compiled(estimates=True, inline=True)
def _rsqrt_estimate(x):
    """By the processor's estimate and a step of Newton's method: NaN at 0, infinity and denormal numbers."""
    return _ONE / np.sqrt(x)


def _rsqrt_float32(x):
    small = x < _SMALLEST_NORMAL
    value = _rsqrt_estimate(x * _TWO_TO_24 if small else x)
    value = value * _TWO_TO_12 if small else value  # a factor chosen by `small` would keep LLVM from the estimate
    value = np.copysign(_INFINITY, x) if x == _ZERO else value
    return _ZERO if x == _INFINITY else value


@in_float32(_rsqrt_float32)
def rsqrt(x):
    """1 / sqrt(x); float32 results are within 2 units in the last place."""
    return 1.0 / math.sqrt(x)
