"""The record of an `autobatch` scope: buckets of calls that can be run as one group.

A call goes to the bucket of its form (op, static arguments, kinds of its operands), its shared operands, and its generation (how many of
its kind come one after the other before it), as long as that lies deeper than what the call needs. What is kept of it is one whole
number for each operand (which port, which row of it) in a flat list, so that the garbage collector has nothing to chase. How ops
come to be in it is in `recording`, how groups are run in `executing`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from threading import get_ident
from typing import Any
from weakref import ref

import numpy

from dynograd import arrays
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import Node, next_seq
from dynograd.autograd.writes import last_write, written_since
from dynograd.errors import InplaceError
from dynograd.interpreter.tensor_parts import base_of, holders_of_memory
from dynograd.interpreter.view_history import follow_base
from dynograd.transforms.autobatch.group.executing import arenas_for, run_group
from dynograd.transforms.autobatch.group.expanding import expanded
from dynograd.transforms.autobatch.group.rows import keep_saved
from dynograd.transforms.autobatch.group.scheduling import schedule
from dynograd.transforms.autobatch.group.sums import RunningSum
from dynograd.transforms.autobatch.group.uneven import families_of, run_family
from dynograd.transforms.autobatch.record.buckets import Bucket, Port, Shared
from dynograd.transforms.autobatch.record.forms import Form, cast_as, casting, kind_of
from dynograd.transforms.autobatch.record.pending import Kind, Row, _slots, settle
from dynograd.transforms.autobatch.reports import Report

PORT_SHIFT = 32
OFTEN = (1 << 10) - 1  # a bucket asks after so many calls whether too many wait
_READS, _WORTHWHILE = 16, 4  # after so many reads, with fewer calls a group on average, ops are quicker one by one
_LARGE = 1 << 16  # constants of so many elements are shared by identity, smaller ones are stacked
_WRITTEN = (
    "autobatch: an operand of shape {} was written by {} after a call that is still waiting had recorded it. "
    "Read a result before the write (or leave the scope), or write to a clone()."
)


class outside:
    """Inside, ops run at once."""

    __slots__ = ("held",)

    def __enter__(self) -> None:
        self.held, MODES.recorder = MODES.recorder, None

    def __exit__(self, *error: Any) -> None:
        MODES.recorder = self.held


class Recorder:
    """What one scope has recorded and not run yet."""

    def __init__(self, limit: int, report: Report, always: bool = True, sequences: Any = None) -> None:
        self.limit, self.report, self.always = limit, report, always
        self.sequences = sequences
        self.at: Any = None  # the step of a sequence that comes next; None: there are no sequences
        self.operands: list[Any] = []  # of the sequence that the program is in: (tensor, port, row)
        self.valid: set[Any] = set()  # sequences whose parameters have been looked at
        self.reads = 0  # how often waiting calls ran because a value was read
        self.table: dict[Any, Any] = {}
        self.cast = casting()  # what autocast does to the calls in it
        self.shared: dict[int, Shared] = {}
        self.shared_views: dict[Any, Shared] = {}
        self.ports: list[Port] = []
        self.buckets: dict[Any, Bucket] = {}
        self.waiting: list[Bucket] = []
        self.inputs: dict[Any, Bucket] = {}
        self.entered: dict[int, tuple[Any, Any]] = {}  # tensors from outside, as operands
        self.captured: dict[int, tuple[Any, int]] = {}  # the memory that they lie in, and since when it is needed
        self.views: dict[
            int, list[Any]
        ] = {}  # weak references to views of plain tensors that were made here, by the id of their base
        self.remembered: dict[int, tuple[Any, bytes]] = {}  # arrays that NumPy may write, with their values, by id
        self.first_captured = 0  # the earliest of their places in time
        self.failed: list[Exception] = []
        self.check_at = 16  # so many buckets wait when the next look at their calls is due
        self.refused_families: set[Any] = set()  # forms that differ in a dim and have not run together
        self.tables: dict[int, Any] = {}  # tables that rows were taken of, with the nodes over them
        self.arenas: dict[Any, Any] = {}  # while groups run
        self.task: Any = None  # the example of `batched` that runs now
        self.owner = get_ident()  # the thread that records
        self.closed = False

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
        if tensor._meta is not None:
            follow_base(tensor)
        known = self.entered.get(id(tensor))
        if known is not None and known[0] is tensor:
            return known[1]
        kind = kind_of(tensor)
        if kind.size < _LARGE and (
            holders_of_memory(tensor) > 0 or tensor.array.base is not None
        ):  # no name holds the array
            self._remember(tensor.array)
        self._capture(tensor.array)
        entry: Any = None
        if tensor.node is not None and tensor.node.op is not None and tensor.node.op.view:
            entry = self.whole_view(tensor, kind)
        if entry is None:
            if (tensor._requires_grad and tensor.node is None) or kind.size >= _LARGE:
                entry = self.shared[id(tensor)] = Shared(tensor, kind)
            else:
                entry = self.as_row(tensor, kind)
        self.entered[id(tensor)] = tensor, entry
        return entry

    def whole_view(self, tensor: Any, kind: Kind) -> Shared | None:
        """The operand for all tensors made of a leaf as this one is (`weight.t()`), by views of all its elements."""
        steps: list[Any] = []
        node = tensor.node
        while isinstance(node, Node):
            if node.op is None or not node.op.view or len(node.edges) != 1 or node.hooks is not None:
                return None
            steps.append((node.op, node.attrs))
            node = node.edges[0]
        if node is None or node.array.size != kind.size:
            return None
        try:
            key = id(node), *steps
            entry = self.shared_views.get(key)
        except TypeError:  # static arguments that cannot be compared
            return None
        if entry is None:
            self._capture(node.array)
            entry = self.shared_views[key] = Shared(tensor, kind)
        self.shared[id(tensor)] = entry
        return entry

    def _capture(self, array: Any) -> None:
        """Remembers that what is in the array's memory now is needed."""
        owner = array if array.base is None else arrays.base_of(array)
        captured = self.captured
        if id(owner) not in captured:
            now = next_seq()
            if not captured:
                self.first_captured = now
            captured[id(owner)] = owner, now

    def _remember(self, array: Any) -> None:
        """Keeps the values of an operand that NumPy may write without a word, to be compared when its calls run."""
        if id(array) not in self.remembered and type(array) is numpy.ndarray:
            self.remembered[id(array)] = array, array.tobytes()

    def note_view(self, view: Any) -> None:
        """Remembers a view that was made in this scope, outside of the record."""
        if MODES.recorder is not self:
            return
        noted = self.views.setdefault(id(base_of(view)), [])
        noted.append(ref(view))
        if len(noted) & (len(noted) - 1) == 0:  # each time they have doubled
            noted[:] = [reference for reference in noted if reference() is not None]

    def between(self) -> None:
        """All calls so far are in the record, and what comes next is no step of a sequence."""
        if self.at is not None:
            self.sequences.between()

    def open_sequences(self) -> None:
        """All calls of sequences are those of their ops: somebody looks at what they are."""
        if self.at is not None:
            self.sequences.between()
            expanded(self, self.waiting, False)

    def before_lending(self, tensor: Any) -> None:
        """NumPy gets the memory of a tensor: of its operands here, the values are remembered from now on."""
        self.between()
        if not self.captured:
            return
        owner = arrays.base_of(tensor.array)
        if id(owner) in self.captured:
            for known, _ in self.entered.values():
                array = known.array
                if array.size < _LARGE and arrays.base_of(array) is owner:
                    self._remember(array)

    def as_row(self, tensor: Any, kind: Kind) -> tuple[Port, int]:
        """(port, row) of a tensor among those that came from outside."""
        bucket = self.inputs.get(kind)
        if bucket is None:
            bucket = self.inputs[kind] = self.source_of(kind, [])
        assert bucket.tensors is not None
        bucket.tensors.append(tensor)
        return bucket.ports[0], len(bucket.tensors) - 1

    def source_of(self, kind: Kind, tensors: list[Any]) -> Bucket:
        """A bucket of operands that came from outside."""
        bucket = Bucket(self, None, 0, ())
        bucket.tensors, bucket.done = tensors, True
        bucket.ports = (Port(bucket, 0, kind),)
        return bucket

    def before_write(self, tensor: Any) -> None:
        """A tensor is about to be written: what has been recorded with it is run first."""
        self.open_sequences()
        settle(tensor)
        if not self.waiting:
            if self.captured:
                self.forget()
            return
        recorded = type(tensor) is Row or id(arrays.base_of(tensor.array)) in self.captured
        if recorded and not _slots.keep_old(self, tensor):
            self.flush(None, "a write into an operand")

    def before_writing(self, written: Iterable[Any]) -> None:
        """The same of many arrays, into which kernels write."""
        self.open_sequences()
        if self.waiting and any([id(arrays.base_of(array)) in self.captured for array in written]):
            self.flush(None, "a write into operands")

    def before_rebinding(self, tensor: Any) -> None:
        """A tensor is about to get other memory, or to give its own to another tensor: what has been recorded with it is run first."""
        self.between()
        settle(tensor)
        if self.waiting and (id(tensor) in self.entered or id(arrays.base_of(tensor.array)) in self.captured):
            self.flush(None, "an operand gets other memory")

    def check_casting(self) -> None:
        """Autocast may have changed on this thread: calls in the table were recorded under another one."""
        self.between()
        now = casting()
        if now != self.cast:
            self.cast = now
            self.table.clear()

    # --- calls -------------------------------------------------------------------------------------------------------------------

    def bucket_of(self, form: Form, shared: tuple, sources: Collection[Bucket], columns: int) -> Bucket:
        """The bucket of a call that needs `sources`: one of its generation, if it lies deeper than they do, so that none needs itself."""
        kind, depth, generation = (form, shared), 0, 0
        for source in sources:
            if source.depth > depth:
                depth = source.depth
            before = source.generations.get(kind, 0)
            if before > generation:
                generation = before
        key = (form, shared, generation)
        bucket = self.buckets.get(key)
        if bucket is None or bucket.done or bucket.depth <= depth:
            bucket = self.buckets[key] = Bucket(self, form, depth + 1, shared)
            bucket.generation = generation
            bucket.generations[kind] = generation + 1
            bucket.columns = [[] for _ in range(columns)]
            if not columns and type(form) is Form and not form.op.row["by_row"]:
                bucket.same_row()
            bucket.ports = tuple([Port(bucket, number, kind) for number, kind in enumerate(form.kinds)])
            self.waiting.append(bucket)
        for source in sources:
            bucket.need(source)
        return bucket

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
        if len(self.waiting) >= self.check_at:
            self.check_size()
        shared: list[Any] = []
        sources: dict[Bucket, None] = {}  # in order, each once
        columns = 0
        for entry in entries:
            if type(entry) is not tuple:
                shared.append(entry)
                continue
            shared.append(None)
            columns += 1
            bucket = entry[0].bucket
            if not bucket.done:
                sources[bucket] = None
        return self.bucket_of(form, tuple(shared), sources, columns)

    def check_size(self) -> None:
        """Runs what is waiting when it has become too much for the memory."""
        if sum([bucket.calls() for bucket in self.waiting]) >= self.limit:
            self.flush(None, "the limit of waiting calls")
        self.check_at = len(self.waiting) * 5 // 4 + 16

    # --- running ------------------------------------------------------------------------------------------------------------------

    def flush_for(self, targets: list[Bucket]) -> None:
        """Runs what these need, for examples that are parked."""
        self.between()
        waiting = _needed([target for target in targets if not target.done])
        if waiting:
            self.report.note_flush("decisions of parked examples", len(waiting))
            self._run(waiting)

    def flush(self, target: Bucket | None = None, why: str = "") -> None:
        """Runs what `target` needs, or all that is waiting.

        Raises:
            RuntimeError: on another thread than the one that records.
        """
        if self.owner != get_ident() and not self.closed:
            raise RuntimeError(
                "autobatch: a thread reads a value that another thread has recorded and not computed yet. Read it there first "
                "(x.item(), x.detach().numpy()), or hand it over when the scope has been left."
            )
        self.between()
        if self.task is not None and target is not None and not _in_debugger():
            self.task.park((target,))
            if target.done:
                return
        waiting = self.waiting
        if target is not None:
            waiting = _needed([target]) if waiting else waiting
            if not waiting and not target.done:
                raise _lost(target)
        if waiting:
            self.report.note_flush(why or "a value was read", len(waiting))
            self._run(waiting)
            if target is not None and not self.always:
                self.after_read()

    def after_read(self) -> None:
        """Ends the recording where values are read again and again and little has come together each time."""
        self.reads += 1
        if self.reads < _READS or self.reads & (self.reads - 1) or MODES.recorder is not self:
            return
        report = self.report
        if report.calls < _WORTHWHILE * report.launches:
            report.ended = f"{self.reads} reads left {report.calls / report.launches:.1f} calls a group"
            self.flush(None, "the end of recording")
            MODES.recorder = None

    def told(self, error: Exception) -> None:
        """An example of `batched` gets this error of one of its calls: the end of the scope need not raise it again."""
        if self.task is not None:
            self.failed = [failure for failure in self.failed if failure is not error]

    def close(self) -> None:
        """Nothing more is recorded; what an error has left waiting can still be computed."""
        if self.at is not None:
            self.sequences.end(self)
        self.closed = True

    def _run(self, waiting: list[Bucket]) -> None:
        self.check_writes()
        mode, watchers, outer, recorder = MODES.grad, MODES.watchers, MODES.running, MODES.recorder
        nodes: list[Any] = []
        try:
            MODES.running, MODES.recorder, MODES.watchers = self, None, (nodes.append,)
            waiting = expanded(self, waiting)
            self.arenas = arenas_for(waiting)
            families = families_of(waiting, self.refused_families)
            for group in schedule(waiting, families):
                if group[0].form.casting == casting():
                    self._run_alike(group, families)
                else:
                    with cast_as(group[0].form.casting):
                        self._run_alike(group, families)
                for bucket in group:
                    if bucket.checks is not None:
                        self._check(bucket)
        finally:
            MODES.grad, MODES.watchers, MODES.running = mode, watchers, outer
            try:
                keep_saved(nodes)
                self.arenas = {}
                self.waiting = [bucket for bucket in self.waiting if not bucket.done]
                self.table.clear()
                if not self.waiting:
                    self.forget()
            finally:
                MODES.recorder = recorder

    def _run_alike(self, buckets: list[Bucket], families: dict[Any, Any]) -> None:
        """Runs buckets of one form, or of several that differ in the size of one dim."""
        by_form: dict[Any, list[Bucket]] = {}
        for bucket in buckets:
            by_form.setdefault(bucket.form, []).append(bucket)
        if len(by_form) == 1 or not run_family(self, families[buckets[0].form], buckets):
            for group in by_form.values():
                run_group(self, group)

    def _check(self, bucket: Bucket) -> None:
        """Looks at values that calls have taken on trust; what is wrong with one is an error of its row, and of what was made of it."""
        checks, bucket.checks = bucket.checks, None
        for port, row, check in checks or ():
            if bucket.errors is not None and row in bucket.errors:
                continue
            try:
                check(port.row(row)[0])
            except Exception as error:
                bucket.errors = {**(bucket.errors or {}), row: error}
                self.failed.append(error)

    def check_writes(self) -> None:
        """Operands written since they were recorded, by something that did not say so before."""
        for array, values in self.remembered.values():
            if array.tobytes() != values:
                writer = (
                    written_since(arrays.base_of(array), self.first_captured)
                    or "NumPy, or by something else that says nothing,"
                )
                raise InplaceError(_WRITTEN.format(tuple(array.shape), writer))
        if last_write[0] < self.first_captured or not self.captured:
            return
        for owner, seq in self.captured.values():
            if last_write[0] > seq:
                line = written_since(owner, seq)
                if line is not None:
                    raise InplaceError(_WRITTEN.format(tuple(owner.shape), line))

    def forget(self) -> None:
        for port in self.ports:
            port.base = -1
        for bucket in self.inputs.values():
            bucket.ports = ()
        self.table, self.shared, self.ports, self.buckets = {}, {}, [], {}
        self.shared_views = {}
        self.valid = set()
        self.inputs, self.entered, self.captured, self.remembered = {}, {}, {}, {}


def _in_debugger() -> bool:
    """Whether a debugger steps through this thread: then values are computed at once, not when all examples wait."""
    trace = sys.gettrace()
    return (
        trace is not None
        and "bdb" in sys.modules
        and isinstance(getattr(trace, "__self__", None), sys.modules["bdb"].Bdb)
    )


def _lost(bucket: Bucket) -> RuntimeError:
    return RuntimeError(
        f"autobatch: {bucket.form} was recorded and then given up, because a group before it failed. Fix the first error."
    )


def _needed(targets: list[Bucket]) -> list[Bucket]:
    result, order = set(targets), list(dict.fromkeys(targets))
    for bucket in order:
        for source in bucket.sources:
            if not source.done and source not in result:
                result.add(source)
                order.append(source)
    return order
