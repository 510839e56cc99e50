"""The record of an `autobatch` scope: buckets of calls that can be run as one group.

A call goes to the bucket of its form (op, static arguments, kinds of its operands), its shared operands, and its depth. What is kept
of it is one whole number for each operand (which port, which row of it) in a flat list, so that the garbage collector has nothing
to chase; a call that has been seen before (same op, same ports) costs a look-up and these numbers.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

from dynograd import arrays, dtypes
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller, line_text, next_seq
from dynograd.autograd.writes import last_write, written_since
from dynograd.errors import InplaceError
from dynograd.interpreter import TENSORS
from dynograd.ops.op import Op
from dynograd.tensor import Tensor, wrap
from dynograd.transforms.autobatch.executing import arenas_for, row_tensor, run_group
from dynograd.transforms.autobatch.forms import AT_ONCE, BY_ROW, Form, casting, form_of, frozen, kind_of
from dynograd.transforms.autobatch.pending import Kind, Lazy, Row, _alone, _slots, note_view, settle, settled
from dynograd.transforms.autobatch.reports import Report
from dynograd.transforms.autobatch.rows import keep_saved
from dynograd.transforms.autobatch.scheduling import schedule
from dynograd.transforms.autobatch.sums import RunningSum, chained
from dynograd.transforms.batching.batched import _active as active_vmaps

__all__ = ["Bucket", "Port", "Recorder", "outside", "record"]

PORT_SHIFT = 32
OFTEN = (1 << 14) - 1  # a bucket asks after so many calls whether too many wait
MISS = object()  # stands in keys for what makes every look-up fail
_LARGE = 1 << 16  # constants of so many elements are shared by identity, smaller ones are stacked
_new = object.__new__


class Shared:
    """An operand that all calls of a bucket have in common: a parameter, or a large constant."""

    __slots__ = ("kind", "tensor")

    def __init__(self, tensor: Any, kind: Kind) -> None:
        self.tensor, self.kind = tensor, kind


class Port:
    """One output of a bucket. `slab` is, once the bucket has run, the tensor with all its rows (or, for one row, that row)."""

    __slots__ = (
        "_detached",
        "arena",
        "base",
        "base_row",
        "bucket",
        "kind",
        "number",
        "offset",
        "one",
        "slab",
        "slab_node",
        "whole",
    )

    def __init__(self, bucket: Any, number: int, kind: Kind) -> None:
        self.bucket, self.number, self.kind = bucket, number, kind
        self.base = -1  # its number in the record, shifted; -1 when it is not in it
        self.slab: Any = None
        self.slab_node: Any = None
        self.arena: Any = None  # where its rows lie with those of other groups, from `base_row` on
        self.base_row = 0
        self.offset = 0  # where its rows begin in `slab`
        self.one = False  # `slab` is the only row itself
        self.whole: Port = self  # the port that is filled: another one for a detached view of it
        self._detached: Port | None = None

    def detached(self) -> Port:
        if not self.kind.grad:
            return self
        found = self._detached
        if found is None:
            found = self._detached = Port(self.bucket, self.number, self.kind.without_grad())
            found.whole = self
        return found

    def row(self, row: int) -> tuple[Any, Any]:
        """(array, node) of one row."""
        return row_tensor(self, row)


class Bucket:
    """Calls of one form, with the same shared operands, at one depth."""

    __slots__ = (
        "by_row", "columns", "depth", "done", "errors", "form", "links", "next_row", "numbers", "ports", "recorder", "rows", "shared", "sources", "tensors",
    )  # fmt: skip

    def __init__(self, recorder: Any, form: Form | None, depth: int, shared: tuple) -> None:
        self.recorder, self.form, self.depth, self.shared = recorder, form, depth, shared
        self.done = False
        self.errors: dict[int, Exception] | None = None  # of rows that failed
        self.columns: list[list[int]] = []
        self.by_row: list[Any] | None = None
        self.numbers: list[Any] | None = None  # for each call, where an operand is a number
        self.tensors: list[Any] | None = None  # of a source: the tensors themselves
        self.sources: set[Bucket] = set()
        counter = itertools.count()
        self.next_row = counter.__next__
        self.rows = counter
        self.links = 0  # how many additions of numbers it follows, one after the other
        self.ports: tuple[Port, ...] = ()

    def count(self) -> int:
        """How many calls it has."""
        state: Any = self.rows.__reduce__()
        return state[1][0]


class outside:
    """Inside, ops run at once."""

    __slots__ = ("held",)

    def __enter__(self) -> None:
        self.held, MODES.recorder = MODES.recorder, None

    def __exit__(self, *error: Any) -> None:
        MODES.recorder = self.held


class Recorder:
    """What one scope has recorded and not run yet."""

    def __init__(self, limit: int, report: Report) -> None:
        self.limit, self.report = limit, report
        self.table: dict[Any, Any] = {}
        self.shared: dict[int, Shared] = {}
        self.ports: list[Port] = []
        self.buckets: dict[Any, Bucket] = {}
        self.waiting: list[Bucket] = []
        self.inputs: dict[Kind, Bucket] = {}
        self.entered: dict[int, tuple[Any, Any]] = {}
        self.captured: dict[int, tuple[Any, int]] = {}
        self.failed: list[Exception] = []
        self.arenas: dict[Any, Any] = {}  # while groups run
        self.tasks: dict[int, Any] = {}  # by thread: examples of `batched` under way

    # --- operands -------------------------------------------------------------------------------------------------------------

    def base_of(self, port: Port) -> int:
        """The port's number in this record, shifted; for those who use it as an operand."""
        if type(port.bucket.form) is RunningSum:
            port.bucket.form.open = False
        if (
            port.base < 0
            or port.base >> PORT_SHIFT >= len(self.ports)
            or self.ports[port.base >> PORT_SHIFT] is not port
        ):
            port.base = len(self.ports) << PORT_SHIFT
            self.ports.append(port)
        return port.base

    def entry_of(self, tensor: Any) -> Any:
        """A plain tensor as an operand: Shared, or (port, row) of the tensors that came from outside."""
        known = self.entered.get(id(tensor))
        if known is not None and known[0] is tensor:
            return known[1]
        kind = kind_of(tensor)
        owner = arrays.base_of(tensor.array)
        if id(owner) not in self.captured:
            self.captured[id(owner)] = owner, next_seq()
        entry: Any
        if (tensor._requires_grad and tensor.node is None) or kind.size >= _LARGE:
            entry = self.shared[id(tensor)] = Shared(tensor, kind)
        else:
            bucket = self.inputs.get(kind)
            if bucket is None:
                bucket = self.inputs[kind] = Bucket(self, None, 0, ())
                bucket.tensors, bucket.done = [], True
                bucket.ports = (Port(bucket, 0, kind),)
            entry = bucket.ports[0], len(bucket.tensors)  # type: ignore[arg-type]
            bucket.tensors.append(tensor)  # type: ignore[union-attr]
        self.entered[id(tensor)] = tensor, entry
        return entry

    def before_write(self, tensor: Any) -> None:
        """A plain tensor is about to be written: what has been recorded with it is run first."""
        if type(tensor) is Lazy:
            return
        if not self.waiting:
            if self.captured:
                self.forget()
        elif type(tensor) is Row or id(arrays.base_of(tensor.array)) in self.captured:
            self.flush(None, "a write into an operand")

    # --- calls -------------------------------------------------------------------------------------------------------------------

    def bucket_of(self, form: Form, shared: tuple, depth: int, columns: int) -> Bucket:
        key = (form, shared, depth)
        found = self.buckets.get(key)
        if found is None or found.done:
            found = self.buckets[key] = Bucket(self, form, depth, shared)
            found.columns = [[] for _ in range(columns)]
            found.ports = tuple([Port(found, number, kind) for number, kind in enumerate(form.kinds)])
            self.waiting.append(found)
        return found

    def note(self, form: Form, entries: list[Any]) -> tuple[Bucket, list[Any]]:
        """The bucket of a call, which has its operands now, and the operands that are rows of ports.

        `entries` has for each operand (port, row), Shared, or None where it is no tensor.
        """
        bucket = self.bucket_for(form, entries)
        rows = [entry for entry in entries if type(entry) is tuple]
        for column, (port, row) in zip(bucket.columns, rows, strict=True):
            column.append(self.base_of(port) + row)
        return bucket, rows

    def bucket_for(self, form: Form, entries: list[Any]) -> Bucket:
        """The bucket of a call with these operands."""
        if len(self.waiting) & 255 == 255:
            self.check_size()
        shared: list[Any] = []
        rows: list[Any] = []
        depth = 0
        for entry in entries:
            if type(entry) is tuple:
                rows.append(entry)
                shared.append(None)
                if entry[0].bucket.depth > depth:
                    depth = entry[0].bucket.depth
            else:
                shared.append(entry)
        bucket = self.bucket_of(form, tuple(shared), depth + 1, len(rows))
        for port, _ in rows:
            if not port.bucket.done:
                bucket.sources.add(port.bucket)
        return bucket

    def check_size(self) -> None:
        """Runs what is waiting when it has become too much for the memory."""
        if sum([bucket.count() for bucket in self.waiting]) >= self.limit:
            self.flush(None, "the limit of waiting calls")

    # --- running ------------------------------------------------------------------------------------------------------------------

    def flush_for(self, targets: list[Bucket]) -> None:
        """Runs what these need, for tasks that are parked."""
        waiting = _needed([one for one in targets if not one.done])
        if waiting:
            self.report.note_flush("decisions of parked examples", len(waiting))
            self._run(waiting)

    def flush(self, target: Bucket | None = None, why: str = "") -> None:
        """Runs what `target` needs, or all that is waiting."""
        task = self.tasks.get(threading.get_ident()) if self.tasks else None
        if task is not None and target is not None:
            task.park(target)
            return
        waiting = self.waiting
        if not waiting:
            if target is not None and not target.done:
                raise _lost(target)
            return
        if target is not None:
            waiting = _needed([target])
        self.report.note_flush(why or "a value was read", len(waiting))
        self._run(waiting)

    def _run(self, waiting: list[Bucket]) -> None:
        self.check_writes()
        mode, watchers = MODES.grad, MODES.watchers
        nodes: list[Any] = []
        MODES.watchers = (nodes.append,)
        with outside():
            try:
                self.arenas = arenas_for(waiting)
                for group in schedule(waiting):
                    run_group(self, group)
            finally:
                MODES.grad, MODES.watchers = mode, watchers
                keep_saved(nodes)
                self.arenas = {}
                self.waiting = [bucket for bucket in self.waiting if not bucket.done]
                self.table.clear()
                if not self.waiting:
                    self.forget()

    def check_writes(self) -> None:
        """Operands written since they were recorded, by something that did not say so before."""
        for owner, seq in self.captured.values():
            if last_write[0] > seq:
                line = written_since(owner, seq)
                if line is not None:
                    raise InplaceError(
                        f"autobatch: an operand of shape {tuple(owner.shape)} was written by {line} after a call that is still waiting had "
                        f"recorded it. Read a result before the write (or leave the scope), or write to a clone()."
                    )

    def forget(self) -> None:
        for port in self.ports:
            port.base = -1
        self.table, self.shared, self.ports, self.buckets = {}, {}, [], {}
        self.inputs, self.entered, self.captured = {}, {}, {}


def _lost(bucket: Bucket) -> RuntimeError:
    return RuntimeError(
        f"autobatch: {bucket.form} was recorded and then given up, because a group before it failed. Fix the first error."
    )


def _needed(targets: list[Bucket]) -> list[Bucket]:
    found, order = set(targets), list(dict.fromkeys(targets))
    for bucket in order:
        for source in bucket.sources:
            if not source.done and source not in found:
                found.add(source)
                order.append(source)
    return order


# --- one call --------------------------------------------------------------------------------------------------------------------


def at_once(op: Op, given: dict[str, Any]) -> Any:
    """The op on values."""
    settled(given)
    with outside():
        return op.function(**given)


def record(recorder: Recorder, op: Op, args: tuple) -> Any:
    """A call that the op's function has not found in the table, with the arguments in the order of the op's signature."""
    parts: list[Any] = [op, MODES.grad]
    key: Any
    rows: list[Any] = []
    if op.name == "add":
        made = chained(recorder, op, args, MODES.grad)
        if made is not None:
            return made
    if op.view and not any([type(one) is Lazy for one in args]):  # no work, and it must share the memory
        return at_once(op, dict(zip(op.signature.parameters, args, strict=True)))
    try:
        for value, role in zip(args, roles_of(op), strict=True):
            if role == _STATIC:
                parts.append(frozen(value))
            elif role == _LIST:
                found = [_keyed(recorder, one) for one in value]
                parts.append(tuple([part for part, _ in found]))
                rows.append([row for _, row in found])
            else:
                part, row = _keyed(recorder, value)
                parts.append(part)
                rows.append(row)
        key = tuple(parts)
        entry = recorder.table.get(key)
    except (TypeError, KeyError):  # nothing that can be looked up
        key = entry = None
    if entry is None or active_vmaps.levels:
        return _new_call(recorder, op, args, key)
    next_row, out = entry[-2:]
    place = 0
    for row in rows:
        if type(row) is list:
            for (add, base), one in zip(entry[place], row, strict=True):
                if add is not None:
                    add(base + one)
            place += 1
        else:
            if row is not None:
                entry[place](entry[place + 1] + row)
            place += 2
    return _given_back(op, args, out, next_row())


def roles_of(op: Op) -> tuple[int, ...]:
    """For each parameter whether it is a static argument, a tensor, or a list of tensors."""
    found = _roles.get(op.name)
    if found is None:
        found = _roles[op.name] = tuple(
            [
                _LIST if name == op.list_name else _ARRAY if name in op.array_names else _STATIC
                for name in op.signature.parameters
            ]
        )
    return found


_STATIC, _ARRAY, _LIST = 0, 1, 2
_roles: dict[str, tuple[int, ...]] = {}


def _keyed(recorder: Recorder, value: Any) -> tuple[Any, Any]:
    """(what stands in a key for an operand, its row where it is a row of a port).

    Raises:
        KeyError: nothing can.
    """
    kind = type(value)
    if kind is Lazy or kind in TENSORS:
        entry = entry_for(recorder, value)
        return entry if type(entry) is tuple else (entry, None)
    if value is None or (kind is float and value):
        return value, None
    if kind is int:
        return (int, value), None
    raise KeyError


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


def _new_call(recorder: Recorder, op: Op, args: tuple, key: Any) -> Any:
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
    bucket, _ = recorder.note(form, entries)
    next_row = bucket.next_row
    if number is not None:
        next_row = _numbered(bucket, given[number])
    if op.name == "add" and not form.kinds[0].shape:
        bucket.links = 1 + (args[0].pending.bucket.links if type(args[0]) is Lazy else 0)
    out = bucket.ports[0] if form.single else bucket.ports
    if by_row is not None:
        if bucket.by_row is None:
            bucket.by_row = []
        bucket.by_row.append(given[by_row])
    elif key is not None:
        recorder.table[key] = (*_slots_of(recorder, op, given, bucket, entries), next_row, out)
    return _given_back(op, args, out, next_row())


_NUMBER = object()


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


def _write(target: Any, value: Any, who: str, write: Any) -> Any:
    """`target` gets the value `value`, which was computed from it: a Lazy that shares memory with no other just stands for the other call now."""
    if (
        type(target) is Lazy
        and type(value) is Lazy
        and target.pending.kind.shape == value.pending.kind.shape
        and target.pending.kind.dtype == value.pending.kind.dtype
        and _alone(target)
        and _alone(value)
    ):
        target.pending, target.row = value.pending, value.row
        return target
    settle(target)
    settle(value)
    return write(target, value, who)


_slots.op, _slots.function, _slots.write = _on_lazies, _function, _write
assert line_text is not None and caller is not None and wrap is not None
