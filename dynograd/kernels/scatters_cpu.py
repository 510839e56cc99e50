"""Picking and writing along one dim with an index of the result's shape, on NumPy arrays."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

__all__ = ["gather", "gather_backward", "scatter", "scatter_add", "scatter_reduce", "ties", "wrapped"]

# Below this many elements NumPy is quick enough not to load Numba for it.
COMPILED_SIZE = 2048
_UFUNCS = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def gather(x, dim, index):
    """x[..., index[..., i, ...], ...] in the shape of `index`, which may be smaller than `x` outside `dim`."""
    if not x.flags.c_contiguous:
        rank = x.ndim
        grid = [np.arange(size).reshape(_along(axis, rank)) for axis, size in enumerate(index.shape)]
        grid[dim] = index
        return x[tuple(grid)]
    if _suits_numba(x, dim, index):
        from dynograd.kernels.scatters_numba import pick_along

        result = np.empty(index.shape, x.dtype)
        pick_along(*[_in_three(array, dim) for array in (x, _whole(index), result)])
        return result
    return x.reshape(-1).take(_places(x.shape, dim, index))


def gather_backward(g, dim, index, shape):
    """Zeros of `shape` with `g` added at `index` along `dim`."""
    result = np.zeros(shape, _sum_dtype(g))
    _add(result, dim, index, g)
    return result.astype(g.dtype, copy=False)


def wrapped(index, size):
    """`index` with negative numbers counted from the front."""
    return np.where(index < 0, index + size, index)


def scatter(x, dim, index, src):
    """A copy of `x` with src written at `index` along `dim`; of several writes to a place the last one stays."""
    result = np.array(x, order="C")
    if _suits_numba(x, dim, index):
        from dynograd.kernels.scatters_numba import write_along

        source = np.ascontiguousarray(np.broadcast_to(src, index.shape), x.dtype)
        write_along(*[_in_three(array, dim) for array in (result, _whole(index), source)])
    else:
        result.reshape(-1)[_places(x.shape, dim, index)] = src
    return result


def scatter_add(x, dim, index, src):
    """A copy of `x` with src added at `index` along `dim`. Half types add up in float32."""
    result = np.array(x, _sum_dtype(x), order="C")
    _add(result, dim, index, src)
    return result.astype(x.dtype, copy=False)


def _add(result, dim, index, src):
    if _suits_numba(result, dim, index):
        from dynograd.kernels.scatters_numba import add_along

        source = np.ascontiguousarray(src, result.dtype)
        add_along(*[_in_three(array, dim) for array in (result, _whole(index), source)])
    else:
        np.add.at(result.reshape(-1), _places(result.shape, dim, index).reshape(-1), _flat(src, result.dtype))


def _suits_numba(x, dim, index):
    """Large enough to load Numba for, of a dtype that kernels are kept for, and cut nowhere but along `dim` and the first dim."""
    return (
        index.size >= COMPILED_SIZE
        and x.dtype in (np.float32, np.float64, np.int64)
        and index.shape[dim + 1 :] == x.shape[dim + 1 :]
        and (dim == 0 or index.shape[1:dim] == x.shape[1:dim])
    )


def _in_three(array, dim):
    """The array as (dims before `dim`, `dim`, dims after)."""
    return array.reshape(prod(array.shape[:dim]), array.shape[dim], -1)


def _whole(index):
    return np.ascontiguousarray(index, np.int64)


def scatter_reduce(x, dim, index, src, reduce, include_self):
    """A copy of `x` with the product, maximum or minimum of what `src` puts at a place (and of `x` there, when `include_self`)."""
    result = np.array(x, _sum_dtype(x), order="C")
    flat = result.reshape(-1)
    places = _places(x.shape, dim, index).reshape(-1)
    values = _flat(src, result.dtype)
    if not include_self:
        flat[places] = 1 if reduce == "prod" else values
    _UFUNCS[reduce].at(flat, places, values)
    return result.astype(x.dtype, copy=False)


def ties(x, y):
    """1 where x equals y, else 0, in the dtype of x."""
    return (x == y).astype(x.dtype)


def _places(shape, dim, index):
    """The row-major position in an array of `shape` that each element of `index` names."""
    wanted = index.shape
    corners = (_small_corners if prod(wanted) <= 4096 else _corners)(shape, dim, (*wanted[:dim], 1, *wanted[dim + 1 :]))
    stride = prod(shape[dim + 1 :])
    return corners + (index if stride == 1 else index * stride)


def _corners(shape, dim, wanted):
    """The positions of the elements of `wanted` shape that have place 0 along `dim`."""
    stride, places = 1, np.zeros((1,) * len(shape), np.int64)
    for axis in range(len(shape) - 1, -1, -1):
        if axis != dim:
            places = places + (np.arange(wanted[axis]) * stride).reshape(_along(axis, len(shape)))
        stride *= shape[axis]
    return places


_small_corners = lru_cache(256)(_corners)


def _flat(src, dtype):
    return np.ascontiguousarray(src, dtype).reshape(-1)


def _along(axis, ndim):
    """Shape that lays a vector along `axis`."""
    return [-1 if other == axis else 1 for other in range(ndim)]


def _sum_dtype(x):
    """float32 for half types, else the dtype itself."""
    return np.dtype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype
