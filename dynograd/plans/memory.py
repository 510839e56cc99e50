"""Where a plan computes: memory of its own for what the recorded step had made, in the same layout."""

from __future__ import annotations

import bisect
import mmap
from sys import getrefcount
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import Array, buffers, ndarray
from dynograd.errors import OutOfMemoryError
from dynograd.plans.gpu.array_kinds import PLAIN, address_range, is_writeable, may_share
from dynograd.tensor.tensor import Tensor

__all__ = [
    "Arena",
    "Memory",
    "ReservedMemory",
    "bounds",
    "connected",
    "give_back_room",
    "is_alone",
    "is_part_of_any",
    "regions_of",
    "write",
]

_ALIGNED = 64
_MUCH = 1 << 24  # bytes
_LEAST, _SHARE = 1 << 22, 8  # bytes that are new, and their part of all, before a step's memory is looked through
_new = ndarray.__new__


def bounds(array: Any) -> tuple[int, int]:
    """The addresses that an array's elements lie between."""
    if array.size:
        return address_range(array)
    start = arrays.address_of(array)
    return start, start


def overlaps_of(arrays: dict[int, Any]) -> dict[int, set[int]]:
    """By the number of each array that shares memory with others the numbers of those."""
    rows = sorted([(*address_range(array), number) for number, array in arrays.items() if array.size])
    shared: dict[int, set[int]] = {}
    for place, (_, high, number) in enumerate(rows):
        for low, _, other in rows[place + 1 :]:
            if low >= high:
                break
            shared.setdefault(number, set()).add(other)
            shared.setdefault(other, set()).add(number)
    return shared


def connected(shared: dict[int, set[int]]) -> dict[int, tuple[int, ...]]:
    """By each number all that share memory with it, or with one that does, and so on."""
    clusters: dict[int, tuple[int, ...]] = {}
    for number in shared:
        if number in clusters:
            continue
        cluster, waiting = {number}, [number]
        while waiting:
            new = shared[waiting.pop()] - cluster
            cluster |= new
            waiting += new
        clusters |= dict.fromkeys(cluster, tuple(sorted(cluster)))
    return clusters


def give_back_room() -> None:
    """A step has been recorded, and is gone: it had all its values at once, and copies of them, and no other step needs so much memory."""
    if buffers.statistics()["unused"] > _MUCH:
        buffers.release()


class Arena:
    """Memory that the ways through one function share, of which one at a time is computed."""

    def __init__(self) -> None:
        self.whole = numpy.empty(0, numpy.uint8)

    def take(self, count: int) -> ndarray:
        """So many bytes, the same ones each time, or new ones where they were fewer.

        Raises:
            OutOfMemoryError: there are not so many.
        """
        if count > self.whole.size:
            free = buffers.available() if count > _MUCH else None
            if free is not None and count > free:
                raise OutOfMemoryError(f"a plan needs {count:,} bytes of memory, of which {max(free, 0):,} are free")
            self.whole = _aligned(count + count // 4)
        return self.whole


class Memory:
    """Maps arrays of a recorded step to arrays of the plan; those of tensors that stay are themselves.

    `touch` says when memory is used, `place` then lays it out: what is not used at the same time may lie in one place.

    Args:
        written: arrays that the step's calls have written.
        inputs: arrays of tensors from outside that are others in each step.
        staying: arrays of tensors from outside that are the same ones in each step.
        aliases: (array, other): the plan has the one where it has the other, which is laid out alike.
        touched: arrays that kernels were called with; a part of one may be among `written`.
    """

    def __init__(
        self,
        written: list[Any],
        inputs: list[Any],
        staying: list[Any],
        aliases: list[tuple[Any, Any]],
        touched: list[Any],
    ) -> None:
        intervals = [bounds(_owner(array)) for array in written if array.size]
        intervals += [bounds(array) for array in inputs]
        kept = _merged([bounds(_owner(array)) for array in staying])
        self.regions = _with_all_of([pair for pair in _merged(intervals) if not _meets(kept, pair)], touched)
        self.starts = [start for start, _ in self.regions]
        self.moves = [(*bounds(array), bounds(other)[0] - bounds(array)[0]) for array, other in aliases]
        self.first: list[Any] = [None] * len(self.regions)
        self.last: list[Any] = [None] * len(self.regions)
        self.bytes = self.low = self.high = 0
        self.known: dict[int, tuple[Any, int | None, int]] = {}  # (array, region, offset in it), by its id
        self.buffers: list[Any] = []
        self.gone: list[Any] = []  # outlines of what no part of the plan's memory stands for

    def touch(self, array: Any, first: int, last: int) -> None:
        """Its memory is used from the call `first` to the call `last`."""
        place = self.region_of(array)
        if place is not None:
            before = self.first[place]
            self.first[place] = first if before is None else min(before, first)
            self.last[place] = last if before is None else max(self.last[place], last)

    def place(self, arena: Arena) -> None:
        """Lays the memory out in `arena`."""
        sizes = [-(-(stop - start) // _ALIGNED) * _ALIGNED for start, stop in self.regions]
        places, self.bytes = laid_out(sizes, [first or 0 for first in self.first], [last or 0 for last in self.last])
        whole = arena.take(self.bytes)
        self.low, self.high = bounds(whole)
        self.buffers = [whole[place : place + stop - start] for place, (start, stop) in zip(places, self.regions)]

    def region_of(self, array: Any) -> int | None:
        """The number of the part of the plan's memory that it lies in."""
        return self._looked_up(array)[1] if type(array) is ndarray else None

    def forget(self) -> None:
        """The plan is there: nobody asks for arrays of the recorded step any more."""
        self.known = {}

    def _looked_up(self, array: Any) -> tuple[Any, int | None, int]:
        known = self.known.get(id(array))
        if known is not None:
            return known
        region, offset = None, 0
        start, stop = bounds(array)
        if start != stop:
            by = self._move_of(start) if self.moves else 0
            region = self._place_of(start + by)
            if region is not None:
                offset = arrays.address_of(array) + by - self.regions[region][0]
        known = self.known[id(array)] = array, region, offset  # keeps it, so that its id stays its own
        return known

    def at(self, array: Any) -> Array:
        """The same part of the plan's memory."""
        if type(array) is not ndarray:
            return array
        _, place, offset = self._looked_up(array)
        if place is None:
            if is_outline(array):
                self.gone.append(array)
            return array
        result = numpy.ndarray(array.shape, array.dtype, self.buffers[place], offset, array.strides)
        if not array.flags.writeable:
            result.flags.writeable = False
        return result

    def owns(self, array: Any) -> bool:
        """Whether it is an array of the plan's memory."""
        start, _ = bounds(array)
        return bool(self.buffers) and self.low <= start < self.high

    def has(self, array: Any) -> bool:
        """Whether the plan has its own memory for it."""
        return not array.size or self.region_of(array) is not None

    def _place_of(self, start: int) -> int | None:
        place = bisect.bisect_right(self.starts, start) - 1
        return None if place < 0 or start >= self.regions[place][1] else place

    def _move_of(self, start: int) -> int:
        for first, last, by in self.moves:
            if first <= start < last:
                return by
        return 0


def laid_out(sizes: list[int], first: list[int], last: list[int]) -> tuple[list[int], int]:
    """Places for blocks that are used from `first` to `last` each, and how much room they take together: best fit, in the order of time."""
    order = sorted(range(len(sizes)), key=lambda number: (first[number], -sizes[number]))
    leaving = sorted(range(len(sizes)), key=lambda number: last[number])
    places, top = [0] * len(sizes), 0
    free: list[tuple[int, int]] = []  # (start, stop), in order
    gone = 0
    for number in order:
        while gone < len(leaving) and last[leaving[gone]] < first[number]:
            left = leaving[gone]
            _give_back(free, places[left], places[left] + sizes[left])
            gone += 1
        size = sizes[number]
        fitting = [(stop - start, at) for at, (start, stop) in enumerate(free) if stop - start >= size]
        if fitting:
            _, at = min(fitting)
            start, stop = free.pop(at)
            if stop - start > size:
                free.insert(at, (start + size, stop))
        elif free and free[-1][1] == top:
            start, _ = free.pop()
            top = start + size
        else:
            start, top = top, top + size
        places[number] = start
    return places, top


def _give_back(free: list[tuple[int, int]], start: int, stop: int) -> None:
    if start == stop:
        return
    at = bisect.bisect_left(free, (start, stop))
    if at < len(free) and free[at][0] == stop:
        stop = free.pop(at)[1]
    if at and free[at - 1][1] == start:
        at -= 1
        start = free.pop(at)[0]
    free.insert(at, (start, stop))


def regions_of(written: list[Any]) -> list[tuple[int, int]]:
    """The addresses between which the memory of these arrays lies, in order."""
    return _merged([bounds(_owner(array)) for array in written if array.size])


def _owner(array: Any) -> Array:
    owner = arrays.base_of(array)
    return owner if type(owner) is ndarray else array


def _merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(intervals):
        if stop <= start:
            continue
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


def _with_all_of(regions: list[tuple[int, int]], arrays: list[Any]) -> list[tuple[int, int]]:
    """The regions, with all of each array that begins or ends in one."""
    pairs = {bounds(array) for array in arrays}
    while True:
        wider = _merged([*regions, *[pair for pair in pairs if _meets(regions, pair)]])
        if wider == regions:
            return regions
        regions = wider


def _meets(intervals: list[tuple[int, int]], pair: tuple[int, int]) -> bool:
    place = bisect.bisect_left(intervals, (pair[0], 0))
    return any([start < pair[1] and pair[0] < stop for start, stop in intervals[max(place - 1, 0) : place + 2]])


def _aligned(count: int) -> ndarray:
    whole = buffers.empty((count + _ALIGNED,), numpy.uint8)
    offset = -whole.__array_interface__["data"][0] % _ALIGNED
    return whole[offset : offset + count]


def write(place: Any, values: Any) -> None:
    """Writes into the plan's memory, once where elements share it."""
    if not is_writeable(place):
        place = place.view()
        place.flags.writeable = True
    if 0 in place.strides:
        index = tuple([slice(0, 1) if stride == 0 else slice(None) for stride in place.strides])
        place, values = place[index], values[index]
    place[...] = values


def is_part_of_any(array: Any, others: Any) -> bool:
    """Whether it shares memory with one of them."""
    return any([type(other) in PLAIN and may_share(array, other) for other in others])


def is_alone(array: Any, noted: int = 0) -> bool:
    """Whether nobody but a tensor and a variable of the caller's has the array or its memory, so that NumPy cannot write there.

    Args:
        noted: so many references more are the caller's.
    """
    if getrefcount(array) > _ALONE + noted:
        return False
    base = array.base
    return base is None or (type(base) is buffers.Lease and getrefcount(base) < _ALONE)


def _references(array: Any) -> int:
    return getrefcount(array)


_probe = Tensor.wrap(numpy.zeros(1))
_array = _probe.array
_ALONE = _references(_array)


# --- the memory of a step that is recorded ------------------------------------------------------------------------------------------
#
# A record knows arrays by where they lie, and eager mode uses the memory of those that die again. So a record has *outlines* of large arrays, which
# lie where these do and do not keep them, and it keeps the owner of the memory apart. Once nobody else has that, the numbers are gone, as they are
# where nothing is recorded, and the pages with them; what the numbers were a digest says (`calls`).


class Reserved(numpy.ndarray):
    """The owner that NumPy sees of the memory of outlines."""

    __slots__ = ()


def is_outline(array: Any) -> bool:
    """Whether the numbers of an array may be gone."""
    return type(array) is ndarray and type(array.base) is Reserved


class ReservedMemory:
    """The memory that the calls of one recorded step have written."""

    def __init__(self) -> None:
        self.owners: dict[int, tuple[buffers.Lease, Reserved]] = {}  # by the id of the first
        self.resident: list[int] = []  # of these, what is not gone
        self.bytes = self.new_bytes = 0  # of all of that, and since it was looked through last

    def reserve(self, array: Any) -> None:
        """A call has written an array."""
        owner = arrays.base_of(array) if type(array) is ndarray else None
        if type(owner) is buffers.Lease and type(owner.base) is mmap.mmap and id(owner) not in self.owners:
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

    def is_due(self) -> bool:
        """Whether enough is new for a look at what is gone."""
        return self.new_bytes > max(_LEAST, self.bytes // _SHARE)

    def let_go(self) -> None:
        """The pages of what nobody has any more go to the system."""
        still, self.bytes, self.new_bytes = [], 0, 0
        for key in self.resident:
            entry = self.owners[key]
            if getrefcount(entry[0]) > _UNUSED:
                still.append(key)
                self.bytes += entry[0].nbytes
            else:
                buffers.discard(entry[0])
            del entry
        self.resident = still

    def end(self) -> None:
        """The addresses may be others' again."""
        self.owners, self.resident = {}, []


_entry = (_new(buffers.Lease, 1), None)
_UNUSED = getrefcount(_entry[0])  # of what an entry alone has
