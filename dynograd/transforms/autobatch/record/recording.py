"""Recording calls of ops: what makes the key of a call, and how a call with operands of other ports finds its group.

A call that has been seen before (same op, same ports) costs a look-up and a number for each operand; that is done by the code that
`writing` gives to the ops' functions. `new_calls` has the rest of the way for calls of a new kind.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.autograd.modes import MODES
from dynograd.interpreter import TENSORS
from dynograd.ops.op import Op
from dynograd.tensor.tensor import wrap
from dynograd.transforms.autobatch.group.sums import chained
from dynograd.transforms.autobatch.record.buckets import Bucket, Port, Shared
from dynograd.transforms.autobatch.record.forms import casting, frozen
from dynograd.transforms.autobatch.record.new_calls import (
    ARRAY,
    LIST,
    NUMBER,
    OWN,
    STATIC,
    at_once,
    by_row_of,
    entry_for,
    given_back,
    known_forms,
    new_call,
    roles_of,
    slots_of,
)
from dynograd.transforms.autobatch.record.pending import Lazy, _slots, settled
from dynograd.transforms.autobatch.record.recorder import Recorder, outside
from dynograd.transforms.batching.batched import _active as active_vmaps

MISS = object()  # stands in keys for what makes every look-up fail


def extend(recorder: Recorder, key: tuple, operands: tuple[bool, ...]) -> Any:
    """What the table has, from now on, for calls of a known form on other ports; None where `record` has to look at the call.

    `key` is what the op's function looks up: the op, the mode, then for each argument what stands for it; `operands` says which are tensors.
    """
    op, grad = key[:2]
    if grad > 1 or active_vmaps.levels:
        return None
    if len(recorder.waiting) >= recorder.check_at:
        recorder.check_size()
    plan: list[Any] = [op, grad, recorder.cast]
    shared: list[Any] = []  # for each operand; None for rows
    ports: list[Any] = []
    sources: list[Bucket] = []
    pending = False
    for part, operand in zip(key[2:], operands, strict=True):
        if not operand or part is None:
            plan.append(part)
            if operand:
                shared.append(None)
                ports.append(None)
            continue
        kind = type(part)
        if kind is Port:
            bucket = part.bucket
            if bucket.recorder is not recorder:
                return None
            if not bucket.done:
                sources.append(bucket)
            pending = pending or bucket.tensors is None
            ports.append(part)
            shared.append(None)
        elif kind is Shared:
            ports.append(None)
            shared.append(part)
        else:  # a number, or something unknown
            return None
        plan.append(part.kind if grad or not part.kind.grad else part.kind.without_grad())
    form = known_forms.get(tuple(plan))
    if form is None or not pending or (op.name == "add" and not form.kinds[0].shape):
        return None
    columns = len(ports) - ports.count(None)
    bucket = recorder.bucket_of(form, tuple(shared), sources, columns)
    return _entered(recorder, op, key, bucket, ports)


def record(recorder: Recorder, op: Op, args: tuple) -> Any:
    """A call that the op's function has not found in the table, with the arguments in the order of the op's signature."""
    grad = MODES.grad
    if op.name == "add":
        result = chained(recorder, op, args, grad)
        if result is not None:
            return result
    roles = roles_of(op)
    kinds = set(map(type, args))
    if Lazy not in kinds or numpy.ndarray in kinds:
        args = tuple([_tensors(value, role) for value, role in zip(args, roles, strict=True)])
        # A view of what is known is no work, and must share the memory; known indices and masks may be looked at by others.
        if Lazy not in kinds and (op.view or _of_known_integers(op, args)):
            return at_once(op, dict(zip(op.signature.parameters, args, strict=True)))
    parts: list[Any] = [op, grad]  # what the call is looked up by
    plan: list[Any] = [op, grad, casting()]  # what its form is looked up by
    operands: list[Any] = []  # for each tensor (port, row), Shared or None
    own: Any = MISS  # the argument that is kept row by row
    key: Any
    try:
        for value, role in zip(args, roles, strict=True):
            if role == STATIC:
                part = frozen(value)
                plan.append(part)
            elif role == LIST:
                for element in value:
                    part, entry = _operand_of(recorder, element, plan, grad)
                    parts.append(part)
                    operands.append(entry)
                continue
            elif role == OWN:
                own = value
                continue
            else:
                part, entry = _operand_of(recorder, value, plan, grad)
                operands.append(entry)
            parts.append(part)
        key = tuple(parts)
        known = recorder.table.get(key)
    except (TypeError, KeyError):  # nothing that can be looked up
        key = known = None
    if active_vmaps.levels:
        return new_call(recorder, op, args, key, None)
    if known is None:
        by_plan = key is not None and grad <= 1 and NUMBER not in plan
        form = known_forms.get(tuple(plan)) if by_plan else None
        if form is None:
            return new_call(recorder, op, args, key, tuple(plan) if by_plan else None)
        known = _enter(recorder, op, args, key, form, operands)
    next_row, out = known[-2:]
    place = 0
    for operand in operands:
        if type(operand) is tuple:
            known[place](known[place + 1] + operand[1])
        place += 2
    if own is not MISS:
        known[place](own)
    return given_back(op, args, out, next_row())


def _operand_of(recorder: Recorder, value: Any, plan: list[Any], grad: int) -> tuple[Any, Any]:
    """(what stands for an operand in a call's key, the operand as an entry of a bucket); its kind goes to `plan`.

    Raises:
        KeyError: nothing can.
    """
    kind = type(value)
    if kind is Lazy and value.pending.bucket.recorder is recorder:
        part = value.pending
        entry: Any = (part, value.row)
    elif kind is Lazy or kind in TENSORS:
        entry = entry_for(recorder, value)
        part = entry[0] if type(entry) is tuple else entry
    elif value is None:
        plan.append(None)
        return None, None
    elif kind is int or (kind is float and value):
        plan.append(NUMBER)  # such calls are looked at one by one
        return ((int, value) if kind is int else value), None
    else:
        raise KeyError
    plan.append(part.kind if grad or not part.kind.grad else part.kind.without_grad())
    return part, entry


def _enter(recorder: Recorder, op: Op, args: tuple, key: Any, form: Any, operands: list[Any]) -> Any:
    """What the table has for calls like this one, from now on."""
    bucket = recorder.bucket_for(form, operands)
    if op.name == "add" and not form.kinds[0].shape:
        bucket.links = 1 + (args[0].pending.bucket.links if type(args[0]) is Lazy else 0)
    return _entered(recorder, op, key, bucket, [operand[0] if type(operand) is tuple else None for operand in operands])


def _entered(recorder: Recorder, op: Op, key: Any, bucket: Any, ports: list[Any]) -> Any:
    slots = slots_of(recorder, bucket, ports)
    if op.row["by_row"] and OWN in roles_of(op):
        slots.append(by_row_of(bucket).append)
    result = recorder.table[key] = (*slots, bucket.next_row, bucket.ports[0] if bucket.form.single else bucket.ports)
    return result


def _tensors(value: Any, role: int) -> Any:
    """An argument with tensors around bare arrays: those that an op has made (of an index, a mask) for another op."""
    if role == ARRAY:
        return wrap(value) if type(value) is numpy.ndarray else value
    if role == LIST and type(value) in (list, tuple) and any([type(element) is numpy.ndarray for element in value]):
        return [wrap(element) if type(element) is numpy.ndarray else element for element in value]
    return value


def _of_known_integers(op: Op, args: tuple) -> bool:
    """Whether all tensors among the arguments are integers or booleans whose values are there."""
    result = False
    for value, role in zip(args, roles_of(op), strict=True):
        if role == STATIC:
            continue
        for element in value if role == LIST else (value,):
            if type(element) in TENSORS:
                if element.array.dtype.kind not in "iub":
                    return False
                result = True
            elif type(element) is Lazy:
                return False
    return result


# --- what Lazies ask ---------------------------------------------------------------------------------------------------------------


def _on_lazies(op: Op, arguments: dict[str, Any]) -> Any:
    recorder = MODES.recorder
    if recorder is None:
        return at_once(op, arguments)
    recorder.between()
    return record(recorder, op, tuple(arguments.values()))


def _function(function: Any, args: tuple, kwargs: dict) -> Any:
    settled(args)
    settled(kwargs)
    with outside():
        return function.apply(*args, **kwargs)


_slots.op, _slots.function = _on_lazies, _function
