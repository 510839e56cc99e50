"""Sums of gradients. Large ones use all threads and kept memory; the bits are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import buffers
from dynograd.kernels.build.threads import GRAIN

# From here on two threads beat NumPy's loop, which runs at the speed of memory in one.
LARGE = 2 * GRAIN
_KINDS = (numpy.dtype(numpy.float32), numpy.dtype(numpy.float64))


def add(one: Any, other: Any) -> Any:
    """one + other, as a new array that lies in memory as `one` does (channels-last images stay so)."""
    if one.size < LARGE or one.shape != other.shape or one.dtype != other.dtype:
        return one + other
    if not one.flags.c_contiguous:
        order = sorted(range(one.ndim), key=lambda axis: -one.strides[axis])
        moved = one.transpose(order)
        if moved.flags.c_contiguous:
            return add(moved, other.transpose(order)).transpose([order.index(axis) for axis in range(one.ndim)])
    made = buffers.empty_like(one)
    if not _added(one, other, made):
        numpy.add(one, other, made)
    return made


def add_into(target: Any, value: Any) -> None:
    """target += value, in the memory of `target`."""
    if target.size < LARGE or not _added(target, value, target):
        numpy.add(target, value, target)


def _added(one: Any, other: Any, out: Any) -> bool:
    kind = one.dtype
    if kind not in _KINDS or other.dtype != kind or one.shape != other.shape:
        return False
    if not (one.flags.c_contiguous and other.flags.c_contiguous):
        order = sorted(range(one.ndim), key=lambda axis: -one.strides[axis])
        one, other, out = one.transpose(order), other.transpose(order), out.transpose(order)
        if not (one.flags.c_contiguous and other.flags.c_contiguous and out.flags.c_contiguous):
            return False
    from dynograd.kernels.optim.gradients_numba import add_flat

    add_flat(one.reshape(-1), other.reshape(-1), out.reshape(-1), count=one.size, work=one.size)
    return True
