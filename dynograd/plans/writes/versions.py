"""Writes in place into tensors that a compiled step has made: the tensor stands for a new value from then on.

The op of `h.relu_()` is computed into memory of its own, and the user's tensor, which stood for the old value, stands for the new one
(event "rename"). So the calls of a plan have no writes into memory that others of them read, and are lowered and fused as all calls are. A write
into a view is a copy of the base with the new value in it; what else is a view of the base is one of the copy then. An event "write"
stands before all that, and a walk finds there what has to be so. Where somebody could tell the difference (NumPy has the memory, or a node that
is still to be differentiated has saved it) the step is not recorded: eager computes, or says what is wrong.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import FREED, Node, OutputNode, caller
from dynograd.autograd.packing import map_saved
from dynograd.autograd.writes import count_on, version
from dynograd.interpreter.tensor_parts import steps_of, view_of
from dynograd.interpreter.view_history import replay, set_time
from dynograd.ops.layout.conversions import copied
from dynograd.plans.gpu.array_kinds import may_share, own_copy
from dynograd.plans.handed import Handed, Read, become, stand_for
from dynograd.plans.memory import is_part_of_any
from dynograd.plans.passes import Event, saved_of
from dynograd.plans.writes.spoiling import operands_of
from dynograd.plans.writes.view_writes import can_put, put
from dynograd.tensor.tensor import Tensor

__all__ = ["RecordedVersions", "WalkedVersions"]


class RecordedVersions:
    """The part of a recording that notes them."""

    values: list[Any]
    numbers: dict[int, int]
    outside: list[Any]
    nodes: list[Any]
    events: list[Event]
    result: Any
    lent: list[Any]  # arrays that NumPy was given
    apart: dict[int, Any]  # by the id of a node: what eager would have written elsewhere, so that it stays
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
        self.before_write_in_part(target)
        reason = self._why_not(target, number, result)
        if reason:
            self.refuse(f"a write in place into {reason}")
        return not reason

    def _why_not(self, target: Any, number: int, result: Any) -> str:
        array = target.array
        if type(target._meta) not in (tuple, type(None)):
            return "a tensor with a hook, or `x.data`"
        if 0 in array.strides:
            return "a tensor whose elements share memory"
        if is_part_of_any(array, self.lent):
            return "a tensor whose memory NumPy has"
        if is_part_of_any(array, [outside.array for outside in self.outside]):
            return "the memory of a tensor from outside"
        mates, base = self._mates_of(target), _base_of(target)
        if base is not target and (id(base) not in self.numbers or base._meta is not None):
            return "a view of what the step has not made"
        if mates and not all([mate is base or _is_view_of(mate, base) for mate in mates]):
            return "a tensor whose memory another has that is no view of it (detach(), .data)"
        if base is not target and not can_put(steps_of(target._meta)):
            return "a view of a kind that is not written in a record"
        if MODES.grad == 0 and (target._requires_grad or base._requires_grad):
            return "a tensor with a history that the write is no part of"
        return "a tensor that backward needs as it was" if self.is_saved(array, node_of(result)) else ""

    def is_gradient(self, number: int) -> bool:
        """Whether a value is what a backward pass has given to a leaf, or what that stands for behind writes in place."""
        for event in reversed(self.events):
            if event.kind == "rename" and event.args[1][1] == number:
                number = event.args[0][1]
            elif event.kind == "backward" and number in event.results:
                return True
        return False

    def _mates_of(self, target: Any) -> list[Any]:
        """What else somebody has in the memory of what `target` is a view of."""
        values, number, array = self.values, self.numbers[id(target)], _base_of(target).array
        places = [
            place
            for place in range(len(values))
            if place != number and getrefcount(values[place]) > 2 and is_part_of_any(array, [values[place].array])
        ]
        return [values[place] for place in self.held(places)]

    def held(self, places: list[int]) -> list[int]:
        """Those of the values that somebody has, beside the recording and views of them."""
        if not places:
            return []
        values, records = self.values, {}
        for place in range(len(values)):
            record = view_of(values[place])
            while record is not None:
                records[id(record)] = record
                record = record[1]
        bases = [record[0] for record in records.values()]
        by_records = {place: sum([base is values[place] for base in bases]) for place in places}
        del bases, records
        return [place for place in places if getrefcount(values[place]) > 2 + by_records[place]]

    def is_saved(self, array: Any, own: Any) -> bool:
        """Whether a node but `own` has saved a part of the array for a backward that may come."""
        in_parts = self._saved_in_parts()
        for node in self.nodes:
            if node is own or node.attrs is FREED:
                continue
            apart = [self.apart.get(id(node)), *in_parts.get(id(node), [])]
            for saved in saved_of(node):
                if may_share(saved, array) and not is_part_of_any(saved, apart):
                    return True
        return False

    def _saved_in_parts(self: Any) -> dict[int, list[Any]]:
        """By the ids of nodes in checkpointed parts: what the part has made, which eager does not keep for them."""
        saved: dict[int, list[Any]] = {}
        for start, end in self.parts:
            values = [self.values[number] for event in self.events[start:end] for number in event.results]
            arrays = [value.array for value in values]
            for value in values:
                node = node_of(value)
                if node is not None:
                    saved.setdefault(id(node), []).extend(arrays)
        return saved

    def is_alike(self, target: Any, result: Any) -> bool:
        return False

    def renew_at_once(self, target: Any, result: Any) -> bool:
        return False

    def renew(self: Any, target: Any, result: Any) -> bool:
        """`target` stands for `result` from now on; False, and the step is refused, where it cannot."""
        mates = self._mates_of(target)
        base = _base_of(target) if mates or not _laid_out_alike(result.array, target.array) else target
        views = [mate for mate in mates if mate is not base] + [target] * (base is not target)
        steps_to_target = () if base is target else steps_of(target._meta)
        # A view of all, as `x.data` is, needs no copy of the base either.
        is_whole = all([op.name == "view" for op, _, _ in steps_to_target]) and target.shape == base.shape
        if is_whole and not self._is_fresh(result):
            result = copied(result)
        if target._requires_grad and not result._requires_grad:
            self.refuse("a write in place that has no gradient into a tensor with a history")
        if self.reason or id(result) not in self.numbers:
            self.refuse("a write in place of what was not recorded")
            return False
        old = (self.numbers[id(base)], *[self.numbers[id(view)] for view in views])
        start = len(self.events)
        self._note("write", self.numbers[id(target)], self.numbers[id(result)])
        new = result if is_whole else self._put(base, steps_to_target, result)
        if not _laid_out_alike(new.array, base.array):
            self.refuse("a write in place that would lay its tensor out differently")
        if self.reason:
            return False
        count = version(base.array) + 1
        node = node_of(result)
        if is_whole and node is not None:
            self.apart[id(node)] = self.memory.outline(result.array)
        steps = [steps_of(view._meta) for view in views]
        self._rename(base, new, None)
        for view, its_steps in zip(views, steps):
            new = replay(base, its_steps)
            set_time(new, base)
            self._rename(view, new, new._meta)
        self.renewed.append(self.memory.outline(base.array))
        count_on(base.array, count)
        self.events[start].subject = len(self.events) - start - 1, old
        return True

    def _put(self, base: Any, steps: tuple, result: Any) -> Tensor:
        """A copy of the base with the result in its view."""
        new = put(base, steps, result)
        return new if new._meta is None else copied(new)

    def _rename(self: Any, tensor: Any, new: Any, meta: Any) -> None:
        """`tensor` stands for the value that `new` stands for."""
        before = Tensor.wrap(tensor.array)
        before.node, before._requires_grad, before._meta = tensor.node, tensor._requires_grad, tensor._meta
        tensor.array, tensor.node, tensor._requires_grad, tensor._meta = new.array, new.node, new._requires_grad, meta
        if self.reason:
            return
        old, number = self.numbers[id(tensor)], self.numbers.pop(id(new))
        self.values[old], self.values[number], self.numbers[id(tensor)] = before, tensor, number
        self._note("rename", old, number)

    def _note(self: Any, kind: str, old: int, new: int) -> None:
        self._over(Event(kind, None, (("value", old), ("value", new)), MODES.grad, caller(3)))

    def note_write(self: Any, event: Event, target: Any, result: Any) -> None:
        """An event "write" or "rename" of a record that is run anew: the two values are apart there."""
        if not self.reason:
            self._note(event.kind, self.numbers[id(target)], self.numbers[id(result)])
            self.events[-1].grad, self.events[-1].subject = event.grad, event.subject
            node = node_of(result)
            if node is not None:
                self.apart[id(node)] = self.memory.outline(result.array)
            if event.kind == "rename":
                if type(result._meta) is tuple:
                    set_time(result, result._meta[0])
                self.renewed.append(self.memory.outline(result.array))
                count_on(result.array, max(version(result.array), version(target.array) + 1))

    def take_apart(self) -> None:
        """From here on eager writes: what nodes have saved of new values lies in other memory, as it does where nothing is recorded.

        So does what those of a checkpointed part have saved of it, at the end of the step only where it is given.
        """
        in_parts = self._saved_in_parts()
        if not self.reason and in_parts:
            results = [self.values[number].array for number in operands_of([self.result])[0]] if self.result else []
            in_parts = {
                node: [array for array in arrays if is_part_of_any(array, results)] for node, arrays in in_parts.items()
            }
        for node in self.nodes:
            apart = [array for array in (self.apart.pop(id(node), None),) if array is not None]
            apart += in_parts.get(id(node), [])
            if not apart or node.attrs is FREED:
                continue

            def kept(value: Any, apart: Any = apart) -> object:
                return own_copy(value) if any([is_part_of_any(array, [value]) for array in apart]) else value

            for name in node.saved_names:
                setattr(node, name, map_saved(getattr(node, name), kept))

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


def _base_of(tensor: Any) -> Tensor:
    record = view_of(tensor)
    return tensor if record is None else record[0]


def _is_view_of(tensor: Any, base: Any) -> bool:
    return type(tensor._meta) is tuple and tensor._meta[0] is base


def _laid_out_alike(array: Any, other: Any) -> bool:
    return all(
        [step == its_step for size, step, its_step in zip(array.shape, array.strides, other.strides) if size > 1]
    )


class WalkedVersions:
    """The part of a walk that follows them."""

    assigned: set[int]
    at: Any
    first: list[int]
    handed: list[Any]
    path: Any
    read_numbers: dict[int, Any]
    renames: dict[
        Any, tuple[Any, tuple[list[tuple[int, int]], Any, list[int] | None]]
    ]  # what is known of writes, by their steps
    running: bool
    values: list[Any]

    def is_gradient(self, tensor: Any) -> bool:
        """The same of a recorded tensor."""
        number = tensor.value.number
        return number in self.path.of_leaves and self.handed[number] is tensor and self.first[number] < self.at.number

    def may_renew(self, target: Any, result: Any = None) -> bool:
        """Whether the step has made `target`."""
        if not self.running:
            return False
        if isinstance(target, Handed):
            is_own = target.value.walk is self and self.handed[target.value.number] is target
        else:
            is_own = any([self.handed[number] is target for number in self.read_numbers])
        if is_own:
            self.before_write_in_part(target)
        return is_own

    def renew_at_once(self: Any, target: Any, result: Any) -> bool:
        """`renew` in the usual case: the record has it here, of tensors that nobody has read, and nobody has others in their memory; else False."""
        step = self.at
        if step.event is None or step.event.kind != "write" or type(target) is not Handed or type(result) is not Handed:
            return False
        (_, old), (_, new) = step.args
        handed = self.handed
        if handed[old] is not target or handed[new] is not result or step.grad != MODES.grad:
            return False
        renames, last, mates = self._renames_of(step)
        if mates is None or any([type(handed[number]) is not Handed for number, _ in renames]):
            return False
        if mates and any([self.first[mate] < step.number and self._is_held(mate) for mate in mates]):
            return False
        for number, other in renames:
            renamed, its_new = handed[number], handed[other]
            stand_for(renamed, self.values[other])
            stand_for(its_new, self.values[number])
            self.put_in_place(number, its_new)
            self.put_in_place(other, renamed)
            if number in self.assigned:
                self.assigned.add(other)
        self.at = last.next
        return True

    def _renames_of(self: Any, step: Any) -> tuple[list[tuple[int, int]], Any, list[int] | None]:
        """Of a write: (old, new) of each value that another stands for behind it, the last step of it, and the other values in the same memory.

        None in place of those: the memory is no part of the plan's.
        """
        kin = self.path.kin
        of_kin, known = self.renames.get(step, (None, None))
        if of_kin is kin and known is not None:
            return known
        renames, last = [], step
        for _ in range(step.subject[0]):
            last = last.next
            if last.event.kind == "rename":
                renames.append((last.args[0][1], last.args[1][1]))
        of_target, mates = kin.get(step.args[0][1]), []
        if of_target is not None:
            numbers = {number for number, _ in renames}
            mates = [number for number, other in kin.items() if other == of_target and number not in numbers]
        elsewhere = of_target is not None and of_target[0] != "region"
        result = renames, last, None if elsewhere else mates
        self.renames[step] = kin, result
        return result

    def is_alike(self, target: Any, result: Any) -> bool:
        """Whether they are known to be of one shape and dtype."""
        if type(target) is not Handed or type(result) is not Handed:
            return False
        value, other = target.value, result.value
        return value.shape == other.shape and value.dtype is other.dtype

    def renew(self: Any, target: Any, result: Any) -> bool:
        """`target` stands for `result` from now on, as in the record; else the walk ends, and False is given unless that is recorded anew."""
        if self.renew_at_once(target, result):
            return True
        step = self.at
        if not any([self._is_write(choice, target, result) for choice in (self.at, *self.at.others)]):
            if (
                step.of is not None
                and step.of.op is copied.op
                and step.args[0][0] == "value"
                and self.handed[step.args[0][1]] is result
            ):
                result = copied(result)
        if self.running and self._go_over_write(target, result):
            return True
        if self.running:
            self.leave("a write in place that the record does not have here")
        recording = MODES.plan
        return recording is not None and recording.may_renew(target, result) and recording.renew(target, result)

    def _is_write(self, step: Any, target: Any, result: Any) -> bool:
        event = step.event
        if event is None or event.kind != "write" or step.grad != MODES.grad:
            return False
        (_, old), (_, new) = step.args
        return self.handed[old] is target and self.handed[new] is result

    def _go_over_write(self: Any, target: Any, result: Any) -> bool:
        """Goes over a write and what stands behind it; False: it is not the record's."""
        for choice in (self.at, *self.at.others):
            if not self._is_write(choice, target, result):
                continue
            count = choice.subject[0]
            steps = [choice]
            for _ in range(count):
                steps.append(steps[-1].next)
            renames = [step for step in steps if step.event.kind == "rename"]
            if not self._are_alone([step.args[0][1] for step in renames], choice):
                continue
            if choice is not self.at and not self._go_over(choice):
                continue
            was_read = any([type(self.handed[step.args[0][1]]) is not Handed for step in renames])
            if was_read:
                self.catch_up()
                if not self.running or len(renames) > 1:
                    return False
            for step in renames:
                self.at = step
                self._exchange(step)
            self.at = steps[-1].next
            return True
        return False

    def _are_alone(self: Any, numbers: list[int], step: Any) -> bool:
        """Whether nobody has another value in the memory of what is written, nor one that is to be handed out."""
        if any([type(self.handed[number]) is not Handed for number in [step.args[1][1]]]):
            return False
        kin = self.path.kin.get(step.args[0][1])
        if kin is None:
            return True
        now = self.at.number
        mates = [number for number, its in self.path.kin.items() if its == kin and number not in numbers]
        return kin[0] == "region" and not any([self.first[mate] < now and self._is_held(mate) for mate in mates])

    def _exchange(self: Any, step: Any) -> None:
        """The user's tensor and the one that the record has for the new value change places."""
        (_, old), (_, new) = step.args
        target, result, value = self.handed[old], self.handed[new], self.values[new]
        array = None
        if type(target) is not Handed:  # whoever has read it sees the new numbers in the same memory
            self.catch_up()
            array = target.array
            self.read_numbers[old] = own_copy(array)
            array[...] = self.where(new)
        stand_for(target, value)
        stand_for(result, self.values[old])
        self.put_in_place(old, result)
        self.put_in_place(new, target)
        if old in self.assigned:
            self.assigned.add(new)
        if array is not None:
            self._note_read(new, array)
            become(target, array, None, value.grad, kind=Read if value.grad else Tensor)
