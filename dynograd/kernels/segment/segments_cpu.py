"""Reductions over segments of rows, and rows repeated over segments, on NumPy arrays (M, D) of float32 and float64.

Segment k is the rows starts[k] to ends[k], cut to those that exist; segments do not overlap, rows may belong to none. Results do not
depend on the number of threads: a segment is reduced by one, a very long one in pieces of a fixed size.
"""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build.compiled_kernels import compiled_for

_KINDS = {"sum": (0, np.add), "prod": (1, np.multiply), "max": (2, np.maximum), "min": (3, np.minimum)}
_EMPTY = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}
_PIECE = 1 << 16  # elements of a part of a long segment, 64 rows at least
GROUPS = 64  # parts of the work, of about as many rows each


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
    starts, ends = whole_numbers(starts), whole_numbers(ends)
    if may_be_cut(values) and len(starts) and (ends - starts).max() > 2 * _piece(values):
        piece = _piece(values)
        lengths = np.maximum(np.minimum(ends, len(values)) - np.maximum(starts, 0), 0)
        pieces = np.maximum(-(-lengths // piece), 1)
        behind = np.cumsum(pieces)
        number_of = np.arange(behind[-1]) - np.repeat(behind - pieces, pieces)
        from_row = np.repeat(np.maximum(starts, 0), pieces) + number_of * piece
        parts = reduce_segments(values, from_row, np.minimum(from_row + piece, np.repeat(ends, pieces)), kind)
        return reduce_segments(parts, behind - pieces, behind, kind)
    groups, _ = groups_of(starts, ends, len(values))
    kernels["segments.reduce_segments"](
        np.ascontiguousarray(values),
        starts,
        ends,
        groups,
        number,
        result,
        count=len(groups) - 1,
        work=values.size,
    )
    return result


def may_be_cut(values):
    """Whether a segment of them may be so long that it is reduced in pieces."""
    return len(values) > 2 * _piece(values)


def _piece(values):
    return max(_PIECE // values.shape[1], 64)


def spread_segments(g, starts, ends, rows):
    """(rows, D): row k of `g` in each row of segment k, zeros in rows of no segment."""
    kernels = compiled_for(rows * g.shape[1])
    if kernels is None:
        result = np.zeros((rows, g.shape[1]), g.dtype)
        for row, first, last in zip(g, starts.tolist(), ends.tolist(), strict=True):
            result[max(first, 0) : max(last, 0)] = row
        return result
    run, work = kernels["segments.spread_segments"], rows * g.shape[1] // 8  # copies: no arithmetic
    return along_segments(run, (rows, g.shape[1]), g.dtype, starts, ends, work, np.ascontiguousarray(g))


def combine(values, g, starts, ends, how):
    """(M, D): each row of segment k with row k of `g` (K, D) or (K, 1); `how`: "add", "mul" or "div". 0 in rows of no segment."""
    from dynograd.kernels.segment.segments_numba import combine

    arrays = np.ascontiguousarray(values), np.ascontiguousarray(g)
    how = ("add", "mul", "div").index(how)
    return along_segments(combine, values.shape, values.dtype, starts, ends, values.size, *arrays, options=(how,))


def segment_gradients(g, values, output, starts, ends, kind):
    """(M, D): gradient of the values of which `output` (K, D) are the segments' "max" or "min"; of "prod" without it."""
    from dynograd.kernels.segment import segments_numba

    arrays = [np.ascontiguousarray(array) for array in (g, values, output) if array is not None]
    run = segments_numba.product_gradients if kind == "prod" else segments_numba.extreme_gradients
    return along_segments(run, values.shape, values.dtype, starts, ends, 2 * values.size, *arrays)


def softmax_segments(values, starts, ends):
    """(M, D): exp(values), scaled to sum to 1 over each segment's rows; 0 in rows of no segment."""
    kernels = compiled_for(values.size)
    if kernels is None:
        result = np.zeros(values.shape, values.dtype)
        for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
            part = values[max(first, 0) : max(last, 0)]
            with np.errstate(all="ignore"):
                powers = np.exp(part - part.max(0, initial=-np.inf))
                result[max(first, 0) : max(last, 0)] = powers / powers.sum(0)
        return result
    run = kernels["segments.softmax_segments"]
    return along_segments(run, values.shape, values.dtype, starts, ends, 4 * values.size, np.ascontiguousarray(values))


def softmax_gradients(g, output, starts, ends):
    """(M, D): gradient of the values of which `output` is `softmax_segments`."""
    from dynograd.kernels.segment.segments_numba import softmax_gradients

    arrays = np.ascontiguousarray(g), np.ascontiguousarray(output)
    return along_segments(softmax_gradients, output.shape, output.dtype, starts, ends, 3 * output.size, *arrays)


def log_sum_gradients(g, values, output, starts, ends):
    """(M, D): gradient of the values of which `output` (K, D) are `log_sums`; 0 in segments that are -inf as a whole."""
    from dynograd.kernels.segment.segments_numba import log_sum_gradients

    arrays = [np.ascontiguousarray(array) for array in (g, values, output)]
    return along_segments(log_sum_gradients, values.shape, values.dtype, starts, ends, 4 * values.size, *arrays)


def along_segments(run, shape, dtype, starts, ends, work, *operands, options=()):
    """What `run(*given, starts, ends, groups, *options, result)` writes into the rows of segments; 0 in rows of none."""
    starts, ends = whole_numbers(starts), whole_numbers(ends)
    groups, rows = groups_of(starts, ends, shape[0])
    result = (buffers.empty if rows >= shape[0] else buffers.zeros)(shape, dtype)
    if result.size and len(starts):
        run(*operands, starts, ends, groups, *options, result, count=len(groups) - 1, work=work)
    return result


def squares(values, starts, ends, centered):
    """(K, D): the sum of the squares of each segment's rows, of their distances from its mean with `centered`."""
    from dynograd.kernels.segment.segments_numba import squares

    return _of_each(squares, values, starts, ends, 0, centered)


def log_sums(values, starts, ends):
    """(K, D): the logarithm of the sum of exp of each segment's rows; -inf of none."""
    from dynograd.kernels.segment.segments_numba import log_sums

    return _of_each(log_sums, values, starts, ends, -np.inf)


def _of_each(run, values, starts, ends, empty, *options):
    starts, ends = whole_numbers(starts), whole_numbers(ends)
    groups, _ = groups_of(starts, ends, len(values))
    result = buffers.empty((len(starts), values.shape[1]), values.dtype)
    if result.size and len(values):
        values = np.ascontiguousarray(values)
        run(values, starts, ends, groups, *options, result, count=len(groups) - 1, work=4 * values.size)
    else:
        result[:] = empty
    return result


def groups_of(starts, ends, rows, most=GROUPS):
    """(where groups of segments begin that have about as many rows each, and where the last one ends; how many rows segments have)"""
    from dynograd.kernels.segment.segments_numba import lay_out_groups

    groups = np.empty(min(most, len(starts)) + 2, np.int64)
    lay_out_groups(starts, ends, rows, groups, count=1, work=len(starts))
    return groups[:-1], int(groups[-1])


def whole_numbers(bounds):
    """Bounds of segments as the kernels take them."""
    if bounds.dtype.char == "l" and bounds.flags.c_contiguous:
        return bounds
    return np.ascontiguousarray(bounds, np.int64)


def halved(starts, ends, rows):
    """Pairs of neighbours in each segment: (place of the first, place of the second or `rows`, new starts, new ends, longest)."""
    lengths = np.maximum(ends - starts, 0)
    pairs = (lengths + 1) // 2
    behind = np.cumsum(pairs)
    number_of = np.arange(behind[-1] if len(behind) else 0) - np.repeat(behind - pairs, pairs)
    first = np.repeat(starts, pairs) + 2 * number_of
    second = np.where(first + 1 < np.repeat(ends, pairs), first + 1, rows)
    return first, second, behind - pairs, behind, int(lengths.max(initial=0))
