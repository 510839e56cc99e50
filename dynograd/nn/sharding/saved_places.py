"""What ops save of parameters that are whole for a while: where it lay, so that the memory can be given back until backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.nn.sharding.flats import Flat
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Place", "tensors_in", "unpack"]


class Place:
    """In place of a saved array: where it lies in a flat."""

    __slots__ = ("flat", "offset", "shape", "strides", "when_read")

    def __init__(self, flat: Flat, array: np.ndarray | CudaArray, offset: int, when_read: Callable[[], None]) -> None:
        self.flat, self.offset, self.when_read = flat, offset, when_read
        self.shape, self.strides = array.shape, array.strides

    def tensor(self) -> Tensor:
        """What was saved, where it is now."""
        is_new = self.flat.memory is None
        memory = self.flat.gather()
        if is_new:
            self.when_read()
        if isinstance(memory, np.ndarray):
            return wrap(np.ndarray(self.shape, memory.dtype, memory, self.offset, self.strides))
        return wrap(CudaArray(memory.storage, memory.pointer + self.offset, self.shape, self.strides, memory.dtype))


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of what a module has given."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [x for part in value for x in tensors_in(part)] if isinstance(value, (tuple, list)) else []


def unpack(packed: Any) -> Tensor:
    """What was saved: a place in a whole parameter, what other hooks made of it, or the tensor itself."""
    if isinstance(packed, Place):
        return packed.tensor()
    if isinstance(packed, tuple):
        outer, content = packed
        return outer.unpack_hook(content)
    return packed
