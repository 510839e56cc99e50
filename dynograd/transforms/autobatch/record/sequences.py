"""Sequences: ops that follow one another in the same way again and again are recorded as one call.

The program runs as it is written. Inside a sequence each op compares itself with the one that is next there, and gives a tensor back that
is kept for it; the calls enter the record together, when the next op comes that is none of the sequence, or when somebody looks at
a tensor. An op that is another one than expected has those before it recorded one by one. Which sequences there are is
`learning`'s to find; in groups their calls are again ops one by one, or fused (`group/expanding.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from sys import getrefcount
from typing import Any
from weakref import getweakrefcount

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller, frame_at
from dynograd.ops.op import Op
from dynograd.transforms.autobatch.record.buckets import Port, Shared
from dynograd.transforms.autobatch.record.forms import Form
from dynograd.transforms.autobatch.record.pending import Kind, Lazy, note_view
from dynograd.transforms.autobatch.record.sequence_code import beginning_of, end_of
from dynograd.transforms.autobatch.record.sequence_steps import AGAIN, FIELDS, FIXED, INPUT, INSIDE, Step
from dynograd.transforms.batching.batched import _active as active_vmaps

MISS = object()
_new = object.__new__
_MOST_AT = 32  # sequences that begin with one op
_LONGEST_PAUSE = 1023  # scopes, until it is looked again which sequences there are
_FRUITLESS = 16  # times as long as before is the pause where none was found
_GAIN = 2  # an op in a sequence saves 0.5 us or more, one alone costs 1 us more than without sequences
_CHANCES = 8  # times that a sequence may be left before its end, beside a quarter of the times that it was gone through


class StepPort:
    """What a tensor of a sequence has for a port until its call is in the record. Whoever asks it for more than the kind has it recorded."""

    __slots__ = ("is_view", "kind", "number", "sequence")
    is_open = True

    def __init__(self, sequence: Sequence, number: int, kind: Kind, is_view: bool) -> None:
        self.sequence, self.number, self.kind, self.is_view = sequence, number, kind, is_view

    def enter(self) -> None:
        """Has the call recorded: the tensor has a port of the record then."""
        self.sequence.sequences.between()

    def __getattr__(self, name: str) -> object:
        lazy = self.sequence.lazies[self.number]
        self.enter()
        if type(lazy.pending) is not Port:
            raise RuntimeError(f"autobatch: {name} of a call that is not in the record")
        return getattr(lazy.pending, name)


class SequenceForm(Form):
    """The form of a sequence's calls: `kinds` are those of the results of all its ops."""

    __slots__ = ("calls", "sequence")

    def __init__(self, sequence: Sequence, op: Op, kinds: tuple[Kind, ...], grad: int) -> None:
        super().__init__(op, {}, grad)
        self.sequence, self.kinds = sequence, kinds
        self.label, self.calls = f"sequence from {op.name} on", len(sequence.steps)


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
        self.form = SequenceForm(self, steps[0].op, tuple(kinds), steps[0].grad)
        self.calls = self.left = 0  # how often it was gone through, and left before its end
        self.fused: dict[Any, Any] = {}  # by the results that are needed: the form of a cell
        self.rows: dict[Any, Any] = {}  # by the same: the form of groups that run op by op
        end = Step(self, len(steps))
        for step, following in zip(steps, [*steps[1:], end], strict=True):
            step.sequence, step.next = self, following
        self.finish: Any = None
        self.makers = [step for step in steps for _ in step.results]
        # Where each result is an argument.
        self.uses: list[list[tuple[Step, str]]] = [[] for _ in kinds]
        for step in steps:
            for field, (what, content) in zip(FIELDS, step.wants):
                if what == INSIDE:
                    self.uses[content].append((step, field))
        self.base = [self._base_of(number) for number in range(len(kinds))]
        self.ports = [
            StepPort(self, number, kind, base is not None)
            for number, (kind, base) in enumerate(zip(kinds, self.base, strict=True))
        ]
        self.lazies: list[Any] = [None] * len(kinds)
        for number in range(len(kinds)):
            self.renew(number)
        self.given: list[int] = []  # results that somebody had when the next op came
        self.show_inner()
        self.begin = beginning_of(self)

    def _base_of(self, number: int) -> tuple[str, int] | None:
        """Of a view, what it is a view of: (INSIDE, number) or (INPUT, number)."""
        step = self.makers[number]
        if not step.op.view:
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
        lazy, step = _new(Lazy), self.makers[number]
        lazy.pending, lazy.row = self.ports[number], 0
        self.lazies[number] = lazy
        if step.pack is None:
            step.result = lazy
        else:
            step.result[number - step.results[0]] = lazy
        for user, field in self.uses[number]:
            setattr(user, field, lazy)

    def give_more(self, row: int, ports: tuple, operands: list[Any]) -> None:
        """Somebody has results that nobody had so far: they are given out from now on."""
        more = [
            number
            for number, references, count in zip(
                self.inner_numbers, list(map(getrefcount, self.inner)), self.counts, strict=True
            )
            if references != count or getweakrefcount(self.lazies[number])
        ]
        for number in more:  # grows while it is read: a view holds what it is a view of
            base = self.base[number]
            if base is not None and base[0] == INSIDE and base[1] not in (*more, *self.given):
                more.append(base[1])
        self.given = sorted([*self.given, *more])
        for number in self.given:
            lazy, base = self.lazies[number], self.base[number]
            lazy.pending, lazy.row = ports[number], row
        for number in self.given:
            base = self.base[number]
            if base is not None:
                note_view(self.lazies[number], self.lazies[base[1]] if base[0] == INSIDE else operands[base[1]][0])
        for number in self.given:
            self.renew(number)
        self.show_inner()

    def show_inner(self) -> None:
        """Looks which results nobody is given, and how many references they have."""
        self.inner_numbers = [number for number in range(len(self.lazies)) if number not in self.given]
        self.inner = [self.lazies[number] for number in self.inner_numbers]
        self.counts = list(map(getrefcount, self.inner))
        watch = self.sequences.new_watch()
        for number, lazy, count in zip(self.inner_numbers, self.inner, self.counts, strict=True):
            watch.alone(number, lazy, count)
        self.watch = watch.close()  # what `finish` looks at
        self.finish = end_of(self)

    def _enter(self, recorder: Any, operands: list[Any]) -> tuple:
        """What the table has for calls with operands of these ports."""
        bucket = recorder.bucket_for(self.form, [(port, row) for _, port, row in operands])
        columns = []
        for column, (_, port, _) in zip(bucket.columns, operands, strict=True):
            columns += [column.append, recorder.base_of(port)]
        return *columns, bucket.next_row, bucket.ports

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
        self.show_inner()
        if self.left > _CHANCES and 4 * self.left > self.calls:
            self.sequences.drop(self)

    def _stand_for(self, number: int, recorded: Any) -> None:
        """The tensor that was given back is what the op gives now."""
        lazy = self.lazies[number]
        lazy.pending, lazy.row = recorded.pending, recorded.row
        origin = getattr(recorded, "origin", None)
        if origin is not None:
            note_view(lazy, origin)

    def _value(self, want: tuple[str, Any], operands: list[Any], inputs: Any) -> object:
        what, content = want
        if what == INSIDE:
            return self.lazies[content]
        if what == INPUT:
            return next(inputs)[0]
        if what == AGAIN:
            return operands[content][0]
        return content if what == FIXED else content[1]

    def note(self, calls: int) -> None:
        """So many calls of it are about to run."""
        self.calls += calls
        self.sequences.inside += calls * len(self.steps)

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

    def __init__(self, new_watch: Callable[[], Any]) -> None:
        self.new_watch = new_watch  # a `Watch` of compiled steps
        self.starts: dict[Any, list[Sequence]] = {}  # by the op that they begin with
        # By op: how many frames up from `_of_this_place` the program was that called it, and those of `starts` by code and place in it.
        self.by_place: dict[Any, tuple[int, dict[int, dict[int, list[Sequence]]]]] = {}
        # By id: code, kept so that ids stay its own, and whether its frames tell where in the program a call is.
        self.codes: dict[int, tuple[Any, bool]] = {}
        self.between_steps, self.learning = Step(), Step()
        self.recorder: Any = None
        self.log: Any = None
        self.waits, self.pause = 1, 0  # scopes until one is learned from again
        self.pays = False  # whether most ops are in sequences
        self.on_trial = False  # whether that is to be seen in the next scope
        self.scopes = self.inside = self.alone = 0  # scopes, and ops in them within a sequence and alone

    @property
    def all(self) -> list[Sequence]:
        return [sequence for sequences in self.starts.values() for sequence in sequences]

    def drop(self, sequence: Sequence) -> None:
        alike = self.starts[sequence.steps[0].of]
        if sequence in alike:
            alike.remove(sequence)
        self.by_place.clear()

    def begin(self, recorder: Any) -> None:
        """A scope begins: it is seen which sequences there are, or those that are known are gone through."""
        self.recorder, self.scopes = recorder, self.scopes + 1
        self.inside = self.alone = 0
        if self.waits:
            self.waits -= 1
            if self.pays:
                recorder.at = self.between_steps
        else:
            self.log = self.new_log(self)
            recorder.at = self.learning

    def give_up(self) -> None:
        """Hardly an op of the scope that is looked at follows another: the rest of it is recorded as without sequences."""
        self.recorder.at = self.log = None
        self._wait(False)

    def _wait(self, pays: bool) -> None:
        """It has been looked which sequences there are: for how many scopes that is enough."""
        self.pays = pays
        self.waits = self.pause = min((2 if pays else _FRUITLESS) * self.pause + 1, _LONGEST_PAUSE)

    def end(self, recorder: Any) -> None:
        """The scope is over."""
        self.between()
        at, recorder.at, self.recorder = recorder.at, None, None
        if at is self.learning:
            log, self.log = self.log, None
            known = {sequence.described for sequence in self.all}
            for sequence in self.learned(log):
                alike = self.starts.setdefault(sequence.steps[0].of, [])
                if sequence.described not in known and len(alike) < _MOST_AT:
                    alike.append(sequence)
            self.by_place.clear()
            self._wait(bool(self.all))
            self.on_trial = self.pays
        elif at is not None:
            on_trial, self.on_trial = self.on_trial, False
            self.pays = self.inside > _GAIN * self.alone
            if self.pays:
                self.waits = max(self.waits, 1)  # what it knows is enough
            elif on_trial:
                self._wait(False)

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


def other(recorder: Any, op: Op, this: Any, args: tuple) -> object:
    """An op that is not the next one of a sequence: it may begin another. MISS: it is recorded by itself."""
    sequences, step = recorder.sequences, recorder.at
    if step is not sequences.between_steps:
        if step is sequences.learning:
            return sequences.log.record(recorder, op, this, args)
        if step.of is None:
            recorder.at = sequences.between_steps
            step.sequence.finish(recorder)
        else:
            sequences.between()
    beginning = sequences.starts.get(this)
    if beginning is not None and recorder.cast is None and not active_vmaps.levels:
        for sequence in beginning if len(beginning) == 1 else _of_this_place(sequences, this, beginning):
            if (
                sequence.form.grad == MODES.grad
                and (sequence in recorder.valid or sequence.is_valid(recorder))
                and sequence.begin(recorder, args)
            ):
                step = sequence.steps[0]
                return step.result if step.pack is None else step.pack(step.result)
    sequences.alone += 1
    return MISS


def _of_this_place(sequences: Sequences, this: Any, beginning: list[Sequence]) -> Collection[Sequence]:
    """Those that begin where the program calls the op `this`, looked for first as many frames up as the latest time."""
    known = sequences.by_place.get(this)
    if known is not None:
        depth, by_code = known
        try:
            frame: Any = frame_at(depth)
        except ValueError:  # it was called from deeper then
            frame = None
        if frame is not None and id(frame.f_code) in by_code:
            return by_code[id(frame.f_code)].get(frame.f_lasti, ())
    place = caller(3)
    frame, depth = frame_at(1), 1
    while place is not None and frame is not None:
        if frame.f_code is place[0]:
            by_code = {}
            for sequence in beginning:  # which keep their code, so that ids stay its own
                code, at = sequence.place
                by_code.setdefault(id(code), {}).setdefault(at, []).append(sequence)
            sequences.by_place[this] = depth, by_code
            break
        frame, depth = frame.f_back, depth + 1
    return beginning if place is None else [sequence for sequence in beginning if sequence.place == place]


def layer(recorder: Any, op: Op, *args: Any) -> object:
    """A call of a layer that is this op, and not the next one of a sequence.

    Raises:
        KeyError: it is looked at which sequences there are; the call goes its usual way then.
    """
    if recorder.at is recorder.sequences.learning:
        raise KeyError
    return other(recorder, op, op, args)
