"""Linear chains on NumPy arrays of float32 and float64: likelihoods of tags, their gradients, best paths.

Step t of sequence n is row starts[n] + t * step of the emissions (M, K), so that batch-first, time-first and packed memory are read
in their place. Results do not depend on the number of threads: sums over sequences are taken in groups of a fixed number.
"""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers

_LEAST = {"f": np.float32(1e-20), "d": np.float64(1e-200)}
_GROUPS = 16  # of sequences, each with its own sums of the transitions' gradient


def chain_likelihoods(emissions, transitions, first, last, tags, starts, lengths, step):
    """(log-likelihoods (B,), levels, sums): of `tags` (M,), or, where that is None, minus the logarithm of the sum over all tags.

    transitions (K, K) from row to column; first, last (K,); starts, lengths (B,). levels and sums are for the gradient.
    """
    from dynograd.kernels.loss import chains_numba as compiled

    x = np.ascontiguousarray(emissions)
    weights, tops = _weights(transitions)
    starts, lengths, places, rows = _places(starts, lengths)
    levels, sums = (buffers.empty((rows, weights.shape[1]), x.dtype) for _ in range(2))
    result = np.empty(len(starts), x.dtype)
    compiled.likelihoods(
        x, step, weights, tops, *map(np.ascontiguousarray, (transitions.T, first, last)), *_tags(tags), starts, lengths, places,
        _LEAST[x.dtype.char], levels, sums, result, count=len(starts), work=_work(levels),
    )  # fmt: skip
    return result, levels, sums


def chain_gradients(g, emissions, transitions, first, last, tags, starts, lengths, step, levels, sums):
    """Gradients of the emissions, the transitions, `first` and `last`."""
    from dynograd.kernels.loss import chains_numba as compiled

    tag_count = emissions.shape[1]
    weights, _ = _weights(transitions)
    starts, lengths, places, rows = _places(starts, lengths)
    result = (buffers.empty if rows == len(emissions) else buffers.zeros)(emissions.shape, emissions.dtype)
    groups = max(1, min(_GROUPS, len(starts)))
    products = buffers.empty((groups, *weights.shape), emissions.dtype)
    others = buffers.empty((groups, tag_count, tag_count), emissions.dtype)
    ends = np.empty((groups, 2, tag_count), emissions.dtype)
    compiled.gradients(
        np.ascontiguousarray(g, emissions.dtype), step, weights, *map(np.ascontiguousarray, (transitions.T, last)), *_tags(tags),
        starts, lengths, places, _LEAST[emissions.dtype.char], levels, sums, result, products, others, ends,
        count=groups, work=2 * _work(levels),
    )  # fmt: skip
    change = (products.sum(0) * weights)[:, :tag_count] + others.sum(0).T
    begun, ended = ends.sum(0)
    return result, change, begun, ended


def best_paths(emissions, transitions, first, last, starts, lengths, step):
    """(tags (M,) of the best paths, 0 in rows of no sequence; scores (B,))."""
    from dynograd.kernels.loss import chains_numba as compiled

    x = np.ascontiguousarray(emissions)
    starts, lengths, places, rows = _places(starts, lengths)
    padded = _padded(transitions, x.dtype.type(-np.inf))
    levels = buffers.empty((rows, padded.shape[1]), x.dtype)
    tags, scores = np.zeros(len(x), np.int64), np.empty(len(starts), x.dtype)
    compiled.best_paths(
        x, step, padded, *map(np.ascontiguousarray, (first, last)), starts, lengths, places, levels, tags, scores,
        count=len(starts), work=_work(levels),
    )  # fmt: skip
    return tags, scores


def _weights(transitions):
    """(exp(transitions - tops) (K, width) with zeros behind K, tops (K,): the maxima of columns, 0 where not finite)."""
    tops = transitions.max(0, initial=-np.inf)
    tops = np.where(np.isfinite(tops), tops, transitions.dtype.type(0))
    with np.errstate(all="ignore"):
        return _padded(np.exp(transitions - tops), 0), tops


def _padded(table, value):
    from dynograd.kernels.loss.chains_numba import LANES

    rows, columns = table.shape
    padded = np.full((rows, -(-columns // LANES) * LANES), value, table.dtype)
    padded[:, :columns] = table
    return padded


def _places(starts, lengths):
    """(starts, lengths, the first row of each sequence where only rows of sequences are kept, how many these are)."""
    starts, lengths = (np.ascontiguousarray(start, np.int64) for start in (starts, lengths))
    behind = np.cumsum(lengths)
    return starts, lengths, behind - lengths, int(behind[-1]) if len(behind) else 0


def _tags(tags):
    return (np.empty(0, np.int64), False) if tags is None else (np.ascontiguousarray(tags, np.int64), True)


def _work(levels):
    """In simple operations: a row's exponentials and logarithms, and its products."""
    return levels.size * (16 + levels.shape[1] // 4)
