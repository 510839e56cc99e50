"""Rows of segments by their order: where the sorted, the largest, the k-th ones are, and picking them. NumPy arrays (M, D).

Places are counted from the first row of the segment, in each column for itself. Equals keep their order, and NaN counts as the largest.
"""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers
from dynograd.errors import IndexRangeError
from dynograd.kernels.segment.segments_cpu import GROUPS, along_segments, groups_of, whole_numbers
from dynograd.kernels.sort.sorting_cpu import _MOST_PLACES, _WIDE_PLACES, IMAGES, PLACES, _rows

_ZERO = np.zeros(1, np.int64)


def places_of_segments(values, starts, ends, how, k):
    """Places as int64: (M, D) or (K * k, D) or (K, D).

    `how`: "ascending", "descending": of each segment's rows in order; "largest", "smallest": of the first k of that, k rows for each
    segment; "kth": of the k-th smallest (from 0); "median", "nanmedian": of the lower median; "max", "min": of the extreme, NaN if
    there is one; "cummax", "cummin": of the extreme so far, the last of equals.

    Raises:
        IndexRangeError: a segment has fewer than k rows, or k + 1 for "kth".
    """
    starts, ends = whole_numbers(starts), whole_numbers(ends)
    if how in ("max", "min", "cummax", "cummin"):
        values = np.ascontiguousarray(_numbers(values))
        return _extremes(values, starts, ends, how)
    firsts = np.clip(starts, 0, len(values))
    lengths = np.maximum(np.minimum(ends, len(values)) - firsts, 0)
    if how in ("ascending", "descending"):
        return _sorted(values, starts, ends, firsts, lengths, how == "descending")
    needed = k + (how == "kth") if k else int(how == "kth")
    if len(lengths) and lengths.min() < needed:
        row = int(lengths.argmin())
        raise IndexRangeError(f"segments: segment {row} has {lengths[row]} rows, {needed} are needed (k={k}).")
    return _selected(values, starts, ends, lengths, how, k)


def _numbers(values):
    """The same order in a dtype that kernels know."""
    return values if values.dtype.char in IMAGES else _rows(values, values.ndim - 1)


def _extremes(values, starts, ends, how):
    from dynograd.kernels.segment import segment_orders_numba, segment_scans_numba

    largest, kind = how.endswith("max"), np.int64
    if how.startswith("cum"):
        run = segment_scans_numba.running_places
        return along_segments(run, values.shape, kind, starts, ends, 4 * values.size, values, options=(largest,))
    places = buffers.empty((len(starts), values.shape[1]), kind)
    groups, _ = groups_of(starts, ends, len(values))
    if places.size:
        run = segment_orders_numba.extreme_places
        run(values, starts, ends, groups, largest, places, count=len(groups) - 1, work=4 * values.size)
    return places


class _Lines:
    """The columns of segments as lines behind one another: what the kernels that sort rows take."""

    def __init__(self, values, starts, ends, lengths):
        from dynograd.kernels.segment import segment_orders_numba

        columns = values.shape[1]
        self.behind = np.cumsum(lengths) - lengths
        self.given = values = np.ascontiguousarray(_numbers(values))
        self.turn, self.columns = segment_orders_numba.turn_segments, columns
        self.bounded = (starts, ends, groups_of(starts, ends, len(values))[0])
        total = int(lengths.sum())
        if columns == 1 and total == len(values):
            self.flat = values.reshape(-1)
        else:
            self.flat = buffers.empty((total * columns,), values.dtype)
            self._turned(values, self.flat, False)
        lines = np.repeat(lengths, columns)
        self.bounds = np.concatenate((_ZERO, np.cumsum(lines)))
        self.longest = int(lengths.max(initial=0))
        items, _ = groups_of(self.bounds[:-1], self.bounds[1:], self.flat.size, 4 * GROUPS)
        signed, keys, highest, infinity = IMAGES[values.dtype.char]
        self.keyed = (self.flat, self.flat.view(signed), keys)
        self.rest = (self.longest, self.bounds, items)
        self.signs, self.count = (highest, infinity), len(items) - 1

    def _turned(self, rows, lines, back):
        starts, ends, groups = self.bounded
        self.turn(rows, starts, ends, groups, self.behind, lines, back, count=len(groups) - 1, work=rows.size)

    def back(self, lines, rows):
        """Numbers of lines as rows (rows, D) again."""
        if self.columns == 1 and rows == len(lines):
            return lines.reshape(-1, 1)
        result = (buffers.empty if len(lines) == rows * self.columns else buffers.zeros)(
            (rows, self.columns), lines.dtype
        )
        self._turned(result, lines, True)
        return result


def _sorted(values, starts, ends, firsts, lengths, descending):
    from dynograd.kernels.sort import sorting_numba

    if not values.size or not len(starts):
        return np.zeros(values.shape, np.int64)
    lines = _Lines(values, starts, ends, lengths)
    places = buffers.empty(lines.flat.shape, np.int64)
    own = PLACES if lines.longest < _MOST_PLACES else _WIDE_PLACES
    nothing = np.empty(0, lines.flat.dtype)
    sorting_numba.order_of_rows(
        *lines.keyed, own, *lines.rest, *lines.signs, descending, nothing, places, count=lines.count, work=8 * values.size
    )  # fmt: skip
    return lines.back(places, len(values))


def _selected(values, starts, ends, lengths, how, k):
    from dynograd.kernels.sort import sorting_numba

    several = k if how in ("largest", "smallest") else 1
    shape = (len(starts), values.shape[1], several)
    places = np.zeros(shape, np.int64)
    if values.size and places.size:
        lines = _Lines(values, starts, ends, lengths)
        selected, flat = np.empty(places.size, lines.flat.dtype), places.reshape(-1)
        if how in ("largest", "smallest"):
            run, options = sorting_numba.top_of_rows, (k, *lines.signs, how == "largest")
        else:
            rule = {"kth": 0, "median": 1, "nanmedian": 2}[how]
            run, options = sorting_numba.kth_of_rows, (k, rule, *lines.signs)
        run(*lines.keyed, *lines.rest, *options, selected, flat, count=lines.count, work=4 * values.size)
    return np.ascontiguousarray(places.swapaxes(1, 2)).reshape(-1, values.shape[1])


def gather_segments(values, places, starts, ends, per):
    """The rows at `places` of each segment: (M, D), one for each row, or (K * per, D); 0 for a place outside of the segment."""
    from dynograd.kernels.segment.segment_orders_numba import gather_segments

    return _moved(gather_segments, values, places, starts, ends, per, len(places))


def scatter_segments(g, places, starts, ends, per, rows):
    """(rows, D): `g` added at `places` of each segment; see `gather_segments`."""
    from dynograd.kernels.segment.segment_orders_numba import scatter_segments

    return _moved(scatter_segments, g, places, starts, ends, per, rows)


def _moved(run, values, places, starts, ends, per, rows):
    starts, ends = whole_numbers(starts), whole_numbers(ends)
    scatters = run.name == "scatter_segments"
    others = rows if scatters else len(values)
    groups, covered = groups_of(starts, ends, others)
    values, places = np.ascontiguousarray(values), np.ascontiguousarray(places)
    if len(places) != (per * len(starts) if per else others) or (scatters and len(values) != len(places)):
        raise IndexRangeError(
            f"segments: {len(places)} rows of places for {len(starts)} segments of {others} rows, {per or 'one each'} of a segment."
        )
    whole = covered >= rows or (per and not scatters)
    result = (buffers.empty if whole else buffers.zeros)((rows, values.shape[1]), values.dtype)
    if result.size and len(starts):
        run(
            values,
            places,
            starts,
            ends,
            groups,
            per,
            result,
            count=len(groups) - 1,
            work=2 * max(result.size, values.size),
        )
    return result
