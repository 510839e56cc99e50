"""Numba kernels of pooling on C-contiguous (N * C, D, H, W) planes, and on channels-last images.

Windows come as ranges per dimension where they are irregular: `starts` and `stops` hold each dimension's ranges one after another
(D, then H, then W), already cut to the plane. Places in a plane are int32, or int64 where `places` is. Items of all kernels are planes, but for `_last` ones
(images), so no two write the same memory.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled


@chunked(noalias=True)
def largest_in_windows(x, sizes, windows, lowest, values, places, start, stop):
    """Largest value of each window and its place in the plane: the first of equals; the last NaN if there is any.

    `sizes` is (D, H, W, D', H', W'); `windows` three each of kernel, stride, padding, dilation. A line of windows at a time: each of
    the window's places is compared for all of them. A window whose places all lie outside gives `lowest`, and place 0.
    """
    depth, height, width, out_depth, out_height, out_width = sizes
    kind = places.dtype.type
    k0, k1, k2, s0, s1, s2, p0, p1, p2, d0, d1, d2 = windows
    half, odd = width // 2, width - width // 2
    apart = s2 == 2 and width >= 32
    halves = np.empty(width if apart else 0, x.dtype)
    for p in range(start, stop):
        plane = p * depth * height * width
        for od in range(out_depth):
            for oh in range(out_height):
                into = ((p * out_depth + od) * out_height + oh) * out_width
                d_first, h_first = od * s0 - p0, oh * s1 - p1
                d_begin = d_first if d_first >= 0 else d_first + (-d_first + d0 - 1) // d0 * d0
                h_begin = h_first if h_first >= 0 else h_first + (-h_first + d1 - 1) // d1 * d1
                corner = (d_begin * height + h_begin) * width
                for ow in range(out_width):
                    values[np.uint64(into + ow)] = lowest
                    places[np.uint64(into + ow)] = kind(corner + ow * s2 - p2)
                for ow in range(min(out_width, (p2 + s2 - 1) // s2)):  # these windows begin outside
                    first = ow * s2 - p2
                    w_begin = first + (-first + d2 - 1) // d2 * d2
                    places[np.uint64(into + ow)] = corner + w_begin if w_begin < width else 0
                if d_begin >= depth or h_begin >= height:
                    places[into : into + out_width] = 0
                for d in range(d_begin, min(depth, d_first + k0 * d0), d0):
                    for h in range(h_begin, min(height, h_first + k1 * d1), d1):
                        line = (d * height + h) * width
                        if apart:  # even and odd places: the vector code then reads neighbours
                            for w in range(half):
                                halves[np.uint64(w)] = x[np.uint64(plane + line + 2 * w)]
                                halves[np.uint64(odd + w)] = x[np.uint64(plane + line + 2 * w + 1)]
                            if width % 2:
                                halves[half] = x[plane + line + width - 1]
                        for k in range(k2):
                            shift = k * d2 - p2
                            low = 0 if shift >= 0 else (-shift + s2 - 1) // s2
                            high = min(out_width, (width - 1 - shift) // s2 + 1)
                            at = line + shift
                            if s2 == 1:
                                for ow in range(low, high):
                                    place = at + ow
                                    value, best = x[np.uint64(plane + place)], values[np.uint64(into + ow)]
                                    better = (value > best) | (value != value)
                                    values[np.uint64(into + ow)] = value if better else best
                                    best_place = places[np.uint64(into + ow)]
                                    places[np.uint64(into + ow)] = kind(place) if better else best_place
                            elif apart:
                                come = shift // 2 + (odd if shift % 2 else 0)
                                for ow in range(low, high):
                                    value, best = halves[np.uint64(come + ow)], values[np.uint64(into + ow)]
                                    better = (value > best) | (value != value)
                                    values[np.uint64(into + ow)] = value if better else best
                                    best_place = places[np.uint64(into + ow)]
                                    places[np.uint64(into + ow)] = kind(at + 2 * ow) if better else best_place
                            else:
                                for ow in range(low, high):
                                    place = at + ow * s2
                                    value, best = x[np.uint64(plane + place)], values[np.uint64(into + ow)]
                                    if value > best or value != value:
                                        values[np.uint64(into + ow)] = value
                                        places[np.uint64(into + ow)] = place


@chunked(noalias=True)
def largest_last(x, channels, sizes, windows, lowest, values, places, start, stop):
    """`largest_in_windows` for channels-last images (N, H, W, C): all channels of a place at a time."""
    _, height, width, _, out_height, out_width = sizes
    kind = places.dtype.type
    _, k1, k2, _, s1, s2, _, p1, p2, _, d1, d2 = windows
    for n in range(start, stop):
        image = n * height * width * channels
        for oh in range(out_height):
            for ow in range(out_width):
                into = ((n * out_height + oh) * out_width + ow) * channels
                h_first, w_first = oh * s1 - p1, ow * s2 - p2
                h_begin = h_first if h_first >= 0 else h_first + (-h_first + d1 - 1) // d1 * d1
                w_begin = w_first if w_first >= 0 else w_first + (-w_first + d2 - 1) // d2 * d2
                begin = h_begin * width + w_begin if h_begin < height and w_begin < width else 0
                for c in range(channels):
                    values[np.uint64(into + c)] = lowest
                    places[np.uint64(into + c)] = kind(begin)
                for h in range(h_begin, min(height, h_first + k1 * d1), d1):
                    for w in range(w_begin, min(width, w_first + k2 * d2), d2):
                        place = kind(h * width + w)
                        at = image + (h * width + w) * channels
                        for c in range(channels):
                            value, best = x[np.uint64(at + c)], values[np.uint64(into + c)]
                            better = (value > best) | (value != value)
                            values[np.uint64(into + c)] = value if better else best
                            best_place = places[np.uint64(into + c)]
                            places[np.uint64(into + c)] = place if better else best_place


@chunked
def largest_in_ranges(x, starts, stops, values, places, start, stop):
    """Largest value of each of irregular windows, none of them empty, and its place in the plane."""
    _, depth, height, width = values.shape
    tops, lines = np.empty(x.shape[3], x.dtype), np.empty(x.shape[3], np.int64)
    for p in range(start, stop):
        for od in range(depth):
            for oh in range(height):
                _largest_of_lines(x[p], starts[od], stops[od], starts[depth + oh], stops[depth + oh], tops, lines)
                for ow in range(width):
                    first = starts[depth + height + ow]
                    best, place = tops[first], lines[first] + first
                    for w in range(first + 1, stops[depth + height + ow]):
                        value, row = tops[w], lines[w]
                        if _wins(value, row + w, best, place):
                            best, place = value, row + w
                    values[p, od, oh, ow] = best
                    places[p, od, oh, ow] = place


@compiled
def _wins(value, place, best, best_place):
    """Whether `value` comes before `best`: NaN first, the last of several; then the largest, the first of several."""
    if value != value:
        return best == best or place > best_place
    return value > best or (value == best and place < best_place)


@compiled
def _largest_of_lines(x, d0, d1, h0, h1, tops, lines):
    """Largest value above and below each other in the lines of a window, and where its line starts."""
    begin = (d0 * x.shape[1] + h0) * x.shape[2]
    for w in range(x.shape[2]):
        tops[w] = x[d0, h0, w]
        lines[w] = begin
    for d in range(d0, d1):
        for h in range(h0, h1):
            line, begin = x[d, h], (d * x.shape[1] + h) * x.shape[2]
            for w in range(line.size):
                value = line[w]
                better = value > tops[w] or value != value
                tops[w] = value if better else tops[w]
                lines[w] = begin if better else lines[w]


@chunked(noalias=True)
def largest_in_pairs(x, values, places, start, stop):
    """`largest_in_windows` for windows of two by two that do not overlap; x (planes, H, W), results (planes, H', W')."""
    kind = places.dtype.type
    _, height, width = values.shape
    for p in range(start, stop):
        for oh in range(height):
            top, bottom = x[p, 2 * oh, : 2 * width], x[p, 2 * oh + 1, : 2 * width]
            value, index = values[p, oh], places[p, oh]
            corner = kind(2 * oh * x.shape[2])
            below = kind(corner + x.shape[2])
            for ow in range(width):
                best = top[np.uint64(2 * ow)]
                column = kind(2 * ow)
                place = corner + column
                other = top[np.uint64(2 * ow + 1)]
                better = other > best or other != other
                best = other if better else best
                place = corner + column + kind(1) if better else place
                other = bottom[np.uint64(2 * ow)]
                better = other > best or other != other
                best = other if better else best
                place = below + column if better else place
                other = bottom[np.uint64(2 * ow + 1)]
                better = other > best or other != other
                best = other if better else best
                place = below + column + kind(1) if better else place
                value[ow] = best
                index[ow] = place


@chunked(noalias=True)
def add_at_places(g, places, gx, start, stop):
    """gx[p, places[p, i]] += g[p, i], in planes that are zero at first."""
    count, size = g.shape[1], gx.shape[1]
    operands, where, plane = g.reshape(-1), places.reshape(-1), gx.reshape(-1)
    for p in range(start, stop):
        for i in range(p * size, (p + 1) * size):
            plane[np.uint64(i)] = 0
        for i in range(p * count, (p + 1) * count):
            plane[np.uint64(p * size + where[np.uint64(i)])] += operands[np.uint64(i)]


@chunked(noalias=True)
def add_at_places_last(g, places, gx, start, stop):
    """gx[n, places[n, i, c], c] += g[n, i, c], in channels-last images that are zero at first."""
    _, count, channels = g.shape
    size = gx.shape[1]
    operands, where, image = g.reshape(-1), places.reshape(-1), gx.reshape(-1)
    for n in range(start, stop):
        for i in range(n * size * channels, (n + 1) * size * channels):
            image[np.uint64(i)] = 0
        for i in range(n * count, (n + 1) * count):
            for c in range(channels):
                place = n * size + where[np.uint64(i * channels + c)]
                image[np.uint64(place * channels + c)] += operands[np.uint64(i * channels + c)]


@chunked(noalias=True)
def average_windows(x, starts, stops, counts, divisor, out, start, stop):
    """Sum of each window over the product of its `counts`, or over `divisor` unless that is 0.

    Lines of a window are summed first, whole: that vectorises, and leaves little to do for each window.
    """
    _, depth, height, width = out.shape
    sums = np.empty(x.shape[3], x.dtype)
    for p in range(start, stop):
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


@chunked(noalias=True)
def average_windows_backward(g, starts, stops, counts, divisor, gx, start, stop):
    """Share each window's gradient among its places."""
    _, depth, height, width = g.shape
    shares = np.empty(gx.shape[3], gx.dtype)
    for p in range(start, stop):
        gx[p] = 0
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
