"""Where a plan computes: memory of its own for what the recorded step had made, in the same layout."""

from __future__ import annotations

import bisect
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import ndarray

__all__ = ["Arena", "Memory", "bounds", "write"]

_ALIGNED = 64


def bounds(array: Any) -> tuple[int, int]:
    """The addresses that an array's elements lie between."""
    if not array.size:
        start = array.__array_interface__["data"][0]
        return start, start
    return numpy.lib.array_utils.byte_bounds(array)


class Arena:
    """Memory that the ways through one function share, of which one at a time is computed."""

    def __init__(self) -> None:
        self.whole = numpy.empty(0, numpy.uint8)

    def take(self, count: int) -> Any:
        """So many bytes, the same ones each time, or new ones where they were fewer."""
        if count > self.whole.size:
            self.whole = _aligned(count + count // 4)
        return self.whole


class Memory:
    """Maps arrays of a recorded step to arrays of the plan; those of tensors that stay are themselves.

    Args:
        made: arrays that the step's calls have written.
        given: arrays of tensors from outside that are others in each step.
        staying: arrays of tensors from outside that are the same ones in each step.
        arena: where the plan's own memory lies.
        aliases: (array, other): the plan has the one where it has the other, which is laid out alike.
        touched: arrays that kernels were called with; a part of one may be among `made`.
    """

    def __init__(
        self,
        made: list[Any],
        given: list[Any],
        staying: list[Any],
        arena: Arena,
        aliases: list[tuple[Any, Any]],
        touched: list[Any],
    ) -> None:
        intervals = [bounds(_owner(array)) for array in made]
        intervals += [bounds(array) for array in given]
        kept = _merged([bounds(_owner(array)) for array in staying])
        self.regions = _with_all_of([pair for pair in _merged(intervals) if not _meets(kept, pair)], touched)
        self.starts = [start for start, _ in self.regions]
        self.moves = [(*bounds(array), bounds(other)[0] - bounds(array)[0]) for array, other in aliases]
        sizes = [stop - start for start, stop in self.regions]
        places = (
            numpy.concatenate([[0], numpy.cumsum([-(-size // _ALIGNED) * _ALIGNED for size in sizes])])
            .astype(int)
            .tolist()
        )
        self.bytes = places[-1]
        whole = arena.take(self.bytes)
        self.buffers = [whole[place : place + size] for place, size in zip(places, sizes)]

    def at(self, array: Any) -> Any:
        """The same part of the plan's memory."""
        if type(array) is not ndarray:
            return array
        start, stop = bounds(array)
        by = self._move_of(start) if self.moves else 0
        place = self._place_of(start + by)
        if place is None or start == stop:
            return array
        offset = array.__array_interface__["data"][0] + by - self.regions[place][0]
        result = numpy.ndarray(array.shape, array.dtype, self.buffers[place], offset, array.strides)
        if not array.flags.writeable:
            result.flags.writeable = False
        return result

    def has(self, array: Any) -> bool:
        """Whether the plan has its own memory for it."""
        start, stop = bounds(array)
        return start == stop or self._place_of(start + (self._move_of(start) if self.moves else 0)) is not None

    def _place_of(self, start: int) -> int | None:
        place = bisect.bisect_right(self.starts, start) - 1
        return None if place < 0 or start >= self.regions[place][1] else place

    def _move_of(self, start: int) -> int:
        for first, last, by in self.moves:
            if first <= start < last:
                return by
        return 0


def _owner(array: Any) -> Any:
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


def _aligned(count: int) -> Any:
    whole = numpy.empty(count + _ALIGNED, numpy.uint8)
    offset = -whole.__array_interface__["data"][0] % _ALIGNED
    return whole[offset : offset + count]


def write(place: Any, values: Any) -> None:
    """Writes into the plan's memory, once where elements share it."""
    if not place.flags.writeable:
        place = place.view()
        place.flags.writeable = True
    if 0 in place.strides:
        index = tuple([slice(0, 1) if stride == 0 else slice(None) for stride in place.strides])
        place, values = place[index], values[index]
    place[...] = values
