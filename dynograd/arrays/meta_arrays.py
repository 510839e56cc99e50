"""MetaArray: shape, strides and dtype without values, for the device "meta".

Models are built there to learn their sizes, or to be given memory later (`Module.to_empty`, `load_state_dict(assign=True)`). It is a NumPy
array on memory that nobody writes or reads, addresses that the operating system never has to back with pages: so views, strides and
contiguity are NumPy's own.
"""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy

from dynograd.base.devices import device
from dynograd.errors import DeviceError

__all__ = ["MetaArray", "NoValuesError", "elementwise", "empty", "like", "no_values"]

meta = device("meta")
_SMALL = 1 << 20  # bytes that are simply allocated


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

    def fill(self, value: Any) -> None:
        """Nothing."""

    def __setitem__(self, index: Any, value: Any) -> None:
        """Nothing."""

    def item(self, *index: Any) -> Any:
        raise no_values("item")

    def tolist(self) -> Any:
        raise no_values("tolist")

    def __bool__(self) -> bool:
        raise no_values("bool")

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        raise no_values(ufunc.__name__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (self.shape, self.strides, self.dtype)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is numpy.copyto and type(args[0]) is MetaArray:
            return None
        raise no_values(function.__name__)


def empty(shape: tuple[int, ...], dtype: Any) -> MetaArray:
    """An array without values, row by row."""
    kind = numpy.dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    if nbytes <= _SMALL:
        return numpy.empty(shape, kind).view(MetaArray)
    return numpy.frombuffer(_addresses(nbytes), kind).reshape(shape).view(MetaArray)


def _addresses(nbytes: int) -> mmap.mmap:
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


def elementwise(kernel: Any) -> Any:
    """What an elementwise kernel of the CPU does to shape and dtype."""

    def outlined(*args: Any) -> Any:
        operands = [argument for argument in args if isinstance(argument, numpy.ndarray)]
        result = kernel(
            *[
                numpy.ones((1,) * argument.ndim, argument.dtype) if isinstance(argument, numpy.ndarray) else argument
                for argument in args
            ]
        )
        return empty(numpy.broadcast_shapes(*[operand.shape for operand in operands]), result.dtype)

    return outlined


def _rebuilt(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> MetaArray:
    outline = numpy.lib.stride_tricks.as_strided(numpy.empty((), dtype), shape, strides)
    return like(outline)
