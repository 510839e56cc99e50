"""The ops of a sequence on all rows of a group, one right after the other.

Each op is called as in a group of its own, and what it gives goes to the next one as it is: no rows are taken of it, and no ports are
filled for what stays inside. Where one of the calls fails, the ops are groups of their own, which say what is wrong with which row.
"""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.transforms.autobatch.group.executing import Group, attempted, fill_ports, run_group
from dynograd.transforms.autobatch.group.gathering import operand, single
from dynograd.transforms.autobatch.group.op_buckets import buckets_of_ops, operands_of
from dynograd.transforms.autobatch.record.buckets import Port, Shared
from dynograd.transforms.autobatch.record.forms import Form, kind_of
from dynograd.transforms.autobatch.record.sequence_steps import AGAIN, FIXED, INPUT, INSIDE, STATIC

__all__ = ["OpsForm"]


class OpsForm(Form):
    """The form of a sequence's calls that give the results `numbers`."""

    __slots__ = ("calls", "constants", "numbers", "operands", "sequence", "shared")

    def __init__(self, sequence: Any, numbers: tuple[int, ...]) -> None:
        super().__init__(sequence.steps[0].op, {}, sequence.form.grad)
        self.sequence, self.numbers, self.casting = sequence, numbers, None
        self.kinds = tuple([sequence.form.kinds[number] for number in numbers])
        self.single, self.label, self.calls = False, sequence.form.label, len(sequence.steps)
        # Of each op: the operands that are rows, as (whether it is an input, its number), and those that all calls share.
        self.operands: list[list[tuple[bool, int]]] = []
        self.shared: list[tuple[Any, ...]] = []
        self.constants: list[Any] = []  # the operand of each op that is a number
        inputs = 0
        for step in sequence.steps:
            rows: list[tuple[bool, int]] = []
            shared: list[Any] = []
            constant = None
            for what, content in operands_of(step):
                shared.append(Shared(content, kind_of(content)) if what == FIXED else None)
                if what == INPUT:
                    rows.append((True, inputs))
                    inputs += 1
                elif what in (AGAIN, INSIDE):
                    rows.append((what == AGAIN, content))
                elif what == STATIC:
                    constant = content[1]
            self.operands.append(rows)
            self.shared.append(tuple(shared))
            self.constants.append(constant)

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
        for step, *operands in zip(form.sequence.steps, form.operands, form.shared, form.constants, strict=True):
            MODES.grad = 2 * step.form.grad if wants_gradients else 0  # 2: nodes are shown to the recorder's watcher
            self._call(step.form, *operands)
        return [self.results[number] for number in form.numbers]

    def _call(self, form: Form, operands: list[tuple[bool, int]], shared: tuple, constant: Any) -> None:
        size = self.size
        columns: list[Any] = []
        joins = form.joins and all([is_input for is_input, _ in operands])
        if joins:
            columns = [self.columns[number] for _, number in operands]
        numbers = None if form.number is None else [constant] * size
        group = Group(self.recorder, form, shared, columns, None, numbers, size)
        if joins and (size > 1 or len(columns) > 3):
            joined = group.joined()
            if joined is not None:
                self.results.append((joined, size > 1))
                return
        result: Any = group.computed([self._operand(*operand) for operand in operands])
        rows = size > 1 and not group.alike
        self.results += [(result, rows)] if form.single else [(part, rows) for part in result]

    def _operand(self, is_input: bool, number: int) -> tuple[Any, bool]:
        if not is_input:
            return self.results[number]
        value = self.inputs[number]
        if value is None:
            column = self.columns[number]
            value = (
                operand(self.recorder, column, self.size)
                if self.size > 1
                else (single(self.recorder, column[0]), False)
            )
            self.inputs[number] = value
        return value
