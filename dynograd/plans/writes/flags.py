"""`requires_grad` of parameters that changes within a step: networks that train each other take turns at being held fixed.

The change is an event "toggle" of the record, behind which ops, and nodes, are those of the new flag. So a walk compares it, and looks at the flags of such
tensors only where the step begins.
"""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller
from dynograd.interpreter import TENSORS
from dynograd.plans.gpu.array_kinds import is_on_cpu
from dynograd.plans.passes import Event

__all__ = ["FlagsAgain", "RecordedFlags", "WalkedFlags", "toggled_by"]

_REASON = "requires_grad of a tensor changes within the step"


def toggled_by(events: list[Event]) -> set[int]:
    """The numbers of tensors from outside whose flag changes."""
    return {event.args[0][1] for event in events if event.kind == "toggle"}


class FlagsAgain:
    """Inside, steps of a path are run anew: flags of tensors from outside are as they were then."""

    def __init__(self, path: Any) -> None:
        changes = [step for step in path.steps if step.event is not None and step.event.kind == "toggle"]
        self.changes = [(step.number, path.outside[step.args[0][1]].tensor, step.subject) for step in changes]

    def __enter__(self) -> FlagsAgain:
        self.before = [(tensor, tensor._requires_grad) for _, tensor, _ in self.changes]
        for _, tensor, flag in reversed(self.changes):
            tensor._requires_grad = not flag
        return self

    def until(self, number: int) -> None:
        """The step with this number is run, if it is no change itself."""
        while self.changes and self.changes[0][0] <= number:
            _, tensor, flag = self.changes.pop(0)
            if isinstance(MODES.plan, RecordedFlags):
                MODES.plan.toggles(tensor)
            tensor._requires_grad = flag

    def __exit__(self, *_: object) -> None:
        for tensor, flag in self.before:
            tensor._requires_grad = flag


class RecordedFlags:
    """The part of a recording that notes changes."""

    known: dict[int, Any]
    outside: list[Any]
    places: dict[int, int]

    def toggles(self: Any, tensor: Any) -> bool:
        """Notes that the flag of a tensor from outside that stays is about to change; False: it is none."""
        place = self.places.get(id(tensor))
        if not self.known:  # the first call, of which no record is made
            return True
        if place is None:
            known = self.known.get(id(tensor))
            if known is None or known() is not tensor or id(tensor) in self.arguments:
                return False
        if type(tensor) not in TENSORS or tensor.node is not None or tensor._meta is not None or not is_on_cpu(tensor):
            return False
        place = self._place_of(tensor)
        if self.outside[place].fresh or self.reason:
            return False
        event = Event("toggle", None, (("outside", place),), 0, caller(4))
        event.subject = not tensor._requires_grad
        self._over(event)
        return True


class WalkedFlags:
    """The part of a walk that follows them."""

    at: Any
    bound: dict[int, Any]
    handed: list[Any]
    path: Any
    read_numbers: dict[int, Any]

    def before_flag(self: Any, tensor: Any) -> None:
        """`requires_grad` of a tensor is about to change."""
        for choice in (self.at, *self.at.others):
            event = choice.event
            if event is None or event.kind != "toggle" or event.subject is tensor._requires_grad:
                continue
            if choice.path.outside[choice.args[0][1]].tensor is not tensor:
                continue
            if choice is not self.at and not self._go_over(choice):
                continue
            self.at = choice.next
            return
        met = [outside.tensor for outside in self.path.staying]
        met += [*self.bound.values(), *[self.handed[number] for number in self.read_numbers]]
        if any([other is tensor for other in met]):
            self.leave(_REASON)
            if MODES.plan is not None:
                MODES.plan.before_flag(tensor)

    def flags_back(self: Any, steps: list[Any]) -> None:
        """Flags are as they were when the step began."""
        for step in reversed(steps):
            if step.event.kind == "toggle":
                step.path.outside[step.args[0][1]].tensor._requires_grad = not step.subject

    def toggle_again(self: Any, step: Any, recording: Any) -> None:
        """A change of a step that is run anew."""
        tensor = step.path.outside[step.args[0][1]].tensor
        if not recording.reason and not recording.toggles(tensor):
            recording.refuse(_REASON)
        tensor._requires_grad = step.subject
