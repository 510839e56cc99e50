"""Copies, and changes of dtype or device: `clone`, `to`, `float()` and their like."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, ndarray
from dynograd.base import devices, dtypes
from dynograd.base.memory_formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
    preserve_format,
    wanted,
)
from dynograd.kernels import kernel
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.row import Row

__all__ = ["clone"]

FAMILY = Row(out=None)


@op(name="clone", linear=True, ragged="packed")
def copied(input: Array, order: tuple[int, ...] | None = None) -> Array:
    """A copy in new memory, row-major or with its dims in memory in this order."""
    if not order:
        return kernel("copies", "copied", input)(input)
    return arrays.turned(kernel("copies", "copied", input)(input.transpose(order)), order)


@copied.backward
def copied_backward(g: Any, saved: Any, order: Any) -> Gradients:
    return (g,)


@op(name="to_device", linear=True, saves="input.device", ragged="packed")
def moved(input: Array, device: Any, non_blocking: bool = False) -> Array:
    """The values in the memory of `device` (with its index). With `non_blocking`, pinned memory is read later."""
    return arrays.to_device(input, device, non_blocking)


@moved.backward
def moved_backward(g: Any, saved: Any, device: Any, non_blocking: bool) -> Gradients:
    return (moved(g, devices.as_device(saved.input_device)),)


@composed(covers="clone", method=True, ragged="packed")
def clone(input: Any, *, memory_format: Any = None) -> Array:
    """A copy in new memory that stays part of the graph.

    Args:
        input: tensor of any shape.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> x = tensor([1.0, 2.0])
    >>> y = x.clone()
    >>> y[0] = 5.0
    >>> x
    tensor([1., 2.])
    """
    array = getattr(input, "array", input)
    if memory_format is None:
        return (
            copied(input) if type(array) is ndarray and array.flags.c_contiguous else copied(input, kept_order(array))
        )
    format = wanted("clone", memory_format, array.ndim)
    return copied(input, kept_order(array) if format is preserve_format else _channels_last(format))


def laid_out(result: Any, like: Any) -> Array:
    """`result`, row-major, in memory as `like` of the same shape: for ops that PyTorch makes of a copy that keeps the order."""
    order = kept_order(getattr(like, "array", like))
    return result if order is None else copied(result, order)


def image_like(result: Array, like: Array) -> Array:
    """An array of (N, C, sizes) with its channels side by side where those of `like` are, as PyTorch's layers keep them."""
    order = arrays.image_order(like)
    return (
        result
        if order is None or not arrays.is_contiguous(result)
        else arrays.turned(kernel("copies", "copied", result)(result.transpose(order)), order)
    )


def image_copy(input: Any) -> Array:
    """A copy, row-major or with its channels side by side as the input's are."""
    array = getattr(input, "array", input)
    return copied(input, arrays.image_order(array) if type(array) in arrays.array_types else None)


def kept_order(array: Any) -> tuple[int, ...] | None:
    """The order of an array's dims in memory, where it has memory, or it is known what that will be."""
    known = type(array) in arrays.array_types or getattr(array, "is_in_order", None) is not None
    return arrays.order_of(array) if known else None


def _channels_last(format: memory_format) -> tuple[int, ...] | None:
    return (0, *range(2, format.rank), 1) if format.rank else None


@composed(method=True, ragged="packed")
def contiguous(input: Any, memory_format: Any = None) -> Array:
    """The tensor itself when its memory is in that order (row-major unless given), a copy in that order otherwise.

    Args:
        input: tensor of any shape.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        A tensor of the same shape and dtype.

    >>> x = dynograd.zeros(2, 3, 4, 5).contiguous(memory_format=dynograd.channels_last)
    >>> x.stride()
    (60, 1, 15, 3)
    """
    try:
        array = input.array  # quicker than getattr, which programs would notice: they call this for nothing very often
    except AttributeError:
        array = input
    if memory_format is None:
        if type(array) is ndarray:
            return input if array.flags.c_contiguous else copied(input)
        if getattr(array, "is_in_order", True) is None:  # a view of what is still to come
            return copied(input)
        return input if arrays.is_contiguous(array) else copied(input)
    format = wanted("contiguous", memory_format, array.ndim)
    if format is preserve_format:
        raise RuntimeError("contiguous: preserve memory format is unsupported by the contiguous operator.")
    if format.rank:
        return input if arrays.is_channels_last(array) else copied(input, _channels_last(format))
    return input if arrays.is_contiguous(array) else copied(input)


@composed(method=True)
def to(input: Any, *args: Any, **kwargs: Any) -> Array:
    """The tensor with another dtype or device: `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`.

    The same tensor comes back when nothing changes (unless `copy=True`).

    Raises:
        DeviceError: a device that this machine does not have.

    >>> tensor([1.7, -1.7]).to(dynograd.int64)
    tensor([ 1, -1])
    """
    array = getattr(input, "array", input)
    if len(args) == 1 and not kwargs and type(array) is ndarray and _is_like(array, args[0]):
        return input
    dtype = device = None
    copy = bool(kwargs.pop("copy", False))
    non_blocking = bool(kwargs.pop("non_blocking", False))
    format = kwargs.pop("memory_format", None)
    if format is not None:
        rank = getattr(input, "array", input).ndim
        format = None if wanted("to", format, rank) is preserve_format else format
    positional = list(args)
    if positional and hasattr(positional[0], "array"):
        other = positional.pop(0)
        dtype, device = other.dtype, other.device
    for argument in positional:
        if dtypes.means_dtype(argument):
            dtype = argument
        elif isinstance(argument, (str, int, devices.device)) and not isinstance(argument, bool):
            device = devices.as_device(argument)
        elif isinstance(argument, bool):
            non_blocking = argument
        elif argument is not None:
            raise TypeError(f"to: expected a dtype, a device or a Tensor, got {argument!r}.")
    if "other" in kwargs:
        other = kwargs.pop("other")
        dtype, device = other.dtype, other.device
    dtype = kwargs.pop("dtype", dtype)
    device = kwargs.pop("device", device)
    if kwargs:
        raise TypeError(
            f"to: got unexpected arguments {sorted(kwargs)}. It takes dtype, device, non_blocking, copy, memory_format."
        )
    if device is not None:
        place = arrays.check_device("to", device)
        if place != arrays.device_of(getattr(input, "array", input)):
            input, copy = moved(input, place, non_blocking), False
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype)
        if getattr(input, "array", input).dtype.num != dtype.num:
            converted = convert(input, dtype)
            return converted if format is None else contiguous(converted, format)
    if copy:
        return clone(input, memory_format=format)
    return (
        input if format is None or format is _suggested(getattr(input, "array", input)) else contiguous(input, format)
    )


def _suggested(array: Any) -> memory_format:
    """The format that an array's memory has by PyTorch's account: channels_last, or contiguous_format for all others."""
    if arrays.image_order(array) is not None:
        return channels_last if array.ndim == 4 else channels_last_3d
    return contiguous_format


def _is_like(array: Any, format_: Any) -> bool:
    """Whether an array in host memory has this dtype, or lies on this device."""
    kind = type(format_)
    if kind is dtypes.dtype:
        return array.dtype.num == format_.num
    return format_ == "cpu" if kind is str else kind is devices.device and format_.type == "cpu"


def _conversion(name: str, dtype: dtypes.dtype) -> None:
    def method(input: Any, memory_format: Any = None) -> Array:
        if memory_format is not None:
            return to(input, dtype, memory_format=memory_format)
        array = getattr(input, "array", input)
        if array.dtype.num == dtype.num:
            return input
        return convert(input, dtype) if array is not input and type(array) is arrays.ndarray else to(input, dtype)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""The tensor as {dtype}; itself if it is.

    Args:
        input: tensor of any shape.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        A tensor of the shape of `input`.

    >>> tensor([0, 1]).{name}().dtype
    {dtype}
    """
    composed(method=True, ragged="packed")(method)


for _name, _dtype in {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "long": dtypes.int64,
    "int": dtypes.int32,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}.items():
    _conversion(_name, _dtype)


@composed(method=True)
def type_as(input: Any, other: Any) -> Array:
    """`input` in the dtype of `other`.

    Args:
        input: tensor of any shape.
        other: tensor of the wanted dtype and device.
    Returns:
        A tensor of the shape of `input`.

    >>> tensor([1.5]).type_as(tensor([1]))
    tensor([1])
    """
    return input if input.dtype is other.dtype else to(input, other.dtype)
