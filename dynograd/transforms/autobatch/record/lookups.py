"""Rows of a table by index (`embedding`), as groups: the indices are checked when the group runs, so that none is read before.

A table that is shared by all calls is a slab like any group's result: each group takes rows of it, and its gradient is put together once
in a backward pass, however many groups there were.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.autograd.modes import MODES
from dynograd.interpreter import TENSORS
from dynograd.ops.index import embeddings
from dynograd.ops.op import registry
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.autobatch.group.ready import ReadyCalls
from dynograd.transforms.autobatch.group.rows import gathered, slab_of
from dynograd.transforms.autobatch.record.buckets import Shared
from dynograd.transforms.autobatch.record.forms import CHECKS, FORM_CLASSES, Form, casting, frozen, kind_of
from dynograd.transforms.autobatch.record.indices import INT64, Indices
from dynograd.transforms.autobatch.record.layer_calls import MAKERS
from dynograd.transforms.autobatch.record.pending import Lazy
from dynograd.transforms.autobatch.record.recorder import OFTEN, Recorder
from dynograd.transforms.batching.batched import Batched

_check = embeddings._checked_indices


class LookupForm(Form):
    """`embedding` on a table and indices that nobody has checked yet."""

    __slots__ = ()

    def __init__(self, op: Any, statics: dict[str, Any], grad: int) -> None:
        super().__init__(op, statics, grad)
        self.ready = _ReadyLookups()
        if statics["by_frequency"]:
            self.refused = "scale_grad_by_freq counts within one call"

    def call(self, arguments: dict[str, Any]) -> Any:
        table, indices = arguments["weight"], arguments["indices"]
        batched = type(indices) is Batched
        _check("embedding", indices.inner if batched else indices, table.inner[0] if type(table) is Batched else table)
        return super().call(arguments)


class _ReadyLookups(ReadyCalls):
    """Rows of a table that all calls share are rows of a slab."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)

    def call(self, op: Any, arguments: dict[str, Any], stacked: tuple[bool, ...], size: int) -> Any:
        table, indices = arguments["weight"], arguments["indices"]
        array, places = table.array, indices.array
        if len(stacked) > 1 or type(array) is not numpy.ndarray or type(places) is not numpy.ndarray or table.node:
            return None
        _check("embedding", indices, table)
        rows = places.reshape(-1)
        kept = None
        if arguments["padding_idx"] is not None:
            kept = numpy.flatnonzero(rows != arguments["padding_idx"])
            if len(kept) == len(rows):
                kept = None
        node = _node_of(table) if MODES.grad else None
        taken = (rows, None) if kept is None else (rows[kept], kept)
        result = gathered(array.take(rows, 0), (node,), (taken,))
        return result if places.ndim == 1 else registry["view"].function(result, (*places.shape, array.shape[1]))


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
        None
        if kind.num != INT64.num or len(weight.shape) != 2
        else embeddings.lookup(weight, indices, padding_idx, False)
    )


def _layer(module: Any) -> Any:
    """`layer_of` an Embedding."""
    parameters, padding_idx = module._parameters, module.padding_idx
    if module.max_norm is not None or module.sparse or module.scale_grad_by_freq:
        return None

    def quick(input: Any) -> Any:
        recorder = MODES.recorder
        if type(input) is Lazy:
            key = _OP, MODES.grad, recorder.shared.get(id(parameters["weight"])), input.pending, padding_idx, _NO
            _, _, add, base, next_row, out = recorder.table[key]
            row = input.row
        else:
            array = input.array if type(input) in TENSORS else None
            if type(array) is not numpy.ndarray or array.dtype is not INT64 or array.ndim:
                raise TypeError
            entry = recorder.table.get((quick, MODES.grad))
            if entry is None or entry[0] is not parameters["weight"]:
                weight = parameters["weight"]
                entry = recorder.table[quick, MODES.grad] = weight, *_entered(recorder, weight, input, padding_idx)
            _, numbers, add, base, next_row, out = entry
            row = len(numbers)
            numbers.append(array.item())
        add(base + row)
        lazy = object.__new__(Lazy)
        lazy.pending = out
        lazy.row = row = next_row()
        if row & OFTEN == OFTEN:
            recorder.check_size()
        return lazy

    return quick


_AT = object()
_forms: dict[Any, Any] = {}  # of lookups by a number


def _entered(recorder: Recorder, weight: Any, indices: Any, padding_idx: int | None) -> tuple:
    """What is noted, from now on, of lookups in a table by a number each.

    Raises:
        KeyError: no such lookup has been recorded before.
    """
    shared = recorder.entry_of(weight) if type(weight) in TENSORS else None
    if type(shared) is not Shared:
        raise KeyError
    kind = kind_of(indices)
    plan = shared.kind, kind, padding_idx, MODES.grad, casting()
    form = _forms.get(plan)
    if form is None:
        port = recorder.inputs[kind].ports[0] if kind in recorder.inputs else None
        known = recorder.table[_OP, MODES.grad, shared, port, padding_idx, _NO]
        if len(_forms) > 1000:
            _forms.clear()
        form = _forms[plan] = known[-1].bucket.form
    source = recorder.inputs.get(_AT)
    if source is None:
        source = recorder.inputs[_AT] = recorder.source_of(kind, Indices())
    (port,) = source.ports
    bucket = recorder.bucket_for(form, [shared, (port, 0)])
    (column,) = bucket.columns
    return source.tensors, column.append, recorder.base_of(port), bucket.next_row, bucket.ports[0]


MAKERS["embedding"] = _layer
_OP, _NO = registry["embedding"], frozen(False)
FORM_CLASSES["embedding"] = LookupForm
CHECKS["embedding"] = lambda arguments: _check("embedding", arguments["indices"], arguments["weight"])
embeddings.recorded_lookup.append(recorded)
