"""A plan's program: the calls of a recorded step on memory of the plan, as compiled launches or in their Python form."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.autograd.modes import MODES
from dynograd.autograd.packing import map_saved
from dynograd.plans.calls import Call
from dynograd.plans.memory import Arena, Memory
from dynograd.plans.recording import Recording

__all__ = ["Program"]


class Program:
    """What computes a path of the record.

    `arrays[n]` is where value n comes to lie; `run(start, stop)` computes calls. `outside[k]` is where a tensor from outside is read:
    in its own memory if it is the same one in each step.
    """

    def __init__(
        self, recording: Recording, arena: Arena, seeds: list[Any] | None = None, gradients: list[Any] | None = None
    ) -> None:
        """`seeds` come from outside into a backward pass that is not the step's own, and `gradients` go there."""
        fresh = [outside.array for outside in recording.outside if outside.fresh]
        fresh += seeds or []
        staying = [outside.array for outside in recording.outside if not outside.fresh]
        made = [array for call in recording.calls for array in call.outputs if array is not None]
        nodes = list(recording.shadows.values())
        foreign = [*fresh, *staying]
        for node in nodes:
            for array in _arrays_of(node):
                constant = not array.ndim and not array.flags.writeable  # a number beside the tensors
                if not constant and not any([numpy.may_share_memory(array, other) for other in foreign]):
                    made.append(array)
        self.memory = memory = Memory(made, fresh, staying, arena)
        before = [[None if array is None else array.copy() for array in call.outputs] for call in recording.calls]
        self.copies = before
        for node in nodes:
            for name in node.saved_names:
                setattr(node, name, map_saved(getattr(node, name), memory.at))
        self.calls: list[Call] = []
        for call in recording.calls:
            self._relocate(call)
            self.calls.append(call)
        self.arrays = [memory.at(tensor.array) for tensor in recording.values]
        self.outside = [memory.at(outside.array) for outside in recording.outside]
        self.seeds = [(memory.at(seed), seed.copy(order="K")) for seed in seeds or ()]
        self.gradients = [None if array is None else memory.at(array) for array in gradients or ()]
        self.differing: list[str] = []

    def _relocate(self, call: Call) -> None:
        at = self.memory.at
        call.inputs = tuple([at(array) for array in call.inputs])
        outputs = [at(array) for array in call.outputs]
        # A view of an operand needs no computing.
        call.outputs = tuple(
            [
                None if output is None or any([_is_part_of(output, array) for array in call.inputs]) else output
                for output in outputs
            ]
        )
        call.compute.relocated(at)  # type: ignore[attr-defined]

    def set_key(self, event: Any, key: Any) -> None:
        """The place in the random stream where an op draws in this step."""
        self.calls[event.calls - 1].compute.set_key(key)  # type: ignore[attr-defined]

    def run(self, start: int, stop: int) -> None:
        """Computes the calls from `start` to `stop`."""
        plan, MODES.plan = MODES.plan, None
        recorder, MODES.recorder = MODES.recorder, None
        grad = MODES.grad
        try:
            for call in self.calls[start:stop]:
                outputs = call.outputs
                if any([output is not None for output in outputs]) or call.kind == "op":
                    MODES.grad = 0
                    for output, result in zip(outputs, call.compute()):
                        if output is not None and result is not output:
                            write(output, result)
        finally:
            MODES.plan, MODES.recorder, MODES.grad = plan, recorder, grad

    def check(self, recording: Recording) -> bool:
        """Runs all of it on the recorded step's inputs in memory full of NaN, and compares each output with what the step had made."""
        for buffer in self.memory.buffers:
            buffer[...] = 0xFF
        for place, values in self.seeds:
            write(place, values)
        latest = {number: self.outside[number].copy(order="K") for _, number, _ in recording.snapshots}
        done = 0
        try:
            for start, number, values in recording.snapshots:
                self.run(done, start)
                done = start
                write(self.outside[number], values)
            self.run(done, len(self.calls))
        finally:
            for number, values in latest.items():
                write(self.outside[number], values)
        for call, expected in zip(self.calls, self.copies):
            for output, array in zip(call.outputs, expected):
                if output is not None and not _same(output, array):
                    self.differing.append(f"{call.kind} {call.name} at {call.line}")
        self.copies = []
        return not self.differing


def write(place: Any, values: Any) -> None:
    """Writes into the plan's memory, once where elements share it."""
    if not place.flags.writeable:
        place = place.view()
        place.flags.writeable = True
    if 0 in place.strides:
        index = tuple([slice(0, 1) if stride == 0 else slice(None) for stride in place.strides])
        place, values = place[index], values[index]
    place[...] = values


def _arrays_of(node: Any) -> list[Any]:
    found: list[Any] = []

    def note(value: Any) -> Any:
        if type(value) is ndarray:
            found.append(value)
        return value

    for name in node.saved_names:
        map_saved(getattr(node, name), note)
    return found


def _is_part_of(array: Any, other: Any) -> bool:
    return other is not None and type(other) is ndarray and numpy.may_share_memory(array, other)


def _same(array: Any, expected: Any) -> bool:
    if array.dtype.kind in "fc":
        return bool(numpy.array_equal(array, expected, equal_nan=True))
    return array.tobytes() == expected.tobytes()
