"""Replays: a way through a function that is computed without its Python, after guards on everything that the Python has looked at."""

from __future__ import annotations

from sys import getrefcount
from time import perf_counter
from typing import Any

from numpy import may_share_memory

from dynograd.autograd.modes import MODES
from dynograd.base.random_streams import default_generator
from dynograd.plans.handed import Handed
from dynograd.plans.recording import kind_of
from dynograd.plans.replaying.arguments import OTHER_KIND
from dynograd.plans.replaying.learning import Learned, modes
from dynograd.plans.replaying.notes import Again
from dynograd.tensor.tensor import Tensor

__all__ = ["FAILS", "Replay"]

FAILS = "an op fails"


class Replay(Learned):
    """One way through a function at arguments of some sizes."""

    def failed(self, args: tuple, kwargs: dict[str, Any], tensors: list[Any]) -> str:
        """Why this call cannot be replayed, "" if it can; puts the arguments' tensors into `tensors`."""
        if modes() != self.modes:
            return "a mode of the process or thread"
        if reason := self.arguments.failed(args, kwargs, tensors):
            return reason
        if not self.path.watch.holds():
            return "a parameter, or another tensor from outside"
        if reason := self.guards.failed():
            return reason
        if not self.gradients.are_those_of_replay() and (
            any([leaf._grad is not None for leaf in self.without])
            or any([leaf._grad is None for leaf in self.with_gradient])
        ):
            return "whether a parameter has a gradient"
        for place in self.late_arguments:
            if any([may_share_memory(tensors[place].array, target) for target in self.targets]):
                return "a tensor that is used behind a write into its memory"
        for leaf in self.added:
            grad = leaf._grad
            if type(grad) not in (Handed, Tensor) or grad.shape != leaf.shape or grad._requires_grad:
                return "the gradient that is added to"
        return ""

    def _takes_arguments(self, tensors: list[Any]) -> bool:
        """Copies the arguments into the plan's memory; False where one is of another kind."""
        walk, outside = self.walk, self.path.program.outside
        for number, place in self.arguments_of:
            array, target = tensors[place].array, outside[number]
            if not walk.copied_alike(id(array), id(target)):
                if kind_of(tensors[place]) != self.arguments.kinds[place]:
                    return False
                target[...] = array
        return True

    def run(self, tensors: list[Any]) -> list[object] | str:
        """What the function gives for these arguments, alone in a list; or why nothing outside was changed: `FAILS`, or an argument."""
        start = perf_counter()
        walk, path = self.walk, self.path
        if path.program is not self.program:
            self.take_program()
        walk.begin_along(path)
        if walk.shared.path is not path:
            walk.shared.make_room(walk, path)
        if not self._takes_arguments(tensors):
            return OTHER_KIND
        walk.given = self.given
        random = default_generator.state() if self.draws else None
        self.replaced: list[tuple[Any, Any]] = []
        drawn = self._draw()
        program = path.program
        outside, bound = program.outside, walk.bound
        for number, place in self.arguments_of:
            bound[number] = tensors[place]
        for number, tensor in self.constants:
            bound[number] = tensor
            outside[number][...] = tensor.array
        for number, place in self.drawn:
            bound[number] = tensor = drawn[place]
            outside[number][...] = tensor.array
        for step in path.keyed:
            program.set_key(step.event, step.key)
        results: dict[int, Any] = {}
        box = [self._result(self.result, tensors, drawn)]
        walk.running = True
        changed = False
        try:
            for check, place in self.checks:
                check(tensors[place].array)
            for kind, calls, step, content in self.actions:
                if kind == "backward":
                    walk.at = step
                    self._assign(step, content, calls)
                    continue
                self._compute(calls)
                if kind == "check":
                    content[1](walk.where(content[2]))
                    continue
                if kind == "copy":
                    number, bound[number] = content
                    outside[number][...] = bound[number].array
                    continue
                if kind == "clear":
                    for leaf in content:
                        leaf._grad = None
                    continue
                if kind == "again":
                    place, call = content
                    results[place] = self._call_again(call)
                    continue
                changed = True
                if kind == "step":
                    self._step(step, content)
                elif kind == "store":
                    walk.write_at_once(content, step)
                else:
                    self._write_again(content, tensors)
            if results:
                box = [self._result(self.result, tensors, drawn, results)]
            walk.at = self.end
            self._compute(len(program.calls) if path.parts is None else path.forward)
            for leaf in self.cleared:
                leaf._grad = None
            if path.open:
                walk._open()
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            if changed:
                raise
            if random is not None:
                default_generator.set_plain_state(random)
            for leaf, gradient in self.replaced:
                leaf._grad = gradient
            for leaf in self.without:
                leaf._grad = None
            return FAILS
        finally:
            walk.running, self.replaced = False, []
        path.replayed += 1
        path.replay_seconds += perf_counter() - start
        return box

    def _draw(self) -> list[Any]:
        drawn = []
        for count, steps, call in self.draws:
            if call is None:
                key = default_generator.key(count)
                for step in steps:
                    step.key = key
            else:
                drawn.append(call.make(*call.args, **call.kwargs))
        return drawn

    def _compute(self, stop: int) -> None:
        walk = self.walk
        start = walk.done
        if stop > start:
            walk.done = stop
            program = self.path.program
            for end, number in self.ends:  # what is given and overwritten before the end is copied in time
                if start <= end < stop:
                    program.run(start, end, self.is_held)
                    walk.copies[number] = walk.own(number)
                    start = end
            program.run(start, stop, self.is_held)

    def _assign(self, step: Any, leaves: list[tuple[int, int, bool]], calls: int) -> None:
        walk = self.walk
        if self.gradients.is_of(step) and self.gradients.are_those_of_replay():
            walk.assigned |= self.gradients.numbers
            walk.at = step.next
            return
        handed, counts = walk.handed, walk.counts
        added = []
        for place, number, had in leaves:
            leaf = walk._outside_now(step.path, place)
            if had:
                added.append((leaf, number))
                continue
            walk.assigned.add(number)
            grad = handed[number]
            if leaf._grad is grad and type(grad) is Handed and getrefcount(grad) == counts[number] + 2:
                continue  # that of the step before, which nobody else has
            self.replaced.append((leaf, leaf._grad))
            leaf._grad = None
            walk.free_gradient(number)
            leaf._grad = handed[number]
        walk.at = step.next
        if added:
            self._compute(step.event.calls)
            walk._add(added, step.number)

    def _step(self, step: Any, optimizer: Any) -> None:
        walk = self.walk
        walk.at, walk.boundary, walk.holds = step.next, step.number, False
        walk.note_write_at(step.number)
        taken = self.path.optimizers.get(step.number)
        if taken is not None and "step" not in optimizer.__dict__ and taken.run():
            optimizer._step_called = True
            return
        walk.at, walk.holds = step, True
        MODES.plan = walk
        try:
            optimizer.step()
        finally:
            MODES.plan = None
        if not self.path.watch.holds():
            raise RuntimeError(
                f"compile: {type(optimizer).__name__}.step has given a parameter other memory in a replayed step, which it did not do before. Leave "
                f"out mode='replay'."
            )

    def _write_again(self, write: tuple[Any, ...], tensors: list[Any]) -> None:
        at, target, view, method, args, kwargs = write
        walk = self.walk
        walk.written.append((at.number, target, None))
        if view:
            target = target.data if view == "data" else target.detach()
        walk.holds = False
        grad, MODES.grad = MODES.grad, 0
        try:
            method(
                target,
                *[self._actual(argument, tensors) for argument in args],
                **{name: self._actual(argument, tensors) for name, argument in kwargs.items()},
            )
        finally:
            MODES.grad = grad

    def _actual(self, argument: tuple[str, Any], tensors: list[Any]) -> object:
        kind, content = argument
        if kind == "argument":
            return tensors[content]
        if kind == "value":
            return Tensor.wrap(self.walk.where(content))
        if kind == "list":
            return content[0]([self._actual(element, tensors) for element in content[1]])
        return content

    def _call_again(self, call: Again) -> object:
        number = call.at.number
        self.walk.at = self.path.steps[number] if number < len(self.path.steps) else self.end
        try:
            return self.walk._with_gradients(lambda: call.function(call.tensors, **call.kwargs))
        finally:
            MODES.plan = None

    def _result(
        self, described: tuple[str, Any], tensors: list[Any], drawn: list[Any], results: dict[int, Any] | None = None
    ) -> object:
        kind, content = described
        if kind == "value":
            return self.walk.handed[content]
        if kind == "argument":
            return tensors[content]
        if kind == "drawn":
            return drawn[content]
        if kind == "again":
            return None if results is None else results[content]
        if kind == "list":
            make, elements = content
            return make([self._result(element, tensors, drawn, results) for element in elements])
        if kind == "dict":
            return {key: self._result(element, tensors, drawn, results) for key, element in content.items()}
        return content
