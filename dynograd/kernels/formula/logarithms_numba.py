"""Logarithms that vectorise inside Numba kernels; what `math_numba` says of its functions holds for these. Import it on first use."""

import math

import numpy as np

from dynograd.kernels.build.bits_numba import float32_of, int32_of
from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.formula.math_numba import _exp_series, _power_and_rest, _two_to
from dynograd.kernels.formula.scalars_numba import in_float32, polynomial

__all__ = ["log", "log1p", "log1pexp", "log2", "log10"]

_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)
_INFINITY = np.float32(np.inf)
_NAN = np.float32(np.nan)
_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_LOG10_E = np.float32(math.log10(math.e))
_LOG10_E_HIGH = np.float32(0.43408203125)  # 11 bits
_LOG10_E_LOW = np.float32(0.00021245065325181667)
_LOG10_2_HIGH = np.float32(0.301025390625)  # 16 bits: its products with exponents are exact
_LOG10_2_LOW = np.float32(4.6050389811980175e-06)
_HIGH_HALF_MASK = np.int32(-4096)  # 12 bits of a number
_EXP_NORMAL = np.float32(-87.33654)
_SMALLEST_NORMAL = np.float32(1.17549435e-38)
_TWO_TO_23 = np.float32(2.0**23)
_MANTISSA_BITS = np.int32(23)
_FRACTION_MASK = np.int32(0x007FFFFF)
_ROOT_HALF_BITS = np.int32(0x3F3504F3)
_ONE_BITS = np.int32(0x3F800000)

# log(1 + f) = f - f^2/2 + f^3 (L0 f^8 + ... + L8) on [sqrt(1/2) - 1, sqrt(2) - 1] (Cephes).
_log_rest = polynomial(
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1
)  # fmt: skip

# log(1 + u) = u + u^2 (B0 + ... + B7 u^7) on [0, 1], relative error 3.3e-8 (minimax by a linear program, rounded one by one).
_log1p_rest = polynomial(
    0.005365422461181879, -0.030068300664424896, 0.07920882850885391, -0.13754187524318695, 0.1915384829044342,
    -0.24857217073440552, 0.33321329951286316, -0.49999648332595825
)  # fmt: skip


@compiled(in_order=True, inline=True)
def _bent(f):
    """log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1]."""
    series = _log_rest(f)
    square = f * f
    return series * f * square - _HALF * square


@compiled(in_order=True, inline=True)
def _parts(x):
    """(exponent, m - 1) with x = m 2^exponent and m in [sqrt(1/2), sqrt(2)), for x above 0."""
    tiny = x < _SMALLEST_NORMAL
    scaled = x * _TWO_TO_23 if tiny else x
    bits = np.int32(int32_of(np.float32(scaled)) - _ROOT_HALF_BITS)  # int32 + int32 is int64 to Numba: half the lanes
    exponent = np.float32(np.int32(bits >> _MANTISSA_BITS))
    fraction = float32_of(np.int32(np.int32(bits & _FRACTION_MASK) + _ROOT_HALF_BITS)) - _ONE
    return (exponent - np.float32(23.0) if tiny else exponent), fraction


@compiled(in_order=True, inline=True)
def _ends(x, value):
    """The value of a logarithm at x: `value` inside its domain."""
    above = _INFINITY if x == _INFINITY else value
    low = -_INFINITY if x == _ZERO else above
    return _NAN if (x < _ZERO) | (x != x) else low


def _log_float32(x):
    exponent, f = _parts(x)
    return _ends(x, (_bent(f) + exponent * _LN2_LOW) + f + exponent * _LN2_HIGH)


@in_float32(_log_float32)
def log(x):
    """Natural logarithm: -inf at 0, NaN below."""
    return math.log(x)


def _log2_float32(x):
    exponent, f = _parts(x)
    # f times log2(e) in two products, so that the first is nearly exact
    return _ends(x, (_bent(f) * _LOG2_E + f * np.float32(0.4426950408889634)) + f + exponent)


@in_float32(_log2_float32)
def log2(x):
    """Logarithm to base 2, exact for powers of 2."""
    return math.log2(x)


def _log10_float32(x):
    exponent, f = _parts(x)
    high = float32_of(np.int32(int32_of(np.float32(f)) & _HIGH_HALF_MASK))
    small = _bent(f) * _LOG10_E + ((f - high) * _LOG10_E + high * _LOG10_E_LOW) + exponent * _LOG10_2_LOW
    return _ends(x, (small + high * _LOG10_E_HIGH) + exponent * _LOG10_2_HIGH)  # both products are exact


@in_float32(_log10_float32)
def log10(x):
    """Logarithm to base 10, exact for powers of 10."""
    return math.log10(x)


def _log1p_float32(x):
    above = _ONE + x
    bits = np.int32(int32_of(np.float32(above)) - _ROOT_HALF_BITS)
    power = np.int32(bits >> _MANTISSA_BITS)
    exponent = np.float32(power)
    # 2^-exponent (1 + x) - 1, both terms of which are exact
    scale = float32_of(np.int32(_ONE_BITS - np.int32(power << _MANTISSA_BITS)))
    large = float32_of(np.int32(np.int32(bits & _FRACTION_MASK) + _ROOT_HALF_BITS)) - _ONE
    f = large if x > _TWO_TO_23 else x * scale + (scale - _ONE)
    value = (_bent(f) + exponent * _LN2_LOW) + f + exponent * _LN2_HIGH
    return x if abs(x) < np.float32(1e-8) else _ends(above, value)


@in_float32(_log1p_float32)
def log1p(x):
    """log(1 + x) without loss of digits near 0."""
    return math.log1p(x)


def _log1pexp_float32(x):
    low = -abs(x)
    exponent, rest = _power_and_rest(low, _EXP_NORMAL)
    normal = (_exp_series(rest) + _ONE) * _two_to(exponent)
    power = _ZERO if low < _EXP_NORMAL else normal
    series = _log1p_rest(power)
    above = x if x > _ZERO else _ZERO
    return above + (series * power * power + power)


@in_float32(_log1pexp_float32)
def log1pexp(x):
    """log(1 + exp(x)) without overflow, and without loss of digits far below 0; float32 results below 1.2e-38 are 0."""
    above = x if x > 0.0 else 0.0
    return above + math.log1p(math.exp(-abs(x)))
