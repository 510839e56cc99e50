"""Contexts of `autograd.Function`s in what a compiled function gave, whose program differentiates it itself: they outlive the walk."""

from __future__ import annotations

import copy
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.plans.handed import Handed
from dynograd.tensor.custom_function import FunctionNode, join
from dynograd.tensor.tensor import Tensor

__all__ = ["Contexts", "has_contexts"]


class Contexts:
    """Those of some steps of a walk, and the values among their operands that only backward passes have made.

    Args:
        walk: at the place where tensors are given.
        steps: those that compute these and have some (`has_contexts`).
    """

    def __init__(self, walk: Any = None, steps: Any = ()) -> None:
        self.values: dict[int, Tensor] = {}
        self.nodes: dict[
            int, tuple[FunctionNode, tuple[Any, ...]]
        ] = {}  # with the numbers of what is saved, by that of the step
        for step in steps:
            if step.event.kind == "function":
                node = walk.contexts[step.number]
                numbers = [tensor.value.number if isinstance(tensor, Handed) else None for tensor in node.to_save]
                own = copy.copy(node)  # without what it has saved of the step: the graph would hold itself
                own.to_save = tuple(
                    [tensor if number is None else None for tensor, number in zip(node.to_save, numbers)]
                )
                self.nodes[step.number] = own, tuple(numbers)
            for number in values_in(step.args):
                if _is_of_backward(walk, number):
                    self.values[number] = Tensor.wrap(walk.own(number))

    def saved(self, step: Any) -> list[Any]:
        """The arrays that a Function's context has saved."""
        return [tensor.array for tensor in self.nodes[step.number][0].to_save if type(tensor) is Tensor]

    def joined(self, step: Any, arguments: list[Any], tensors: dict[int, Any]) -> list[Any]:
        """The results of a Function's call, with their history, when its forward has been run anew.

        Args:
            arguments: the tensors among its arguments, then what forward has given, of what has a history.
            tensors: results of the steps before, by number.
        """
        _, needs, kinds = step.event.subject
        context, numbers = self.nodes[step.number]
        node = copy.copy(context)
        args: list[Any] = [None] * len(needs)
        operands, *before = arguments
        for place, tensor in zip(context.inputs_like, operands):
            args[place] = tensor
        outputs = [None if kind is None else before.pop(0) for kind in kinds]
        for number, output in zip(step.results, [output for output in outputs if output is not None]):
            tensors[number] = output
        node.to_save = tuple(
            [saved if number is None else tensors[number] for saved, number in zip(context.to_save, numbers)]
        )
        plan = MODES.plan
        attached = join(node, args, outputs) if plan is None else plan.join_function(node, args, outputs)
        node.outputs_like = context.outputs_like
        return [output for output, kind in zip(attached, kinds) if kind is not None]


def has_contexts(walk: Any, step: Any) -> bool:
    """Whether a step calls a Function, or takes what only a backward pass has made."""
    return step.event.kind == "function" or any([_is_of_backward(walk, number) for number in values_in(step.args)])


def _is_of_backward(walk: Any, number: int) -> bool:
    return walk.makers[number][0].event.kind in ("enter", "backward")


def values_in(args: Any) -> list[int]:
    """The numbers of values among described operands."""
    numbers: list[int] = []
    for kind, content in args:
        if kind == "value":
            numbers.append(content)
        elif kind == "list":
            numbers += values_in(content[1])
    return numbers
