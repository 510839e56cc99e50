"""Steps: what the record says the program does next, as the code of ops compares it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dynograd.arrays import address_of, base_of
from dynograd.autograd.nodes import FREED, Node
from dynograd.plans.memory import connected, overlaps_of
from dynograd.plans.programs import Program
from dynograd.plans.recording import Event, Recording
from dynograd.plans.watches import Watch
from dynograd.plans.writes.flags import toggled_by
from dynograd.plans.writes.spoiling import operands_of
from dynograd.tensor.tensor import Tensor

__all__ = ["FIELDS", "FRESH", "MOST", "UNSEEN", "Listed", "Path", "Step", "freed", "told"]

MOST = 8  # operands that the code of an op compares itself
FIELDS = tuple(f"a{place}" for place in range(MOST))
UNSEEN = object()  # no operand is this
FRESH = object()  # nor this, which stands for the one that is another tensor in each step


_OF_ONE_SIZE = ("grad", "differentiate", "place", "flag", "toggle", "ask")  # events that no other size takes over


class Step:
    """An event of the record, as the code of ops compares it. `a0` and so on are the operands by identity."""

    __slots__ = (
        *FIELDS,
        "args",
        "call",
        "event",
        "fresh",
        "grad",
        "key",
        "leaves",
        "loss",
        "next",
        "number",
        "of",
        "others",
        "path",
        "result",
        "results",
        "subject",
        "watch",
    )

    def __init__(self, event: Event | None, number: int, path: Any) -> None:
        self.event, self.number, self.path = event, number, path
        self.of: Any = None if event is None else event.entry
        self.grad = 0 if event is None else event.grad
        # As in the event, but values by their numbers in the tree.
        self.args: Any = ()
        self.results: list[int] = []
        self.subject: Any = None
        self.next: Any = None
        self.others: list[Step] = []  # what the program did instead, at another time
        self.result: Any = None
        self.key: Any = None
        self.fresh: Any = (
            None  # (place, number) of the one operand that is another tensor in each step, if there is one
        )
        self.leaves: list[
            tuple[Any, int]
        ] = []  # of a backward pass with a watch: those, with the numbers of their gradients
        self.loss: Any = None  # of a backward pass with a watch: see `walking.usual`
        self.call: Any = None  # of a view: see `walking.views`
        self.watch: Any = (
            None  # of a backward pass: that its leaves are free and nobody has its gradients of an earlier step
        )
        for field in FIELDS:
            setattr(self, field, UNSEEN)

    def outcome(self) -> object:
        """What the op gives. A list or tuple is another one each time: who keeps it is seen to have its tensors."""
        shape = None if self.event is None else self.event.shape
        return self.result if shape is None else shape([*self.result])


def _fresh_in(recording: Recording, program: Program) -> dict[int, Any]:
    """The memory of the plan for tensors that are others in each step, by number."""
    return {outside.number: program.outside[outside.number] for outside in recording.outside if outside.fresh}


class Path:
    """One way through the program: its steps, its tensors from outside, and what computes it."""

    def __init__(self, recording: Recording, program: Program, tree: Any) -> None:
        self.events, self.program, self.tree = recording.events, program, tree
        self.outside = [outside.apart(place) for outside, place in zip(recording.outside, program.outside)]
        self.staying = [outside for outside in self.outside if not outside.fresh]
        # Those that are others in each step and share memory in the plan, by number: there they lie as they did when they were recorded.
        self.overlaps = {} if program.on_gpu else overlaps_of(_fresh_in(recording, program))
        self.clusters = connected(self.overlaps)
        toggled = toggled_by(recording.events)
        self.watch = self._watch_of(set())  # that they are as they were
        self.within = self._watch_of(toggled) if toggled else self.watch  # the same, in the middle of a step
        stored = [event.args[0][1] for event in recording.events if event.kind == "store"]
        self.stored = {id(tensor): tensor for tensor in [self.outside[place].tensor for place in stored]}
        self.agreements: dict[Path, bool] = {}
        self.leaves = tuple([outside.tensor for outside in self.staying if outside.grad or outside.number in toggled])
        self.steps: list[Step] = []
        self.optimizers: dict[int, Any] = {}  # their steps in a walk, by the number of the step of the record
        self.open: list[int] = []  # values with a gradient that no backward pass of the record has used up
        self.made_leaves: list[int] = []  # values that are leaves with a gradient
        self.numbers: list[int] = []  # of its values in the tree, by their numbers in the record
        self.arrays: dict[int, Any] = {}  # where they lie, by their numbers in the tree
        self.histories: dict[Any, Any] = {}  # of results that were kept: see `plan_nodes`
        self.keyed: list[Step] = []  # those that draw random numbers
        self.read: Any = None  # the bounds of the memory from outside that calls read where it is: see `waiting`
        self.used = recording.consumed()
        self.spoilable = recording.spoilable()
        # Places of tensors from outside that stay, by the id of the memory's owner, which these keep.
        self.owners: dict[int, list[int]] = {}
        for outside in self.staying:
            self.owners.setdefault(id(base_of(outside.array)), []).append(outside.number)
        self.lease: Any = lambda: None  # gives what a backward pass from outside still needs the memory for
        self.needed: Any = lambda: None  # gives what a backward pass from outside still needs the steps for
        self.forward = len(recording.calls)
        self.checkpointed = list(recording.parts)
        self.parts: tuple[int, ...] | None = None  # the values that the recorded backward pass from outside began at
        # The places of leaves among those of the history to which its gradients go, one by one.
        self.receivers: tuple[int, ...] = ()
        self.constant_numbers = recording.constant_numbers
        self.result = recording.result
        self.idle: Sequence[int] = ()  # places among the sizes of the arguments of those that no op gets
        self.is_apart = False  # it shares no steps with other ways
        self.way = 0  # see `walking.pauses.way_of`
        self.walked, self.seconds = 0, 0.0  # calls along it, and how long they took together
        self.replayed, self.replay_seconds = 0, 0.0  # the same of calls without the program's Python
        self.not_replayed = ""  # why there are none
        self.gain: float | None = None  # see `walking.gains`

    def _watch_of(self, toggled: set[int]) -> Watch:
        """That tensors from outside are as they were, but for the flags of some."""
        watch = Watch()
        for outside in self.staying:
            watch.field(outside.tensor, "array", outside.array)
            watch.field(outside.tensor, "_meta", outside.meta)
            if outside.number not in toggled:
                watch.field(outside.tensor, "_requires_grad", outside.grad)
        watch.close()
        return watch

    def lie_alike(self, tensors: dict[int, Any], bound: dict[int, Any] | None = None) -> bool:
        """Whether tensors from outside that share memory in the plan lie in theirs at the same distances, beside `bound` of which that is known."""
        known = dict(bound) if bound else {}
        for number, tensor in tensors.items():
            if number not in self.overlaps:
                continue
            other = next((other for other in self.clusters[number] if other in known), None)
            if other is not None and self._moved_by(number, tensor) != self._moved_by(other, known[other]):
                return False
            known[number] = tensor
        return True

    def _moved_by(self, number: int, tensor: Any) -> int:
        """How far a tensor from outside lies from where the plan has it."""
        return address_of(tensor.array) - address_of(self.program.outside[number])

    def agrees_with(self, other: Path) -> bool:
        """Whether tensors from outside are as another way has them. Only then both share steps: a walk looks at all tensors of a way, and then goes there."""
        if other is not self and other not in self.agreements:
            mine = {id(outside.tensor): outside for outside in self.staying}
            self.agreements[other] = all(
                [
                    mine[id(its.tensor)].is_as(its) if id(its.tensor) in mine else its.is_current()
                    for its in other.staying
                ]
            )
        return other is self or self.agreements[other]

    def take(self, program: Program) -> None:
        """It is computed by `program` from now on."""
        self.program, self.gain = program, None
        self.arrays = self.arrays_of(program.arrays)
        calls = len(program.calls)
        # Values whose memory is used again: (after so many calls, number), in the order of time.
        self.lasts = dict(zip(self.numbers, program.ends))
        self.ends = sorted([(end, number) for number, end in zip(self.numbers, program.ends) if end < calls])
        self.watches: tuple[Watch, Watch] | None = None  # of those two
        # Values that a group does not write, unless somebody has them.
        self.gone = {self.numbers[number] for group in program.groups for number in group.gone}
        self.kin = {number: kin for number, kin in zip(self.numbers, program.kin) if kin is not None}
        self.consumed = {self.numbers[number]: event for number, event in self.used.items()}
        self.gradients = list(self._gradients())
        self.of_leaves = {number for _, number, _ in self.gradients}
        # Of these, what shares its memory with nothing, and what nothing in the step reads but optimizers: it may be written there.
        read = {number for event in self.events for number in operands_of(event.args)[0]}
        self.writeable = self.of_leaves.difference(self.kin, {self.numbers[number] for number in read})
        program.tell(self)

    def _gradients(self) -> Iterator[tuple[Tensor, int, Tensor]]:
        """(leaf, number of its gradient, that as the plan has it); after a write in place into one it has another number."""
        leaves: dict[int, Tensor] = {}
        for step in self.steps:
            kind = "" if step.event is None else step.event.kind
            new = (
                {number: self.outside[place].tensor for place, number, had in step.subject if not had}
                if kind == "backward"
                else {}
            )
            if kind == "rename" and step.args[0][1] in leaves:
                new = {step.args[1][1]: leaves[step.args[0][1]]}
            for number, leaf in new.items():
                yield leaf, number, Tensor.wrap(self.arrays[number])
            leaves |= new

    def arrays_of(self, arrays: list[Any]) -> dict[int, Any]:
        """Where values lie, by their numbers in the tree."""
        return dict(zip(self.numbers, arrays))

    def is_eligible(self) -> bool:
        """Whether it may stand for other sizes: nothing that it gives has a history, or the backward of that is learnt."""
        if self.program.on_gpu or any([event.kind in _OF_ONE_SIZE for event in self.events]):
            return False
        if any([outside.address is not None for outside in self.outside]):
            return False
        return not self.awaits_backward()

    def awaits_backward(self) -> bool:
        """Whether it gives something with a history, and the backward of that is still to be learnt."""
        return self.parts is None and not {self.numbers[number] for number in self.program.keeps}.isdisjoint(self.open)


class Freed(Node):
    """The history of a recorded tensor whose graph an earlier backward pass has used up."""

    __slots__ = ("title",)
    saved_names = ()
    op = None

    def name(self) -> str:
        return str(self.title)


def freed(path: Path, value: Any) -> Freed | None:
    """The history of a recorded tensor from now on: it leads to all leaves, so that whoever asks for their gradients is told."""
    if not value.grad or value.is_leaf:
        return None
    node = Freed()
    node.title = value.history
    node.edges, node.seq, node.hooks, node.attrs = path.leaves, 1, None, FREED
    return node


class Listed:
    """Tensors of a list, described as operands are."""

    __slots__ = ("args", "event", "path")

    def __init__(self, path: Any, args: Any) -> None:
        self.path, self.args, self.event = path, args, self


def told(step: Step) -> str:
    if step.event is None:
        return "its end"
    return step.event.kind if step.event.entry is None else step.event.entry.key
