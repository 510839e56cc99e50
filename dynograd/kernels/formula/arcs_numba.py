"""Arc functions that vectorise inside Numba kernels; what `math_numba` says of its functions holds for these. Import it on first use.

Errors in float32: 1.5 units in the last place, of atan2 2. float64 calls libm. The polynomials are minimax (Lawson's iterations over
Chebyshev points, coefficients rounded one after the other, the lowest first).
"""

import math

import numpy as np

from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.formula.scalars_numba import in_float32, polynomial

__all__ = ["acos", "asin", "atan", "atan2"]

_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)
_SIX_TENTHS = np.float32(0.6)  # 2 asin(sqrt((1 - x) / 2)) near 1/2 would be rounded where numbers are as coarse as at 1
_HALF_PI = np.float32(0.5 * math.pi)
_HALF_PI_REST = np.float32(0.5 * math.pi - float(_HALF_PI))
_PI = np.float32(math.pi)
_PI_REST = np.float32(math.pi - float(_PI))

# (asin(x) / x - 1) / x^2 in x^2 for x within 0.6, relative error 5e-10.
_asin_rest = polynomial(
    5.5505037e-02, -1.3327436e-02, 3.2782227e-02, 2.8528737e-02, 4.4815246e-02, 7.49925e-02, 1.6666678e-01
)
# (atan(x) / x - 1) / x^2 in x^2 for x within 1, relative error 3e-9.
_atan_rest = polynomial(
    -1.782176e-03, 1.0866363e-02, -3.1093631e-02, 5.7878915e-02, -8.399209e-02, 1.0950861e-01, -1.4264014e-01, 1.999853e-01,
    -3.33333e-01
)  # fmt: skip


_INFINITY = np.float32(np.inf)
_SMALLEST_NORMAL = np.float32(1.17549435e-38)
_TWO_TO_24 = np.float32(2.0**24)


@compiled(in_order=True, inline=True)
def _asin_of(x, square):
    return _asin_rest(square) * square * x + x


def _asin_float32(x):
    size = abs(x)
    upper = size > _SIX_TENTHS
    square = _HALF - _HALF * size if upper else x * x
    value = _asin_of(np.sqrt(square) if upper else size, square)
    beyond = _HALF_PI - (value + value) + _HALF_PI_REST
    return np.copysign(beyond if upper else value, x)


@in_float32(_asin_float32)
def asin(x):
    """The angle in [-pi/2, pi/2] whose sine is x; NaN beyond 1."""
    return math.asin(x) if abs(x) <= 1.0 else math.nan


def _acos_float32(x):
    size = abs(x)
    upper = size > _HALF
    square = _HALF - _HALF * size if upper else x * x
    value = _asin_of(np.sqrt(square) if upper else x, square)
    double = value + value
    beyond = _PI - (double - _PI_REST) if x < _ZERO else double
    return beyond if upper else _HALF_PI - (value - _HALF_PI_REST)


@in_float32(_acos_float32)
def acos(x):
    """The angle in [0, pi] whose cosine is x; NaN beyond 1."""
    return math.acos(x) if abs(x) <= 1.0 else math.nan


def _atan_float32(x):
    size = abs(x)
    upper = size > _ONE
    ratio = _ONE / size if upper else size
    square = ratio * ratio
    value = _atan_rest(square) * square * ratio + ratio
    return np.copysign(_HALF_PI - (value - _HALF_PI_REST) if upper else value, x)


@in_float32(_atan_float32)
def atan(x):
    """The angle in [-pi/2, pi/2] whose tangent is x."""
    return math.atan(x)


def _atan2_float32(x, y):
    up, across = abs(x), abs(y)
    steep = up > across
    large = up if steep else across
    small = across if steep else up
    scale = _TWO_TO_24 if large < _SMALLEST_NORMAL else _ONE
    quotient = (small * scale) / (large * scale)
    ends = _ONE if small == _INFINITY else quotient
    ratio = _ZERO if large == _ZERO else ends
    square = ratio * ratio
    value = _atan_rest(square) * square * ratio + ratio
    left = np.copysign(_ONE, y) < _ZERO
    flat = _PI - (value - _PI_REST) if left else value
    upright = _HALF_PI - ((-value if left else value) - _HALF_PI_REST)  # pi less this angle would be rounded twice
    angle = upright if steep else flat
    return x + y if (x != x) | (y != y) else np.copysign(angle, x)


@in_float32(_atan2_float32)
def atan2(x, y):
    """The angle in [-pi, pi] of the point with y `x` and x `y`."""
    return math.atan2(x, y)
