"""Computing again: what a checkpointed part has made for backward alone is not kept, but computed once more ahead of the first rule that reads it.

The calls of the part stand twice in the program then, the second time on memory of their own, which nothing else needs before. So the
memory of the part's intermediate results is free between the two, and that of one part serves the next.
"""

from __future__ import annotations

import bisect
import copy
from typing import Any

import numpy

from dynograd.arrays import Array, ndarray
from dynograd.autograd.packing import map_saved
from dynograd.plans.calls import Call, Digest
from dynograd.plans.lowering.bound import arrays_of, moved
from dynograd.plans.memory import bounds, is_part_of_any, regions_of, write
from dynograd.plans.passes import is_constant, saved_of
from dynograd.plans.python_forms import Forward, RuleForm

__all__ = ["compute_parts_again"]


def compute_parts_again(recording: Any, keeps: list[int]) -> None:
    """Puts the calls of checkpointed parts into the program once more. `keeps` are values that the program has when the step is over."""
    gradients = [number for event in recording.events if event.kind in ("backward", "grad") for number in event.results]
    kept = [recording.values[number].array for number in {*keeps, *gradients, *recording.checked}]
    kept += [array for _, array in recording.own_gradients.values()]
    spans = [(_calls_before(recording, start), _calls_before(recording, stop)) for start, stop in recording.parts]
    parts = [recording.calls[start:stop] for start, stop in spans]
    while parts:  # outer ones stand last
        part = parts.pop()
        twins = _Again(recording, part, kept).put_in()
        inner = [[twins[id(call)] for call in other if id(call) in twins] for other in parts]
        parts = [again or other for again, other in zip(inner, parts)]


def _calls_before(recording: Any, event: int) -> int:
    return recording.events[event - 1].calls if event else 0


class _Again:
    """One part.

    Args:
        recording: whose program it is.
        part: its calls, one behind the other.
        kept: arrays that stay until the step is over.
    """

    def __init__(self, recording: Any, part: list[Call], kept: list[Any]) -> None:
        self.recording, self.part = recording, part
        calls = recording.calls
        places = {id(call): number for number, call in enumerate(calls)}
        self.start = places[id(part[0])] if part else 0
        behind = calls[self.start + len(part) :]
        self.regions = regions_of([array for call in part for array in _made_by(call)])
        self.starts = [start for start, _ in self.regions]
        self.free = set(range(len(self.regions))).difference(
            self._places_in(kept)
        )  # parts of memory for backward alone
        self.first: int | None = None
        for call in behind:
            if call.kind in ("op", "optimizer") or call.in_place:
                self.free -= self._places_in(_all_of(call))
        for number, call in enumerate(behind, self.start + len(part)):
            if not self.free.isdisjoint(self._places_in(_all_of(call))):
                self.first = number
                break
        self.memory: dict[int, ndarray] = {}

    def put_in(self) -> dict[int, Call]:
        """The calls that stand twice now: the second by the id of the first."""
        recording = self.recording
        if self.first is None or any([call.in_place or type(call.compute) is not Forward for call in self.part]):
            return {}
        if self._is_written_before(self.first):
            return {}
        again = self._needed()
        for call in again:
            for place in self._places_in(_made_by(call)):
                self._take(place)
        nodes: dict[int, Any] = {}
        twins = {id(call): self._twin(call, nodes) for call in again}
        calls = recording.calls
        for number in range(self.first, len(calls)):
            self._read_again(calls[number], nodes)
        calls[self.first : self.first] = list(twins.values())
        for event in recording.events:
            if event.calls > self.first:
                event.calls += len(twins)
        recording.snapshots = [
            (count + len(twins) if count > self.first else count, place, values)
            for count, place, values in recording.snapshots
        ]
        recording.writes = [
            (count + len(twins) if count > self.first else count, array) for count, array in recording.writes
        ]
        return twins

    def _needed(self) -> list[Call]:
        """The calls of the part that have to run again, in order."""
        needed: set[int] = set()
        for call in self.recording.calls[self.first :]:
            needed |= self._places_in(_all_of(call)) & self.free
        again: list[Call] = []
        for call in reversed(self.part):
            written = self._places_in(_made_by(call))
            if call.node is not None and not _has_arrays_alone(call):
                written |= self._places_in(saved_of(call.node))
            if not written.isdisjoint(needed):
                again.append(call)
                needed |= self._places_in(_all_of(call)) & self.free
        return again[::-1]

    def _is_written_before(self, stop: int) -> bool:
        """Whether what the part reads is another thing when it would be computed again."""
        read = [array for call in self.part for array in _all_of(call)]
        return any(
            [
                self.start < count <= stop and (array is None or is_part_of_any(array, read))
                for count, array in self.recording.writes
            ]
        )

    def _take(self, place: int) -> None:
        """Memory for the second time, which holds what that of the first holds."""
        if place not in self.memory:
            start, stop = self.regions[place]
            self.memory[place] = numpy.empty(stop - start, numpy.uint8)

    def at(self, array: Any) -> Array:
        """Where it is when it is computed again."""
        if type(array) is not ndarray or not array.size:
            return array
        place = self._place_of(array)
        if place is None or place not in self.memory:
            return array
        offset = array.__array_interface__["data"][0] - self.regions[place][0]
        result = numpy.ndarray(array.shape, array.dtype, self.memory[place], offset, array.strides)
        if not array.flags.writeable:
            result.flags.writeable = False
        return result

    def _place_of(self, array: Any) -> int | None:
        start, stop = bounds(array)
        place = bisect.bisect_right(self.starts, start) - 1
        return place if start < stop and place >= 0 and start < self.regions[place][1] else None

    def _places_in(self, arrays: list[Any]) -> set[int]:
        places = [self._place_of(array) for array in arrays if type(array) is ndarray]
        return {place for place in places if place is not None}

    def _twin(self, call: Call, nodes: dict[int, Any]) -> Call:
        node = None
        form = call.compute
        assert type(form) is Forward
        if call.node is not None:
            node = nodes[id(call.node)] = self._node_of(call)
        compute = Forward(form.entry, tuple(form.args), form.grad, node)
        compute.relocated(self.at)
        twin = copy.copy(call)
        twin.inputs, twin.outputs, twin.saved = [
            tuple([None if array is None else self.at(array) for array in arrays])
            for arrays in (call.inputs, call.outputs, call.saved)
        ]
        twin.launches = [moved(launch, self.at) for launch in call.launches]
        twin.compute, twin.node, twin.first = compute, node, call
        for array, values in zip((*twin.outputs, *twin.saved), call.results):
            if array is not None and type(values) is not Digest and not is_part_of_any(array, twin.inputs):
                write(array, values)
        return twin

    def _node_of(self, call: Call) -> object:
        """The node of a call, with what it has saved where that is computed again."""
        node = copy.copy(call.node)
        for name in node.saved_names:
            setattr(node, name, map_saved(getattr(node, name), self.at))
        self.recording.shadows[id(node)] = node
        return node

    def _read_again(self, call: Call, nodes: dict[int, Any]) -> None:
        """A call behind reads what is computed again."""
        at = self.at
        if call.kind == "op":
            return
        call.inputs = tuple([None if array is None else at(array) for array in call.inputs])
        call.outputs = tuple([None if array is None else at(array) for array in call.outputs])
        call.launches = [moved(launch, at) for launch in call.launches]
        if call.node is not None:
            if id(call.node) not in nodes and not self._places_in(saved_of(call.node)).isdisjoint(self.memory):
                nodes[id(call.node)] = self._node_of(call)
            call.node = nodes.get(id(call.node), call.node)
            assert type(call.compute) is RuleForm
            call.compute = RuleForm(call.node, call.compute.g)
        form: Any = call.compute
        form.relocated(at)


def _has_arrays_alone(call: Call) -> bool:
    """Whether what an op saves is arrays of fixed places, and nothing that each step puts into its node anew."""
    if call.op.row["by_row"] is not None:
        return False
    saved = [getattr(call.node, name) for name in call.node.saved_names]
    return all([value is None or (type(value) is ndarray and not is_constant(value)) for value in saved])


def _made_by(call: Call) -> list[Any]:
    """Arrays that it has written; views of what it reads are none."""
    return [
        array
        for array in (*call.outputs, *call.saved)
        if type(array) is ndarray and not is_constant(array) and not is_part_of_any(array, call.inputs)
    ]


def _all_of(call: Call) -> list[Any]:
    """Arrays that it reads or writes."""
    launched = [array for launch in call.launches for array in arrays_of(launch)]
    saved = [] if call.node is None else saved_of(call.node)
    return [*[array for array in (*call.inputs, *call.outputs, *call.saved) if array is not None], *launched, *saved]
