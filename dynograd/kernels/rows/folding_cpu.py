"""NumPy arrays as row programs and their NumPy twins take them: rows (R, C) in the type that computes, and results back in shape."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from dynograd.arrays.buffers import in_shape
from dynograd.kernels.build.compiled_kernels import compiled_for
from dynograd.kernels.reduce.reductions_cpu import widened


def rows_of(x, ndim):
    """(R, C), C-contiguous, in the type that computes: the last `ndim` dims of x are a row."""
    if ndim == 1 and x.ndim == 2 and x.dtype.char == "f" and x.flags.c_contiguous:
        return x
    split = x.ndim - ndim
    return np.ascontiguousarray(widened(x)).reshape(prod(x.shape[:split]), prod(x.shape[split:]))


def vector_of(values, default, count, kind):
    """A flat parameter in the dtype that computes; `count` times `default` for None."""
    if values is None:
        return _constant(default, count, kind.char)
    if values.dtype.num == kind.num and values.ndim == 1 and values.flags.c_contiguous:
        return values
    return np.ascontiguousarray(values, kind).reshape(-1)


@lru_cache(16)
def _constant(value, count, kind):
    return np.full(count, value, kind)


def like(y, x):
    """A result in the shape and dtype of x."""
    if y.dtype.num != x.dtype.num:
        y = y.astype(x.dtype)
    return in_shape(y, x.shape)


def kernels_for(x):
    """The compiled kernels, where they take an array of x's dtype and size, else None."""
    return None if x.dtype.char == "d" else compiled_for(x.size)


def run_along(kernels, name, dim, *arrays):
    """Runs a row program on rows along `dim`: (R, C) where that is the last one, else (outer, C, inner) without a copy."""
    last_array = arrays[-1]
    shape, kind = last_array.shape, last_array.dtype
    if len(arrays) == 1 and dim == 1 == len(shape) - 1 and kind.char == "f" and last_array.flags.c_contiguous:
        return kernels[name](last_array)
    if kind.char != "f":
        arrays = [array.astype(np.float32) for array in arrays]
    arrays = [array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in arrays]
    last = len(shape) - 1
    if dim < 0:
        dim += last + 1
    inner = 1
    for size in shape[dim + 1 :]:
        inner *= size
    if inner != 1:
        count = shape[dim] * inner
        folded = (last_array.size // count if count else 0, shape[dim], inner)
        y = kernels[name + "_inner"](*[array.reshape(folded) for array in arrays])
    else:
        if last != 1 or dim != 1:
            rows = last_array.size // shape[dim] if shape[dim] else 0
            arrays = [array.reshape(rows, shape[dim]) for array in arrays]
        y = kernels[name](*arrays)
    if kind.char != "f":
        y = y.astype(kind)
    return in_shape(y, shape)
