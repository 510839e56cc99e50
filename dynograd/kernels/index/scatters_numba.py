"""Numba kernels that pick, write and add along the middle dim of (A, N, C) arrays.

What is added to a place is added in order, or in blocks whose number depends on the sizes alone, so results repeat bit for bit
with any number of threads. Picked and written elements go through as unsigned numbers of their size.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.tiles.lines_numba import AHEAD, LINE, add_line, copy_line, prefetch

BLOCK = 4096  # elements of an index that are looked at together
WRITE, ADD, MULTIPLY, LARGEST, SMALLEST = range(5)  # what is done at a place
NEAR = 1 << 18  # bytes that the second-level cache surely has: nothing to ask for


@chunked(noalias=True)
def pick_slices(x, index, out, outside, start, stop):
    """out[a, m] = x[a, index[m]]; items are (a, m). `outside[0]` becomes 1 where an index leaves `x`."""
    count, size, inner = index.size, x.shape[1], x.shape[2]
    flat, target = x.reshape(-1), out.reshape(-1)
    item = start
    while item < stop:
        a = item // count
        last = min(stop, (a + 1) * count)
        origin, before = a * size, a * count
        if item - start < count:  # each index once, not for every a
            if _is_outside(index, item - before, last - before, 0, size):
                outside[0] = 1
                return
        if inner == 1:
            for into in range(item, last):
                place = index[np.uint64(into - before)]
                target[np.uint64(into)] = flat[np.uint64(origin + place)]
        else:
            for m in range(item - before, last - before):
                place = index[np.uint64(m)]
                _put_slice(WRITE, target, (before + m) * inner, flat, (origin + place) * inner, inner)
        item = last


@chunked(noalias=True)
def pick_along(x, index, out, outside, start, stop):
    """out[a, m, c] = x[a, index[a, m, c], c]; items are (a, m). `outside[0]` becomes 1 where an index leaves `x`."""
    size, count, inner = x.shape[1], index.shape[1], index.shape[2]
    flat, places, target = x.reshape(-1), index.reshape(-1), out.reshape(-1)
    origin, done = start // count * size * inner, start % count
    run, left = (inner, inner) if inner > 1 else (count, count - done)
    of = start * inner
    for begin in range(start * inner, stop * inner, BLOCK):
        end = min(begin + BLOCK, stop * inner)
        if _is_outside(places, begin, end, 0, size):
            outside[0] = 1
            return
        first = begin
        while first < end:
            last = min(end, first + left)
            if inner == 1:
                for to in range(first, last):
                    target[np.uint64(to)] = flat[np.uint64(origin + places[np.uint64(to)])]
            else:
                for to in range(first, last):
                    target[np.uint64(to)] = flat[np.uint64(origin - of + places[np.uint64(to)] * inner + to)]
            left -= last - first
            first = last
            if left == 0:  # the next run of neighbours
                left, of = run, last
                done += 1
                if inner == 1 or done == count:
                    done, origin = 0, origin + size * inner


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


@compiled(inline=True)
def _put(how, out, place, value):
    if how == WRITE:
        out[place] = value
    elif how == ADD:
        out[place] += value
    elif how == MULTIPLY:
        out[place] *= value
    else:
        old = out[place]
        better = value > old if how == LARGEST else value < old
        out[place] = value if better | (value != value) else old


@compiled(noalias=True, inline=True)
def _put_run(how, out, at, index, src, begin, end, inner, step, far):
    """out[at + index[m] * inner + m * step] = src[m] (or +=, and so on) for m from begin to end, first to last."""
    m = begin
    if far:
        asked = min(end, index.size - AHEAD)
        while m < asked:
            coming = index[np.uint64(m + AHEAD)] * inner + m * step
            prefetch(out, at + coming + (AHEAD * step if inner > AHEAD else 0))
            _put(how, out, np.uint64(at + index[np.uint64(m)] * inner + m * step), src[np.uint64(m)])
            m += 1
    while m + 4 <= end:  # a store does not wait for the loads behind it
        p0, p1 = index[np.uint64(m)] * inner, index[np.uint64(m + 1)] * inner + step
        p2, p3 = index[np.uint64(m + 2)] * inner + 2 * step, index[np.uint64(m + 3)] * inner + 3 * step
        s0, s1, s2, s3 = src[np.uint64(m)], src[np.uint64(m + 1)], src[np.uint64(m + 2)], src[np.uint64(m + 3)]
        first = at + m * step
        _put(how, out, np.uint64(first + p0), s0)
        _put(how, out, np.uint64(first + p1), s1)
        _put(how, out, np.uint64(first + p2), s2)
        _put(how, out, np.uint64(first + p3), s3)
        m += 4
    while m < end:
        _put(how, out, np.uint64(at + index[np.uint64(m)] * inner + m * step), src[np.uint64(m)])
        m += 1


@compiled(noalias=True, inline=True)
def _put_vector(how, out, index, src, low):
    """out[index[m]] = src[m] (or +=, and so on), first to last; False, with some done, where an index is below `low` or above N - 1.

    Negative ones count from the end.
    """
    size, far = out.size, out.size * out.itemsize > NEAR
    for begin in range(0, index.size, BLOCK):
        end = min(index.size, begin + BLOCK)
        if not _is_outside(index, begin, end, 0, size):
            _put_run(how, out, 0, index, src, begin, end, 1, 0, far)
        elif _is_outside(index, begin, end, low, size):
            return False
        else:
            for m in range(begin, end):
                place = index[np.uint64(m)]
                _put(how, out, np.uint64(place + (size & (place >> 63))), src[np.uint64(m)])
    return True


@compiled(noalias=True)
def _add_elements(out, index, src, low):
    return _put_vector(ADD, out, index, src, low)


@compiled(noalias=True)
def write_vector(out, index, src, low):
    """See `_put_vector`."""
    return _put_vector(WRITE, out, index, src, low)


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
            place, coming = index[np.uint64(m)], index[np.uint64(min(m + AHEAD, end - 1))]
            prefetch(out, coming + (out.size & (coming >> 63)))
            out[np.uint64(place + (out.size & (place >> 63)))] = value


@chunked(noalias=True)
def add_own(out, index, src, start, stop):
    """out[index[m]] += src[m], first to last, for the elements of `out` from start to stop, which are the items.

    What is a part's own of each BLOCK is listed first. The index has been checked.
    """
    own = np.empty(BLOCK + 1, np.int32)
    width = np.uint64(stop - start)
    for begin in range(0, index.size, BLOCK):
        own_entries = 0
        for m in range(min(BLOCK, index.size - begin)):
            own[np.uint64(own_entries)] = m
            own_entries += np.int64(np.uint64(index[np.uint64(begin + m)] - start) < width)
        for k in range(own_entries):
            m = begin + np.int64(own[np.uint64(k)])
            out[np.uint64(index[np.uint64(m)])] += src[np.uint64(m)]


@compiled(noalias=True, inline=True)
def _put_along(how, out, index, src, outside, start, stop):
    """out[a, index[a, m, c], c] = src[a, m, c] (or +=, and so on), first to last; items are (a, 16 columns).

    outside[0] = 1 for an index outside.
    """
    size, count, inner = out.shape[1], index.shape[1], index.shape[2]
    target, places, source = out.reshape(-1), index.reshape(-1), src.reshape(-1)
    blocks, plane = (inner + LINE - 1) // LINE, count * inner
    far = size * inner * out.itemsize > NEAR
    item = start
    while item < stop:
        a, first = item // blocks, item % blocks
        last = min(blocks, first + stop - item)
        origin = a * size * inner
        if last - first < blocks:
            begin, end = first * LINE, min(inner, last * LINE)
            for row in range(a * plane, (a + 1) * plane, inner):
                if _is_outside(places, row + begin, row + end, 0, size):
                    outside[0] = 1
                    return
                _put_run(how, target, origin - row, places, source, row + begin, row + end, inner, 1, far)
            item += last - first
            continue
        # whole planes: their runs of neighbours may be short, so the index is looked at in blocks of its own
        of, run, done, most = a * plane, (inner if inner > 1 else count), 0, stop // blocks * plane
        for begin in range(of, most, BLOCK):
            end = min(begin + BLOCK, most)
            if _is_outside(places, begin, end, 0, size):
                outside[0] = 1
                return
            m = begin
            while m < end:
                until = min(end, of + run)
                if inner == 1:
                    _put_run(how, target, origin, places, source, m, until, 1, 0, far)
                else:
                    _put_run(how, target, origin - of, places, source, m, until, inner, 1, far)
                m = until
                if m == of + run:
                    of += run
                    done += 1
                    if inner == 1 or done == count:
                        done, origin = 0, origin + size * inner
        item = stop // blocks * blocks


@chunked(noalias=True)
def write_along(out, index, src, outside, start, stop):
    """See `_put_along`."""
    _put_along(WRITE, out, index, src, outside, start, stop)


@chunked(noalias=True)
def add_along(out, index, src, outside, start, stop):
    """See `_put_along`."""
    _put_along(ADD, out, index, src, outside, start, stop)


@compiled(noalias=True, inline=True)
def _put_slice(how, target, into, source, of, inner):
    c = 0
    while c + LINE <= inner:
        if how == ADD:
            add_line(target, into + c, source, of + c)
        else:
            copy_line(target, into + c, source, of + c)
        c += LINE
    while c < inner:
        _put(how, target, np.uint64(into + c), source[np.uint64(of + c)])
        c += 1


@compiled(noalias=True, inline=True)
def _put_slices(how, out, index, src, low, outside, start, stop):
    """out[a, index[m]] = src[a, m] (or +=), first to last; items are a, and `src` may have one slice for all of them.

    outside[0] = 1 for an index below `low`, which may be -N, or above N - 1.
    """
    size, count, inner = out.shape[1], index.size, out.shape[2]
    target, source = out.reshape(-1), src.reshape(-1)
    for a in range(start, stop):
        of = a * count if src.shape[0] > 1 else 0
        if inner == 1:
            if not _put_vector(how, target[a * size : (a + 1) * size], index, source[of : of + count], low):
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
                _put_slice(how, target, place * inner, source, (of + m) * inner, inner)


@chunked(noalias=True)
def add_slices(out, index, src, low, outside, start, stop):
    """See `_put_slices`."""
    _put_slices(ADD, out, index, src, low, outside, start, stop)


@chunked(noalias=True)
def write_slices(out, index, src, low, outside, start, stop):
    """See `_put_slices`."""
    _put_slices(WRITE, out, index, src, low, outside, start, stop)


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
        own_entries = 0
        for m in range(begin, end):
            place = index[np.uint64(m)]
            place += (size & (place >> 63)) - start
            own[np.uint64(own_entries)] = m
            own_entries += np.int64(np.uint64(place) < np.uint64(stop - start))
        for k in range(own_entries):
            m = own[np.uint64(k)]
            place = index[np.uint64(m)]
            place += size & (place >> 63)
            _put_slice(ADD, target, place * inner, source, m * inner, inner)


@chunked(noalias=True)
def reduce_along(out, index, src, how, outside, start, stop):
    """See `_put_along`; `how` is MULTIPLY, LARGEST or SMALLEST. NaN stays."""
    if how == MULTIPLY:
        _put_along(MULTIPLY, out, index, src, outside, start, stop)
    elif how == LARGEST:
        _put_along(LARGEST, out, index, src, outside, start, stop)
    else:
        _put_along(SMALLEST, out, index, src, outside, start, stop)


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
