"""Walking: the user's program runs, its ops compare themselves with the record and hand out recorded tensors; the plan computes them.

The record is a tree: where the program went on differently, an alternative begins. A step of it (`Step`) that finds what it has noted costs a
few comparisons. What has been compared is computed when someone reads a value, before something from outside is written, and at the end.
Where the program leaves the record, the ops so far are run anew as they are written (`leave`), on the same tensors, and recorded again.
"""

from __future__ import annotations

import re
import weakref
from sys import getrefcount
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.autograd.modes import MODES
from dynograd.autograd.engine import run_backward
from dynograd.autograd.nodes import FREED, Node, OutputNode, Partial, next_seq
from dynograd.interpreter import TENSORS
from dynograd.interpreter.shared import signature_of
from dynograd.ops.readers import Entry, Reader
from dynograd.plans.handed import Handed, Read, Value, become, new_handed
from dynograd.plans.memory import Arena
from dynograd.plans.programs import Program, write
from dynograd.plans.recording import Event, Recording, call_with, depends_on_values
from dynograd.tensor.tensor import Tensor

__all__ = ["Step", "Walk"]

_MOST = 8  # operands that the code of an op compares itself
_FIELDS = tuple(f"a{place}" for place in range(_MOST))
_UNSEEN = object()  # no operand is this


class Step:
    """An event of the record, as the code of ops compares it. `a0` and so on are the operands by identity."""

    __slots__ = (*_FIELDS, "event", "grad", "key", "next", "number", "of", "others", "path", "result")

    def __init__(self, event: Event | None, number: int, path: Any) -> None:
        self.event, self.number, self.path = event, number, path
        self.of: Any = None if event is None else event.entry
        self.grad = 0 if event is None else event.grad
        self.next: Any = None
        self.others: list[Step] = []  # what the program did instead, at another time
        self.result: Any = None
        self.key: Any = None
        for field in _FIELDS:
            setattr(self, field, _UNSEEN)


class Path:
    """One way through the program: its steps, its tensors from outside, and what computes it."""

    def __init__(self, recording: Recording, program: Program) -> None:
        self.events, self.program = recording.events, program
        self.outside = recording.outside
        self.staying = [outside for outside in recording.outside if not outside.fresh]
        self.steps: list[Step] = []
        self.keyed: list[Step] = []  # those that draw random numbers
        self.consumed = recording.consumed()
        self.lease: Any = lambda: None  # gives what a backward pass from outside still needs the memory for
        self.forward = len(recording.calls)
        self.parts: tuple[int, ...] | None = None  # the values that the recorded backward pass from outside began at


class PlanNode(Node):
    """The history of what a compiled function gave: its backward is the plan's, or is recorded when it first comes."""

    __slots__ = ("bound", "path", "saved", "walk")
    op = None
    saved_names = ("saved",)

    def __init__(self, walk: Any) -> None:
        self.walk, self.path, self.bound = walk, walk.path, dict(walk.bound)
        self.seq, self.hooks, self.attrs = next_seq(), None, ()
        tensors = [walk._outside_now(self.path, outside.number) for outside in self.path.outside]
        self.edges = tuple([tensor if tensor._requires_grad else None for tensor in tensors])
        self.saved = [tensor.array for tensor in tensors]

    def name(self) -> str:
        return "CompiledFunctionBackward"

    def op_name(self) -> str:
        return "a compiled function"

    def apply(self, g: Partial) -> tuple[Any, ...]:
        path, parts = self.path, g.parts
        if path.parts is None or path.parts != tuple(sorted(parts)):
            return self._learn(parts)
        for (place, _), number in zip(path.program.seeds, path.parts):
            write(place, parts[number])
        path.program.run(path.forward, len(path.program.calls))
        return tuple([None if array is None else array for array in path.program.gradients])

    def apply_graph(self, g: Partial) -> tuple[Any, ...]:
        with self.walk.owner.aside():
            tensors = self._again(None)
            roots = [(tensors[number].node, part) for number, part in g.parts.items()]
            return self._run(roots, True)

    def _run(self, roots: list[Any], create_graph: bool) -> tuple[Any, ...]:
        wanted = [edge for edge in self.edges if edge is not None]
        result = run_backward(roots, retain_graph=create_graph, create_graph=create_graph, targets=wanted)
        assert result is not None
        gradients = iter(result)
        return tuple([None if edge is None else next(gradients) for edge in self.edges])

    def _again(self, recording: Any) -> dict[int, Any]:
        """The function's ops on the same tensors, as they are written; results by number."""
        tensors: dict[int, Any] = {}
        for step in self.path.steps:
            event = step.event
            before, MODES.grad = MODES.grad, event.grad
            try:
                if event.kind == "detach":
                    results = [tensors[event.args[0][1]].detach()]
                elif event.kind == "op":
                    result = call_with(event.entry.function, event.entry.op, self._arguments(step, tensors))
                    results = [result] if event.shape is None else list(result)
                else:
                    results = []
            finally:
                MODES.grad = before
            tensors.update(zip(event.results, results))
        return tensors

    def _arguments(self, step: Any, tensors: dict[int, Any]) -> list[Any]:
        def actual(kind: str, content: Any) -> Any:
            if kind == "value":
                return tensors[content]
            if kind == "outside":
                outside = self.path.outside[content]
                return self.bound[content] if outside.fresh else outside.tensor
            if kind == "list":
                return content[0]([actual(*part) for part in content[1]])
            return step.key if kind == "key" else content

        return [actual(*described) for described in step.event.args]

    def _learn(self, parts: dict[int, Any]) -> tuple[Any, ...]:
        """Records the ops anew, and their backward with them."""
        path, owner = self.path, self.walk.owner
        mode = MODES.grad, MODES.task
        recording = owner.begin_recording()
        try:
            MODES.grad = 1
            tensors = self._again(recording)
            recording.from_outside = True
            numbers = tuple(sorted(parts))
            seeds = [parts[number].copy() for number in numbers]
            roots = [(tensors[number].node, seed) for number, seed in zip(numbers, seeds)]
            gradients = self._run(roots, False)
        finally:
            MODES.grad, MODES.task = mode
            owner.recording = None
            recording.end()
        if path.parts is None and not recording.reason and len(recording.events) == len(path.events):
            forward = recording.events[-1].calls
            kept = [None if array is None else array.copy() for array in gradients]
            program = Program(recording, self.walk.arena, seeds, list(gradients))
            if forward == path.forward and program.check(recording):
                path.program, path.parts = program, numbers
                for outside, array in zip(path.outside, program.outside):
                    del outside, array
            return tuple(kept)
        if recording.reason:
            owner.note_left(f"backward: {recording.reason} ({recording.line})")
        return gradients

    def release(self) -> None:
        self.attrs, self.bound, self.saved = FREED, {}, []


class Freed(Node):
    """The history of a recorded tensor whose graph an earlier backward pass has used up."""

    __slots__ = ()
    saved_names = ()
    op = None


def freed() -> Any:
    node = Freed()
    node.edges, node.seq, node.hooks, node.attrs = (), 1, None, FREED
    return node


class _WalkReader(Reader):
    """Sees the ops of one function's record while it is walked."""

    name = "plan"
    changes_calls = False

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[Entry] = set()
        self.sets_aside = set()

    def sees(self, entry: Entry) -> bool:
        return entry in self.seen

    def write(self, entry: Entry, below: Any, names: dict[str, Any]) -> tuple[str, list[str]]:
        op = entry.op
        parameters, _, call = signature_of(op)
        taken = list(op.parameter_names)
        names |= dict(below=below, this=entry, MODES=MODES, Walk=Walk, same=same)
        tests = []
        for place, name in enumerate(taken):
            if place >= _MOST:
                break
            if name == op.row["by_row"]:
                continue
            if name in op.array_names or op.has_inplace_argument:
                tests.append(f"step.a{place} is {name}")
            else:
                tests.append(f"(step.a{place} is {name} or $same(step.a{place}, {name}))")
        simple = len(taken) <= _MOST and not op.list_name and op.row["by_row"] is None
        lines = ["walk = $MODES.plan", "if type(walk) is not $Walk:", f"    return $below({', '.join(call)})"]
        if simple:
            lines += [
                "step = walk.at",
                f"if step.of is $this and step.grad == $MODES.grad and {' and '.join(tests)}:",
                "    walk.at = step.next",
                "    return step.result",
            ]
        lines.append(f"return walk.other($this, $below, ({', '.join(taken)},))")
        return re.sub(r"=default_\w+", "=None", parameters), lines


class _Listed:
    """Tensors of a list, described as operands are."""

    __slots__ = ("args", "event", "path")

    def __init__(self, path: Any, args: Any) -> None:
        self.path, self.args, self.event = path, args, self


def same(left: Any, right: Any) -> bool:
    """Whether two arguments that are no tensors are equal, and of one type."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if type(left) in (tuple, list):
        return len(left) == len(right) and all([same(first, second) for first, second in zip(left, right)])
    if isinstance(left, (Tensor, ndarray)):
        return False
    try:
        return bool(left == right) or bool(left != left and right != right)
    except Exception:  # what has no order is not the same
        return False


class Walk:
    """Of one compiled function on one thread: where in the record its program is."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.reader = _WalkReader()
        self.root = Step(None, -1, None)
        self.paths: list[Path] = []
        self.arena = Arena()
        self.latest: Any = None  # the path that was computed last
        self.handed: list[Any] = []  # by number of value
        self.values: list[Value] = []
        self.counts: list[int] = []  # references to them when nobody else has them
        self.uses: list[list[tuple[Step, int]]] = []  # operands of steps, by number of value
        self.makers: list[list[Step]] = []  # steps that give it, by number of value
        self.results: list[int] = []  # the values that ops give
        self.first: list[int] = []  # the number of the step that gives a value
        self.at: Any = None
        self.path: Any = None
        self.begun = 0

    # --- the record -------------------------------------------------------------------------------------------------------------

    def add(self, recording: Recording, program: Program) -> None:
        """A new way through the program."""
        path = Path(recording, program)
        self.paths.append(path)
        before, step = self.root, None
        shared = True
        for number, event in enumerate(recording.events):
            if shared:
                step = self._step_like(before, event, path)
                if step is not None:
                    path.steps.append(step)
                    if event.kind == "op" and event.entry.op.row["by_row"]:
                        path.keyed.append(step)
                    before = step
                    continue
                shared = False
            step = Step(event, number, path)
            self._fill(step, recording, program)
            path.steps.append(step)
            if event.kind == "op" and event.entry.op.row["by_row"]:
                path.keyed.append(step)
            self._follow(before, step)
            before = step
        path.gradients = [
            (recording.outside[place].tensor, number, Tensor.wrap(program.arrays[number]))
            for event in recording.events
            if event.kind == "backward"
            for place, number in event.subject
        ]
        end = Step(None, len(recording.events), path)
        if not any([other.event is None for other in self._choices(before)]):
            self._follow(before, end)
        for event in recording.events:
            if event.entry is not None:
                self.reader.seen.add(event.entry)
                self.reader.sets_aside.add(event.entry.key)
        self.reader._looked = 0
        self.reader.entries = {}
        for number in range(len(self.handed)):
            self.counts[number] = getrefcount(self.handed[number])
        path.with_gradient = [
            number
            for event in recording.events
            if event.kind != "backward"
            for number in event.results
            if self.values[number].grad
        ]

    def _follow(self, before: Step, step: Step) -> None:
        if before.next is None:
            before.next = step
        else:
            before.next.others.append(step)

    def _choices(self, before: Step) -> list[Step]:
        return [] if before.next is None else [before.next, *before.next.others]

    def _step_like(self, before: Step, event: Event, path: Path) -> Step | None:
        for step in self._choices(before):
            other = step.event
            if (
                other is not None
                and other.kind == event.kind
                and other.entry is event.entry
                and other.grad == event.grad
                and other.results == event.results
                and other.subject == event.subject
                and self._alike(other.args, event.args, step.path, path)
            ):
                return step
        return None

    def _alike(self, left: Any, right: Any, left_path: Path, right_path: Path) -> bool:
        if len(left) != len(right):
            return False
        for (kind, first), (other_kind, second) in zip(left, right):
            if kind != other_kind:
                return False
            if kind == "value" and first != second:
                return False
            if kind == "outside":
                if first != second:
                    return False
                one, two = left_path.outside[first], right_path.outside[second]
                if one.fresh != two.fresh or (not one.fresh and one.tensor is not two.tensor):
                    return False
                if one.fresh and one.kind != two.kind:
                    return False
            if kind == "same" and not same(first, second):
                return False
            if kind == "list" and (first[0] is not second[0] or not self._alike(first[1], second[1], left_path, right_path)):
                return False
        return True

    def _fill(self, step: Step, recording: Recording, program: Program) -> None:
        event = step.event
        assert event is not None
        for number in event.results:
            if number == len(self.handed):
                tensor = recording.values[number]
                value = Value(self, number, program.arrays[number], bool(tensor._requires_grad), tensor._meta is not None)
                self.values.append(value)
                self.handed.append(new_handed(value))
                self.counts.append(0)
                self.uses.append([])
                self.makers.append([])
                self.first.append(step.number)
                if event.kind != "backward":
                    self.results.append(number)
            self.makers[number].append(step)
        self._set_result(step)
        if event.kind == "op":
            for place, described in enumerate(event.args[:_MOST]):
                setattr(step, f"a{place}", self._operand(described, step.path, step, place))

    def _set_result(self, step: Step) -> None:
        event = step.event
        assert event is not None
        results = [self.handed[number] for number in event.results]
        if event.kind in ("op", "detach"):
            step.result = results[0] if event.shape is None else event.shape(results)

    def _operand(self, described: Any, path: Path, step: Step, place: int) -> Any:
        kind, content = described
        if kind == "value":
            self.uses[content].append((step, place))
            return self.handed[content]
        if kind == "outside":
            outside = path.outside[content]
            if outside.fresh:
                return _UNSEEN  # what it is in this step is found out by `other`
            return outside.tensor
        return content if kind == "same" else _UNSEEN

    # --- a step of the user's program -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The function is called."""
        self._let_go()
        self.before = self.root
        self.at = self.root.next
        self.path = self.at.path
        self.done = 0  # calls computed
        self.bound: dict[int, Any] = {}  # tensors from outside that are others in each step, by number
        self.read_numbers: dict[int, Any] = {}  # values that were read in this step, with the copy
        self.written: list[tuple[int, Any, Any]] = []
        self.boundary = -1
        self.holds = False  # tensors from outside are the recorded ones

    def _let_go(self) -> None:
        """Recorded tensors of the step before that someone holds become their own; the record gets others in their place."""
        counts, handed = self.counts, self.handed
        for number in self.results:
            tensor = handed[number]
            if type(tensor) is not Handed or getrefcount(tensor) != counts[number] + 1:
                self._let_one_go(number, tensor)

    def _let_one_go(self, number: int, tensor: Any) -> None:
        if type(tensor) is Handed:
            value = self.values[number]
            array = self.path.program.arrays[number]
            become(tensor, array.copy(order="K"), freed() if value.grad else None, value.grad)
        elif type(tensor) is Read:
            become(tensor, tensor.array, freed(), True)
        self._put_in_place(number, new_handed(self.values[number]))

    def _put_in_place(self, number: int, new: Any) -> None:
        self.handed[number] = new
        for step, place in self.uses[number]:
            setattr(step, f"a{place}", new)
        for step in self.makers[number]:
            self._set_result(step)

    def other(self, entry: Entry, below: Any, args: tuple) -> Any:
        """An op whose code has not found what the record has here."""
        step = self.at
        if step.of is entry and step.grad == MODES.grad and (new := self._matches(step, args)) is not None:
            self._go_to(step, new)
            return step.result if type(step.result) is not list else list(step.result)
        flat = _flat(args)
        if not any([isinstance(value, Tensor) for value in flat]):
            return call_with(below, entry.op, args)
        for value in flat:
            if isinstance(value, Tensor) and type(value) not in TENSORS and not isinstance(value, Handed):
                return call_with(below, entry.op, args)
        if depends_on_values(entry.op, args):
            self.met_unknown(entry.op, args)
            return call_with(below, entry.op, args)
        for choice in step.others:
            if choice.of is entry and choice.grad == MODES.grad and (new := self._matches(choice, args)) is not None:
                if not self._go_over(choice):
                    break
                self._go_to(choice, new)
                return choice.result if type(choice.result) is not list else list(choice.result)
        self.leave(f"{entry.key} came where the record has {_told(step)}")
        return call_with(entry.function, entry.op, args)

    def _go_over(self, choice: Step) -> bool:
        """The program takes another way from here on, on which what was computed so far is computed again."""
        if self.written or self.boundary >= 0:
            return False
        path = choice.path
        for number, tensor in self.bound.items():
            path.program.outside[number][...] = self.path.program.outside[number]
        self.path, self.done = path, 0
        return True

    def _matches(self, step: Step, args: tuple) -> list[tuple[int, Any]] | None:
        """Tensors from outside that are met for the first time in this step; None: the operands are others than the recorded ones."""
        event = step.event
        handed, read, bound = self.handed, self.read_numbers, self.bound
        new: list[tuple[int, Any]] = []
        for (kind, content), value in zip(event.args, args):
            if kind == "same":
                if content is not value and not same(content, value):
                    return None
            elif kind == "value":
                if value is not handed[content] or (read and not self._is_as_read(content)):
                    return None
            elif kind == "outside":
                outside = step.path.outside[content]
                if not outside.fresh:
                    if value is not outside.tensor:
                        return None
                elif bound.get(content) is not value:
                    if content in bound or not outside.takes(value):
                        return None
                    new.append((content, value))
            elif kind == "key":
                step.key = value
            elif type(value) is not content[0] or len(value) != len(content[1]):
                return None
            else:
                inner = self._matches(_Listed(step.path, content[1]), value)
                if inner is None:
                    return None
                new += inner
        return new

    def _go_to(self, choice: Step, new: list[tuple[int, Any]]) -> None:
        if new:
            arrays = choice.path.program.outside
            for content, value in new:
                self.bound[content] = value
                arrays[content][...] = value.array
        self.at = choice.next

    def _is_as_read(self, number: int) -> bool:
        """Whether a value that was read in this step is still what it was: whoever has read it may have written it."""
        copied = self.read_numbers.get(number)
        if copied is None:
            return True
        own = self.path.program.arrays[number]
        return copied.tobytes() == own.tobytes()

    # --- values -----------------------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Computes what has been compared so far."""
        number = self.at.number
        if not number:
            return
        stop = self.path.events[number - 1].calls
        if stop > self.done:
            if not self.holds:
                if not self._still_holds():
                    self.leave("a tensor from outside has become another one")
                    return
                self.holds = True
            start, self.done = self.done, stop
            if self.latest is not self.path:
                self._make_room()
            program = self.path.program
            for step in self.path.keyed:
                if step.number < number:
                    program.set_key(step.event, step.key)
            program.run(start, stop)

    def _make_room(self) -> None:
        """Another path's memory is about to be overwritten: its gradients, which leaves may still have, become their own."""
        if self.latest is not None:
            for leaf, number, tensor in self.latest.gradients:
                if leaf._grad is self.handed[number] and type(leaf._grad) is Handed:
                    self.handed[number] = new_handed(self.values[number])
                    become(leaf._grad, tensor.array.copy(order="K"), None, False)
        self.latest = self.path

    def _still_holds(self) -> bool:
        for outside in self.path.staying:
            tensor = outside.tensor
            if (
                tensor.array is not outside.array
                or tensor._requires_grad is not outside.grad
                or tensor._meta is not outside.meta
            ):
                return False
        return True

    def number_of(self, tensor: Any) -> Any:
        """The plan's own array of a recorded tensor, which nobody may keep."""
        value = tensor.value
        number = value.number
        if self.running and self.handed[number] is tensor and self.first[number] < self.at.number:
            self.catch_up()
            if type(tensor) is not Handed:
                return tensor.array
        return self.path.program.arrays[number]

    def read(self, tensor: Any) -> Any:
        """The array of a recorded tensor, for whoever asks: a copy that is its own from now on."""
        if type(tensor) is not Handed:
            return tensor.array
        value = tensor.value
        number = value.number
        array = self.number_of(tensor)
        if type(tensor) is not Handed:
            return tensor.array
        copied = array.copy(order="K")
        if self.running and self.handed[number] is tensor and self.first[number] < self.at.number:
            self.read_numbers[number] = copied
            for step, place in self.uses[number]:
                setattr(step, f"a{place}", _UNSEEN)
            if value.grad:
                tensor.__class__ = Read
                tensor.array = copied
                return copied
        become(tensor, copied, freed() if value.grad else None, value.grad)
        return copied

    running = False

    def before_write(self, tensor: Any) -> None:
        """A tensor is about to be written in place."""
        if isinstance(tensor, Handed):
            self.leave("a recorded tensor is written in place")
            return
        self.catch_up()
        self.holds = False
        if self.running:
            self.written.append((self.at.number, tensor, tensor.array.copy(order="K")))

    def before_lending(self, tensor: Any) -> None:
        if not isinstance(tensor, Handed):
            self.catch_up()

    def met_unknown(self, op: Any, arguments: Any) -> None:
        """An op that the record does not have takes recorded tensors."""
        values = [value for value in _flat(arguments.values() if isinstance(arguments, dict) else arguments)]
        recorded = [value for value in values if isinstance(value, Handed)]
        if MODES.grad and any([tensor.value.grad for tensor in recorded]):
            self.leave(f"{op.name}, which the record does not have")
        else:
            for tensor in recorded:
                self.read(tensor)
                if isinstance(tensor, Handed):
                    become(tensor, tensor.array, freed(), True)

    def detach(self, tensor: Any) -> Any:
        if not isinstance(tensor, Handed):
            return Tensor.wrap(tensor.array)
        step = self.at
        for choice in (step, *step.others):
            event = choice.event
            if event is not None and event.kind == "detach" and tensor is self.handed[event.args[0][1]]:
                if choice is not step and not self._go_over(choice):
                    break
                self.at = choice.next
                return choice.result
        self.leave(f"detach() came where the record has {_told(step)}")
        return Tensor.wrap(tensor.array)

    # --- gradients and optimizers -----------------------------------------------------------------------------------------------

    def notes_of_backward(self, create_graph: bool, targets: Any) -> Any:
        return None

    def backward(self, tensor: Any, gradient: Any, retain_graph: Any, create_graph: bool, inputs: Any) -> None:
        step = self.at if self.running else self.root
        for choice in (step, *step.others):
            event = choice.event
            if (
                event is not None
                and event.kind == "backward"
                and tensor is self.handed[event.args[0][1]]
                and (gradient, create_graph, inputs) == (None, False, None)
                and bool(retain_graph) is event.args[1][1]
                and self._leaves_are_free(choice)
            ):
                if choice is not step and not self._go_over(choice):
                    break
                for place, number in event.subject:
                    self._outside_now(choice.path, place)._grad = self.handed[number]
                self.at = choice.next
                return
        self.leave("a backward pass that the record does not have here")
        tensor.backward(gradient, retain_graph, create_graph, inputs)

    def _outside_now(self, path: Path, place: int) -> Any:
        outside = path.outside[place]
        return self.bound.get(place, outside.tensor) if outside.fresh else outside.tensor

    def _leaves_are_free(self, step: Step) -> bool:
        """Whether the leaves of a backward pass have no gradient; recorded gradients of earlier steps that someone holds become their own."""
        handed, counts = self.handed, self.counts
        for place, number in step.event.subject:
            leaf = self._outside_now(step.path, place)
            if leaf._grad is not None or leaf._meta is not None or not leaf._requires_grad:
                return False
            tensor = handed[number]
            if type(tensor) is not Handed or getrefcount(tensor) != counts[number] + 1:
                self._let_one_go(number, tensor)
        return True

    def step(self, optimizer: Any, run: Any) -> Any:
        """An optimizer takes its step: on the gradients that the plan has computed."""
        step = self.at
        for choice in (step, *step.others):
            event = choice.event
            if event is not None and event.kind == "step" and event.subject is optimizer:
                if choice is not step and not self._go_over(choice):
                    break
                self.catch_up()
                if MODES.plan is not self:
                    break
                self.at = choice.next
                self.boundary = choice.number
                self.holds = False
                return self._with_gradients(run)
        if MODES.plan is self:
            self.leave("the step of an optimizer that the record does not have here")
        return run()

    def _with_gradients(self, run: Any) -> Any:
        """Leaves have the plan's own gradients while an optimizer reads them."""
        lent = []
        for leaf, number, tensor in self.path.gradients:
            if leaf._grad is self.handed[number]:
                leaf._grad = tensor
                lent.append((leaf, number, tensor))
        MODES.plan = None
        try:
            return run()
        finally:
            MODES.plan = self
            for leaf, number, tensor in lent:
                if leaf._grad is tensor:
                    leaf._grad = self.handed[number]

    # --- the end ----------------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """The function has come to its end."""
        step = self.at
        for choice in (step, *step.others):
            if choice.event is None:
                if choice is not step and not self._go_over(choice):
                    break
                self.at = choice
                self.catch_up()
                if self.running:
                    self._open()
                return
        self.leave("the program ended earlier than the record")

    def _open(self) -> None:
        """What the program keeps with a gradient to come gets a place in the graph."""
        handed, counts, consumed = self.handed, self.counts, self.path.consumed
        parent: Any = None
        for number in self.path.with_gradient:
            tensor = handed[number]
            if number in consumed or getrefcount(tensor) == counts[number] + 1:
                continue
            if parent is None:
                parent = PlanNode(self)
                self.path.lease = weakref.ref(parent)
            array = tensor.array if type(tensor) is Read else self.path.program.arrays[number].copy(order="K")
            become(tensor, array, OutputNode(parent, number), True)
            tensor = None
            self._put_in_place(number, new_handed(self.values[number]))

    def is_leased(self) -> bool:
        """Whether the memory of a path is still needed for a backward pass."""
        for path in self.paths:
            node = path.lease()
            if node is not None and node.attrs is not FREED:
                return True
        return False

    def leave(self, reason: str, tensor: Any = None) -> Any:
        """The program goes its own way: all ops of this call are run anew, as they are written, and recorded."""
        if not self.running:  # long after
            return self._outlive(tensor)
        owner = self.owner
        owner.note_left(reason)
        done, number, path = self.done, self.at.number, self.path
        boundary = self.boundary
        self.running = False
        MODES.plan = None
        self.reader.turn_off()
        recording = owner.begin_recording()
        if boundary >= 0 or self.written:
            recording.refuse("the way there goes over the step of an optimizer, or a write")
        steps = self._steps_to(number)
        grads = self._take_gradients(steps, boundary)
        for step in steps:
            if step.number <= boundary:
                self._settle(step)
                continue
            self._run_anew(step, recording, done)
        for leaf, current in grads:
            leaf._grad = current
        for n in range(len(self.handed)):  # the record has others from now on
            if type(self.handed[n]) is not Handed:
                self._let_one_go(n, self.handed[n])
        return tensor

    def _steps_to(self, number: int) -> list[Step]:
        return self.path.steps[:number]

    def _take_gradients(self, steps: list[Step], boundary: int) -> list[tuple[Any, Any]]:
        taken = []
        for step in steps:
            if step.event is not None and step.event.kind == "backward" and step.number > boundary:
                for place, _ in step.event.subject:
                    leaf = self._outside_now(step.path, place)
                    taken.append((leaf, leaf._grad))
                    leaf._grad = None
        return taken

    def _settle(self, step: Step) -> None:
        """What came before the step of an optimizer keeps its values; its graph was used up."""
        assert step.event is not None
        for number in step.event.results:
            tensor, value = self.handed[number], self.values[number]
            if type(tensor) is Handed:
                array = self.path.program.arrays[number].copy(order="K")
                become(tensor, array, freed() if value.grad else None, value.grad)
            elif type(tensor) is Read:
                become(tensor, tensor.array, freed(), True)

    def _run_anew(self, step: Step, recording: Recording, done: int) -> None:
        event = step.event
        assert event is not None
        before = MODES.grad
        if event.kind == "backward":
            self.handed[event.args[0][1]].backward(retain_graph=event.args[1][1])
            for place, number in event.subject:
                leaf = self._outside_now(step.path, place)
                self._take_over(number, leaf._grad, recording, event.calls <= done)
                leaf._grad = self.handed[number]
            return
        if event.kind == "step":
            return
        if event.kind == "detach":
            results = [self.handed[event.args[0][1]].detach()]
        else:
            MODES.grad = event.grad
            restored = self._as_it_was(step)
            try:
                result = call_with(event.entry.function, event.entry.op, self._arguments(step))
            finally:
                MODES.grad = before
                for tensor, array in restored:
                    tensor.array = array
            results = [result] if event.shape is None else list(result)
        for number, tensor in zip(event.results, results):
            self._take_over(number, tensor, recording, event.calls <= done and event.kind == "op")

    def _take_over(self, number: int, tensor: Any, recording: Recording, computed: bool) -> None:
        """The recorded tensor that the user has becomes what its op has given now."""
        handed = self.handed[number]
        read = self.read_numbers.get(number)
        if read is not None and not numpy.may_share_memory(read, tensor.array):
            _write(tensor.array, read)
        elif computed and self.path is not None:
            _write(tensor.array, self.path.program.arrays[number])
        become(handed, tensor.array, tensor.node, tensor._requires_grad, tensor._meta)
        recording.replace(tensor, handed)

    def _arguments(self, step: Step) -> list[Any]:
        event = step.event
        assert event is not None
        names = event.entry.op.parameter_names
        by_row = event.entry.op.row["by_row"]
        return [
            step.key if name == by_row else self._actual(described, step.path)
            for name, described in zip(names, event.args)
        ]

    def _actual(self, described: Any, path: Path) -> Any:
        kind, content = described
        if kind == "value":
            return self.handed[content]
        if kind == "outside":
            return self._outside_now(path, content)
        if kind == "list":
            return content[0]([self._actual(part, path) for part in content[1]])
        return content

    def _as_it_was(self, step: Step) -> list[tuple[Any, Any]]:
        """Tensors from outside that were written later than this step lend it what they held then; gives what to put back."""
        restored = []
        for number, tensor, array in reversed(self.written):
            if step.number < number:
                restored.append((tensor, tensor.array))
                tensor.array = array
        return restored[::-1] if len(restored) < 2 else list({id(tensor): (tensor, array) for tensor, array in restored[::-1]}.values())

    def _outlive(self, tensor: Any) -> Any:
        """A recorded tensor whose step is over becomes a plain one."""
        if type(tensor) is Handed:
            self.read(tensor)
        elif type(tensor) is Read:
            become(tensor, tensor.array, freed(), True)
        return tensor


def _write(array: Any, values: Any) -> None:
    if array.flags.writeable:
        array[...] = values


def _told(step: Step) -> str:
    if step.event is None:
        return "its end"
    return step.event.kind if step.event.entry is None else step.event.entry.key


def _flat(values: Any) -> list[Any]:
    result: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            result += _flat(value)
        else:
            result.append(value)
    return result

