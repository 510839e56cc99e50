"""Dropout of elements in one pass, alone or with a residual added, on float32 NumPy arrays. The mask is the one of `random_cpu`."""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build.compiled_kernels import compiled_for
from dynograd.kernels.random.random_cpu import threshold_of

_TILE = 4096  # as dropouts_numba.TILE, which is not there before Numba
_WORK = 6
_LARGEST = 0xFFFFFFFF


def in_one_pass(x):
    """Whether the kernels here take this array."""
    return x.dtype.char == "f" and x.size > 0 and x.flags.c_contiguous and compiled_for(x.size) is not None


def dropout_forward(seed, offset, x, p):
    """(y, mask): x times 0 with probability p and 1 / (1 - p) otherwise; mask (uint8) says which stay."""
    y, mask = buffers.empty(x.shape, np.float32), buffers.empty(x.shape, np.uint8)
    kernel = compiled_for(1 << 30)["dropouts.dropout"]
    kernel(*_draw(seed, offset, p), x.reshape(-1), y.reshape(-1), mask.reshape(-1), **_parts(x))
    return y, mask


def dropout_add_forward(seed, offset, x, residual, p):
    """(y, mask) with y = residual + dropout(x)."""
    y, mask = buffers.empty(x.shape, np.float32), buffers.empty(x.shape, np.uint8)
    kernel = compiled_for(1 << 30)["dropouts.dropout_add"]
    flat = x.reshape(-1), residual.reshape(-1), y.reshape(-1), mask.reshape(-1)
    kernel(*_draw(seed, offset, p), *flat, **_parts(x))
    return y, mask


def dropout_backward(g, mask, p):
    """Gradient of the input."""
    g = np.ascontiguousarray(g, np.float32)
    gx = buffers.empty(g.shape, np.float32)
    kernel = compiled_for(1 << 30)["dropouts.dropout_gradient"]
    kernel(g.reshape(-1), mask.reshape(-1), _scale(p), gx.reshape(-1), count=-(-g.size // _TILE), work=g.size)
    return gx


def _draw(seed, offset, p):
    # For p = 1 the scale is 0, so that it does not matter that the largest word stays.
    return np.uint64(seed), np.uint64(offset), np.uint32(min(int(threshold_of(p)), _LARGEST)), _scale(p)


def _scale(p):
    return np.float32(1 / (1 - p) if p < 1 else 0)


def _parts(x):
    return {"count": -(-x.size // _TILE), "work": _WORK * x.size}
