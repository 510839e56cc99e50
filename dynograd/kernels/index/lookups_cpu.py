"""Where values are, which there are and how often, on NumPy arrays."""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build.sizes import COMPILED_PASS, LARGE
from dynograd.kernels.index.scatters_cpu import limits, take, true_places
from dynograd.kernels.small.few_cpu import entries
from dynograd.kernels.sort.sorting_cpu import sort, sorted_numbers

_INT64 = np.dtype(np.int64)
_empty = np.empty
_FEW = 1 << 16  # numbers whose counts stay in the caches


def nonzero(x):
    """(N, ndim) int64 positions of the nonzero elements, in row-major order."""
    if x.size < COMPILED_PASS and x.ndim != 1:
        result = x.nonzero() if x.ndim else ()
        rows = result[0].base if result else None  # NumPy's vectors are usually columns of what is wanted
        if type(rows) is np.ndarray and rows.shape == (result[0].size, x.ndim) and rows.dtype == np.int64:
            return rows
        return np.argwhere(x).astype(np.int64, copy=False)
    places = true_places(x if x.dtype.kind == "b" else x != 0)
    if x.ndim == 1:
        return places[:, None]
    from dynograd.kernels.index.places_numba import split_places

    rows = buffers.empty((places.size, x.ndim), np.int64)
    split_places(places, np.array(x.shape, np.int64), rows, count=places.size, work=x.ndim * places.size)
    return rows


def nonzero_few(x, as_tuple):
    """`nonzero` of few elements, or the columns of that; None for others."""
    count = entries["moves.count"](id(x))
    if not count:
        return None
    rank = x.ndim
    rows = _empty((count - 1, rank), _INT64)
    if not entries["moves.rows"](id(x), id(rows)):
        return None
    if not as_tuple:
        return rows
    return [rows[:, 0], rows[:, 1]] if rank == 2 else [rows[:, dim] for dim in range(rank)]


def one_hot_few(x, classes):
    """`one_hot` of few int64 numbers; None for others, and where one is outside. -1 for `classes` stands for as many as there are."""
    if type(classes) is not int:
        return None
    least = entries["moves.classes"](id(x))
    if classes == -1:
        classes = least
    if not 0 < least <= classes or x.size * classes > _FEW:
        return None
    result = _empty((*x.shape, classes), _INT64)
    return result if entries["moves.one_hot"](id(x), id(result)) else None


def one_hot(x, classes):
    """int64 with a new last dim: 1 at the class, else 0."""
    result = np.zeros((x.size, classes), np.int64)
    result[np.arange(x.size), x.reshape(-1)] = 1
    return result.reshape(*x.shape, classes)


def bincount(x, weights, minlength):
    """How often each of 0, 1, ... occurs, or the sum of its weights (added up in float64)."""
    if weights is None:
        if x.size >= LARGE and x.dtype.kind in "iu":
            high = limits(x)[1] + 1
            if high <= _FEW:
                from dynograd.kernels.index import searches_numba

                items = 4 if high <= _FEW // 16 else 2
                counts = np.zeros((4 * items, max(high, minlength)), np.int64)
                searches_numba.count_in_blocks(np.ascontiguousarray(x), counts, count=items, work=2 * x.size)
                return counts.sum(0)
        return np.bincount(x, None, minlength)
    kind = weights.dtype if weights.dtype.kind in "fV" else np.dtype(np.float64)
    high = limits(x)[1] + 1 if x.size >= LARGE else _FEW + 1
    if high <= _FEW:
        from dynograd.kernels.index import scatters_numba

        sums = np.zeros((4, max(high, minlength), 1))
        summands = np.ascontiguousarray(weights, np.float64).reshape(-1, 1)
        index, outside = np.ascontiguousarray(x, np.int64), np.zeros(1, np.int64)
        scatters_numba.add_in_blocks(sums, index, summands, 0, outside, count=4, work=4 * x.size)
        return sums.sum(0).reshape(-1).astype(kind)
    return np.bincount(x, weights.astype(np.float64), minlength).astype(kind)


def unique(x, dim, wants_inverse=True):
    """(values, inverse, counts): the distinct elements in ascending order, or the distinct slices along `dim`.

    Each NaN is an element of its own, as it equals none; they come last. Without `wants_inverse` the inverse is an empty array where that is
    quicker.
    """
    if x.dtype.num > 255:  # NumPy's sorts do not know where NaN of these types belongs
        values, inverse, counts = unique(x.astype(np.float32), dim, wants_inverse)
        return values.astype(x.dtype), inverse, counts
    if dim is None:
        if x.dtype.char in "fdilq" and x.size >= 64:
            return _distinct(np.ascontiguousarray(x), wants_inverse)
        if x.dtype.char in "?bBhH" and x.size >= COMPILED_PASS:
            values, inverse, counts = _distinct(x.astype(np.int32, order="C"), wants_inverse)
            return values.astype(x.dtype), inverse, counts
        values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, equal_nan=False)
        return values, inverse.reshape(x.shape).astype(np.int64, copy=False), counts.astype(np.int64, copy=False)
    moved = np.moveaxis(x, dim, 0)
    order = (
        np.lexsort(np.ascontiguousarray(moved.reshape(len(moved), -1)[:, ::-1]).T)
        if moved[0:1].size
        else np.arange(len(moved))
    )
    values, inverse, counts = _runs(moved[order])
    back = np.empty(len(order), np.int64)
    back[order] = inverse
    return np.ascontiguousarray(np.moveaxis(values, 0, dim)), back, counts


def _distinct(x, wants_inverse):
    flat = x.reshape(-1)
    if x.dtype.kind == "i":
        low, high = limits(flat)
        if high - low < max(2 * flat.size, 1024):
            return _distinct_of_few(flat, low, x.shape)
    ordered, order = sort(flat, 0, False) if wants_inverse else (sorted_numbers(flat), None)
    fresh = np.empty(flat.size, bool)
    fresh[0] = True
    np.not_equal(ordered[1:], ordered[:-1], fresh[1:])
    starts = true_places(fresh)
    if not wants_inverse:
        return ordered[starts], np.empty(0, np.int64), np.diff(starts, append=flat.size)
    inverse = np.empty(x.shape, np.int64)
    numbers = np.add.accumulate(fresh, dtype=np.int64)
    numbers -= 1
    inverse.reshape(-1)[order] = numbers
    return ordered[starts], inverse, np.diff(starts, append=flat.size)


def _distinct_of_few(flat, low, shape):
    """Integers close together: counted in one place each."""
    places = flat - low
    counts = bincount(places, None, 0)
    distinct = counts.nonzero()[0]
    numbers = np.empty(counts.size, np.int64)
    numbers[distinct] = np.arange(distinct.size)
    return (distinct + low).astype(flat.dtype), take(numbers, places, 0).reshape(shape), counts[distinct]


def unique_consecutive(x, dim, wants_inverse=True, wants_counts=True):
    """(values, inverse, counts): only the first of each run of equal elements (or slices along `dim`).

    What is not wanted of `inverse` and `counts` is an empty array where that is quicker.
    """
    if dim is None:
        if x.size >= COMPILED_PASS and x.dtype.char in "fdilq":
            from dynograd.kernels.index import searches_numba

            flat = np.ascontiguousarray(x).reshape(-1)
            steps = np.empty(-(-flat.size // searches_numba.PIECE), np.int64)
            searches_numba.count_steps(flat, steps, count=steps.size, work=flat.size)
            before = np.cumsum(steps) - steps
            count = (1 + int(before[-1] + steps[-1]),)
            values = buffers.empty(count, flat.dtype)
            inverse = buffers.empty(x.shape if wants_inverse else (0,), np.int64)
            lengths = buffers.empty(count if wants_counts else (0,), np.int64)
            numbers = inverse.reshape(-1)
            searches_numba.runs(flat, before, values, numbers, lengths, count=steps.size, work=2 * flat.size)
            searches_numba.lengths_of(lengths, flat.size)
            return values, inverse, lengths
        values, inverse, counts = _runs(x.reshape(-1))
        return values, inverse.reshape(x.shape), counts
    values, inverse, counts = _runs(np.moveaxis(x, dim, 0))
    return np.ascontiguousarray(np.moveaxis(values, 0, dim)), inverse, counts


def _runs(rows):
    """(first rows of the runs of equal rows, number of its run for each row, lengths)."""
    if not len(rows):
        return rows, np.zeros(0, np.int64), np.zeros(0, np.int64)
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (rows[1:] != rows[:-1]).any(tuple(range(1, rows.ndim)))
    starts = np.flatnonzero(fresh)
    return rows[fresh], np.cumsum(fresh) - 1, np.diff(starts, append=len(rows))


def searchsorted(boundaries, values, side, sorter, dtype):
    """Where each value belongs in its sorted row: the leading dims of the two agree, or `boundaries` is one row for all."""
    if boundaries.dtype.num > 255:
        boundaries, values = _ordered(boundaries), _ordered(values)
    if sorter is not None:
        boundaries = np.take_along_axis(boundaries, sorter, -1)
    if (
        boundaries.dtype == values.dtype
        and values.dtype.char in "fdilq"
        and boundaries.size
        and values.size >= COMPILED_PASS
    ):
        from dynograd.kernels.index import searches_numba

        count = values.shape[-1] if boundaries.ndim > 1 else values.size
        table = np.ascontiguousarray(boundaries).reshape(-1, boundaries.shape[-1])
        rows_of_values = np.ascontiguousarray(values).reshape(-1, count)
        if len(table) in (1, len(rows_of_values)):
            out = buffers.empty(values.shape, dtype)
            blocks = len(rows_of_values) * -(-count // searches_numba.LANES)
            steps = max(table.shape[1].bit_length(), 1)
            searches_numba.search(
                table,
                rows_of_values,
                side == "right",
                out.reshape(rows_of_values.shape),
                count=blocks,
                work=(steps + 2) * values.size,
            )
            return out
    if boundaries.ndim == 1:
        return np.asarray(boundaries.searchsorted(values, side)).astype(dtype, copy=False)
    result = np.empty(values.shape, dtype)
    for row in np.ndindex(boundaries.shape[:-1]):
        result[row] = np.searchsorted(boundaries[row], values[row], side)
    return result


def _ordered(x):
    """`x` in a dtype that NumPy sorts: bfloat16 and float8 as float32, for it knows no place for their NaN."""
    return x.astype(np.float32) if x.dtype.num > 255 else x


def isin(x, tested, invert):
    """bool: whether each element occurs in `tested`."""
    if x.dtype.num > 255 or tested.dtype.num > 255:
        x, tested = _ordered(x), _ordered(tested)
    if x.dtype == tested.dtype and x.dtype.kind == "f" and x.size >= COMPILED_PASS and tested.size:
        table = sorted_numbers(tested.reshape(-1))
        places = searchsorted(table, x, "left", None, np.dtype(np.int64))
        np.minimum(places, table.size - 1, out=places)
        return np.not_equal(table[places], x) if invert else np.equal(table[places], x)
    return np.asarray(np.isin(x, tested, invert=invert))
