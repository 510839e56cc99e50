"""Writes into tensors from outside that a node has saved, and that a backward pass still needs: there eager raises an error.

A walk has no nodes, so it knows of its way which tensors from outside steps have saved, and until which event passes need them. Before the program
writes into one of them, and the record has no such write there, the walk ends: the nodes are there then, and eager says what is wrong. Where the walk ends
behind a write, nodes that were made before it have saved what is written by now.
"""

from __future__ import annotations

import functools
from typing import Any

from dynograd.arrays import base_of
from dynograd.autograd.nodes import OutputNode
from dynograd.autograd.packing import map_saved
from dynograd.autograd.writes import last_write, note_later, written_since
from dynograd.plans.gpu.array_kinds import PLAIN, may_share, same_part

__all__ = ["HISTORIES", "RecordedSaves", "Spoilable", "WalkedSaves", "operands_of", "written_by"]

HISTORIES = ("op", "detach", "place", "flag", "grad", "function")  # kinds of events by which values have a history


def operands_of(args: Any) -> tuple[list[int], list[int]]:
    """The numbers of the values, and of the tensors from outside, among described operands or results."""
    values: list[int] = []
    places: list[int] = []
    for kind, content in args:
        if kind == "value":
            values.append(content)
        elif kind == "outside":
            places.append(content)
        elif kind in ("list", "dict"):
            inner = operands_of(content[1] if kind == "list" else content.values())
            values += inner[0]
            places += inner[1]
    return values, places


def written_by(optimizer: Any, since: int) -> list[Any]:
    """The arrays of those of an optimizer's parameters that it has written after this time: those without a gradient are not.

    One of a program's own may write where nobody is told (`.data`): into all.
    """
    tells = type(optimizer).__module__.startswith("dynograd.")
    arrays = [parameter.array for group in optimizer.param_groups for parameter in group["params"]]
    return [array for array in arrays if not tells or written_since(array, since)]


class RecordedSaves:
    """The part of a recording that notes what nodes save, which passes come to them, and what is written."""

    events: list[Any]
    outside: list[Any]

    def begin_saves(self) -> None:
        # (the number of the event, the id of the node, that of the memory's owner, what keeps that)
        self.saves: list[tuple[int, int, int, Any]] = []
        self.visits: dict[int, int] = {}  # the last events that came to nodes, by the nodes' ids
        self.writes_outside: list[tuple[int, Any]] = []  # (events noted before, array)
        self.writes_of_optimizers: list[tuple[int, Any]] = []  # the same

    def note_saves(self: Any, node: Any, saved: list[Any]) -> None:
        """The event that is to come has made a node, which has saved these arrays."""
        for array in saved:
            self.saves.append((len(self.events), id(node), id(base_of(array)), self.memory.outline(array)))

    def note_visits(self: Any, nodes: list[Any]) -> None:
        """The event that is to come goes through these nodes."""
        self.visits.update(dict.fromkeys(map(id, nodes), len(self.events)))

    def is_outdated(self: Any) -> bool:
        """Whether it gives with a history what it has computed from tensors that it wrote later: its backward would compute it from others."""
        writes = [*self.writes_outside, *self.writes_of_optimizers]
        if not writes:
            return False
        consumed = self.consumed()
        results = operands_of([self.result])[0]
        needed = {number for number in results if self.values[number].node is not None and number not in consumed}
        for number in reversed(range(len(self.events))):
            event = self.events[number]
            if event.kind not in HISTORIES or needed.isdisjoint(event.results):
                continue
            values, places = operands_of(event.args)
            needed.update(values)
            later = [array for at, array in writes if at > number]
            if any([may_share(self.outside[place].array, array) for place in places for array in later]):
                return True
        return False

    def spoilable(self) -> Spoilable:
        """What of tensors from outside must not be written."""
        places: dict[int, list[int]] = {}  # by the id of the memory's owner
        for outside in self.outside:
            places.setdefault(id(base_of(outside.array)), []).append(outside.number)
        saves = [
            (place, number, self.visits[node])
            for number, node, owner, _ in self.saves
            if node in self.visits
            for place in places.get(owner, ())
        ]
        writes = {
            (number, place) for number, array in self.writes_outside for place in places.get(id(base_of(array)), ())
        }
        return Spoilable(saves, writes)


class Spoilable:
    """Of one way: tensors from outside that steps have saved for passes.

    Args:
        saves: (place, the number of the step, that of the last pass that needs it).
        writes: (step, place) of writes that the record has.
    """

    def __init__(self, saves: list[tuple[int, int, int]], writes: set[tuple[int, int]]) -> None:
        self.saves: dict[int, list[tuple[int, int]]] = {}
        for place, number, until in saves:
            self.saves.setdefault(place, []).append((number, until))
        self.last = max([until for _, _, until in saves], default=-1)
        self.writes = writes

    def by(self, number: int, place: int) -> bool:
        """Whether a pass cannot be made any more when the program writes into a tensor before this step."""
        saves = self.saves.get(place)
        if saves is None or (number, place) in self.writes:
            return False
        return any([start < number <= until for start, until in saves])


def _lies_in(array: Any, owner: Any) -> bool:
    return array is owner or (array.base is not None and base_of(array) is owner)


class WalkedSaves:
    """The part of a walk that looks at writes."""

    at: Any
    bound: dict[int, Any]
    path: Any
    written: list[tuple[int, Any, Any]]

    def begin_saves(self) -> None:
        self.write_times: dict[int, int] = {}  # of the last write before the first one at a step, by the step's number
        # (number of the step before which it was written, node of a step that was run anew, tensor, the array that the node has)
        self.hidden_writes: list[tuple[int, Any, Any, Any]] = []

    def is_spoiled_by(self, tensor: Any) -> bool:
        """Whether a backward pass that is to come needs what the tensor holds before it is written."""
        number, spoilable = self.at.number, self.path.spoilable
        if number > spoilable.last:
            return False
        array = tensor.array
        owner = array if array.base is None else base_of(array)
        places = self.path.owners.get(id(owner))
        if places is None:
            bound = self.bound
            places = [place for place in spoilable.saves if place in bound and _lies_in(bound[place].array, owner)]
        return bool(places) and any([spoilable.by(number, place) for place in places])

    def note_write_at(self, number: int) -> None:
        self.write_times.setdefault(number, last_write[0])

    def saved_as_written(self, results: list[Any], lent: list[tuple[int, Any, Any]]) -> None:
        """The node of a step that is run anew has saved what is written behind it: it sees that when the writes are passed.

        Args:
            results: that the step has given.
            lent: (number of the first write behind the step, tensor from outside, the array that it had while the step was run anew).
        """
        node = next((tensor.node for tensor in results if tensor.node is not None), None)
        node = node.edges[0] if type(node) is OutputNode else node
        if node is not None:
            self.hidden_writes += [(number, node, tensor, array) for number, tensor, array in lent]

    def pass_writes_before(self, number: int) -> None:
        """Nodes of steps that were run anew see what was written before this step, as in eager mode."""
        passed = [write for write in self.hidden_writes if write[0] <= number]
        if not passed:
            return
        self.hidden_writes = [write for write in self.hidden_writes if write[0] > number]
        for at, node, tensor, array in passed:
            for name in node.saved_names:
                setattr(node, name, map_saved(getattr(node, name), functools.partial(_as_it_is, tensor, array)))
            since = self.write_times.get(at)
            if since is not None:
                note_later(tensor.array, since)


def _as_it_is(tensor: Any, array: Any, value: Any) -> object:
    """What a node has saved, in the memory of `tensor` where it is a part of `array`, which was lent to that."""
    if type(value) not in PLAIN or not may_share(value, array):
        return value
    return tensor.array if value is array else same_part(value, array, tensor.array)
