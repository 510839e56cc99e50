"""Which sequences of ops a program has: those that one another's calls follow at the same places each time.

One scope is recorded op by op, with the place in the program that each call came from. Ops whose successor is always the same, and
whose predecessor too, belong together; what begins or ends a loop, a branch or a recursion has several.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller
from dynograd.base.generated_sources import is_generated
from dynograd.interpreter import TENSORS
from dynograd.ops.op import Op
from dynograd.transforms.autobatch.record.forms import Form, frozen, kind_of
from dynograd.transforms.autobatch.record.new_calls import LIST, OWN, roles_of
from dynograd.transforms.autobatch.record.pending import Lazy
from dynograd.transforms.autobatch.record.recording import record
from dynograd.transforms.autobatch.record.sequence_code import OFTEN
from dynograd.transforms.autobatch.record.sequence_steps import (
    AGAIN,
    FIELDS,
    FIXED,
    INPUT,
    INSIDE,
    MOST,
    STATIC,
    UNSEEN,
    Step,
    flat,
    is_constant,
)
from dynograd.transforms.autobatch.record.sequences import Sequence, Sequences

_TIMES = 4  # that a sequence was met in the scope
_SHORTEST = 3  # ops: 2 cost as much to go through as to record
_MODULES = "dynograd.nn.module"
_LOG = 100_000  # ops that are looked at
_ENOUGH, _SHARE = (
    4096,
    8,
)  # it ends after so many calls where less than one in so many is an op of a run: nearly all are cells


class Logged:
    """A call that was recorded while it was looked at."""

    __slots__ = (
        "alone",
        "entries",
        "form",
        "grad",
        "key",
        "kind",
        "op",
        "place",
        "results",
        "single",
        "this",
        "values",
    )


class Log:
    """The calls of a scope, in order; None stands where something else happened."""

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sequences
        self.calls: list[Logged | None] = []
        self.count = 0
        self.run = self.in_runs = (
            0  # ops that have followed one another just now, and all that are in runs that are long enough
        )

    def interrupt(self) -> None:
        self._note(None)

    def _note(self, call: Logged | None) -> None:
        self.calls.append(call)
        if call is None or call.alone:
            self.run = 0
        else:
            self.run += 1
            if self.run >= _SHORTEST:
                self.in_runs += _SHORTEST if self.run == _SHORTEST else 1
        if len(self.calls) == _ENOUGH and self.in_runs * _SHARE < _ENOUGH:
            self.sequences.give_up()

    def record(self, recorder: Any, op: Op, this: Any, args: tuple) -> object:
        self.count += 1
        if self.count & OFTEN == OFTEN:
            recorder.check_size()
        if self.count > _LOG:
            self._note(None)
            return record(recorder, op, args)
        values = flat(args, this)
        entries = [_entry_of(recorder, value) for value in values]
        place = caller()
        key = self._key(op, this, entries, place)
        result = record(recorder, op, args)
        logged = Logged()
        logged.op, logged.this, logged.values, logged.entries, logged.key = op, this, values, entries, key
        logged.grad, logged.place = MODES.grad, place
        logged.single = type(result) is Lazy
        logged.results = [result] if logged.single else list(result) if isinstance(result, tuple) else []
        logged.alone = not self._may_be_in_one(recorder, logged)
        self._note(logged)
        return result

    def _key(self, op: Op, this: Any, entries: list[Any], place: tuple[Any, int] | None) -> tuple:
        """Where the call comes from: all frames up to the user's, and which parameters and other arguments it has."""
        frame: Any = inspect.currentframe()
        frames, codes = [], self.sequences.codes
        last = None if place is None else place[0]
        while frame is not None:
            code = frame.f_code
            known = codes.get(id(code))
            if known is None:
                # Calls of modules go several ways there, and so do those of functions that are written at their first call.
                known = codes[id(code)] = code, frame.f_globals.get("__name__") != _MODULES and not is_generated(code)
            if known[1]:
                frames.append((id(code), frame.f_lasti))
            if code is last:
                break
            frame = frame.f_back
        own = tuple([part if type(part) is not tuple else part[0] for part in _keys(entries)])
        return op.name, this, tuple(frames), own

    def _may_be_in_one(self, recorder: Any, logged: Logged) -> bool:
        op = logged.op
        if not logged.results or not all([type(result) is Lazy for result in logged.results]):
            return False
        bucket = logged.results[0].pending.bucket
        logged.form = bucket.form
        logged.kind = bucket.form, bucket.shared
        return (
            type(logged.form) is Form
            and bucket.recorder is recorder
            and len(logged.values) <= MOST
            and not bucket.common
            and not op.row["by_row"]
            and logged.form.casting is None
            and logged.grad <= 1
            and None not in logged.entries
            and any([entry[0] == INPUT for entry in logged.entries])
            and not (op.name == "add" and not logged.form.kinds[0].shape)  # of running sums
            and all([kind.device.type == "cpu" for kind in logged.form.kinds])
            and OWN not in roles_of(op)
        )


def _entry_of(recorder: Any, value: Any) -> tuple[str, Any] | None:
    """What an argument is, as far as one call shows; None: it cannot be in a sequence."""
    if type(value) is Lazy:
        if value.pending.bucket.recorder is not recorder:
            return None
        return INPUT, value.pending
    if type(value) in TENSORS:
        if (
            value.node is not None and value.node.op is not None and value.node.op.view
        ):  # `weight.t()`, another one in each call
            return None
        entry = recorder.entry_of(value)
        if type(entry) is tuple:
            return INPUT, entry[0]
        return (FIXED, value) if value.node is None else None
    try:
        return STATIC, (frozen(value), value)
    except TypeError:
        return None


def _keys(entries: list[Any]) -> list[Any]:
    keys: list[Any] = []
    for entry in entries:
        if entry is None:
            keys.append(None)
        elif entry[0] == INPUT:
            keys.append(INPUT)
        elif entry[0] == FIXED:
            keys.append((id(entry[1]),))
        else:
            keys.append((entry[1][0],))
    return keys


def learned(log: Log) -> list[Sequence]:
    """The sequences that a log shows."""
    calls = log.calls
    before: dict[Any, set[Any]] = {}
    after: dict[Any, set[Any]] = {}
    edges = zip([None, *calls], [*calls, None])
    for first, second in edges:
        left = None if first is None or first.alone else first.key
        right = None if second is None or second.alone else second.key
        if left is not None:
            after.setdefault(left, set()).add(right)
        if right is not None:
            before.setdefault(right, set()).add(left)
    cut: set[Any] = set()
    for run in _runs(calls, before, after, cut):
        cut |= _late(run)
    kinds: dict[Any, list[list[Logged]]] = {}
    for run in _runs(calls, before, after, cut):
        if len(run) >= _SHORTEST:
            kinds.setdefault(_described(run), []).append(run)
    result = []
    for described, runs in kinds.items():
        if len(runs) >= _TIMES and runs[0][0].place is not None:
            result.append(_sequence(log.sequences, described, runs[0]))
    return result


def _runs(
    calls: list[Logged | None], before: dict[Any, set[Any]], after: dict[Any, set[Any]], cut: set[Any]
) -> Iterator[list[Logged]]:
    """Calls behind one another that always are so."""
    run: list[Logged] = []
    for call in calls:
        if call is None or call.alone:
            if run:
                yield run
            run = []
            continue
        if run:
            last = run[-1]
            if not (
                after[last.key] == {call.key}
                and before[call.key] == {last.key}
                and call.key not in cut
                and call.grad == last.grad
            ):
                yield run
                run = []
        run.append(call)
    if run:
        yield run


def _late(run: list[Logged]) -> set[Any]:
    """Where an operand comes that needs more calls of the sequence than those before it: there it is cut, so that what comes before need not wait."""
    own: set[int] = set()
    deepest: int | None = None
    for call in run:
        depths = [
            entry[1].bucket.generations.get(run[0].kind, 0)
            for entry, value in zip(call.entries, call.values, strict=True)
            if entry[0] == INPUT and id(value) not in own
        ]
        if depths and deepest is not None and max(depths) > deepest:
            return {call.key}
        deepest = max([*depths, deepest or 0])
        own.update([id(result) for result in call.results])
    return set()


def _described(run: list[Logged]) -> tuple:
    """What tells sequences apart: their ops, and what each argument is."""
    inside: dict[int, int] = {}
    inputs: dict[int, int] = {}
    steps = []
    for call in run:
        wants: list[tuple[str, Any]] = []
        for value, (what, content) in zip(call.values, call.entries, strict=True):
            if what == INPUT:
                if id(value) in inside:
                    wants.append((INSIDE, inside[id(value)]))
                elif id(value) in inputs:
                    wants.append((AGAIN, inputs[id(value)]))
                else:
                    inputs[id(value)] = len(inputs)
                    wants.append((INPUT, content.kind))
            elif what == FIXED:
                wants.append((FIXED, _Same(content)))
            else:
                wants.append((STATIC, content[0]))
        for result in call.results:
            inside[id(result)] = len(inside)
        steps.append((call.op, call.this, tuple(wants), call.grad, call.form, call.single))
    return tuple(steps)


class _Same:
    """A tensor, compared by identity."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __eq__(self, other: Any) -> bool:
        return type(other) is _Same and self.tensor is other.tensor

    def __hash__(self) -> int:
        return id(self.tensor)


def _sequence(sequences: Sequences, described: tuple, run: list[Logged]) -> Sequence:
    steps: list[Step] = []
    kinds: list[Any] = []
    fixed: dict[int, Any] = {}
    inputs = 0
    for number, ((op, this, wants, grad, form, single), call) in enumerate(zip(described, run, strict=True)):
        step = Step(None, number)
        step.op, step.of, step.grad, step.form = op, this, grad, form
        full = []
        for place, ((what, content), value) in enumerate(zip(wants, call.values, strict=True)):
            field: Any = UNSEEN
            if what == FIXED:
                field = content = content.tensor
                fixed[id(content)] = content, kind_of(value)
            elif what == STATIC:
                content = content, value
                field = value if is_constant(value) else UNSEEN
            inputs += what == INPUT
            full.append((what, content))
            setattr(step, FIELDS[place], field)
        step.wants = tuple(full)
        step.args = _nesting(op, this, len(wants))
        step.results = list(range(len(kinds), len(kinds) + len(form.kinds)))
        kinds += form.kinds
        if not single:
            step.pack, step.result = form.pack, [None] * len(form.kinds)
        steps.append(step)
    return Sequence(sequences, described, run[0].place, steps, kinds, inputs, list(fixed.values()))


def _nesting(op: Op, this: Any, count: int) -> tuple:
    """For each parameter of the op, which of the flat arguments it is, or a list of them."""
    result: list[Any] = []
    place = 0
    for role in roles_of(op):
        if role == LIST:
            result.append(list(range(place, place + this[1])))
            place += this[1]
        else:
            result.append(place)
            place += 1
    assert place == count
    return tuple(result)


Sequences.record, Sequences.new_log, Sequences.learned = staticmethod(record), Log, staticmethod(learned)
