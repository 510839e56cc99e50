"""Calls of sequences when their groups are about to run: as buckets of their ops, one by one, or as a cell, where that can be fused.

Both give what the ops give one by one. A fused group has no place in the graph of gradients for what lies inside it, so it stands only for
sequences of which nobody holds such a tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from sys import getrefcount
from typing import Any

from dynograd.transforms.autobatch.fuse.fusing import HOT
from dynograd.transforms.autobatch.record.buckets import Bucket
from dynograd.transforms.autobatch.record.cell_forms import CellForm
from dynograd.transforms.autobatch.record.outlines import PLACE
from dynograd.transforms.autobatch.record.sequence_steps import AGAIN, FIXED, INPUT, INSIDE
from dynograd.transforms.autobatch.record.sequences import Sequence, SequenceForm

__all__ = ["expanded"]


def expanded(recorder: Any, waiting: list[Any], fused: bool = True) -> list[Any]:
    """`waiting` without buckets of sequences: those that stand in their place.

    Args:
        fused: cells may stand there, too.
    """
    if not any([type(bucket.form) is SequenceForm for bucket in waiting]):
        return waiting
    recorder.table.clear()  # it holds ports
    alike: dict[Any, list[Any]] = {}
    for bucket in waiting:
        if type(bucket.form) is SequenceForm:
            alike.setdefault(bucket.form, []).append(bucket)
            bucket.form.sequence.note(bucket.count())
    cells = {
        form: _cell_of(form.sequence, buckets) if fused else None for form, buckets in alike.items()
    }  # and the results that it gives
    instead: dict[Any, list[Any]] = {}
    for bucket in sorted(waiting, key=lambda bucket: bucket.depth):  # what it needs comes first
        if type(bucket.form) is SequenceForm:
            cell = cells[bucket.form]
            if cell is None:
                instead[bucket] = _of_ops(recorder, bucket, instead)
            else:
                _become(bucket, *cell)
    if instead:
        for bucket in recorder.waiting:
            if not instead.keys().isdisjoint(bucket.sources):
                bucket.sources = _sources(bucket.sources, instead)
        recorder.waiting = [new for bucket in recorder.waiting for new in instead.get(bucket, (bucket,))]
        if len(recorder.waiting) > _MANY:
            _count_generations(recorder.waiting)
    return [new for bucket in waiting for new in instead.get(bucket, (bucket,))]


def _sources(sources: dict[Any, None], instead: dict[Any, list[Any]]) -> dict[Any, None]:
    return dict.fromkeys([new for source in sources for new in instead.get(source, (source,))])


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


# --- op by op ------------------------------------------------------------------------------------------------------------------------


def _of_ops(recorder: Any, bucket: Any, instead: dict[Any, list[Any]]) -> list[Any]:
    """Buckets of the ops of a sequence's calls, in order: row by row their calls."""
    sequence, count, ports = bucket.form.sequence, bucket.count(), bucket.ports
    outer = [source for source in _sources(bucket.sources, instead) if not source.done]
    columns, buckets = iter(bucket.columns), []
    inputs: list[Any] = []
    for step in sequence.steps:
        shared: list[Any] = []
        own: list[list[int]] = []
        sources: list[Any] = []
        number = None
        for is_tensor, (what, content) in _operands(step):
            entry = None
            if what == INPUT:
                inputs.append(next(columns))
                own.append(inputs[-1])
                sources += outer
            elif what == AGAIN:
                own.append(inputs[content])
                sources += outer
            elif what == INSIDE:
                base = recorder.base_of(ports[content])
                own.append(list(range(base, base + count)))
                sources.append(ports[content].bucket)
            elif what == FIXED:
                entry = recorder.entry_of(content)
            elif is_tensor:  # a number, or left out
                entry = None if step.form.number is not None or content[1] is None else content[0]
                number = content[1]
            if is_tensor:
                shared.append(entry)
        buckets.append(
            _bucket(recorder, step, tuple(shared), own, sources, [ports[result] for result in step.results], count)
        )
        if step.form.number is not None:
            buckets[-1].numbers = [number] * count
    for port, row, check in bucket.checks or ():
        own_checks = port.whole.bucket
        own_checks.checks = [*(own_checks.checks or ()), (port, row, check)]
    bucket.close()
    return buckets


def _bucket(
    recorder: Any, step: Any, shared: tuple, columns: list[list[int]], sources: list[Any], ports: list[Any], count: int
) -> Bucket:
    """A bucket of `count` calls of an op, with these ports."""
    bucket = Bucket(recorder, step.form, 1 + max([source.depth for source in sources], default=0), shared)
    bucket.columns = columns
    bucket.rows = iter(range(count, sys.maxsize))
    bucket.next_row = bucket.rows.__next__
    for source in dict.fromkeys(sources):
        bucket.need(source)
    bucket.ports = tuple(ports)
    for number, port in enumerate(ports):
        port.bucket, port.number = bucket, number
        detached = None if port._detached is None else port._detached()
        if detached is not None:
            detached.bucket, detached.number = bucket, number
    return bucket


def _operands(step: Any) -> list[tuple[bool, Any]]:
    """Of each argument whether a tensor may stand there, and what it is; tensors in the order in which a bucket has them."""
    names = step.op.array_names
    listed: list[Any] = []
    for name, place in zip(step.op.signature.parameters, step.args, strict=True):
        places = place if type(place) is list else [place]
        listed.append((name, [step.wants[part] for part in places]))
    by_name = dict(listed)
    return [(True, want) for name in names for want in by_name[name]]


# --- fused ---------------------------------------------------------------------------------------------------------------------------


def _cell_of(sequence: Sequence, buckets: list[Any]) -> tuple[CellForm, tuple[int, ...]] | None:
    """The form of a cell that stands for a sequence's calls, and which of its results that gives; None where they are to run op by op."""
    if sequence.calls < _HOT:
        return None
    needed: set[int] = set()
    for bucket in buckets:
        if bucket.checks is not None:
            return None
        for number, references in enumerate(list(map(getrefcount, bucket.ports))):
            port = bucket.ports[number]
            is_held = references > _OWN + (port.base >= 0) or port._detached is not None
            if is_held and (sequence.uses[number] or sequence.base[number] is not None):
                return None
            if is_held or port.base >= 0:
                needed.add(number)
    if not needed:
        return None
    numbers = tuple(sorted(needed))
    form = sequence.fused.get(numbers)
    if form is None:
        form = sequence.fused[numbers] = _new_cell(sequence, numbers)
    usable = form.refused is None and form.fusing.ready() and form.fusing.refused is None
    return (form, numbers) if usable else None


_HOT = 1024  # calls of a sequence, from which on it is fused
_OWN = 2  # references to a port: its bucket's, and that of who counts


class _Body:
    """What a sequence computes, as the body of a cell that gives the results `numbers`."""

    forms: Any
    owner = None

    def __init__(self, sequence: Sequence, numbers: tuple[int, ...]) -> None:
        self.sequence, self.numbers = sequence, numbers
        self.name = sequence.form.label
        self.body = _function(sequence, numbers)


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
    if form.refused is None:
        form.fusing.calls = HOT
        if form.kinds != tuple([sequence.form.kinds[number] for number in numbers]):
            form.refused = "its results are of other kinds than those of its ops"
    return form


def _become(bucket: Any, form: CellForm, numbers: tuple[int, ...]) -> None:
    """The calls of a bucket are those of a cell that gives the results `numbers`."""
    ports = tuple([bucket.ports[number] for number in numbers])
    for number, port in enumerate(ports):
        port.number = number
    bucket.form, bucket.ports = form, ports
