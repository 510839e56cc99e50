"""Recording calls of ops: what makes the key of a call, and what a call that is not in the table yet goes through.

A call that has been seen before (same op, same ports) costs a look-up and a number for each operand; that is done by the code that
`writing` gives to the ops' functions.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd import dtypes
from dynograd.autograd.modes import MODES
from dynograd.interpreter import TENSORS
from dynograd.ops.op import Op
from dynograd.tensor import Tensor, wrap
from dynograd.transforms.autobatch.forms import AT_ONCE, BY_ROW, CHECKS, casting, form_of, frozen
from dynograd.transforms.autobatch.pending import Kind, Lazy, _slots, note_view, settle, settled
from dynograd.transforms.autobatch.recorder import OFTEN, Bucket, Port, Recorder, outside
from dynograd.transforms.autobatch.sums import chained
from dynograd.transforms.batching.batched import _active as active_vmaps

__all__ = ["MISS", "OFTEN", "Recorder", "entry_for", "kind_for", "outside", "record"]

MISS = object()  # stands in keys for what makes every look-up fail
_new = object.__new__


def at_once(op: Op, given: dict[str, Any]) -> Any:
    """The op on values."""
    settled(given)
    with outside():
        check = CHECKS.get(op.name)
        if check is not None:
            check(given)
        return op.function(**given)


def record(recorder: Recorder, op: Op, args: tuple) -> Any:
    """A call that the op's function has not found in the table, with the arguments in the order of the op's signature."""
    grad = MODES.grad
    if op.name == "add":
        made = chained(recorder, op, args, grad)
        if made is not None:
            return made
    roles = roles_of(op)
    if Lazy not in map(type, args):
        if op.view and not any([type(one) is Lazy for one in args]):  # no work, and it must share the memory
            return at_once(op, dict(zip(op.signature.parameters, args, strict=True)))
        args = tuple([_tensors(value, role) for value, role in zip(args, roles, strict=True)])
        if _of_known_integers(op, args):  # indices and masks, which others may look at
            return at_once(op, dict(zip(op.signature.parameters, args, strict=True)))
    elif numpy.ndarray in map(type, args):
        args = tuple([_tensors(value, role) for value, role in zip(args, roles, strict=True)])
    parts: list[Any] = [op, grad]  # what the call is looked up by
    plan: list[Any] = [op, grad, casting()]  # what its form is looked up by
    operands: list[Any] = []  # for each tensor (port, row), Shared or None; those of a list in a list
    own: Any = MISS  # the argument that is kept row by row
    key: Any
    try:
        for value, role in zip(args, roles, strict=True):
            if role == _STATIC:
                part = frozen(value)
                plan.append(part)
            elif role == _LIST:
                found = [_operand_of(recorder, one, plan, grad) for one in value]
                part = tuple([one for one, _ in found])
                plan.append(len(found))
                operands.append([entry for _, entry in found])
            elif role == _BY_ROW:
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
        return _new_call(recorder, op, args, key, None)
    if known is None:
        by_plan = key is not None and grad <= 1 and _NUMBER not in plan
        form = _forms.get(tuple(plan)) if by_plan else None
        if form is None:
            return _new_call(recorder, op, args, key, tuple(plan) if by_plan else None)
        known = _enter(recorder, op, args, key, form, operands)
    next_row, out = known[-2:]
    place = 0
    for operand in operands:
        if type(operand) is tuple:
            known[place](known[place + 1] + operand[1])
        elif type(operand) is list:
            for (add, base), one in zip(known[place], operand, strict=True):
                if add is not None:
                    add(base + one[1])
            place -= 1
        place += 2
    if own is not MISS:
        known[place](own)
    return _given_back(op, args, out, next_row())


# For an op, modes, static arguments and kinds of operands: the form of the call.
_forms: dict[Any, Any] = {}
_MOST_FORMS = 10_000
_NUMBER = object()


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
        plan.append(_NUMBER)  # such calls are looked at one by one
        return ((int, value) if kind is int else value), None
    else:
        raise KeyError
    plan.append(part.kind if grad or not part.kind.grad else part.kind.without_grad())
    return part, entry


def _enter(recorder: Recorder, op: Op, args: tuple, key: Any, form: Any, operands: list[Any]) -> Any:
    """What the table has for calls like this one, from now on."""
    entries: list[Any] = []
    for operand in operands:
        if type(operand) is list:
            entries += operand
        else:
            entries.append(operand)
    bucket = recorder.bucket_for(form, entries)
    columns = iter(bucket.columns)
    slots: list[Any] = []
    for operand in operands:
        if type(operand) is tuple:
            slots += next(columns).append, recorder.base_of(operand[0])
        elif type(operand) is list:
            slots.append(
                [
                    (next(columns).append, recorder.base_of(one[0])) if type(one) is tuple else (None, 0)
                    for one in operand
                ]
            )
        else:
            slots += None, 0
    if op.name == "add" and not form.kinds[0].shape:
        bucket.links = 1 + (args[0].pending.bucket.links if type(args[0]) is Lazy else 0)
    if _BY_ROW in roles_of(op):
        slots.append(_by_row(bucket).append)
    made = recorder.table[key] = (*slots, bucket.next_row, bucket.ports[0] if form.single else bucket.ports)
    return made


def _by_row(bucket: Bucket) -> list[Any]:
    """The arguments of a bucket's calls that differ from row to row."""
    if bucket.by_row is None:
        bucket.by_row = []
    return bucket.by_row


def roles_of(op: Op) -> tuple[int, ...]:
    """For each parameter whether it is a static argument, a tensor, a list of tensors, or a static argument kept row by row."""
    found = _roles.get(op.name)
    if found is None:
        found = _roles[op.name] = tuple(
            [
                _LIST
                if name == op.list_name
                else _ARRAY
                if name in op.array_names
                else _BY_ROW
                if name == BY_ROW.get(op.name) == "key"
                else _STATIC
                for name in op.signature.parameters
            ]
        )
    return found


def _tensors(value: Any, role: int) -> Any:
    """An argument with tensors around bare arrays: those that an op has made (of an index, a mask) for another op."""
    if role == _ARRAY:
        return wrap(value) if type(value) is numpy.ndarray else value
    if role == _LIST and type(value) in (list, tuple) and any([type(one) is numpy.ndarray for one in value]):
        return [wrap(one) if type(one) is numpy.ndarray else one for one in value]
    return value


def _of_known_integers(op: Op, args: tuple) -> bool:
    """Whether all tensors among the arguments are integers or booleans whose values are there."""
    found = False
    for value, role in zip(args, roles_of(op), strict=True):
        if role == _STATIC:
            continue
        for one in value if role == _LIST else (value,):
            if type(one) in TENSORS:
                if one.array.dtype.kind not in "iub":
                    return False
                found = True
            elif type(one) is Lazy:
                return False
    return found


_STATIC, _ARRAY, _LIST, _BY_ROW = 0, 1, 2, 3
_roles: dict[str, tuple[int, ...]] = {}


def _given_back(op: Op, args: tuple, out: Any, row: int) -> Any:
    """The Lazies of a call: of its port, or of its ports in what the op gives."""
    single = type(out) is Port
    made = []
    for port in (out,) if single else out:
        one = _new(Lazy)
        one.pending, one.row = port, row
        if op.view:
            note_view(one, args[roles_of(op).index(_ARRAY)])
        made.append(one)
    return made[0] if single else out[0].bucket.form.pack(made)


def _new_call(recorder: Recorder, op: Op, args: tuple, key: Any, plan: Any) -> Any:
    """The first call of its kind; it is entered in the table under `key`."""
    given = dict(zip(op.signature.parameters, args, strict=True))
    why = _refused(op, given)
    if why is not None:
        return _plain(recorder, op, given, why)
    operands: dict[str, Any] = {}  # Kinds, numbers, None, or lists of Kinds
    entries: list[Any] = []  # for each tensor: (port, row) or Shared; None where there is none
    for name in op.array_names:
        value = given[name]
        if name == op.list_name:
            found = [entry_for(recorder, one) for one in value]
            entries += found
            operands[name] = [kind_for(one) for one in found]
        elif isinstance(value, Tensor):
            entry = entry_for(recorder, value)
            entries.append(entry)
            operands[name] = kind_for(entry)
        else:
            entries.append(None)
            operands[name] = value
    statics = {name: given[name] for name in op.static_names}
    by_row = BY_ROW.get(op.name)
    if by_row == "place" and not given["p"]:
        by_row = None
    number = _number_of(op, operands)
    try:
        form_key = (
            op.name,
            MODES.grad,
            casting(),
            tuple([frozen(value) for name, value in statics.items() if name != by_row]),
            tuple(
                [
                    tuple(one)
                    if type(one) is list
                    else one
                    if isinstance(one, Kind)
                    else _NUMBER
                    if name == number
                    else frozen(one)
                    for name, one in operands.items()
                ]
            ),
        )
    except TypeError:
        return _plain(recorder, op, given, "its static arguments cannot be compared")
    with outside():
        form = form_of(op, form_key, statics, operands)
        form.number = number
    if form.refused is not None:
        return _plain(recorder, op, given, form.refused)
    quick = by_row is None or _BY_ROW in roles_of(op)
    if plan is not None and number is None and quick:
        if len(_forms) > _MOST_FORMS:
            _forms.clear()
        _forms[plan] = form
    bucket, _ = recorder.note(form, entries)
    next_row = bucket.next_row
    if number is not None:
        next_row = _numbered(bucket, given[number])
    if op.name == "add" and not form.kinds[0].shape:
        bucket.links = 1 + (args[0].pending.bucket.links if type(args[0]) is Lazy else 0)
    out = bucket.ports[0] if form.single else bucket.ports
    slots = _slots_of(recorder, op, given, bucket, entries)
    if by_row is not None:
        slots.append(_by_row(bucket).append)
        slots[-1](given[by_row])
    if key is not None and quick:
        recorder.table[key] = (*slots, next_row, out)
    return _given_back(op, args, out, next_row())


def _number_of(op: Op, operands: dict[str, Any]) -> str | None:
    """The operand of an elementwise op that is a number, where each call of a group may have another."""
    if op.kind != "elementwise" or op.promote not in ("arithmetic", "float", "compare"):
        return None
    numbers = [name for name, one in operands.items() if type(one) is int or type(one) is float]
    kinds = {one.dtype.num for one in operands.values() if isinstance(one, Kind)}
    if len(numbers) != 1 or len(operands) != 2 or not kinds <= _REALS:
        return None
    return numbers[0]


_REALS = {dtypes.float32.num, dtypes.float64.num}


def _numbered(bucket: Bucket, value: Any) -> Any:
    """`next_row` of calls that have this number as an operand."""
    if bucket.numbers is None:
        bucket.numbers = []
    add, next_row = bucket.numbers.append, bucket.next_row
    if bucket.common:
        rows: Any = bucket.rows
        row: list[int] = []

        def note_once() -> int:
            if not row:
                add(value)
                row.append(next(rows))
            return row[0]

        return note_once

    def note() -> int:
        add(value)
        return next_row()

    return note


def _slots_of(recorder: Recorder, op: Op, given: dict[str, Any], bucket: Bucket, entries: list[Any]) -> list[Any]:
    """For each array argument, how a row is added to its column: `add, base`, or for a list a list of such pairs."""
    slots: list[Any] = []
    columns, found = iter(bucket.columns), iter(entries)

    def pair() -> tuple[Any, int]:
        entry = next(found)
        return (next(columns).append, recorder.base_of(entry[0])) if type(entry) is tuple else (None, 0)

    for name in op.array_names:
        if name == op.list_name:
            slots.append([pair() for _ in given[name]])
        else:
            slots += pair()
    return slots


def entry_for(recorder: Recorder, value: Any) -> Any:
    """A tensor as an operand: (port, row), or Shared."""
    if type(value) is Lazy:
        if value.pending.bucket.recorder is recorder:
            return value.pending, value.row
        settle(value)  # of another scope or thread
    return recorder.entry_of(value)


def kind_for(entry: Any) -> Kind:
    """The kind that a call sees: without gradient where none is recorded."""
    found = entry[0].kind if type(entry) is tuple else entry.kind
    return found if MODES.grad or not found.grad else found.without_grad()


def _refused(op: Op, given: dict[str, Any]) -> str | None:
    """Why the call is run at once: not worth a word in the report when it is an empty text."""
    lazy = False
    for name in op.array_names:
        value = given[name]
        for one in value if name == op.list_name and isinstance(value, (list, tuple)) else (value,):
            kind = type(one)
            if kind is Lazy:
                lazy = True
            elif kind not in TENSORS and one is not None:
                if not (op.kind == "elementwise" and (kind is float or kind is int or kind is bool)):
                    return "" if not isinstance(one, Tensor) else f"an operand is a {kind.__name__}"
    if MODES.grad > 1:
        return "someone watches the tape (anomaly mode, hooks of saved tensors)"
    if active_vmaps.levels:
        return "it is inside vmap"
    if op.view and not lazy:
        return ""
    if op.list_name and not isinstance(given[op.list_name], (list, tuple)):
        return ""
    return AT_ONCE.get(op.name)


def _plain(recorder: Recorder, op: Op, given: dict[str, Any], why: str) -> Any:
    if why:
        recorder.report.note_refused(op.name, why)
    return at_once(op, given)


# --- what Lazies ask ---------------------------------------------------------------------------------------------------------------


def _on_lazies(op: Op, given: dict[str, Any]) -> Any:
    recorder = MODES.recorder
    if recorder is None:
        return at_once(op, given)
    return record(recorder, op, tuple(given.values()))


def _function(function: Any, args: tuple, kwargs: dict) -> Any:
    settled(args)
    settled(kwargs)
    with outside():
        return function.apply(*args, **kwargs)


_slots.op, _slots.function = _on_lazies, _function
