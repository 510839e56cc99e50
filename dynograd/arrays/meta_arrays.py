"""MetaArray: shape, strides and dtype without values, for the device "meta".

Models are built there to learn their sizes, or to be given memory later (`Module.to_empty`, `load_state_dict(assign=True)`). It is a NumPy
array on memory that nobody writes or reads, addresses that the operating system never has to back with pages: so views, strides and
contiguity are NumPy's own.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from dynograd.base.devices import device
from dynograd.errors import DeviceError

__all__ = [
    "MetaArray",
    "NoValuesError",
    "address_space",
    "elementwise",
    "empty",
    "like",
    "no_values",
    "outlined",
    "outlined_without_masks",
]

meta = device("meta")
_SMALL = 1 << 20  # bytes that are simply allocated
_MOST = 1 << 28  # elements of an operand that are computed with for the sake of the shape: 1 GB of float32


class NoValuesError(DeviceError, NotImplementedError):
    """A tensor on device "meta" was to be computed with, read or copied."""


def no_values(who: str) -> NoValuesError:
    """The error of whoever needs values."""
    return NoValuesError(
        f"{who}: tensors on device 'meta' have no values to compute with or to copy. Give the model memory first: "
        f"model.to_empty(device='cpu'), or model.load_state_dict(state, assign=True)."
    )


class MetaArray(numpy.ndarray):
    """An array without values. What would write is silently nothing, what would read is an error, elementwise functions give shapes."""

    device = meta  # type: ignore[assignment]
    number: Any = None
    """What all elements would be; None: not known. Only of an array that was made so, and none that is made of it."""

    def fill(self, value: Any) -> None:
        self.number = value

    def __setitem__(self, index: Any, value: Any) -> None:
        self.number = None

    def item(self, *index: Any) -> Any:
        raise no_values("item")

    def tolist(self) -> Any:
        raise no_values("tolist")

    def __bool__(self) -> bool:
        raise no_values("bool")

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        _refuse_values(ufunc, (*inputs, *kwargs.get("out", ())))
        if method != "__call__" or "where" in kwargs or ufunc.signature is not None:
            return outlined(getattr(ufunc, method))(*inputs, **kwargs)
        target = kwargs.pop("out", None)
        shape = numpy.broadcast_shapes(*[numpy.shape(value) for value in inputs])
        result = ufunc(*[_one(value) for value in inputs], **kwargs)
        if target is not None:
            return target[0] if len(target) == 1 else target
        return tuple([empty(shape, part.dtype) for part in result]) if ufunc.nout > 1 else empty(shape, result.dtype)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (self.shape, self.strides, self.dtype)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is numpy.copyto and type(args[0]) is MetaArray:
            return None
        if function in _SIZED_BY_VALUES:
            raise no_values(function.__name__)
        _refuse_values(function, (*args, kwargs.get("out")))
        result = outlined(function)(*args, **kwargs)
        if function in _FILLED:
            result.fill(_FILLED[function])
        return result


def _refuse_values(function: Any, values: Any) -> None:
    """Raises where arrays with values are among the arguments, which would have to be read, or written; a single number is none."""
    for value in values:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, numpy.ndarray) and type(item) is not MetaArray and item.ndim:
                raise no_values(function.__name__)


_FILLED = {numpy.zeros_like: 0, numpy.ones_like: 1}
_SIZED_BY_VALUES = (numpy.nonzero, numpy.flatnonzero, numpy.argwhere, numpy.unique, numpy.compress, numpy.extract)


def empty(shape: tuple[int, ...], dtype: Any) -> MetaArray:
    """An array without values, row by row."""
    kind = numpy.dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    if nbytes <= _SMALL:
        return numpy.empty(shape, kind).view(MetaArray)
    try:
        space = address_space(nbytes)
    except OSError:
        raise MemoryError(
            f"meta: an array of shape {tuple(shape)} has {nbytes} bytes, more than a process can still address. Arrays without values take "
            f"addresses, but no memory: use smaller sizes, or free others."
        ) from None
    return numpy.frombuffer(space, kind).reshape(shape).view(MetaArray)


def address_space(nbytes: int) -> mmap.mmap:
    """Address space that may only be read: the system counts it as no memory, however large it is."""
    if hasattr(mmap, "PROT_READ"):
        return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    return mmap.mmap(-1, nbytes, access=mmap.ACCESS_READ)


def like(array: Any) -> MetaArray:
    """Shape, dtype and strides of `array` without its values."""
    if type(array) is MetaArray:
        return array
    order = sorted(range(array.ndim), key=lambda dim: -abs(array.strides[dim]))
    back = [order.index(dim) for dim in range(array.ndim)]
    return empty(tuple(array.shape[dim] for dim in order), array.dtype).transpose(back)


def outlined(function: Any) -> Callable[..., Any]:
    """What a function of arrays does to shape and dtype: it runs on zeros, whose results are thrown away.

    Raises:
        NoValuesError: there would be too many of them.
    """

    def outline(*args: Any, **kwargs: Any) -> object:
        return _outlines(function(*_zeros(args, function), **_zeros(kwargs, function)))

    return outline


def outlined_without_masks(function: Any) -> Callable[..., Any]:
    """The same of a function for which bool arrays say how large its result is."""
    shape_of = outlined(function)

    def outline(*args: Any) -> object:
        for value in args:
            if (
                any([type(item) is MetaArray and item.dtype.kind == "b" for item in _items(value)[:8]])
                and value is not args[0]
            ):
                raise no_values(function.__name__)
        return shape_of(*args)

    return outline


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _zeros(value: Any, function: Any) -> Any:
    if type(value) is MetaArray:
        if value.size > _MOST:
            raise no_values(getattr(function, "__name__", repr(function)))
        order = sorted(range(value.ndim), key=lambda dim: -abs(value.strides[dim]))
        zeros = numpy.zeros([value.shape[dim] for dim in order], value.dtype)
        return zeros.transpose([order.index(dim) for dim in range(value.ndim)])
    if isinstance(value, (list, tuple)):
        items = [_zeros(item, function) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return {key: _zeros(item, function) for key, item in value.items()} if isinstance(value, dict) else value


def _outlines(value: Any) -> Any:
    if isinstance(value, numpy.ndarray):
        return like(value.view(numpy.ndarray))
    if isinstance(value, numpy.generic):
        return empty((), value.dtype)
    if isinstance(value, (list, tuple)):
        items = [_outlines(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _one(value: Any) -> object:
    return numpy.ones((1,) * value.ndim, value.dtype) if isinstance(value, numpy.ndarray) else value


def elementwise(kernel: Any) -> Callable[..., Any]:
    """What an elementwise kernel of the CPU does to shape and dtype."""

    def outline(*args: Any) -> MetaArray:
        _refuse_values(kernel, args)
        operands = [argument for argument in args if isinstance(argument, numpy.ndarray)]
        result = kernel(
            *[
                numpy.ones((1,) * argument.ndim, argument.dtype) if isinstance(argument, numpy.ndarray) else argument
                for argument in args
            ]
        )
        return empty(numpy.broadcast_shapes(*[operand.shape for operand in operands]), result.dtype)

    return outline


def _rebuilt(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> MetaArray:
    outline = numpy.lib.stride_tricks.as_strided(numpy.empty((), dtype), shape, strides)
    return like(outline)
