"""Numba kernels of dropout on flat float32 arrays: the mask is drawn tile by tile while it is applied, and kept as bytes.

`place` (2 elements of uint64) is where the draw begins in its stream: seed and offset. An item is a tile, of `columns` elements of `total`
(`inner` is 1): the last arguments of the loops of `generator_numba`, so that a plan knows how many items other sizes have.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked
from dynograd.kernels.random.random_numba import words_of

TILE = 4096  # a multiple of the four words of a block of the stream

_ZERO = np.float32(0)


@chunked(noalias=True)
def dropout(place, threshold, scale, x, y, mask, columns, inner, total, start, stop):
    """y = x times 0 or `scale`; mask is 1 where the element stays."""
    words = np.empty(columns + 8, np.uint32)
    for tile in range(start, stop):
        first = tile * columns
        size = min(columns, total - first)
        begin = words_of(place[0], place[1], first, size, words)
        drawn, operands = words[begin : begin + size], x[first : first + size]
        result, kept = y[first : first + size], mask[first : first + size]
        for j in range(size):
            stays = drawn[j] >= threshold
            kept[j] = np.uint8(1) if stays else np.uint8(0)
            result[j] = operands[j] * (scale if stays else _ZERO)


@chunked(noalias=True)
def dropout_add(place, threshold, scale, x, residual, y, mask, columns, inner, total, start, stop):
    """y = residual + x times 0 or `scale`."""
    words = np.empty(columns + 8, np.uint32)
    for tile in range(start, stop):
        first = tile * columns
        size = min(columns, total - first)
        begin = words_of(place[0], place[1], first, size, words)
        drawn, operands, summand = words[begin : begin + size], x[first : first + size], residual[first : first + size]
        result, kept = y[first : first + size], mask[first : first + size]
        for j in range(size):
            stays = drawn[j] >= threshold
            kept[j] = np.uint8(1) if stays else np.uint8(0)
            result[j] = summand[j] + operands[j] * (scale if stays else _ZERO)


@chunked(noalias=True)
def dropout_factors(place, threshold, scale, mask, columns, inner, total, start, stop):
    """mask = 0 or `scale`."""
    words = np.empty(columns + 8, np.uint32)
    for tile in range(start, stop):
        first = tile * columns
        size = min(columns, total - first)
        begin = words_of(place[0], place[1], first, size, words)
        drawn, factors = words[begin : begin + size], mask[first : first + size]
        for j in range(size):
            factors[j] = scale if drawn[j] >= threshold else _ZERO


@chunked(noalias=True)
def dropout_gradient(g, mask, scale, gx, columns, inner, total, start, stop):
    """gx = g times 0 or `scale`."""
    for tile in range(start, stop):
        first = tile * columns
        last = min(first + columns, total)
        outer, kept, result = g[first:last], mask[first:last], gx[first:last]
        for j in range(outer.size):
            result[j] = outer[j] * (scale if kept[j] != 0 else _ZERO)
