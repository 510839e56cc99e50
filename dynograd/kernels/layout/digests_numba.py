"""Numba kernel of `digests_cpu`: a number for each block of words."""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked

BLOCK = 1 << 12  # words: few enough that threads share the work evenly
_STEP, _FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


@chunked
def sum_blocks(words, out, start, stop):
    """out[b] = the sum of all words of block b, each mixed with its place; items are blocks."""
    for block in range(start, stop):
        first, last = block * BLOCK, min((block + 1) * BLOCK, words.size)
        place, total = np.uint64(first + 1) * _STEP, np.uint64(0)
        for i in range(first, last):
            mixed = np.uint64(words[np.uint64(i)]) + place + np.uint64(i - first) * _STEP
            mixed = (mixed ^ (mixed >> np.uint64(32))) * _FACTOR
            total += mixed ^ (mixed >> np.uint64(32))
        out[np.uint64(block)] = total
