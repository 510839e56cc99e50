"""Numba kernels that find, pick and put rows of segments, column by column, on values (M, D).

Places are counted from the first row of the segment. `groups` says which segments a part of the work has.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked

_TILE = 64  # columns that are turned at a time


@chunked(noalias=True)
def extreme_places(values, starts, ends, groups, largest, places, start, stop):
    """places[k, c] = the place of the largest (smallest) row of segment k; the first of equals and of NaNs; 0 of no row."""
    columns = values.shape[1]
    best = np.empty(columns, values.dtype)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            where = places[k]
            where[:] = 0
            for row in range(first, last):
                own = values[row]
                if row == first:
                    best[:] = own
                elif largest:
                    for c in range(columns):
                        value, highest = own[c], best[c]
                        better = (value > highest) | ((value != value) & (highest == highest))
                        best[c] = value if better else highest
                        where[c] = row - first if better else where[c]
                else:
                    for c in range(columns):
                        value, highest = own[c], best[c]
                        better = (value < highest) | ((value != value) & (highest == highest))
                        best[c] = value if better else highest
                        where[c] = row - first if better else where[c]


@chunked(noalias=True)
def turn_segments(values, starts, ends, groups, behind, lines, back, start, stop):
    """Each segment (n, D) as D lines of n, from lines[behind[k] * D] on; with `back` the lines as rows again."""
    columns = values.shape[1]
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            n, to = last - first, behind[k] * columns
            for tile in range(0, columns, _TILE):
                until = min(tile + _TILE, columns)
                if back:
                    for row in range(n):
                        for c in range(tile, until):
                            values[first + row, c] = lines[np.uint64(to + c * n + row)]
                else:
                    for row in range(n):
                        for c in range(tile, until):
                            lines[np.uint64(to + c * n + row)] = values[first + row, c]


@chunked(noalias=True)
def gather_segments(values, places, starts, ends, groups, per, result, start, stop):
    """The rows of segments at `places`: as many as a segment has, or `per` for each; 0 for a place outside."""
    columns = values.shape[1]
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            begin, end = (k * per, (k + 1) * per) if per else (first, last)
            n = last - first
            for row in range(begin, end):
                where, to = places[row], result[row]
                for c in range(columns):
                    place = where[c]
                    to[c] = values[first + place, c] if (place >= 0) & (place < n) else 0


@chunked(noalias=True)
def scatter_segments(g, places, starts, ends, groups, per, result, start, stop):
    """What `gather_segments` makes of gradients: `g` added at the places of each segment; rows are zero at first."""
    columns = g.shape[1]
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(result))
            begin, end = (k * per, (k + 1) * per) if per else (first, last)
            n = last - first
            for row in range(first, last):
                result[row] = 0
            for row in range(begin, end):
                where, own = places[row], g[row]
                for c in range(columns):
                    place = where[c]
                    if (place >= 0) & (place < n):
                        result[first + place, c] += own[c]
