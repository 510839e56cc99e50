"""Few elements of several arrays one after the other. The list of the arrays, or of the tensors that have them, comes by identity."""

import numpy as np

from dynograd.kernels.small.objects_numba import (
    array_in,
    bits32,
    copy_bytes,
    count_of,
    data_of,
    elements_of,
    entry,
    extent,
    in_order,
    itemsize_of,
    letter_of,
    ndim_of,
)


@entry
def length(listed, fields, dim):
    """How long the arrays are together along `dim`, which counts from the front; 0 where they have not so many dims."""
    total = 0
    for position in range(count_of(listed)):
        array = array_in(listed, position, fields)
        if array == 0 or not 0 <= dim < ndim_of(array):
            return 0
        total += extent(array, dim)
    return total


@entry
def join(listed, fields, dim, beside, out):
    """Writes them one after the other into the new array `out`, or `beside` each other along a new dim; False where they do not fill it.

    Args:
        fields: where fields of tensors lie, see `objects_numba.array_in`.
    """
    letter, rank = letter_of(out), ndim_of(out)
    size = itemsize_of(letter)
    if size == 0 or dim < 0 or dim >= rank or not in_order(out):
        return False
    lines, line, at, filled = elements_of(out, 0, dim), elements_of(out, dim, rank) * size, 0, 0
    for position in range(count_of(listed)):
        array = array_in(listed, position, fields)
        if array == 0 or letter_of(array) != letter or ndim_of(array) != rank - beside or not in_order(array):
            return False
        for place in range(rank - beside):
            own = extent(array, place)
            if place < dim:
                if own != extent(out, place):
                    return False
            elif (beside or place > dim) and own != extent(out, place + beside):
                return False
        run, come, to = elements_of(array, dim, rank - beside) * size, data_of(array), data_of(out) + at
        if at + run > line:
            return False
        if run == size == 4:  # single elements
            target, source = bits32(out, lines * line // 4), bits32(array, lines)
            for place in range(lines):
                target[np.uint64((place * line + at) // 4)] = source[np.uint64(place)]
        else:
            for _ in range(lines):
                copy_bytes(to, come, run)
                to, come = to + line, come + run
        at += run
        filled += 1 if beside else extent(array, dim)
    return filled == extent(out, dim)
