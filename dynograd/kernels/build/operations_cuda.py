"""What CudaArray asks of kernels: copies between layouts and dtypes, fills, arithmetic, reductions, indexing."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.cuda import driver, streams
from dynograd.kernels import kernel
from dynograd.kernels.elementwise import elementwise_cuda
from dynograd.kernels.elementwise.loops_cuda import CudaLoop
from dynograd.kernels.formula import formulas

_copy = CudaLoop("copy", ("input",), (), (formulas.name("input"),))
_FLOAT32 = numpy.dtype(numpy.float32)
_HALVES = ("float16", "bfloat16")
_REDUCTIONS = {
    "sum": ("reductions", "sum"),
    "mean": ("reductions", "mean_forward"),
    "any": ("reductions", "any"),
    "all": ("reductions", "all"),
    "max": ("extremes", "amax"),
    "min": ("extremes", "amin"),
}


def elementwise(name: str, *operands: Any) -> CudaArray:
    """The elementwise op of that name on arrays and numbers."""
    return elementwise_cuda.compute(name, operands)


def reduced(name: str, array: CudaArray, axis: Any, keepdims: bool) -> CudaArray:
    family, function = _REDUCTIONS[name]
    return kernel(family, function, array)(array, axis, keepdims)


def index(array: CudaArray, index: Any) -> CudaArray:
    from dynograd.kernels.index import indexing_cuda

    return indexing_cuda.index(array, index)


def index_assign(array: CudaArray, index: Any, value: Any) -> None:
    from dynograd.kernels.index import indexing_cuda

    indexing_cuda.index_assign(array, index, value)


def copy_into(target: CudaArray, source: Any) -> None:
    """Writes `source` (broadcast, cast) into the memory of `target`; a CPU array or one of another device is brought over."""
    if not target.size:
        return
    if not isinstance(source, CudaArray):
        source = numpy.asarray(source)
        if source.ndim == 0:
            fill(target, source.item())
            return
        if source.dtype.num != target.dtype.num and source.nbytes > target.nbytes:
            source = source.astype(target.dtype)
        source = cuda_arrays.from_numpy(source, target.device_index, constant=False)
    elif source.device_index != target.device_index:
        source = on_device(source, target.device_index)
    if source.dtype == target.dtype:
        if source.shape == target.shape and source.is_contiguous and target.is_contiguous:
            if source.pointer != target.pointer:
                used = driver.get("copy")
                used.copy_within(
                    target.pointer, source.pointer, target.nbytes, streams.current_handle(target.device_index)
                )
            return
        if source.dtype.kind == "c":
            source, target = _pairs(source), _pairs(target)
    elif target.dtype.kind == "c":
        copy_into(target.real, source.real)
        copy_into(target.imag, source.imag) if source.dtype.kind == "c" else fill(target.imag, 0)
        return
    elif source.dtype.kind == "c":
        parts = source.real, source.imag
        source = elementwise("logical_or", *parts) if target.dtype.kind == "b" else parts[0]
    kind = source.dtype
    compute = _FLOAT32 if kind.name in _HALVES else numpy.dtype(numpy.uint8) if kind.kind == "b" else kind
    _copy([source.broadcast_to(target.shape)], (), [target.dtype], compute, [target])


def fill(target: CudaArray, value: Any) -> None:
    """Writes a number into every element."""
    if not target.size:
        return
    if isinstance(value, CudaArray):
        copy_into(target, value)
        return
    if target.dtype.kind == "c":
        value = complex(value)
        fill(target.real, value.real)
        fill(target.imag, value.imag)
        return
    value = value.item() if isinstance(value, (numpy.generic, numpy.ndarray)) else value
    if target.is_contiguous and value == 0 and str(value)[0] != "-":
        used = driver.get("fill")
        used.fill_bytes(target.pointer, 0, target.nbytes, streams.current_handle(target.device_index))
        return
    kind = target.dtype
    compute: Any
    if kind.kind == "b":
        value, compute = int(bool(value)), numpy.dtype(numpy.uint8)
    else:
        compute = _FLOAT32 if kind.name in _HALVES else kind
    if kind.kind in "iu":
        value = numpy.array(value).astype(kind).item()
    _copy([value], (), [kind], compute, [target])


def on_device(array: CudaArray, device: int) -> CudaArray:
    """The same values on another device."""
    array = array if array.is_contiguous else array.copy()
    copy = cuda_arrays.empty(array.shape, array.dtype, device)
    if copy.size:
        driver.get("to").copy_peer(
            copy.pointer, device, array.pointer, array.device_index, copy.nbytes, streams.current_handle(device)
        )
    return copy


def _pairs(array: CudaArray) -> CudaArray:
    """A complex array as its parts in a last dim of size 2."""
    part = array.real
    return CudaArray(array.storage, array.pointer, (*array.shape, 2), (*array.strides, part.dtype.itemsize), part.dtype)
