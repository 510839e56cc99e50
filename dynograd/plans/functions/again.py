"""A walk that ends: the steps so far are run anew, as they are written, and backwards of Functions that have run are not run a second time.

What they did is among the steps. So a pass goes through the engine, and where it comes to such a Function, its steps are run anew in place of its
backward. A pass in the midst of which the walk ends is run up to there, for the values that the program has, and from the beginning when the backward in
question is over: then the gradients of those that have run are known.
"""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.interpreter import differentiation
from dynograd.plans.gradients import leaves_behind, run_again
from dynograd.plans.handed import become, turn_into
from dynograd.tensor.custom_function import FunctionNode, join
from dynograd.tensor.tensor import Tensor

__all__ = ["StepsAnew"]


class _UpToHere(BaseException):
    """A pass has come to where the walk ended."""


class _RunsAnew(FunctionNode):
    """The context of a Function whose backward has run in the walk."""

    __slots__ = ()

    def _run(self, g: Any, recording: bool) -> list[Any]:
        return self.anew.gradients_of(self, g, recording)


class StepsAnew:
    """Those of one call.

    Args:
        walk: that ends.
        steps: what is run anew.
        recording: of this call, as it is written.
        done: so many calls were computed.
    """

    def __init__(self, walk: Any, steps: list[Any], recording: Any, done: int) -> None:
        self.walk, self.steps, self.recording, self.done = walk, steps, recording, done
        self.at = 0
        self.is_over = self.is_partial = False
        self.nodes: dict[
            int, FunctionNode
        ] = {}  # of the graph as it is run anew, by the number of the event "function"
        self.known: dict[int, Any] = {}  # what backwards gave, or their errors, by the same

    def run(self) -> None:
        """Runs all steps."""
        while self.at < len(self.steps):
            self._run_next()
        self.is_over = True
        if not self.is_partial:
            for node in self.nodes.values():
                _let_go(node)

    def _run_next(self) -> None:
        walk, step = self.walk, self.steps[self.at]
        walk.pass_writes_before(step.number)
        if walk.waiting:
            walk.make_checks_before(step.number)
        if step.event.kind == "enter":
            self._run_pass(step)
            return
        self.at += 1
        if step.event.kind == "function":
            self._join(step)
        elif step.event.kind == "toggle":
            walk.toggle_again(step, self.recording)
        else:
            walk.run_anew(step, self.recording, self.done)

    def _join(self, step: Any) -> None:
        """A Function's call: its outputs get their history."""
        walk, event = self.walk, step.event
        _, needs, kinds = event.subject
        node = walk.contexts[step.number]
        tensors = walk._actual(step.args[0], step.path)
        args: list[Any] = [None] * len(needs)
        for place, tensor in zip(node.inputs_like, tensors):
            args[place] = tensor
        outputs: list[Any] = []
        described, results = iter(step.args[1:]), iter(step.results)
        for kind in kinds:
            if kind is None:
                outputs.append(None)
                continue
            its_own, new = next(described), next(results)
            if kind == "made":
                before, output = walk.handed[its_own[1]], walk.handed[new]
                become(output, before.array, None, False, before._meta)
                self.recording.replace(before, output)
            outputs.append(output if kind == "made" else walk._actual(its_own, step.path))
        shapes = node.outputs_like
        grad, MODES.grad = MODES.grad, event.grad
        try:
            plan = MODES.plan
            attached = join(node, args, outputs) if plan is None else plan.join_function(node, args, outputs)
        finally:
            MODES.grad = grad
        node.outputs_like = shapes
        joined = [output for output, kind in zip(attached, kinds) if kind is not None]
        for number, output in zip(step.results, joined):
            walk._take_over(number, output, self.recording, False)
        self.nodes[step.number] = node
        turn_into(node, _RunsAnew)
        node.anew = self

    # --- backward passes --------------------------------------------------------------------------------------------------------

    def _run_pass(self, step: Any) -> None:
        """A pass that goes through Functions, or as much of it as there is."""
        walk = self.walk
        request = [walk._actual(described, step.path) for described in step.args]
        end = self._end_of_pass()
        if end is not None:
            if end.event.kind == "backward":
                walk.clear_receivers(end)
            grad, MODES.grad = MODES.grad, end.event.grad if end.event.kind == "grad" else MODES.grad
            try:
                results = _run(request)
            finally:
                MODES.grad = grad
            assert self.steps[self.at] is end
            self.at += 1
            if end.event.kind == "backward":
                walk.take_gradients_over(end, self.recording, self.done)
            for number, result in zip(end.results, results):
                walk._take_over(number, result, self.recording, end.event.calls <= self.done)
            return
        self.is_partial = True
        leaves = [(leaf, leaf._grad) for leaf in leaves_behind(request[0])]
        for leaf, _ in leaves:
            leaf._grad = None
        try:
            with walk.owner.aside():
                _run(request, True)
        except _UpToHere:
            pass
        finally:
            for leaf, grad in leaves:
                leaf._grad = grad

    def _end_of_pass(self) -> Any:
        """The step with which the pass that begins here ends; None: it is not among those that are run anew."""
        depth = 0
        for number in range(self.at, len(self.steps)):
            step = self.steps[number]
            if step.event.kind == "enter" and step.args:
                depth += 1
            elif step.event.kind in ("backward", "grad") and self.steps[number - 1].event.kind == "exit":
                depth -= 1
                if not depth:
                    return step
        return None

    def gradients_of(self, node: _RunsAnew, g: Any, recording: bool) -> list[Any]:
        """What a Function's backward gives: that is known, or its steps are run anew, or it has not run yet."""
        number = next(number for number, other in self.nodes.items() if other is node)
        if self.is_over:
            result = self.known.pop(number, None)
            _let_go(node)
            if result is None:
                return node._run(g, recording)
            if isinstance(result, Exception):
                raise result
            return list(result)
        if self.at == len(self.steps):
            raise _UpToHere
        walk, step = self.walk, self.steps[self.at]
        self.at += 1
        for place, value in zip(step.subject[1], step.results):
            part = g.parts[place]
            part = part if isinstance(part, Tensor) else Tensor.wrap(part)
            walk._take_over(value, part, self.recording, step.event.calls <= self.done)
        while self.at < len(self.steps) and self.steps[self.at].event.kind != "exit":
            self._run_next()
        if self.at == len(self.steps):
            raise _UpToHere
        step = self.steps[self.at]
        self.at += 1
        gradients = list(walk._actual(step.args[0], step.path))
        if self.is_partial:
            self.known[number] = gradients
        return gradients


def _run(request: list[Any], keeps: bool = False) -> list[Any]:
    """A backward pass as it is asked for; what `autograd.grad` gives, without what is None."""
    if len(request) == 3:
        outputs, retains, seeds = request
        differentiation.backward(outputs, seeds, keeps or retains)
        return []
    outputs, inputs, seeds, (retains, *others) = request
    return run_again("grad", [outputs, inputs, seeds, (keeps or retains, *others)])


def _let_go(node: Any) -> None:
    """Its backward is the program's own from here on."""
    if isinstance(node, _RunsAnew):
        del node.anew
        turn_into(node, FunctionNode)
