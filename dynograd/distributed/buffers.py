"""The memory of tensors that collectives read and write: flat arrays of the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.autograd import no_grad
from dynograd.autograd.writes import before_rebinding, stamp
from dynograd.base import dtypes
from dynograd.distributed.process_groups import world
from dynograd.errors import DtypeError, ShapeError
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Buffer", "as_tensor", "described", "tensors_of"]


class Buffer:
    """A tensor's numbers as a flat array: its own memory where that is in order, else a copy, which `finish` writes back.

    Args:
        tensor: which.
        is_written: whether a collective writes into it.
        may_stay: on a GPU, if the engine takes arrays from there; else a copy is in the host's memory.
    """

    __slots__ = ("_copied", "array", "tensor")

    def __init__(self, tensor: Tensor, is_written: bool, may_stay: bool = False) -> None:
        self.tensor = tensor
        if is_written:
            before_rebinding(tensor)
        array = tensor.array
        stays = may_stay and type(array) is CudaArray and _takes_gpus()
        is_in_order = array.is_contiguous if type(array) is CudaArray else array.flags.c_contiguous
        self._copied = not is_in_order or (type(array) is not np.ndarray and not stays)
        if self._copied:
            array = array.copy() if stays else np.ascontiguousarray(arrays.to_numpy(array))
        elif is_written:
            stamp(array)
        self.array: Any = array.reshape(-1)

    def finish(self) -> None:
        """What was received becomes the tensor's."""
        if self._copied:
            with no_grad():
                self.tensor.copy_(wrap(self.array.reshape(tuple(self.tensor.shape))))


def _takes_gpus() -> bool:
    group = world.get()
    return group is not None and group.communicator is not None and group.communicator.takes_gpus


def as_tensor(who: str, name: str, value: Any) -> Tensor:
    """The tensor that it has to be."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{who}: expected {name} to be a Tensor, got {type(value).__name__}. Make one with tensor(...)."
        )
    return value


def tensors_of(who: str, name: str, values: Any, size: int, dtype: Any = None) -> list[Tensor]:
    """A list that has one tensor for each process."""
    if not isinstance(values, (list, tuple)) or len(values) != size:
        shown = f"{len(values)} of them" if isinstance(values, (list, tuple)) else type(values).__name__
        tensors = "Tensor" if size == 1 else "Tensors"
        raise ValueError(
            f"{who}: expected {name} to be a list of {size} {tensors} (one for each process), got {shown}."
        )
    result = [as_tensor(who, f"{name}[{place}]", value) for place, value in enumerate(values)]
    for place, tensor in enumerate(result):
        if dtype is not None and tensor.dtype != dtype:
            raise DtypeError(f"{who}: {name}[{place}] has {tensor.dtype}, beside {dtype}; all must be of one dtype.")
    return result


def check_pair(who: str, target: Tensor, source: Tensor, count: int | None = None) -> None:
    """Raises unless `target` can hold what `source` has (or `count` elements of its dtype)."""
    expected = source.shape.numel() if count is None else count
    if target.shape.numel() != expected:
        raise ShapeError(
            f"{who}: output of shape {tuple(target.shape)} cannot hold input of shape {tuple(source.shape)}: it has "
            f"{target.shape.numel()} elements, and {expected} come. Make it fit, e.g. dynograd.empty_like(input)."
        )
    if target.dtype != source.dtype:
        raise DtypeError(f"{who}: output has {target.dtype}, input {source.dtype}; they must be of one dtype.")


def described(*tensors: Tensor) -> str:
    """dtypes and shapes, for the text by which processes compare their calls."""
    return ", ".join([f"{dtypes.of_array(t.array).name}{tuple(t.shape)}" for t in tensors])
