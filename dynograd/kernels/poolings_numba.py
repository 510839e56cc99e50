"""Numba kernels of pooling on C-contiguous (N * C, D, H, W) planes; windows come as ranges per dimension.

`starts` and `stops` hold each dimension's ranges one after another (D, then H, then W), already cut to the plane.
"""

import numpy as np

from dynograd.kernels.compiling_numba import compiled

__all__ = ["add_at_indices", "average_windows", "average_windows_backward", "largest_in_pairs", "largest_in_windows"]


@compiled
def largest_in_windows(x, starts, stops, steps, lowest, values, indices):
    """Largest value of each window and its flat place in the plane: the first of equals; the last NaN if there is any.

    A window whose dilated places all lie outside gives `lowest`.
    """
    planes, depth, height, width = values.shape
    tops, places = np.empty(x.shape[3], x.dtype), np.empty(x.shape[3], np.int64)
    for p in range(planes):
        for od in range(depth):
            for oh in range(height):
                _largest_of_lines(
                    x[p], starts[od], stops[od], starts[depth + oh], stops[depth + oh], steps, lowest, tops, places
                )
                for ow in range(width):
                    start = starts[depth + height + ow]
                    best, place = lowest, places[0] + start
                    for w in range(start, stops[depth + height + ow], steps[2]):
                        value, row = tops[w], places[w]
                        if _wins(value, row + w, best, place):
                            best, place = value, row + w
                    values[p, od, oh, ow] = best
                    indices[p, od, oh, ow] = place


@compiled
def _wins(value, place, best, best_place):
    """Whether `value` comes before `best`: NaN first, the last of several; then the largest, the first of several."""
    if value != value:
        return best == best or place > best_place
    return value > best or (value == best and place < best_place)


@compiled
def _largest_of_lines(x, d0, d1, h0, h1, steps, lowest, tops, places):
    """Largest value above and below each other in the lines of a window, and where its line starts."""
    tops[:] = lowest
    places[:] = (d0 * x.shape[1] + h0) * x.shape[2]
    for d in range(d0, d1, steps[0]):
        for h in range(h0, h1, steps[1]):
            line, begin = x[d, h], (d * x.shape[1] + h) * x.shape[2]
            for w in range(line.size):
                value = line[w]
                better = value > tops[w] or value != value
                tops[w] = value if better else tops[w]
                places[w] = begin if better else places[w]


@compiled
def largest_in_pairs(x, values, indices):
    """`largest_in_windows` for windows of two by two that do not overlap; x (planes, H, W), results (planes, H', W')."""
    planes, height, width = values.shape
    for p in range(planes):
        for oh in range(height):
            top, bottom = x[p, 2 * oh, : 2 * width], x[p, 2 * oh + 1, : 2 * width]
            value, index = values[p, oh], indices[p, oh]
            corner = 2 * oh * x.shape[2]
            for ow in range(width):
                best = top[np.uint64(2 * ow)]
                place = corner + 2 * ow
                other = top[np.uint64(2 * ow + 1)]
                better = other > best or other != other
                best = other if better else best
                place = corner + 2 * ow + 1 if better else place
                other = bottom[np.uint64(2 * ow)]
                better = other > best or other != other
                best = other if better else best
                place = corner + x.shape[2] + 2 * ow if better else place
                other = bottom[np.uint64(2 * ow + 1)]
                better = other > best or other != other
                best = other if better else best
                place = corner + x.shape[2] + 2 * ow + 1 if better else place
                value[ow] = best
                index[ow] = place


@compiled
def add_at_indices(g, indices, gx):
    """gx[p, indices[p, i]] += g[p, i] for planes p."""
    for p in range(g.shape[0]):
        plane = gx[p]
        for i in range(g.shape[1]):
            plane[indices[p, i]] += g[p, i]


@compiled
def average_windows(x, starts, stops, counts, divisor, out):
    """Sum of each window over the product of its `counts`, or over `divisor` unless that is 0.

    Lines of a window are summed first, whole: that vectorises, and leaves little to do for each window.
    """
    planes, depth, height, width = out.shape
    sums = np.empty(x.shape[3], x.dtype)
    for p in range(planes):
        for od in range(depth):
            for oh in range(height):
                sums[:] = 0
                for d in range(starts[od], stops[od]):
                    for h in range(starts[depth + oh], stops[depth + oh]):
                        line = x[p, d, h]
                        for w in range(line.size):
                            sums[w] += line[w]
                lines = counts[od] * counts[depth + oh]
                for ow in range(width):
                    total = x.dtype.type(0)
                    for w in range(starts[depth + height + ow], stops[depth + height + ow]):
                        total += sums[w]
                    size = lines * counts[depth + height + ow]
                    out[p, od, oh, ow] = total / out.dtype.type(divisor if divisor != 0 else size)


@compiled
def average_windows_backward(g, starts, stops, counts, divisor, gx):
    """Share each window's gradient among its places; `gx` is zero on entry."""
    planes, depth, height, width = g.shape
    shares = np.empty(gx.shape[3], gx.dtype)
    for p in range(planes):
        for od in range(depth):
            for oh in range(height):
                shares[:] = 0
                lines = counts[od] * counts[depth + oh]
                for ow in range(width):
                    size = lines * counts[depth + height + ow]
                    share = g[p, od, oh, ow] / g.dtype.type(divisor if divisor != 0 else size)
                    for w in range(starts[depth + height + ow], stops[depth + height + ow]):
                        shares[w] += share
                for d in range(starts[od], stops[od]):
                    for h in range(starts[depth + oh], stops[depth + oh]):
                        line = gx[p, d, h]
                        for w in range(line.size):
                            line[w] += shares[w]
