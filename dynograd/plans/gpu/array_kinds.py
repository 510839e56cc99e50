"""What records and walks ask of arrays, in the host's memory and in a GPU's."""

from __future__ import annotations

from typing import Any

import numpy
from numpy.lib.stride_tricks import as_strided

from dynograd import arrays
from dynograd.arrays import Array, buffers, ndarray
from dynograd.arrays.cuda_arrays import CudaArray, may_overlap

__all__ = [
    "PLAIN",
    "address_range",
    "bytes_alike",
    "extent",
    "identity",
    "is_contiguous",
    "is_on_cpu",
    "is_writeable",
    "may_share",
    "own_copy",
    "same_part",
]

PLAIN = (ndarray, CudaArray)


def may_share(array: Any, other: Any) -> bool:
    """Whether the bounds of their memory intersect."""
    if type(array) is CudaArray or type(other) is CudaArray:
        return may_overlap(array, other)
    return numpy.may_share_memory(array, other)


def own_copy(array: Any) -> Array:
    """The same numbers in memory of their own, with the dims in the same order."""
    if type(array) is not CudaArray:
        is_whole = array.nbytes >= buffers.SMALLEST and array.flags.c_contiguous
        return arrays.copy(array) if is_whole else array.copy(order="K")
    order = arrays.order_of(array)
    if order is None:
        return array.copy()
    back = sorted(range(len(order)), key=order.__getitem__)
    return array.transpose(order).copy().transpose(tuple(back))


def bytes_alike(array: Any, other: Any) -> bool:
    """Whether they hold the same bytes; waits for a GPU."""
    left, right = [each.numpy() if type(each) is CudaArray else each for each in (array, other)]
    return bool(left.tobytes() == right.tobytes())


def is_contiguous(array: Any) -> bool:
    """Whether an array, or a layout, is row-major."""
    flags = getattr(array, "flags", None)
    return bool(array.is_contiguous if flags is None else flags.c_contiguous)


def is_on_cpu(tensor: Any) -> bool:
    """Whether a tensor is no recorded one, and lies in the host's memory."""
    return type(tensor.array) is ndarray


def is_writeable(array: Any) -> bool:
    return type(array) is CudaArray or bool(array.flags.writeable)


def extent(array: CudaArray) -> tuple[int, int]:
    """The addresses that a GPU array's elements lie between."""
    if not array.size:
        return array.pointer, array.pointer
    reach = [(size - 1) * step for size, step in zip(array.shape, array.strides)]
    low = sum([offset for offset in reach if offset < 0])
    high = sum([offset for offset in reach if offset > 0])
    return array.pointer + low, array.pointer + high + array.itemsize


def address_range(array: Any) -> tuple[int, int]:
    """The addresses that an array's elements lie between; (0, 0) where it has none."""
    if not array.size:
        return 0, 0
    if type(array) is CudaArray:
        return extent(array)
    if array.flags.c_contiguous:
        low = arrays.address_of(array)
        return low, low + array.nbytes
    low, high = numpy.lib.array_utils.byte_bounds(array)
    return low, high


def identity(array: Any) -> tuple[Any, ...]:
    """What two arrays have in common that are the same elements, laid out alike."""
    return arrays.address_of(array), array.shape, array.strides, array.dtype


def same_part(array: Any, whole: Any, other: Any) -> Any:
    """What lies in `other` where `array` lies in `whole`, which is laid out alike; a copy where that cannot be said."""
    if type(array) is CudaArray:
        offset = array.pointer - whole.pointer
        if type(other) is not CudaArray or offset < 0:
            return own_copy(array)
        return CudaArray(other.storage, other.pointer + offset, array.shape, array.strides, array.dtype)
    offset = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    if offset < 0 or min(other.strides, default=0) < 0:
        return array.copy(order="K")
    memory = other if other.flags.c_contiguous else other.T
    if not memory.flags.c_contiguous:  # all from its first element to its last one
        count = 1 + sum([(size - 1) * stride for size, stride in zip(other.shape, other.strides)]) // other.itemsize
        memory = as_strided(other, (count,), (other.itemsize,))
    return numpy.ndarray(array.shape, array.dtype, memory, offset, array.strides)
