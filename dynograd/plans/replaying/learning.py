"""What is learnt from a trace: whether the way can be replayed, and how."""

from __future__ import annotations

from typing import Any

from numpy import may_share_memory

from dynograd.amp.autocasting import STATE
from dynograd.autograd.modes import MODES
from dynograd.base.devices import get_default_device
from dynograd.base.dtypes import get_default_dtype
from dynograd.interpreter.tensor_parts import is_silent
from dynograd.kernels.build.batch_invariance import USES
from dynograd.kernels.build.determinism import are_deterministic_algorithms_enabled
from dynograd.nn.hooks import any_global
from dynograd.plans.handed import Handed
from dynograd.plans.programs import nobody
from dynograd.plans.replaying.arguments import ArgumentGuard, NotReplayed
from dynograd.plans.replaying.gradients import ReplayedGradients
from dynograd.plans.replaying.guards import Guards
from dynograd.plans.replaying.notes import Call, Moment, Write
from dynograd.plans.replaying.places import PLAIN
from dynograd.plans.replaying.traces import Trace
from dynograd.plans.steps import Step
from dynograd.tensor.tensor import Tensor

__all__ = ["Learned", "modes"]


def modes() -> tuple[Any, ...]:
    """The state of the process and thread that ops go by."""
    autocast = (*STATE.enabled.items(), *STATE.dtypes.items()) if STATE.any else ()
    exactly = USES.batch_invariant, are_deterministic_algorithms_enabled()
    return MODES.grad, MODES.inference, MODES.honest, get_default_dtype(), get_default_device(), autocast, exactly


class Learned:
    """What one watched walk says of a way: where tensors come from, what is guarded, and what is done between pieces of the program.

    Args:
        trace: of a walk along it, which has come to its end.
        args, kwargs: that it was called with.
        box: what it gave, alone in a list.
    Raises:
        NotReplayed: it cannot be replayed.
    """

    def __init__(self, trace: Trace, args: tuple, kwargs: dict[str, Any], box: list[Any]) -> None:
        self.walk, self.path, self.modes = trace.walk, trace.walk.path, trace.modes
        path = self.path
        staying = {id(outside.tensor) for outside in path.staying}
        self.arguments = ArgumentGuard(args, kwargs, staying)
        self._look_for_changes(trace)
        self.locations = {id(tensor): place for place, tensor in reversed([*enumerate(self.arguments.tensors)])}
        self.calls = [call for kind, call in trace.draws if kind == "call"]
        self._bind(trace)
        self._take_draws(trace)
        self.writes = [self._write(write, trace) for write in trace.writes]
        self._take_checks(trace)
        for again in trace.again:
            if not all([id(tensor) in trace.places.seen for tensor in again.tensors]):
                raise NotReplayed(f"{again.function.__name__} changes the gradient of a tensor that cannot be watched")
        self.again = trace.again
        self.result = self._described(box[0], trace)
        self._take_gradients(trace)
        self._look_for_tensors_that_are_kept(trace)
        self.guards = Guards(trace.places, trace.names)
        self.actions = self._actions(trace)
        self.end = Step(None, len(path.events), path)
        self.given = sorted(_count_values(self.result, {}))
        self.own_numbers = {place for place, number in enumerate(path.numbers) if number in self.given}
        self.gradients = ReplayedGradients(self.walk, path, self.without, self.with_gradient)
        self.arguments.copies({place for _, place in self.arguments_of})
        self.take_program()
        self.arguments.tensors = []

    def take_program(self) -> None:
        """What computes the way, which is another program once its backward has been learnt."""
        path = self.path
        self.program = path.program
        # Values that are given, and whose memory is used again: (after so many calls, number).
        self.ends = [(end, number) for end, number in path.ends if number in self.given]
        grouped = [number for group in self.program.groups for number in group.gone]
        self.is_held = nobody if self.own_numbers.isdisjoint(grouped) else self.own_numbers.__contains__

    # --- what a trace says ------------------------------------------------------------------------------------------------------

    def _look_for_changes(self, trace: Trace) -> None:
        places = trace.places
        if trace.reason:
            raise NotReplayed(trace.reason)
        if places.reason:
            raise NotReplayed(places.reason)
        if any([event.kind == "function" for event in self.path.events]):
            raise NotReplayed("an autograd.Function with a backward of its own")
        of_passes = {number for event in self.path.events if event.kind == "backward" for number in event.results}
        if not {number for number, place in enumerate(self.path.numbers) if place in self.path.of_leaves} <= of_passes:
            raise NotReplayed("it writes into gradients in place")
        if any_global:
            raise NotReplayed("hooks of all modules")
        for value in self.arguments.others:
            places.note(value, "an argument")
        if changed := places.changed(trace.names):
            raise NotReplayed(f"it changes {changed}")
        if modes() != self.modes:
            raise NotReplayed("it changes a mode, such as no_grad or autocast, for what comes after it")
        known = set(trace.codes) | places.codes
        inner = {inside for code in trace.codes for inside in code.co_consts if hasattr(inside, "co_freevars")}
        for code in trace.codes - places.codes - inner:
            if code.co_freevars and code not in known - trace.codes:
                raise NotReplayed(f"it calls {code.co_name}, a function whose closure is not known")

    def _bind(self, trace: Trace) -> None:
        """Where tensors from outside come from in each call."""
        walk, path, places = self.walk, self.path, trace.places
        if path.overlaps:
            raise NotReplayed("tensors that are others in each call share memory")
        self.arguments_of: list[tuple[int, int]] = []  # (number of the tensor from outside, place among the arguments)
        self.constants: list[tuple[int, Any]] = []
        self.drawn: list[tuple[int, int]] = []  # (number, place among the calls that draw)
        for outside in path.staying:
            if id(outside.tensor) not in places.seen:
                raise NotReplayed("a tensor from outside comes from where it cannot be watched")
        for number, tensor in walk.bound.items():
            place = self.locations.get(id(tensor))
            if path.outside[number].address is not None and (place is not None or id(tensor) in trace.calls):
                raise NotReplayed("it gets a parameter's memory as an input")
            if place is not None:
                self.arguments_of.append((number, place))
            elif id(tensor) in trace.calls:
                call = trace.calls[id(tensor)][1]
                if not call.draws:
                    self.constants.append((number, Tensor.wrap(tensor.array.copy(order="K"))))
                else:
                    self.drawn.append((number, self._place_of(call)))
            elif (same := self._same_memory(tensor, places)) is not None:
                self.constants.append((number, same))
                places.attributes.append((same, "array", same.array, "the memory of a tensor from outside"))
            else:
                raise NotReplayed("a tensor is made in the step by what is not known to give the same in each call")
        self._look_for_late_tensors()

    def _place_of(self, call: Call) -> int:
        return next(place for place, other in enumerate(self.calls) if other is call)

    @staticmethod
    def _same_memory(tensor: Any, places: Any) -> Tensor | None:
        """The tensor that stands where it stood, or one with the same memory (`detach()` of one gives another each time)."""
        if id(tensor) in places.seen:
            return tensor
        seen = [other for other in places.seen.values() if isinstance(other, Tensor)]
        return next((other for other in seen if type(other) is not Handed and other.array is tensor.array), None)

    def _look_for_late_tensors(self) -> None:
        """When tensors from outside are copied for the program: the first time that they are used, and they may not be written after that."""
        writes = [(number, [tensor.array]) for number, tensor, _ in self.walk.written]
        for step in self.path.steps:
            if step.event.kind == "step":
                groups = step.event.subject.param_groups
                writes.append((step.number, [parameter.array for group in groups for parameter in group["params"]]))
        uses: dict[int, list[int]] = {}
        for step in self.path.steps:
            for number in _outside_of(step.args):
                uses.setdefault(number, []).append(step.number)
        first = min([number for number, _ in writes], default=len(self.path.steps))
        self.targets = [array for _, arrays in writes for array in arrays]
        self.late_arguments = [place for number, place in self.arguments_of if uses.get(number, [0])[-1] >= first]
        self.late: list[tuple[int, int, Any]] = []
        for number, tensor in list(self.constants):
            begin, *_, end = (*uses[number], uses[number][-1])
            if begin >= first:
                self.constants.remove((number, tensor))
                self.late.append((begin, number, tensor))
            for place, arrays in writes:
                if begin < place <= end and any([may_share_memory(array, tensor.array) for array in arrays]):
                    raise NotReplayed("a tensor from outside is written between two places where it is used")
        self.late.sort(key=lambda row: row[0])

    def _take_draws(self, trace: Trace) -> None:
        keyed = [step for step in self.path.steps if step.key is not None and _draws(step)]
        self.draws: list[tuple[int, Any, Any]] = []  # (blocks, steps that draw there, or None) or (0, None, call)
        taken = []
        for kind, content in trace.draws:
            if kind == "call":
                self.draws.append((0, None, content))
                continue
            count, key = content
            steps = [step for step in keyed if step.key == key]
            if not steps and count:
                raise NotReplayed("it draws random numbers by what cannot draw them again")
            self.draws.append((count, steps, None))
            taken += steps
        if any([step not in taken for step in keyed]):
            raise NotReplayed("it draws random numbers in an order that is not known")

    def _take_checks(self, trace: Trace) -> None:
        """Checks of values: of arguments before all else, of what the step computes at their place."""
        self.checks: list[tuple[Any, int]] = []
        self.later_checks: list[tuple[Moment, Any, int]] = []
        places = {id(tensor.array): place for place, tensor in enumerate(self.arguments.tensors)}
        for at, check, (kind, content) in trace.checks:
            if kind == "value":
                self.later_checks.append((at, check, content))
            elif id(content) in places:
                self.checks.append((check, places[id(content)]))
            elif not any([content is outside.array for outside in self.path.staying]) and not any(
                [content is tensor.array and not call.draws for tensor, call in trace.calls.values()]
            ):
                raise NotReplayed("values of a tensor from outside are checked that is no argument")

    def _write(self, write: Write, trace: Trace) -> tuple[Any, ...]:
        if id(write.target) in self.locations:
            raise NotReplayed("it writes in place into an argument")
        target = self._same_memory(write.target, trace.places)
        if target is None:
            raise NotReplayed("it writes in place into a tensor that cannot be watched")
        trace.places.attributes.append((target, "array", target.array, "the memory of a tensor from outside"))
        args = [self._operand(argument, trace) for argument in write.args]
        kwargs = {name: self._operand(argument, trace) for name, argument in write.kwargs.items()}
        view = "" if target is write.target else "data" if is_silent(write.target) else "detach"
        return write.at, target, view, write.method, args, kwargs

    def _operand(self, argument: tuple[str, Any], trace: Trace) -> tuple[str, Any]:
        """What a write in place is called with, in each call."""
        kind, content = argument
        if kind == "list":
            return kind, (content[0], [self._operand(element, trace) for element in content[1]])
        if kind == "tensor" and id(content) in self.locations:
            return "argument", self.locations[id(content)]
        if kind == "tensor" and (same := self._same_memory(content, trace.places)) is not None:
            return kind, same
        if kind == "value" or (kind == "plain" and isinstance(content, (*PLAIN, slice, type(...)))):
            return argument
        raise NotReplayed(f"it writes in place what is not known ({type(content).__name__})")

    def _described(self, result: Any, trace: Trace) -> tuple[str, Any]:
        """What the function gave."""
        if isinstance(result, Tensor):
            if id(result) in trace.numbers:
                return "value", trace.numbers[id(result)]
            for place, again in enumerate(self.again):
                if again.result is result:
                    return "again", place
            if id(result) in self.locations:
                return "argument", self.locations[id(result)]
            if id(result) in trace.places.seen:
                return "same", result
            call = trace.calls.get(id(result), (None, None))[1]
            if call is not None and call.draws:
                return "drawn", self._place_of(call)
            raise NotReplayed("its result holds a tensor that no op has made")
        if type(result) is dict:
            return "dict", {key: self._described(element, trace) for key, element in result.items()}
        if type(result) in (list, tuple) or (isinstance(result, tuple) and hasattr(result, "_make")):
            make = getattr(type(result), "_make", type(result))
            return "list", (make, [self._described(element, trace) for element in result])
        if isinstance(result, PLAIN):
            return "same", result
        raise NotReplayed(f"its result holds a {type(result).__name__}")

    def _take_gradients(self, trace: Trace) -> None:
        """What gradients leaves have when the step begins and ends."""
        walk, path = self.walk, self.path
        leaves = [(leaf, None if before is None else before()) for leaf, before in trace.places.gradients]
        started = {id(leaf): before is not None for leaf, before in trace.places.gradients}
        self.without = [leaf for leaf, before in trace.places.gradients if before is None]
        self.with_gradient = [leaf for leaf, before in trace.places.gradients if before is not None]
        self.cleared: list[Any] = []
        numbers = {id(walk.handed[number]): number for number in walk.assigned}
        differentiated = set()
        added: list[Any] = []
        for step in path.steps:
            if step.event.kind == "backward":
                for place, _, had in step.subject:
                    leaf = walk._outside_now(step.path, place)
                    if id(leaf) not in started:
                        raise NotReplayed("an argument gets a gradient")
                    if had and id(leaf) not in differentiated:
                        added.append(leaf)
                    differentiated.add(id(leaf))
        self.added = added
        for leaf, before in leaves:
            now = leaf._grad
            if now is None:
                if id(leaf) in differentiated:
                    self.cleared.append(leaf)
                elif started[id(leaf)]:
                    raise NotReplayed("it drops a gradient that it has not made")
            elif id(now) not in numbers and now is not before:
                raise NotReplayed("it gives a tensor another gradient")

    def _look_for_tensors_that_are_kept(self, trace: Trace) -> None:
        """Python may keep tensors of the step only in what it gives, and as gradients."""
        count = _count_values(self.result, {})
        for leaf in (*self.without, *self.with_gradient):
            number = trace.numbers.get(id(leaf._grad))
            if number is not None and leaf._grad is not None:
                count[number] = count.get(number, 0) + 1
        own = {
            number
            for step in self.path.steps
            if step.event.kind != "backward" or not self.again  # what clips gradients may keep tables of them
            for number in step.results
        }
        kept = [number for number in own if trace.references[number] != count.get(number, 0)]
        if kept:
            raise NotReplayed("it keeps a tensor beside those that it gives")

    def _actions(self, trace: Trace) -> list[tuple[Any, ...]]:
        """What is done between pieces of the program: (kind, calls of the program before it, step, what else)."""
        having = {id(leaf): leaf for leaf in self.with_gradient}
        path, events = self.path, self.path.events
        actions: list[tuple[Any, ...]] = []
        late = list(self.late)
        notes: list[tuple[Moment, str, Any]] = [(write[0], "write", write) for write in self.writes]
        notes += [(check[0], "check", check) for check in self.later_checks]
        notes += [(again.at, "again", (place, again)) for place, again in enumerate(self.again)]
        notes += [(at, "clear", leaves) for at, leaves in trace.without]  # before an optimizer, or what clips
        notes.sort(key=lambda note: note[0], reverse=True)
        for step in [*path.steps, None]:
            number = len(events) if step is None else step.number
            calls = events[number - 1].calls if number else 0
            while notes and notes[-1][0].number <= number:
                _, kind, content = notes.pop()
                if kind == "clear":
                    content = [leaf for leaf in content if having.pop(id(leaf), None) is not None]
                if content:
                    actions.append((kind, calls, None, content))
            while late and late[0][0] <= number:
                actions.append(("copy", calls, None, late.pop(0)[1:]))
            if step is not None and step.event.kind == "backward":
                leaves = [self.walk._outside_now(step.path, place) for place, _, _ in step.subject]
                having |= {id(leaf): leaf for leaf in leaves}
                actions.append(("backward", calls, step, step.subject))
            elif step is not None and step.event.kind == "step":
                actions.append(("step", calls, step, step.event.subject))
            elif step is not None and step.event.kind == "store":
                actions.append(("store", step.event.calls, step, path.outside[step.args[0][1]].tensor))
        return actions


def _draws(step: Step) -> bool:
    """Whether a step uses its place in the random stream: attention that drops no weights does not."""
    names = step.of.op.parameter_names
    return "p" not in names or step.args[names.index("p")] != ("same", 0.0)


def _outside_of(args: Any) -> set[int]:
    numbers: set[int] = set()
    for kind, content in args:
        if kind == "outside":
            numbers.add(content)
        elif kind == "list":
            numbers |= _outside_of(content[1])
    return numbers


def _count_values(described: tuple[str, Any], count: dict[int, int]) -> dict[int, int]:
    """How often each value of the step is part of what a function gives."""
    kind, content = described
    if kind == "value":
        count[content] = count.get(content, 0) + 1
    elif kind == "list":
        for element in content[1]:
            _count_values(element, count)
    elif kind == "dict":
        for element in content.values():
            _count_values(element, count)
    return count
