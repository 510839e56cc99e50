"""Scalar functions that vectorise inside Numba kernels.

float32 arguments take polynomials that LLVM turns into vector code (libm calls stay scalar and cost 15 to 70 times
as much); float64 takes libm. NaN stays NaN, and infinities, zeros and ends of domains give what IEEE 754 says. Largest errors in
float32, in units of the last place (`tests/kernels/test_math_numba.py` measures them):

    exp exp2 expm1 2   log log1p log2 1.5   log10 2.5   tanh 5   sigmoid 3   erf 6   hypot 1
    normal_cdf 10 for x > -3, below relative error 5e-6

Import this file, and every `*_numba.py`, only on first use of such a kernel: it loads Numba.
"""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from dynograd.kernels.compiling_numba import IN_ORDER, compiled

__all__ = [
    "erf",
    "exp",
    "exp2",
    "expm1",
    "fmax",
    "fmin",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "maximum",
    "minimum",
    "minus",
    "normal_cdf",
    "normal_pdf",
    "rint",
    "sigmoid",
    "sign",
    "tanh",
]

_JIT: Any = {"error_model": "numpy", "fastmath": set(IN_ORDER), "forceinline": True}


@compiled(in_order=True, inline=True)
def minus(x, y):
    """x - y, done before the result is used: `compiled` code may otherwise turn (x - y) - z into x - (y + z)."""
    return x - y


def exp(x: float) -> float:
    """e to the x."""
    return math.exp(x)


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)); float32 results below 1.2e-38 are 0."""
    return 1.0 / (1.0 + math.exp(-x))


def tanh(x: float) -> float:
    """Hyperbolic tangent; float32 within a few units in the last place, near 0 too."""
    return math.tanh(x)


def expm1(x: float) -> float:
    """exp(x) - 1 without loss of digits near 0."""
    return math.expm1(x)


def exp2(x: float) -> float:
    """2 to the x."""
    return 2.0**x


def log(x: float) -> float:
    """Natural logarithm: -inf at 0, NaN below."""
    return math.log(x)


def log2(x: float) -> float:
    """Logarithm to base 2, exact for powers of 2."""
    return math.log2(x)


def log10(x: float) -> float:
    """Logarithm to base 10."""
    return math.log10(x)


def log1p(x: float) -> float:
    """log(1 + x) without loss of digits near 0."""
    return math.log1p(x)


def erf(x: float) -> float:
    """The error function."""
    return math.erf(x)


def normal_cdf(x: float) -> float:
    """The probability that a standard normal number is below x: erfc(-x / sqrt(2)) / 2."""
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


def normal_pdf(x: float) -> float:
    """The density of a standard normal number: exp(-x * x / 2) / sqrt(2 pi)."""
    return math.exp(-0.5 * x * x) * 0.3989422804014327


def hypot(x: float, y: float) -> float:
    """sqrt(x * x + y * y) without overflow in between."""
    return math.hypot(x, y)


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
    return x if (x >= y) | (y != y) else y


@compiled(in_order=True, inline=True)
def fmin(x, y):
    """The smaller one; the other one when one is NaN."""
    return x if (x <= y) | (y != y) else y


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
_TINY = np.float32(1e-4)
_EXP_MIN = np.float32(-103.97208)
_EXP_NORMAL = np.float32(-87.33654)
_INFINITY = np.float32(np.inf)
_MANTISSA_BITS = np.int32(23)
_EXPONENT_BIAS = np.int32(127)
_E0 = np.float32(1.9875691500e-4)
_E1 = np.float32(1.3981999507e-3)
_E2 = np.float32(8.3334519073e-3)
_E3 = np.float32(4.1665795894e-2)
_E4 = np.float32(1.6666665459e-1)
_E5 = np.float32(5.0000001201e-1)
_LN2 = np.float32(math.log(2.0))
_LOG10_E = np.float32(math.log10(math.e))
_LOG10_2 = np.float32(math.log10(2.0))
_NAN = np.float32(np.nan)
_SMALLEST_NORMAL = np.float32(1.17549435e-38)
_TWO_TO_23 = np.float32(2.0**23)
_FRACTION_MASK = np.int32(0x007FFFFF)
_ROOT_HALF_BITS = np.int32(0x3F3504F3)
_ONE_BITS = np.int32(0x3F800000)

# log(1 + f) = f - f^2/2 + f^3 (L0 f^8 + ... + L8) on [sqrt(1/2) - 1, sqrt(2) - 1] (Cephes).
_L0 = np.float32(7.0376836292e-2)
_L1 = np.float32(-1.1514610310e-1)
_L2 = np.float32(1.1676998740e-1)
_L3 = np.float32(-1.2420140846e-1)
_L4 = np.float32(1.4249322787e-1)
_L5 = np.float32(-1.6668057665e-1)
_L6 = np.float32(2.0000714765e-1)
_L7 = np.float32(-2.4999993993e-1)
_L8 = np.float32(3.3333331174e-1)

# erf(x) = x P(x^2) / Q(x^2) on [-3.95, 3.95], beyond which it rounds to 1.
_ERF_MAX = np.float32(3.95)
_P0 = np.float32(1.1283791065216064)
_P1 = np.float32(0.20255562663078308)
_P2 = np.float32(0.05091944709420204)
_P3 = np.float32(0.0038065449334681034)
_P4 = np.float32(0.00014376864419318736)
_P5 = np.float32(-1.9505523596308194e-06)
_P6 = np.float32(1.9601175793582115e-08)
_Q1 = np.float32(0.5128417611122131)
_Q2 = np.float32(0.1160830408334732)
_Q3 = np.float32(0.014573249965906143)
_Q4 = np.float32(0.000979500007815659)

# erfc(z) exp(z^2) = t (C0 + C1 t + ... + C7 t^7) with t = 1 / (1 + 0.33 z), relative error 1.2e-7 for 0 <= z <= 10.5 (a minimax fit).
_DENSITY_0 = np.float32(0.3989422804014327)
_T = np.float32(0.33 * math.sqrt(0.5))
_C0 = np.float32(0.18634581215444151 / 2)
_C1 = np.float32(0.18312915415057063 / 2)
_C2 = np.float32(0.20019356794272947 / 2)
_C3 = np.float32(0.05049583954520539 / 2)
_C4 = np.float32(0.4024806205893668 / 2)
_C5 = np.float32(-0.3447400144272293 / 2)
_C6 = np.float32(0.45656701050732623 / 2)
_C7 = np.float32(-0.13447191281237797 / 2)

# Rational approximation of tanh on [-7.9, 7.9]: odd numerator T, even denominator U.
_TANH_MAX = np.float32(7.90531110763549805)
_T1 = np.float32(4.89352455891786e-03)
_T3 = np.float32(6.37261928875436e-04)
_T5 = np.float32(1.48572235717979e-05)
_T7 = np.float32(5.12229709037114e-08)
_T9 = np.float32(-8.60467152213735e-11)
_T11 = np.float32(2.00018790482477e-13)
_T13 = np.float32(-2.76076847742355e-16)
_U0 = np.float32(4.89352518554385e-03)
_U2 = np.float32(2.26843463243900e-03)
_U4 = np.float32(1.18534705686654e-04)
_U6 = np.float32(1.19825839466702e-06)


@overload(exp, jit_options=_JIT)
def _exp_overload(x):
    return _exp_float32 if x == types.float32 else _exp_float64


@overload(sigmoid, jit_options=_JIT)
def _sigmoid_overload(x):
    return _sigmoid_float32 if x == types.float32 else _sigmoid_float64


@overload(tanh, jit_options=_JIT)
def _tanh_overload(x):
    return _tanh_float32 if x == types.float32 else _tanh_float64


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
    series = _E0 * rest + _E1
    series = series * rest + _E2
    series = series * rest + _E3
    series = series * rest + _E4
    series = series * rest + _E5
    return series * rest * rest + rest


@compiled(in_order=True, inline=True)
def _two_to(power):
    return np.int32((power + _EXPONENT_BIAS) << _MANTISSA_BITS).view(np.float32)


def _exp_float32(x):
    power, rest = _power_and_rest(x, _EXP_MIN)
    half = np.int32(power >> np.int32(1))  # 2^128, and what is below the normal numbers, in two steps
    finite = (_exp_series(rest) + _ONE) * _two_to(half) * _two_to(np.int32(power - half))
    value = _ZERO if x < _EXP_MIN else finite
    return _INFINITY if x > _EXP_MAX else value


def _exp_float64(x):
    return math.exp(x)


def _sigmoid_float32(x):
    above = _EXP_NORMAL if x < _EXP_NORMAL else x
    bounded = -_EXP_NORMAL if above > -_EXP_NORMAL else above
    power = np.floor(_HALF - bounded * _LOG2_E)
    rest = -bounded - power * _LN2_HIGH
    rest = rest - power * _LN2_LOW
    value = _ONE / (_ONE + (_exp_series(rest) + _ONE) * _two_to(np.int32(power)))
    return _ZERO if x < _EXP_NORMAL else value


def _sigmoid_float64(x):
    return 1.0 / (1.0 + math.exp(-x))


def _tanh_float32(x):
    floored = -_TANH_MAX if x < -_TANH_MAX else x
    bounded = _TANH_MAX if floored > _TANH_MAX else floored
    square = bounded * bounded
    above = _T13 * square + _T11
    above = above * square + _T9
    above = above * square + _T7
    above = above * square + _T5
    above = above * square + _T3
    above = above * square + _T1
    below = _U6 * square + _U4
    below = below * square + _U2
    below = below * square + _U0
    middle = bounded * above / below
    inner = x if abs(x) < _TINY else middle
    value = _ONE if x >= _TANH_MAX else inner
    return -_ONE if x <= -_TANH_MAX else value


def _tanh_float64(x):
    return math.tanh(x)


# --- exponentials and logarithms ---------------------------------------------------------------------------------------------


@overload(expm1, jit_options=_JIT)
def _expm1_overload(x):
    return _expm1_float32 if x == types.float32 else _expm1_float64


def _expm1_float32(x):
    power, rest = _power_and_rest(x, np.float32(-20.0))
    half = _two_to(np.int32(power - np.int32(1)))
    value = (_exp_series(rest) * half + (half - _HALF)) * _TWO
    small = x if abs(x) < np.float32(1e-8) else value  # keeps the sign of 0, and denormal numbers
    return _INFINITY if x > _EXP_MAX else small


def _expm1_float64(x):
    return math.expm1(x)


@overload(exp2, jit_options=_JIT)
def _exp2_overload(x):
    return _exp2_float32 if x == types.float32 else _exp2_float64


def _exp2_float32(x):
    floored = np.float32(-150.0) if x < np.float32(-150.0) else x
    bounded = np.float32(128.0) if floored > np.float32(128.0) else floored
    nearest = np.floor(bounded + _HALF)
    power = np.int32(nearest)
    half = np.int32(power >> np.int32(1))
    value = (_exp_series((bounded - nearest) * _LN2) + _ONE) * _two_to(half) * _two_to(np.int32(power - half))
    return _INFINITY if x >= np.float32(128.0) else value


def _exp2_float64(x):
    return 2.0**x


@compiled(in_order=True, inline=True)
def _bent(f):
    """log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1]."""
    series = _L0 * f + _L1
    series = series * f + _L2
    series = series * f + _L3
    series = series * f + _L4
    series = series * f + _L5
    series = series * f + _L6
    series = series * f + _L7
    series = series * f + _L8
    square = f * f
    return series * f * square - _HALF * square


@compiled(in_order=True, inline=True)
def _parts(x):
    """(exponent, m - 1) with x = m 2^exponent and m in [sqrt(1/2), sqrt(2)), for x above 0."""
    tiny = x < _SMALLEST_NORMAL
    scaled = x * _TWO_TO_23 if tiny else x
    bits = np.int32(
        np.float32(scaled).view(np.int32) - _ROOT_HALF_BITS
    )  # int32 + int32 is int64 to Numba: half the lanes
    exponent = np.float32(np.int32(bits >> _MANTISSA_BITS))
    fraction = np.int32(np.int32(bits & _FRACTION_MASK) + _ROOT_HALF_BITS).view(np.float32) - _ONE
    return (exponent - np.float32(23.0) if tiny else exponent), fraction


@compiled(in_order=True, inline=True)
def _ends(x, value):
    """The value of a logarithm at x: `value` inside its domain."""
    above = _INFINITY if x == _INFINITY else value
    low = -_INFINITY if x == _ZERO else above
    return _NAN if (x < _ZERO) | (x != x) else low


@overload(log, jit_options=_JIT)
def _log_overload(x):
    return _log_float32 if x == types.float32 else _log_float64


def _log_float32(x):
    exponent, f = _parts(x)
    return _ends(x, (_bent(f) + exponent * _LN2_LOW) + f + exponent * _LN2_HIGH)


def _log_float64(x):
    return math.log(x)


@overload(log2, jit_options=_JIT)
def _log2_overload(x):
    return _log2_float32 if x == types.float32 else _log2_float64


def _log2_float32(x):
    exponent, f = _parts(x)
    # f times log2(e) in two products, so that the first is nearly exact
    return _ends(x, (_bent(f) * _LOG2_E + f * np.float32(0.4426950408889634)) + f + exponent)


def _log2_float64(x):
    return math.log2(x)


@overload(log10, jit_options=_JIT)
def _log10_overload(x):
    return _log10_float32 if x == types.float32 else _log10_float64


def _log10_float32(x):
    exponent, f = _parts(x)
    return _ends(x, (_bent(f) + f) * _LOG10_E + exponent * _LOG10_2)


def _log10_float64(x):
    return math.log10(x)


@overload(log1p, jit_options=_JIT)
def _log1p_overload(x):
    return _log1p_float32 if x == types.float32 else _log1p_float64


def _log1p_float32(x):
    above = _ONE + x
    bits = np.int32(np.float32(above).view(np.int32) - _ROOT_HALF_BITS)
    power = np.int32(bits >> _MANTISSA_BITS)
    exponent = np.float32(power)
    # 2^-exponent (1 + x) - 1, both terms of which are exact
    scale = np.int32(_ONE_BITS - np.int32(power << _MANTISSA_BITS)).view(np.float32)
    large = np.int32(np.int32(bits & _FRACTION_MASK) + _ROOT_HALF_BITS).view(np.float32) - _ONE
    f = large if x > _TWO_TO_23 else x * scale + (scale - _ONE)
    value = (_bent(f) + exponent * _LN2_LOW) + f + exponent * _LN2_HIGH
    return x if abs(x) < np.float32(1e-8) else _ends(above, value)


def _log1p_float64(x):
    return math.log1p(x)


# --- the normal distribution, powers -----------------------------------------------------------------------------------------


@overload(erf, jit_options=_JIT)
def _erf_overload(x):
    return _erf_float32 if x == types.float32 else _erf_float64


def _erf_float32(x):
    square = x * x
    above = _P6 * square + _P5
    above = above * square + _P4
    above = above * square + _P3
    above = above * square + _P2
    above = above * square + _P1
    above = above * square + _P0
    below = _Q4 * square + _Q3
    below = below * square + _Q2
    below = below * square + _Q1
    below = below * square + _ONE
    middle = x * above / below
    value = _ONE if (x > _ERF_MAX) | (middle > _ONE) else middle
    return -_ONE if (x < -_ERF_MAX) | (middle < -_ONE) else value


def _erf_float64(x):
    return math.erf(x)


@overload(normal_cdf, jit_options=_JIT)
def _normal_cdf_overload(x):
    return _normal_cdf_float32 if x == types.float32 else _normal_cdf_float64


@compiled(in_order=True, inline=True)
def _bell(x):
    """exp(-x * x / 2), 0 below 1.2e-38."""
    exponent = -_HALF * x * x
    bounded = _EXP_NORMAL if exponent < _EXP_NORMAL else exponent
    power = np.floor(bounded * _LOG2_E + _HALF)
    rest = bounded - power * _LN2_HIGH
    rest = rest - power * _LN2_LOW
    value = (_exp_series(rest) + _ONE) * _two_to(np.int32(power))
    return _ZERO if exponent < _EXP_NORMAL else value


@overload(normal_pdf, jit_options=_JIT)
def _normal_pdf_overload(x):
    return _normal_pdf_float32 if x == types.float32 else _normal_pdf_float64


def _normal_pdf_float32(x):
    return _DENSITY_0 * _bell(x)


def _normal_pdf_float64(x):
    return 0.3989422804014327 * math.exp(-0.5 * x * x)


def _normal_cdf_float32(x):
    t = _ONE / (_ONE + _T * abs(x))
    tail = _C7 * t + _C6
    tail = tail * t + _C5
    tail = tail * t + _C4
    tail = tail * t + _C3
    tail = tail * t + _C2
    tail = tail * t + _C1
    tail = tail * t + _C0
    tail = tail * t * _bell(x)
    return tail if x < _ZERO else _ONE - tail


def _normal_cdf_float64(x):
    return 0.5 * math.erfc(x * -0.7071067811865476)


@overload(hypot, jit_options=_JIT)
def _hypot_overload(x, y):
    return _hypot_float32 if x == types.float32 else _hypot_float64


def _hypot_float32(x, y):
    wide, other = np.float64(x), np.float64(y)
    value = np.float32(math.sqrt(wide * wide + other * other))
    return _INFINITY if (abs(x) == _INFINITY) | (abs(y) == _INFINITY) else value


def _hypot_float64(x, y):
    return math.hypot(x, y)
