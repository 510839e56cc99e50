"""Numba kernels that go along the rows of segments, on values (M, D): a part of the work is a group of whole segments.

`groups` says which segments a part has, so that parts have about as many rows each. Columns go side by side; running sums, products
and recurrences of float32 are computed in float64.
"""

import math

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked
from dynograd.kernels.formula.math_numba import exp

SUM, PROD = range(2)


@chunked(noalias=True)
def scan_segments(values, starts, ends, groups, join, backwards, result, start, stop):
    """Running sums or products (`join`) of the rows of each segment, from its first row on or (`backwards`) from its last."""
    columns = values.shape[1]
    total = np.empty(columns, np.float64)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            total[:] = join
            for step in range(last - first):
                row = last - 1 - step if backwards else first + step
                own, to = values[row], result[row]
                if join == SUM:
                    for c in range(columns):
                        joined = total[c] + own[c]
                        total[c] = joined
                        to[c] = joined
                else:
                    for c in range(columns):
                        joined = total[c] * own[c]
                        total[c] = joined
                        to[c] = joined


@chunked(noalias=True)
def log_scan_segments(values, starts, ends, groups, result, start, stop):
    """The logarithm of the running sum of exp of the rows of each segment."""
    columns = values.shape[1]
    top, total = np.empty(columns, np.float64), np.empty(columns, np.float64)
    kind = values.dtype.type
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            top[:], total[:] = -np.inf, 0
            for row in range(first, last):
                own, to = values[row], result[row]
                for c in range(columns):
                    value, best = np.float64(own[c]), top[c]
                    if value > best:
                        total[c] = total[c] * np.float64(exp(kind(best - value))) + 1.0
                        top[c] = value
                    elif value == best:
                        total[c] += 0.0 if value == -np.inf else 1.0
                    elif value < best:
                        total[c] += np.float64(exp(kind(value - best)))
                    else:
                        total[c] = np.nan
                    to[c] = top[c] + math.log(total[c]) if total[c] != 0 else -np.inf


@chunked(noalias=True)
def recur_segments(values, decay, starts, ends, groups, backwards, result, start, stop):
    """r[k] = given[k] + decay[k] * r[k - 1] along the rows of each segment, or (`backwards`) r[k + 1] and from the last row on."""
    columns = values.shape[1]
    state = np.empty(columns, np.float64)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            state[:] = 0
            for step in range(last - first):
                row = last - 1 - step if backwards else first + step
                more, factor, to = values[row], decay[row], result[row]
                if step == 0:  # what is in front is nothing, whatever the factor
                    for c in range(columns):
                        state[c] = more[c]
                        to[c] = more[c]
                else:
                    for c in range(columns):
                        value = more[c] + factor[c] * state[c]
                        state[c] = value
                        to[c] = value


@chunked(noalias=True)
def running_places(values, starts, ends, groups, largest, places, start, stop):
    """Where, counted from the segment's first row, the largest (smallest) row so far is: of equals the last; NaN stays."""
    columns = values.shape[1]
    best, where = np.empty(columns, values.dtype), np.empty(columns, np.int64)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            for row in range(first, last):
                own, to = values[row], places[row]
                if row == first:
                    best[:], where[:] = own, 0
                elif largest:
                    for c in range(columns):
                        value, highest = own[c], best[c]
                        better = (value >= highest) | (value != value)
                        best[c] = value if better else highest
                        where[c] = row - first if better else where[c]
                else:
                    for c in range(columns):
                        value, highest = own[c], best[c]
                        better = (value <= highest) | (value != value)
                        best[c] = value if better else highest
                        where[c] = row - first if better else where[c]
                to[:] = where


@chunked(noalias=True)
def move_segments(values, starts, ends, groups, step, fill, result, start, stop):
    """Each row of a segment `step` rows further along it (towards the front where negative); `fill` where none arrives."""
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            for row in range(first, last):
                source = row - step
                if first <= source < last:
                    result[row] = values[source]
                else:
                    result[row] = fill
