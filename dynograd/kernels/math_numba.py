"""Scalar functions that vectorise inside Numba kernels.

float32 arguments take polynomials that LLVM turns into vector code (libm calls stay scalar and cost 15 to 70 times
as much); float64 takes libm. NaN stays NaN. Import this file, and every `*_numba.py`, only on first use of such a kernel:
it loads Numba.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from dynograd.kernels.compiling_numba import IN_ORDER, compiled

__all__ = ["exp", "minus", "sigmoid", "tanh"]

_IN_ORDER = set(IN_ORDER)


@compiled(in_order=True, inline=True)
def minus(x, y):
    """x - y, done before the result is used: `compiled` code may otherwise turn (x - y) - z into x - (y + z)."""
    return x - y


def exp(x: float) -> float:
    """e to the x; float32 results below 1.2e-38 are 0, relative error 2e-7."""
    return math.exp(x)


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + math.exp(-x))


def tanh(x: float) -> float:
    """Hyperbolic tangent; float32 within a few units in the last place, near 0 too."""
    return math.tanh(x)


_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)
_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_HALF = np.float32(0.5)
_EXP_MAX = np.float32(88.722839)
_POWER_MAX = np.float32(127.0)
_EXP_MIN = np.float32(-87.336544)
_INFINITY = np.float32(np.inf)
_MANTISSA_BITS = np.int32(23)
_EXPONENT_BIAS = np.int32(127)
_E0 = np.float32(1.9875691500e-4)
_E1 = np.float32(1.3981999507e-3)
_E2 = np.float32(8.3334519073e-3)
_E3 = np.float32(4.1665795894e-2)
_E4 = np.float32(1.6666665459e-1)
_E5 = np.float32(5.0000001201e-1)

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


@overload(exp, jit_options={"error_model": "numpy", "fastmath": _IN_ORDER})
def _exp_overload(x):
    return _exp_float32 if x == types.float32 else _exp_float64


@overload(sigmoid, jit_options={"error_model": "numpy", "fastmath": _IN_ORDER})
def _sigmoid_overload(x):
    return _sigmoid_float32 if x == types.float32 else _sigmoid_float64


@overload(tanh, jit_options={"error_model": "numpy", "fastmath": _IN_ORDER})
def _tanh_overload(x):
    return _tanh_float32 if x == types.float32 else _tanh_float64


def _exp_float32(x):
    floored = _EXP_MIN if x < _EXP_MIN else x
    bounded = _EXP_MAX if floored > _EXP_MAX else floored
    nearest = np.floor(bounded * _LOG2_E + _HALF)
    power = _POWER_MAX if nearest > _POWER_MAX else nearest
    rest = bounded - power * _LN2_HIGH
    rest = rest - power * _LN2_LOW
    series = _E0 * rest + _E1
    series = series * rest + _E2
    series = series * rest + _E3
    series = series * rest + _E4
    series = series * rest + _E5
    series = series * rest * rest + rest + _ONE
    finite = series * np.int32((np.int32(power) + _EXPONENT_BIAS) << _MANTISSA_BITS).view(np.float32)
    value = _ZERO if x < _EXP_MIN else finite
    return _INFINITY if x > _EXP_MAX else value


def _exp_float64(x):
    return math.exp(x)


def _sigmoid_float32(x):
    return _ONE / (_ONE + exp(-x))


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
    value = _ONE if x >= _TANH_MAX else middle
    return -_ONE if x <= -_TANH_MAX else value


def _tanh_float64(x):
    return math.tanh(x)
