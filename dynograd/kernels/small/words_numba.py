"""What a compiled step compares and copies in each call: entries of `objects_numba`."""

from __future__ import annotations

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

__all__ = ["copied_alike", "first_other"]


@entry
def _first_other(rows, start, stop):
    for row in range(start, stop):
        if word_at(word_at(rows + 16 * row)) != word_at(rows + 16 * row + 8):
            return row
    return stop


@entry
def _copied_alike(x, out):
    letter = letter_of(x)
    if letter_of(out) != letter or itemsize_of(letter) == 0 or not in_order(x) or not may_be_written(out):
        return False
    if not same_shape(x, out):
        return False
    for dim in range(ndim_of(x)):
        if stride(x, dim) != stride(out, dim):
            return False
    copy_bytes(data_of(out), data_of(x), bytes_of(x))
    return True


first_other = called_directly(_first_other)
"""Of the rows (address, what is expected there) at the address `rows`, from `start` to before `stop`, the first that another word is at; or `stop`."""

copied_alike = called_directly(_copied_alike)
"""Copies array `x` into `out`, both in row-major order; False, and nothing is done, where they differ in dtype, shape or strides."""
