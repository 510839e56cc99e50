"""The ops of a sequence on all rows of a group, one right after the other.

Each op is called as in a group of its own, and what it gives goes to the next one as it is: no rows are taken of it, and no ports are
filled for what stays inside. Where one of the calls fails, the ops are groups of their own, which say what is wrong with which row.
"""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.transforms.autobatch.group.executing import Group, attempted, fill_ports, joined, run_group
from dynograd.transforms.autobatch.group.gathering import arguments, operand
from dynograd.transforms.autobatch.group.op_buckets import buckets_of_ops, operands_of
from dynograd.transforms.autobatch.group.ready import ReadyCalls
from dynograd.transforms.autobatch.record.buckets import Port, Shared
from dynograd.transforms.autobatch.record.forms import Form, kind_of
from dynograd.transforms.autobatch.record.sequence_steps import AGAIN, FIXED, INPUT, INSIDE, STATIC

__all__ = ["OpsForm"]


class OpsForm(Form):
    """The form of a sequence's calls that give the results `numbers`."""

    __slots__ = ("calls", "numbers", "ops", "sequence")

    def __init__(self, sequence: Any, numbers: tuple[int, ...]) -> None:
        super().__init__(sequence.steps[0].op, {}, sequence.form.grad)
        self.sequence, self.numbers, self.casting = sequence, numbers, None
        self.kinds = tuple([sequence.form.kinds[number] for number in numbers])
        self.single, self.label, self.calls = False, sequence.form.label, len(sequence.steps)
        self.ops: list[_Op] = []
        inputs = 0
        for step in sequence.steps:
            self.ops.append(_Op(step, inputs))
            inputs += self.ops[-1].inputs

    def run_ops(self, recorder: Any, buckets: list[Any]) -> None:
        """Runs all calls of `buckets` and fills their ports."""
        if not recorder.failed:
            results, why = attempted(_Rows(recorder, self, buckets).run)
            if not why:
                fill_ports(recorder, self, buckets, results)
                return
            recorder.report.note_refused(self.label, f"its ops in groups of their own ({why})")
        for bucket in buckets:
            self._run_by_op(recorder, bucket)

    def _run_by_op(self, recorder: Any, bucket: Any) -> None:
        ports = [Port(bucket, number, kind) for number, kind in enumerate(self.sequence.form.kinds)]
        for number, port in zip(self.numbers, bucket.ports, strict=True):
            ports[number] = port
        bucket.ports = tuple(ports)
        for bucket_of_op in buckets_of_ops(recorder, bucket, {}):
            run_group(recorder, [bucket_of_op])


class _Rows:
    """Calls of a sequence that run together."""

    def __init__(self, recorder: Any, form: OpsForm, buckets: list[Any]) -> None:
        self.recorder, self.form = recorder, form
        self.size = sum([bucket.count() for bucket in buckets])
        self.columns = buckets[0].columns
        if len(buckets) > 1:
            places = range(len(self.columns))
            self.columns = [[code for bucket in buckets for code in bucket.columns[place]] for place in places]
        self.inputs: list[Any] = [None] * len(self.columns)  # (tensor, whether it has a row for each call)
        self.results: list[tuple[Any, bool]] = []

    def run(self) -> list[tuple[Any, bool]]:
        """The results that are needed: (tensor, whether it has a row for each call)."""
        form = self.form
        wants_gradients = any([kind.grad for kind in form.kinds])
        for op in form.ops:
            MODES.grad = 2 * op.form.grad if wants_gradients else 0  # 2: nodes are shown to the recorder's watcher
            self._call(op)
        return [self.results[number] for number in form.numbers]

    def _call(self, op: _Op) -> None:
        size, form = self.size, op.form
        if op.joins and (size > 1 or len(op.operands) > 3):
            columns = [self.columns[number] for _, number in op.operands]
            rows = joined(self.recorder, form, op.shared, columns, size)
            if rows is not None:
                self.results.append((rows, size > 1))
                return
        operands = [self._operand(*operand) for operand in op.operands]
        stacked = tuple([has_rows for _, has_rows in operands])
        bound = op.bound.get(stacked)
        if bound is not None:
            result: Any = bound.call(operands)
            has_rows = True
        else:
            numbers = None if form.number is None else [op.constant] * size
            group = Group(self.recorder, form, op.shared, [], None, numbers, size)
            result = group.computed(operands)
            has_rows = size > 1 and not group.alike
            op.bind(stacked)
        self.results += [(result, has_rows)] if form.single else [(part, has_rows) for part in result]

    def _operand(self, is_input: bool, number: int) -> tuple[Any, bool]:
        if not is_input:
            return self.results[number]
        value = self.inputs[number]
        if value is None:
            value = self.inputs[number] = operand(self.recorder, self.columns[number], self.size)
        return value


class _Op:
    """An op of a sequence on rows."""

    __slots__ = ("bound", "constant", "form", "inputs", "joins", "operands", "shared")

    def __init__(self, step: Any, first: int) -> None:
        """`first` is the number of the sequence's input that comes next."""
        self.form, self.inputs = step.form, 0
        self.constant = None  # the operand that is a number
        self.operands: list[tuple[bool, int]] = []  # those that are rows: (whether it is an input, its number)
        self.bound: dict[tuple[bool, ...], _Bound] = {}  # by which of the operands have rows
        shared: list[Any] = []
        for what, content in operands_of(step):
            shared.append(Shared(content, kind_of(content)) if what == FIXED else None)
            if what == INPUT:
                self.operands.append((True, first + self.inputs))
                self.inputs += 1
            elif what in (AGAIN, INSIDE):
                self.operands.append((what == AGAIN, content))
            elif what == STATIC:
                self.constant = content[1]
        self.shared = tuple(shared)
        self.joins = self.form.joins and all([is_input for is_input, _ in self.operands])

    def bind(self, stacked: tuple[bool, ...]) -> None:
        """Notes how the op is called on rows, where its batch rule is known to be one call of it for groups of any size."""
        ready = self.form.ready
        known = ready.known.get(stacked) if type(ready) is ReadyCalls and self.form.number is None else None
        if known is not None and not known[0] and any(stacked):
            self.bound[stacked] = _Bound(self.form, self.shared, len(stacked), known[1])


class _Bound:
    """A call of an op of which all arguments but the rows are there."""

    __slots__ = ("arguments", "function", "lists", "singles")

    def __init__(self, form: Any, shared: tuple, count: int, statics: dict[str, Any]) -> None:
        rows = [object() for _ in range(count)]  # stand for the operands
        places = {id(row): place for place, row in enumerate(rows)}
        self.function = form.op.function
        self.arguments = arguments(form, shared, iter(rows)) | statics
        self.singles: list[tuple[str, int]] = []
        self.lists: list[tuple[str, list[tuple[int | None, Any]]]] = []
        for name in form.op.array_names:
            value = self.arguments[name]
            if name == form.op.list_name:
                self.lists.append((name, [(places.get(id(element)), element) for element in value]))
            elif id(value) in places:
                self.singles.append((name, places[id(value)]))

    def call(self, operands: list[tuple[Any, bool]]) -> object:
        """What the op gives for these operands."""
        by_name = self.arguments.copy()
        for name, place in self.singles:
            by_name[name] = operands[place][0]
        for name, elements in self.lists:
            by_name[name] = [element if place is None else operands[place][0] for place, element in elements]
        return self.function(**by_name)
