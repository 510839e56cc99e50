"""Writes in place into tensors that a compiled step has made: the tensor stands for a new value from then on.

The op of `h.relu_()` is computed into memory of its own, and the event "write" says that the user's tensor, which stood for the old value, stands
for the new one now. So the calls of a plan have no writes into memory that others of them read, and are lowered and fused as all calls are.
That is what eager does only where nobody can tell the difference: no view, NumPy array or node that is still to be differentiated may have
the memory of the tensor. Else the step is not recorded, and eager computes, or says what is wrong.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import FREED, Node, OutputNode, caller
from dynograd.autograd.writes import count_on, version
from dynograd.ops.layout.conversions import copied
from dynograd.plans.handed import Handed, Read, become, stand_for
from dynograd.plans.memory import is_part_of_any
from dynograd.plans.passes import Event, saved_of
from dynograd.tensor.tensor import Tensor

__all__ = ["RecordedVersions", "WalkedVersions"]


class RecordedVersions:
    """The part of a recording that notes them."""

    values: list[Any]
    numbers: dict[int, int]
    outside: list[Any]
    nodes: list[Any]
    events: list[Event]
    lent: list[Any]  # arrays that NumPy was given
    apart: dict[
        int, Any
    ]  # of nodes, by id: the array that eager would have written into other memory, so that it stays
    renewed: list[Any]  # arrays of new values
    inside: int
    reason: str

    def may_renew(self: Any, target: Any, result: Any = None) -> bool:
        """Whether a write into `target` can be recorded as a new value; if not, and the step has made it, the step is refused.

        Args:
            result: what is to be written, if that is there already.
        """
        if self.inside or self.reason:
            return False
        number = self.numbers.get(id(target))
        if number is None:
            return False
        reason = self._why_not(target, number, result)
        if reason:
            self.refuse(f"a write in place into {reason}")
        return not reason

    def _why_not(self, target: Any, number: int, result: Any) -> str:
        array = target.array
        if target._meta is not None:
            return "a view of a tensor that the step has made, or one with a hook"
        if 0 in array.strides:
            return "a tensor whose elements share memory"
        if MODES.grad == 0 and target._requires_grad:
            return "a tensor with a history that the write is no part of"
        if any([number in event.results for event in self.events if event.kind == "backward"]):
            return "a gradient"
        if is_part_of_any(array, self.lent):
            return "a tensor whose memory NumPy has"
        if is_part_of_any(array, [outside.array for outside in self.outside]):
            return "the memory of a tensor from outside"
        if self._has_mates(number, array):
            return "a tensor that others share their memory with"
        return "a tensor that backward needs as it was" if self._is_saved(array, node_of(result)) else ""

    def _has_mates(self: Any, number: int, array: Any) -> bool:
        """Whether somebody has another value in the same memory."""
        values = self.values
        return any(
            [
                other != number and getrefcount(values[other]) > 2 and is_part_of_any(array, [values[other].array])
                for other in range(len(values))
            ]
        )

    def _is_saved(self, array: Any, own: Any) -> bool:
        """Whether a node but `own` has saved a part of the array for a backward that may come."""
        for node in self.nodes:
            if node is own or node.attrs is FREED:
                continue
            apart = self.apart.get(id(node))
            for saved in saved_of(node):
                if numpy.may_share_memory(saved, array) and not is_part_of_any(saved, [apart]):
                    return True
        return False

    def renew(self: Any, target: Any, result: Any) -> bool:
        """`target` stands for `result` from now on; False, and the step is refused, where it cannot."""
        if not self._is_fresh(result):
            result = copied(result)
        old, new = self.numbers[id(target)], self.numbers.get(id(result))
        if new is None or self.reason:
            self.refuse("a write in place of what was not recorded")
        elif not _laid_out_alike(result.array, target.array):
            self.refuse("a write in place that would lay its tensor out differently")
        elif target._requires_grad and not result._requires_grad:
            self.refuse("a write in place that has no gradient into a tensor with a history")
        if self.reason:
            return False
        assert new is not None
        before = Tensor.wrap(target.array)
        before.node, before._requires_grad = target.node, target._requires_grad
        node = node_of(result)
        if node is not None:
            self.apart[id(node)] = result.array
        self.renewed.append(result.array)
        count_on(result.array, version(target.array) + 1)
        target.array, target.node, target._requires_grad = result.array, result.node, result._requires_grad
        del self.numbers[id(result)]
        self.values[old], self.values[new], self.numbers[id(target)] = before, target, new
        self.note_write(old, new)
        return True

    def note_again(self: Any, target: Any, result: Any) -> None:
        """As in a record that is run anew: the two values are apart there."""
        if not self.reason:
            self.note_write(self.numbers[id(target)], self.numbers[id(result)])

    def note_write(self: Any, old: int, new: int) -> None:
        """From here on the tensor of the value `old` stands for `new`."""
        event = Event("write", None, (("value", old), ("value", new)), 0, caller(2))
        self._over(event)

    def _is_fresh(self, result: Any) -> bool:
        """Whether the last op has made it, in memory that is its own."""
        number = self.numbers.get(id(result))
        if number is None or result._meta is not None or not self.events or number not in self.events[-1].results:
            return False
        known = [tensor.array for other, tensor in enumerate(self.values) if other != number]
        return not is_part_of_any(result.array, [*known, *[outside.array for outside in self.outside]])

    def writes_into(self, array: Any) -> int:
        """How often the step has written in place into what its memory stands for."""
        return version(array) if is_part_of_any(array, self.renewed) else 0


def node_of(tensor: Any) -> Node | None:
    """The node of the op that has made it."""
    node = None if tensor is None else tensor.node
    return node.edges[0] if type(node) is OutputNode else node


def _laid_out_alike(array: Any, other: Any) -> bool:
    return all(
        [step == other_step for size, step, other_step in zip(array.shape, array.strides, other.strides) if size > 1]
    )


class WalkedVersions:
    """The part of a walk that follows them."""

    at: Any
    first: list[int]
    handed: list[Any]
    path: Any
    read_numbers: dict[int, Any]
    running: bool
    values: list[Any]

    def may_renew(self: Any, target: Any, result: Any = None) -> bool:
        """Whether the step has made `target`."""
        if not self.running:
            return False
        if isinstance(target, Handed):
            return target.value.walk is self and self.handed[target.value.number] is target
        return any([self.handed[number] is target for number in self.read_numbers])

    def renew(self: Any, target: Any, result: Any) -> bool:
        """`target` stands for `result` from now on, as in the record; else the walk ends, and False is given unless that is recorded anew."""
        if not self._is_here(target, result):
            step = self.at
            if step.of is copied.op and step.args[0][0] == "value" and self.handed[step.args[0][1]] is result:
                result = copied(result)
        if self.running:
            for choice in (self.at, *self.at.others):
                if self._is_write(choice, target, result) and not self._has_mates(choice.args[0][1]):
                    if choice is not self.at and not self._go_over(choice):
                        break
                    if self._exchange(choice):
                        return True
                    break
        if self.running:
            self.leave("a write in place that the record does not have here")
        recording = MODES.plan
        return recording is not None and recording.may_renew(target, result) and recording.renew(target, result)

    def _is_here(self, target: Any, result: Any) -> bool:
        return any([self._is_write(choice, target, result) for choice in (self.at, *self.at.others)])

    def _is_write(self, step: Any, target: Any, result: Any) -> bool:
        event = step.event
        if event is None or event.kind != "write":
            return False
        (_, old), (_, new) = step.args
        return self.handed[old] is target and self.handed[new] is result and type(result) is Handed

    def _has_mates(self: Any, number: int) -> bool:
        """Whether somebody has another value in the same memory, which the write would change."""
        kin = self.path.kin.get(number)
        if kin is None:
            return False
        now = self.at.number
        mates = [other for other, its in self.path.kin.items() if its == kin and other != number]
        return kin[0] != "region" or any([self.first[other] < now and self._is_held(other) for other in mates])

    def _exchange(self: Any, step: Any) -> bool:
        """The user's tensor and the one that the record has for the new value change places; False: the walk has ended."""
        (_, old), (_, new) = step.args
        target, result = self.handed[old], self.handed[new]
        was_read = type(target) is not Handed
        if was_read:  # whoever has read it sees the new numbers in the same memory
            self.catch_up()
            if not self.running:
                return False
            array, value = target.array, self.values[new]
            self.read_numbers[old] = array.copy(order="K")
            array[...] = self.where(new)
        self.at = step.next
        stand_for(target, self.values[new])
        stand_for(result, self.values[old])
        self._put_in_place(old, result)
        self._put_in_place(new, target)
        if was_read:
            self._note_read(new, array)
            become(target, array, None, value.grad, kind=Read if value.grad else Tensor)
        return True
