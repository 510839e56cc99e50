"""The memory of what a recorded step has computed: its addresses stay the step's, its pages go to the system when nobody has the arrays any more.

A record knows arrays by where they lie, and eager mode would use the memory of those that die again. So a record has *outlines* of large
arrays, which lie where these do and do not keep them, and it keeps the owner of the memory apart. Once nobody else has that, the numbers are gone as
they are where nothing is recorded; what they were a digest says.
"""

from __future__ import annotations

import mmap
from sys import getrefcount
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import Array, ndarray
from dynograd.arrays.buffers import SMALLEST, Lease, discard
from dynograd.kernels.build.launches import Launch
from dynograd.kernels.layout.digests_cpu import digest
from dynograd.plans.gpu.array_kinds import bytes_alike, own_copy

__all__ = ["Digest", "Reserved", "ReservedMemory", "holds", "is_outline", "is_unchanged", "result_of"]

_LEAST, _SHARE = 1 << 22, 8  # bytes that are new, and their part of all, before the memory is looked through
_new = numpy.ndarray.__new__


class Reserved(numpy.ndarray):
    """The owner that NumPy sees of the memory of outlines."""

    __slots__ = ()


def is_outline(array: Any) -> bool:
    """Whether the numbers of an array may be gone."""
    return type(array) is ndarray and type(array.base) is Reserved


class ReservedMemory:
    """The memory that the calls of one recorded step have written."""

    def __init__(self) -> None:
        self.owners: dict[int, tuple[Lease, Reserved]] = {}  # by the id of the first
        self.resident: list[int] = []  # of these, what is not gone
        self.bytes = self.new_bytes = 0  # of all of that, and since it was looked through last

    def reserve(self, array: Any) -> None:
        """A call has written an array."""
        owner = arrays.base_of(array) if type(array) is ndarray else None
        if type(owner) is Lease and type(owner.base) is mmap.mmap and id(owner) not in self.owners:
            self.owners[id(owner)] = owner, _new(Reserved, owner.nbytes, numpy.uint8, owner.base)
            self.resident.append(id(owner))
            self.bytes += owner.nbytes
            self.new_bytes += owner.nbytes

    def outline(self, array: Any) -> Array:
        """An array that lies where this one does; itself where the memory is not reserved."""
        if type(array) is not ndarray or array.base is None:
            return array
        entry = self.owners.get(id(arrays.base_of(array)))
        if entry is None:
            return array
        reserved = entry[1]
        offset = array.__array_interface__["data"][0] - reserved.__array_interface__["data"][0]
        result = _new(ndarray, array.shape, array.dtype, reserved, offset, array.strides)
        if not array.flags.writeable:
            result.flags.writeable = False
        return result

    def has_part_of(self, launch: Launch) -> bool:
        """Whether a launch has arrays in reserved memory."""
        return any([self.outline(array) is not array for array in _arrays_in((*launch.kept, *launch.arguments))])

    def is_due(self) -> bool:
        """Whether enough is new for a look at what is gone."""
        return self.new_bytes > max(_LEAST, self.bytes // _SHARE)

    def let_go(self) -> None:
        """The pages of what nobody has any more go to the system."""
        still, self.bytes, self.new_bytes = [], 0, 0
        for key in self.resident:
            entry = self.owners[key]
            if getrefcount(entry[0]) > _ALONE:
                still.append(key)
                self.bytes += entry[0].nbytes
            else:
                discard(entry[0])
            del entry
        self.resident = still

    def end(self) -> None:
        """The addresses may be others' again."""
        self.owners, self.resident = {}, []


def _arrays_in(values: Any) -> list[Any]:
    result: list[Any] = []
    for value in values:
        if type(value) is tuple:
            result += _arrays_in(value)
        elif type(value) is ndarray:
            result.append(value)
    return result


class _Probe:
    owner = _new(Lease, 1)


_entry = (_Probe.owner, None)
del _Probe.owner
_ALONE = getrefcount(_entry[0])


# --- what calls have given ---------------------------------------------------------------------------------------------------------


class Digest:
    """In the place of a large array."""

    __slots__ = ("bits",)

    def __init__(self, array: Any) -> None:
        self.bits = digest(array)


def result_of(array: Any, has_numbers: bool = False) -> Any:
    """What is kept of an array to compare others with: the numbers of a small one, or where they are asked for, else a digest."""
    if array is None or has_numbers or type(array) is not ndarray or array.nbytes < SMALLEST:
        return None if array is None else own_copy(array)
    return Digest(array)


def is_unchanged(array: Any, result: Any) -> bool:
    """Whether an array has the bytes that it had."""
    return holds(array, result) if type(result) is Digest else bytes_alike(array, result)


def holds(array: Any, digest: Digest) -> bool:
    """Whether an array that is laid out alike has the same bits."""
    return Digest(array).bits == digest.bits
