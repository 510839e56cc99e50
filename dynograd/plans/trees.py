"""The record of a function: a tree of steps, which branches where the program went on differently."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from dynograd.interpreter.tensor_parts import SILENT
from dynograd.ops.readers import quick_entries, with_quick_ways
from dynograd.plans.comparing import same
from dynograd.plans.handed import Handed, Value, new_handed
from dynograd.plans.programs import Program
from dynograd.plans.recording import Event, Recording
from dynograd.plans.steps import FRESH, MOST, UNSEEN, Path, Step
from dynograd.plans.walking.usual import loss_of
from dynograd.plans.watches import Watch, compiled

__all__ = ["Tree"]


class Tree:
    """All ways through one function, and the recorded tensors that its ops hand out."""

    reader: Any
    copied_alike: Any
    put_in_place: Any

    def __init__(self) -> None:
        self.root = Step(None, -1, None)
        self.paths: list[Path] = []
        self.handed: list[Any] = []  # by number of value
        self.values: list[Value] = []
        self.counts: list[int] = []  # references to them when nobody else has them
        self.uses: list[list[tuple[Step, int]]] = []  # operands of steps, by number of value
        self.makers: list[list[Step]] = []  # steps that give it, by number of value
        self.results: list[int] = []  # the values that ops give
        self.first: list[int] = []  # the number of the step that gives a value
        self.sources: list[int] = []  # the value that was computed into the memory which a value shows
        self.watch = Watch().close()  # that nobody has the tensors of `results`, two rows each
        self.renames: dict[Step, tuple] = {}  # what is known of writes into values
        self.of_optimizers: list[Watch] = []
        self.watches: list[Watch] = []  # those, and of steps
        self.watching: dict[int, list[Watch]] = {}  # by number of value: those of them that know its tensor

    def add(self, recording: Recording, program: Program, is_apart: bool = False) -> None:
        """A new way through the program. It shares its first steps with others, unless it is one apart."""
        path = Path(recording, program, self)
        path.is_apart = is_apart
        self.paths.append(path)
        before = self.root
        shared = not is_apart
        events = recording.events
        for number, event in enumerate(events):
            step = self._step_like(before, events, number, path) if shared else None
            if step is None:
                shared = False
                step = Step(event, number, path)
                self._fill(step, recording, program)
                self._follow(before, step)
            else:
                path.numbers += step.results
            path.steps.append(step)
            if event.kind == "op" and event.entry.op.row["by_row"]:
                path.keyed.append(step)
            before = step
        if not any([other.event is None and path.agrees_with(other.path) for other in self._choices(before)]):
            self._follow(before, Step(None, len(recording.events), path))
        for step in path.steps:
            its_event = step.event
            if its_event is not None and its_event.kind == "differentiate" and step.path is path:
                count, numbers, forms = its_event.subject
                its_own = [None if number is None else path.numbers[number] for number in numbers]
                inner = path.steps[step.number + 1 : step.number + 1 + count]
                keyed = [(other, path.steps[source]) for other in inner if (source := source_of(other)) is not None]
                step.subject = path.steps[step.number + count], its_own, keyed, forms
        path.take(program)
        entries = {event.entry for event in recording.events if event.entry is not None}
        aside = {entry.key for entry in entries} | with_quick_ways(recording.through)
        entries |= quick_entries([entry.key for entry in entries if entry.op.view])
        if not (entries <= self.reader.seen and aside <= self.reader.sets_aside):
            self.reader.see_these(entries, aside)
        for number in range(len(self.handed)):
            # A leaf has it as its gradient since the program left the record.
            if type(self.handed[number]) is not Handed:
                self.put_in_place(number, new_handed(self.values[number]))
            self.counts[number] = getrefcount(self.handed[number])
        self._watch_all()
        path.open = [
            number
            for step in path.steps
            if step.event is not None and step.event.kind != "backward"
            for number in step.results
            if self.values[number].grad and not self.values[number].is_leaf and number not in path.consumed
        ]
        path.made_leaves = [number for number in path.numbers if self.values[number].is_leaf]

    def way_apart(self) -> Path | None:
        """The latest way that shares no steps with others and has its tensors from outside as they were."""
        return next((path for path in reversed(self.paths) if path.is_apart and path.watch.holds()), None)

    def _watch_all(self) -> None:
        """Watches know how many references tensors of the record have when nobody else has them."""
        self.watch = Watch()
        for number in self.results:
            self.watch.kind(number, self.handed[number], Handed)
            self.watch.holders(number, self.handed[number], self.counts[number])
        self.watch.close()
        self.copied_alike = compiled().copied_alike
        for path in self.paths:
            path.watches = None
        steps = [step for path in self.paths for step in path.steps if step.event and step.event.kind == "backward"]
        for step in dict.fromkeys(steps):
            step.watch = self._watch_of(step)
        self.watches = [self.watch, *[step.watch for step in steps if step.watch is not None], *self.of_optimizers]
        self.watching = {}

    def watch_too(self, watch: Watch) -> None:
        """Another watch that knows tensors of the record."""
        self.watches.append(watch)
        self.watching = {}

    def watches_of(self, path: Path) -> tuple[Watch, Watch]:
        """That nobody has the tensors of `path.ends`, one row each, and of `path.gone`."""
        if path.watches is None:
            path.watches = Watch(), Watch()
            for watch, numbers in zip(path.watches, ([number for _, number in path.ends], path.gone)):
                for number in numbers:
                    watch.holders(number, self.handed[number], self.counts[number])
                self.watch_too(watch.close())
        return path.watches

    def _watch_of(self, step: Step) -> Watch | None:
        """That all leaves are free, and the gradients as well. None: some are tensors of one step, or get what is added to their gradients."""
        watch, step.leaves, step.loss = Watch(), [], None
        for place, number, had in step.subject:
            outside = step.path.outside[place]
            if had or outside.fresh:
                return None
            step.leaves.append((outside.tensor, number))
            watch.field(outside.tensor, "_grad", None)
            watch.field(outside.tensor, "_meta", None)
            watch.field(outside.tensor, "_requires_grad", True)
            watch.kind(number, self.handed[number], Handed)
            watch.holders(number, self.handed[number], self.counts[number])
        step.loss = loss_of(step.args)
        return watch.close()

    def _follow(self, before: Step, step: Step) -> None:
        if before.next is None:
            before.next = step
        else:
            before.next.others.append(step)

    def _choices(self, before: Step) -> list[Step]:
        return [] if before.next is None else [before.next, *before.next.others]

    def _step_like(self, before: Step, events: list[Event], number: int, path: Path) -> Step | None:
        for step in self._choices(before):
            if path.agrees_with(step.path) and self._is_like(step, events[number], path.numbers, path):
                if events[number].kind != "differentiate" or self._leads_over(
                    step, events[number].subject[0], events[number + 1 :], path
                ):
                    return step
        return None

    def _leads_over(self, step: Step, count: int, events: list[Event], path: Path) -> bool:
        """Whether the events that a walk goes over are those behind `step`."""
        numbers = list(path.numbers)
        for event in events[:count]:
            step = step.next
            if not self._is_like(step, event, numbers, path):
                return False
            numbers += step.results
        return True

    def _is_like(self, step: Step, event: Event, numbers: list[int], path: Path) -> bool:
        other = step.event
        return (
            other is not None
            and other.kind == event.kind
            and other.entry is event.entry
            and other.grad == event.grad
            and len(other.results) == len(event.results)
            and other.subject == event.subject
            and self._alike(step.args, translated(event.args, numbers), step.path, path)
        )

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
                mine, other = left_path.outside[first], right_path.outside[second]
                if mine.fresh != other.fresh or (not mine.fresh and not mine.is_as(other)):
                    return False
                if mine.fresh and (mine.kind != other.kind or mine.address != other.address):
                    return False
            if kind == "same" and not same(first, second):
                return False
            if kind == "list" and (
                first[0] is not second[0] or not self._alike(first[1], second[1], left_path, right_path)
            ):
                return False
        return True

    def _fill(self, step: Step, recording: Recording, program: Program) -> None:
        event, path = step.event, step.path
        assert event is not None
        step.args = translated(event.args, path.numbers)
        for number in event.results:
            tensor = recording.values[number]
            place = len(self.handed)
            path.numbers.append(place)
            step.results.append(place)
            is_view = tensor._meta is not None and tensor._meta is not SILENT
            value = Value(self, place, program.arrays[number], bool(tensor._requires_grad), is_view)
            value.version = recording.version_of(number)
            value.history = recording.history_of(tensor)
            value.is_leaf = event.kind in ("flag", "place") and value.grad and tensor.node is None
            self.values.append(value)
            self.handed.append(new_handed(value))
            self.counts.append(0)
            self.uses.append([])
            self.makers.append([step])
            self.first.append(step.number)
            self.sources.append(self._source_of(step, place))
            if event.kind != "backward":
                self.results.append(place)
        if event.kind == "grad":
            numbers = iter(step.results)
            step.subject = step, [None if number is None else next(numbers) for number in event.subject], [], None
        elif event.kind == "backward":
            step.subject = [(place, number, had) for (place, _, had), number in zip(event.subject, step.results)]
        else:
            step.subject = event.subject
        self._set_result(step)
        if event.kind == "op":
            step.fresh = self._fresh_operand(path, step)
            for place, described in enumerate(step.args[:MOST]):
                setattr(step, f"a{place}", self._operand(described, path, step, place))

    def _source_of(self, step: Step, place: int) -> int:
        event = step.event
        assert event is not None
        shows = event.kind in ("detach", "flag") or (event.kind == "op" and event.entry.op.view)
        shows = shows and step.args[0][0] == "value" and (event.kind != "op" or self.values[place].is_view)
        return self.sources[step.args[0][1]] if shows else place

    def _fresh_operand(self, path: Path, step: Step) -> tuple[int, int] | None:
        kinds = [kind for kind, _ in step.args]
        fresh = [
            (place, content)
            for place, (kind, content) in enumerate(step.args)
            if kind == "outside" and path.outside[content].fresh
        ]
        if len(fresh) != 1 or not {*kinds} <= {"outside", "value", "same"}:
            return None
        outside = path.outside[fresh[0][1]]
        return None if outside.grad or outside.address is not None else fresh[0]

    def _set_result(self, step: Step) -> None:
        event = step.event
        assert event is not None
        if event.kind in ("op", "detach", "place"):
            results = [self.handed[number] for number in step.results]
            step.result = results[0] if event.shape is None else event.shape(results)

    def _operand(self, described: Any, path: Path, step: Step, place: int) -> Any:
        kind, content = described
        if kind == "value":
            self.uses[content].append((step, place))
            return self.handed[content]
        if kind == "outside":
            outside = path.outside[content]
            if outside.fresh:
                return UNSEEN if step.fresh is None else FRESH  # what it is in this step is found out when it comes
            return outside.tensor
        return content if kind == "same" else UNSEEN


def source_of(step: Step) -> int | None:
    """The number of the step that draws at the same place of the random stream."""
    return next((content for kind, content in step.args if kind == "key"), None)


def translated(args: Any, numbers: list[int]) -> tuple[Any, ...]:
    """Described operands, with the numbers of values in the tree."""
    return tuple(
        [
            (kind, numbers[content])
            if kind == "value"
            else (kind, (content[0], translated(content[1], numbers)))
            if kind == "list"
            else (kind, content)
            for kind, content in args
        ]
    )
