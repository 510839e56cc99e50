"""Sorting and selecting along a dim of NumPy arrays. Equals keep their order (also descending), and NaN counts as the largest.

Rows of numbers of up to 32 bits become 64-bit keys, an order-preserving image of the number above its index: all keys differ, so
NumPy's fastest sort puts them in the one order that there is, with the indices in tow: 4x of a stable argsort on 1M float32.
"""

from __future__ import annotations

import sys
from math import prod
from typing import Any

import numpy

from dynograd.kernels.reductions_cpu import widened

_LOW = 0 if sys.byteorder == "little" else 1
_SIGN = numpy.int32(-(2**31))
_SHORT = 64  # below, making keys costs more than the plain sort


def _rows(input: Any, dim: int) -> Any:
    """`input` with `dim` last, as numbers that NumPy compares well."""
    rows = widened(input)
    if dim != rows.ndim - 1:
        rows = rows.swapaxes(dim, -1)
    return rows.view(numpy.uint8) if rows.dtype.kind == "b" else rows


def _back(rows: Any, dim: int) -> Any:
    return numpy.ascontiguousarray(rows if dim == rows.ndim - 1 else rows.swapaxes(-1, dim))


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
    return _back(_order(_rows(input, dim), descending), dim)


def sort(input: Any, dim: int, descending: bool) -> Any:
    """(values, indices)"""
    index = argsort(input, dim, descending)
    return (take_along(input, index, dim), index) if input.ndim else (input.copy(), index)


def topk(input: Any, k: int, dim: int, largest: bool, ordered: bool) -> Any:
    """(values, indices) of the k largest (or smallest), of equals the first; in the order of the indices unless `ordered`."""
    if not input.ndim:
        return (
            (input.copy(), numpy.zeros((), numpy.int64)) if k else (input.reshape(1)[:0], numpy.zeros(0, numpy.int64))
        )
    rows = _rows(input, dim)
    size = rows.shape[-1]
    if 4 * k > size or size < _SHORT or not rows.size:
        index = _order(rows, largest)[..., :k]
        index = index if ordered else numpy.sort(index, -1)
    else:
        flat = rows.reshape(-1, size)
        index = _chosen(flat, k, largest)
        if ordered and k > 1:
            inner = _order(numpy.take_along_axis(flat, index, -1), largest)
            index = numpy.take_along_axis(index, inner, -1)
        index = index.reshape(*rows.shape[:-1], k)
    index = _back(index, dim)
    return take_along(input, index, dim), index


def _chosen(rows: Any, k: int, largest: bool) -> Any:
    """The indices, in order, of the k largest or smallest of each row."""
    if not k:
        return numpy.zeros((len(rows), 0), numpy.int64)
    size = rows.shape[-1]
    place = size - k if largest else k - 1
    edge = numpy.partition(rows, place, -1)[:, place, None]
    hits = rows >= edge if largest else rows <= edge
    found = hits.reshape(-1).nonzero()[0]
    starts = numpy.arange(0, rows.size, size)
    ends = found.searchsorted(starts + size)
    unclear = numpy.diff(ends, prepend=0) != k
    if rows.dtype.kind == "f" and largest:
        unclear |= numpy.isnan(rows.max(-1))
    if not unclear.any():
        return found.reshape(-1, k) - starts[:, None]
    index = numpy.empty((len(rows), k), numpy.int64)
    clear = ~unclear
    index[clear] = hits[clear].nonzero()[1].reshape(-1, k)
    index[unclear] = numpy.sort(_order(rows[unclear], largest)[:, :k], -1)
    return index


def kthvalue(input: Any, k: int, dim: int, keepdim: bool) -> Any:
    """(values, indices) of the k-th smallest, counted from 1; of equals the first."""
    if not input.ndim:
        return input.copy(), numpy.zeros((), numpy.int64)
    rows = _rows(input, dim)
    edge = numpy.partition(rows, k - 1, -1)[..., k - 1, None]
    return found_at(input, first_equal(rows, edge), dim, keepdim)


def first_equal(rows: Any, values: Any) -> Any:
    """The index of the first element of each row that equals its value; NaN equals NaN."""
    hits = rows == values
    if rows.dtype.kind == "f":
        hits |= (rows != rows) & (values != values)
    return hits.argmax(-1, keepdims=True)


def found_at(input: Any, index: Any, dim: int, keepdim: bool) -> Any:
    """(values, indices) for one index per row: `index` has one place at the end, where the rows had `dim`."""
    index = numpy.ascontiguousarray(index.swapaxes(-1, dim))
    values = take_along(input, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim).copy(), index.squeeze(dim).copy())


# --- the order of a row --------------------------------------------------------------------------------------------------


def _order(rows: Any, descending: bool) -> Any:
    """The stable argsort of the last dim."""
    size = rows.shape[-1]
    if _SHORT <= size < 2**32 and rows.size and rows.dtype in (numpy.float32, numpy.int32):
        return _order_by_keys(rows, descending)
    if not descending:
        return rows.argsort(-1, kind="stable")
    return size - 1 - rows[..., ::-1].argsort(-1, kind="stable")[..., ::-1]


def _order_by_keys(rows: Any, descending: bool) -> Any:
    keys = numpy.empty((*rows.shape, 2), numpy.uint32)
    keys[..., _LOW] = numpy.arange(rows.shape[-1], dtype=numpy.uint32)
    keys[..., 1 - _LOW] = _ordered_bits(rows, descending)
    joined = keys.view(numpy.uint64)[..., 0]
    joined.sort(-1)
    return keys[..., _LOW].astype(numpy.int64)


def _ordered_bits(rows: Any, descending: bool) -> Any:
    """Unsigned numbers in the order of the given ones, or in the opposite order."""
    if rows.dtype.kind == "i":
        bits = rows ^ _SIGN
    else:
        bits = (rows + numpy.float32(0)).view(numpy.int32)  # -0.0 becomes 0.0
        bits ^= (bits >> 31) | _SIGN
        if numpy.isnan(rows.max()):
            bits[numpy.isnan(rows)] = -1
    return (~bits if descending else bits).view(numpy.uint32)
