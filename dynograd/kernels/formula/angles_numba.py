"""Angles, powers and remainders for kernels of plans, where small arrays count: what eager leaves to NumPy.

float32 sine and cosine vectorise, for arguments of any size: the argument is m 2^e with a whole m, and what 2^e 2/pi leaves behind full turns comes
from a table, in parts whose products with m are exact. The others call libm in float64. Importing this loads Numba.
"""

import math
from fractions import Fraction

import numpy as np
from numba import types
from numba.extending import overload

from dynograd.kernels.build.bits_numba import int32_of
from dynograd.kernels.build.compiling_numba import IN_ORDER, PIPELINE, compiled
from dynograd.kernels.formula.quotients_numba import _moved, _quotient, _rest64
from dynograd.kernels.formula.scalars_numba import in_float32

__all__ = [
    "acosh",
    "asinh",
    "atanh",
    "cos",
    "cosh",
    "floor_divide_of_any",
    "fmod_of_any",
    "mod_of_any",
    "power",
    "sin",
    "sinh",
    "tan",
]

# --- sine and cosine ----------------------------------------------------------------------------------------------------------

_PI = Fraction(  # 280 bits are more than the largest float32 takes to leave 100 behind its turns
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651328230664709384460955058"
)
_PART = 29  # bits of a part, times the 24 of m: 53


def _parts(biased: int) -> list[float]:
    """2^e 2/pi modulo 4, as the sum of three numbers, for a biased exponent of float32."""
    turns = Fraction(2) ** (max(biased, 1) - 150) * 2 / _PI % 4
    first = Fraction(math.floor(turns * 2 ** (_PART - 2)), 2 ** (_PART - 2))
    turns -= first
    second = Fraction(math.floor(turns * 2 ** (2 * _PART - 2)), 2 ** (2 * _PART - 2))
    return [float(first), float(second), float(turns - second)]


_TABLE = np.array([_parts(biased) for biased in range(255)] + [[math.nan] * 3]).T.copy()
_FIRST, _SECOND, _THIRD = _TABLE
_MANTISSA, _HIDDEN = np.int32(0x7FFFFF), np.int32(0x800000)


@compiled(in_order=True, inline=True)
def _quarter_and_rest(x):
    """(k, r) with |x| = k pi / 2 + r, r within pi / 4, as float64; k modulo 4."""
    bits = int32_of(x) & np.int32(0x7FFFFFFF)
    place = np.uint64(bits >> np.int32(23))
    whole = np.float64((bits & _MANTISSA) | (_HIDDEN if bits > _MANTISSA else np.int32(0)))
    turns = whole * _FIRST[place]
    turns -= 4.0 * np.floor(turns * 0.25)
    quarter = np.rint(turns)
    rest = turns - quarter + whole * _SECOND[place] + whole * _THIRD[place]
    more = np.rint(rest)
    return quarter + more, (rest - more) * (0.5 * math.pi)


@compiled(in_order=True, inline=True)
def _sin_or_cos(quarter, rest):
    """The sine of quarter pi / 2 + rest."""
    square = rest * rest
    odd = ((2.718311493989822e-06 * square - 0.00019839334836096632) * square + 0.008333329385889463) * square
    sine = rest + rest * square * (odd - 0.16666666641626524)
    even = ((2.439044879627741e-05 * square - 0.001388676377460993) * square + 0.04166662332373906) * square
    cosine = 1.0 + square * (even - 0.499999997251031)
    half = np.floor(quarter * 0.5)
    value = sine if quarter == 2.0 * half else cosine
    return value if half == 2.0 * np.floor(half * 0.5) else -value


def _sin_float32(x):
    quarter, rest = _quarter_and_rest(x)
    value = _sin_or_cos(quarter, rest)
    return np.float32(-value if int32_of(x) < 0 else value)


@in_float32(_sin_float32)
def sin(x):
    """The sine; float32 within one unit in the last place."""
    return math.sin(x)


def _cos_float32(x):
    quarter, rest = _quarter_and_rest(x)
    return np.float32(_sin_or_cos(quarter + 1.0, rest))


@in_float32(_cos_float32)
def cos(x):
    """The cosine; float32 within one unit in the last place."""
    return math.cos(x)


def _tan_float32(x):
    quarter, rest = _quarter_and_rest(x)
    return np.float32(math.copysign(1.0, x) * _sin_or_cos(quarter, rest) / _sin_or_cos(quarter + 1.0, rest))


@in_float32(_tan_float32)
def tan(x):
    """The tangent; float32 within one unit in the last place."""
    return math.tan(x)


# --- by libm ------------------------------------------------------------------------------------------------------------------


@compiled(in_order=True)
def sinh(x):
    return type(x)(math.sinh(np.float64(x)))


@compiled(in_order=True)
def cosh(x):
    return type(x)(math.cosh(np.float64(x)))


@compiled(in_order=True)
def asinh(x):
    return type(x)(math.asinh(np.float64(x)))


@compiled(in_order=True)
def acosh(x):
    return type(x)(math.acosh(np.float64(x)) if x >= 1 else math.nan)


@compiled(in_order=True)
def atanh(x):
    return type(x)(np.arctanh(np.float64(x)))


@compiled(in_order=True)
def power(x, y):
    """x to the y."""
    return type(x)(np.float64(x) ** np.float64(y))


# --- remainders ---------------------------------------------------------------------------------------------------------------

_INLINED = {"error_model": "numpy", "fastmath": set(IN_ORDER), "forceinline": True, **PIPELINE}


def _of_any(of_floats, of_integers):
    """Makes a function one of floats of both sizes, which are computed in float64, and of whole numbers."""

    def decorated(function):
        def chosen(x, y):
            if isinstance(x, types.Integer):
                return of_integers
            if x == types.float32:
                return lambda x, y: np.float32(of_floats(np.float64(x), np.float64(y)))
            return lambda x, y: of_floats(x, y)

        overload(function, jit_options=_INLINED)(chosen)
        return function

    return decorated


@compiled(in_order=True, inline=True)
def _mod(x, y):
    return _moved(_rest64(x, y), x, y)


@compiled(in_order=True, inline=True)
def _fmod(x, y):
    return np.copysign(_rest64(x, y), x)


@compiled(in_order=True, inline=True)
def _floor_divide(x, y):
    return _quotient(_rest64(x, y), x, y)


# Divisions by 0 give 0, as NumPy's; by -1 they are none, as the smallest number over -1 is beyond the largest.
def _mod_of_integers(x, y):
    return x * 0 if (y == 0) | (y == -1) else x % y


def _fmod_of_integers(x, y):
    if (y == 0) | (y == -1):
        return x * 0
    rest = x % y
    return rest - y if (rest != 0) & ((rest < 0) != (x < 0)) else rest


def _floor_divide_of_integers(x, y):
    return x * 0 if y == 0 else -x if y == -1 else x // y


@_of_any(_mod, _mod_of_integers)
def mod_of_any(x, y):
    """The rest of `x / y` rounded down, exact whatever the quotient."""


@_of_any(_fmod, _fmod_of_integers)
def fmod_of_any(x, y):
    """The rest of `x / y` rounded towards 0, exact whatever the quotient."""


@_of_any(_floor_divide, _floor_divide_of_integers)
def floor_divide_of_any(x, y):
    """`x / y` rounded down, exact whatever the quotient."""
