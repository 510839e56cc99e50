"""The first call of its kind: what form it has, and whether it is recorded at all."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.base import dtypes
from dynograd.interpreter import TENSORS
from dynograd.ops.op import Op
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.autobatch.record.buckets import Bucket, Port
from dynograd.transforms.autobatch.record.forms import CHECKS, casting, form_of, frozen
from dynograd.transforms.autobatch.record.pending import Kind, Lazy, note_view, settle, settled
from dynograd.transforms.autobatch.record.recorder import Recorder, outside
from dynograd.transforms.batching.batched import _active as active_vmaps

_new = object.__new__


def roles_of(op: Op) -> tuple[int, ...]:
    """For each parameter whether it is a static argument, a tensor, a list of tensors, or a static argument kept row by row."""
    role = _roles.get(op.name)
    if role is None:
        role = _roles[op.name] = tuple(
            [
                LIST
                if name == op.list_name
                else ARRAY
                if name in op.array_names
                else OWN
                if name == op.row["by_row"] == "key"
                else STATIC
                for name in op.signature.parameters
            ]
        )
    return role


STATIC, ARRAY, LIST, OWN = 0, 1, 2, 3
_roles: dict[str, tuple[int, ...]] = {}


# For an op, modes, static arguments and kinds of operands: the form of the call.
known_forms: dict[Any, Any] = {}
_MOST_FORMS = 10_000
NUMBER = object()


def given_back(op: Op, args: tuple, out: Any, row: int) -> Any:
    """The Lazies of a call: of its port, or of its ports in what the op gives."""
    single = type(out) is Port
    lazies = []
    for port in (out,) if single else out:
        lazy = _new(Lazy)
        lazy.pending, lazy.row = port, row
        if op.view:
            note_view(lazy, args[roles_of(op).index(ARRAY)])
        lazies.append(lazy)
    return lazies[0] if single else out[0].bucket.form.pack(lazies)


def new_call(recorder: Recorder, op: Op, args: tuple, key: Any, plan: Any) -> Any:
    """The first call of its kind; it is entered in the table under `key`."""
    arguments = dict(zip(op.signature.parameters, args, strict=True))
    why = _refused(op, arguments)
    if why is not None:
        return plain_call(recorder, op, arguments, why)
    operands: dict[str, Any] = {}  # Kinds, numbers, None, or lists of Kinds
    entries: list[Any] = []  # for each tensor: (port, row) or Shared; None where there is none
    for name in op.array_names:
        value = arguments[name]
        if name == op.list_name:
            entries_of_list = [entry_for(recorder, element) for element in value]
            entries += entries_of_list
            operands[name] = [kind_for(entry) for entry in entries_of_list]
        elif isinstance(value, Tensor):
            entry = entry_for(recorder, value)
            entries.append(entry)
            operands[name] = kind_for(entry)
        else:
            entries.append(None)
            operands[name] = value
    statics = {name: arguments[name] for name in op.static_names}
    by_row = op.row["by_row"]
    if by_row == "place" and not arguments["p"]:
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
                    tuple(operand)
                    if type(operand) is list
                    else operand
                    if isinstance(operand, Kind)
                    else NUMBER
                    if name == number
                    else frozen(operand)
                    for name, operand in operands.items()
                ]
            ),
        )
    except TypeError:
        return plain_call(recorder, op, arguments, "its static arguments cannot be compared")
    with outside():
        form = form_of(op, form_key, statics, operands)
        form.number = number
    if form.refused is not None:
        return plain_call(recorder, op, arguments, form.refused)
    quick = by_row is None or OWN in roles_of(op)
    if plan is not None and number is None and quick:
        if len(known_forms) > _MOST_FORMS:
            known_forms.clear()
        known_forms[plan] = form
    bucket, _ = recorder.note(form, entries)
    next_row = bucket.next_row
    if number is not None:
        next_row = _numbered(bucket, arguments[number])
    if op.name == "add" and not form.kinds[0].shape:
        bucket.links = 1 + (args[0].pending.bucket.links if type(args[0]) is Lazy else 0)
    out = bucket.ports[0] if form.single else bucket.ports
    slots = slots_of(recorder, bucket, [entry[0] if type(entry) is tuple else None for entry in entries])
    if by_row is not None:
        slots.append(by_row_of(bucket).append)
        slots[-1](arguments[by_row])
    if key is not None and quick:
        recorder.table[key] = (*slots, next_row, out)
    return given_back(op, args, out, next_row())


def _number_of(op: Op, operands: dict[str, Any]) -> str | None:
    """The operand of an elementwise op that is a number, where each call of a group may have another."""
    if op.kind != "elementwise" or op.promote not in ("arithmetic", "float", "compare"):
        return None
    numbers = [name for name, operand in operands.items() if type(operand) is int or type(operand) is float]
    kinds = {operand.dtype.num for operand in operands.values() if isinstance(operand, Kind)}
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


def slots_of(recorder: Recorder, bucket: Bucket, ports: list[Any]) -> list[Any]:
    """How rows are added to the bucket's columns: `add, base` for each operand, None, 0 for one that is no row of a port."""
    slots: list[Any] = []
    columns = iter(bucket.columns)
    for port in ports:
        slots += (None, 0) if port is None else (next(columns).append, recorder.base_of(port))
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
    result = entry[0].kind if type(entry) is tuple else entry.kind
    return result if MODES.grad or not result.grad else result.without_grad()


def _refused(op: Op, arguments: dict[str, Any]) -> str | None:
    """Why the call is run at once: not worth a word in the report when it is an empty text."""
    for name in op.array_names:
        value = arguments[name]
        for element in value if name == op.list_name and isinstance(value, (list, tuple)) else (value,):
            kind = type(element)
            if kind is not Lazy and kind not in TENSORS and element is not None:
                if not (op.kind == "elementwise" and (kind is float or kind is int or kind is bool)):
                    return "" if not isinstance(element, Tensor) else f"an operand is a {kind.__name__}"
    if MODES.grad > 1:
        return "someone watches the tape (anomaly mode, hooks of saved tensors)"
    if active_vmaps.levels:
        return "it is inside vmap"
    if op.list_name and not isinstance(arguments[op.list_name], (list, tuple)):
        return ""
    return op.row["at_once"]


def plain_call(recorder: Recorder, op: Op, arguments: dict[str, Any], why: str) -> Any:
    if why:
        recorder.report.note_refused(op.name, why)
    return at_once(op, arguments)


def by_row_of(bucket: Bucket) -> list[Any]:
    """The arguments of a bucket's calls that differ from row to row."""
    if bucket.by_row is None:
        bucket.by_row = []
    return bucket.by_row


def at_once(op: Op, arguments: dict[str, Any]) -> Any:
    """The op on values."""
    settled(arguments)
    with outside():
        check = CHECKS.get(op.name)
        if check is not None:
            check(arguments)
        return op.function(**arguments)
