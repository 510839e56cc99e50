"""Tensors that a creation function has made in a compiled step, and that get a history by what is written into them.

`out = zeros(...); out[:, i] = f(x)`: before the first such write `out` stands for a copy of itself, which is a value of the record. So the writes
are those into what the step has made (`versions`). Nobody can tell, since nobody else has its memory.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays import ndarray
from dynograd.autograd.modes import MODES
from dynograd.autograd.writes import count_on, version
from dynograd.interpreter import TENSORS
from dynograd.ops.layout.conversions import copied
from dynograd.plans.handed import Handed, stand_for
from dynograd.plans.memory import is_alone
from dynograd.plans.python_forms import flat
from dynograd.tensor.tensor import Tensor

__all__ = ["RecordedCreations", "WalkedCreations", "as_created"]


def _gets_history(target: Any, operands: Any, noted: Any = ()) -> bool:
    """Whether a write makes a plain tensor, whose memory nobody else has, one with a history.

    Args:
        noted: pairs whose second is an array, which the caller has.
    """
    if not MODES.grad or type(target) not in TENSORS or target._requires_grad or target._meta is not None:
        return False
    if target._grad is not None or not any(
        [isinstance(value, Tensor) and value._requires_grad for value in flat(operands)]
    ):
        return False
    array = target.array
    return type(array) is ndarray and is_alone(array, sum([other is array for _, other in noted]))


def as_created(target: Any) -> Tensor:
    """Another tensor of the same memory, for the record."""
    return Tensor.wrap(target.array)


class RecordedCreations:
    """The part of a recording that takes them in."""

    arguments: dict[int, str]
    inside: int
    known: dict[int, Any]
    numbers: dict[int, int]
    on_gpu: bool
    places: dict[int, int]
    reason: str
    renewed: list[Any]
    replace: Any
    writes: list[tuple[int, Any]]
    writes_outside: list[tuple[int, Any]]

    def take_in(self, target: Any, operands: Any) -> None:
        """`target` is about to be written: if it gets a history so, and the step has created it, it is a value of the record from now on."""
        if self.inside or self.reason or self.on_gpu:
            return
        if id(target) in self.numbers or id(target) in self.places or id(target) in self.arguments:
            return
        known = self.known.get(id(target))
        if (known is None or known() is not target) and _gets_history(
            target, operands, (*self.writes, *self.writes_outside)
        ):
            self.stand_in(target, copied(as_created(target)))

    def stand_in(self, target: Any, copy: Tensor) -> None:
        """`target` stands for its copy, which the last op has made."""
        count_on(copy.array, version(target.array))
        target.array = copy.array
        if not self.reason:
            self.replace(copy, target)
            self.renewed.append(target.array)


class WalkedCreations:
    """The part of a walk that follows them."""

    at: Any
    bound: dict[int, Any]
    end_for: Any
    path: Any
    put_in_place: Any
    running: bool
    values: list[Any]
    written: list[tuple[int, Any, Any]]

    def take_in(self: Any, target: Any, operands: Any) -> None:
        """`target` is about to be written: where the record has it created here, it is the recorded tensor from now on."""
        if not self.running or not _gets_history(target, operands):
            return
        known = [*self.bound.values(), *[outside.tensor for outside in self.path.staying]]
        if any([tensor is target for tensor in known]):
            return
        self.written = [row for row in self.written if row[1] is not target]  # no step has read it before
        if not self._copies_here():
            self.leave("a tensor that the step has created gets a history where the record has none")
            MODES.plan.take_in(target, operands)
            return
        count = version(target.array)
        copy = copied(as_created(target))
        if type(copy) is Handed and copy.value.version != count:
            self.end_for("a tensor that was written another number of times before it gets a history")
        if type(copy) is Handed:
            stand_for(target, copy.value)
            self.put_in_place(copy.value.number, target)
        else:
            MODES.plan.stand_in(target, copy)

    def _copies_here(self) -> bool:
        """Whether the record has a copy of what is another tensor in each step here."""
        return any(
            [
                step.of is not None
                and step.of.op is copied.op
                and step.args[0][0] == "outside"
                and step.path.outside[step.args[0][1]].fresh
                for step in (self.at, *self.at.others)
            ]
        )
