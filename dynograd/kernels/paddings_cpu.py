"""Borders around the last dims of NumPy arrays, and the sums that undo them.

`sides` has a (before, after) pair for each dim of the array, from the first. Half types are summed in float32.
"""

from __future__ import annotations

import numpy as np

__all__ = ["pad_constant", "pad_mirrored", "pad_mirrored_backward"]


def pad_constant(x, sides, value):
    """x with `value` around it; negative sides cut off instead."""
    x = x[
        tuple(
            slice(max(0, -before), size - max(0, -after)) for size, (before, after) in zip(x.shape, sides, strict=True)
        )
    ]
    shape = [size + max(0, before) + max(0, after) for size, (before, after) in zip(x.shape, sides, strict=True)]
    result = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
    result[
        tuple(slice(max(0, before), max(0, before) + size) for size, (before, _) in zip(x.shape, sides, strict=True))
    ] = x
    return result


def pad_mirrored(x, sides, mode):
    """x with borders that repeat it: "reflect" (without the edge), "replicate" (the edge) or "circular"."""
    for dim, (before, after) in enumerate(sides):
        if before or after:
            x = x.take(_places(x.shape[dim], before, after, mode), axis=dim)
    return x


def pad_mirrored_backward(g, sides, mode):
    """The transpose of `pad_mirrored`: what the borders got is added where they were read from."""
    kind = g.dtype
    g = g.astype(np.float32) if kind.itemsize == 2 else g
    for dim, (before, after) in enumerate(sides):
        if before or after:
            g = _folded(np.moveaxis(g, dim, 0), before, after, mode)
            g = np.moveaxis(g, 0, dim)
    return np.ascontiguousarray(g).astype(kind, copy=False)


def _places(size, before, after, mode):
    places = np.arange(-before, size + after)
    if mode == "reflect":
        places = np.abs(places)
        return np.where(places >= size, 2 * (size - 1) - places, places)
    if mode == "replicate":
        return np.clip(places, 0, size - 1)
    return places % size


def _folded(g, before, after, mode):
    """The inner part of `g` along dim 0 with its borders added in."""
    size = len(g) - before - after
    inner = g[before : before + size].copy()
    first, last = g[:before], g[before + size :]
    if mode == "reflect":
        inner[1 : before + 1] += first[::-1]
        inner[size - 1 - after : size - 1] += last[::-1]
    elif mode == "replicate":
        inner[0] += first.sum(axis=0)
        inner[-1] += last.sum(axis=0)
    else:
        inner[size - before :] += first
        inner[:after] += last
    return inner
