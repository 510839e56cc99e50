"""The Numba half of `random_cpu`: one loop over Philox blocks for each kind of number. Imported on the first draw that wants it.

Every loop fills a flat array whose size is a whole number of blocks, and an element depends on its own block alone, so that any
number of threads gives the same bits. They are compiled `exact` on purpose, see `random_formulas`.

Kernels that draw while they do something else (dropout) use `block_of` where their elements are the whole draw in order, and
`words_of` for a row or tile of it.
"""

from __future__ import annotations

import numpy

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.random import random_formulas as formulas
from dynograd.kernels.small.objects_numba import (
    DOUBLE,
    FLOAT,
    MOST,
    bytes_of,
    doubles,
    elements_of,
    entry,
    floats,
    letter_of,
    may_be_written,
    ndim_of,
)

float32, uint32, uint64 = numpy.float32, numpy.uint32, numpy.uint64
_M0, _M1, _W0, _W1 = uint64(0xD2511F53), uint64(0xCD9E8D57), uint64(0x9E3779B9), uint64(0xBB67AE85)
_LOW_WORD, _32, _TWO_32 = uint64(0xFFFFFFFF), uint64(32), float32(2.0)
_0, _1, _2, _3, _4 = (uint64(n) for n in range(5))

_inline = compiled(inline=True, exact=True)
_loop = chunked(exact=True)
_unit32, _unit64 = _inline(formulas.unit32), _inline(formulas.unit64)
_negative_log32, _negative_log64 = _inline(formulas.negative_log32), _inline(formulas.negative_log64)
_direction32, _direction64 = _inline(formulas.direction32), _inline(formulas.direction64)
_high_product = _inline(formulas.high_product)


@_inline
def philox(c0, c1, c2, c3, k0, k1):
    """The four words of one Philox 4x32-10 block; all words are uint64 below 2**32."""
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _LOW_WORD, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW_WORD
        k0, k1 = (k0 + _W0) & _LOW_WORD, (k1 + _W1) & _LOW_WORD
    return c0, c1, c2, c3


@_inline
def block_of(seed, counter):
    """The words of elements 4 k to 4 k + 3 of a draw with (seed, offset), for counter = offset + k; all are uint64."""
    return philox(counter & _LOW_WORD, counter >> _32, _0, _0, seed & _LOW_WORD, seed >> _32)


@compiled(exact=True)
def words_of(seed, offset, first, count, tile):
    """Writes the words of the draw's elements `first` to `first + count` into the flat uint32 `tile` (count + 7 or more elements).

    Returns where they begin: element first + j has the word `tile[begin + j]`, and is dropped where that is below p * 2**32.
    """
    begin = first & 3
    place = offset + uint64(first >> 2)
    for block in range((begin + count + 3) >> 2):
        i = _4 * uint64(block)
        a, b, c, d = block_of(seed, place + uint64(block))
        tile[i], tile[i + _1], tile[i + _2], tile[i + _3] = uint32(a), uint32(b), uint32(c), uint32(d)
    return begin


@_inline
def _wide_block(seed, counter):
    a, b, c, d = block_of(seed, counter)
    return a | (b << _32), c | (d << _32)


@_inline
def _normal_pair32(a, b):
    radius = numpy.sqrt(_TWO_32 * _negative_log32(uint32(a)))
    cosine, sine = _direction32(uint32(b))
    return radius * cosine, radius * sine


@_inline
def _within(unit, span, first, last):
    value = unit * span + first
    return value if value < last else last


@_inline
def _waited(variate, least, rate):
    return (variate if variate > least else least) / rate


@_loop
def fill_bits(seed, offset, out, start, stop):
    for block in range(start, stop):
        i = _4 * uint64(block)
        a, b, c, d = block_of(seed, offset + uint64(block))
        out[i], out[i + _1], out[i + _2], out[i + _3] = uint32(a), uint32(b), uint32(c), uint32(d)


@_loop
def fill_uniform32(seed, offset, span, first, last, out, start, stop):
    """unit * span + first, at most `last`."""
    for block in range(start, stop):
        a, b, c, d = block_of(seed, offset + uint64(block))
        i = _4 * uint64(block)
        out[i], out[i + _1] = _within(_unit32(a), span, first, last), _within(_unit32(b), span, first, last)
        out[i + _2], out[i + _3] = _within(_unit32(c), span, first, last), _within(_unit32(d), span, first, last)


@_loop
def fill_uniform64(seed, offset, span, first, last, out, start, stop):
    for block in range(start, stop):
        a, b = _wide_block(seed, offset + uint64(block))
        i = _2 * uint64(block)
        out[i], out[i + _1] = _within(_unit64(a), span, first, last), _within(_unit64(b), span, first, last)


@_loop
def fill_choice(seed, offset, threshold, below, above, out, start, stop):
    """`below` where the element's word is under the threshold, `above` elsewhere; dtype-blind, the caller passes bit patterns."""
    for block in range(start, stop):
        a, b, c, d = block_of(seed, offset + uint64(block))
        i = _4 * uint64(block)
        out[i] = below if a < threshold else above
        out[i + _1] = below if b < threshold else above
        out[i + _2] = below if c < threshold else above
        out[i + _3] = below if d < threshold else above


@_loop
def fill_choice_rows(seeds, offsets, threshold, below, above, out, start, stop):
    """`fill_choice` for each row of `out`, each with a place of its own in the stream."""
    for row in range(start, stop):
        for block in range(out.shape[1] // 4):
            a, b, c, d = block_of(seeds[row], offsets[row] + uint64(block))
            i = _4 * uint64(block)
            out[row, i] = below if a < threshold else above
            out[row, i + _1] = below if b < threshold else above
            out[row, i + _2] = below if c < threshold else above
            out[row, i + _3] = below if d < threshold else above


@_loop
def fill_normal32(seed, offset, std, mean, out, start, stop):
    for block in range(start, stop):
        a, b, c, d = block_of(seed, offset + uint64(block))
        i = _4 * uint64(block)
        first, second = _normal_pair32(a, b)
        three, four = _normal_pair32(c, d)
        out[i], out[i + _1], out[i + _2], out[i + _3] = (
            first * std + mean,
            second * std + mean,
            three * std + mean,
            four * std + mean,
        )


@_loop
def fill_normal64(seed, offset, std, mean, out, start, stop):
    for block in range(start, stop):
        a, b = _wide_block(seed, offset + uint64(block))
        radius = numpy.sqrt(2.0 * _negative_log64(a))
        cosine, sine = _direction64(b)
        i = _2 * uint64(block)
        out[i], out[i + _1] = radius * cosine * std + mean, radius * sine * std + mean


@_loop
def fill_exponential32(seed, offset, least, rate, out, start, stop):
    for block in range(start, stop):
        a, b, c, d = block_of(seed, offset + uint64(block))
        i = _4 * uint64(block)
        out[i] = _waited(_negative_log32(uint32(a)), least, rate)
        out[i + _1] = _waited(_negative_log32(uint32(b)), least, rate)
        out[i + _2] = _waited(_negative_log32(uint32(c)), least, rate)
        out[i + _3] = _waited(_negative_log32(uint32(d)), least, rate)


@_loop
def fill_exponential64(seed, offset, least, rate, out, start, stop):
    for block in range(start, stop):
        a, b = _wide_block(seed, offset + uint64(block))
        i = _2 * uint64(block)
        out[i], out[i + _1] = _waited(_negative_log64(a), least, rate), _waited(_negative_log64(b), least, rate)


@_loop
def fill_integers(seed, offset, low, width, out, start, stop):
    """low + (word * width >> 64), all modulo 2**64."""
    for block in range(start, stop):
        a, b = _wide_block(seed, offset + uint64(block))
        i = _2 * uint64(block)
        out[i], out[i + _1] = low + _high_product(a, width), low + _high_product(b, width)


# --- few numbers straight into an array: entries of `objects_numba` ------------------------------------------------------------

_uniform32, _uniform64 = fill_uniform32.serial, fill_uniform64.serial
_normal32, _normal64 = fill_normal32.serial, fill_normal64.serial


@entry
def blocks_of(x):
    """Twice how many blocks fill a small array of floats, and 1 more for float64; 0 for other arrays."""
    letter, count = letter_of(x), elements_of(x, 0, ndim_of(x))
    if (letter != FLOAT and letter != DOUBLE) or bytes_of(x) > MOST or not may_be_written(x) or count == 0:
        return 0
    return (count + 3) >> 2 << 1 if letter == FLOAT else (count + 1) >> 1 << 1 | 1


@entry
def draw_uniform32(x, first: float, last: float, seed: uint64, offset: uint64):
    """Fills a float32 `x` with uniform numbers of [first, last)."""
    count, low, high = elements_of(x, 0, ndim_of(x)), float32(first + 0.0), float32(last + 0.0)
    out, whole, span, most = floats(x, count), count >> 2, high - low, high
    if high > low:
        most = numpy.nextafter(high, low)
    _uniform32(seed, offset, span, low, most, out, 0, whole)
    if count & 3:
        a, b, c, _ = block_of(seed, offset + uint64(whole))
        out[4 * whole] = _within(_unit32(a), span, low, most)
        if count & 3 > 1:
            out[4 * whole + 1] = _within(_unit32(b), span, low, most)
        if count & 3 > 2:
            out[4 * whole + 2] = _within(_unit32(c), span, low, most)
    return True


@entry
def draw_uniform64(x, first: float, last: float, seed: uint64, offset: uint64):
    count, low, high = elements_of(x, 0, ndim_of(x)), first + 0.0, last + 0.0
    out, whole, span, most = doubles(x, count), count >> 1, high - low, high
    if high > low:
        most = numpy.nextafter(high, low)
    _uniform64(seed, offset, span, low, most, out, 0, whole)
    if count & 1:
        a, _ = _wide_block(seed, offset + uint64(whole))
        out[count - 1] = _within(_unit64(a), span, low, most)
    return True


@entry
def draw_normal32(x, first: float, last: float, seed: uint64, offset: uint64):
    """Fills a float32 `x` with normal numbers of the deviation `first` and the mean `last`."""
    count, std, mean = elements_of(x, 0, ndim_of(x)), float32(first + 0.0), float32(last + 0.0)
    out, whole = floats(x, count), count >> 2
    _normal32(seed, offset, std, mean, out, 0, whole)
    if count & 3:
        a, b, c, d = block_of(seed, offset + uint64(whole))
        first_of_pair, second_of_pair = _normal_pair32(a, b)
        out[4 * whole] = first_of_pair * std + mean
        if count & 3 > 1:
            out[4 * whole + 1] = second_of_pair * std + mean
        if count & 3 > 2:
            out[4 * whole + 2] = _normal_pair32(c, d)[0] * std + mean
    return True


@entry
def draw_normal64(x, first: float, last: float, seed: uint64, offset: uint64):
    count, std, mean = elements_of(x, 0, ndim_of(x)), first + 0.0, last + 0.0
    out, whole = doubles(x, count), count >> 1
    _normal64(seed, offset, std, mean, out, 0, whole)
    if count & 1:
        a, b = _wide_block(seed, offset + uint64(whole))
        out[count - 1] = numpy.sqrt(2.0 * _negative_log64(a)) * _direction64(b)[0] * std + mean
    return True
