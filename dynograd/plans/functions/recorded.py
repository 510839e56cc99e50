"""`autograd.Function`s in a step that is recorded: their forward and backward are Python of the program, whose ops are recorded as all others.

An event "function" says which values became outputs with a history. A backward pass that goes through such a node has an event "enter", whose
results are the gradients that come to it, the events of what its backward does, and an event "exit", which says what that gave. The first "enter" of a
pass stands for the request, too; the event "backward" stands behind the last "exit".
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import Partial, caller
from dynograd.interpreter import TENSORS
from dynograd.plans.calls import Call
from dynograd.plans.gpu.array_kinds import PLAIN, is_on_cpu
from dynograd.plans.memory import is_part_of_any
from dynograd.plans.passes import Event, hooked, unrecorded
from dynograd.plans.python_forms import CopyForm, flat
from dynograd.tensor.custom_function import FunctionNode, join, takes_part
from dynograd.tensor.tensor import Tensor

__all__ = ["RecordedFunctions", "call_of"]


def call_of(node: FunctionNode, args: Any, outputs: list[Any]) -> tuple[Any, ...]:
    """What has to be alike of two calls: (Function, which arguments want a gradient, which outputs have a history).

    Of an output that is "made" if an op gave it, "input" if it is an argument, None if it has no history.
    """
    inputs = [id(argument) for argument in args if isinstance(argument, Tensor)]
    kinds = [
        None if not takes_part(node, output) else "input" if id(output) in inputs else "made" for output in outputs
    ]
    return node.function, node.needs_input_grad, tuple(kinds)


class RecordedFunctions:
    """The part of a recording that notes them."""

    asked: Any
    events: list[Event]
    inside: int
    reason: str
    values: list[Any]
    numbers: dict[int, int]
    nodes: list[Any]
    outside: list[Any]

    def begin_functions(self) -> None:
        self.functions: dict[
            int, tuple[int, tuple[Any, ...]]
        ] = {}  # (event, tensors that are saved), by the id of the node
        self.contexts: list[FunctionNode] = []  # those nodes
        self.in_backward = 0  # backwards of Functions that are running, within each other

    def saved_by(self, node: FunctionNode) -> tuple[Any, ...] | None:
        """The tensors that a context has saved, as the record knows them."""
        return self.functions[id(node)][1] if id(node) in self.functions and not self.reason else None

    def held_by_contexts(self) -> Counter[int]:
        """How often tensors are attributes of contexts, which die with the graph, by the tensors' ids."""
        return Counter([id(value) for node in self.contexts for value in flat(list(vars(node).values()))])

    def join_function(self: Any, node: FunctionNode, args: Any, outputs: list[Any]) -> list[Any]:
        """Makes a Function's call a part of the graph, and notes it. Gives the outputs."""
        if self.inside or self.reason or self.differentiating or self.without_values:
            return join(node, args, outputs)
        call = call_of(node, args, outputs)
        why = self._why_no_function(node, args, outputs, call[2])
        if why:
            self.refuse(f"{unrecorded(node)}, {why}")
            return join(node, args, outputs)
        operands = self._described(tuple([argument for argument in args if isinstance(argument, Tensor)]))
        joined = [output for output, kind in zip(outputs, call[2]) if kind is not None]
        event = Event(
            "function", None, (operands, *[self._described(output) for output in joined]), MODES.grad, caller(2)
        )
        event.subject = call
        saved = tuple(node.to_save)
        attached = join(node, args, outputs)
        if self.reason:
            return attached
        for output, kind in zip(attached, call[2]):
            if kind == "made":  # the same tensor stands for another value from here on
                number = self.numbers.pop(id(output))
                other = Tensor.wrap(output.array)
                other._meta = output._meta
                self.values[number], self.numbers[id(other)] = other, number
            if kind is not None:
                event.results.append(self._new_value(output))
        self.functions[id(node)] = len(self.events), saved
        self.contexts.append(node)
        self.nodes.append(node)
        self.note_saves(node, [tensor.array for tensor in saved if isinstance(tensor, Tensor)])
        self._over(event)
        return attached

    def _why_no_function(self, node: FunctionNode, args: Any, outputs: list[Any], kinds: tuple) -> str:
        tensors = [value for value in (*args, *outputs) if isinstance(value, Tensor)]
        if MODES.grad > 1 or node.dirty:
            return "whose inputs are written in place" if node.dirty else "under anomaly mode or hooks of saved tensors"
        if not all([type(tensor) in TENSORS and is_on_cpu(tensor) for tensor in tensors]):
            return "of what are no plain tensors of the CPU"
        results = [output for output, kind in zip(outputs, kinds) if kind == "made"]
        if len({id(output) for output in results}) < len(results):
            return "which gives a tensor twice"
        for output in results:
            if id(output) not in self.numbers:
                return "which gives a tensor that no recorded op has made"
            if output._requires_grad or type(output._meta) not in (tuple, type(None)):
                return "which gives a tensor with a history or hooks"
        return ""

    def backward_of(self: Any, running: Any, node: FunctionNode, g: Partial) -> tuple[Any, ...]:
        """Gradients of a Function's inputs, in the pass that is `running`."""
        number, _ = self.functions[id(node)]
        why = _why_no_backward(running, node, g, number)
        if why:
            self.refuse(why)
            return tuple(node.apply(g))
        is_first = running.first_enter is None
        event = Event("enter", None, running.begun if is_first else (), 0, caller(2))
        tensors = {place: Tensor.wrap(_computed(self, part)) for place, part in g.parts.items()}
        event.results = [self._new_value(tensor) for tensor in tensors.values()]
        event.subject = number, tuple(tensors), None
        if is_first:
            running.first_enter = event
        self._over(event)
        running.nodes.append(node)
        MODES.plan, asked, self.asked = self, self.asked, None
        self.in_backward += 1
        try:
            gradients = node._run(Partial(dict(tensors)), False)
        finally:
            MODES.plan, self.asked = None, asked
            self.in_backward -= 1
        if not self.reason and any([gradient is not None and gradient.is_sparse for gradient in gradients]):
            self.refuse(f"the gradient of {node.op_name()} is sparse")
        if not self.reason:
            event = Event("exit", None, (self._described(tuple(gradients)),), 0, caller(2))
            event.subject = number
            self._over(event)
        return tuple(
            [None if gradient is None else gradient if gradient.is_sparse else gradient.array for gradient in gradients]
        )


def _why_no_backward(running: Any, node: FunctionNode, g: Partial, number: int) -> str:
    recording = running.recording
    if node.hooks is not None:
        return hooked(node)
    if running.begun is None:
        return f"{unrecorded(node)}, in a pass that the step has not begun: compile the step, with its backward pass"
    for part in g.parts.values():
        if type(part) is not ndarray:
            return f"the gradient that comes to {node.op_name()} is a {type(part).__name__}"
    for event in recording.events[number:]:
        if event.kind in ("step", "store") or (event.kind == "backward" and not _only_sets(event.subject)):
            return f"{unrecorded(node)}, which runs behind the step of an optimizer, or where gradients were added up"
    return ""


def _only_sets(leaves: Any) -> bool:
    """Whether a pass gives gradients to leaves without hooks that have none."""
    return not any([had for _, _, had in leaves])


def _computed(recording: Any, part: Any) -> ndarray:
    """A gradient as an array that a call of the program gives: what a pass begins with is copied."""
    for call in reversed(recording.calls):
        outputs = [array for array in call.outputs if type(array) in PLAIN and not is_part_of_any(array, call.inputs)]
        if is_part_of_any(part, outputs):
            return part
    source = part[tuple([slice(0, 1) if stride == 0 else slice(None) for stride in part.strides])]
    copied = source.copy(order="K")
    recording.note(Call("copy", "copy", None, (source,), (copied,), (), CopyForm(source)))
    return copied if source.shape == part.shape else numpy.broadcast_to(copied, part.shape)
