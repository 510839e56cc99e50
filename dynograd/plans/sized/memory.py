"""Memory of a program for several sizes: room for the largest, so that nothing moves when the sizes change; and what lies where in recorded programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import Array, ndarray
from dynograd.errors import OutOfMemoryError
from dynograd.plans.memory import Arena, bounds, laid_out
from dynograd.plans.sized.extras import Extras
from dynograd.plans.sized.sizes import NoFormula, Number, Sizes, at

__all__ = ["Differs", "Part", "SizedMemory"]

_ALIGNED = 64
_AT_ONCE = 1024  # addresses


class Differs(Exception):
    """The recorded steps are not the same program at several sizes."""


@dataclass(frozen=True, slots=True)
class Part:
    """An array of a program for several sizes: of a region by its number, or of an array that stays."""

    region: Any
    offset: int | Number
    dtype: Any
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    writeable: bool


class _Regions:
    """The parts of one recorded program's memory, and scratch memory behind them."""

    def __init__(self, program: Any) -> None:
        memory, end = program.memory, len(program.calls)
        places = [bounds(buffer) for buffer in memory.buffers] + [bounds(array) for array in program.scratches]
        self.low = numpy.array([low for low, _ in places], numpy.int64)
        self.high = numpy.array([high for _, high in places], numpy.int64)
        first = [first or 0 for first in memory.first] + [0] * len(program.scratches)
        last = [last or 0 for last in memory.last] + [end] * len(program.scratches)
        self.first, self.last = numpy.array(first), numpy.array(last)
        self.around = int(self.low.min(initial=0)), int(self.high.max(initial=0))
        self._known: dict[tuple[int, int], int | None] = {}

    def find(self, address: int, time: int) -> int | None:
        """The region that the address lies in while the call `time` is computed."""
        key = address, time
        if key not in self._known:
            self.learn([address], [time])
        region = self._known[key]
        if region is not None and region < 0:
            raise Differs("memory that is used twice at a time")
        return region

    def learn(self, addresses: list[int], times: list[int]) -> None:
        """Finds the regions of many addresses at once; -1: of several."""
        keys = list(dict.fromkeys([key for key in zip(addresses, times) if key not in self._known]))
        for begin in range(0, len(keys), _AT_ONCE):
            part = keys[begin : begin + _AT_ONCE]
            address, time = numpy.array(part, numpy.int64).T[:, :, None]
            inside = (self.low <= address) & (address < self.high) & (self.first <= time) & (time <= self.last)
            counts = inside.sum(1).tolist()
            first = inside.argmax(1).tolist() if inside.size else counts
            for key, count, region in zip(part, counts, first):
                self._known[key] = None if not count else region if count == 1 else -1


class SizedMemory:
    """What is common to the memory of programs that are one program at several sizes.

    Args:
        programs: recorded at the sizes of the samples.
        sizes: of these.
    """

    def __init__(self, programs: Sequence[Any], sizes: Sizes) -> None:
        self.sizes = sizes
        self.regions = [_Regions(program) for program in programs]
        self.matches: list[dict[int, int]] = [{} for _ in programs]  # from regions of the first program
        self.back: list[dict[int, int]] = [{} for _ in programs]
        self.buffers: list[Any] = []
        self.extras = Extras(programs, sizes)

    def number(self, values: Sequence[int]) -> int | Number:
        try:
            return self.sizes.number(values)
        except NoFormula as error:
            raise Differs(str(error)) from None

    def learn(self, addresses: Sequence[list[int]], times: list[int]) -> None:
        """Finds where addresses that the programs have lie, ahead of `place_of`: many at once take less time."""
        for regions, of in zip(self.regions, addresses):
            regions.learn(of, times)

    def place_of(self, addresses: Sequence[int], time: int) -> tuple[int, int | Number] | None:
        """(region of the first program, offset) of memory that the programs have at these addresses; None where they have it from elsewhere."""
        places = [regions.find(address, time) for regions, address in zip(self.regions, addresses)]
        if all([region is None for region in places]):
            return None
        if any([region is None for region in places]):
            raise Differs("memory of a plan in some programs, and not in others")
        self._match(places)
        offsets = [
            address - int(regions.low[region]) for regions, address, region in zip(self.regions, addresses, places)
        ]
        first = places[0]
        assert first is not None
        return first, self.number(offsets)

    def _match(self, places: Sequence[Any]) -> None:
        pairs = list(zip(self.matches, self.back, places))
        for match, back, region in pairs:
            if match.get(places[0], region) != region or back.get(region, places[0]) != places[0]:
                raise Differs("memory that is laid out otherwise")
        for match, back, region in pairs:
            match[places[0]], back[region] = region, places[0]

    def part(self, values: Sequence[Any], time: int, regions: Sequence[Any] | None = None) -> Part | Array:
        """What stands for arrays that the programs have in one place: a `Part`, or the array itself if it is the same one in all."""
        first = values[0]
        if any(
            [
                type(value) is not ndarray or value.dtype != first.dtype or value.ndim != first.ndim or value.flags.writeable is not first.flags.writeable
                for value in values
            ]
        ):  # fmt: skip
            raise Differs("arrays of other kinds")
        addresses = [value.__array_interface__["data"][0] for value in values]
        if regions is not None and all([region is not None for region in regions]):
            self._match(regions)
            lows = [int(of.low[region]) for of, region in zip(self.regions, regions)]
            offset = self.number([address - low for address, low in zip(addresses, lows)])
            return self._part(regions[0], offset, values)
        place = self.place_of(addresses, time) if all([value.size for value in values]) else None
        if place is not None:
            return self._part(*place, values)
        if all([value is first for value in values]) or _lie_alike(values, addresses):
            return first
        owners = [arrays.base_of(value) for value in values]
        if (
            type(owners[0]) is ndarray
            and all([owner is owners[0] for owner in owners])
            and owners[0].flags.c_contiguous
        ):
            start = owners[0].__array_interface__["data"][0]
            return self._part(owners[0], self.number([address - start for address in addresses]), values)
        if all([value.shape == first.shape and value.tobytes() == first.tobytes() for value in values]):
            return first  # a constant
        try:
            extra = self.extras.find(values, time)
        except NoFormula as error:
            raise Differs(str(error)) from None
        if extra is None:
            raise Differs("arrays that are no part of a plan")
        return self._part(*extra, values)

    def _part(self, region: Any, offset: int | Number, values: Sequence[Any]) -> Part:
        shape = tuple([self.number(extents) for extents in zip(*[value.shape for value in values])])
        strides = tuple([self.number(steps) for steps in zip(*[value.strides for value in values])])
        return Part(region, offset, values[0].dtype, shape, strides, values[0].flags.writeable)

    def place(self, arena: Arena) -> None:
        """Lays out the memory of all regions that were met, with room for the largest sizes."""
        first = self.regions[0]
        room: list[int] = []
        begins, ends = first.first.tolist(), first.last.tolist()
        for region in range(len(first.low)):
            if region not in self.back[0]:
                room.append(0)
                continue
            others = [match[region] for match in self.matches]
            extents = [int(of.high[other] - of.low[other]) for of, other in zip(self.regions, others)]
            # From the first use at any of the sizes to the last one: what is small stays, and what is one row needs no sum.
            begins[region] = min([int(of.first[other]) for of, other in zip(self.regions, others)])
            ends[region] = max([int(of.last[other]) for of, other in zip(self.regions, others)])
            room.append(-(-self.sizes.largest(self.number(extents)) // _ALIGNED) * _ALIGNED)
        places, count = laid_out(room, begins, ends)
        try:
            whole = arena.take(count)
        except OutOfMemoryError as error:
            raise Differs(str(error)) from None
        self.buffers = [whole[place : place + size] for place, size in zip(places, room)]
        self.bases = [bounds(buffer)[0] for buffer in self.buffers]
        self.bytes = count

    def base(self, region: Any) -> int:
        """The address that offsets in a region count from."""
        return self.bases[region] if type(region) is int else int(region.__array_interface__["data"][0])

    def array_of(self, part: Part, numbers: list[int]) -> Array:
        """The array at sizes whose numbers these are."""
        buffer = self.buffers[part.region] if type(part.region) is int else part.region.reshape(-1).view(numpy.uint8)
        shape, strides = [tuple([at(number, numbers) for number in row]) for row in (part.shape, part.strides)]
        array = ndarray(shape, part.dtype, buffer, at(part.offset, numbers), strides)
        if not part.writeable:
            array.flags.writeable = False
        return array


def _lie_alike(values: Sequence[Any], addresses: Sequence[int]) -> bool:
    """Whether they are views of the same memory."""
    first = values[0]
    return all(
        [
            address == addresses[0] and value.shape == first.shape and value.strides == first.strides
            for address, value in zip(addresses, values)
        ]
    )
