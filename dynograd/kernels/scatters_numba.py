"""Numba kernels that pick, write and add along the middle dim of (A, N, C) arrays.

What is added to a place is added in order, or in blocks whose number depends on the sizes alone, so results repeat bit for bit
with any number of threads. Picked and written elements go through as unsigned numbers of their size.
"""

import numpy as np

from dynograd.kernels.compiling_numba import chunked, compiled
from dynograd.kernels.lines_numba import LINE, add_line, copy_line

__all__ = [
    "add_along",
    "add_in_blocks",
    "add_own",
    "add_rows",
    "add_slices",
    "fill_vector",
    "pick_along",
    "pick_few",
    "pick_slices",
    "reduce_along",
    "write_along",
    "write_vector",
]

BLOCK = 4096  # elements of an index that are looked at together


@chunked(noalias=True)
def pick_slices(x, index, out, start, stop):
    """out[a, m] = x[a, index[m]]; items are (a, m)."""
    count, size, inner = index.size, x.shape[1], x.shape[2]
    flat, target = x.reshape(-1), out.reshape(-1)
    item = start
    while item < stop:
        a = item // count
        last = min(stop, (a + 1) * count)
        origin, before = a * size, a * count
        if inner == 1:
            for into in range(item, last):
                place = index[np.uint64(into - before)]
                target[np.uint64(into)] = flat[np.uint64(origin + place)]
        else:
            for m in range(item - before, last - before):
                place = index[np.uint64(m)]
                of, c = (origin + place) * inner, 0
                into = (before + m) * inner
                while c + LINE <= inner:
                    copy_line(target, into + c, flat, of + c)
                    c += LINE
                while c < inner:
                    target[np.uint64(into + c)] = flat[np.uint64(of + c)]
                    c += 1
        item = last


@chunked(noalias=True)
def pick_along(x, index, out, outside, start, stop):
    """out[a, m, c] = x[a, index[a, m, c], c]; items are (a, m). `outside[0]` becomes 1 where an index leaves `x`."""
    size, count, inner = x.shape[1], index.shape[1], index.shape[2]
    beyond = 0  # its sign bit: an index below 0 or above the last
    flat, places, target = x.reshape(-1), index.reshape(-1), out.reshape(-1)
    item = start
    while item < stop:
        a = item // count
        last = min(stop, (a + 1) * count)
        origin = a * size * inner
        if inner == 1:
            for to in range(item, last):
                place = places[np.uint64(to)]
                if np.uint64(place) >= np.uint64(size):  # also one below 0
                    outside[0] = 1
                    return
                target[np.uint64(to)] = flat[np.uint64(origin + place)]
        else:
            for begin in range(item * inner, last * inner, inner):
                for c in range(inner):
                    place = places[np.uint64(begin + c)]
                    beyond |= place | (size - 1 - place)
                    row = min(max(place, 0), size - 1) * inner
                    target[np.uint64(begin + c)] = flat[np.uint64(origin + row + c)]
        item = last
    if beyond < 0:
        outside[0] = 1


@compiled
def pick_few(x, index, out, dim):
    """`out = x.gather(dim, index)` for matrices; False where the two do not fit together or an index lies outside."""
    rows, columns = index.shape
    if dim == 0:
        if columns > x.shape[1]:
            return False
        for i in range(rows):
            for j in range(columns):
                place = index[i, j]
                if not 0 <= place < x.shape[0]:
                    return False
                out[i, j] = x[place, j]
    else:
        if dim != 1 or rows > x.shape[0]:
            return False
        for i in range(rows):
            for j in range(columns):
                place = index[i, j]
                if not 0 <= place < x.shape[1]:
                    return False
                out[i, j] = x[i, place]
    return True


@compiled(noalias=True, inline=True)
def _is_outside(index, begin, end, low, size):
    """Whether one of index[begin:end] is below `low` or above size - 1."""
    beyond = np.int64(0)
    for m in range(begin, end):
        place = index[np.uint64(m)]
        beyond |= (place - low) | (size - 1 - place)  # one of them is negative
    return beyond < 0


@compiled(noalias=True)
def _add_elements(out, index, src, low):
    """out[index[m]] += src[m], first to last; False, with some added, where an index is below `low` or above N - 1.

    Four are looked at together; negative ones count from the end.
    """
    size = out.size
    m, most = 0, size - 1
    while m < index.size:
        while m + 4 <= index.size:
            p0, p1 = index[np.uint64(m)], index[np.uint64(m + 1)]
            p2, p3 = index[np.uint64(m + 2)], index[np.uint64(m + 3)]
            if p0 | p1 | p2 | p3 | (most - p0) | (most - p1) | (most - p2) | (most - p3) < 0:
                break
            s0, s1 = src[np.uint64(m)], src[np.uint64(m + 1)]
            s2, s3 = src[np.uint64(m + 2)], src[np.uint64(m + 3)]
            out[np.uint64(p0)] += s0
            out[np.uint64(p1)] += s1
            out[np.uint64(p2)] += s2
            out[np.uint64(p3)] += s3
            m += 4
        for k in range(m, min(m + 4, index.size)):
            place = index[np.uint64(k)]
            if place < low or place >= size:
                return False
            out[np.uint64(place + (size & (place >> 63)))] += src[np.uint64(k)]
        m += 4
    return True


@compiled(noalias=True)
def write_vector(out, index, src):
    """out[index[m]] = src[m], first to last; False, with some written, where an index lies outside.

    Half the time of `write_along`, as nothing but this becomes scatter instructions.
    """
    for begin in range(0, index.size, BLOCK):
        end = min(index.size, begin + BLOCK)
        if _is_outside(index, begin, end, 0, out.size):
            return False
        for m in range(begin, end):
            out[np.uint64(index[np.uint64(m)])] = src[np.uint64(m)]
    return True


@chunked
def fill_vector(out, index, value, low, outside, start, stop):
    """out[index[m]] = value; items are elements of the index, of which several may name one place.

    outside[0] = 1 for an index below `low`, which may be -N, or above N - 1.
    """
    for begin in range(start, stop, BLOCK):
        end = min(stop, begin + BLOCK)
        if _is_outside(index, begin, end, low, out.size):
            outside[0] = 1
            return
        for m in range(begin, end):
            place = index[np.uint64(m)]
            out[np.uint64(place + (out.size & (place >> 63)))] = value


@chunked(noalias=True)
def add_own(out, index, src, start, stop):
    """out[index[m]] += src[m], first to last, for the elements of `out` from start to stop, which are the items.

    What is a part's own of each BLOCK is listed first. The index has been checked.
    """
    own = np.empty(BLOCK + 1, np.int32)
    width = np.uint64(stop - start)
    for begin in range(0, index.size, BLOCK):
        held = 0
        for m in range(min(BLOCK, index.size - begin)):
            own[np.uint64(held)] = m
            held += np.int64(np.uint64(index[np.uint64(begin + m)] - start) < width)
        for k in range(held):
            m = begin + np.int64(own[np.uint64(k)])
            out[np.uint64(index[np.uint64(m)])] += src[np.uint64(m)]


@chunked(noalias=True)
def write_along(out, index, src, outside, start, stop):
    """out[a, index[a, m, c], c] = src[a, m, c], first to last; items are (a, 16 columns). outside[0] = 1 for an index outside."""
    size, count, inner = out.shape[1], index.shape[1], index.shape[2]
    blocks = (inner + LINE - 1) // LINE
    target, places, source = out.reshape(-1), index.reshape(-1), src.reshape(-1)
    item = start
    while item < stop:
        a, first = item // blocks, item % blocks
        last = min(blocks, first + stop - item)
        begin, end = first * LINE, min(inner, last * LINE)
        origin = a * size * inner
        if inner == 1:
            for row in range(a * count, (a + 1) * count):
                place = places[np.uint64(row)]
                if np.uint64(place) >= np.uint64(size):  # also one below 0
                    outside[0] = 1
                    return
                target[np.uint64(origin + place)] = source[np.uint64(row)]
        else:
            for row in range(a * count * inner, (a + 1) * count * inner, inner):
                if _is_outside(places, row + begin, row + end, 0, size):
                    outside[0] = 1
                    return
                for c in range(begin, end):
                    place = places[np.uint64(row + c)] * inner
                    target[np.uint64(origin + place + c)] = source[np.uint64(row + c)]
        item += last - first


@chunked(noalias=True)
def add_along(out, index, src, outside, start, stop):
    """out[a, index[a, m, c], c] += src[a, m, c], first to last; items are (a, 16 columns). outside[0] = 1 for an index outside."""
    size, count, inner = out.shape[1], index.shape[1], index.shape[2]
    blocks = (inner + LINE - 1) // LINE
    target, places, source = out.reshape(-1), index.reshape(-1), src.reshape(-1)
    item = start
    while item < stop:
        a, first = item // blocks, item % blocks
        last = min(blocks, first + stop - item)
        begin, end = first * LINE, min(inner, last * LINE)
        origin = a * size * inner
        if inner == 1:
            own, of = target[origin : origin + size], a * count
            if not _add_elements(own, places[of : of + count], source[of : of + count], 0):
                outside[0] = 1
                return
        else:
            for row in range(a * count * inner, (a + 1) * count * inner, inner):
                if _is_outside(places, row + begin, row + end, 0, size):
                    outside[0] = 1
                    return
                for c in range(begin, end):
                    place = places[np.uint64(row + c)] * inner
                    target[np.uint64(origin + place + c)] += source[np.uint64(row + c)]
        item += last - first


@chunked(noalias=True)
def add_slices(out, index, src, low, outside, start, stop):
    """out[a, index[m]] += src[a, m], first to last; items are a. outside[0] = 1 for an index below `low`, which may be -N, or above N - 1."""
    size, count, inner = out.shape[1], index.size, out.shape[2]
    target, source = out.reshape(-1), src.reshape(-1)
    for a in range(start, stop):
        if inner == 1:
            own, of = target[a * size : (a + 1) * size], a * count
            if not _add_elements(own, index, source[of : of + count], low):
                outside[0] = 1
                return
            continue
        for begin in range(0, count, BLOCK):
            end = min(count, begin + BLOCK)
            if _is_outside(index, begin, end, low, size):
                outside[0] = 1
                return
            for m in range(begin, end):
                place = index[np.uint64(m)]
                place += a * size + (size & (place >> 63))
                into, of, c = place * inner, (a * count + m) * inner, 0
                while c + LINE <= inner:
                    add_line(target, into + c, source, of + c)
                    c += LINE
                while c < inner:
                    target[np.uint64(into + c)] += source[np.uint64(of + c)]
                    c += 1


@chunked(noalias=True)
def add_rows(out, index, src, low, outside, start, stop):
    """`add_slices` of out[0], (N, C), for its rows from start to stop; items are rows.

    A part first lists what is its own of the next BLOCK. Parts by columns would share neighbouring cache lines: twice as slow as
    one thread.
    """
    size, inner = out.shape
    target, source = out.reshape(-1), src.reshape(-1)
    own = np.empty(BLOCK + 1, np.int64)
    for begin in range(0, index.size, BLOCK):
        end = min(index.size, begin + BLOCK)
        if _is_outside(index, begin, end, low, size):
            outside[0] = 1
            return
        held = 0
        for m in range(begin, end):
            place = index[np.uint64(m)]
            place += (size & (place >> 63)) - start
            own[np.uint64(held)] = m
            held += np.int64(np.uint64(place) < np.uint64(stop - start))
        for k in range(held):
            m = own[np.uint64(k)]
            place = index[np.uint64(m)]
            place += size & (place >> 63)
            into, of, c = place * inner, m * inner, 0
            while c + LINE <= inner:
                add_line(target, into + c, source, of + c)
                c += LINE
            while c < inner:
                target[np.uint64(into + c)] += source[np.uint64(of + c)]
                c += 1


@chunked(noalias=True)
def reduce_along(out, index, src, how, start, stop):
    """The product (how 0), maximum (1) or minimum (2) of out[a, index[a, m, c], c] and src[a, m, c]; items are (a, 16 columns). NaN stays."""
    size, count, inner = out.shape[1], index.shape[1], index.shape[2]
    blocks = (inner + LINE - 1) // LINE
    target, places, source = out.reshape(-1), index.reshape(-1), src.reshape(-1)
    for item in range(start, stop):
        a, first = item // blocks, item % blocks
        begin, end = first * LINE, min(inner, first * LINE + LINE)
        origin = a * size * inner
        if inner == 1 and how == 1:
            for row in range(a * count, (a + 1) * count):
                place, value = np.uint64(origin + places[np.uint64(row)]), source[np.uint64(row)]
                held = target[place]
                target[place] = value if (value > held) | (value != value) else held
            continue
        if inner == 1 and how == 0:
            for row in range(a * count, (a + 1) * count):
                target[np.uint64(origin + places[np.uint64(row)])] *= source[np.uint64(row)]
            continue
        for row in range(a * count * inner, (a + 1) * count * inner, inner):
            for c in range(begin, end):
                place = np.uint64(origin + places[np.uint64(row + c)] * inner + c)
                value, held = source[np.uint64(row + c)], target[place]
                if how == 0:
                    target[place] = held * value
                elif how == 1:
                    target[place] = value if value > held or value != value else held
                else:
                    target[place] = value if value < held or value != value else held


@chunked(noalias=True)
def add_in_blocks(sums, index, src, low, outside, start, stop):
    """sums[b, index[m]] += src[m] for the b-th of equal parts of the index; `sums` (B, N, C) starts from 0. Items are parts.

    outside[0] = 1 for an index below `low`, which may be -N, or above N - 1.
    """
    blocks, size, inner = sums.shape
    target, source = sums.reshape(-1), src.reshape(-1)
    for b in range(start, stop):
        first, last = index.size * b // blocks, index.size * (b + 1) // blocks
        if inner == 1:
            if not _add_elements(target[b * size : (b + 1) * size], index[first:last], source[first:last], low):
                outside[0] = 1
                return
            continue
        for m in range(first, last):
            place = index[np.uint64(m)]
            if place < low or place >= size:
                outside[0] = 1
                return
            place += b * size + (size & (place >> 63))
            for c in range(inner):
                target[np.uint64(place * inner + c)] += source[np.uint64(m * inner + c)]
