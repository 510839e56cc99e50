"""What a record is made of: buckets of calls of one form, the ports that their outputs are, operands that all calls share."""

from __future__ import annotations

import sys
import weakref
from operator import length_hint
from typing import Any

from dynograd.transforms.autobatch.group.gathering import row_tensor
from dynograd.transforms.autobatch.record.forms import Form
from dynograd.transforms.autobatch.record.pending import Kind


class Shared:
    """An operand that all calls of a bucket have in common: a parameter, or a large constant."""

    __slots__ = ("kind", "tensor")

    def __init__(self, tensor: Any, kind: Kind) -> None:
        self.tensor, self.kind = tensor, kind


class Port:
    """One output of a bucket. `slab` is, once the bucket has run, the tensor with all its rows (or, for one row, that row)."""

    __slots__ = (
        "__weakref__",
        "_detached",
        "_whole",
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
        "span",
        "values",
    )

    is_open = is_view = False  # of those of a sequence

    def __init__(self, bucket: Any, number: int, kind: Kind) -> None:
        self.bucket, self.number, self.kind = bucket, number, kind
        self.base = -1  # its number in the record, shifted; -1 when it is not in it
        self.slab: Any = None
        self.slab_node: Any = None
        self.arena: Any = None  # where its rows lie with those of other groups, from `base_row` on
        self.base_row = 0
        self.offset = 0  # where its rows begin in `slab`
        self.one = False  # `slab` is the only row itself
        self.span = 0  # so many rows of `slab`, behind one another, are a row of it; 0: one is
        self._whole: Port | None = None  # of a detached view: the port that is filled
        self._detached: Any = None  # a weak reference: ports are in no cycle, so that memory goes with the last tensor
        self.values: Any = None  # of all its rows as Python numbers, once one of them was read

    def detached(self) -> Port:
        if not self.kind.grad:
            return self
        port: Port | None = None if self._detached is None else self._detached()
        if port is None:
            port = Port(self.bucket, self.number, self.kind.without_grad())
            port._whole, self._detached = self, weakref.ref(port)
        return port

    @property
    def whole(self) -> Port:
        """The port that is filled: another one for a detached view of it."""
        return self if self._whole is None else self._whole

    def row(self, row: int) -> tuple[Any, Any]:
        """(array, node) of one row."""
        return row_tensor(self, row)


class Bucket:
    """Calls of one form, with the same shared operands, of one generation: as many of them come one after the other before each."""

    __slots__ = (
        "by_row", "checks", "columns", "common", "depth", "done", "errors", "form", "generation", "generations", "links", "next_row",
        "numbers", "ports", "recorder", "rows", "shared", "sources", "tensors",
    )  # fmt: skip

    def __init__(self, recorder: Any, form: Form | None, depth: int, shared: tuple) -> None:
        self.recorder, self.form, self.depth, self.shared = recorder, form, depth, shared
        # How many buckets of each kind, itself included, have to run one after the other before what needs this one.
        self.generations: dict[Any, int] = {}
        self.generation = 0
        self.done = False
        self.common = False  # its calls share a row
        self.errors: dict[int, Exception] | None = None  # of rows that failed
        self.checks: list[Any] | None = None  # (port, row, check of its values), for when it has run
        self.columns: list[list[int]] = []
        self.by_row: list[Any] | None = None
        self.numbers: list[Any] | None = None  # for each call, where an operand is a number
        self.tensors: list[Any] | None = None  # of a source: the tensors themselves
        self.sources: dict[Bucket, None] = {}  # in the order of the calls, so that groups run in it
        self.rows = iter(range(sys.maxsize))
        self.next_row = self.rows.__next__
        self.links = 0  # how many additions of numbers it follows, one after the other
        self.ports: tuple[Port, ...] = ()

    def need(self, source: Bucket) -> None:
        """A call of the bucket has an operand from `source`."""
        if source in self.sources:
            return
        self.sources[source] = None
        if source.depth >= self.depth:  # of a running sum, which nobody has used yet
            self.depth = source.depth + 1
        known = self.generations
        for kind, count in source.generations.items():
            if known.get(kind, 0) < count:
                known[kind] = count

    def same_row(self) -> None:
        """All its calls are one: their operands are, and they draw nothing."""
        self.common, new_row = True, self.next_row

        def next_row() -> int:
            if self.count() == 0:
                new_row()
            return 0

        self.next_row = next_row

    def close(self) -> None:
        """It has run: what its calls were is needed no more."""
        self.done, self.columns, self.sources = True, [], {}
        self.by_row = self.numbers = None
        self.ports = ()

    def calls(self) -> int:
        """How many calls of ops or cells those are."""
        return self.count() * (1 if self.form is None else self.form.calls)

    def count(self) -> int:
        """How many calls it has."""
        return sys.maxsize - length_hint(self.rows)
