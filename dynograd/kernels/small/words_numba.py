"""What a compiled step compares and copies in each call: entries of `objects_numba`."""

from __future__ import annotations

from numba import types

from dynograd.kernels.build.addresses_numba import make_vector
from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.small.objects_numba import (
    bytes_of,
    called_directly,
    copy_bytes,
    data_of,
    entry,
    in_order,
    itemsize_of,
    letter_of,
    may_be_written,
    ndim_of,
    same_shape,
    stride,
    word_at,
)

__all__ = ["copied_alike", "first_other", "pointed_alike"]

_inline = compiled(inline=True)
_words = make_vector(types.int64)


@entry
def _first_other(rows, start, stop):
    for row in range(start, stop):
        if word_at(word_at(rows + 16 * row)) != word_at(rows + 16 * row + 8):
            return row
    return stop


@_inline
def _alike(x, out):
    letter = letter_of(x)
    same = letter_of(out) == letter and itemsize_of(letter) != 0 and in_order(x) and may_be_written(out)
    if not same or not same_shape(x, out):
        return False
    for dim in range(ndim_of(x)):
        same &= stride(x, dim) == stride(out, dim)
    return same


@entry
def _copied_alike(x, out):
    alike = _alike(x, out)
    if alike:
        copy_bytes(data_of(out), data_of(x), bytes_of(x))
    return alike


@entry
def _pointed_alike(x, out, rows, count):
    alike = _alike(x, out)
    if alike:
        start = data_of(x)
        for row in range(count):
            _words(word_at(rows + 16 * row), 1)[0] = start + word_at(rows + 16 * row + 8)
    return alike


first_other = called_directly(_first_other)
"""Of the rows (address, what is expected there) at the address `rows`, from `start` to before `stop`, the first that another word is at; or `stop`."""

copied_alike = called_directly(_copied_alike)
"""Copies array `x` into `out`, both in row-major order; False, and nothing is done, where they differ in dtype, shape or strides."""

pointed_alike = called_directly(_pointed_alike)
"""Writes for each row (address, distance) at the address `rows` there how far from the beginning of `x` that is; False, and nothing is done, where
`x` differs from `out` in dtype or layout."""
