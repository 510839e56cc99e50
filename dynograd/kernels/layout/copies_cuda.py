"""Copies of CudaArrays, and their memory seen as whole numbers, as kernels that only move elements want it."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations

_WHOLE = {size: numpy.dtype(f"i{size}") for size in (1, 2, 4, 8)}
_MOST = (1 << 31) - (1 << 13)  # a block goes beyond the last element
_FLOAT32, _INT32 = numpy.dtype(numpy.float32), numpy.dtype(numpy.int32)


def copied(x: CudaArray) -> CudaArray:
    """The same values in new, row-major memory."""
    return x.copy()


def kept(x: CudaArray) -> CudaArray:
    """The same values in new memory, in the order that the dims have."""
    order = arrays.order_of(x)
    return x.copy() if order is None else arrays.turned(x.transpose(order).copy(), order)


def copy_into(target: CudaArray, source: Any) -> None:
    """target[...] = source."""
    operations.copy_into(target, source)


def contiguous(x: CudaArray, dtype: Any = None) -> CudaArray:
    """The array itself where it is row-major (and of `dtype`), else a copy."""
    if dtype is not None and x.dtype != dtype:
        return x.astype(dtype)
    return x if x.is_contiguous else x.copy()


def fill(x: CudaArray, value: Any) -> None:
    operations.fill(x, value)


def zeros(shape: Any, dtype: Any, device: int) -> CudaArray:
    array = cuda_arrays.empty(tuple(shape), dtype, device)
    operations.fill(array, 0)
    return array


def full(shape: Any, value: Any, dtype: Any, device: int) -> CudaArray:
    array = cuda_arrays.empty(tuple(shape), dtype, device)
    operations.fill(array, value)
    return array


def empty_like(x: CudaArray) -> CudaArray:
    return cuda_arrays.empty(x.shape, x.dtype, x.device_index)


def bits(x: CudaArray) -> CudaArray:
    """The same memory as signed numbers of the element's size; of row-major complex128, twice as many along the last dim."""
    if x.itemsize == 16:
        return CudaArray(x.storage, x.pointer, (*x.shape, 2), (*x.strides, 8), _WHOLE[8])
    return CudaArray(x.storage, x.pointer, x.shape, x.strides, _WHOLE[x.itemsize])


def units(nbytes: int, *arrays: CudaArray) -> tuple[int, int, list[CudaArray]]:
    """Row-major arrays as flat vectors of the widest whole numbers that lines of `nbytes` are made of.

    Returns how many make up a line divided by 1, 2, ... (the second number), which kernels may read at once; and the vectors.
    """
    places = [array.pointer for array in arrays]
    item = next(size for size in (8, 4, 2, 1) if not nbytes % size and not any(place % size for place in places))
    count, vector = nbytes // item, 1
    while vector * item < 16 and not count % 2:
        count, vector = count // 2, vector * 2
    kind = _WHOLE[item]
    return (
        count,
        vector,
        [CudaArray(array.storage, array.pointer, (array.nbytes // item,), (item,), kind) for array in arrays],
    )


def three(x: CudaArray, dim: int) -> tuple[int, int, int]:
    """(elements in the dims before `dim`, size of `dim`, elements in the dims after)."""
    return prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :])


def is_big(size: int) -> bool:
    """Whether kernels have to count so many elements in 64 bits."""
    return size > _MOST


def is_half(dtype: Any) -> bool:
    """float16 and bfloat16, not int16."""
    return dtype.itemsize == 2 and dtype.kind not in "iu"


def sum_dtype(dtype: Any) -> Any:
    """In what the elements of a dtype are added up: float32 for half types, int32 for whole numbers that are smaller."""
    if is_half(dtype):
        return _FLOAT32
    return _INT32 if dtype.kind in "iub" and dtype.itemsize < 4 else dtype
