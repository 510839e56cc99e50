"""Numba kernels of dropout on flat float32 arrays: the mask is drawn tile by tile while it is applied, and kept as bytes."""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked
from dynograd.kernels.random.random_numba import words_of

TILE = 4096  # a multiple of the four words of a block of the stream

_ZERO = np.float32(0)


@chunked(noalias=True)
def dropout(seed, offset, threshold, scale, x, y, mask, start, stop):
    """y = x times 0 or `scale`; mask is 1 where the element stays. An item is a tile."""
    words = np.empty(TILE + 8, np.uint32)
    for tile in range(start, stop):
        first = tile * TILE
        size = min(TILE, x.size - first)
        begin = words_of(seed, offset, first, size, words)
        drawn, operands = words[begin : begin + size], x[first : first + size]
        result, kept = y[first : first + size], mask[first : first + size]
        for j in range(size):
            stays = drawn[j] >= threshold
            kept[j] = np.uint8(1) if stays else np.uint8(0)
            result[j] = operands[j] * (scale if stays else _ZERO)


@chunked(noalias=True)
def dropout_add(seed, offset, threshold, scale, x, residual, y, mask, start, stop):
    """y = residual + x times 0 or `scale`."""
    words = np.empty(TILE + 8, np.uint32)
    for tile in range(start, stop):
        first = tile * TILE
        size = min(TILE, x.size - first)
        begin = words_of(seed, offset, first, size, words)
        drawn, operands, summand = words[begin : begin + size], x[first : first + size], residual[first : first + size]
        result, kept = y[first : first + size], mask[first : first + size]
        for j in range(size):
            stays = drawn[j] >= threshold
            kept[j] = np.uint8(1) if stays else np.uint8(0)
            result[j] = summand[j] + operands[j] * (scale if stays else _ZERO)


@chunked(noalias=True)
def dropout_gradient(g, mask, scale, gx, start, stop):
    """gx = g times 0 or `scale`, by tiles."""
    for tile in range(start, stop):
        first = tile * TILE
        last = min(first + TILE, g.size)
        outer, kept, result = g[first:last], mask[first:last], gx[first:last]
        for j in range(outer.size):
            result[j] = outer[j] * (scale if kept[j] != 0 else _ZERO)
