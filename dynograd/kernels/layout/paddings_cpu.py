"""Borders around the last dims of NumPy arrays, and the sums that undo them.

`sides` has a (before, after) pair for each dim of the array, from the first. Half types are summed in float32.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build.sizes import COPIED_BYTES
from dynograd.kernels.layout.copies_cpu import contiguous, copied, copy_into, fill


def pad_constant(x, sides, value):
    """x with `value` around it; negative sides cut off instead."""
    cut, shape, inside = frame(x.shape, sides)
    if cut is not None:
        x = x[cut]
    if inside is None:
        return copied(x)
    result = buffers.empty(shape, x.dtype)
    if result.nbytes < COPIED_BYTES or result.itemsize > 8:
        result.fill(value)
        result[inside] = x
    else:
        fill(result, value)
        copy_into(result[inside], x)
    return result


def pad_mirrored(x, sides, mode):
    """x with borders that repeat it: "reflect" (without the edge), "replicate" (the edge) or "circular"."""
    _, shape, inside = frame(x.shape, sides)
    if inside is None:
        return copied(x)
    result = buffers.empty(shape, x.dtype)
    copy_into(result[inside], x)
    for border, source in borders(x.shape, sides, mode):
        result[border] = result[source]
    return result


@lru_cache(maxsize=256)
def frame(shape, sides):
    """(what negative sides leave or None, shape of the result, where the input stands in it, None if it fills all of it)."""
    cut = tuple(
        [slice(max(0, -before), size - max(0, -after)) for size, (before, after) in zip(shape, sides, strict=True)]
    )
    left = [part.stop - part.start for part in cut]
    wider = [(max(0, before), max(0, after)) for before, after in sides]
    inside = tuple([slice(before, before + size) for size, (before, _) in zip(left, wider, strict=True)])
    grown = tuple([size + before + after for size, (before, after) in zip(left, wider, strict=True)])
    return cut if left != list(shape) else None, grown, inside if grown != tuple(left) else None


@lru_cache(maxsize=256)
def borders(shape, sides, mode):
    """Pairs of indices into the padded array: a border, and what it repeats. The last dim first, then whole lines of it."""
    dims = [slice(before, before + size) for size, (before, _) in zip(shape, sides, strict=True)]
    pairs = []
    for dim in range(len(shape) - 1, -1, -1):
        size, (before, after) = shape[dim], sides[dim]
        end = before + size
        lead, tail = tuple(dims[:dim]), tuple(dims[dim + 1 :])
        for border, source in zip(
            (slice(0, before), slice(end, end + after)), _sources(before, end, after, mode), strict=True
        ):
            if border.stop > border.start:
                pairs.append(((*lead, border, *tail), (*lead, source, *tail)))
        dims[dim] = slice(0, end + after)
    return pairs


def _sources(before, end, after, mode):
    """What the borders in front and behind repeat of a dim that stands from `before` to `end`."""
    if mode == "reflect":
        last = end - 2 - after
        return slice(2 * before, before, -1), slice(end - 2, last if last >= 0 else None, -1)
    if mode == "replicate":
        return slice(before, before + 1), slice(end - 1, end)
    return slice(end - before, end), slice(before, before + after)


def pad_mirrored_backward(g, sides, mode):
    """The transpose of `pad_mirrored`: what the borders got is added where they were read from."""
    kind = g.dtype
    g = g.astype(np.float32) if kind.itemsize == 2 else g
    for dim, (before, after) in enumerate(sides):
        if before or after:
            g = _folded(g, dim, before, after, mode)
    return contiguous(g).astype(kind, copy=False)


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
