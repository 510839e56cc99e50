"""Leaving the record: the ops of a call so far are run anew, as they are written, on the tensors that the program has, and recorded."""

from __future__ import annotations

import weakref
from sys import getrefcount
from typing import Any

from dynograd.amp.autocasting import STATE
from dynograd.arrays import ndarray
from dynograd.autograd.modes import MODES
from dynograd.interpreter import differentiation
from dynograd.plans.functions.again import StepsAnew
from dynograd.plans.gpu.array_kinds import identity, is_writeable, may_share, same_part
from dynograd.plans.gradients import run_again
from dynograd.plans.handed import Handed, Read, become
from dynograd.plans.inputs import settle
from dynograd.plans.memory import is_part_of_any
from dynograd.plans.plan_nodes import PlanNode
from dynograd.plans.recording import Recording, call_with
from dynograd.plans.scoped import REASON, Scopes
from dynograd.plans.steps import Path, Step, freed
from dynograd.plans.walking.pauses import NO_CREDIT
from dynograd.plans.writes.spoiling import operands_of
from dynograd.tensor.tensor import Tensor

__all__ = ["Leaving"]


class Leaving:
    """The part of a walk that ends it."""

    _is_nowhere: Any
    anew: Any
    in_backward: int
    keep_checked: Any
    opened: list[int]
    parts: list[Any]
    make_checks_before: Any
    waiting: list[Any]
    at: Any
    bound: dict[int, Any]
    boundary: int
    copies: dict[int, Any]
    flags_back: Any
    toggle_again: Any
    view_record: Any
    counts: list[int]
    done: int
    handed: list[Any]
    lent: list[Any]
    note_stored: Any
    released: dict[int, Any]
    owner: Any
    path: Any
    pointed: list[Any]
    read_numbers: dict[int, Any]
    reader: Any
    running: bool
    pass_writes_before: Any
    saved_as_written: Any
    values: list[Any]
    written: list[tuple[int, Any, Any]]

    def scopes(self) -> Scopes | None:
        """A scope of autobatch begins."""
        self.leave(REASON)
        return MODES.plan.scopes()

    def leave(self, reason: str, tensor: Any = None) -> Tensor:
        """The program goes its own way: all ops of this call are run anew, as they are written, and recorded."""
        if not self.running:  # long after
            return self._outlive(tensor)
        owner = self.owner
        owner.note_left(reason)
        owner.may_leave(reason)
        done, number = self.done, self.at.number
        boundary = self.boundary
        self.running = False
        self.note_stored()
        settle(self.pointed)
        MODES.plan = None
        self.reader.turn_off(self)
        recording = owner.begin_recording()
        recording.bound = tuple(self.bound.values())
        recording.take_parts(self)
        if boundary >= 0 or self.written:
            recording.refuse("the way there goes over the step of an optimizer, or a write")
            owner.rhythm.note_left(owner.calls)
        elif not owner.credit.has_any():
            recording.refuse(NO_CREDIT)
        if self.in_backward:
            recording.refuse(f"{reason}, within the backward of an autograd.Function")
        steps = self._steps_to(number)
        grads = self._take_gradients(steps, boundary)
        self.flags_back(steps)
        self._settle(steps, boundary)
        inside, STATE.inside_op = STATE.inside_op, True  # the record's ops are cast already
        try:
            if boundary >= 0:
                self.make_checks_before(boundary + 1)
            for step in steps:
                if step.number <= boundary and step.event is not None and step.event.kind == "toggle":
                    self.toggle_again(step, recording)
            self.anew = StepsAnew(self, [step for step in steps if step.number > boundary], recording, done)
            self.anew.run()
            self.pass_writes_before(number)
            self.make_checks_before(number)
        finally:
            STATE.inside_op = inside
        for leaf, current in grads:
            leaf._grad = current
        self.keep_checked(recording)
        self._show_mates()
        for n in range(len(self.handed)):  # the record has others from now on
            if type(self.handed[n]) is not Handed:
                self._let_one_go(n, self.handed[n])
        return tensor

    def _show_mates(self: Any) -> None:
        """Steps find those again that only share the memory of what was read, so that it can be counted who has them."""
        for number, copied in self.read_numbers.items():
            if copied is None and type(self.handed[number]) is Handed:
                self.put_in_place(number, self.handed[number])

    def _steps_to(self, number: int) -> list[Step]:
        return self.path.steps[:number]

    def _take_gradients(self, steps: list[Step], boundary: int) -> list[tuple[Any, Any]]:
        """Leaves are without gradients, as they were before the passes. Gives what they have now."""
        taken: dict[int, tuple[Any, Any]] = {}
        for step in steps:
            if step.event is not None and step.event.kind == "backward" and step.number > boundary:
                for leaf in self._first_receivers(step):
                    taken.setdefault(id(leaf), (leaf, leaf._grad))
                    leaf._grad = None
        return list(taken.values())

    def _first_receivers(self, step: Step) -> list[Any]:
        """The leaves that have no gradient before a backward pass."""
        return [self._outside_now(step.path, place) for place, _, had in step.subject if not had]

    def clear_receivers(self, step: Step) -> None:
        """The program has dropped gradients of an earlier pass by now."""
        for leaf in self._first_receivers(step):
            leaf._grad = None

    def _settle(self, steps: list[Step], boundary: int) -> None:
        """What came before the step of an optimizer keeps its values, and its place in the graph where that was not used up by then."""
        numbers = [number for step in steps if step.number <= boundary for number in step.results]
        used = self.path.consumed
        now = self.at.number
        still = [number for number in numbers if self.values[number].grad and used.get(number, now) > boundary]
        again = {number for step in steps if step.number > boundary for number in operands_of(step.args)[0]}
        kept = [
            number for number in still if number in again or getrefcount(self.handed[number]) != self.counts[number]
        ]
        if kept:
            parent = PlanNode(self, kept, False)  # type: ignore[arg-type]
            self.path.needed = weakref.ref(parent)
            for number in kept:
                self._give_history(number, parent, self.view_record(number))  # type: ignore[attr-defined]
        for number in numbers:
            tensor, value = self.handed[number], self.values[number]
            if self._is_nowhere(number):
                continue
            if type(tensor) is Handed:
                become(tensor, self.own(number), freed(self.path, value), value.grad, self.view_record(number))
            elif type(tensor) is Read:
                become(tensor, tensor.array, freed(self.path, value), True, self.view_record(number))

    def run_anew(self, step: Step, recording: Recording, done: int) -> None:
        event = step.event
        assert event is not None
        before = MODES.grad
        if event.kind == "backward":
            outputs, keeps, seeds = [self._actual(described, step.path) for described in step.args]
            self.clear_receivers(step)
            differentiation.backward(outputs, seeds, keeps)
            self.take_gradients_over(step, recording, done)
            return
        if event.kind == "step":
            return
        if event.kind == "store":
            if event.calls > done:
                target, value = [self._actual(described, step.path) for described in step.args]
                MODES.grad = event.grad
                try:
                    target.copy_(value)
                finally:
                    MODES.grad = before
            return
        if event.kind in ("write", "rename"):
            recording.note_write(event, *[self.handed[number] for _, number in step.args])
            return
        if event.kind in ("differentiate", "ask"):  # the ops of the one are run anew one by one
            recording.note_again(event)
            return
        if event.kind == "flag":
            before, tensor = self.handed[step.args[0][1]], self.handed[step.results[0]]
            become(tensor, before.array, None, True, before._meta)
            recording.note_flag(before, tensor)
            return
        if event.kind == "detach":
            tensor = self.handed[step.args[0][1]]
            results = [tensor.data if event.subject else tensor.detach()]
        elif event.kind in ("place", "grad"):
            MODES.grad = event.grad
            try:
                results = run_again(event.kind, [self._actual(described, step.path) for described in step.args])
            finally:
                MODES.grad = before
        else:
            MODES.grad = event.grad
            restored = self._as_it_was(step)
            recording.again = event
            try:
                result = call_with(event.entry.function, event.entry.op, self._arguments(step))
            finally:
                MODES.grad, recording.again = before, None
                lent = [(at, tensor, tensor.array) for at, tensor, _ in restored]
                for _, tensor, array in restored:
                    tensor.array = array
            results = [result] if event.shape is None else list(result)
            self.saved_as_written(results, lent)
        for number, tensor in zip(step.results, results):
            self._take_over(number, tensor, recording, event.calls <= done and event.kind in ("op", "grad"))

    def take_gradients_over(self, step: Step, recording: Recording, done: int) -> None:
        """Gradients that leaves got from a pass that was run anew become those that the program has."""
        for place, number in [(place, number) for place, number, had in step.subject if not had]:
            leaf = self._outside_now(step.path, place)
            self._take_over(number, leaf._grad, recording, step.event is not None and step.event.calls <= done)
            leaf._grad = self.handed[number]

    def _take_over(self, number: int, tensor: Any, recording: Recording, computed: bool) -> None:
        """The recorded tensor that the user has becomes what its op has given now."""
        handed = self.handed[number]
        read = self.read_numbers.get(number)
        if read is None and computed and number in self.read_numbers:  # one that shares its memory was read
            read = self.own(number)
        if read is not None:
            if not may_share(read, tensor.array):
                _write(recording, tensor.array, read)
        elif (
            computed
            and number not in self.path.gone
            and (number in self.copies or self.path.lasts.get(number, self.done) >= self.done)
        ):
            _write(recording, tensor.array, self.where(number))  # type: ignore[attr-defined]
        array = self._lent_memory_of(number)
        if array is not None:  # NumPy sees what is written there from now on
            recording.refuse("NumPy has the memory of a recorded tensor")
        become(handed, tensor.array if array is None else array, tensor.node, tensor._requires_grad, tensor._meta)
        recording.replace(tensor, handed)

    def _lent_memory_of(self, number: int) -> ndarray | None:
        """The array of a recorded tensor where NumPy has its memory, or that of a tensor that shares it; else None."""
        if not self.lent:
            return None
        handed, kin = self.handed[number], self.path.kin.get(number)
        if type(handed) is not Handed and is_part_of_any(handed.array, self.lent):
            return handed.array
        if kin is None or kin[0] != "region" or kin[1] not in self.released:
            return None
        copied = self.released[kin[1]][1]
        if not is_part_of_any(copied, self.lent):
            return None
        return same_part(self.path.arrays[number], self.path.program.memory.buffers[kin[1]], copied)

    def _arguments(self, step: Step) -> list[Any]:
        event = step.event
        assert event is not None
        names = event.entry.op.parameter_names
        by_row = event.entry.op.row["by_row"]
        return [
            step.key if name == by_row else self._actual(described, step.path)
            for name, described in zip(names, step.args)
        ]

    def _actual(self, described: Any, path: Path) -> Any:
        kind, content = described
        if kind == "value":
            return self.handed[content]
        if kind == "outside":
            return self._outside_now(path, content)
        if kind == "list":
            return content[0]([self._actual(part, path) for part in content[1]])
        return content

    def _as_it_was(self, step: Step) -> list[tuple[int, Any, Any]]:
        """Tensors from outside that were written later than this step lend it what they held then.

        Gives (number of the first of these writes, tensor, array to put back).
        """
        lent: dict[int, tuple[int, Any, Any]] = {}
        for number, tensor, array in self.written:
            if step.number < number and id(tensor) not in lent:
                lent[id(tensor)] = number, tensor, tensor.array
                tensor.array = array
        return list(lent.values())

    def _outlive(self, tensor: Any) -> Tensor:
        """A recorded tensor whose step is over becomes a plain one."""
        if type(tensor) is Handed:
            self.read(tensor)
        elif type(tensor) is Read:
            become(tensor, tensor.array, freed(self.path, tensor.value), True, self.view_record(tensor.value.number))
        return tensor


def _write(recording: Recording, array: Any, values: Any) -> None:
    """What an op has given anew gets the numbers that the program has had so far: those behind are recorded on them."""
    if is_writeable(array):
        array[...] = values
        for call in reversed(recording.calls):
            if any([output is not None and identity(output) == identity(array) for output in call.outputs]):
                call.note_results()
                break
