"""Bags of embedding indices and the factors of embedding gradients, on NumPy arrays."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.layout.copies_cpu import contiguous

_INT64 = np.dtype(np.int64)


def inverse_frequencies(indices, rows, dtype):
    """(*indices, 1): 1 / how often each index occurs."""
    counts = np.bincount(indices.reshape(-1), minlength=rows)
    return (1 / counts[indices])[..., None].astype(dtype)


def unlike(indices, value, dtype):
    """(*indices, 1): 0 where an index is `value`, else 1."""
    return (indices != value)[..., None].astype(dtype)


def kept_places(indices, value):
    return np.flatnonzero(indices != value)


def equal_bags(bags, size, like=None):
    """The bag of each index of a (bags, size) table, row by row; on the device of `like`."""
    return np.repeat(np.arange(bags), size)


def bag_numbers(offsets, total, include_last):
    """The bag of each of `total` indices; bag b begins at offsets[b]."""
    ends = np.append(offsets[1:], total) if not include_last else offsets[1:]
    starts = offsets if not include_last else offsets[:-1]
    return np.repeat(np.arange(len(starts)), ends - starts)


def offsets_problem(offsets, total, include_last):
    """What is wrong with the offsets of bags over `total` indices, in words, or None."""
    if not len(offsets):
        return "include_last_offset=True needs at least one offset, got none." if include_last else None
    if offsets[0] != 0:
        return f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {offsets[0]}."
    falling = np.flatnonzero(np.diff(offsets) < 0)
    if len(falling):
        place = int(falling[0]) + 1
        return f"expected offsets that never fall, got {offsets[place]} after {offsets[place - 1]} at position {place}."
    if offsets[-1] > total:
        return f"offsets[-1] can not be greater than input's length ({total}), but got offsets[-1] of {offsets[-1]}."
    if include_last and offsets[-1] != total:
        return f"with include_last_offset=True the last offset has to be input's length ({total}), got {offsets[-1]}."
    return None


def inverse_counts(bags, count, dtype):
    """(count, 1): 1 / how many indices each bag holds; 0 for an empty one."""
    sizes = np.bincount(bags, minlength=count)
    return (1 / np.maximum(sizes, 1) * (sizes > 0))[:, None].astype(dtype)


def bags_at_once(weight, index, offsets, include_last, padding_idx, is_mean):
    """(count, D): sums or means of the rows that bags name, in one pass; None where the rows are copied first, or something is wrong.

    Each bag is a row of `index`, or begins in it at one of the `offsets`.
    """
    rows = weight.shape[0]
    if weight.dtype.char not in "fd" or index.dtype.num != _INT64.num or not index.size:
        return None
    if padding_idx is not None and not -rows <= padding_idx < rows:
        return None
    if offsets is None:
        count, size = index.shape
        starts = np.arange(0, index.size + 1, size)
    elif offsets.dtype.num != _INT64.num or offsets_problem(offsets, index.size, include_last):
        return None
    else:
        starts = contiguous(offsets) if include_last else np.append(offsets, index.size)
        count = len(starts) - 1
    index = contiguous(index).reshape(-1)
    if index.view(np.uint64).max() >= rows:  # a negative number is huge without its sign
        return None
    from dynograd.kernels.index.bags_numba import sums_of_bags

    out = buffers.empty((count, weight.shape[1]), weight.dtype)
    padding = -1 if padding_idx is None else padding_idx % rows
    work = index.size * weight.shape[1]
    sums_of_bags(contiguous(weight), index, starts, padding, is_mean, out, count=count, work=work)
    return out


def largest_of_bags(rows, bags, count):
    """(places, columns, found): where in `rows` the first largest entry of each bag's column stands, as an index pair of (count, D).

    found (count, 1) is 1, or 0 for an empty bag, whose places are 0. `bags` never falls.
    """
    wide = rows.astype(np.float32) if rows.dtype.itemsize == 2 else rows
    places = np.zeros((count, rows.shape[1]), np.int64)
    edges = np.searchsorted(bags, np.arange(count + 1))
    for bag, (start, stop) in enumerate(pairwise(edges)):
        if stop > start:
            places[bag] = start + wide[start:stop].argmax(axis=0)
    filled = (np.diff(edges) > 0)[:, None].astype(rows.dtype)
    return places, np.broadcast_to(np.arange(rows.shape[1]), places.shape), filled


def shrunk_rows(weight, indices, max_norm, norm_type):
    """The rows among `indices` whose norm is larger than `max_norm`, and what they become."""
    rows = np.unique(indices)
    values = weight[rows].astype(np.float64)
    norms = np.linalg.norm(values, norm_type, axis=1) if len(rows) else np.zeros(0)
    large = norms > max_norm
    scale = max_norm / (norms[large] + 1e-7)
    return rows[large], (values[large] * scale[:, None]).astype(weight.dtype)
