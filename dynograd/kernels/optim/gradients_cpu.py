"""Sums of gradients. Large ones use all threads and kept memory; the bits are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import buffers
from dynograd.kernels.build.threads import GRAIN

# From here on two threads beat NumPy's loop, which runs at the speed of memory in one.
LARGE = 2 * GRAIN
_KINDS = (numpy.dtype(numpy.float32), numpy.dtype(numpy.float64))


def add(first: Any, other: Any) -> Any:
    """first + other, as a new array that lies in memory as `first` does (channels-last images stay so)."""
    if first.size < LARGE or first.shape != other.shape or first.dtype != other.dtype:
        return first + other
    if not first.flags.c_contiguous:
        order = sorted(range(first.ndim), key=lambda axis: -first.strides[axis])
        moved = first.transpose(order)
        if moved.flags.c_contiguous:
            return add(moved, other.transpose(order)).transpose([order.index(axis) for axis in range(first.ndim)])
    result = buffers.empty_like(first)
    if not _added(first, other, result):
        numpy.add(first, other, result)
    return result


def add_into(target: Any, value: Any) -> None:
    """target += value, in the memory of `target`."""
    if target.size < LARGE or not _added(target, value, target):
        numpy.add(target, value, target)


def _added(array: Any, other: Any, out: Any) -> bool:
    kind = array.dtype
    if kind not in _KINDS or other.dtype != kind or array.shape != other.shape:
        return False
    if not (array.flags.c_contiguous and other.flags.c_contiguous):
        order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        array, other, out = array.transpose(order), other.transpose(order), out.transpose(order)
        if not (array.flags.c_contiguous and other.flags.c_contiguous and out.flags.c_contiguous):
            return False
    from dynograd.kernels.optim.gradients_numba import add_flat

    add_flat(array.reshape(-1), other.reshape(-1), out.reshape(-1), count=array.size, work=array.size)
    return True
