"""Triangles and diagonals of NumPy matrices."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build.sizes import COPIED_BYTES, UFUNC
from dynograd.kernels.elementwise.ufuncs import KEPT
from dynograd.kernels.layout.copies_cpu import bits, contiguous
from dynograd.kernels.small.few_cpu import entries


def tril(x, diagonal):
    """The elements on and below a diagonal of the last two dims; zeros above."""
    if x.nbytes >= COPIED_BYTES and x.itemsize <= 8:
        return _compiled(x, diagonal, True)
    return _kept(x, _triangle(*x.shape[-2:], diagonal, True))


def triu(x, diagonal):
    """The elements on and above a diagonal of the last two dims; zeros below."""
    if x.nbytes >= COPIED_BYTES and x.itemsize <= 8:
        return _compiled(x, diagonal, False)
    return _kept(x, _triangle(*x.shape[-2:], diagonal, False))


def tril_few(x, diagonal):
    """`tril` of a small matrix in order; None for others."""
    return _few(x, diagonal, 1)


def triu_few(x, diagonal):
    """The same of `triu`."""
    return _few(x, diagonal, 0)


def _few(x, diagonal, lower):
    if type(diagonal) is not int or x.nbytes >= COPIED_BYTES:
        return None
    out = np.empty(x.shape, x.dtype)
    return out if entries["writes.keep_triangle"](id(x), id(out), diagonal, lower) else None


def keep_triangle(x, diagonal, lower, out):
    """The same of a small matrix of floats into `out`, which may be `x`; False where it is none, and nothing is written."""
    if x.ndim != 2 or x.nbytes >= COPIED_BYTES or type(diagonal) is not int:
        return False
    keep = KEPT[x.dtype.char]
    if keep is None:
        return False
    rows, columns = x.shape
    mask = _triangle(rows, columns, diagonal, lower)
    if x.size >= UFUNC:
        keep(mask, x, out=out)
    else:
        out[...] = _kept(x, mask)
    return True


def _compiled(x, diagonal, lower):
    from dynograd.kernels.layout.copies_numba import copy_triangle

    result = buffers.empty(x.shape, x.dtype)
    rows, columns = x.shape[-2:]
    flat, out = bits(contiguous(x)).reshape(-1), bits(result).reshape(-1)
    copy_triangle(flat, rows, columns, diagonal, lower, out, count=x.size // columns, work=x.size)
    return result


@lru_cache(64)
def _triangle(rows, columns, diagonal, lower):
    return np.tri(rows, columns, diagonal, bool) if lower else ~np.tri(rows, columns, diagonal - 1, bool)


def _kept(x, mask):
    if x.size >= UFUNC and x.flags.c_contiguous and KEPT[x.dtype.char] is not None:
        return KEPT[x.dtype.char](mask, x)
    result = np.zeros(x.shape, x.dtype)
    np.copyto(result, x, where=mask)
    return result


def triangle_indices(rows, columns, offset, lower):
    """(2, N): row and column numbers of the elements on and below (or above) a diagonal, row by row."""
    return (
        _few_indices(rows, columns, offset, lower).copy()
        if rows * columns <= 1024
        else _indices(rows, columns, offset, lower)
    )


def _indices(rows, columns, offset, lower):
    row, column = np.arange(offset, rows + offset)[:, None], np.arange(columns)
    return np.array((column <= row if lower else column >= row).nonzero(), np.int64)


_few_indices = lru_cache(256)(_indices)
