"""Scalar functions that `ufuncs.compiled` turns into NumPy ufuncs, one compilation for each signature, kept in Numba's cache.

float32 functions are polynomials that LLVM vectorises over unit strides; the special functions are float64 and scalar. Import
this file only on first use of such a function: it loads Numba.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, vectorize

from dynograd.kernels import math_numba

__all__ = ["ufunc"]

_FAST = {"contract", "reassoc", "nsz", "arcp", "afn"}
_table: dict[str, tuple[Callable[..., Any], str, bool]] = {}


def ufunc(name: str) -> Any:
    """The scalar function `name` as a NumPy ufunc."""
    function, signature, fast = _table[name]
    made = vectorize([signature], cache=True, fastmath=_FAST if fast else False)(function)
    return getattr(made, "ufunc", made)  # NumPy's own ufunc: called in 0.2 us, Numba's wrapper around it in 0.7


def _entry(name: str, signature: str, fast: bool = False) -> Callable[..., Any]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _table[name] = (function, signature, fast)
        return function

    return register


# --- choices ---------------------------------------------------------------------------------------------------------------


@_entry("select_u1", "u1(b1,u1,u1)")
@_entry("select_u2", "u2(b1,u2,u2)")
@_entry("select_u4", "u4(b1,u4,u4)")
@_entry("select_u8", "u8(b1,u8,u8)")
def _select(condition, x, y):
    return x if condition else y


_ZERO = np.float32(0.0)


@_entry("gate_f", "f4(f4,f4)")
@_entry("gate_d", "f8(f8,f8)")
def _gate(g, x):
    return _ZERO if x <= _ZERO else g


# --- activations in float32 --------------------------------------------------------------------------------------------------

_ONE = np.float32(1.0)
_HALF = np.float32(0.5)
_ROOT_2_OVER_PI = np.float32(math.sqrt(2.0 / math.pi))
_DENSITY_0 = np.float32(1.0 / math.sqrt(2.0 * math.pi))
_CUBE = np.float32(0.044715)
_SLOPE_CUBE = np.float32(3 * 0.044715)


@_entry("sigmoid_f", "f4(f4)", fast=True)
def _sigmoid(x):
    return math_numba.sigmoid(x)


@_entry("silu_f", "f4(f4)", fast=True)
def _silu(x):
    return x * math_numba.sigmoid(x)


@_entry("silu_backward_f", "f4(f4,f4)", fast=True)
def _silu_backward(g, x):
    s = math_numba.sigmoid(x)
    return g * (s + x * s * (_ONE - s))


# erf(x) = x P(x^2) / Q(x^2) on [-3.95, 3.95], beyond which it rounds to 1; relative error below 4e-7.
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


@njit(error_model="numpy", fastmath=_FAST)
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
    value = _ONE if (x > _ERF_MAX or middle > _ONE) else middle
    return -_ONE if (x < -_ERF_MAX or middle < -_ONE) else value


@_entry("erf_f", "f4(f4)", fast=True)
def _erf(x):
    return _erf_float32(x)


# The normal distribution by Abramowitz and Stegun 7.1.26: its tail is t (A1 + t (A2 + ...)) exp(-x^2 / 2) / 2 within 0.8e-7,
# with t = 1 / (1 + T |x|). One exponential serves the probability and the density.
_T = np.float32(0.3275911 * math.sqrt(0.5))
_A1 = np.float32(0.254829592 / 2)
_A2 = np.float32(-0.284496736 / 2)
_A3 = np.float32(1.421413741 / 2)
_A4 = np.float32(-1.453152027 / 2)
_A5 = np.float32(1.061405429 / 2)


@njit(error_model="numpy", fastmath=_FAST)
def _probability_below(x, bell):
    t = _ONE / (_ONE + _T * abs(x))
    tail = _A5 * t + _A4
    tail = tail * t + _A3
    tail = tail * t + _A2
    tail = tail * t + _A1
    tail = tail * t * bell
    return tail if x < _ZERO else _ONE - tail


@_entry("gelu_f", "f4(f4)", fast=True)
def _gelu(x):
    return x * _probability_below(x, math_numba.exp(-_HALF * x * x))


@_entry("gelu_backward_f", "f4(f4,f4)", fast=True)
def _gelu_backward(g, x):
    bell = math_numba.exp(-_HALF * x * x)
    return g * (_probability_below(x, bell) + x * _DENSITY_0 * bell)


@_entry("gelu_tanh_f", "f4(f4)", fast=True)
def _gelu_tanh(x):
    inner = _ROOT_2_OVER_PI * (x + _CUBE * x * x * x)
    return _HALF * x * (_ONE + math_numba.tanh(inner))


@_entry("gelu_tanh_backward_f", "f4(f4,f4)", fast=True)
def _gelu_tanh_backward(g, x):
    bent = math_numba.tanh(_ROOT_2_OVER_PI * (x + _CUBE * x * x * x))
    slope = _ROOT_2_OVER_PI * (_ONE + _SLOPE_CUBE * x * x)
    return g * _HALF * ((_ONE + bent) + x * (_ONE - bent * bent) * slope)


# --- special functions in float64 --------------------------------------------------------------------------------------------

_INFINITY = math.inf


@_entry("erf", "f8(f8)")
def _erf_float64(x):
    return math.erf(x)


@_entry("erfc", "f8(f8)")
def _erfc(x):
    return math.erfc(x)


@_entry("lgamma", "f8(f8)")
def _lgamma(x):
    return math.lgamma(x)


@_entry("erfinv", "f8(f8)")
def _erfinv(x):
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


@_entry("digamma", "f8(f8)")
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


@njit(error_model="numpy")
def _zeta(s, q):
    """Sum of (q + k)^-s over k >= 0 for q > 0, by Euler and Maclaurin after the first terms."""
    total = 0.0
    while q < 12.0:
        total += q**-s
        q += 1.0
    power = q**-s
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


@_entry("polygamma", "f8(f8,f8)")
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
        # The terms below 0 are, mirrored, a difference of two such sums.
        rest = x - math.floor(x)
        mirrored = _zeta(s, 1.0 - rest) - _zeta(s, 1.0 - x)
        value = _zeta(s, rest) + (mirrored if s % 2.0 == 0.0 else -mirrored)
    return sign * math.gamma(s) * value
