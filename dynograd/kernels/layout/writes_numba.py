"""Numba kernels of writes: where a mask says so, without a branch for each element; and of few elements."""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
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
    doubles,
    elements_of,
    entry,
    extent,
    floats,
    in_order,
    itemsize_of,
    letter_of,
    longs,
    may_be_written,
    ndim_of,
    same_shape,
    zero_bytes,
)

_inline = compiled(inline=True)


@chunked
def fill_where(out, mask, value, start, stop):
    """out[i] = value where mask[i] is 1; items are elements of vectors."""
    for i in range(start, stop):
        out[np.uint64(i)] = value if mask[np.uint64(i)] else out[np.uint64(i)]


@compiled(noalias=True)
def write_where(out, mask, src):
    """The elements of `src`, one after the other, where the mask is 1; there are enough."""
    taken, last = np.uint64(0), np.uint64(src.size - 1)
    for i in range(out.size):
        chosen = mask[np.uint64(i)]
        out[np.uint64(i)] = src[min(taken, last)] if chosen else out[np.uint64(i)]
        taken += np.uint64(chosen)


@compiled
def combined(old, value, how):
    """`value` (how 0), or sum (1), product (2), maximum (3) or minimum (4) of the two; NaN stays."""
    if how == 0:
        return value
    if how == 1:
        return old + value
    if how == 2:
        return old * value
    if how == 3:
        return value if value > old or value != value else old
    return value if value < old or value != value else old


# --- few elements ------------------------------------------------------------------------------------------------------------
# Arrays come by identity; False, and nothing written, where they are not what the kernel is for.


@entry
def zero(x):
    """x.zero_()"""
    count = bytes_of(x)
    if itemsize_of(letter_of(x)) == 0 or count > MOST or not may_be_written(x):
        return False
    zero_bytes(data_of(x), count)
    return True


@entry
def fill(x, value: float):
    """x.fill_(value) of floats."""
    letter, count = letter_of(x), elements_of(x, 0, ndim_of(x))
    if (letter != FLOAT and letter != DOUBLE) or bytes_of(x) > MOST or not may_be_written(x):
        return False
    if letter == FLOAT:
        target, number = floats(x, count), np.float32(value)
        for i in range(count):
            target[i] = number
    else:
        wide = doubles(x, count)
        for i in range(count):
            wide[i] = value
    return True


@entry
def fill_few_where(x, mask, value: float):
    """x.masked_fill_(mask, value) of floats, with a mask of their shape."""
    letter, count = letter_of(x), elements_of(x, 0, ndim_of(x))
    if (letter != FLOAT and letter != DOUBLE) or bytes_of(x) > MOST or not may_be_written(x):
        return False
    if letter_of(mask) != BOOL or not in_order(mask) or not same_shape(x, mask):
        return False
    chosen = bools(mask, count)
    if letter == FLOAT:
        target, number = floats(x, count), np.float32(value)
        for i in range(count):
            target[i] = number if chosen[i] else target[i]
    else:
        wide = doubles(x, count)
        for i in range(count):
            wide[i] = value if chosen[i] else wide[i]
    return True


@_inline
def _write_from(target, chosen, source, count, value):
    needed = 0
    for i in range(count):
        needed += chosen[np.uint64(i)] != 0
    if value < needed:
        return False
    taken, last = np.uint64(0), np.uint64(max(value - 1, 0))
    for i in range(count if needed else 0):
        is_chosen = chosen[np.uint64(i)] != 0
        target[np.uint64(i)] = source[min(taken, last)] if is_chosen else target[np.uint64(i)]
        taken += np.uint64(is_chosen)
    return True


@entry
def write_few_where(x, mask, src):
    """`write_where`; False as well where there are not enough elements."""
    letter, count = letter_of(x), elements_of(x, 0, ndim_of(x))
    size, operands = itemsize_of(letter), elements_of(src, 0, ndim_of(src))
    if letter_of(src) != letter or (size != 4 and size != 8) or count * size > MOST or not may_be_written(x):
        return False
    if letter_of(mask) != BOOL or not in_order(mask) or not in_order(src) or not same_shape(x, mask):
        return False
    if size == 4:
        return _write_from(bits32(x, count), bools(mask, count), bits32(src, operands), count, operands)
    return _write_from(longs(x, count), bools(mask, count), longs(src, operands), count, operands)


@_inline
def _number_kind(x, src):
    """The letter of the dtype that both have; 0 where it is none of those that are added, or they do not lie in order."""
    letter = letter_of(x)
    if letter != letter_of(src) or not may_be_written(x) or not in_order(src) or bytes_of(x) > MOST:
        return 0
    return letter if letter in (FLOAT, DOUBLE, LONG) else 0


@_inline
def _inside(index, count, size):
    """Whether all are from 0 to size - 1."""
    beyond = np.int64(0)
    for k in range(count):
        place = index[np.uint64(k)]
        beyond |= place | (size - 1 - place)  # one of them is negative
    return beyond >= 0


@_inline
def _write_elements(x, index, src, rows, columns, width, dim, how):
    line, step = (0, width) if dim == 0 else (width, 1)  # where row i begins, how far apart places are
    for i in range(rows):
        first, own = i * columns, 1 if dim == 0 else 0
        if how == 0:
            for j in range(columns):
                at = index[np.uint64(first + j)] * step + i * line + j * own
                x[np.uint64(at)] = src[np.uint64(first + j)]
        elif how == 1:
            for j in range(columns):
                at = index[np.uint64(first + j)] * step + i * line + j * own
                x[np.uint64(at)] += src[np.uint64(first + j)]
        else:
            for j in range(columns):
                at = index[np.uint64(first + j)] * step + i * line + j * own
                x[np.uint64(at)] = combined(x[np.uint64(at)], src[np.uint64(first + j)], how)


@entry
def write_few(x, index, src, dim, how):
    """x.scatter_(dim, index, src), or what `combined` makes, of vectors and matrices."""
    letter, rank = _number_kind(x, src), ndim_of(x)
    if letter == 0 or rank < 1 or rank > 2 or letter_of(index) != LONG or not in_order(index):
        return False
    if not same_shape(index, src) or ndim_of(index) != rank or dim < 0 or dim >= rank:
        return False
    rows, height = (extent(index, 0), extent(x, 0)) if rank == 2 else (1, 1)
    columns, width = extent(index, rank - 1), extent(x, rank - 1)
    along = dim + 2 - rank
    size = height if along == 0 else width
    if (columns > width) if along == 0 else (rows > height):
        return False
    places = longs(index, rows * columns)
    if not _inside(places, rows * columns, size):
        return False
    if letter == FLOAT:
        _write_elements(
            floats(x, height * width), places, floats(src, rows * columns), rows, columns, width, along, how
        )
    elif letter == DOUBLE:
        _write_elements(
            doubles(x, height * width), places, doubles(src, rows * columns), rows, columns, width, along, how
        )
    else:
        _write_elements(longs(x, height * width), places, longs(src, rows * columns), rows, columns, width, along, how)
    return True


@_inline
def _write_slices(x, index, src, rows, columns, width, dim, how):
    for i in range(rows):
        for j in range(columns):
            at = index[i] * width + j if dim == 0 else i * width + index[j]
            x[at] = combined(x[at], src[i * columns + j], how)


@entry
def write_few_slices(x, index, src, dim, how):
    """x.index_copy_(dim, index, src), or what `combined` makes, of matrices."""
    letter = _number_kind(x, src)
    if letter == 0 or ndim_of(x) != 2 or ndim_of(src) != 2 or letter_of(index) != LONG or not in_order(index):
        return False
    if ndim_of(index) != 1 or dim < 0 or dim > 1:
        return False
    rows, columns, width = extent(src, 0), extent(src, 1), extent(x, 1)
    count, size = extent(index, 0), extent(x, dim)
    if extent(src, dim) != count or extent(src, 1 - dim) != extent(x, 1 - dim):
        return False
    places = longs(index, count)
    if not _inside(places, count, size):
        return False
    if letter == FLOAT:
        _write_slices(floats(x, size), places, floats(src, rows * columns), rows, columns, width, dim, how)
    elif letter == DOUBLE:
        _write_slices(doubles(x, size), places, doubles(src, rows * columns), rows, columns, width, dim, how)
    else:
        _write_slices(longs(x, size), places, longs(src, rows * columns), rows, columns, width, dim, how)
    return True


@entry
def keep_triangle(x, out, diagonal, lower):
    """out[...] = what is on and below (`lower` 1) a diagonal of the matrix `x`, or on and above it (0); `out` may be `x`."""
    letter = letter_of(x)
    size = itemsize_of(letter)
    if ndim_of(x) != 2 or size == 0 or letter_of(out) != letter or not same_shape(x, out):
        return False
    if bytes_of(x) > MOST or not in_order(x) or not may_be_written(out) or abs(diagonal) > MOST:
        return False
    rows, columns = extent(x, 0), extent(x, 1) * size
    for row in range(rows):
        to, come = data_of(out) + row * columns, data_of(x) + row * columns
        cut = min(max((row + diagonal + lower) * size, 0), columns)
        begin, end = (0, cut) if lower else (cut, columns)
        if to != come:
            copy_bytes(to + begin, come + begin, end - begin)
        zero_bytes(to, begin)
        zero_bytes(to + end, columns - end)
    return True
