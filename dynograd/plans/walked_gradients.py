"""Gradients as values in a walk, and the tensors that become, or stand for, leaves of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.plans.gradients import are_plain, give_to
from dynograd.plans.graph_passes import asked_for, seeds_of
from dynograd.plans.handed import Handed, stand_for
from dynograd.plans.wrapped import Unwrapped, has_wrapped
from dynograd.tensor.tensor import Tensor

__all__ = ["WalkedGradients"]


class WalkedGradients:
    """The part of a walk that gives them."""

    at: Any
    handed: list[Any]
    running: bool
    values: list[Any]
    clipped: list[Any]
    with_gradient: list[int]  # leaves that the step has made and that got a gradient

    def _choices_of(self, kind: str, grad: int) -> Iterator[Any]:
        """The steps that the record has here of a kind."""
        for choice in (self.at, *self.at.others):
            if choice.event is not None and choice.event.kind == kind and choice.grad == grad:
                yield choice

    def _go_to_one(self: Any, choice: Any, args: tuple) -> bool:
        """Goes over the step, if these are its operands; afterwards the walk may have ended."""
        new = self._matches(choice, args)
        if new is None or (choice is not self.at and not self._go_over(choice)):
            return False
        self._go_to(choice, new)
        return True

    def gradients(self: Any, run: Any, outputs: Any, inputs: Any, seeds: Any, own: Any, flags: tuple) -> list[Any]:
        """What `autograd.grad` gives: a tensor for each input, or None."""
        wrapped = Unwrapped(outputs, inputs, seeds) if has_wrapped(outputs, inputs, seeds) else None
        groups: Any = (outputs, inputs, seeds) if wrapped is None else wrapped.groups
        through_ops = flags[1] or wrapped is not None
        begun_with = seeds_of(outputs) if through_ops and seeds is None else groups[2]
        for choice in self._requests(through_ops):
            results = self.along(choice, (*groups[:2], begun_with, asked_for(flags, wrapped)), wrapped)
            if results is not None:
                return results
            if not self.running:
                break
        if self.running and any([isinstance(tensor, Handed) for group in groups for tensor in group or ()]):
            self.leave("gradients that the record does not have here")
        return (
            MODES.plan.gradients(run, outputs, inputs, seeds, own, flags)
            if MODES.plan not in (None, self)
            else run(outputs, inputs, seeds, own)
        )

    def along(self: Any, choice: Any, args: tuple, wrapped: Unwrapped | None = None) -> list[Any] | None:
        """The gradients that a step of the record gives, if these are its operands; afterwards the walk may have ended."""
        if not self._go_to_one(choice, args) or not self.running:
            return None
        if choice.event.kind == "enter":
            return self.through_functions_to(choice, args)
        last, numbers, keyed, forms = choice.subject
        for step, source in keyed:
            step.key = source.key
        self.at = last.next
        plain = [None if number is None else self.handed[number] for number in numbers]
        return plain if wrapped is None else wrapped.wrapped(forms, iter(plain))

    def _requests(self: Any, through_ops: bool) -> Iterator[Any]:
        """The steps that the record has here with which gradients as values begin."""
        if not through_ops:
            yield from self.first_enters(True)
        yield from self._choices_of("differentiate" if through_ops else "grad", MODES.grad)

    def to_leaves(self: Any, outputs: Any, seeds: Any, keeps: bool, through_ops: bool) -> bool:
        """A backward pass that the record has as gradients of all leaves, which get these. Gives whether it is one."""
        for choice in self._requests(through_ops):
            begun_with = seeds_of(outputs) if through_ops and seeds is None else seeds
            flags = asked_for((keeps, through_ops, "leaves"), None)
            if choice.args[3][1][2] != "leaves":
                continue
            leaves = self._actual(choice.args[1], choice.path)
            if not through_ops and not are_plain(leaves):
                continue
            results = self.along(choice, (outputs, leaves, begun_with, flags))
            if results is not None:
                self.with_gradient += [leaf.value.number for leaf in leaves if isinstance(leaf, Handed)]
                give_to(leaves, results, through_ops)
                return True
            if not self.running:
                break
        return False

    def gradients_to_write(self: Any, parameters: list[Any]) -> list[Any] | None:
        """The plan's own arrays of the gradients of these, which are clipped; None where that is done as it is written."""
        path = self.path
        if not self.running or path.program.on_gpu:
            return None
        numbers = self._values_of([p._grad for p in parameters if p._grad is not None])
        if not numbers or not path.writeable.issuperset(numbers):
            return None
        self.catch_up()
        if not self.running or any([type(self.handed[number]) is not Handed for number in numbers]):
            return None
        return [path.arrays[number] for number in numbers]

    def _values_of(self: Any, gradients: list[Any]) -> tuple[int, ...] | None:
        """The numbers of gradients that this step has given to leaves; None where there are others."""
        known = {id(self.handed[number]): number for _, number, _ in self.path.gradients if number in self.assigned}
        numbers = tuple([known.get(id(gradient), -1) for gradient in gradients])
        return None if -1 in numbers or len(set(numbers)) < len(numbers) else numbers

    def note_written(self: Any, arrays: list[Any]) -> None:
        """`gradients_to_write` gave some of these, which are written now."""
        own = {id(self.path.arrays[number]): number for _, number, _ in self.path.gradients}
        self.count_writes([own[id(array)] for array in arrays if id(array) in own])

    def count_writes(self, numbers: Iterable[int]) -> None:
        """Gradients with these numbers were written in the plan's memory."""
        for number in numbers:
            value = self.values[number]
            value.version += 1
            self.clipped.append(value)

    def forget_writes_into_gradients(self) -> None:
        for value in self.clipped:
            value.version -= 1
        self.clipped = []

    def run_hooks(self: Any, leaf: Any, number: int, step: int) -> bool:
        """A leaf with hooks gets its gradient: code of the program, which sees values and may write. False: all is run anew already."""
        if self.running:
            self.catch_up()
            if not self.running:
                return False
            self.boundary, self.holds = step, False
            self.stale.update(self.bound)
        plan, grad = MODES.plan, MODES.grad
        MODES.plan, MODES.grad = None, 0
        try:
            leaf.accumulate_grad(self.path.arrays[number].copy(order="K"))
        finally:
            MODES.grad = grad
            if self.running or plan is not self:
                MODES.plan = plan
        return True

    def in_its_own_place(self: Any, tensor: Any, run: Any) -> Tensor:
        """`run(tensor)`: the same value with a place of its own on the tape."""
        for choice in self._choices_of("place", MODES.grad):
            if self._go_to_one(choice, (tensor,)) and self.running:
                return choice.result
        if self.running and (isinstance(tensor, Handed) or tensor.requires_grad):
            self.leave("a tensor gets a place of its own where the record does not have that")
        return run(tensor) if MODES.plan in (None, self) else MODES.plan.in_its_own_place(tensor, run)

    def ask(self: Any, question: Any, *groups: tuple[Any, ...]) -> bool:
        """What is asked of the graph of gradients: `question(*groups)`."""
        for choice in self._choices_of("ask", MODES.grad):
            if self._go_to_one(choice, groups) and self.running:
                return choice.event.subject
        if self.running:
            self.leave("the graph of gradients was asked for")
        return question(*groups) if MODES.plan in (None, self) else MODES.plan.ask(question, *groups)

    def flag(self: Any, tensor: Any, requires_grad: bool) -> None:
        """`requires_grad` of a recorded tensor is set: it stands for a leaf from now on."""
        value = tensor.value
        if bool(requires_grad) is value.grad and (not value.grad or value.is_leaf):
            return
        if self.running and requires_grad:
            for choice in self._choices_of("flag", 0):
                (_, old), new = choice.args[0], choice.results[0]
                if tensor is not self.handed[old] or type(tensor) is not Handed or type(self.handed[new]) is not Handed:
                    continue
                if choice is not self.at and not self._go_over(choice):
                    continue
                other = self.handed[new]
                stand_for(tensor, self.values[new])
                stand_for(other, self.values[old])
                self.put_in_place(old, other)
                self.put_in_place(new, tensor)
                self.at = choice.next
                return
        self.leave("requires_grad of a tensor is set where the record does not have that", tensor)
        tensor.requires_grad = requires_grad
