"""Groups of elementwise calls in a program: which calls one loop computes instead, and what of them is not written then."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from dynograd.arrays import ndarray
from dynograd.plans.calls import Call
from dynograd.plans.lowering import Fused, fuse
from dynograd.plans.lowering.bound import moved
from dynograd.plans.lowering.elementwise import Pointwise, Result, launches_of
from dynograd.plans.lowering.layouts import NoMemoryError
from dynograd.plans.memory import Memory, bounds

__all__ = ["Group", "groups_of"]


class Group:
    """The calls `first` to `last` of a program, of which one loop computes what others read.

    Args:
        members: the numbers of the calls that it computes; between them stand calls that compute nothing.
        fused: on the recorded step's arrays.
        gone: the numbers of values that are not written.
    """

    def __init__(self, members: list[int], fused: Fused, gone: list[int]) -> None:
        self.first, self.last = members[0], members[-1]
        self.members, self.gone, self.name = members, gone, fused.name
        self.computed: Pointwise = fused.computed
        self.form: Any = None

    def arrays(self) -> list[Any]:
        """What it reads and writes."""
        computed = self.computed
        read = [
            value for launch in computed.before for value in (*launch.arguments, *launch.kept) if type(value) is ndarray
        ]
        return [*computed.operands.values(), *read, *[result.array for result in computed.results]]

    def lower(self, at: Callable[[Any], Any]) -> None:
        """Has the launches in the plan's memory from now on, if there are any."""
        computed = self.computed
        self.computed = dataclasses.replace(
            computed,
            operands={name: at(array) for name, array in computed.operands.items()},
            results=[Result(result.tree, at(result.array)) for result in computed.results],
            before=[moved(launch, at) for launch in computed.before],
        )
        try:
            self.form = launches_of(self.computed)
        except NoMemoryError:
            self.form = None

    def take(self, forms: list[Any]) -> None:
        """The forms of all calls are there."""

    def outputs(self) -> list[Any]:
        return [result.array for result in self.computed.results]


def groups_of(calls: list[Call], kept: list[Any], values: list[Any], memory: Memory) -> list[Group]:
    """The groups among the calls of a recorded step.

    Args:
        kept: arrays that somebody reads when the step is over.
        values: the arrays of its values, by number.
    """
    groups = []
    numbers = {id(call): number for number, call in enumerate(calls)}
    places: dict[Any, list[int]] = {}
    for number, array in enumerate(values):
        places.setdefault(memory.region_of(array), []).append(number)
    for call in fuse(calls, kept, memory.region_of):
        if not isinstance(call, Fused):
            continue
        members = sorted([numbers[id(member)] for member in call.members])
        written = [bounds(result.array) for result in call.computed.results]
        gone = [
            number
            for member in call.members
            for output in member.outputs
            if output is not None and bounds(output) not in written
            for number in places.get(memory.region_of(output), ())
        ]
        groups.append(Group(members, call, gone))
    return groups
