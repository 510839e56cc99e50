"""Reductions over segments of rows, and rows repeated over segments, on NumPy arrays (M, D) of float32 and float64.

Segment k is the rows starts[k] to ends[k], cut to those that exist; segments do not overlap, rows may belong to none. Results do not
depend on the number of threads: a segment is reduced by one, a very long one in pieces of a fixed size.
"""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.compiled_kernels import compiled_for

__all__ = ["halved", "reduce_segments", "scan_segments", "segment_gradients", "softmax_segments", "spread_segments"]

_KINDS = {"sum": (0, np.add), "prod": (1, np.multiply), "max": (2, np.maximum), "min": (3, np.minimum)}
_EMPTY = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}
_PIECE = 1 << 16  # rows
_GROUPS = 64  # parts of the work, of about as many rows each


def reduce_segments(values, starts, ends, kind):
    """(K, D): the "sum", "prod", "max" or "min" of each segment's rows; 0, 1, -inf or inf of none."""
    number, ufunc = _KINDS[kind]
    kernels = compiled_for(values.size)
    result = buffers.empty((len(starts), values.shape[1]), values.dtype)
    if not values.size:
        result[:] = _EMPTY[kind]
        return result
    if kernels is None:
        with np.errstate(all="ignore"):
            for k, (first, last) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                result[k] = ufunc.reduce(values[max(first, 0) : max(last, 0)], 0, initial=_EMPTY[kind])
        return result
    values = np.ascontiguousarray(values)
    starts, ends = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64)
    lengths = ends - starts
    if len(lengths) and lengths.max() > 2 * _PIECE:
        pieces = np.maximum(-(-lengths // _PIECE), 1)
        behind = np.cumsum(pieces)
        number_of = np.arange(behind[-1]) - np.repeat(behind - pieces, pieces)
        from_row = np.repeat(starts, pieces) + number_of * _PIECE
        parts = reduce_segments(values, from_row, np.minimum(from_row + _PIECE, np.repeat(ends, pieces)), kind)
        return reduce_segments(parts, behind - pieces, behind, kind)
    groups = _groups(lengths)
    kernels["segments.reduce_segments"](
        values, starts, ends, groups, number, result, count=len(groups) - 1, work=values.size
    )
    return result


def spread_segments(g, starts, ends, rows):
    """(rows, D): row k of `g` in each row of segment k, zeros in rows of no segment."""
    lengths = np.maximum(ends - starts, 0)
    whole = int(lengths.sum()) >= rows
    result = (buffers.empty if whole else buffers.zeros)((rows, g.shape[1]), g.dtype)
    kernels = compiled_for(result.size)
    if kernels is None:
        for row, first, last in zip(g, starts.tolist(), ends.tolist(), strict=True):
            result[max(first, 0) : max(last, 0)] = row
        return result
    groups = _groups(lengths)
    starts, ends = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64)
    kernels["segments.spread_segments"](
        np.ascontiguousarray(g),
        starts,
        ends,
        groups,
        result,
        count=len(groups) - 1,
        work=result.size // 8,  # copies: no arithmetic
    )
    return result


def segment_gradients(g, values, output, starts, ends, kind):
    """(M, D): gradient of the values of which `output` (K, D) are the segments' "max" or "min"; of "prod" without it."""
    from dynograd.kernels import segments_numba

    lengths = np.maximum(ends - starts, 0)
    whole = int(lengths.sum()) >= len(values)
    result = (buffers.empty if whole else buffers.zeros)(values.shape, values.dtype)
    if not result.size or not len(lengths):
        return result
    groups = _groups(lengths)
    given = [np.ascontiguousarray(one) for one in (g, values, output, starts, ends) if one is not None]
    run = segments_numba.product_gradients if kind == "prod" else segments_numba.extreme_gradients
    run(*given, groups, result, count=len(groups) - 1, work=2 * values.size)
    return result


def scan_segments(values, starts, ends, backwards):
    """(M, D): the running sums of each segment's rows, from its last row on with `backwards`; 0 in rows of no segment."""
    return _row_by_row("scan_segments", values, starts, ends, bool(backwards))


def softmax_segments(values, starts, ends):
    """(M, D): exp(values), scaled to sum to 1 over each segment's rows; 0 in rows of no segment."""
    return _row_by_row("softmax_segments", values, starts, ends)


def _row_by_row(name, values, starts, ends, *options):
    lengths = np.maximum(ends - starts, 0)
    result = (buffers.empty if int(lengths.sum()) >= len(values) else buffers.zeros)(values.shape, values.dtype)
    kernels = compiled_for(values.size)
    if not result.size or not len(lengths):
        return result
    if kernels is None:
        for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
            part = values[max(first, 0) : max(last, 0)]
            if name == "softmax_segments":
                with np.errstate(all="ignore"):
                    powers = np.exp(part - part.max(0, initial=-np.inf))
                    found = powers / powers.sum(0)
            else:
                found = np.cumsum(part[::-1], 0)[::-1] if options[0] else np.cumsum(part, 0)
            result[max(first, 0) : max(last, 0)] = found
        return result
    groups = _groups(lengths)
    starts, ends = np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64)
    kernels[f"segments.{name}"](
        np.ascontiguousarray(values),
        starts,
        ends,
        groups,
        *options,
        result,
        count=len(groups) - 1,
        work=4 * values.size,
    )
    return result


def halved(starts, ends, rows):
    """Pairs of neighbours in each segment: (place of the first, place of the second or `rows`, new starts, new ends, longest)."""
    lengths = np.maximum(ends - starts, 0)
    pairs = (lengths + 1) // 2
    behind = np.cumsum(pairs)
    number_of = np.arange(behind[-1] if len(behind) else 0) - np.repeat(behind - pairs, pairs)
    first = np.repeat(starts, pairs) + 2 * number_of
    second = np.where(first + 1 < np.repeat(ends, pairs), first + 1, rows)
    return first, second, behind - pairs, behind, int(lengths.max(initial=0))


def _groups(lengths):
    """Where groups of segments begin that have about as many rows each; an empty segment counts as one."""
    behind = np.cumsum(np.maximum(lengths, 1))
    count = min(_GROUPS, len(behind))
    if not count:
        return np.zeros(1, np.int64)
    inner = np.searchsorted(behind, behind[-1] * np.arange(1, count) / count)
    return np.concatenate(([0], inner, [len(behind)])).astype(np.int64)
