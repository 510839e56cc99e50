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
    kernel(*_draw(seed, offset, p), x.reshape(-1), y.reshape(-1), mask.reshape(-1), **_parts(x))
    return y, mask


def dropout_add_forward(seed, offset, x, residual, p):
    """(y, mask) with y = residual + dropout(x)."""
    y, mask = buffers.empty(x.shape, np.float32), buffers.empty(x.shape, np.uint8)
    kernel = compiled["dropouts.dropout_add"]
    flat = x.reshape(-1), residual.reshape(-1), y.reshape(-1), mask.reshape(-1)
    kernel(*_draw(seed, offset, p), *flat, **_parts(x))
    return y, mask


def dropout_backward(g, mask, p):
    """Gradient of the input."""
    g = np.ascontiguousarray(g, np.float32)
    gx = buffers.empty(g.shape, np.float32)
    kernel = compiled["dropouts.dropout_gradient"]
    kernel(g.reshape(-1), mask.reshape(-1), _scale(p), gx.reshape(-1), count=-(-g.size // _TILE), work=g.size)
    return gx


def _draw(seed, offset, p):
    # For p = 1 the scale is 0, so that it does not matter that the largest word stays.
    return np.uint64(seed), np.uint64(offset), np.uint32(min(int(threshold_of(p)), _LARGEST)), _scale(p)


def _scale(p):
    return np.float32(1 / (1 - p) if p < 1 else 0)


def _parts(x):
    return {"count": -(-x.size // _TILE), "work": _WORK * x.size}
