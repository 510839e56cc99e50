"""Writes into an array in its own memory, for in-place ops that nobody records: `fill_`, `index_add_`, `scatter_` and their like.

Each takes what PyTorch's method takes, with arrays for tensors that share no memory with `x`, and says whether it has written.
False (or an error) leaves the call to the op itself, which checks, converts and explains. Large indices are checked while they are
read: when one is outside, those before it may have been written, as in PyTorch.
"""

from __future__ import annotations

import numpy as np

from dynograd.kernels.build.sizes import FEW, LARGE, MASKED_BYTES
from dynograd.kernels.elementwise.ufuncs import number
from dynograd.kernels.index.indexing_cpu import add_at, write_at, write_masked
from dynograd.kernels.index.scatters_cpu import add_along, add_slices, limits, write_along, write_places
from dynograd.kernels.layout import copies_cpu
from dynograd.kernels.layout.copies_cpu import contiguous, kept
from dynograd.kernels.linalg.triangles_cpu import keep_triangle
from dynograd.kernels.small.few_cpu import entries

__all__ = [
    "copy",
    "entries",
    "fill",
    "fill_diagonal",
    "index_add",
    "index_added",
    "index_copied",
    "index_copy",
    "index_fill",
    "index_put",
    "index_was_put",
    "index_filled",
    "mask_filled",
    "masked_fill",
    "masked_scatter",
    "put",
    "scatter",
    "scatter_add",
    "scatter_added",
    "scatter_reduce",
    "scatter_reduced",
    "scattered",
    "tril",
    "triu",
    "zero",
]

# What `write_few` and `write_few_slices` do; numbers of `combined` in `writes_numba.py`.
WRITE, ADD = 0, 1
_REDUCTIONS = {"sum": ADD, "prod": 2, "amax": 3, "amin": 4}
ELEMENTS, SLICES = "writes.write_few", "writes.write_few_slices"
_ALL = (slice(None),) * 64
_INT64 = np.dtype(np.int64)
_FLOATS, _WHOLE = frozenset("fd"), frozenset("lq")
_NUMBERS = _FLOATS | _WHOLE
_REACH = 3.4e38  # what float32 holds, and nearly no more


def fill(x, value):
    """Every element of `x` becomes the number `value`."""
    if not _is_number(x, value) and not _is_whole(x, value):
        return False
    return _fill(x, value)


def zero(x):
    """Every element of `x` becomes 0."""
    return _fill(x, 0)


def _fill(x, value):
    if x.flags.c_contiguous and x.dtype.char in _NUMBERS:
        copies_cpu.fill(x, value)
    else:
        x.fill(value)
    return True


def copy(x, other):
    """x[...] = other, of the same shape and dtype."""
    if other.shape != x.shape or other.dtype != x.dtype:
        return False
    copies_cpu.copy_into(x, other)
    return True


def masked_fill(x, mask, value):
    """`value`, a number, where `mask` is True."""
    if mask.dtype.char != "?" or not (_is_number(x, value) or _is_whole(x, value)):
        return False
    if mask.shape == x.shape:
        if x.nbytes >= MASKED_BYTES and x.flags.c_contiguous and mask.flags.c_contiguous:
            from dynograd.kernels.layout.writes_numba import fill_where

            flat = x.reshape(-1)
            fill_where(flat, mask.reshape(-1).view(np.uint8), x.dtype.type(value), count=flat.size, work=flat.size)
        else:
            np.putmask(x, mask, number(value, x.dtype.char))  # NumPy takes arrays sooner than numbers
    elif mask.ndim <= x.ndim:
        np.copyto(x, value, where=mask)
    else:
        return False
    return True


def masked_scatter(x, mask, source):
    """The first elements of `source`, in order, where `mask` is True."""
    kind = x.dtype
    if mask.shape != x.shape or mask.dtype.char != "?" or source.dtype != kind or not source.flags.c_contiguous:
        return False
    count = int(np.count_nonzero(mask))
    if source.size < count:
        return False
    write_masked(x, mask, source.reshape(-1)[:count])
    return True


def index_fill(x, dim, index, value):
    """`value`, a number, in the slices of `x` at `index`."""
    if not _is_number(x, value):
        return False
    if _is_long_vector(x, index) and _is_vector(x, dim, index):
        write_places(x, contiguous(index), value, -x.size)
        return True
    if not _is_vector(x, dim, index):
        return False
    key = (*_ALL[:dim], index) if dim else index
    if x.size < FEW:
        x[key] = number(value, x.dtype.char)  # NumPy looks at the index first
    else:
        write_at(x, key, value)
    return True


def index_copy(x, dim, index, source):
    """The slices of `source` at `index`."""
    if few(SLICES, x, dim, index, source, WRITE):
        return True
    if _is_long_vector(x, index) and _is_vector(x, dim, index) and _one_for_each(x, dim, index, source):
        write_places(x, contiguous(index), source, 0)
        return True
    key = _slices(x, dim, index, False)
    if key is None or not _one_for_each(x, dim, index, source):
        return False
    write_at(x, key, source)
    return True


def index_add(x, dim, index, source, *, alpha=1):
    """The slices of `source` added at `index`."""
    if alpha == 1 and few(SLICES, x, dim, index, source, ADD):
        return True
    if alpha != 1 or not x.flags.c_contiguous or _is_half(x) or not _is_vector(x, dim, index):
        return False
    if not _one_for_each(x, dim, index, source):
        return False
    add_slices(x, dim, index, source, 0)
    return True


def index_put(x, indices, values, accumulate=False):
    """`values` written or added at index arrays in front."""
    if len(indices) == 1 and indices[0].ndim == 1:
        if few(SLICES, x, 0, indices[0], values, ADD if accumulate else WRITE):
            return True
    if values.dtype != x.dtype or not 0 < len(indices) <= x.ndim:
        return False
    for dim, index in enumerate(indices):
        if type(index) is not np.ndarray or index.dtype is not _INT64 or not index.ndim or not index.size:
            return False
        if accumulate and not _inside(index, x.shape[dim], True):
            return False
    if not accumulate:
        if values.ndim > x.ndim:
            return False
        write_at(x, tuple(indices), values)
        return True
    if not x.flags.c_contiguous or _is_half(x) or not x.size:
        return False
    add_at(x, indices, tuple(range(len(indices))), values)
    return True


def put(x, index, source, accumulate=False):
    """The elements of `source` written or added at the flat positions `index`."""
    if index.dtype is not _INT64 or not index.size or index.size != source.size or source.dtype != x.dtype:
        return False
    if not x.flags.c_contiguous or not x.size or (accumulate and _is_half(x)):
        return False
    if not accumulate and x.size < FEW:
        flat = x if x.ndim == 1 else x.reshape(-1)
        flat[index if index.ndim == 1 else index.reshape(-1)] = source if source.ndim == 1 else source.reshape(-1)
        return True
    flat, places, values = x.reshape(-1), contiguous(index).reshape(-1), contiguous(source).reshape(-1)
    if accumulate:
        if not _inside(places, x.size, True):
            return False
        add_slices(flat, 0, places, values)
    elif _is_long_vector(flat, places):
        write_places(flat, places, values, -x.size)
    else:
        flat[places] = values
    return True


def scatter(x, dim, index, src):
    """`src`, a number or of index's shape, written at `index` along `dim`."""
    values = src
    if type(src) is not np.ndarray and x.size < FEW and _is_number(x, src):
        values = _filled(index.shape, src, x)
    if type(values) is np.ndarray and few(ELEMENTS, x, dim, index, values, WRITE):
        return True
    if type(src) is not np.ndarray:
        if not _is_number(x, src):
            return False
    elif src.shape != index.shape or src.dtype != x.dtype:
        return False
    if not _along(x, dim, index):
        return False
    write_along(x, dim, index, src)
    return True


def scatter_add(x, dim, index, src):
    """`src`, of index's shape, added at `index` along `dim`."""
    if few(ELEMENTS, x, dim, index, src, ADD):
        return True
    if src.shape != index.shape or src.dtype != x.dtype or _is_half(x) or not _along(x, dim, index):
        return False
    add_along(x, dim, index, src)
    return True


def scatter_reduce(x, dim, index, src, reduce, *, include_self=True):
    """`src`, of index's shape, combined with what is at `index` along `dim`."""
    how = _REDUCTIONS.get(reduce)
    return how is not None and include_self is True and few(ELEMENTS, x, dim, index, src, how)


def tril(x, diagonal=0):
    """Zeros above a diagonal of the last two dims."""
    return keep_triangle(x, diagonal, True, x)


def triu(x, diagonal=0):
    """Zeros below a diagonal of the last two dims."""
    return keep_triangle(x, diagonal, False, x)


def fill_diagonal(x, fill_value):
    """`fill_value`, a number, on the diagonal of a matrix."""
    if x.ndim != 2 or not x.flags.c_contiguous or not (_is_number(x, fill_value) or _is_whole(x, fill_value)):
        return False
    rows, columns = x.shape
    x.reshape(-1)[: columns * min(rows, columns) : columns + 1] = fill_value
    return True


def _is_number(x, value):
    """Whether `value` is a number that the floats of `x` hold; the op says what is wrong with others."""
    if (type(value) is not float and type(value) is not int) or x.dtype.char not in _FLOATS:
        return False
    return -_REACH <= value <= _REACH or value in (np.inf, -np.inf) or value != value


def _filled(shape, value, x):
    array = np.empty(shape, x.dtype)
    array.fill(value)
    return array


def _is_whole(x, value):
    return type(value) is int and x.dtype.char in _WHOLE and -(1 << 63) <= value < 1 << 63


def few(name, x, dim, index, src, how):
    """Whether the kernel `name` has written a few elements or slices into `x`."""
    return type(dim) is int and entries[name](id(x), id(index), id(src), dim, how)


def _on_copy(write, keeps=False):
    def function(x, *args):
        out = kept(x) if keeps and not x.flags.c_contiguous else x.copy()
        return out if write(out, *args) else None

    function.__doc__ = f"`{write.__name__}` into a copy of `x`, a small array; None where it has not written."
    return function


index_added, index_copied, mask_filled = _on_copy(index_add), _on_copy(index_copy), _on_copy(masked_fill)
index_filled, index_was_put = _on_copy(index_fill, keeps=True), _on_copy(index_put, keeps=True)
scattered, scatter_added, scatter_reduced = _on_copy(scatter), _on_copy(scatter_add), _on_copy(scatter_reduce)


def _slices(x, dim, index, negative):
    """NumPy's index of the slices, where `index` is a vector of numbers inside `dim`; else None."""
    if not _is_vector(x, dim, index) or not _inside(index, x.shape[dim], negative):
        return None
    return (*_ALL[:dim], index) if dim else index


def _is_vector(x, dim, index):
    return type(dim) is int and 0 <= dim < x.ndim and index.ndim == 1 and index.dtype is _INT64 and index.size > 0


def _one_for_each(x, dim, index, source):
    return source.dtype == x.dtype and source.shape == (*x.shape[:dim], index.size, *x.shape[dim + 1 :])


def _along(x, dim, index):
    """Whether the shape of `index` may stand beside `x` along `dim`."""
    if type(dim) is not int or not 0 <= dim < x.ndim == index.ndim or index.dtype is not _INT64 or not index.size:
        return False
    if not x.flags.c_contiguous:
        return False
    return all([own <= size or place == dim for place, (own, size) in enumerate(zip(index.shape, x.shape))])


def _inside(index, size, negative):
    if index.size <= 16:
        values = index.reshape(-1).tolist() if index.ndim > 1 else index.tolist()
        low, high = min(values), max(values)
    else:
        low, high = limits(index)
    return low >= (-size if negative else 0) and high < size


def _is_long_vector(x, index):
    """Whether kernels of vectors pay for so large an index."""
    return x.ndim == 1 and index.size >= LARGE and x.flags.c_contiguous and x.itemsize in (1, 2, 4, 8)


def _is_half(x):
    return x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
