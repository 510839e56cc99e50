"""`autograd.Function`s in a walk: their forward and backward run as the program's Python in each call, on the context of this call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from dynograd import arrays
from dynograd.autograd.engine import Task
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import FREED, Node, Partial
from dynograd.base import dtypes
from dynograd.interpreter import TENSORS, differentiation
from dynograd.plans.functions.recorded import call_of
from dynograd.plans.handed import Handed, stand_for
from dynograd.plans.python_forms import flat
from dynograd.tensor.custom_function import FunctionNode, describe_inputs, join, outputs_like
from dynograd.tensor.tensor import Tensor

__all__ = ["WalkedFunctions"]

_NONE: Counter[int] = Counter()
_SOMEWHERE = Node()  # where gradients of a context of a walk go to
_SOMEWHERE.edges, _SOMEWHERE.seq, _SOMEWHERE.hooks, _SOMEWHERE.attrs = (), 1, None, None


class WalkedFunctions:
    """The part of a walk that goes along them."""

    at: Any
    handed: list[Any]
    running: bool
    values: list[Any]

    def begin_functions(self) -> None:
        self.contexts: dict[int, FunctionNode] = {}  # of this call, by the number of the event "function"
        self.numbers_of_contexts: dict[int, int] = {}  # those numbers, by the id of the context
        self.in_backward = 0  # backwards of Functions that are running, within each other
        self.anew: Any = None  # the program up to where it left the record, where that was within a backward

    def saved_by(self, node: FunctionNode) -> tuple[Any, ...] | None:
        """The tensors that a context of this call has saved."""
        number = self.numbers_of_contexts.get(id(node))
        return None if number is None or self.contexts[number] is not node else tuple(node.to_save)

    def held_by_contexts(self) -> Counter[int]:
        """How often contexts of this call have tensors, by their ids."""
        if not self.contexts:
            return _NONE
        nodes = self.contexts.values()
        return Counter([id(tensor) for node in nodes for tensor in flat([*node.to_save, *vars(node).values()])])

    def join_function(self: Any, node: FunctionNode, args: Any, outputs: list[Any]) -> list[Any]:
        """Goes over a Function's call, if the record has it here. Gives its outputs."""
        call = call_of(node, args, outputs)
        tensors = tuple([argument for argument in args if isinstance(argument, Tensor)])
        joined = tuple([output for output, kind in zip(outputs, call[2]) if kind is not None])
        plain = all([isinstance(tensor, Handed) or type(tensor) in TENSORS for tensor in (*tensors, *joined)])
        for choice in self._choices_of("function", MODES.grad) if plain and not node.dirty else ():
            if choice.subject != call or not self._may_join(choice):
                continue
            if self._go_to_one(choice, (tensors, *joined)) and self.running:
                return self._joined(choice, node, args, outputs)
            if not self.running:
                break
        if self.running:
            self.leave(f"{node.op_name()}, a function with a backward of its own, where the record does not have it")
        return (
            join(node, args, outputs) if MODES.plan in (None, self) else MODES.plan.join_function(node, args, outputs)
        )

    def _may_join(self, choice: Any) -> bool:
        """Whether nobody has read what its forward gave, or has the tensors that are to be handed out."""
        before = [content for kind, (_, content) in zip(_kinds(choice), choice.args[1:]) if kind == "made"]
        return all([type(self.handed[number]) is Handed for number in (*before, *choice.results)])

    def _joined(self: Any, choice: Any, node: FunctionNode, args: Any, outputs: list[Any]) -> list[Any]:
        describe_inputs(node, args)
        node.outputs_like = outputs_like(outputs)
        node.edges = tuple([_SOMEWHERE if args[place].requires_grad else None for place in node.edge_positions])
        self.contexts[choice.number], self.numbers_of_contexts[id(node)] = node, choice.number
        for kind, (_, old), new in zip(_kinds(choice), choice.args[1:], choice.results):
            if kind == "made":  # the tensor that forward gave stands for the result from here on
                tensor, other = self.handed[old], self.handed[new]
                stand_for(tensor, self.values[new])
                stand_for(other, self.values[old])
                self.put_in_place(old, other)
                self.put_in_place(new, tensor)
        results = iter(choice.results)
        return [
            output if kind is None else self.handed[next(results)] for output, kind in zip(outputs, choice.subject[2])
        ]

    # --- backward ---------------------------------------------------------------------------------------------------------------

    def through_functions(self: Any, outputs: Any, seeds: Any, keeps: bool) -> bool | None:
        """A backward pass that goes through Functions. Gives whether it is done; None: the record has no such pass here."""
        for choice in self.first_enters(False):
            end = choice.path.steps[choice.subject[2][1]]
            new = self._matches(choice, (outputs, keeps, seeds))
            if new is None or not self._leaves_are_free(end):
                continue
            if choice is not self.at and not self._go_over(choice):
                continue
            self._go_to(choice, new)
            if not self.running:
                return False
            task = Task(frozenset(), False, {})
            self.run_backwards(choice, keeps, task)
            if self.running and self.backward_here(outputs, seeds, keeps) is None:
                self.leave("a backward pass that the record does not have here")
            if not self.running:
                differentiation.backward(outputs, seeds, keeps)
            while task.at_end:
                task.at_end.pop(0)()
            return True
        return None

    def through_functions_to(self: Any, choice: Any, args: tuple) -> list[Any] | None:
        """The same where the gradients are values; None: the walk has ended, and the pass is to run as it is written."""
        self.run_backwards(choice, args[3][0], Task(frozenset(), True, {}))
        for end in self._choices_of("grad", MODES.grad) if self.running else ():
            results = self.along(end, args)
            if results is not None or not self.running:
                return results
        if self.running:
            self.leave("gradients that the record does not have here")
        return None

    def first_enters(self: Any, gives: bool) -> Iterator[Any]:
        """The steps that the record has here with which a pass through Functions begins; `gives`: one of `autograd.grad`."""
        for choice in self._choices_of("enter", 0):
            if len(choice.args) == (4 if gives else 3):
                yield choice

    def run_backwards(self: Any, step: Any, keeps: bool, task: Task) -> None:
        """Runs the backwards of the Functions of a pass, from its first step on; afterwards the walk may have ended."""
        while step.event is not None and step.event.kind == "enter":
            number = step.subject[0]
            node, self.at = self.contexts[number], step.next
            result = self._run_backward(step, node, task)
            if not self.running:
                self.anew.known[number] = result
                return
            self._over(number, node, keeps)
            step = self.at

    def _run_backward(self: Any, step: Any, node: FunctionNode, task: Task) -> Any:
        """The gradients that a Function's backward gives; the error that it raises, if the walk has ended with it."""
        parts = Partial({place: self.handed[number] for place, number in zip(step.subject[1], step.results)})
        modes = MODES.grad, MODES.task, MODES.recorder
        MODES.grad, MODES.task, MODES.recorder = 0, task, None
        self.in_backward += 1
        outcome = _Outcome()
        try:
            with outcome:
                outcome.gradients = node._run(parts, False)
                if self.running:
                    self._exit(tuple(outcome.gradients))
            if outcome.error is not None and self.running:
                self.leave("an exception in the backward of an autograd.Function")
        finally:
            self.in_backward -= 1
            MODES.grad, MODES.task, MODES.recorder = modes
        return outcome.gradients if outcome.error is None else outcome.error

    def _exit(self: Any, gradients: tuple[Any, ...]) -> None:
        for choice in self._choices_of("exit", 0):
            if self._go_to_one(choice, (gradients,)) or not self.running:
                return
        self.leave("the gradients of an autograd.Function are others than those of the record")

    def _over(self, number: int, node: FunctionNode, keeps: bool) -> None:
        """Drops what a context has kept, as the graph does when a pass has gone through it."""
        if not keeps and node.to_save:
            self.contexts[number] = used_up(node)
            node.to_save, node.attrs = (), FREED


class _Outcome:
    """What a backward gives, or the error that it raises: the pass raises it anew where it is run as it is written."""

    gradients: Any = None
    error: Exception | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.error = error if isinstance(error, Exception) else None
        return self.error is not None


def _kinds(choice: Any) -> list[str]:
    """Where the outputs with a history come from."""
    return [kind for kind in choice.subject[2] if kind is not None]


def used_up(node: FunctionNode) -> FunctionNode:
    """Stands in the graph for a context whose backward has run: a second time it is an error."""
    other = FunctionNode()
    other.function, other.hooks, other.attrs, other.seq, other.edges = node.function, None, None, 0, node.edges
    other.kept, other.dirty, other.non_differentiable = (), set(), set()
    other.to_save = (Tensor.wrap(arrays.full((), 0, dtypes.float32)),)
    other.needs_input_grad, other.input_count, other.materialize = node.needs_input_grad, node.input_count, True
    other.outputs_like, other.edge_positions, other.inputs_like = [], [], node.inputs_like
    return other
