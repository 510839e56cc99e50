"""Where the arrays of a recorded step lie, said apart from the memory that they had: in which piece of memory, and where in it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.plans.gpu.array_kinds import extent

__all__ = ["Bindings", "Place", "Regions", "new_array", "room_for", "whole_of"]


class Place(NamedTuple):
    """An array of a recorded step: `offset` bytes from the start of region number `region`."""

    region: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any


def whole_of(storage: Any) -> CudaArray:
    """All bytes of an array's memory."""
    return CudaArray(storage, storage.pointer, (storage.nbytes,), (1,), numpy.dtype(numpy.uint8))


class Regions:
    """Numbers the memory of a recorded step.

    Args:
        inputs: arrays that are others in each step, region by region in this order.
        staying: arrays that the step reads where they are.
    """

    def __init__(self, inputs: list[CudaArray], staying: list[CudaArray]) -> None:
        self._regions: dict[int, list[tuple[int, int, int, int]]] = {}  # (low, high, region, its start), by storage
        self._storages: list[Any] = []  # keeps them, so that ids stay theirs
        self.staying = {id(array.storage) for array in staying}
        self.inputs = len(inputs)
        self.count = 0
        for array in inputs:
            low, high = extent(array)
            self._add(array.storage, low, high, self.count, low)
            self.count += 1

    def _add(self, storage: Any, low: int, high: int, region: int, start: int) -> None:
        self._storages.append(storage)
        self._regions.setdefault(id(storage), []).append((low, high, region, start))

    def add(self, array: CudaArray) -> None:
        """A call of the step has written it: all of its memory is one region, if it is not known already."""
        storage = array.storage
        if id(storage) not in self._regions and id(storage) not in self.staying and storage.nbytes:
            self._add(storage, storage.pointer, storage.pointer + storage.nbytes, self.count, storage.pointer)
            self.count += 1

    def alias(self, array: CudaArray, other: CudaArray) -> None:
        """`array` is to be where `other` is, which is laid out alike."""
        place = self.place_of(other)
        if type(place) is Place and array.storage.nbytes:
            start = array.pointer - place.offset
            self._regions.pop(id(array.storage), None)
            self._add(array.storage, *extent(array), place.region, start)

    def place_of(self, array: CudaArray) -> Place | CudaArray | None:
        """Its place, or the array itself where it stays; None: in memory that no call has written."""
        if not array.size or id(array.storage) in self.staying:
            return array
        low, high = extent(array)
        for first, last, region, start in self._regions.get(id(array.storage), ()):
            if first <= low and high <= last:
                return Place(region, array.pointer - start, array.shape, array.strides, array.dtype)
        return None


class Bindings:
    """Which memory stands for each region."""

    def __init__(self, memory: dict[int, tuple[Any, int]] | None = None) -> None:
        self.memory: dict[int, tuple[Any, int]] = dict(memory or {})  # (storage, where the region starts)

    def at(self, place: Place | CudaArray) -> CudaArray:
        """The array at a place."""
        if not isinstance(place, Place):
            return place
        region, offset, shape, strides, dtype = place
        storage, start = self.memory[region]
        return CudaArray(storage, start + offset, shape, strides, dtype)

    def bind(self, place: Place | CudaArray, array: Any, anew: bool = False) -> None:
        """`array` has come out where the record has `place`.

        Args:
            anew: it may lie elsewhere than what stands there already.
        Raises:
            RuntimeError: it is laid out otherwise than in the record, or lies elsewhere.
        """
        if type(array) is not CudaArray or (array.shape, array.dtype) != (place.shape, place.dtype):
            raise RuntimeError("a call gives another kind of array than the recorded one")
        if not array.size:
            return
        if not all([size < 2 or step == other for size, step, other in zip(place.shape, array.strides, place.strides)]):
            raise RuntimeError("a call gives an array of another layout than the recorded one")
        if not isinstance(place, Place):
            if array.pointer != place.pointer:
                raise RuntimeError("a call gives new memory where the record has a view")
            return
        now = array.storage, array.pointer - place.offset
        before = self.memory.get(place.region)
        if before is None or anew:
            self.memory[place.region] = now
        elif before[1] != now[1]:
            raise RuntimeError("a call gives new memory where the record has a view")

    def set_input(self, region: int, array: CudaArray) -> None:
        """The memory that is read for an input."""
        self.memory[region] = array.storage, extent(array)[0]


def new_array(place: Place | CudaArray, device: int) -> CudaArray:
    """New memory for an array that is laid out as the one at `place`, without gaps."""
    strides, shape = place.strides, place.shape
    order = sorted(range(len(shape)), key=lambda dim: -strides[dim])
    dense = cuda_arrays.empty(tuple([shape[dim] for dim in order]), place.dtype, device)
    return dense.transpose(tuple(sorted(range(len(order)), key=order.__getitem__)))


def room_for(array: CudaArray) -> CudaArray:
    """New memory with an array of the same layout in it, gaps included."""
    low, high = extent(array)
    whole = cuda_arrays.empty((max(high - low, 1),), numpy.uint8, array.device_index)
    return CudaArray(whole.storage, whole.pointer + array.pointer - low, array.shape, array.strides, array.dtype)
