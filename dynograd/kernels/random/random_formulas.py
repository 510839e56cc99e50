"""From random words to numbers: the formulas that the NumPy and the Numba half of `random_cpu` share.

Each function takes NumPy arrays or, compiled by Numba, single words, and then gives exactly equal bits: only operations that IEEE 754
rounds in one way (+ - * / sqrt, conversions) and integer operations are used, in the order written. Never compile these with fastmath or
contracted multiply-adds; a GPU twin has to switch contraction off too. Coefficients are the Taylor series themselves, long enough for
the dtype because the arguments are first reduced: |s| <= 0.172 for log(m) = 2 atanh(s), |x| <= pi/4 for sine and cosine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

int32, int64, uint32, uint64 = numpy.int32, numpy.int64, numpy.uint32, numpy.uint64
float32, float64 = numpy.float32, numpy.float64

_LOW_WORD, _32 = uint64(0xFFFFFFFF), uint64(32)

_HALF_32, _ONE_32, _TWO_32, _LOG_TWO_32 = float32(0.5), float32(1.0), float32(2.0), float32(math.log(2.0))
_UNIT_32, _WORD_TO_UNIT_32, _TURN_32 = float32(2.0**-24), float32(2.0**-32), float32(math.pi * 2.0**-31)
_L3, _L5, _L7, _L9 = (float32(1 / n) for n in (3, 5, 7, 9))
_S3, _S5, _S7, _S9 = (float32((-1) ** (n // 2) / math.factorial(n)) for n in (3, 5, 7, 9))
_C2, _C4, _C6, _C8, _C10 = (float32((-1) ** (n // 2) / math.factorial(n)) for n in (2, 4, 6, 8, 10))
_ROOT_HALF_BITS_32 = float32(math.sqrt(0.5)).view(int32)

_HALF_64, _ONE_64, _TWO_64, _LOG_TWO_64 = float64(0.5), float64(1.0), float64(2.0), float64(math.log(2.0))
_UNIT_64, _TURN_64 = float64(2.0**-53), float64(math.pi * 2.0**-63)
_M3, _M5, _M7, _M9, _M11, _M13, _M15, _M17, _M19, _M21 = (float64(1 / n) for n in range(3, 22, 2))
_D3, _D5, _D7, _D9, _D11, _D13, _D15, _D17 = (float64((-1) ** (n // 2) / math.factorial(n)) for n in range(3, 18, 2))
_E2, _E4, _E6, _E8, _E10, _E12, _E14, _E16 = (float64((-1) ** (n // 2) / math.factorial(n)) for n in range(2, 17, 2))
_ROOT_HALF_BITS_64 = float64(math.sqrt(0.5)).view(int64)


def unit32(word: Any) -> Any:
    """The upper 24 bits of a 32-bit word as a float32 in [0, 1)."""
    return float32(int32(word >> uint32(8))) * _UNIT_32


def unit64(word: Any) -> Any:
    """The upper 53 bits of a 64-bit word as a float64 in [0, 1)."""
    return float64(int64(word >> uint64(11))) * _UNIT_64


def negative_log32(word: Any) -> Any:
    """-log((word + 1/2) / 2**32) in float32, between 0 and 22.9."""
    unit = (float32(word) + _HALF_32) * _WORD_TO_UNIT_32
    bits = float32(unit).view(int32)
    exponent = int32((bits - _ROOT_HALF_BITS_32) >> int32(23))
    m = int32(bits - int32(exponent << int32(23))).view(float32)
    s = (m - _ONE_32) / (m + _ONE_32)
    z = s * s
    series = _ONE_32 + z * (_L3 + z * (_L5 + z * (_L7 + z * _L9)))
    return -(float32(exponent) * _LOG_TWO_32 + _TWO_32 * s * series)


def negative_log64(word: Any) -> Any:
    """-log((w + 1/2) / 2**53) in float64, w the upper 53 bits of the word; between 0 and 37.5."""
    unit = (float64(int64(word >> uint64(11))) + _HALF_64) * _UNIT_64
    bits = float64(unit).view(int64)
    exponent = int64((bits - _ROOT_HALF_BITS_64) >> int64(52))
    m = int64(bits - int64(exponent << int64(52))).view(float64)
    s = (m - _ONE_64) / (m + _ONE_64)
    z = s * s
    series = _M13 + z * (_M15 + z * (_M17 + z * (_M19 + z * _M21)))
    series = _ONE_64 + z * (_M3 + z * (_M5 + z * (_M7 + z * (_M9 + z * (_M11 + z * series)))))
    return -(float64(exponent) * _LOG_TWO_64 + _TWO_64 * s * series)


def direction32(word: Any) -> Any:
    """(cosine, sine) of 2 pi word / 2**32 in float32; the quadrant is cut off in integers, which loses no digits."""
    quadrant = uint32(word + uint32(1 << 29)) >> uint32(30)
    x = float32(int32(word - uint32(quadrant << uint32(30)))) * _TURN_32
    z = x * x
    sine = x * (_ONE_32 + z * (_S3 + z * (_S5 + z * (_S7 + z * _S9))))
    cosine = _ONE_32 + z * (_C2 + z * (_C4 + z * (_C6 + z * (_C8 + z * _C10))))
    sine_bits, cosine_bits = float32(sine).view(int32), float32(cosine).view(int32)
    turns = int32(quadrant)
    exchange = (sine_bits ^ cosine_bits) & -(turns & int32(1))
    sine_bits = int32(sine_bits ^ exchange) ^ int32((turns >> int32(1)) << int32(31))
    cosine_bits = int32(cosine_bits ^ exchange) ^ int32(((turns + int32(1)) >> int32(1)) << int32(31))
    return int32(cosine_bits).view(float32), int32(sine_bits).view(float32)


def direction64(word: Any) -> Any:
    """(cosine, sine) of 2 pi word / 2**64 in float64."""
    quadrant = uint64(word + uint64(1 << 61)) >> uint64(62)
    x = float64(int64(word - uint64(quadrant << uint64(62)))) * _TURN_64
    z = x * x
    sine = _D9 + z * (_D11 + z * (_D13 + z * (_D15 + z * _D17)))
    sine = x * (_ONE_64 + z * (_D3 + z * (_D5 + z * (_D7 + z * sine))))
    cosine = _E8 + z * (_E10 + z * (_E12 + z * (_E14 + z * _E16)))
    cosine = _ONE_64 + z * (_E2 + z * (_E4 + z * (_E6 + z * cosine)))
    sine_bits, cosine_bits = float64(sine).view(int64), float64(cosine).view(int64)
    turns = int64(quadrant)
    exchange = (sine_bits ^ cosine_bits) & -(turns & int64(1))
    sine_bits = int64(sine_bits ^ exchange) ^ int64((turns >> int64(1)) << int64(63))
    cosine_bits = int64(cosine_bits ^ exchange) ^ int64(((turns + int64(1)) >> int64(1)) << int64(63))
    return int64(cosine_bits).view(float64), int64(sine_bits).view(float64)


def high_product(word: Any, width: Any) -> Any:
    """The upper 64 bits of the 128-bit product of two 64-bit words: an integer in [0, width) from a random word."""
    word_high, word_low = word >> _32, word & _LOW_WORD
    width_high, width_low = width >> _32, width & _LOW_WORD
    middle = word_high * width_low + ((word_low * width_low) >> _32)
    other = word_low * width_high + (middle & _LOW_WORD)
    return word_high * width_high + (middle >> _32) + (other >> _32)
