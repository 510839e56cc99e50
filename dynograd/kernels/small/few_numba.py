"""Reductions and scans of few elements: the same bits as NumPy's, whose calls cost more than the work. Arrays are row-major."""

import numpy as np

from dynograd.kernels.build.compiling_numba import compiled

_inline = compiled(inline=True, exact=True)
_1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(n) for n in range(1, 9))
_BLOCK = 128  # elements that NumPy adds in eight lanes before it cuts a row in halves


@_inline
def _block(x, first, n):
    """The sum of at most 128 elements from `first` on."""
    start, count = np.uint64(first), np.uint64(n)
    if n < 8:
        total = x.dtype.type(-0.0)
        for i in range(count):
            total += x[start + i]
        return total
    a, b, c, d = x[start], x[start + _1], x[start + _2], x[start + _3]
    e, f, g, h = x[start + _4], x[start + _5], x[start + _6], x[start + _7]
    whole = count - (count & _7)
    for i in range(start + _8, start + whole, _8):
        a, b, c, d = a + x[i], b + x[i + _1], c + x[i + _2], d + x[i + _3]
        e, f, g, h = e + x[i + _4], f + x[i + _5], g + x[i + _6], h + x[i + _7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(start + whole, start + count):
        total += x[i]
    return total


def _by_halves(below, depth):
    @compiled(exact=True, key=f"halves {depth}")
    def pairwise(x, first, n):
        if n <= _BLOCK:
            return _block(x, first, n)
        half = n // 2
        half -= half % 8
        return below(x, first, half) + below(x, first + half, n - half)

    return pairwise


# The sum of at most 8192 elements of a row as NumPy adds it: in halves whose sizes are multiples of 8.
_pairwise = _block
for _depth in range(8):
    _pairwise = _by_halves(_pairwise, _depth)


@compiled(exact=True)
def total(x, out):
    """out[()] = the sum of the vector `x`."""
    out[()] = x.dtype.type(0) + _pairwise(x, 0, x.size)


@compiled(exact=True)
def totals(x, dim, out):
    """The sums of a matrix over `dim`."""
    rows, columns = x.shape
    flat = x.reshape(-1)
    if columns == 1 and dim == 0:  # to NumPy it is a row
        out[0] = x.dtype.type(0) + _pairwise(flat, 0, rows)
        return
    if dim == 1:
        for i in range(rows):
            out[i] = x.dtype.type(0) + _pairwise(flat, i * columns, columns)
        return
    out[:] = 0
    for i in range(rows):
        for j in range(columns):
            out[j] += x[i, j]


@compiled(exact=True)
def product(x, out):
    """out[()] = the product of the vector `x`."""
    result = x.dtype.type(1)
    for i in range(x.size):
        result *= x[i]
    out[()] = result


@compiled
def any_of(x, value):
    """Whether an element of the vector is `value`."""
    for element in x:  # noqa: SIM110
        if element == value:
            return True
    return False


@compiled(exact=True)
def equal(x, y):
    """Whether all elements of two vectors or matrices of one shape are equal."""
    mine, other = x.reshape(-1), y.reshape(-1)
    for first in range(0, x.size, _BLOCK):
        unequal = 0
        for i in range(np.uint64(first), np.uint64(min(first + _BLOCK, x.size))):
            unequal += mine[i] != other[i]
        if unequal:
            return False
    return True


@compiled(exact=True, noalias=True)
def outer(x, y, out):
    """out[i, j] = x[i] * y[j]."""
    for i in range(np.uint64(x.size)):
        factor, row = x[i], out[i]
        for j in range(np.uint64(y.size)):
            row[j] = factor * y[j]


@compiled(exact=True, noalias=True)
def differences(x, y, out):
    """out[i, j] = x[i] - y[j], of rows."""
    for i in range(np.uint64(x.shape[0])):
        element = x[i]
        for j in range(np.uint64(y.shape[0])):
            other, row = y[j], out[i, j]
            for k in range(np.uint64(x.shape[1])):
                row[k] = element[k] - other[k]


@compiled(exact=True)
def distinct(x, out):
    """How many distinct elements the vector has, which stand at the beginning of `out` in ascending order, NaN last.

    -1 where two of them are equal and differ all the same: 0 and -0.
    """
    count = 0
    for i in range(x.size):
        element = x[i]
        place = count
        while place > 0 and _before(element, out[place - 1], False):
            place -= 1
        if place > 0:
            other = out[place - 1]
            if other == element:
                if element == 0 and np.copysign(1.0, element) != np.copysign(1.0, other):
                    return -1
                continue
            if element != element and other != other:
                continue
        for j in range(count, place, -1):
            out[j] = out[j - 1]
        out[place] = element
        count += 1
    return count


@compiled(exact=True)
def lower_median(x, out):
    """out[()] = the lower median of the vector (not empty), of equals the first; NaN where there is one."""
    n = x.size
    kept = np.empty(n, x.dtype)
    for i in range(n):
        if x[i] != x[i]:
            out[()] = x[i]
            return
        kept[i] = x[i]
    place, low, high = (n - 1) // 2, 0, n - 1
    while low < high:  # Hoare's find
        pivot, i, j = kept[place], low, high
        while i <= j:
            while kept[i] < pivot:
                i += 1
            while pivot < kept[j]:
                j -= 1
            if i <= j:
                kept[i], kept[j] = kept[j], kept[i]
                i, j = i + 1, j - 1
        if j < place:
            low = i
        if place < i:
            high = j
    for i in range(n):
        if x[i] == kept[place]:
            out[()] = x[i]
            return


@compiled(exact=True)
def running_sum(x, dim, nothing, out):
    """The sums of a matrix so far along `dim`; `nothing` is what they begin with, of the dtype in which they are summed."""
    rows, columns = x.shape
    if dim == 1:
        for i in range(rows):
            total = nothing
            for j in range(columns):
                total += x[i, j]
                out[i, j] = total
        return
    for j in range(columns):
        total = nothing
        for i in range(rows):
            total += x[i, j]
            out[i, j] = total


@_inline
def _better(new, other, largest):
    return other != other or (other > new if largest else other < new)


@compiled(exact=True)
def top(x, largest, values, places):
    """The first columns of each row of a matrix in order, as many as `values` has, and where they were; equals stay in theirs."""
    k = values.shape[1]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            element = x[i, j]
            filled = min(j, k)
            if filled == k and not _before(element, values[i, k - 1], largest):
                continue
            place = filled if filled < k else k - 1
            while place > 0 and _before(element, values[i, place - 1], largest):
                values[i, place], places[i, place] = values[i, place - 1], places[i, place - 1]
                place -= 1
            values[i, place], places[i, place] = element, j


@_inline
def _before(new, other, largest):
    """Whether `one` comes before `other`; NaN is the largest."""
    if largest:
        return new > other or (new != new and other == other)
    return new < other or (other != other and new == new)


@compiled(exact=True)
def extremes(x, dim, largest, values, places):
    """The largest or smallest of a matrix (not empty) along `dim`, and, where `places` has room, which is the first such. NaN wins."""
    rows, columns = x.shape
    if dim == 1:
        for i in range(rows):
            row, last = x[i], np.uint64(columns)
            a = b = c = d = row[0]
            whole = last - (last & _3)
            for j in range(np.uint64(0), whole, _4):
                a = row[j] if _better(a, row[j], largest) else a
                b = row[j + _1] if _better(b, row[j + _1], largest) else b
                c = row[j + _2] if _better(c, row[j + _2], largest) else c
                d = row[j + _3] if _better(d, row[j + _3], largest) else d
            for j in range(whole, last):
                a = row[j] if _better(a, row[j], largest) else a
            a = b if _better(a, b, largest) else a
            c = d if _better(c, d, largest) else c
            values[i] = c if _better(a, c, largest) else a
    else:
        values[:] = x[0]
        for i in range(1, rows):
            for j in range(columns):
                values[j] = x[i, j] if _better(values[j], x[i, j], largest) else values[j]
    for k in range(places.size):
        best = values[k]
        for m in range(x.shape[dim]):
            element = x[k, m] if dim == 1 else x[m, k]
            if element == best or (element != element and best != best):
                places[k] = m
                break
