"""The Numba half of `random_cpu`: one loop over Philox blocks for each kind of number. Imported on the first draw that wants it.

Every loop fills a flat array whose size is a whole number of blocks. `error_model="numpy"` makes the divisions vectorise (7x for normals);
there is no fastmath on purpose, see `random_formulas`. Nothing is parallel: a draw may happen in a forked worker.
"""

from __future__ import annotations

import numpy
from numba import njit

from dynograd.kernels import random_formulas as formulas

float32, uint32, uint64 = numpy.float32, numpy.uint32, numpy.uint64
_M0, _M1, _W0, _W1 = uint64(0xD2511F53), uint64(0xCD9E8D57), uint64(0x9E3779B9), uint64(0xBB67AE85)
_LOW_WORD, _32, _TWO_32 = uint64(0xFFFFFFFF), uint64(32), float32(2.0)
_0, _1, _2, _3, _4 = (uint64(n) for n in range(5))

_inline = njit(inline="always", error_model="numpy")
_loop = njit(cache=True, error_model="numpy", nogil=True)
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
def _block(seed, counter):
    return philox(counter & _LOW_WORD, counter >> _32, _0, _0, seed & _LOW_WORD, seed >> _32)


@_inline
def _wide_block(seed, counter):
    a, b, c, d = _block(seed, counter)
    return a | (b << _32), c | (d << _32)


@_inline
def _normal_pair32(a, b):
    radius = numpy.sqrt(_TWO_32 * _negative_log32(uint32(a)))
    cosine, sine = _direction32(uint32(b))
    return radius * cosine, radius * sine


@_loop
def fill_bits(seed, offset, out):
    for block in range(out.size // 4):
        i = _4 * uint64(block)
        out[i], out[i + _1], out[i + _2], out[i + _3] = _block(seed, offset + uint64(block))


@_loop
def fill_unit32(seed, offset, out):
    for block in range(out.size // 4):
        a, b, c, d = _block(seed, offset + uint64(block))
        i = _4 * uint64(block)
        out[i], out[i + _1] = _unit32(a), _unit32(b)
        out[i + _2], out[i + _3] = _unit32(c), _unit32(d)


@_loop
def fill_unit64(seed, offset, out):
    for block in range(out.size // 2):
        a, b = _wide_block(seed, offset + uint64(block))
        i = _2 * uint64(block)
        out[i], out[i + _1] = _unit64(a), _unit64(b)


@_loop
def fill_choice(seed, offset, threshold, below, above, out):
    """`below` where the element's word is under the threshold, `above` elsewhere; dtype-blind, the caller passes bit patterns."""
    for block in range(out.size // 4):
        a, b, c, d = _block(seed, offset + uint64(block))
        i = _4 * uint64(block)
        out[i] = below if a < threshold else above
        out[i + _1] = below if b < threshold else above
        out[i + _2] = below if c < threshold else above
        out[i + _3] = below if d < threshold else above


@_loop
def fill_normal32(seed, offset, out):
    for block in range(out.size // 4):
        a, b, c, d = _block(seed, offset + uint64(block))
        i = _4 * uint64(block)
        out[i], out[i + _1] = _normal_pair32(a, b)
        out[i + _2], out[i + _3] = _normal_pair32(c, d)


@_loop
def fill_normal64(seed, offset, out):
    for block in range(out.size // 2):
        a, b = _wide_block(seed, offset + uint64(block))
        radius = numpy.sqrt(2.0 * _negative_log64(a))
        cosine, sine = _direction64(b)
        i = _2 * uint64(block)
        out[i], out[i + _1] = radius * cosine, radius * sine


@_loop
def fill_exponential32(seed, offset, out):
    for block in range(out.size // 4):
        a, b, c, d = _block(seed, offset + uint64(block))
        i = _4 * uint64(block)
        out[i], out[i + _1] = _negative_log32(uint32(a)), _negative_log32(uint32(b))
        out[i + _2], out[i + _3] = _negative_log32(uint32(c)), _negative_log32(uint32(d))


@_loop
def fill_exponential64(seed, offset, out):
    for block in range(out.size // 2):
        a, b = _wide_block(seed, offset + uint64(block))
        i = _2 * uint64(block)
        out[i], out[i + _1] = _negative_log64(a), _negative_log64(b)


@_loop
def fill_integers(seed, offset, low, width, out):
    """low + (word * width >> 64), all modulo 2**64."""
    for block in range(out.size // 2):
        a, b = _wide_block(seed, offset + uint64(block))
        i = _2 * uint64(block)
        out[i], out[i + _1] = low + _high_product(a, width), low + _high_product(b, width)
