"""Resampling along one dim of NumPy arrays, and its transpose.

Every output is a weighted sum of at most four inputs; `taps` says which, and how much of each. Half types are summed in float32.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

__all__ = ["resample", "resample_backward"]

# Keys' cubic with a = -0.75, as PyTorch and OpenCV take it.
_A = -0.75


def resample(x, dim, count, rule, align_corners, scale):
    """x with `count` places along `dim`; `rule` is "nearest", "nearest-exact", "linear" or "cubic".

    `scale` is the number of input places per output place, or None for the ratio of the sizes.
    """
    places, weights = taps(x.shape[dim], count, rule, align_corners, scale)
    if weights is None:
        return x.take(places, axis=dim)
    wide = _wide(x)
    total = 0
    for tap in range(places.shape[1]):
        total = total + wide.take(places[:, tap], axis=dim) * _along(weights[:, tap], dim, x.ndim, wide.dtype)
    return total.astype(x.dtype, copy=False)


def resample_backward(g, dim, size, rule, align_corners, scale):
    """The transpose of `resample` from `size` places."""
    places, weights = taps(size, g.shape[dim], rule, align_corners, scale)
    wide = _wide(g)
    moved = np.moveaxis(wide, dim, 0)
    result = np.zeros((size, *moved.shape[1:]), wide.dtype)
    if weights is None:
        places, weights = places[:, None], np.ones((len(places), 1))
    for tap in range(places.shape[1]):
        _add_runs(result, places[:, tap], moved * _along(weights[:, tap], 0, moved.ndim, wide.dtype))
    return np.ascontiguousarray(np.moveaxis(result, 0, dim)).astype(g.dtype, copy=False)


@lru_cache(maxsize=256)
def taps(size, count, rule, align_corners, scale):
    """(count, taps) int64 places and float64 weights; for the nearest rules (count,) places and None. Places never fall."""
    step = size / count if scale is None else scale
    outputs = np.arange(count)
    if rule in ("nearest", "nearest-exact"):
        # float32 as in PyTorch, so that the same place wins
        shift = np.float32(0.5 if rule == "nearest-exact" else 0.0)
        places = np.floor((outputs.astype(np.float32) + shift) * np.float32(step)).astype(np.int64)
        return np.minimum(places, size - 1), None
    if align_corners:
        step = (size - 1) / (count - 1) if count > 1 else 0.0
        source = outputs * step
    else:
        source = (outputs + 0.5) * step - 0.5
    if rule == "linear":
        source = np.maximum(source, 0)
        first = np.minimum(np.floor(source).astype(np.int64), size - 1)
        part = np.minimum(source - first, 1.0)
        return np.stack([first, np.minimum(first + 1, size - 1)], axis=1), np.stack([1 - part, part], axis=1)
    first = np.floor(source).astype(np.int64)
    part = source - first
    places = np.clip(first[:, None] + np.arange(-1, 3), 0, size - 1)
    return places, np.stack([_far(part + 1), _near(part), _near(1 - part), _far(2 - part)], axis=1)


def _near(x):
    return ((_A + 2) * x - (_A + 3)) * x * x + 1


def _far(x):
    return ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A


def _along(weights, dim, ndim, dtype):
    return weights.astype(dtype).reshape([-1 if place == dim else 1 for place in range(ndim)])


def _add_runs(result, places, values):
    """result[places] += values along dim 0, for places that never fall."""
    if not len(places):
        return
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    result[places[starts]] += np.add.reduceat(values, starts, axis=0) if len(starts) < len(places) else values


def _wide(x):
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x
