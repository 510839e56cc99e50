"""The memory behind arrays as one row of bytes, and arrays placed in it: what `resize_`, `set_` and storages stand on."""

from __future__ import annotations

import mmap
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import CudaArray, buffers, cuda_arrays
from dynograd.arrays.meta_arrays import address_space

__all__ = [
    "FreedArray",
    "bytes_of",
    "copied_memory",
    "freed",
    "is_shared",
    "overlap_partly",
    "placed",
    "renewed",
    "repeats",
    "row_major",
    "shared_bytes",
]

_BYTE = numpy.dtype(numpy.uint8)


class FreedArray(numpy.ndarray):
    """Shape, strides and dtype of an array whose memory was given back; what would read or write its elements is an error."""

    offset = 0

    @staticmethod
    def __dynograd_kernel__(family: str, name: str) -> Any:
        raise _freed(name)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise _freed(ufunc.__name__)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise _freed(function.__name__)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise _freed("a write")

    def item(self, *index: Any) -> Any:
        raise _freed("item")

    def tolist(self) -> Any:
        raise _freed("tolist")

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        raise _freed("a change of dtype")


def _freed(who: str) -> RuntimeError:
    return RuntimeError(
        f"{who}: the memory of this tensor was given back by untyped_storage().resize_(0). Give it memory again by "
        f"x.untyped_storage().resize_(x.nbytes), or by x.set_(other)."
    )


def freed(array: Any, offset: int) -> FreedArray:
    """The array without its memory, in which it began `offset` bytes behind the start."""
    span = sum([(size - 1) * step for size, step in zip(array.shape, array.strides)]) + array.itemsize
    memory = numpy.frombuffer(address_space(span), _BYTE)
    result = placed(memory, array.dtype, array.shape, array.strides, 0).view(FreedArray)
    result.offset = offset
    return result


def bytes_of(array: Any) -> Any:
    """All the memory that `array` is a part of, as bytes in one row."""
    if type(array) is FreedArray:
        return numpy.empty(0, _BYTE)
    if type(array) is CudaArray:
        storage = array.storage
        return CudaArray(storage, storage.pointer, (storage.nbytes,), (1,), _BYTE)
    owner, base = array, array.base
    while base is not None:
        if isinstance(base, numpy.ndarray):
            owner = base
            if type(base) is buffers.Lease:
                break
        base = getattr(base, "base", None)
    if not owner.flags.c_contiguous:
        order = sorted(range(owner.ndim), key=lambda dim: -abs(owner.strides[dim]))
        owner = owner.transpose(order)
        owner = owner[tuple([slice(None, None, -1) if step < 0 else slice(None) for step in owner.strides])]
        if not owner.flags.c_contiguous:  # somebody else's strided memory: from its first to its last byte
            last = sum([(size - 1) * step for size, step in zip(owner.shape, owner.strides)]) + owner.itemsize
            return numpy.lib.stride_tricks.as_strided(owner.reshape(-1)[:1].view(_BYTE), (last,), (1,))
    return owner.reshape(-1).view(_BYTE) if owner.size else numpy.empty(0, _BYTE)


def placed(memory: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
    """An array of NumPy's `dtype` in the bytes `memory`; strides and offset are in bytes."""
    if type(memory) is CudaArray:
        return CudaArray(memory.storage, memory.pointer + offset, shape, strides, dtype)
    if 0 in shape:
        return numpy.ndarray(shape, dtype, memory, min(offset, memory.nbytes), strides)
    return numpy.ndarray(shape, dtype, memory, offset, strides)


def row_major(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes."""
    return cuda_arrays.contiguous_strides(shape, itemsize)


def renewed(memory: Any, nbytes: int) -> Any:
    """New memory of `nbytes` bytes that begins with what is in the old."""
    kept = min(memory.nbytes, nbytes)
    if type(memory) is CudaArray:
        new = cuda_arrays.empty((nbytes,), _BYTE, memory.device_index)
        if kept:
            cuda_arrays.operations.copy_into(new[:kept], memory[:kept])
        return new
    new = buffers.empty((nbytes,), _BYTE)
    new[:kept] = memory[:kept]
    return new


def shared_bytes(memory: Any) -> Any:
    """A copy of the bytes in memory that forked processes share."""
    shared = numpy.frombuffer(mmap.mmap(-1, max(memory.nbytes, 1)), _BYTE)[: memory.nbytes]
    shared[:] = memory
    return shared


def copied_memory(array: Any, copies: dict[Any, Any]) -> Any:
    """The array in a copy of all the memory it is a part of; arrays that share memory share the copy, which `copies` keeps."""
    memory = bytes_of(array)
    key = arrays.place_of(array), arrays.address_of(memory), memory.nbytes
    if key not in copies:
        alone = arrays.is_contiguous(array) and array.nbytes == memory.nbytes
        # The memory must live as long as its address.
        copies[key] = arrays.copy(array) if alone else renewed(memory, memory.nbytes), memory
        if alone:
            return copies[key][0]
    offset = arrays.address_of(array) - arrays.address_of(memory)
    return placed(bytes_of(copies[key][0]), array.dtype, array.shape, array.strides, offset)


def is_shared(array: Any) -> bool:
    """Whether other processes see writes to the array: memory of `shared_bytes`, or of a GPU."""
    if type(array) is CudaArray:
        return True
    base = array.base
    while base is not None:
        if type(base) is buffers.Lease:
            return False
        if isinstance(base, memoryview):
            base = base.obj
        if type(base) is mmap.mmap:
            return True
        base = getattr(base, "base", None)
    return False


def repeats(array: Any) -> bool:
    """Whether one element of memory stands at several indices because a stride is 0 (an `expand`ed array)."""
    return (
        0 in array.strides
        and array.size > 1
        and any([step == 0 and size > 1 for size, step in zip(array.shape, array.strides)])
    )


def overlap_partly(array: Any, other: Any) -> bool:
    """Whether the two share some elements, or all of them in another order; only arrays without gaps are told apart so."""
    if array is other or not (array.size and other.size) or arrays.base_of(array) is not arrays.base_of(other):
        return False
    first, second = arrays.address_of(array), arrays.address_of(other)
    if first == second and array.shape == other.shape and array.dtype == other.dtype:
        if all([size == 1 or step == own for size, step, own in zip(array.shape, array.strides, other.strides)]):
            return False
    return (
        first < second + other.nbytes
        and second < first + array.nbytes
        and _without_gaps(array)
        and _without_gaps(other)
    )


def _without_gaps(array: Any) -> bool:
    expected = array.dtype.itemsize
    for step, size in sorted([(step, size) for size, step in zip(array.shape, array.strides) if size > 1]):
        if step != expected:
            return False
        expected *= size
    return True
