"""Resampling along one dim of NumPy arrays, and its transpose.

Every output is a weighted sum of at most four inputs: a sparse matrix, whose transpose is as sparse. Half types are summed in
float32.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.index.scatters_cpu import take
from dynograd.kernels.layout.copies_cpu import contiguous

# Keys' cubic with a = -0.75, as PyTorch and OpenCV take it.
_A = -0.75


def resample(x, dim, count, rule, align_corners, scale):
    """x with `count` places along `dim`; `rule` is "nearest", "nearest-exact", "linear" or "cubic", or these two or "lanczos" with "-antialias".

    With "-bytes" behind it the weights are those of bytes.

    `scale` is the number of input places per output place, or None for the ratio of the sizes.
    """
    if rule in ("nearest", "nearest-exact"):
        return take(x, nearest(x.shape[dim], count, rule, scale), dim)
    return _product(x, dim, *matrix(x.shape[dim], count, rule, align_corners, scale))


def resample_backward(g, dim, size, rule, align_corners, scale):
    """The transpose of `resample` from `size` places."""
    return _product(g, dim, *transposed(size, g.shape[dim], rule, align_corners, scale))


def _product(x, dim, starts, places, weights):
    """A sparse matrix (row i holds the entries from starts[i] to starts[i + 1]) applied along `dim`."""
    from dynograd.kernels.image.interpolations_numba import weighted_sums

    kind = x.dtype
    wide = contiguous(x, np.float32 if kind.itemsize == 2 else kind)
    shape = (*x.shape[:dim], len(starts) - 1, *x.shape[dim + 1 :])
    out = buffers.empty(shape, wide.dtype)
    outer, inner = prod(shape[:dim]), prod(shape[dim + 1 :])
    if out.size:
        lines = wide.reshape(outer, x.shape[dim], inner)
        result, rows = out.reshape(outer, shape[dim], inner), outer * shape[dim]
        work = out.size * 4 if inner == 1 else out.size * 2
        weighted_sums(lines, starts, places, weights.astype(wide.dtype), result, count=rows, work=work)
    return out.astype(kind, copy=False)


def nearest(size, count, rule, scale):
    """The place that each output takes, computed in float32 as in PyTorch, so that the same one wins."""
    step = np.float32(size / count if scale is None else scale)
    shift = np.float32(0.5 if rule == "nearest-exact" else 0.0)
    return np.minimum(np.floor((np.arange(count, dtype=np.float32) + shift) * step).astype(np.int64), size - 1)


@lru_cache(maxsize=256)
def matrix(size, count, rule, align_corners, scale):
    """(starts, places, weights) of the sparse matrix from `size` to `count` places."""
    if rule.endswith("-bytes"):
        return _of_bytes(size, *matrix(size, count, rule.removesuffix("-bytes"), align_corners, scale))
    if rule.endswith("antialias"):
        return _filtered(size, count, rule, align_corners, scale)
    if rule in ("nearest", "nearest-exact"):
        places = nearest(size, count, rule, scale)[:, None]
        weights = np.ones(places.shape)
    else:
        places, weights = _neighbours(size, count, rule, align_corners, scale)
    taps = places.shape[1]
    return np.arange(0, taps * count + 1, taps), places.reshape(-1), weights.reshape(-1)


@lru_cache(maxsize=256)
def transposed(size, count, rule, align_corners, scale):
    """The transpose of `matrix`."""
    starts, places, weights = matrix(size, count, rule, align_corners, scale)
    order = np.argsort(places, kind="stable")
    rows = np.repeat(np.arange(count), np.diff(starts))
    ends = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=size))])
    return ends, rows[order], weights[order]


def _of_bytes(size, starts, places, weights):
    """The matrix with its weights rounded to multiples of 2^-bits, of which the largest fits into 16 bits: PyTorch's and Pillow's.

    Places that a row has several times become one first.
    """
    count = len(starts) - 1
    rows = np.repeat(np.arange(count), np.diff(starts))
    cells, inverse = np.unique(rows * size + places, return_inverse=True)
    weights = np.bincount(inverse, weights)
    bits = 0
    while bits < 22 and int(0.5 + weights.max() * 2 ** (bits + 1)) < 2**15:
        bits += 1
    whole = np.trunc(weights * 2**bits + np.where(weights < 0, -0.5, 0.5))
    starts = np.concatenate([[0], np.cumsum(np.bincount(cells // size, minlength=count))])
    return starts, cells % size, whole / 2**bits


def _neighbours(size, count, rule, align_corners, scale):
    """(count, taps) places and weights of linear and cubic interpolation."""
    outputs = np.arange(count)
    if align_corners:
        source = outputs * ((size - 1) / (count - 1) if count > 1 else 0.0)
    else:
        source = (outputs + 0.5) * (size / count if scale is None else scale) - 0.5
    if rule == "linear":
        source = np.maximum(source, 0)
        first = np.minimum(np.floor(source).astype(np.int64), size - 1)
        part = np.minimum(source - first, 1.0)
        return np.stack([first, np.minimum(first + 1, size - 1)], axis=1), np.stack([1 - part, part], axis=1)
    first = np.floor(source).astype(np.int64)
    part = source - first
    places = np.clip(first[:, None] + np.arange(-1, 3), 0, size - 1)
    return places, np.stack([_far(part + 1), _near(part), _near(1 - part), _far(2 - part)], axis=1)


def _filtered(size, count, rule, align_corners, scale):
    """(starts, places, weights) of a filter that widens where the input is shrunk, so that it sees all places between."""
    if align_corners:
        scale = (size - 1) / (count - 1) if count > 1 else 0.0
    elif scale is None:
        scale = size / count
    wide = max(scale, 1.0)
    support = wide * {"linear": 1, "cubic": 2, "lanczos": 3}[rule.removesuffix("-antialias")]
    centers = scale * (np.arange(count) + 0.5)
    first = np.maximum((centers - support + 0.5).astype(np.int64), 0)
    sizes = np.minimum((centers + support + 0.5).astype(np.int64), size) - first
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.repeat(np.arange(count), sizes)
    places = np.arange(starts[-1]) - starts[rows] + first[rows]
    away = np.abs(places - centers[rows] + 0.5) / wide
    if rule == "linear-antialias":
        weights = np.maximum(1 - away, 0)
    elif rule == "lanczos-antialias":
        weights = np.where(away < 3, np.sinc(away) * np.sinc(away / 3), 0)
    else:
        weights = np.where(away < 1, _near(away, -0.5), np.where(away < 2, _far(away, -0.5), 0))
    return starts, places, weights / np.bincount(rows, weights, count)[rows]


def _near(x, a=_A):
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _far(x, a=_A):
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
