"""What an array is: memory with shape, strides and dtype on one device. `numpy.ndarray` on the CPU, `CudaArray` on a GPU.

Here: allocation, views and questions about memory. No arithmetic (that is `kernels`), no gradients (that is `autograd`).
Everything above asks the functions here, or `backend_of(array)`, and never NumPy.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy

from dynograd.arrays import buffers, cuda_arrays, literals, meta_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.arrays.meta_arrays import MetaArray
from dynograd.base import devices, dtypes
from dynograd.cuda import allocator, driver, pinned, streams
from dynograd.errors import DeviceError

__all__ = ["Array", "Arrays", "IndexArrays"]


@runtime_checkable
class ArrayLike(Protocol):
    """What ops, autograd and Tensor ask of an array, whatever memory it lives in."""

    shape: tuple[int, ...]
    dtype: Any
    ndim: int
    size: int
    nbytes: int

    def reshape(self, shape: tuple[int, ...]) -> Any: ...

    def transpose(self, axes: tuple[int, ...]) -> Any: ...

    def __getitem__(self, index: Any) -> Any: ...


Array: TypeAlias = Any
Arrays: TypeAlias = Any
IndexArrays: TypeAlias = Any

ndarray = numpy.ndarray
array_types: set[type] = {numpy.ndarray, CudaArray, MetaArray}
_backends: dict[type, str] = {numpy.ndarray: "cpu", numpy.generic: "cpu", CudaArray: "cuda", MetaArray: "meta"}
_number_types = (bool, int, float, complex)
SCALARS = (numpy.generic, *_number_types)


FLOATING_WARNINGS = (RuntimeWarning, FloatingPointError)


def quietly(function: Any, *args: Any) -> Any:
    """`function(*args)` without NumPy's warnings of 0/0, log(0) and overflow, which are values here as in PyTorch."""
    with numpy.errstate(all="ignore"):
        return function(*args)


def use_backend(kind: type, backend: str) -> None:
    """From here on `backend_of` arrays of another type is `backend`."""
    _backends[kind] = backend


def backend_of(array: Any) -> str:
    """The suffix of the kernel modules for this array: `cpu`. Python and NumPy numbers count as CPU arrays."""
    for kind in type(array).__mro__:
        if kind in _backends:
            return _backends[kind]
    if isinstance(array, _number_types):
        return "cpu"
    raise TypeError(f"expected an array, got {type(array).__name__}: {array!r}.")


def is_array(value: Any) -> bool:
    return type(value) in array_types or isinstance(value, numpy.generic)


def all_values(array: Any) -> Any:
    """What checks of values look at: `array`, or, where it stands for one example of a batch, the whole batch."""
    return getattr(array, "everything", array)


hear_of_checks: list[Callable[[Any], None]] = []
"""Get each array whose values are checked at once."""


def checked_later(array: Any, check: Callable[[Any], Any]) -> bool:
    """Whether the values of `array` are still to come: then `check` gets them when they are there, and raises what is wrong."""
    later = getattr(array, "when_known", None)
    if later is None:
        for hear in hear_of_checks:
            hear(array)
        return False
    later(check)
    return True


def outline(array: Any) -> Any:
    """An array of the same shape and strides that can be sliced, whatever is in it."""
    if hasattr(array, "everything"):
        return array.view(numpy.ndarray)
    shown = getattr(array, "outlined", None)
    return array if shown is None else shown()


def as_result(value: Any) -> Any:
    """What a kernel returned, as an array: NumPy gives scalars where a result has no dimensions."""
    return numpy.asarray(value) if isinstance(value, SCALARS) else value


def device_of(array: Any) -> devices.device:
    backend_of(array)
    return place_of(array)


def place_of(value: Any) -> devices.device:
    """The device of an array; the CPU for anything else."""
    if type(value) is ndarray:
        return devices.cpu
    device = getattr(value, "device", None)  # of what stands for an array, too
    return device if isinstance(device, devices.device) else devices.cpu


def check_device(who: str, device: Any) -> devices.device:
    """The device, with its index, when arrays can live there on this machine; None is the CPU.

    Raises:
        DeviceError: there is no such device here.
    """
    chosen = devices.as_device(device)
    if chosen.type == "cpu":
        return devices.cpu
    if chosen.type == "meta":
        return meta_arrays.meta
    devices.refuse_elsewhere(who, chosen)
    index = driver.check_index(who, streams.current_device() if chosen.index is None else chosen.index)
    return chosen if chosen.index is not None else devices.device("cuda", index)


def to_device(array: Any, device: devices.device, non_blocking: bool = False) -> Any:
    """The same values in the memory of `device` (as `check_device` gives it); the array itself where it lies there."""
    if type(array) is CudaArray:
        if device.type == "cpu":
            return array.numpy()
        if device.index == array.device_index:
            return array
        if device.type == "cuda":
            return cuda_arrays.operations.on_device(array, device.index)
    if device.type == "meta":
        return meta_arrays.like(array)
    if type(array) is MetaArray:
        raise meta_arrays.no_values(f"to('{device}')")
    return (
        array
        if device.type == "cpu"
        else cuda_arrays.from_numpy(numpy.asarray(array), device.index or 0, non_blocking, constant=False)
    )


def pinned_copy(array: Any) -> Any:
    """The values of a CPU array in pinned host memory."""
    block = pinned.allocate(array.nbytes)
    copied = numpy.asarray(block)[: array.nbytes].view(array.dtype).reshape(array.shape)
    numpy.copyto(copied, array)
    return copied


def record_stream(array: Any, stream: Any) -> None:
    """Notes that work on `stream` uses the memory of a GPU array too."""
    allocator.record_stream(array.storage, stream.cuda_stream)


def is_pinned(array: Any) -> bool:
    return type(array) is ndarray and pinned.owner_of(array) is not None


def empty(shape: tuple[int, ...], dtype: dtypes.dtype, device: devices.device = devices.cpu) -> Array:
    if device.type == "cuda":
        return cuda_arrays.empty(shape, dtype.numpy, device.index)  # type: ignore[arg-type]
    return buffers.empty(shape, dtype.numpy) if device.type == "cpu" else meta_arrays.empty(shape, dtype.numpy)


def empty_like(array: Any) -> Array:
    """A new row-major array with `array`'s shape and dtype, on its device."""
    if type(array) is CudaArray:
        return cuda_arrays.empty(array.shape, array.dtype, array.device_index)
    if type(array) is MetaArray:
        return meta_arrays.empty(array.shape, array.dtype)
    return buffers.empty_like(array)


def zeros(shape: tuple[int, ...], dtype: dtypes.dtype, device: devices.device = devices.cpu) -> Array:
    if device.type == "cuda":
        return full(shape, 0, dtype, device)
    if device.type == "cpu":
        return buffers.zeros(shape, dtype.numpy)
    filled = meta_arrays.empty(shape, dtype.numpy)
    filled.fill(0)
    return filled


def full(shape: tuple[int, ...], value: Any, dtype: dtypes.dtype, device: devices.device = devices.cpu) -> Any:
    if dtype in dtypes.FLOAT8:
        return to_device(cast(numpy.full(shape, value), dtype), device)
    filled = empty(shape, dtype, device)
    filled.fill(value)
    return filled


def ones_like(array: Any) -> Array:
    filled = empty_like(array)
    filled.fill(1)
    return filled


def zeros_like(array: Any) -> Array:
    if type(array) is not ndarray:
        filled = empty_like(array)
        filled.fill(0)
        return filled
    return buffers.zeros(array.shape, array.dtype)


_INTS = {int}


def from_python(data: Any, dtype: dtypes.dtype | None) -> Array:
    """A new array from numbers, nested lists or a NumPy array. Python floats become the default dtype."""
    if type(data) is list and (dtype is None or dtype is dtypes.int64) and {*map(type, data)} == _INTS:
        try:
            return numpy.array(data, dtypes.int64.numpy)
        except OverflowError:
            return literals.array_of(data, dtype)  # which says what is wrong
    if type(data) is float and (dtype is dtypes.float32 or dtype is dtypes.float64):
        return numpy.array(data, dtype.numpy)
    if type(data) is int and dtype is dtypes.int64 and -(1 << 63) <= data < 1 << 63:
        return numpy.array(data, dtypes.int64.numpy)
    if isinstance(data, (numpy.ndarray, numpy.generic)):
        array = numpy.array(data)
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("="))
        return array if dtype is None else cast(array, dtype)
    array = literals.array_of(data, None if dtype in dtypes.FLOAT8 else dtype)
    return cast(array, dtype) if dtype in dtypes.FLOAT8 else array


def from_bytes(data: Any, shape: tuple[int, ...], dtype: dtypes.dtype) -> Array:
    """A new, writable array whose elements are the given bytes, row by row."""
    return numpy.frombuffer(bytearray(data) if isinstance(data, bytes) else data, dtype.numpy).reshape(shape)


def bytes_of(array: Any) -> Array:
    """The memory of a contiguous array on the CPU, as a 1-d array of bytes."""
    if hasattr(type(array), "__dynograd_kernel__"):  # a stand-in, without values
        type(array).__dynograd_kernel__("", "reading its bytes")
    return array.reshape(-1).view(numpy.uint8)


def from_buffer(buffer: Any, dtype: dtypes.dtype, count: int, offset: int) -> Array:
    """A 1-d array on the memory of a Python buffer."""
    return numpy.frombuffer(buffer, dtype.numpy, count, offset)


def as_strided(array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """A view with the given shape and strides in elements, from the first element on."""
    steps = tuple([step * array.dtype.itemsize for step in strides])
    if type(array) is CudaArray:
        return array.as_strided(shape, steps)
    return numpy.lib.stride_tricks.as_strided(array, shape, steps, subok=True)


def cast(array: Any, dtype: dtypes.dtype) -> Any:
    """The array in another dtype: itself when it has it already, a new one otherwise."""
    if array.dtype is dtype.numpy or array.dtype.num == dtype.num:
        return array
    if type(array) is CudaArray:
        if dtype in dtypes.FLOAT8 or dtypes.of_array(array) in dtypes.FLOAT8:  # no kernel has them
            return to_device(cast(array.numpy(), dtype), array.device)
        return array.astype(dtype.numpy)
    if type(array) is MetaArray:
        return meta_arrays.empty(array.shape, dtype.numpy)
    if array.dtype.kind == "c" and dtype.category != dtypes.COMPLEX and dtype is not dtypes.bool:
        array = array.real
    if dtype is dtypes.float8_e4m3fn:  # it has no infinity: what is too large becomes the largest number, as in PyTorch
        array = numpy.clip(array.astype(numpy.float64 if array.dtype.itemsize == 8 else numpy.float32), -448.0, 448.0)
    if dtype.category == dtypes.INTEGER and dtypes.of_array(array).category == dtypes.FLOATING:
        if dtypes.of_array(array) in dtypes.FLOAT8:
            array = array.astype(numpy.float32)  # its infinities would become another number
        try:
            return array.astype(dtype.numpy)
        except FLOATING_WARNINGS:  # NaN and what is too large
            return quietly(array.astype, dtype.numpy)
    if array.nbytes < buffers.SMALLEST:
        return array.astype(dtype.numpy)
    converted = buffers.empty(array.shape, dtype.numpy)
    numpy.copyto(converted, array, casting="unsafe")
    return converted


def copy(array: Any) -> Array:
    """The same values in new, contiguous memory."""
    if type(array) is CudaArray:
        return array.copy()
    if type(array) is MetaArray:
        return meta_arrays.empty(array.shape, array.dtype)
    if array.nbytes < buffers.SMALLEST:
        return numpy.array(array, order="C")
    copied = buffers.empty_like(array)
    numpy.copyto(copied, array)
    return copied


def contiguous(array: Any) -> Any:
    """The array itself when it is row-major, a row-major copy otherwise."""
    return array if is_contiguous(array) else copy(array)


def is_contiguous(array: Any) -> bool:
    return array.is_contiguous if type(array) is CudaArray else array.flags.c_contiguous


def order_of(array: Any, *others: Any) -> tuple[int, ...] | None:
    """The dims from the outermost in memory to the innermost, as copies keep them (PyTorch's preserve_format); None: row-major.

    Where the first array does not say (one element for all), others of the same shape do.
    """
    if is_contiguous(array):
        return None
    return _order_of(tuple(array.shape), tuple([tuple(operand.strides) for operand in (array, *others)]))


@lru_cache(maxsize=1024)
def _order_of(shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    def swapped(inner: int, outer: int) -> int:
        for steps in strides:
            inner_step, outer_step = abs(steps[inner]), abs(steps[outer])
            if inner_step and outer_step and inner_step != outer_step:
                return 1 if inner_step > outer_step else -1
            if inner_step and outer_step and shape[inner] > shape[outer]:
                return 1
        return 0

    inwards = list(reversed(range(len(shape))))
    for end in range(1, len(shape)):  # sorted by insertion: some pairs cannot be compared
        place = end
        for other in reversed(range(end)):
            direction = swapped(inwards[other], inwards[place])
            if direction > 0:
                inwards[other], inwards[place] = inwards[place], inwards[other]
                place = other
            elif direction < 0:
                break
    order = tuple(reversed(inwards))
    return None if order == tuple(range(len(shape))) or 0 in shape else order


def in_order(make: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...], order: tuple[int, ...] | None) -> Array:
    """`make(shape)`, which is row-major, with its dims in memory as `order` says."""
    if not order:
        return make(shape)
    return turned(make(tuple([shape[dim] for dim in order])), order)


def turned(array: Any, order: tuple[int, ...]) -> Array:
    """An array whose dims come in this order, with its dims as they were before."""
    return array.transpose(tuple([order.index(dim) for dim in range(len(order))]))


def is_channels_last(array: Any) -> bool:
    """Whether the channels (dim 1) of a place lie side by side, and the places row by row."""
    return array.ndim > 2 and is_contiguous(array.transpose((0, *range(2, array.ndim), 1)))


def image_order(array: Any) -> tuple[int, ...] | None:
    """The order of the dims of (N, C, sizes) whose channels lie side by side (channels_last); None for all others."""
    if array.ndim not in (4, 5) or is_contiguous(array) or not is_channels_last(array):
        return None
    return (0, *range(2, array.ndim), 1)


def owns_memory(array: Any) -> bool:
    """Whether nobody else's memory is behind the array and it is laid out row by row."""
    if type(array) is CudaArray:
        storage = array.storage
        return array.pointer == storage.pointer and array.is_contiguous and sys.getrefcount(storage) <= _ALONE
    return (array.base is None or buffers.is_leased(array)) and array.flags.c_contiguous


# References to a storage that one array alone has: the array's, the variable's, and getrefcount's own.
_ALONE = 3


def is_view_of(array: Any, other: Any) -> bool:
    """Whether `array`, made of `other`, lies in the same memory."""
    return base_of(array) is base_of(other)


def base_of(array: Any) -> Any:
    """The object that owns the memory: writes through any view of it are writes to it."""
    base = array.base
    if type(array) is CudaArray:
        return base
    while base is not None:
        array = base
        if type(array) is buffers.Lease:
            return array  # what is behind it will be lent to others
        base = getattr(array, "base", None)
    return array


def may_overlap(array: Any, other: Any) -> bool:
    """Whether the two could share an element (bounds of their memory intersect)."""
    if type(array) is CudaArray or type(other) is CudaArray:
        return cuda_arrays.may_overlap(array, other)
    return numpy.may_share_memory(array, other)


def address_of(array: Any) -> int:
    """Where the first element lies, in the memory of the array's device."""
    if type(array) is ndarray and _BY_HEADER:
        return _word_at(id(array) + _HEADER).value
    return array.pointer if type(array) is CudaArray else array.__array_interface__["data"][0]


# An array object begins with Python's own header, then the address of its data: asking for it by name takes ten times as long.
_HEADER = object.__basicsize__
_word_at = ctypes.c_ssize_t.from_address
_probe = ndarray(3)
_BY_HEADER = (
    sys.implementation.name == "cpython"
    and _word_at(id(_probe) + _HEADER).value == _probe.__array_interface__["data"][0]
)


def strides_in_elements(array: Any) -> tuple[int, ...]:
    size = array.dtype.itemsize
    if not array.size and 0 in array.strides:  # numpy counts dims without elements as they are, others as of one
        return tuple([prod([max(own, 1) for own in array.shape[dim + 1 :]]) for dim in range(array.ndim)])
    return tuple([stride // size for stride in array.strides])


def offset_in_elements(array: Any) -> int:
    base = base_of(array)
    if type(array) is CudaArray:
        return (array.pointer - base.pointer) // array.dtype.itemsize
    if not isinstance(base, numpy.ndarray):
        return 0
    return (array.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // array.dtype.itemsize


def write(target: Any, value: Any) -> None:
    """Writes `value` (broadcast, cast) into the memory of `target`."""
    if type(target) is CudaArray:
        cuda_arrays.operations.copy_into(target, value)
    elif type(target) is not MetaArray:
        numpy.copyto(target, to_numpy(value), casting="unsafe")


def broadcast_to(array: Any, shape: tuple[int, ...]) -> Any:
    """A view of `array` stretched to `shape` (stride 0 where it repeats); writable like `array`."""
    if array.shape == shape:
        return array
    if type(array) is CudaArray:
        return array.broadcast_to(shape)
    if type(array) is MetaArray:
        return broadcast_to(array.view(ndarray), shape).view(MetaArray)
    own = array.shape
    place = len(shape) - len(own)
    if place:
        strides = [0] * len(shape)
        for size, step in zip(own, array.strides):
            if size != 1 or shape[place] == 1:
                strides[place] = step
            place += 1
    else:
        strides = [step if size == want else 0 for size, want, step in zip(own, shape, array.strides)]
    if array.flags.c_contiguous:  # the quick way; as_strided costs 2 us
        return numpy.ndarray(shape, array.dtype, array, 0, strides)
    return numpy.lib.stride_tricks.as_strided(array, shape, strides)


def add_into(target: Any, value: Any) -> None:
    """Gradient accumulation: `target += value` in the memory of `target`."""
    if type(target) is CudaArray:
        target += value
    elif type(target) is not MetaArray:
        numpy.add(target, value, target)


def has_nan(array: Any) -> bool:
    if type(array) is CudaArray:
        return array.dtype.kind in "fV" and bool(cuda_arrays.operations.elementwise("isnan", array).any())
    if type(array) is MetaArray:
        return False
    return array.dtype.kind in "fcV" and bool(numpy.isnan(array).any())


def is_finite(array: Any) -> bool:
    """Whether all elements are neither infinite nor NaN."""
    if array.dtype.kind not in "fcV":
        return True
    if type(array) is CudaArray:
        return bool(cuda_arrays.operations.elementwise("isfinite", array).all())
    return bool(numpy.isfinite(array).all())


def to_numpy(array: Any) -> Any:
    """The values as a NumPy array, sharing memory where that is possible."""
    if type(array) is MetaArray:
        raise meta_arrays.no_values("numpy")
    return array.numpy() if type(array) is CudaArray else array


def item(array: Any) -> Any:
    """The single value as a Python number."""
    return array.item()


def tolist(array: Any) -> Any:
    return array.tolist()
