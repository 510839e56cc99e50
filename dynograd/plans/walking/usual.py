"""The usual cases of a walk in a few comparisons: one operand that is another tensor in each step, and the backward pass of a loss."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import ndarray
from dynograd.interpreter import TENSORS
from dynograd.plans.memory import is_alone
from dynograd.tensor.tensor import Tensor

__all__ = ["UsualCases", "loss_of"]


def loss_of(args: tuple[Any, ...]) -> tuple[int, bool] | None:
    """Of the described arguments of a backward pass: the number of the one value that it begins at, and whether the graph is kept; None: they are others."""
    (kind, (_, tensors)), (_, keeps), (begun, seeds) = args
    if kind != "list" or len(tensors) != 1 or tensors[0][0] != "value" or begun != "same" or seeds is not None:
        return None
    return tensors[0][1], keeps


class UsualCases:
    """The part of a walk that goes over them. False: nothing is done, and the long way has to be gone."""

    _may_be_written_unseen: Any
    assigned: set[int]
    at: Any
    bound: dict[int, Any]
    copied_alike: Any
    handed: list[Any]
    owner: Any
    pointed: list[tuple[Any, Any]]
    read_numbers: dict[int, Any]
    running: bool
    shared: Any
    stale: set[int]

    def takes(self, step: Any, args: tuple) -> bool:
        """The one operand that is another tensor in each step comes, where the record has it and all other operands."""
        place, number = step.fresh
        value, path = args[place], step.path
        if number in path.overlaps:
            return False
        if type(value) is float and path.outside[number].is_number:
            value = self.owner.changing.numbers.tensor(value, path.outside[number].array.dtype)
        if type(value) is ndarray and path.outside[number].is_array:
            value = Tensor.wrap(value)
        if type(value) not in TENSORS or value._meta is not None or value._requires_grad or value.node is not None:
            return False
        if number in self.bound:
            if self.bound[number] is not value or number in self.stale or self._may_be_written_unseen(value):
                return False
            self.at = step.next
            return True
        array, program = value.array, path.program
        if self.shared.path is not path or type(array) is not ndarray or program.on_gpu:
            return False
        pointer = program.pointers.get(number)
        if pointer is not None and not path.open and is_alone(array):
            if not pointer.point(array):
                return False
            self.pointed.append((pointer, array))
        elif not self.copied_alike(id(array), id(program.outside[number])):
            return False
        self.bound[number] = value
        self.at = step.next
        return True

    def compares_and_takes(self, step: Any, args: tuple) -> bool:
        """The same of an op whose code has not compared the other operands."""
        if self.read_numbers:
            return False
        number, handed, outside = step.fresh[1], self.handed, step.path.outside
        for (kind, content), other in zip(step.args, args):
            if kind == "value":
                if other is not handed[content]:
                    return False
            elif kind == "same":
                if other is not content:
                    return False
            elif content != number and other is not outside[content].tensor:
                return False
        return self.takes(step, args)

    def goes_back(self, tensor: Any, keeps: bool) -> bool:
        """The record has the backward pass of this tensor alone here, and its leaves have no gradients: now they have."""
        step = self.at
        if not self.running or step.loss is None:
            return False
        number, kept = step.loss
        handed = self.handed
        if kept is not keeps or handed[number] is not tensor or self.read_numbers or not step.watch.holds():
            return False
        for leaf, gradient in step.leaves:
            leaf._grad = handed[gradient]
        self.assigned.update(step.results)
        self.at = step.next
        return True
