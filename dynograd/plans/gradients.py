"""Gradients as values: `autograd.grad` within a step that is recorded.

Without `create_graph` it is one event, and its calls are rules and sums, as those of a backward pass. With `create_graph` the rules run through ops, which
are recorded as the program's own are: behind an event "differentiate", which a walk compares, and which says how many events it may then go over.
It may, since those follow from shapes alone: each rule is run again on arrays without values, and has to call the same ops.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from dynograd.arrays import Array
from dynograd.autograd.engine import observers
from dynograd.autograd.modes import MODES, recording
from dynograd.autograd.nodes import caller
from dynograd.interpreter import TENSORS, differentiation
from dynograd.interpreter.history import in_its_own_place
from dynograd.plans.calls import Call
from dynograd.plans.gpu.array_kinds import is_on_cpu
from dynograd.plans.graph_passes import GraphPass, RulesAsOps, asked_for, seeds_of
from dynograd.plans.memory import is_part_of_any
from dynograd.plans.passes import Event, Pass, has_hooks
from dynograd.plans.python_forms import CopyForm
from dynograd.plans.wrapped import Unwrapped, has_wrapped
from dynograd.tensor.tensor import Tensor

__all__ = ["RecordedGradients", "are_plain", "give_to", "leaf_of", "run_again"]


def leaf_of(tensor: Any) -> Tensor:
    """What an event "flag" makes of a tensor, apart from it."""
    result = Tensor.wrap(tensor.array)
    result._requires_grad = True
    if MODES.plan is not None:
        MODES.plan.note_flag(tensor, result)
    return result


def leaves_behind(outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The leaves that a backward pass comes to, in its order."""
    roots = [tensor if tensor.node is None else tensor.node for tensor in outputs if tensor._requires_grad]
    reached = dict.fromkeys(roots)
    waiting = list(reached)
    for node in waiting:  # grows while it is read
        new = [edge for edge in node.edges if edge is not None and edge not in reached]
        reached.update(dict.fromkeys(new))
        waiting += new
    return tuple([edge for edge in reached if not edge.seq])


def are_plain(leaves: tuple[Any, ...]) -> bool:
    """Whether no code of the program runs when they get a gradient, which can be added to one that they have."""
    return not any([has_hooks(leaf) or (leaf._grad is not None and leaf._grad.is_sparse) for leaf in leaves])


def give_to(leaves: tuple[Any, ...], gradients: list[Any], through_ops: bool) -> None:
    """Leaves get their gradients, which are tensors; one that is there and not differentiated is added to in place, as in a plain pass."""
    before = MODES.grad
    MODES.grad = recording() if through_ops else 0
    try:
        for leaf, gradient in zip(leaves, gradients):
            if gradient is None:
                continue
            if through_ops or leaf._grad is None or leaf._grad._requires_grad:
                leaf.accumulate_grad(gradient)
            elif leaf._requires_grad:
                leaf._grad.add_(gradient)
    finally:
        MODES.grad = before


def run_again(kind: str, arguments: list[Any]) -> list[Any]:
    """The results of an event "place" or "grad", as the program has it written."""
    if kind == "place":
        return [in_its_own_place(*arguments)]
    outputs, inputs, seeds, (keeps, _, who, _) = arguments
    results = differentiation.differentiated(who, outputs, list(inputs), seeds, keeps, False)
    return [result for result in results if result is not None]


class RecordedGradients(RulesAsOps):
    """The part of a recording that notes them."""

    calls: list[Call]
    constants: list[Any]
    events: list[Event]
    inside: int
    numbers: dict[int, int]
    outside: list[Any]
    places: dict[int, int]
    reason: str
    values: list[Any]
    without_values: bool

    def begin_gradients(self) -> None:
        self.begin_rules()
        self.asked: Pass | None = None  # the pass of `autograd.grad` that is to come, or runs
        self.begun: Any = (
            None  # the outputs of a backward pass that is to come, whether it keeps the graph, and its seeds, described
        )

    # --- the request ------------------------------------------------------------------------------------------------------------

    def gradients(self: Any, run: Any, outputs: Any, inputs: Any, seeds: Any, own: Any, flags: tuple) -> list[Any]:
        """`run(outputs, inputs, seeds, own)`: a tensor for each input, or None.

        Args:
            own: gives an array of its own for a gradient that is not differentiated.
            flags: whether the graph is kept, whether the gradients are differentiated, and who asks.
        """
        if self.inside or self.reason or self.differentiating:
            return run(outputs, inputs, seeds, own)
        wrapped = Unwrapped(outputs, inputs, seeds) if has_wrapped(outputs, inputs, seeds) else None
        groups = (outputs, inputs, seeds) if wrapped is None else wrapped.groups
        keeps, through_ops = flags[0], flags[1] or wrapped is not None
        tensors = [tensor for group in groups if group is not None for tensor in group if tensor is not None]
        if not all([type(tensor) in TENSORS for tensor in tensors]):
            self.refuse("gradients of what is no plain tensor")
        elif not all([is_on_cpu(tensor) for tensor in tensors]):
            self.refuse("gradients as values on a GPU")
        elif through_ops and not keeps:
            self.refuse("a backward pass that is differentiated, and lets its graph go")
        elif through_ops and seeds is None:
            if wrapped is not None:
                self.refuse("gradients of a batch, or of a moving tensor, that begin with ones of their own")
            else:
                seeds = seeds_of(outputs)
                groups = outputs, inputs, seeds
        if self.reason:
            return run(outputs, inputs, seeds, own)
        described = [self._described(group) for group in groups]
        kind = "differentiate" if through_ops else "grad"
        event = Event(kind, None, (*described, ("same", asked_for(flags, wrapped))), MODES.grad, caller(4))
        event.calls = len(self.calls)
        return (
            self._with_graph(event, run, outputs, inputs, seeds, wrapped)
            if through_ops
            else self._as_arrays(event, run, outputs, inputs, seeds, own)
        )

    def _as_arrays(self: Any, event: Event, run: Any, outputs: Any, inputs: Any, seeds: Any, own: Any) -> list[Any]:
        copies = []

        def noted(g: Any) -> Array:
            result = own(g)
            if result is not g:
                copies.append(Call("copy", "copy", None, (g,), (result,), (), CopyForm(g)))
                copies[-1].note_results()
            return result

        asked = self.asked = Pass(self)
        asked.begun = event.args
        try:
            results = run(outputs, inputs, seeds, noted)
        finally:
            self.asked = None
        if self.reason:
            return results
        for call in copies:
            self.note(call)
        event.results = [self._new_value(result) for result in results if result is not None]
        numbers = iter(event.results)
        event.subject = tuple([None if result is None else next(numbers) for result in results])
        asked.note_used()
        asked.note_end()
        self._over(event)
        return results

    def _with_graph(
        self: Any, event: Event, run: Any, outputs: Any, inputs: Any, seeds: Any, wrapped: Unwrapped | None
    ) -> list[Any]:
        self.events.append(event)
        start = len(self.events)
        self.differentiating = True
        try:
            results = run(outputs, inputs, seeds, None)
        finally:
            self.differentiating = False
        forms, plain = None, tuple(results)
        if wrapped is not None:
            try:
                forms, plain = wrapped.form_of(results, may_be_new=False)
            except LookupError:
                self.refuse("gradients that move along with what is not among the operands")
        if not all([result is None or id(result) in self.numbers for result in plain]):
            self.refuse("a gradient that nothing was computed for")
        elif any([result is not None and is_part_of_any(result.array, self.constants) for result in plain]):
            self.refuse("a gradient that is a part of what a rule has made of shapes alone")
        if not self.reason:
            numbers = [None if result is None else self.numbers[id(result)] for result in plain]
            event.subject = len(self.events) - start, tuple(numbers), forms
        return results

    def backward(self: Any, outputs: Any, seeds: Any, keeps: bool, through_ops: bool) -> bool:
        """A backward pass is to come, whose gradients go to leaves. Gives whether that is done."""
        if (
            self.inside
            or self.reason
            or self.differentiating
            or not all([type(tensor) in TENSORS for tensor in (*outputs, *(seeds or ()))])
        ):
            return False
        leaves = () if self.from_outside else leaves_behind(outputs)
        others = any(
            [id(leaf) in self.numbers or (leaf._grad is not None and leaf._grad._requires_grad) for leaf in leaves]
        )
        if not through_ops and not (others and are_plain(leaves)):
            self.begun = self._described(outputs), ("same", bool(keeps)), self._described(seeds)
            return False
        if not leaves:
            return False
        results = differentiation.differentiated("leaves", outputs, list(leaves), seeds, keeps, through_ops)
        give_to(leaves, results, through_ops)
        return True

    def note_again(self: Any, event: Event) -> None:
        """An event "differentiate" of a record that is run anew, op by op."""
        if not self.reason:
            again = copy.copy(event)
            again.calls = len(self.calls)
            self.events.append(again)

    # --- leaves -----------------------------------------------------------------------------------------------------------------

    def in_its_own_place(self: Any, tensor: Any, run: Callable[[Any], Tensor]) -> Tensor:
        """`run(tensor)`: the same value with a place of its own on the tape."""
        result = run(tensor)
        if self.inside or self.reason or self.without_values or type(tensor) not in TENSORS:
            return result
        if not is_on_cpu(tensor):
            self.refuse("a tensor on a GPU gets a place of its own")
            return result
        event = Event("place", None, (self._described(tensor),), MODES.grad, caller(2))
        event.results.append(self._new_value(result))
        self._over(event)
        return result

    def ask(self: Any, question: Callable[..., bool], *groups: tuple[Any, ...]) -> bool:
        """What is asked of the graph of gradients: `question(*groups)`."""
        answer = question(*groups)
        if self.on_gpu:
            self.refuse("gradients as values on a GPU")
        if not self.inside and not self.reason and not self.differentiating:
            event = Event("ask", None, tuple([self._described(group) for group in groups]), MODES.grad, caller(3))
            event.subject = answer
            self._over(event)
        return answer

    def before_flag(self: Any, tensor: Any) -> None:
        """`requires_grad` of a tensor is about to change."""
        number = self.numbers.get(id(tensor))
        if self.inside or self.reason or (number is None and self.toggles(tensor)):
            return
        if number is None and id(tensor) not in self.places:
            return
        if (
            number is None
            or not is_on_cpu(tensor)
            or tensor._requires_grad
            or type(tensor._meta) not in (tuple, type(None))
        ):
            self.refuse("requires_grad of a tensor changes within the step")
            return
        before = Tensor.wrap(tensor.array)
        before._meta = tensor._meta
        del self.numbers[id(tensor)]
        self.values[number], self.numbers[id(before)] = before, number
        self.note_flag(before, tensor)

    def note_flag(self: Any, before: Any, tensor: Any) -> None:
        """`tensor` is the leaf that `before` has become."""
        if not self.reason:
            event = Event("flag", None, (("value", self.numbers[id(before)]),), 0, caller(4))
            event.results.append(self._new_value(tensor))
            self._over(event)

    # --- what the engine tells --------------------------------------------------------------------------------------------------

    def notes_of_backward(self: Any, create_graph: bool, targets: Any) -> Pass | GraphPass | None:
        """What the engine tells of the pass that it begins; None if it need not."""
        if self.without_values:
            MODES.plan = self
            return None
        if self.inside or self.reason:
            return None
        if create_graph and self.differentiating:
            MODES.plan = self  # rules run through ops, which are recorded
            return GraphPass(self)
        if MODES.anomaly or observers:
            self.refuse("anomaly mode, or a profiler that looks on at backward")
            return None
        if create_graph or (targets is not None and self.asked is None and not self.from_outside):
            self.refuse("a backward pass that is differentiated, or gives gradients to some tensors only")
            return None
        return self.asked or Pass(self)
