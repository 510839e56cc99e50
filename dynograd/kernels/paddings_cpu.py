"""Borders around the last dims of NumPy arrays, and the sums that undo them.

`sides` has a (before, after) pair for each dim of the array, from the first. Half types are summed in float32.
"""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.copies_cpu import SMALLEST, contiguous, copied, copy_into, fill
from dynograd.kernels.scatters_cpu import take

__all__ = ["pad_constant", "pad_mirrored", "pad_mirrored_backward"]


def pad_constant(x, sides, value):
    """x with `value` around it; negative sides cut off instead."""
    x = x[
        tuple(
            slice(max(0, -before), size - max(0, -after)) for size, (before, after) in zip(x.shape, sides, strict=True)
        )
    ]
    shape = [size + max(0, before) + max(0, after) for size, (before, after) in zip(x.shape, sides, strict=True)]
    inside = tuple(
        [slice(max(0, before), max(0, before) + size) for size, (before, _) in zip(x.shape, sides, strict=True)]
    )
    result = buffers.empty(shape, x.dtype)
    if result.nbytes < SMALLEST or result.itemsize > 8:
        result.fill(value)
        result[inside] = x
    else:
        fill(result, value)
        copy_into(result[inside], x)
    return result


def pad_mirrored(x, sides, mode):
    """x with borders that repeat it: "reflect" (without the edge), "replicate" (the edge) or "circular"."""
    for dim, (before, after) in enumerate(sides):
        if before or after:
            x = take(x, _places(x.shape[dim], before, after, mode), dim)
    return x


def pad_mirrored_backward(g, sides, mode):
    """The transpose of `pad_mirrored`: what the borders got is added where they were read from."""
    kind = g.dtype
    g = g.astype(np.float32) if kind.itemsize == 2 else g
    for dim, (before, after) in enumerate(sides):
        if before or after:
            g = _folded(g, dim, before, after, mode)
    return contiguous(g).astype(kind, copy=False)


def _places(size, before, after, mode):
    places = np.arange(-before, size + after)
    if mode == "reflect":
        places = np.abs(places)
        return np.where(places >= size, 2 * (size - 1) - places, places)
    if mode == "replicate":
        return np.clip(places, 0, size - 1)
    return places % size


def _folded(g, dim, before, after, mode):
    """The inner part of `g` along `dim` with its borders added in."""
    lead, size = (slice(None),) * dim, g.shape[dim] - before - after

    def part(array, start, stop, step=None):
        return array[(*lead, slice(start, stop, step))]

    inner = copied(part(g, before, before + size))
    first, last = part(g, None, before), part(g, before + size, None)
    if mode == "reflect":
        into = part(inner, 1, before + 1)
        into += part(first, None, None, -1)
        into = part(inner, size - 1 - after, size - 1)
        into += part(last, None, None, -1)
    elif mode == "replicate":
        into = part(inner, 0, 1)
        into += first.sum(axis=dim, keepdims=True)
        into = part(inner, size - 1, size)
        into += last.sum(axis=dim, keepdims=True)
    else:
        into = part(inner, size - before, size)
        into += first
        into = part(inner, 0, after)
        into += last
    return inner
