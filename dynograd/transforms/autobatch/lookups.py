"""Rows of a table by index (`embedding`), as groups: the indices are checked when the group runs, so that none is read before.

A table that is shared by all calls is a slab like any group's result: each group takes rows of it, and its gradient is put together once
in a backward pass, however many groups there were.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.autograd.modes import MODES
from dynograd.interpreter import TENSORS
from dynograd.ops import embeddings
from dynograd.ops.op import registry
from dynograd.tensor import Tensor
from dynograd.transforms.autobatch.forms import CHECKS, FORM_CLASSES, Form, frozen
from dynograd.transforms.autobatch.pending import Lazy
from dynograd.transforms.autobatch.recorder import OFTEN, Recorder
from dynograd.transforms.autobatch.rows import gathered, slab_of
from dynograd.transforms.batching.batched import Batched, make_batched

__all__ = ["LookupForm"]

_check = embeddings._checked_indices


class LookupForm(Form):
    """`embedding` on a table and indices that nobody has checked yet."""

    __slots__ = ()

    def __init__(self, op: Any, statics: dict[str, Any], grad: int) -> None:
        super().__init__(op, statics, grad)
        if statics["by_frequency"]:
            self.refused = "scale_grad_by_freq counts within one call"

    def call(self, given: dict[str, Any]) -> Any:
        table, indices = given["weight"], given["indices"]
        batched = type(indices) is Batched
        plain = indices.inner if batched else indices
        _check("embedding", plain, table.inner[0] if type(table) is Batched else table)
        if type(table) is Batched or not batched:
            return super().call(given)
        array, places = table.array, plain.array
        if type(array) is not numpy.ndarray or type(places) is not numpy.ndarray or table.node is not None:
            return super().call(given)
        rows = places.reshape(-1)
        kept = None
        if given["padding_idx"] is not None:
            kept = numpy.flatnonzero(rows != given["padding_idx"])
            if len(kept) == len(rows):
                kept = None
        node = _node_of(table) if MODES.grad else None
        taken = (rows, None) if kept is None else (rows[kept], kept)
        found = gathered(array.take(rows, 0), (node,), (taken,))
        if places.ndim > 1:
            found = registry["view"].function(found, (*places.shape, array.shape[1]))
        return make_batched(indices.level, found)


def _node_of(table: Any) -> Any:
    """The slab's node over a table, the same one for all groups of a scope."""
    tables = MODES.running.tables
    known = tables.get(id(table))
    if known is None or known[0] is not table:
        known = tables[id(table)] = table, slab_of(table)
    return known[1]


def recorded(weight: Any, indices: Any, padding_idx: int | None, by_frequency: bool) -> Any:
    """The call in the record; None where it is to be run at once, on indices that are checked."""
    recorder = MODES.recorder
    if recorder is None or by_frequency or not isinstance(indices, Tensor):
        return None
    kind = indices.pending.kind.dtype if type(indices) is Lazy else indices.array.dtype
    return (
        None if kind.num != _INT64 or len(weight.shape) != 2 else embeddings.lookup(weight, indices, padding_idx, False)
    )


def look_up(recorder: Recorder, weight: Any, indices: Any, padding_idx: int | None) -> Any:
    """A call that is in the table already; None for any other."""
    shared = recorder.shared.get(id(weight))
    if shared is None:
        return None
    if type(indices) is Lazy:
        part, row = indices.pending, indices.row
    elif type(indices) in TENSORS:
        entry = recorder.entry_of(indices)
        if type(entry) is not tuple:
            return None
        part, row = entry
    else:
        return None
    found = recorder.table.get((_OP, MODES.grad, shared, part, padding_idx, _NO))
    if found is None:
        return None
    _, _, add, base, next_row, out = found
    add(base + row)
    made = object.__new__(Lazy)
    made.pending = out
    made.row = row = next_row()
    if row & OFTEN == OFTEN:
        recorder.check_size()
    return made


Recorder.look_up = look_up  # type: ignore[attr-defined]
_OP, _NO = registry["embedding"], frozen(False)
_INT64 = numpy.dtype(numpy.int64).num
FORM_CLASSES["embedding"] = LookupForm
CHECKS["embedding"] = lambda given: _check("embedding", given["indices"], given["weight"])
embeddings.recorded_lookup.append(recorded)
