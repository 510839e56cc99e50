"""Calls of sequences as buckets of their ops, one by one."""

from __future__ import annotations

import sys
from typing import Any

from dynograd.transforms.autobatch.record.buckets import Bucket
from dynograd.transforms.autobatch.record.sequence_steps import AGAIN, FIXED, INPUT, INSIDE

__all__ = ["buckets_of_ops", "operands_of", "sources_of"]


def sources_of(sources: dict[Any, None], instead: dict[Any, list[Any]]) -> dict[Any, None]:
    """`sources`, and the buckets that stand in the place of some."""
    return dict.fromkeys([new for source in sources for new in instead.get(source, (source,))])


def buckets_of_ops(recorder: Any, bucket: Any, instead: dict[Any, list[Any]]) -> list[Any]:
    """Buckets of the ops of a sequence's calls, in order: row by row their calls."""
    sequence, count, ports = bucket.form.sequence, bucket.count(), bucket.ports
    outer = [source for source in sources_of(bucket.sources, instead) if not source.done]
    columns, buckets = iter(bucket.columns), []
    inputs: list[Any] = []
    for step in sequence.steps:
        shared: list[Any] = []
        own: list[list[int]] = []
        sources: list[Any] = []
        number = None
        for what, content in operands_of(step):
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
            else:  # a number, or left out
                number = content[1]
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


def operands_of(step: Any) -> list[tuple[str, Any]]:
    """What the arguments are in whose place tensors may stand, in the order in which a bucket has them."""
    names = step.op.array_names
    listed: list[Any] = []
    for name, place in zip(step.op.signature.parameters, step.args, strict=True):
        places = place if type(place) is list else [place]
        listed.append((name, [step.wants[part] for part in places]))
    by_name = dict(listed)
    return [want for name in names for want in by_name[name]]
