"""Picking and writing along one dim with an index of the result's shape, on NumPy arrays."""

from __future__ import annotations

import numpy as np

__all__ = ["gather", "gather_backward", "scatter", "scatter_add", "scatter_reduce", "ties", "wrapped"]

_UFUNCS = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def gather(x, dim, index):
    """x[..., index[..., i, ...], ...] in the shape of `index`, which may be smaller than `x` outside `dim`."""
    if x.flags.c_contiguous:
        return x.reshape(-1).take(_places(x.shape, dim, index))
    rank = x.ndim
    grid = [np.arange(size).reshape(_along(axis, rank)) for axis, size in enumerate(index.shape)]
    grid[dim] = index
    return x[tuple(grid)]


def gather_backward(g, dim, index, shape):
    """Zeros of `shape` with `g` added at `index` along `dim`."""
    result = np.zeros(shape, _sum_dtype(g))
    np.add.at(result.reshape(-1), _places(shape, dim, index).reshape(-1), _flat(g, result.dtype))
    return result.astype(g.dtype, copy=False)


def wrapped(index, size):
    """`index` with negative numbers counted from the front."""
    return np.where(index < 0, index + size, index)


def scatter(x, dim, index, src):
    """A copy of `x` with src written at `index` along `dim`; of several writes to a place the last one stays."""
    result = np.array(x, order="C")
    result.reshape(-1)[_places(x.shape, dim, index)] = src
    return result


def scatter_add(x, dim, index, src):
    """A copy of `x` with src added at `index` along `dim`. Half types add up in float32."""
    result = np.array(x, _sum_dtype(x), order="C")
    np.add.at(result.reshape(-1), _places(x.shape, dim, index).reshape(-1), _flat(src, result.dtype))
    return result.astype(x.dtype, copy=False)


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
    stride = 1
    places = None
    for axis in range(len(shape) - 1, -1, -1):
        size = index.shape[axis]
        if axis == dim:
            along = index.astype(np.int64, copy=False) if stride == 1 else index * np.int64(stride)
        else:
            along = None if size <= 1 else (np.arange(size) * stride).reshape(_along(axis, len(shape)))
        if along is not None:
            places = along if places is None else places + along
        stride *= shape[axis]
    return places


def _flat(src, dtype):
    return np.ascontiguousarray(src, dtype).reshape(-1)


def _along(axis, ndim):
    """Shape that lays a vector along `axis`."""
    return [-1 if other == axis else 1 for other in range(ndim)]


def _sum_dtype(x):
    """float32 for half types, else the dtype itself."""
    return np.dtype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype
