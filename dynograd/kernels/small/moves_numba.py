"""Few elements in another order, and the places of some: entries of `objects_numba`, which say whether they have done it."""

import numpy as np

from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.small.objects_numba import (
    BOOL,
    DOUBLE,
    FLOAT,
    LONG,
    MOST,
    bits32,
    bools,
    bytes_of,
    copy_bytes,
    data_of,
    elements_of,
    entry,
    extent,
    in_order,
    itemsize_of,
    letter_of,
    longs,
    ndim_of,
    same_shape,
    zero_bytes,
)

_inline = compiled(inline=True)


@entry
def turn(x, out, dim, begin, step):
    """out[..., k, ...] = x[..., begin + k * step, ...] along `dim`, round the ends; `step` is 1 or -1."""
    letter, rank = letter_of(x), ndim_of(x)
    size = itemsize_of(letter)
    if size == 0 or letter_of(out) != letter or bytes_of(x) > MOST or not in_order(x) or not in_order(out):
        return False
    if not same_shape(x, out) or not 0 <= dim < rank:
        return False
    many, count, run = elements_of(x, 0, dim), extent(x, dim), elements_of(x, dim + 1, rank) * size
    if not 0 <= begin < count:
        return False
    to, come = data_of(out), data_of(x)
    if step == 1:
        cut = begin * run
        for _ in range(many):
            copy_bytes(to, come + cut, count * run - cut)
            copy_bytes(to + count * run - cut, come, cut)
            to, come = to + count * run, come + count * run
    elif run == size == 4:
        target, source = bits32(out, many * count), bits32(x, many * count)
        for line in range(many):
            for k in range(count):
                place = begin - k if k <= begin else begin - k + count
                target[np.uint64(line * count + k)] = source[np.uint64(line * count + place)]
    else:
        for _ in range(many):
            for k in range(count):
                place = begin - k if k <= begin else begin - k + count
                copy_bytes(to + k * run, come + place * run, run)
            to, come = to + count * run, come + count * run
    return True


@_inline
def _bits_that_count(letter):
    """Of an element: all but the sign of floats, whose -0.0 is 0."""
    return (
        np.int64(0x7FFFFFFFFFFFFFFF) if letter == DOUBLE else np.int64(0x7FFFFFFF) if letter == FLOAT else np.int64(-1)
    )


@entry
def count(x):
    """One more than the elements that are not 0; 0 for arrays that `rows` does not take."""
    letter, total = letter_of(x), 1
    if letter not in (BOOL, FLOAT, DOUBLE, LONG) or bytes_of(x) > MOST or not in_order(x) or ndim_of(x) == 0:
        return 0
    elements, kept = elements_of(x, 0, ndim_of(x)), _bits_that_count(letter)
    if letter == BOOL:
        small = bools(x, elements)
        for i in range(elements):
            total += small[i] != 0
    elif letter == FLOAT:
        middle = bits32(x, elements)
        for i in range(elements):
            total += (middle[i] & kept) != 0
    else:
        large = longs(x, elements)
        for i in range(elements):
            total += (large[i] & kept) != 0
    return total


@_inline
def _row(out, at, place, x, rank):
    """Writes the index of an element into a row."""
    for dim in range(rank - 1, 0, -1):
        size = extent(x, dim)
        above = place // size
        out[np.uint64(at + dim)] = place - above * size
        place = above
    out[np.uint64(at)] = place


@entry
def rows(x, out):
    """The indices of the elements that are not 0, as many as `count` told."""
    letter, rank, at = letter_of(x), ndim_of(x), 0
    if letter not in (BOOL, FLOAT, DOUBLE, LONG) or letter_of(out) != LONG or not in_order(x) or not in_order(out):
        return False
    elements, most, kept = elements_of(x, 0, rank), elements_of(out, 0, ndim_of(out)), _bits_that_count(letter)
    places = longs(out, most)
    small, middle, large = bools(x, elements), bits32(x, elements), longs(x, elements)
    for i in range(elements):
        if letter == BOOL:
            kept_row = small[i] != 0
        elif letter == FLOAT:
            kept_row = (middle[i] & kept) != 0
        else:
            kept_row = (large[i] & kept) != 0
        if kept_row:
            if at + rank > most:
                return False
            _row(places, at, i, x, rank)
            at += rank
    return at == most


@entry
def classes(x):
    """One more than the highest of few int64 numbers; 0 where one is negative, or there is none."""
    if letter_of(x) != LONG or bytes_of(x) > MOST or not in_order(x):
        return 0
    elements, most = elements_of(x, 0, ndim_of(x)), -1
    numbers = longs(x, elements)
    for i in range(elements):
        if numbers[i] < 0:
            return 0
        most = max(most, numbers[i])
    return most + 1


@entry
def one_hot(x, out):
    """A row of `out` for each number in `x`: 1 at its place, else 0."""
    if letter_of(x) != LONG or letter_of(out) != LONG or not in_order(x) or not in_order(out):
        return False
    elements, width = elements_of(x, 0, ndim_of(x)), extent(out, ndim_of(out) - 1)
    if elements_of(out, 0, ndim_of(out)) != elements * width:
        return False
    numbers, target = longs(x, elements), longs(out, elements * width)
    zero_bytes(data_of(out), bytes_of(out))
    for i in range(elements):
        if not 0 <= numbers[i] < width:
            return False
        target[i * width + numbers[i]] = 1
    return True
