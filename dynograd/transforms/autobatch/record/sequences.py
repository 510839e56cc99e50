"""Sequences: ops that follow one another in the same way again and again are recorded as one call.

The program runs as it is written. Inside a sequence each op compares itself with the one that is next there, and gives a tensor back that
is kept for it; the calls enter the record together, when the next op comes that is none of the sequence, or when somebody looks at
a tensor. An op that is another one than expected has those before it recorded one by one. Which sequences there are is
`learning`'s to find; in groups their calls are again ops one by one, or fused (`group/expanding.py`).
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any
from weakref import getweakrefcount

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller
from dynograd.interpreter import TENSORS
from dynograd.ops.op import Op
from dynograd.transforms.autobatch.record.buckets import Port, Shared
from dynograd.transforms.autobatch.record.forms import Form, frozen
from dynograd.transforms.autobatch.record.pending import Kind, Lazy, note_view
from dynograd.transforms.batching.batched import _active as active_vmaps

__all__ = ["FIELDS", "MOST", "UNSEEN", "Sequence", "SequenceForm", "Sequences", "Step", "StepPort", "operand", "other"]

MOST = 12  # arguments that the code of an op compares
FIELDS = tuple([f"a{place}" for place in range(MOST)])
UNSEEN = object()  # no argument is this
MISS = object()
INSIDE, INPUT, AGAIN, FIXED, STATIC = "inside", "input", "again", "fixed", "static"
_new = object.__new__
_MOST_AT = 32  # sequences that begin with one op
OFTEN = (1 << 10) - 1  # after so many calls it is looked whether too many wait
_LONGEST_PAUSE = 63  # scopes, until it is looked again which sequences there are
_CHANCES = 8  # times that a sequence may be left before its end, beside a quarter of the times that it was gone through


class Step:
    """An op of a sequence, as the code of ops compares it: `a0` and so on are its arguments by identity.

    `wants` says of each argument what it is: (INSIDE, number of a result), (INPUT, kind), (AGAIN, number of an input), (FIXED, tensor) or
    (STATIC, value as a key).
    """

    __slots__ = (
        *FIELDS,
        "args",
        "form",
        "grad",
        "next",
        "number",
        "of",
        "op",
        "pack",
        "result",
        "results",
        "sequence",
        "wants",
    )

    def __init__(self, sequence: Any = None, number: int = 0) -> None:
        self.sequence, self.number = sequence, number
        self.of = self.op = self.form = self.next = self.result = self.pack = None
        self.grad = -1
        self.wants: tuple[tuple[str, Any], ...] = ()
        self.args: tuple = ()  # how the arguments are nested: for each an index of `wants`, or a list of them
        self.results: list[int] = []  # their numbers


class StepPort:
    """What a tensor of a sequence has for a port until its call is in the record. Whoever asks it for more than the kind has it recorded."""

    __slots__ = ("is_view", "kind", "lazy", "sequences")
    is_open = True

    def __init__(self, sequences: Sequences, kind: Kind, is_view: bool) -> None:
        self.sequences, self.kind, self.is_view = sequences, kind, is_view
        self.lazy: Any = None

    def __getattr__(self, name: str) -> Any:
        lazy = self.lazy
        self.sequences.between()
        if type(lazy.pending) is not Port:
            raise RuntimeError(f"autobatch: {name} of a call that is not in the record")
        return getattr(lazy.pending, name)


class SequenceForm(Form):
    """The form of a sequence's calls: `kinds` are those of the results of all its ops."""

    __slots__ = ("sequence",)

    def __init__(self, sequence: Sequence, op: Op, kinds: tuple[Kind, ...], grad: int) -> None:
        super().__init__(op, {}, grad)
        self.sequence, self.kinds, self.single = sequence, kinds, False
        self.label = f"sequence from {op.name} on"


class Sequence:
    """Ops that follow one another, and the tensors that are given back for them."""

    def __init__(
        self,
        sequences: Sequences,
        described: tuple,
        place: tuple[Any, int],
        steps: list[Step],
        kinds: list[Kind],
        inputs: int,
        fixed: list[Any],
    ) -> None:
        self.sequences, self.described, self.place, self.steps = sequences, described, place, steps
        self.inputs, self.fixed = inputs, fixed
        self.form = SequenceForm(self, steps[0].op, tuple(kinds), steps[0].grad)  # type: ignore[arg-type]
        self.times = self.left = 0  # how often it was gone through, and left before its end
        self.fused: dict[Any, Any] = {}  # by the results that are needed: the form of a cell, or why there is none
        self.calls = 0
        end = Step(self, len(steps))
        for step, following in zip(steps, [*steps[1:], end], strict=True):
            step.sequence, step.next = self, following
        self.makers = [step for step in steps for _ in step.results]
        # Where each result is an argument.
        self.uses: list[list[tuple[Step, str]]] = [[] for _ in kinds]
        for step in steps:
            for field, (what, content) in zip(FIELDS, step.wants):
                if what == INSIDE:
                    self.uses[content].append((step, field))
        self.base = [self._base_of(number) for number in range(len(kinds))]
        self.ports = [
            StepPort(sequences, kind, base is not None) for kind, base in zip(kinds, self.base, strict=True)
        ]
        self.lazies: list[Any] = [None] * len(kinds)
        for number in range(len(kinds)):
            self.renew(number)
        self.given: list[int] = []  # results that somebody had when the next op came
        self.given_views: list[tuple[int, str, int]] = []  # those that are views, with what of
        # The others, and how many references they have where nobody has them.
        self.inner_numbers = list(range(len(kinds)))
        self._show_inner()
        self.counts = list(map(getrefcount, self.inner))

    def _base_of(self, number: int) -> tuple[str, int] | None:
        """Of a view, what it is a view of: (INSIDE, number) or (INPUT, number)."""
        step = self.makers[number]
        if not step.op.view:  # type: ignore[attr-defined]
            return None
        what, content = step.wants[0]
        if what == INPUT:
            content = self._input_at(step, 0)
        return (INPUT, content) if what == AGAIN else (what, content)

    def _input_at(self, at: Step, place: int) -> int:
        """The number of the input that this argument is."""
        number = 0
        for step in self.steps:
            for other, (what, _) in enumerate(step.wants):
                if step is at and other == place:
                    return number
                number += what == INPUT
        raise AssertionError

    def renew(self, number: int) -> None:
        """The next call gives another tensor for this result."""
        lazy, port, step = _new(Lazy), self.ports[number], self.makers[number]
        lazy.pending, lazy.row, port.lazy = port, 0, lazy
        self.lazies[number] = lazy
        if step.pack is None:
            step.result = lazy
        else:
            step.result[number - step.results[0]] = lazy
        for user, field in self.uses[number]:
            setattr(user, field, lazy)

    def finish(self, recorder: Any) -> None:
        """The call enters the record; results that somebody has are rows of it."""
        lazies, operands = self.lazies, recorder.operands
        key = self.form, *[port for _, port, _ in operands]
        entry = recorder.table.get(key)
        if entry is None:
            entry = recorder.table[key] = self._enter(recorder, operands)
        columns, next_row, ports = entry
        for (add, base), (_, _, row) in zip(columns, operands):
            add(base + row)
        row = next_row()
        recorder.operands = []
        self.times += 1
        if list(map(getrefcount, self.inner)) != self.counts or any(map(getweakrefcount, self.inner)):
            self._note_held()
        for number in self.given:
            lazy = lazies[number]
            lazy.pending, lazy.row = ports[number], row
        for number, what, place in self.given_views:
            note_view(lazies[number], lazies[place] if what == INSIDE else operands[place][0])
        for number in self.given:
            self.renew(number)
        recorder.sequence_calls += 1
        if not recorder.sequence_calls & OFTEN:
            recorder.check_size()

    def _note_held(self) -> None:
        """Somebody has results that nobody had so far: they are given out from now on."""
        counts = dict(zip(self.inner_numbers, self.counts, strict=True))
        given = [
            number
            for number, references in zip(self.inner_numbers, map(getrefcount, self.inner), strict=True)
            if references != counts[number] or getweakrefcount(self.lazies[number])
        ]
        for number in given:  # grows while it is read: a view holds what it is a view of
            base = self.base[number]
            if base is not None and base[0] == INSIDE and base[1] not in (*given, *self.given):
                given.append(base[1])
        self.given += given
        self.given_views = [(number, *base) for number in self.given if (base := self.base[number]) is not None]
        for number in given:
            del counts[number]
        self.inner_numbers, self.counts = [*counts], [*counts.values()]
        self._show_inner()

    def _show_inner(self) -> None:
        self.inner = [self.lazies[number] for number in self.inner_numbers]

    def _enter(self, recorder: Any, operands: list[Any]) -> tuple:
        """What the table has for calls with operands of these ports."""
        bucket = recorder.bucket_for(self.form, [(port, row) for _, port, row in operands])
        columns = [
            (column.append, recorder.base_of(port)) for column, (_, port, _) in zip(bucket.columns, operands, strict=True)
        ]
        return columns, bucket.next_row, bucket.ports

    def leave(self, recorder: Any, count: int) -> None:
        """Only the first `count` ops have come: they are recorded one by one."""
        self.left += 1
        operands, recorder.operands = recorder.operands, []
        mode = MODES.grad
        renewed: list[int] = []
        inputs = iter(operands)
        try:
            for step in self.steps[:count]:
                values = [self._value(want, operands, inputs) for want in step.wants]
                args = tuple(
                    [values[place] if type(place) is int else [values[part] for part in place] for place in step.args]
                )
                MODES.grad = step.grad
                result = self.sequences.record(recorder, step.op, args)
                for number, lazy in zip(step.results, [result] if step.pack is None else result, strict=True):
                    self._stand_for(number, lazy)
                    renewed.append(number)
        finally:
            MODES.grad = mode
        for number in renewed:
            self.renew(number)
        self._show_inner()
        if self.left > _CHANCES and 4 * self.left > self.times:
            self.sequences.drop(self)

    def _stand_for(self, number: int, recorded: Any) -> None:
        """The tensor that was given back is what the op gives now."""
        lazy = self.lazies[number]
        lazy.pending, lazy.row = recorded.pending, recorded.row
        origin = getattr(recorded, "origin", None)
        if origin is not None:
            note_view(lazy, origin)

    def _value(self, want: tuple[str, Any], operands: list[Any], inputs: Any) -> Any:
        what, content = want
        if what == INSIDE:
            return self.lazies[content]
        if what == INPUT:
            return next(inputs)[0]
        if what == AGAIN:
            return operands[content][0]
        return content if what == FIXED else content[1]

    def is_valid(self, recorder: Any) -> bool:
        """Whether its parameters are what they were; the record knows then that it needs them."""
        if self in recorder.valid:
            return True
        for tensor, kind in self.fixed:
            entry = recorder.entry_of(tensor)
            if type(entry) is not Shared or entry.kind is not kind or tensor.node is not None:
                return False
        recorder.valid.add(self)
        return True


class Sequences:
    """The sequences of a function, from call to call, and where its program is: in one of them, or between two."""

    record: Any = None  # what `recording` and `learning` give
    new_log: Any = None
    learned: Any = None

    def __init__(self, exact: bool = False) -> None:
        self.exact = exact  # no fused kernels
        self.starts: dict[Any, list[Sequence]] = {}  # by the op that they begin with
        self.codes: dict[int, Any] = {}  # keeps code, so that ids stay its own
        self.between_steps, self.learning = Step(), Step()
        self.recorder: Any = None
        self.log: Any = None
        self.waits, self.pause = 1, 0  # scopes until one is learned from again
        self.scopes = self.inside = self.alone = 0  # scopes, and ops in them within a sequence and alone

    @property
    def all(self) -> list[Sequence]:
        return [sequence for sequences in self.starts.values() for sequence in sequences]

    def drop(self, sequence: Sequence) -> None:
        alike = self.starts[sequence.steps[0].of]
        if sequence in alike:
            alike.remove(sequence)

    def begin(self, recorder: Any) -> None:
        """A scope begins: in the first one it is seen which sequences there are."""
        self.recorder, self.scopes = recorder, self.scopes + 1
        self.inside = self.alone = 0
        if self.waits:
            self.waits -= 1
            recorder.at = self.between_steps
        else:
            self.log = self.new_log(self)
            recorder.at = self.learning

    def end(self, recorder: Any) -> None:
        """The scope is over."""
        self.between()
        learns = recorder.at is self.learning
        recorder.at = self.recorder = None
        if learns:
            log, self.log = self.log, None
            known = {sequence.described for sequence in self.all}
            for sequence in self.learned(log):
                alike = self.starts.setdefault(sequence.steps[0].of, [])
                if sequence.described not in known and len(alike) < _MOST_AT:
                    alike.append(sequence)
            self.waits = self.pause = min(2 * self.pause + 1, _LONGEST_PAUSE)
        elif not self.waits and self.inside >= self.alone:
            self.waits = 1  # what it knows is enough

    def between(self) -> None:
        """What comes next is no step of a sequence, or has to find all calls in the record."""
        recorder = self.recorder
        if recorder is None:
            return
        step = recorder.at
        if step is self.between_steps:
            return
        if step is self.learning:
            self.log.interrupt()
            return
        recorder.at = self.between_steps
        if step.of is None:
            step.sequence.finish(recorder)
        else:
            step.sequence.leave(recorder, step.number)

    def other(self, recorder: Any, op: Op, this: Any, args: tuple) -> Any:
        """An op that is not the next one of a sequence: it may begin another. MISS: it is recorded by itself."""
        if recorder.at is self.learning:
            return self.log.record(recorder, op, this, args)
        self.between()
        sequences = self.starts.get(this)
        if sequences is not None:
            place = None if len(sequences) == 1 else caller()
            for sequence in sequences:
                step = sequence.steps[0]
                if (
                    (place is None or sequence.place == place)
                    and step.grad == MODES.grad
                    and recorder.cast is None
                    and not active_vmaps.levels
                    and sequence.is_valid(recorder)
                ):
                    if all([operand(recorder, step, number, value) for number, value in enumerate(flat(args, this))]):
                        recorder.at = step.next
                        self.inside += len(sequence.steps)
                        return step.result if step.pack is None else step.pack(step.result)
                    recorder.operands = []
        self.alone += 1
        return MISS


def layer(recorder: Any, op: Op, *args: Any) -> Any:
    """A call of a layer that is this op, and not the next one of a sequence.

    Raises:
        KeyError: it is looked at which sequences there are; the call goes its usual way then.
    """
    if recorder.at is recorder.sequences.learning:
        raise KeyError
    return recorder.sequences.other(recorder, op, op, args)


def flat(args: tuple, this: Any) -> list[Any]:
    """The arguments as the fields of a step have them: the tensors of an op's list one by one."""
    if type(this) is not tuple:
        return list(args)
    place = this[2]
    return [*args[:place], *args[place], *args[place + 1 :]]


def other(recorder: Any, op: Op, this: Any, args: tuple) -> Any:
    return recorder.sequences.other(recorder, op, this, args)


def operand(recorder: Any, step: Step, place: int, value: Any) -> bool:
    """Whether `value` is what the step has at this place, where it is not the same object; an input is noted."""
    what, content = step.wants[place]
    if what == INPUT:
        if type(value) is Lazy:
            port, row = value.pending, value.row
            if type(port) is not Port or port.kind is not content or port.bucket.recorder is not recorder:
                return False
        elif type(value) in TENSORS:
            entry = recorder.entry_of(value)
            if type(entry) is not tuple or entry[0].kind is not content:
                return False
            port, row = entry
        else:
            return False
        recorder.operands.append((value, port, row))
        return True
    if what == AGAIN:
        return recorder.operands[content][0] is value
    if what == STATIC:
        try:
            return bool(frozen(value) == content[0])
        except TypeError:
            return False
    return value is getattr(step, FIELDS[place])
