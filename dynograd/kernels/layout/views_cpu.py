"""Strided views of NumPy arrays, and the sums that undo those whose elements overlap."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided as strided

from dynograd.arrays import buffers
from dynograd.kernels.layout.copies_cpu import copy_into, kept, zeros


def reshaped_copy(x, shape):
    """The elements of `x` in row-major order in new memory of `shape`."""
    result = buffers.empty(shape, x.dtype)
    copy_into(result.reshape(x.shape), x)
    return result


def reshaped_view(x, shape):
    """`x` under another shape; None where that takes a copy."""
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return None
    except TypeError:  # NumPy 2.0
        view = x.view()
        try:
            view.shape = shape
        except AttributeError:
            return None
        return view


def view_as_dtype(x, dtype):
    return x.view(dtype)


def diagonal(x, offset, dim1, dim2):
    """A writable view of the diagonal of dims `dim1` and `dim2`, as the last dim."""
    view = x.diagonal(offset, dim1, dim2)
    view.setflags(write=x.flags.writeable)
    return view


def diagonal_fill(g, shape, offset, dim1, dim2):
    """Zeros of `shape` that hold `g` on a diagonal."""
    result = zeros(shape, g.dtype)
    diagonal(result, offset, dim1, dim2)[...] = g
    return result


def diagonal_put(x, src, offset, dim1, dim2):
    """A copy of `x` that holds `src` on a diagonal."""
    result = kept(x)
    diagonal(result, offset, dim1, dim2)[...] = src
    return result


def unfold_forward(x, dim, size, step):
    """Windows of `size` along `dim`, `step` apart, as a new last dim (a view)."""
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    return strided(x, shape, strides)


def unfold_backward(g, shape, dim, size, step):
    """Each window's gradient added to where the window was."""
    half = g.dtype.itemsize == 2 and g.dtype.kind not in "iu"
    result = zeros(shape, np.float32 if half else g.dtype)
    count = g.shape[dim]
    lead = (slice(None),) * dim
    if step >= size:
        for window in range(count):
            result[(*lead, slice(window * step, window * step + size))] += np.moveaxis(g[(*lead, window)], -1, dim)
    else:
        for offset in range(size):
            result[(*lead, slice(offset, offset + (count - 1) * step + 1, step))] += g[..., offset]
    return result.astype(g.dtype, copy=False)


def as_strided(x, size, stride, offset):
    """The memory of `x` from `offset` elements after its first one, with any strides (in elements)."""
    item = x.dtype.itemsize
    steps = tuple([step * item for step in stride])
    whole = x
    while type(whole.base) is np.ndarray:
        whole = whole.base
    flags = whole.flags
    if flags.c_contiguous and flags.writeable and x.dtype.kind in "biufc":
        first = offset * item
        if whole is not x:
            first += x.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        try:
            return np.ndarray(size, x.dtype, whole, first, steps)
        except (TypeError, ValueError, BufferError):
            pass  # what NumPy's own checks do not let through: an empty view at the end
    holder = x
    if offset:
        start = x.__array_interface__["data"][0] + offset * item
        holder = np.array(_Memory(start, x), copy=False).view(x.dtype)
    return strided(holder, size, steps)


class _Memory:
    """One byte-wide element at `address` that keeps the owner of the memory alive."""

    def __init__(self, address, owner):
        interface = dict(owner.__array_interface__)
        interface.update(
            data=(address, not owner.flags.writeable), shape=(owner.dtype.itemsize,), strides=None, typestr="|u1"
        )
        interface.pop("descr", None)
        self.__array_interface__ = interface
        self.base = owner


def memory_places(shape, stride, size, new_stride, offset, like=None):
    """(positions in an `as_strided` view, positions in its input) of the elements that share memory, both row-major.

    On the device of `like`.
    """
    own = _offsets(shape, stride).reshape(-1)
    places_of_view = _offsets(size, new_stride).reshape(-1) + offset
    low, high = own.min(initial=0), own.max(initial=0)
    result = np.full(high - low + 1, -1, np.int64)
    result[own - low] = np.arange(own.size)
    within = np.flatnonzero((places_of_view >= low) & (places_of_view <= high))
    places = result[places_of_view[within] - low]
    return within[places >= 0], places[places >= 0]


def _offsets(shape, stride):
    total = np.zeros(shape, np.int64)
    for dim, (size, step) in enumerate(zip(shape, stride, strict=True)):
        total += (np.arange(size) * step).reshape([-1 if dim == other else 1 for other in range(len(shape))])
    return total
