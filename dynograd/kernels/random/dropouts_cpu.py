"""Dropout of elements in one pass, alone or with a residual added, on float32 NumPy arrays. The mask is the one of `random_cpu`."""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build.compiled_kernels import compiled
from dynograd.kernels.build.sizes import COMPILED_ROWS
from dynograd.kernels.random.random_cpu import threshold_of
from dynograd.kernels.small.few_cpu import often_called

_TILE = 4096  # as dropouts_numba.TILE, which is not there before Numba
_WORK = 6
_LARGEST = 0xFFFFFFFF


def in_one_pass(x):
    """Whether the kernels here take this array."""
    if x.dtype.char != "f" or not x.size or not x.flags.c_contiguous:
        return False
    return x.size >= COMPILED_ROWS or often_called() is not None  # NumPy's ops give the same bits


def dropout_forward(seed, offset, x, p):
    """(y, mask): x times 0 with probability p and 1 / (1 - p) otherwise; mask (uint8) says which stay."""
    y, mask = buffers.empty(x.shape, np.float32), buffers.empty(x.shape, np.uint8)
    kernel = compiled["dropouts.dropout"]
    flat = x.reshape(-1), y.reshape(-1), mask.reshape(-1)
    kernel(place_of(seed, offset), *chance(p), *flat, *tiles(x.size), **parts_of(x.size))
    return y, mask


def dropout_add_forward(seed, offset, x, residual, p):
    """(y, mask) with y = residual + dropout(x)."""
    y, mask = buffers.empty(x.shape, np.float32), buffers.empty(x.shape, np.uint8)
    kernel = compiled["dropouts.dropout_add"]
    flat = x.reshape(-1), residual.reshape(-1), y.reshape(-1), mask.reshape(-1)
    kernel(place_of(seed, offset), *chance(p), *flat, *tiles(x.size), **parts_of(x.size))
    return y, mask


def dropout_backward(g, mask, p):
    """Gradient of the input."""
    g = np.asarray(g, np.float32, order="C")
    gx = buffers.empty(g.shape, np.float32)
    kernel = compiled["dropouts.dropout_gradient"]
    flat = g.reshape(-1), mask.reshape(-1), chance(p)[1], gx.reshape(-1)
    kernel(*flat, *tiles(g.size), **parts_of(g.size, 1))
    return gx


def place_of(seed, offset):
    """Where a draw begins, as the kernels take it."""
    return np.array((seed, offset), np.uint64)


def chance(p):
    """(the least word of an element that stays, what it is multiplied with) for the probability p of 0."""
    # For p = 1 the scale is 0, so that it does not matter that the largest word stays.
    threshold = np.uint32(min(int(threshold_of(p)), _LARGEST))
    return threshold, np.float32(1 / (1 - p) if p < 1 else 0)


def tiles(size):
    """The last arguments of the kernels for so many elements."""
    return _TILE, 1, size


def parts_of(size, work=_WORK):
    """How many tiles they are, and how much work; `work` is that of an element."""
    return {"count": -(-size // _TILE), "work": work * size}
