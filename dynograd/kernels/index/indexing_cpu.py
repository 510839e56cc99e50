"""Reading, writing and adding at an index, on NumPy arrays.

A *basic* index is a tuple of ints, slices, None and Ellipsis. An *advanced* one is a list of index arrays (int64 or bool masks)
and a `template`: a tuple with a number where that index array stands, and a full slice for a dim that is kept.
"""

from __future__ import annotations

import numpy as np

from dynograd.errors import refusal
from dynograd.kernels.build.sizes import COMPILED_PASS, LARGE
from dynograd.kernels.index.scatters_cpu import (
    add_slices,
    joined_places,
    limits,
    picked,
    take,
    true_places,
    write_places,
    write_slices,
)
from dynograd.kernels.layout.copies_cpu import bits, contiguous, copied, copy_into, kept, zeros

_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
_max = np.maximum.reduce
_FULL = slice(None)


def basic_fill(g, shape, index):
    """Zeros of `shape` that hold `g` at the basic `index`."""
    result = zeros(shape, g.dtype)
    _put(result, index, g)
    return result


def basic_put(x, value, index):
    """A copy of `x` that holds `value` at the basic `index`."""
    result = kept(x)
    _put(result, index, value)
    return result


def _put(result, index, value):
    if result.nbytes < LARGE or np.shape(value) != (target := result[index]).shape or value.dtype != result.dtype:
        result[index] = value
    else:
        copy_into(target, value)


def key_of(indices, template):
    """The NumPy index that `indices` and `template` stand for."""
    if len(template) == 1:
        return indices[0]
    if template == (0, 1):
        return tuple(indices)
    return tuple([indices[entry] if type(entry) is int else entry for entry in template])


def index_forward(x, indices, template):
    """x at the advanced index, a new array."""
    if len(indices) == 1:
        index, dim = indices[0], len(template) - 1
        if index.dtype.kind != "b":
            if 0 < x.size < COMPILED_PASS and index.size < 64:
                return x.take(index, dim)
            if x.flags.c_contiguous:
                return take(x, index, dim)
        elif x.size >= LARGE and not dim and index.shape == x.shape[: index.ndim]:
            return take(x.reshape(index.size, *x.shape[index.ndim :]), true_places(index), 0)
        elif not index.size and index.shape != x.shape[dim : dim + index.ndim]:  # NumPy takes any mask without elements
            raise IndexError(f"a mask of shape {index.shape} does not fit shape {x.shape}")
    elif x.flags.c_contiguous and indices[0].size * len(x.shape) >= LARGE and _all_arrays(indices, template):
        shape = x.shape[: len(template)]
        ordered = [indices[entry] for entry in template]
        if x.ndim == len(template) and all(
            [
                places_of_dim.shape == indices[0].shape
                and places_of_dim.dtype == _INT64
                and places_of_dim.flags.c_contiguous
                for places_of_dim in ordered
            ]
        ):
            places = joined_places([places_of_dim.reshape(-1) for places_of_dim in ordered], shape)
            if places is not None:
                return picked(x.reshape(-1), places.reshape(indices[0].shape), 0)
        _check(indices, shape)
        return take(x.reshape(-1, *x.shape[len(template) :]), _rows(shape, indices, template), 0)
    result = x[key_of(indices, template)]
    return result if result.flags.c_contiguous else np.ascontiguousarray(result)


def _check(indices, shape):
    for axis, (index, size) in enumerate(zip(indices, shape, strict=True)):
        low, high = limits(index) if index.size else (0, 0)
        if low < -size or high >= size:
            raise IndexError(f"index {low if low < -size else high} is out of bounds for axis {axis} with size {size}")


def result_shape(shape, indices, template):
    """The shape of what an advanced index picks."""
    return np.broadcast_to(np.int8(0), shape)[key_of(indices, template)].shape


def count_true(mask):
    return int(np.count_nonzero(mask))


def out_of_range(index, low, high, who="", fused=False):
    """(value, position) of the first element outside low <= index < high, or None. `who` and `fused` are for the GPU."""
    if index.size < 2:
        if not index.size or low <= index.item() < high:
            return None
    elif index.size <= 16:
        values = index.reshape(-1).tolist()
        if low <= min(values) and max(values) < high:
            return None
    elif not low and index.dtype is _INT64 and index.size < LARGE:
        if _max(index.view(_UINT64), None) < high:  # negative numbers are huge without their sign
            return None
    else:
        smallest, largest = limits(index)
        if smallest >= low and largest < high:
            return None
    position = np.argwhere((index < low) | (index >= high))[0]
    return int(index[tuple(position)]), tuple(position.tolist())


def index_backward(g, indices, template, shape):
    """Zeros of `shape` with `g` added at the advanced index; elements named several times get the sum."""
    if g.size < LARGE and not _is_half(g) and all(index.dtype.kind == "b" for index in indices):
        result = np.zeros(shape, g.dtype)
        result[key_of(indices, template)] = g + 0  # as a sum gives it: no negative zeros
        return result
    result = zeros(shape, np.float32 if _is_half(g) else g.dtype)
    if g.size:
        add_at(result, indices, template, g)
    return result.astype(g.dtype, copy=False)


def index_put_forward(x, values, indices, template, accumulate):
    """A copy of `x` with `values` written (or added) at the advanced index; of several writes to a place the last one stays."""
    if not accumulate:
        result = copied(x)
        write_at(result, key_of(indices, template), values)
        return result
    result = x.astype(np.float32, order="C") if _is_half(x) else copied(x)
    add_at(result, indices, template, values)
    return result.astype(x.dtype, copy=False)


def index_assign(array, ready, value):
    """Writes `value` into `array` at what `ops.indexing.normalize_index` made of an advanced index."""
    target = array if ready.basic is None else array[ready.basic]
    write_at(target, key_of(ready.indices, ready.template), value)


def write_at(target, key, value):
    """target[key] = value, for NumPy's index arrays or a mask."""
    if type(key) is np.ndarray and key.ndim == target.ndim and np.ndim(value) > 1 and set(value.shape[:-1]) == {1}:
        value = value.reshape(-1)  # for a mask of the whole array NumPy wants a vector
    if type(key) is np.ndarray and key.dtype.kind == "b" and key.shape == target.shape and np.ndim(value) == 1:
        write_masked(target, key, value)
    elif not _write_at_places(target, key if type(key) is tuple else (key,), value):
        if not _write_slices(target, key, value):
            target[key] = value


def _write_slices(x, key, values):
    """Whether large slices, named by one vector behind full slices, have been written; not where an index is outside."""
    if type(key) is not tuple or x.size < LARGE or type(key[-1]) is not np.ndarray or key[-1].ndim != 1:
        return False
    if key[-1].dtype != _INT64 or any([type(part) is not slice or part != _FULL for part in key[:-1]]):
        return False
    try:
        return write_slices(x, len(key) - 1, key[-1], values)
    except IndexError:
        return False  # NumPy says which


def _write_at_places(x, indices, values):
    """Whether one value for each of many elements, each named along all dims, has been written. Raises IndexError."""
    index = indices[0]
    if type(index) is not np.ndarray or index.size < LARGE or len(indices) != x.ndim or not x.flags.c_contiguous:
        return False
    for places_of_dim in indices:
        if type(places_of_dim) is not np.ndarray or places_of_dim.dtype != _INT64 or places_of_dim.shape != index.shape:
            return False
    if np.shape(values) != index.shape or values.dtype != x.dtype or x.itemsize not in (1, 2, 4, 8):
        return False
    if np.may_share_memory(values, x):
        return False
    vectors = [contiguous(places_of_dim).reshape(-1) for places_of_dim in indices]
    places = vectors[0] if len(vectors) == 1 else joined_places(vectors, x.shape)
    if places is None:
        _check(indices, x.shape)
    try:
        write_places(x.reshape(-1), places, values, -x.size)
    except IndexError as error:
        raise refusal(_check, indices, x.shape) or error from None
    return True


def write_masked(x, mask, values):
    """x[mask] = values, a vector, for a mask of x's shape."""
    large = x.size >= LARGE and x.itemsize in (1, 2, 4, 8) and x.flags.c_contiguous and mask.flags.c_contiguous
    if large and values.dtype == x.dtype and values.size and values.size == count_true(mask):
        from dynograd.kernels.layout.writes_numba import write_where

        write_where(bits(x).reshape(-1), mask.reshape(-1).view(np.uint8), bits(np.ascontiguousarray(values)))
    else:
        x[mask] = values


def add_at(result, indices, template, values):
    """result[index] += values for each time an element is named; `result` is contiguous."""
    if len(indices) == 1 and indices[0].ndim == 1 and not _is_mask(indices, 0):
        dim = len(template) - 1
        values = np.broadcast_to(values, (*result.shape[:dim], indices[0].size, *result.shape[dim + 1 :]))
        if values.size:
            add_slices(result, dim, indices[0], values)
        return
    depth = sum(indices[entry].ndim if _is_mask(indices, entry) else 1 for entry in template)
    if depth == result.ndim == 0:
        return
    rows = _rows(result.shape[:depth], indices, template)
    tail = result.shape[depth:]
    values = np.broadcast_to(values, (*rows.shape, *tail))
    if values.size:
        flat = result.reshape(-1, *tail)
        add_slices(flat, 0, rows.reshape(-1), values.reshape(-1, *tail))


def _rows(shape, indices, template):
    """Where each picked row lies, counted over the leading dims `shape`; in the shape of the indexed result."""
    if len(template) == 1:
        if _is_mask(indices, 0):
            return true_places(indices[0])
        return indices[0] if shape else np.zeros(0, np.int64)
    if _all_arrays(indices, template):
        if indices[0].size >= LARGE and len({places_of_dim.shape for places_of_dim in indices}) == 1:
            ordered = [contiguous(indices[entry], np.int64).reshape(-1) for entry in template]
            places = joined_places(ordered, shape)
            if places is not None:
                return places.reshape(indices[0].shape)
        place = np.int64(0)
        for entry, size in zip(template, shape, strict=True):
            index = indices[entry].astype(np.int64, copy=False)
            if index.size and index.min() < 0:
                index = np.where(index < 0, index + size, index)
            place = place * size + index
        return place
    return np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)[key_of(indices, template)]


def _all_arrays(indices, template):
    return all(type(entry) is int and not _is_mask(indices, entry) for entry in template)


def _is_mask(indices, entry):
    return type(entry) is int and indices[entry].dtype.kind == "b"


def _is_half(x):
    """float16 and bfloat16, not int16."""
    return x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
