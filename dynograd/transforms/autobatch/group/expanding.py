"""Calls of sequences when their groups are about to run: their ops on all rows of a group, a cell, where that can be fused, or buckets of the ops.

All give what the ops give one by one. A group of the first two has no place in the graph of gradients for what lies inside it, so it stands
only for sequences of which nobody holds such a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

from dynograd.transforms.autobatch.fuse.fusing import are_levels
from dynograd.transforms.autobatch.group.op_buckets import buckets_of_ops, sources_of
from dynograd.transforms.autobatch.group.op_rows import OpsForm
from dynograd.transforms.autobatch.record.cell_forms import CellForm
from dynograd.transforms.autobatch.record.forms import Form
from dynograd.transforms.autobatch.record.outlines import PLACE
from dynograd.transforms.autobatch.record.sequence_steps import AGAIN, FIXED, INPUT, INSIDE
from dynograd.transforms.autobatch.record.sequences import Sequence, SequenceForm

__all__ = ["expanded"]


def expanded(recorder: Any, waiting: list[Any], together: bool = True) -> list[Any]:
    """`waiting` without buckets of sequences: those that stand in their place.

    Args:
        together: their ops on rows and cells may stand there, too; else buckets of the ops alone.
    """
    if not any([type(bucket.form) is SequenceForm for bucket in waiting]):
        return waiting
    recorder.table.clear()  # it holds ports
    numbers: dict[Any, set[int]] = {}  # by sequence: the results that are needed of buckets that run together
    by_op: set[Any] = set()
    for bucket in waiting:
        if type(bucket.form) is SequenceForm:
            bucket.form.sequence.note(bucket.count())
            needed = _needed_of(bucket) if together else None
            if needed is None:
                by_op.add(bucket)
            else:
                numbers.setdefault(bucket.form, set()).update(needed)
    levels = are_levels([bucket for bucket in waiting if bucket not in by_op and _may_be_in_chains(bucket.form)])
    forms = {form: _form_of(form.sequence, tuple(sorted(needed)), levels) for form, needed in numbers.items() if needed}
    instead: dict[Any, list[Any]] = {}
    for bucket in sorted(waiting, key=lambda bucket: bucket.depth):  # what it needs comes first
        if type(bucket.form) is SequenceForm:
            if bucket in by_op or bucket.form not in forms:
                instead[bucket] = buckets_of_ops(recorder, bucket, instead)
            else:
                _become(bucket, *forms[bucket.form])
    if instead:
        for bucket in recorder.waiting:
            if not instead.keys().isdisjoint(bucket.sources):
                bucket.sources = sources_of(bucket.sources, instead)
        recorder.waiting = [new for bucket in recorder.waiting for new in instead.get(bucket, (bucket,))]
        if len(recorder.waiting) > _MANY:
            _count_generations(recorder.waiting)
    return [new for bucket in waiting for new in instead.get(bucket, (bucket,))]


_MANY = 128  # buckets: of fewer, generations are counted when they are scheduled


def _count_generations(waiting: list[Any]) -> None:
    """How many buckets of its kind each one follows, now that those of ops are known."""
    for bucket in sorted(waiting, key=lambda bucket: bucket.depth):
        kind, known = (bucket.form, bucket.shared), {}
        for source in bucket.sources:
            for other, count in source.generations.items():
                if known.get(other, 0) < count:
                    known[other] = count
        bucket.generation = known.get(kind, 0)
        known[kind] = bucket.generation + 1
        bucket.generations = known


# --- together ---------------------------------------------------------------------------------------------------------------------------


def _may_be_in_chains(form: Any) -> bool:
    return form.run_chained is not None or (
        type(form) is SequenceForm and _SHORTEST <= len(form.sequence.steps) <= _LONGEST
    )


def _needed_of(bucket: Any) -> set[int] | None:
    """Which results of a sequence are needed of a bucket; None where its calls are to run op by op: somebody has a result that is used inside."""
    if bucket.checks is not None:
        return None
    sequence, needed = bucket.form.sequence, set()
    for number, references in enumerate(list(map(getrefcount, bucket.ports))):
        port = bucket.ports[number]
        is_held = references > _OWN + (port.base >= 0) or port._detached is not None
        if is_held and (sequence.uses[number] or sequence.base[number] is not None):
            return None
        if is_held or port.base >= 0:
            needed.add(number)
    return needed


def _form_of(sequence: Sequence, numbers: tuple[int, ...], levels: bool) -> tuple[Form, tuple[int, ...]]:
    """The form that stands for calls of a sequence of which the results `numbers` are needed, and those.

    Args:
        levels: whether cells run as chains.
    """
    if levels and _may_be_in_chains(sequence.form):
        cell = sequence.fused.get(numbers)
        if cell is None:
            cell = sequence.fused[numbers] = _new_cell(sequence, numbers)
        if cell.refused is None and cell.fusing.ready() and cell.fusing.refused is None:
            return cell, numbers
    form = sequence.rows.get(numbers)
    if form is None:
        form = sequence.rows[numbers] = OpsForm(sequence, numbers)
    return form, numbers


_SHORTEST = 5  # ops: shorter ones, in small groups, take longer as fused ones
_LONGEST = 64  # ops: kernels of a hundred take some ten seconds to compile
_OWN = 2  # references to a port: its bucket's, and that of who counts


class _Body:
    """What a sequence computes, as the body of a cell that gives the results `numbers`."""

    forms: Any
    owner = None

    def __init__(self, sequence: Sequence, numbers: tuple[int, ...]) -> None:
        self.sequence, self.numbers = sequence, numbers
        self.name = sequence.form.label
        self.body = _function(sequence, numbers)

    def watched(self) -> list[Any]:
        """What the body reads besides its arguments: nothing else ever, as its ops are those of a sequence."""
        return [tensor for tensor, _ in self.sequence.fixed]


def _function(sequence: Sequence, numbers: tuple[int, ...]) -> Callable[..., Any]:
    steps = [(step.op.function, step.wants, step.args, step.pack is None) for step in sequence.steps]

    def body(*inputs: Any) -> object:
        results: list[Any] = []
        following = iter(inputs)
        for function, wants, args, is_single in steps:
            values = [
                results[content]
                if what == INSIDE
                else next(following)
                if what == INPUT
                else inputs[content]
                if what == AGAIN
                else content
                if what == FIXED
                else content[1]
                for what, content in wants
            ]
            result = function(
                *[values[place] if type(place) is int else [values[part] for part in place] for place in args]
            )
            results += [result] if is_single else result
        chosen = tuple([results[number] for number in numbers])
        return chosen if len(chosen) > 1 else chosen[0]

    return body


def _new_cell(sequence: Sequence, numbers: tuple[int, ...]) -> CellForm:
    outline = tuple, ((tuple, (PLACE,) * sequence.inputs), (dict, ()))
    kinds = tuple([content for step in sequence.steps for what, content in step.wants if what == INPUT])
    form = CellForm(_Body(sequence, numbers), outline, kinds, sequence.form.grad)
    if form.refused is None and form.kinds != tuple([sequence.form.kinds[number] for number in numbers]):
        form.refused = "its results are of other kinds than those of its ops"
    return form


def _become(bucket: Any, form: Form, numbers: tuple[int, ...]) -> None:
    """The calls of a bucket are those of a form that gives the results `numbers`."""
    ports = tuple([bucket.ports[number] for number in numbers])
    for number, port in enumerate(ports):
        port.number = number
    bucket.form, bucket.ports = form, ports
