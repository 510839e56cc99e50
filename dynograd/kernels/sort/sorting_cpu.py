"""Sorting and selecting along a dim of NumPy arrays. Equals keep their order (also descending), and NaN counts as the largest."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays import buffers
from dynograd.kernels.build import threads
from dynograd.kernels.layout.copies_cpu import contiguous
from dynograd.kernels.reduce.reductions_cpu import widened
from dynograd.kernels.small import few_cpu

_MOST_PLACES = 1 << 31  # rows with more need int64 places
NONE = numpy.empty(0, numpy.int64)
PLACES, _WIDE_PLACES = numpy.empty(0, numpy.int32), numpy.empty(0, numpy.int64)
_compiled: Any = None
_LONG = 1 << 15  # elements of a single row that is sorted in parts; where there are many rows, threads take rows
LONGER = 1 << 17
_LONGEST_DIGIT = 10  # bits: more of them are more places to write to than the caches follow
_WORK = 16  # simple operations that sorting an element is like
_TINY = 128  # elements that NumPy has sorted before a compiled kernel is called

# What the kernels need to know of a dtype: its signed and unsigned images, the sign bit, the bits of infinity (0 for integers).
_I4, _I8 = numpy.dtype(numpy.int32), numpy.dtype(numpy.int64)
IMAGES = {
    "f": (_I4, numpy.empty(0, numpy.uint32), numpy.int32(-(2**31)), numpy.int32(0x7F800000)),
    "d": (_I8, numpy.empty(0, numpy.uint64), numpy.int64(-(2**63)), numpy.int64(0x7FF0000000000000)),
    "i": (_I4, numpy.empty(0, numpy.uint32), numpy.int32(-(2**31)), numpy.int32(0)),
    "l": (_I8, numpy.empty(0, numpy.uint64), numpy.int64(-(2**63)), numpy.int64(0)),
}
IMAGES["q"] = IMAGES["l"]
_HALF = numpy.uint64(1 << 63)


def _rows(input: Any, dim: int) -> Any:
    """`input` with `dim` last, as numbers that NumPy compares well."""
    if dim == input.ndim - 1 and input.dtype.char in IMAGES and input.flags.c_contiguous:
        return input
    rows = widened(input)
    if dim != rows.ndim - 1:
        rows = rows.swapaxes(dim, -1)
    if rows.dtype.char not in IMAGES:
        rows = _signed(rows)
    return contiguous(rows)


def _signed(rows: Any) -> Any:
    """Integers as signed ones of a width that the kernels know; uint64 moved down by half its range, which keeps the order."""
    if rows.dtype.kind == "u" and rows.itemsize == 8:
        return (rows ^ _HALF).view(_I8)
    return rows.astype(_I8 if rows.itemsize >= (4 if rows.dtype.kind == "u" else 8) else _I4)


def _as(values: Any, kind: Any) -> Any:
    """Sorted values in the dtype that they had before `_rows`."""
    if kind.kind == "u" and kind.itemsize == 8:
        return values.view(kind) ^ _HALF
    return values.astype(kind, copy=False)


def _back(rows: Any, dim: int) -> Any:
    return rows if dim == rows.ndim - 1 and rows.flags.c_contiguous else contiguous(rows.swapaxes(-1, dim))


def _load() -> Any:
    """The compiled kernels; an import statement in each call would cost more than a small call's arithmetic."""
    global _compiled
    from dynograd.kernels.sort import sorting_numba

    _compiled = sorting_numba
    return sorting_numba


def take_along(input: Any, index: Any, dim: int) -> Any:
    """The elements of `input` at `index` along `dim`; NumPy's `take_along_axis` costs several us for small arrays."""
    if dim != input.ndim - 1 or not input.flags.c_contiguous:
        return numpy.take_along_axis(input, index, dim)
    if input.ndim > 1:
        lead = input.shape[:-1]
        index = index + (numpy.arange(prod(lead)) * input.shape[-1]).reshape(*lead, 1)
    return input.reshape(-1)[index]


def argsort(input: Any, dim: int, descending: bool) -> Any:
    if not input.ndim:
        return numpy.zeros((), numpy.int64)
    if input.size < _TINY and dim == input.ndim - 1 and input.dtype.char in IMAGES:
        return _small_order(input, descending)
    return _back(_ordered(_rows(input, dim), descending, False)[1], dim)


def sort(input: Any, dim: int, descending: bool) -> Any:
    """(values, indices)"""
    if not input.ndim:
        return input.copy(), numpy.zeros((), numpy.int64)
    if input.size < _TINY and dim == input.ndim - 1 and input.dtype.char in IMAGES:
        index = _small_order(input, descending)
        return take_along(input, index, dim), index
    values, index = _ordered(_rows(input, dim), descending, True)
    return _as(_back(values, dim), input.dtype), _back(index, dim)


def ordered_rows(input: Any, dim: int) -> Any:
    """(rows, sorted, order): `input` with `dim` last, as numbers of the same order, and these rows sorted."""
    rows = _rows(input, dim)
    return (rows, *_ordered(rows, False, True))


def sorted_numbers(x: Any) -> Any:
    """A vector sorted, where nobody asks for the order; NaN comes last, and -0.0 is 0.0."""
    out = numpy.sort(x)
    return numpy.add(out, 0, out) if out.dtype.char in "fd" else out


def topk(input: Any, k: int, dim: int, largest: bool, ordered: bool) -> Any:
    """(values, indices) of the k largest (or smallest), of equals the first; in the order of the indices unless `ordered`."""
    if not input.ndim:
        return (
            (input.copy(), numpy.zeros((), numpy.int64)) if k else (input.reshape(1)[:0], numpy.zeros(0, numpy.int64))
        )
    if ordered:
        result = few_cpu.top(input, k, dim, largest)
        if result is not None:
            return result
    rows = _rows(input, dim)
    size = rows.shape[-1]
    shape = (*rows.shape[:-1], k)
    if not rows.size or not k:
        values, index = numpy.zeros(shape, rows.dtype), numpy.zeros(shape, numpy.int64)
    elif 16 * k > size and k > 16:
        values, index = _ordered(rows, largest, True)
        values, index = values[..., :k], index[..., :k]
    else:
        signed, keys, highest, infinity = IMAGES[rows.dtype.char]
        values, index = numpy.empty(shape, rows.dtype), numpy.empty(shape, numpy.int64)
        flat, out, places, count = rows.reshape(-1), values.reshape(-1), index.reshape(-1), rows.size // size
        (_compiled or _load()).top_of_rows(
            flat,
            flat.view(signed),
            keys,
            size,
            NONE,
            NONE,
            k,
            highest,
            infinity,
            largest,
            out,
            places,
            count=count,
            work=rows.size,
        )
    if not ordered:
        order = index.argsort(-1)
        values, index = numpy.take_along_axis(values, order, -1), numpy.take_along_axis(index, order, -1)
    return _as(_back(values, dim), input.dtype), _back(index, dim)


def kthvalue(input: Any, k: int, dim: int, keepdim: bool) -> Any:
    """(values, indices) of the k-th smallest, counted from 1; of equals the first."""
    if not input.ndim:
        return input.copy(), numpy.zeros((), numpy.int64)
    return kth(input, k - 1, dim, keepdim, 0)


def kth(input: Any, k: int, dim: int, keepdim: bool, rule: int) -> Any:
    """(values, indices) of the first element that is k-th (from 0) in its row; for `rule` see `kth_of_rows`."""
    rows = _rows(input, dim)
    size = rows.shape[-1]
    signed, keys, highest, infinity = IMAGES[rows.dtype.char]
    left = rows.shape[:-1]
    values, index = numpy.empty(left, rows.dtype), numpy.empty(left, numpy.int64)
    if index.size:
        flat, out, places = rows.reshape(-1), values.reshape(-1), index.reshape(-1)
        (_compiled or _load()).kth_of_rows(
            flat,
            flat.view(signed),
            keys,
            size,
            NONE,
            NONE,
            k,
            rule,
            highest,
            infinity,
            out,
            places,
            count=index.size,
            work=4 * rows.size,
        )
    if dim != input.ndim - 1:  # the dims behind `dim` are in its place
        values, index = [numpy.moveaxis(array, dim, -1) if array.ndim > 1 else array for array in (values, index)]
        values, index = numpy.ascontiguousarray(values), numpy.ascontiguousarray(index)
    if keepdim:
        shape = (*input.shape[:dim], 1, *input.shape[dim + 1 :])
        values, index = values.reshape(shape), index.reshape(shape)
    return values if values.dtype is input.dtype else _as(values, input.dtype), index


def found_at(input: Any, index: Any, dim: int, keepdim: bool) -> Any:
    """(values, indices) for one index per row: `index` has one place at the end, where the rows had `dim`."""
    index = numpy.ascontiguousarray(index.swapaxes(-1, dim))
    values = take_along(input, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim).copy(), index.squeeze(dim).copy())


# --- the order of a row --------------------------------------------------------------------------------------------------


def _small_order(rows: Any, descending: bool) -> Any:
    if not descending:
        return rows.argsort(-1, kind="stable")
    return rows.shape[-1] - 1 - rows[..., ::-1].argsort(-1, kind="stable")[..., ::-1]


def _ordered(rows: Any, descending: bool, with_values: bool) -> Any:
    """(values or nothing, indices) of the sorted rows."""
    index = buffers.empty(rows.shape, numpy.int64)
    values = buffers.empty(rows.shape if with_values else (0,), rows.dtype)
    if rows.size:
        size = rows.shape[-1]
        signed, keys, highest, infinity = IMAGES[rows.dtype.char]
        flat, out, places, count = rows.reshape(-1), values.reshape(-1), index.reshape(-1), rows.size // size
        if size >= (_LONG if count == 1 else LONGER):
            bits, numbers = flat.view(signed), out.view(keys.dtype)
            for begin in range(0, rows.size, size):
                row = slice(begin, begin + size)
                _sort_long(bits[row], rows.dtype.char, descending, numbers[row], places[row])
            return values, index
        (_compiled or _load()).order_of_rows(
            flat,
            flat.view(signed),
            keys,
            PLACES if size < _MOST_PLACES else _WIDE_PLACES,
            size,
            NONE,
            NONE,
            highest,
            infinity,
            descending,
            out,
            places,
            count=count,
            work=8 * rows.size,
        )
    return values, index


def _sort_long(bits: Any, char: str, turned: bool, values: Any, places: Any) -> None:
    """Sorts a long row of numbers of the kind `char` into `values`, as unsigned `bits`, and their `places`; `values` may be empty."""
    from dynograd.kernels.sort import sorting_radix_numba as radix

    _, keys, highest, infinity = IMAGES[char]
    how, word = (keys, highest, infinity, turned), numpy.uint64
    size = bits.size
    parts = threads.parts(_WORK * size)
    pieces = {"count": parts, "work": _WORK * size, "parts": parts}
    all_words = {**pieces, "count": size}
    spans = numpy.empty((parts, 3), numpy.uint64)
    radix.spans(bits, *how, spans, **pieces)
    lowest, largest = int(spans[:, 0].min()), int(spans[:, 1].max())
    differing = int(numpy.bitwise_or.reduce(spans[:, 2]))
    even = (differing & -differing).bit_length() - 1 if differing else 0
    left = ((largest - lowest) >> even).bit_length()
    place_bits = (size - 1).bit_length()
    room, done = 64 - place_bits, even
    words, moved = buffers.empty((size,), numpy.uint64), buffers.empty((size,), numpy.uint64)
    first, whole = word(lowest), left <= room
    while True:
        taken = left - room * ((left - 1) // room) if left else 0
        mask = word((1 << taken) - 1)
        radix.make_words(bits, *how, first, word(done), mask, word(place_bits), done > even, words, **all_words)
        digits = -(-taken // _LONGEST_DIGIT)
        width = -(-taken // digits) if digits else 0
        for digit in range(digits):
            by, mask = word(place_bits + digit * width), word((1 << width) - 1)
            counts = numpy.empty((parts, 1 << width), numpy.int64)
            radix.count_digits(words, by, mask, counts, **pieces)
            radix.move_words(words, by, mask, _firsts(counts), moved, **pieces)
            words, moved = moved, words
        left, done = left - taken, done + taken
        if not left:
            break
    radix.take_apart(
        words, bits, infinity, turned, first, word(even), word(place_bits), whole, values, places, **all_words
    )


def _firsts(counts: Any) -> Any:
    """Where the words of each part and digit begin: by digits, and within a digit by parts."""
    by_digits = counts.T.reshape(-1)
    return numpy.ascontiguousarray((by_digits.cumsum() - by_digits).reshape(counts.T.shape).T)
