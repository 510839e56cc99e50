"""New tensors: from data, filled, counted. Random ones are in `randomness.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from os import PathLike
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, buffers, dlpack, literals, ndarray
from dynograd.arrays.buffers import of_sizes
from dynograd.base import devices, dtypes
from dynograd.base.devices import cpu, get_default_device
from dynograd.base.dtypes import get_default_dtype
from dynograd.base.memory_formats import preserve_format, wanted
from dynograd.base.shapes import Size, as_shape, check_number, check_sizes, check_whole, sizes_by_name, whole_number
from dynograd.cuda import streams
from dynograd.errors import DeviceError, DtypeError, ShapeError
from dynograd.interpreter import TENSORS
from dynograd.interpreter.out_forms import out_dtype, write_out
from dynograd.kernels import kernel
from dynograd.kernels.build import determinism
from dynograd.ops.op import keep
from dynograd.tensor.storages import UntypedStorage, is_storage
from dynograd.tensor.tensor import Tensor, wrap

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eye",
    "from_dlpack",
    "from_file",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "scalar_tensor",
    "tensor",
    "to_dlpack",
    "zeros",
    "zeros_like",
]


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new tensor holding a copy of `data`: a number, nested lists, a NumPy array or a tensor.

    Args:
        data: number, nested lists, array or tensor.
        dtype: element type; by default Python floats become the default dtype, ints int64, NumPy arrays keep theirs.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        pin_memory: into pinned host memory.
    Returns:
        A tensor.
    Raises:
        ValueError: lists of different lengths.

    >>> tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if _is_foreign(data):
        data = from_dlpack(data)
    if device is None and isinstance(data, Tensor):
        device = data.device
    place = arrays.check_device("tensor", device)
    tensor = wrap(arrays.to_device(_from_data(data, kind), place))
    dtypes.of_array(tensor.array)
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def _is_foreign(data: Any) -> bool:
    """Whether it is the array of another library, which shows its memory by DLPack."""
    return (
        not isinstance(data, (list, tuple, int, float, Tensor))
        and not arrays.is_array(data)
        and hasattr(data, "__dlpack__")
    )


def _from_data(data: Any, kind: Any) -> Any:
    if isinstance(data, Tensor):
        data = data.detach() if data.requires_grad else data
        return arrays.copy(data.array) if kind is None else arrays.copy(arrays.cast(data.array, kind))
    if is_storage(data):
        data = data._array
    return arrays.from_python(data, kind)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory with a tensor, storage or NumPy array where dtype allows.

    Args:
        data: number, nested lists, array, storage or tensor.
        dtype: of the elements; as `tensor` chooses it by default.
        device: where it lives; by default where `data` lives.
    Returns:
        A tensor.

    >>> dynograd.as_tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=kind)
    if is_storage(data):
        data = data._array
    if _is_foreign(data):
        return from_dlpack(data).to(device=device, dtype=kind)
    if arrays.is_array(data) and len(data.shape):
        dtypes.of_array(data)
        _check_strides("as_tensor", data)
        result = data if kind is None else arrays.cast(data, kind)
        if device is not None or not isinstance(data, arrays.CudaArray):
            result = arrays.to_device(result, arrays.check_device("as_tensor", device))
        return wrap(result)
    return tensor(data, dtype=kind, device=device)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """`obj` as a tensor; `copy=True` never shares memory, `copy=False` raises when it would have to copy.

    A tensor keeps its history, through a copy too, unless `requires_grad` is given: False cuts it off, True gives a leaf where there
    is none.

    Args:
        obj: number, nested lists, array, buffer or tensor.
        dtype: of the elements; as `tensor` chooses it by default.
        device: where it lives; by default where `obj` lives.
        copy: None: only where it must be.
        requires_grad: record what is done with the result.
    Returns:
        A tensor.

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> dynograd.asarray(x, copy=True).requires_grad, dynograd.asarray(x, requires_grad=False).requires_grad
    (True, False)
    """
    tensor = as_tensor(obj, dtype, device)
    source = obj.array if isinstance(obj, Tensor) else obj._array if is_storage(obj) else obj
    shares = tensor.array is source or (arrays.is_array(source) and arrays.may_overlap(tensor.array, source))
    if copy and shares:
        tensor = tensor.clone() if isinstance(obj, Tensor) else wrap(arrays.copy(tensor.array))
    if copy is False and not shares:
        raise ValueError(
            f"asarray: can't alias {type(obj).__name__} with dtype={dtype}; a copy is needed. Pass copy=None."
        )
    if requires_grad is None:
        return tensor
    from_leaf = tensor is not obj and isinstance(obj, Tensor) and obj.is_leaf
    if requires_grad and (not tensor.requires_grad or from_leaf):
        tensor = tensor.detach()
        tensor.requires_grad = True
    return tensor if requires_grad or not tensor.requires_grad else tensor.detach()


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor that shares the memory of a NumPy array.

    Args:
        ndarray: NumPy array of a dtype that tensors have.
    Returns:
        A tensor of its shape.
    Raises:
        TypeError: another dtype, or no array.
        ValueError: elements that do not lie whole elements apart.

    >>> import numpy
    >>> dynograd.from_numpy(numpy.array([1.0, 2.0]))
    tensor([1., 2.], dtype=dynograd.float64)
    """
    if not isinstance(ndarray, arrays.ndarray):
        raise TypeError(
            f"from_numpy: expected np.ndarray (got {type(ndarray).__name__}). Use tensor(...) for lists and numbers."
        )
    dtypes.of_array(ndarray)
    _check_strides("from_numpy", ndarray)
    return wrap(ndarray)


def _check_strides(who: str, array: Any) -> None:
    if any([step % array.itemsize for step in array.strides]):
        raise ValueError(
            f"{who}: given numpy array strides {array.strides} not a multiple of the element byte size {array.itemsize}. Copy the numpy "
            f"array to reallocate the memory."
        )


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's array (or of a DLPack capsule); nothing is copied unless `copy=True`.

    A write into memory that its owner says must not be written is an error; on a GPU such memory is copied.

    Args:
        ext_tensor: an object with `__dlpack__`, or a capsule.
        device: where the result lives.
        copy: True always copies, False never does.
    Returns:
        A tensor of its shape.
    Raises:
        ValueError: `copy=False`, and another `device` than the memory's.
        BufferError: the library refuses, or has another major version of DLPack.
        TypeError: no such object, or a dtype that dynograd does not have.

    >>> import numpy
    >>> dynograd.from_dlpack(numpy.arange(3))
    tensor([0, 1, 2])
    """
    if type(ext_tensor).__name__ == "PyCapsule":
        capsule = ext_tensor
    elif hasattr(ext_tensor, "__dlpack__"):
        kind, index = ext_tensor.__dlpack_device__()
        options = {"stream": streams.current_handle(index) or 1} if kind == dlpack.CUDA else {}
        try:
            capsule = ext_tensor.__dlpack__(**options, max_version=dlpack.VERSION)
        except TypeError:  # of a library that knows the protocol before version 1
            capsule = ext_tensor.__dlpack__(**options)
    else:
        raise TypeError(
            f"from_dlpack: expected an array with __dlpack__ or a capsule, got {type(ext_tensor).__name__}."
        )
    array, read_only = dlpack.from_capsule(capsule)
    tensor = wrap(array)
    place = tensor.device if device is None else arrays.check_device("from_dlpack", device)
    unprotected = read_only and tensor.is_cuda  # nothing would keep programs from writing there
    if copy is False and (place != tensor.device or unprotected):
        problem = "that must not be written" if unprotected else f"on {tensor.device}"
        raise ValueError(f"from_dlpack: memory {problem} cannot be used on {place} without a copy. Pass copy=None.")
    if (copy or unprotected) and place == tensor.device:
        tensor = wrap(arrays.copy(tensor.array))
    return tensor.to(place)


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule of the tensor's memory; `from_dlpack` of any library takes it, once.

    Args:
        tensor: without history.
    Returns:
        A capsule.

    >>> dynograd.from_dlpack(dynograd.to_dlpack(tensor([1.0, 2.0])))
    tensor([1., 2.])
    """
    return tensor.__dlpack__()


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A 1-d tensor on the memory of a Python buffer, as elements of `dtype`.

    Args:
        buffer: bytes, bytearray, memoryview and the like.
        dtype: of the elements.
        count: how many; -1: all.
        offset: number of bytes before the first.
        requires_grad: record what is done with the result.
    Returns:
        (count,).

    >>> dynograd.frombuffer(bytearray(b"abc"), dtype=dynograd.uint8)
    tensor([97, 98, 99], dtype=dynograd.uint8)
    """
    try:
        memoryview(buffer).release()
    except TypeError:
        raise ValueError(
            f"frombuffer: object does not implement Python buffer protocol, got {type(buffer).__name__}. Give bytes, a bytearray or an array, or "
            f"use tensor()."
        ) from None
    return _finish(arrays.from_buffer(buffer, dtypes.as_dtype(dtype), count, offset), requires_grad)


def from_file(
    filename: str | PathLike[str],
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A 1-d tensor on the bytes of a file, which are read when they are used.

    Args:
        filename: path of the file.
        shared: what is written goes into the file, which is made, and as long, if it is shorter; else the file stays as it is.
        size: number of elements.
        dtype: of the elements; the default dtype.
        layout, pin_memory: accepted; files are in no pinned memory.
        device: the CPU.
        requires_grad: record what is done with the result.
    Returns:
        (size,).
    Raises:
        RuntimeError: the file is shorter.
        DeviceError: a device that is not the CPU.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> dynograd.from_file(path, shared=True, size=3, dtype=dynograd.int32)[1:] += 7
    >>> dynograd.from_file(path, size=3, dtype=dynograd.int32)
    tensor([0, 7, 7], dtype=dynograd.int32)
    """
    kind = get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if device is not None and devices.as_device(device).type != "cpu":
        raise DeviceError(f"from_file: expected the CPU, got device {device}. Call .to({str(device)!r}) on the result.")
    count = whole_number("from_file", "size", size)
    storage = UntypedStorage.from_file(filename, bool(shared), count * kind.itemsize)
    return _finish(storage._array.view(kind.numpy), requires_grad)


def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of whatever was in memory, with the given strides (in elements).

    Args:
        size, stride: ints, as many of each.
        dtype: of the elements; the default dtype.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        A tensor of these sizes.

    >>> dynograd.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    size, stride = as_shape("empty_strided", (tuple(size),)), as_shape("empty_strided", (tuple(stride),))
    if len(size) != len(stride):
        raise ShapeError(f"empty_strided: size {size} and stride {stride} differ in length.")
    reach = 1 + sum([(count - 1) * step for count, step in zip(check_sizes("empty_strided", size), stride)])
    whole = empty(reach if 0 not in size else 0, dtype=dtype, device=device)
    return _finish(arrays.as_strided(whole.array, size, stride), requires_grad)


def empty_permuted(
    size: Any,
    physical_layout: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of whatever was in memory, dense, with the dims in memory in the order of `physical_layout` (the last one closest).

    Args:
        size: the sizes, as a tuple.
        physical_layout: the dims in the order of memory.
        dtype: of the elements; the default dtype.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        A tensor of these sizes.

    >>> dynograd.empty_permuted((2, 3, 5), (0, 2, 1)).stride()
    (15, 1, 3)
    """
    size, order = tuple(size), as_shape("empty_permuted", (tuple(physical_layout),))
    if sorted(order) != list(range(len(size))):
        raise ShapeError(
            f"empty_permuted: Number of dimensions in size does not match the length of the physical_layout, or a dim appears twice: "
            f"size {size}, physical_layout {order}. Name every dim of size once."
        )
    strides, step = [0] * len(size), 1
    for place in reversed(order):
        strides[place] = step
        step *= max(size[place], 1)
    return empty_strided(size, strides, dtype=dtype, device=device, requires_grad=requires_grad)


def scalar_tensor(
    s: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A 0-d tensor of the default dtype.

    Args:
        s (number): its value.
        dtype: of the element; the default dtype.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        A tensor without dims.

    >>> dynograd.scalar_tensor(3)
    tensor(3.)
    """
    return tensor(s, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad)


_FEW = 1 << 14  # elements
_NUMBERS = frozenset({int, float})


_ROWS = ("arange", "linspace", "logspace")


def in_order(row: Tensor, out: Any) -> Tensor:
    """A row of numbers in the shape of an `out` of as many elements, which gets them in order and keeps its shape."""
    return row.reshape(out.shape) if isinstance(out, Tensor) and out.numel() == row.numel() else row


def _finish(array: Any, requires_grad: bool, out: Tensor | None = None, who: str = "") -> Tensor:
    if out is not None:
        return write_out(who, out, in_order(wrap(array), out) if who in _ROWS else wrap(array), warn=False)
    tensor = wrap(array)
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def _kind(dtype: Any, out: Any = None) -> dtypes.dtype:
    dtype = dtype if out is None else out_dtype(dtype, out)
    return dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)


def _where(who: str, device: Any, out: Any) -> devices.device:
    """The device: that of `out`, unless one is given."""
    return arrays.check_device(who, out.device if device is None and isinstance(out, Tensor) else device)


def _filled(who: str, size: tuple) -> tuple[int, ...]:
    return check_sizes(who, as_shape(who, size))


def at_once(make: Any, size: Any, dtype: Any, device: Any, requires_grad: bool, value: Any = None) -> Tensor | None:
    """The usual case without a further question: a small tensor on the CPU; None where there is more to ask."""
    if device is None:
        if get_default_device() is not cpu:
            return None
    elif type(device) is not devices.device or device.type != "cpu":
        return None
    if dtype is None:
        dtype = get_default_dtype()
    elif type(dtype) is not dtypes.dtype:
        return None
    if requires_grad or dtype.num > 255:
        return None
    array = of_sizes(make, size, dtype.numpy, value)
    return None if array is None else wrap(array)


def at_once_like(
    make: Any, input: Any, dtype: Any, device: Any, requires_grad: bool, value: Any = None
) -> Tensor | None:
    """`at_once` in the shape and dtype of `input`."""
    if type(input) not in TENSORS or dtype is not None or device is not None or requires_grad:
        return None
    like = input.array
    if type(like) is not ndarray or like.dtype.num > 255 or like.size > buffers.FEW or not like.flags.c_contiguous:
        return None
    try:
        array = make(like.shape, like.dtype)
        if value is not None:
            if not -65504.0 <= value <= 65504.0 and buffers.is_too_large(value, like.itemsize):
                return None
            array.fill(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if array is None else wrap(array)


_patterns: dict[Any, Any] = {}  # small results that depend on numbers alone, as arrays to copy


def _pattern(who: str, numbers: tuple, dtype: Any, device: Any, requires_grad: bool, out: Any) -> tuple[Any, Any]:
    """(the array that is copied for these arguments, None) if there is one, else (None, the key to keep it under, or None)."""
    if out is not None or device is not None or requires_grad or devices.get_default_device() is not devices.cpu:
        return None, None
    for number in numbers:
        if not (
            type(number) is int or number is None or (type(number) is float and number)
        ):  # 0.0 and -0.0 are one key
            return None, None
    if dtype is None:
        dtype = dtypes.get_default_dtype()
    elif type(dtype) is not dtypes.dtype:
        return None, None
    key = who, numbers, tuple(map(type, numbers)), dtype
    return _patterns.get(key), key


def _remember(key: Any, result: Tensor) -> Tensor:
    if key is not None and result.array.size <= 1024:
        keep(_patterns, key, result.array.copy(), 256)
    return result


def zeros(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of zeros.

    Args:
        sizes: the sizes, as numbers.
        size: the same, as a tuple.
        dtype: of the elements; the default dtype.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        A tensor of these sizes.

    >>> dynograd.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    if size is not None:
        sizes = sizes_by_name("zeros", sizes, size)
    if out is None:
        result = at_once(buffers.new_zeros, sizes, dtype, device, requires_grad)
        if result is not None:
            return result
    return _finish(
        arrays.zeros(_filled("zeros", sizes), _kind(dtype, out), _where("zeros", device, out)),
        requires_grad,
        out,
        "zeros",
    )


def ones(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of ones.

    Args:
        sizes: the sizes, as numbers.
        size: the same, as a tuple.
        dtype: of the elements; the default dtype.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        A tensor of these sizes.

    >>> dynograd.ones(2, 2)
    tensor([[1., 1.],
            [1., 1.]])
    """
    if size is not None:
        sizes = sizes_by_name("ones", sizes, size)
    if out is None:
        result = at_once(buffers.new_empty, sizes, dtype, device, requires_grad, 1)
        if result is not None:
            return result
    return _finish(
        arrays.full(_filled("ones", sizes), 1, _kind(dtype, out), _where("ones", device, out)),
        requires_grad,
        out,
        "ones",
    )


def empty(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of whatever was in memory.

    Args:
        sizes: the sizes, as numbers.
        size: the same, as a tuple.
        dtype: of the elements; the default dtype.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        A tensor of these sizes.

    >>> dynograd.empty(2, 3).shape
    dynograd.Size([2, 3])
    """
    if size is not None:
        sizes = sizes_by_name("empty", sizes, size)
    if out is None and memory_format is None and not determinism.are_deterministic_algorithms_enabled():
        result = at_once(buffers.new_empty, sizes, dtype, device, requires_grad)
        if result is not None:
            return result
    kind, place = _kind(dtype, out), _where("empty", device, out)
    shape = _filled("empty", sizes)
    return _finish(
        _in_order(lambda shape: _uninitialized(shape, kind, place), shape, None, memory_format),
        requires_grad,
        out,
        "empty",
    )


def _uninitialized(shape: tuple[int, ...], kind: Any, place: Any) -> Array:
    value = determinism.filling(kind.numpy)
    return arrays.empty(shape, kind, place) if value is None else arrays.full(shape, value, kind, place)


_KIND_OF: dict[type, Any] = {bool: lambda: dtypes.bool, int: lambda: dtypes.int64, float: dtypes.get_default_dtype}


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of `fill_value`; its dtype is that of the value unless given.

    Args:
        size: the sizes, as a tuple.
        fill_value: number.
        dtype: of the elements.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        A tensor of these sizes.

    >>> dynograd.full((2,), 7)
    tensor([7, 7])
    """
    if out is None and type(fill_value) in _KIND_OF:
        kind = _KIND_OF[type(fill_value)]() if dtype is None else dtype
        result = at_once(buffers.new_empty, (size,), kind, device, requires_grad, fill_value)
        if result is not None:
            return result
    dtype = out_dtype(dtype, out)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    if type(value) is str:
        raise TypeError(f"full(): argument 'fill_value' must be a number, not str ({value!r}).")
    kind = dtypes.of_scalar(value) if dtype is None else dtypes.as_dtype(dtype)
    shape = _filled("full", (size,))
    return _finish(
        arrays.full(shape, literals.fitting(value, kind, math.prod(shape)), kind, _where("full", device, out)),
        requires_grad,
        out,
        "full",
    )


def _like(input: Tensor, dtype: Any) -> dtypes.dtype:
    return input.dtype if dtype is None else dtypes.as_dtype(dtype)


def _alike(input: Tensor, result: Tensor) -> Tensor:
    """`result`, made from a size and the dtype of `input`; a tensor of another type may make one of its own type of it."""
    follow = getattr(type(input), "__dynograd_alike__", None)
    return result if follow is None else follow(input, result)


def own_layout(input: Tensor, layout: Any) -> Callable[[str, Callable[[Tensor], Tensor]], Tensor] | None:
    """What makes sparse tensors like the sparse `input`; None of others, and where `layout` asks for another one."""
    follow = getattr(input, "__dynograd_like__", None)
    return follow if layout is None or layout == input.layout else None


def _beside(input: Tensor, device: Any) -> devices.device:
    """The device asked for, or else the one that `input` is on."""
    return arrays.check_device("device", input.device if device is None else device)


def order_like(like: Any, rank: int, memory_format: Any) -> tuple[int, ...] | None:
    """The order in memory that a format stands for (None: row-major); that of the array `like` unless given."""
    if memory_format is None and (like is None or arrays.is_contiguous(like)):
        return None
    format = wanted("memory_format", memory_format, rank)
    if format is preserve_format:
        return None if like is None else arrays.order_of(like)
    return (0, *range(2, rank), 1) if format.rank else None


def _in_order(make: Any, shape: tuple[int, ...], like: Any, memory_format: Any) -> Array:
    """`make(shape)` with its elements in memory as the format says; like those of the array `like` unless given."""
    return arrays.in_order(make, shape, order_like(like, len(shape), memory_format))


def zeros_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Zeros in the shape and dtype of `input`.

    Args:
        input: tensor of any shape.
        dtype, device: other ones than those of `input`.
        requires_grad: record what is done with the result.
        layout: `dynograd.strided` gives a dense tensor where `input` is sparse.
        pin_memory: accepted.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.zeros_like(tensor([1, 2]))
    tensor([0, 0])
    """
    if memory_format is None:
        result = at_once_like(buffers.new_zeros, input, dtype, device, requires_grad)
        if result is not None:
            return result
    follow = own_layout(input, layout)
    if follow is not None:
        return follow("zeros_like", lambda x: zeros_like(x, dtype=dtype, device=device, requires_grad=requires_grad))
    kind, place = _like(input, dtype), _beside(input, device)
    result = _in_order(lambda sizes: arrays.zeros(sizes, kind, place), input.array.shape, input.array, memory_format)
    return _alike(input, _finish(result, requires_grad))


def ones_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Ones in the shape and dtype of `input`.

    Args:
        input: tensor of any shape.
        dtype, device: other ones than those of `input`.
        requires_grad: record what is done with the result.
        layout: `dynograd.strided` gives a dense tensor where `input` is sparse.
        pin_memory: accepted.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.ones_like(tensor([1, 2]))
    tensor([1, 1])
    """
    if memory_format is None:
        result = at_once_like(buffers.new_empty, input, dtype, device, requires_grad, 1)
        if result is not None:
            return result
    follow = own_layout(input, layout)
    if follow is not None:
        return follow("ones_like", lambda x: ones_like(x, dtype=dtype, device=device, requires_grad=requires_grad))
    kind, place = _like(input, dtype), _beside(input, device)
    result = _in_order(lambda sizes: arrays.full(sizes, 1, kind, place), input.array.shape, input.array, memory_format)
    return _alike(input, _finish(result, requires_grad))


def empty_like(
    input: Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Unset memory in the shape and dtype of `input`.

    Args:
        input: tensor of any shape.
        dtype, device: other ones than those of `input`.
        requires_grad: record what is done with the result.
        layout: `dynograd.strided` gives a dense tensor where `input` is sparse.
        pin_memory: accepted.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.empty_like(tensor([1, 2])).dtype
    dynograd.int64
    """
    if memory_format is None and not determinism.are_deterministic_algorithms_enabled():
        result = at_once_like(buffers.new_empty, input, dtype, device, requires_grad)
        if result is not None:
            return result
    follow = own_layout(input, layout)
    if follow is not None:
        return follow("empty_like", lambda x: empty_like(x, dtype=dtype, device=device, requires_grad=requires_grad))
    kind, place = _like(input, dtype), _beside(input, device)
    result = _in_order(lambda sizes: _uninitialized(sizes, kind, place), input.array.shape, input.array, memory_format)
    return _alike(input, _finish(result, requires_grad))


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`fill_value` in the shape and dtype of `input`.

    Args:
        input: tensor of any shape.
        fill_value: number.
        dtype, device: other ones than those of `input`.
        requires_grad: record what is done with the result.
        layout: `dynograd.strided` gives a dense tensor where `input` is sparse.
        pin_memory: accepted.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.full_like(tensor([1, 2]), 7)
    tensor([7, 7])
    """
    if memory_format is None and type(fill_value) in _KIND_OF:
        quick = at_once_like(buffers.new_empty, input, dtype, device, requires_grad, fill_value)
        if quick is not None:
            return quick
    follow = own_layout(input, layout)
    if follow is not None:
        return follow(
            "full_like", lambda x: full_like(x, fill_value, dtype=dtype, device=device, requires_grad=requires_grad)
        )
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    kind, place = _like(input, dtype), _beside(input, device)
    value = literals.fitting(value, kind, input.array.size)
    result = _in_order(
        lambda sizes: arrays.full(sizes, value, kind, place), input.array.shape, input.array, memory_format
    )
    return _alike(input, _finish(result, requires_grad))


def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`start`, `start + step`, ... up to but without `end`. int64 for ints, the default dtype for floats.

    Args:
        start: the first number; 0 when only one number is given.
        end: where it ends.
        step: not 0; negative steps go down.
        dtype: of the elements.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        (ceil((end - start) / step),).

    >>> dynograd.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    if dtype is None and out is None and type(start) is int and type(step) is int and step > 0:
        if (end is None or type(end) is int) and not requires_grad and device is None:
            first, last = (0, start) if end is None else (start, end)
            if 0 <= last - first < _FEW and devices.get_default_device() is devices.cpu:
                return wrap(kernel("creation", "counted", 0)(first, last, step))
    place = _where("arange", device, out)
    if end is None:
        if start is None:
            raise TypeError("arange: missing 1 required argument: 'end'. Pass arange(end) or arange(start, end, step).")
        start, end = 0, start
    elif start is None:
        start = 0
    start, end, step = (operand.item() if hasattr(operand, "item") else operand for operand in (start, end, step))
    for name, value in (("start", start), ("end", end), ("step", step)):
        check_number("arange", name, value)
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"arange: unsupported range: {start} -> {end}. Give finite bounds.")
    dtype = out_dtype(dtype, out)
    whole = all(isinstance(operand, int) for operand in (start, end, step))
    kind = (dtypes.int64 if whole else dtypes.get_default_dtype()) if dtype is None else dtypes.as_dtype(dtype)
    if not whole and kind.category == dtypes.INTEGER:
        start, end, step, whole = int(start), int(end), int(step), True
    if step == 0:
        raise RuntimeError(f"arange: step must be nonzero, got 0 in {kind}.")
    if (end - start) * step < 0:
        raise ShapeError(
            f"arange: upper bound and lower bound inconsistent with step sign: start={start}, end={end}, step={step}. "
            f"Swap the bounds or change the sign of step."
        )
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    check_sizes("arange", (count,))
    return _finish(kernel("creation", "arange", place)(start, step, count, kind.numpy), requires_grad, out, "arange")


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`, both included.

    Args:
        start, end: numbers, or tensors without dims.
        steps: how many, at least 0.
        dtype: of the elements; the default dtype.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        (steps,).

    >>> dynograd.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    result, key = _pattern("linspace", (start, end, steps), dtype, device, requires_grad, out)
    if result is not None:
        return wrap(result.copy())
    place = _where("linspace", device, out)
    kind = _kind_between(start, end, dtype, out)
    start, end = _bounds("linspace", start, end, kind)
    check_number("linspace", "steps", steps)
    check_whole("linspace", steps=steps)
    steps = steps.__index__()
    if steps < 0:
        raise ShapeError(f"linspace: number of steps must be non-negative, got {steps}.")
    check_sizes("linspace", (steps,))
    outcome = kernel("creation", "linspace", place)(start, end, steps, kind.numpy)
    return _remember(key, _finish(outcome, requires_grad, out, "linspace"))


def _kind_between(start: Any, end: Any, dtype: Any, out: Any) -> dtypes.dtype:
    """The dtype that is asked for, or that of numbers between these two: a complex one if one of them is."""
    if dtype is None and out is None:
        for bound in (start, end):
            if isinstance(bound, complex) or (isinstance(bound, Tensor) and bound.is_complex()):
                return dtypes.default_complex()
    return _kind(dtype, out)


def _bounds(who: str, start: Any, end: Any, kind: Any) -> tuple[Any, Any]:
    """The numbers between which numbers of a dtype are counted up: whole ones for integers."""
    if kind.category != dtypes.INTEGER and type(start) in _NUMBERS and type(end) in _NUMBERS:
        return start, end
    for name, value in (("start", start), ("end", end)):
        if not isinstance(value, complex):
            check_number(who, name, value)
        if isinstance(value, Tensor) and value.ndim:
            raise ShapeError(f"{who}: {name} must be a number or a 0-d tensor, got shape {tuple(value.shape)}.")
        if isinstance(value, Tensor) and value.is_complex() and not kind.is_complex:
            raise DtypeError(
                f"{who}: {name} of {value.dtype} can't be safely cast to {kind}. Pass dtype={value.dtype}."
            )
    start, end = (operand.item() if isinstance(operand, Tensor) else operand for operand in (start, end))
    for name, value in (("start", start), ("end", end)):
        if isinstance(value, complex) and not kind.is_complex:
            raise DtypeError(f"{who}: {name}={value} is complex, and {kind} is not. Pass dtype=dynograd.complex64.")
    return (int(start), int(end)) if kind.category == dtypes.INTEGER else (start, end)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`base` to the power of evenly spaced exponents from `start` to `end`.

    Args:
        start, end: exponents: numbers, or tensors without dims.
        steps: how many, at least 0.
        base: number.
        dtype: of the elements; the default dtype.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        (steps,).

    >>> dynograd.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    kind = _kind_between(start, end, dtype, out)
    start, end = _bounds("logspace", start, end, kind)
    check_number("logspace", "base", base)
    precise = dtypes.complex128 if kind.is_complex else dtypes.float64
    exponents = linspace(start, end, steps, dtype=precise, device=_where("logspace", device, out))
    return _finish(arrays.cast(exponents.array.__rpow__(base), kind), requires_grad, out, "logspace")


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Ones on the diagonal, zeros elsewhere.

    Args:
        n: number of rows.
        m: number of columns; n by default.
        dtype: of the elements; the default dtype.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        (n, m).

    >>> dynograd.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    result, key = _pattern("eye", (n, m), dtype, device, requires_grad, out)
    if result is not None:
        return wrap(result.copy())
    place = _where("eye", device, out)
    rows, columns = whole_number("eye", "n", n), whole_number("eye", "m", n if m is None else m)
    check_sizes("eye", (rows, columns))
    outcome = kernel("creation", "eye", place)(rows, columns, _kind(dtype, out).numpy)
    return _remember(key, _finish(outcome, requires_grad, out, "eye"))


def _new(maker: Any) -> Callable[..., Any]:
    """The method that calls `maker` with this tensor's dtype and device, if they are not given."""
    name = f"new_{maker.__name__}"

    def method(
        self: Tensor,
        *sizes: Any,
        size: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
    ) -> Tensor:
        if size is not None:
            sizes = sizes_by_name(name, sizes, size)
        dtype, device = self.dtype if dtype is None else dtype, self.device if device is None else device
        return _alike(self, maker(*sizes, dtype=dtype, device=device, requires_grad=requires_grad))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""`dynograd.{maker.__name__}` in this tensor's dtype and on its device.

    Args:
        sizes: the sizes, as numbers.
        size: the same, as a tuple.
        dtype, device: other ones than this tensor's.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        A tensor of these sizes.

    >>> tensor([1, 2]).{name}(2, 3).shape
    dynograd.Size([2, 3])
    """
    return method


def _new_full(
    self: Tensor,
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """`dynograd.full` in this tensor's dtype and on its device.

    Args:
        size: the sizes, as a tuple.
        fill_value: number.
        dtype, device: other ones than this tensor's.
        layout, pin_memory: accepted; tensors made here are strided.
        requires_grad: record what is done with the result.
    Returns:
        A tensor of these sizes.

    >>> tensor([1.0]).new_full((2,), 3)
    tensor([3., 3.])
    """
    dtype, device = self.dtype if dtype is None else dtype, self.device if device is None else device
    return _alike(self, full(size, fill_value, dtype=dtype, device=device, requires_grad=requires_grad))


def _new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`dynograd.tensor` in this tensor's dtype and on its device.

    Args:
        data: number, nested lists, array or tensor.
        dtype, device: other ones than this tensor's.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
    Returns:
        A tensor.

    >>> tensor([1]).new_tensor([2, 3])
    tensor([2, 3])
    """
    dtype, device = self.dtype if dtype is None else dtype, self.device if device is None else device
    return tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


def _new_any(self: Tensor, *data: Any, size: Any = None, other: Any = None, device: Any = None) -> Tensor:
    """A tensor of this dtype from data, or unset memory of the given sizes (legacy).

    Args:
        data: a sequence or array; or sizes.
        size: the sizes, as a tuple.
        other: data by its name.
        device: another one than this tensor's.
    Returns:
        A tensor.

    >>> tensor([1.0]).new([1, 2])
    tensor([1., 2.])
    """
    data = data if size is None and other is None else (other if size is None else Size(size),)
    return Tensor(*data, dtype=self.dtype, device=self.device if device is None else device)


def _new_empty_strided(
    self: Tensor,
    size: Any,
    stride: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """`empty_strided` with this tensor's dtype and device, if they are not given.

    Args:
        size, stride: ints, as many of each.
        dtype, device: other ones than this tensor's.
        layout, pin_memory: accepted; tensors made here are strided.
        requires_grad: record what is done with the result.
    Returns:
        A tensor of these sizes.

    >>> tensor([1]).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    dtype, device = self.dtype if dtype is None else dtype, self.device if device is None else device
    return _alike(self, empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad))


def install_creation_methods() -> None:
    """Puts `new_zeros` and its like on Tensor."""
    for maker in (zeros, ones, empty):
        setattr(Tensor, f"new_{maker.__name__}", _new(maker))
    for method in (_new_full, _new_tensor, _new_empty_strided):
        method.__name__ = method.__qualname__ = method.__name__[1:]
        setattr(Tensor, method.__name__, method)
    Tensor.new = _new_any  # type: ignore[assignment, method-assign]
