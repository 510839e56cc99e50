"""In-place writes, recorded: the tensor that owns the memory stands for a call that gives it with the new values, its views for views of that.

A table that is filled row by row (states of a sequence, a memory, a chart) so waits for no value, as long as all that share its memory
are known. That also holds for a plain tensor that was made before, or outside: nobody but itself, its views and recorded calls may hold
its memory. It becomes one that waits; or, where what is written is known, it gets a copy and the calls keep what they have seen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy

from dynograd.autograd.modes import MODES
from dynograd.interpreter import TENSORS
from dynograd.interpreter.tensor_parts import base_of, holders_of_memory, set_record, steps_of
from dynograd.ops.index import indexing
from dynograd.ops.layout.broadcasting import convert, stretch
from dynograd.ops.op import registry
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.autobatch.record.pending import Lazy, _slots, note_view, settle
from dynograd.transforms.autobatch.record.recorder import Recorder
from dynograd.transforms.batching.batched import _active as active_vmaps

_LARGEST = 1 << 16  # elements of a tensor that each write copies
_NUMBERS = {int: "iufc", float: "fc", bool: "biufc"}  # of which kinds a tensor may be, to take such a number
_BASIC = registry["basic_index"]


def _op_by_op(function: Callable[..., Any]) -> Callable[..., Any]:
    """Tensors are looked at and exchanged in it, so that its ops are in no sequence, and those before it are in the record one by one."""

    @functools.wraps(function)
    def call(*args: Any) -> object:
        recorder = MODES.recorder
        if recorder is None or recorder.at is None:
            return function(*args)
        recorder.open_sequences()
        at, recorder.at = recorder.at, None
        try:
            return function(*args)
        finally:
            recorder.at = at

    return call


@_op_by_op
def write(target: Any, value: Any, who: str, at_once: Any) -> Any:
    """Gives `target` the value `value`, which was computed from it: recorded where it can be, else by `at_once(target, value, who)`."""
    if _alike(target, value) and _written(target, value):
        return target
    settle(target)
    settle(value)
    return at_once(target, value, who)


@_op_by_op
def set_item(target: Any, index: Any, value: Any) -> bool:
    """Records `target[index] = value`; False where it is to be done as always (which also says what is wrong with it)."""
    if MODES.recorder is None or not isinstance(index, (int, slice, tuple, type(Ellipsis), type(None))):
        return False
    shape, dtype = tuple(target.shape), target.dtype
    region = _region(shape, index)
    basic, ready = indexing.normalize_index(shape, index) if region is not None else (False, None)
    if not basic:
        return False
    if type(value) in _NUMBERS and dtype.numpy.kind in _NUMBERS[type(value)]:
        value = wrap(numpy.array(value, dtype.numpy))
    if type(value) is not Lazy and type(value) not in TENSORS:
        return False
    if value.device != target.device or not _fits(tuple(value.shape), region):
        return False
    if not _recorded() or _family(target, True) is None:
        return False
    if type(value) is Lazy and _origin(value) is target:
        form = value.pending.bucket.form
        if form.op is _BASIC and form.statics["index"] == ready:  # x[i] += y: the view has been written already
            return True
    if value.dtype != dtype:
        value = convert(value, dtype)
    if tuple(value.shape) != region:
        value = stretch(value, region)
    return _written(target, indexing.put_basic(target, value, ready))


@_op_by_op
def keep_old(recorder: Recorder, tensor: Any) -> bool:
    """Before a plain tensor that recorded calls read is written: they keep its memory, and it gets a copy. False where it must not."""
    views = _held_views(recorder, tensor)
    if views is None or views or tensor.array.size > _LARGEST:
        return False
    _stand_in(recorder, tensor)
    tensor.array = tensor.array.copy()
    return True


# --- tensors that wait -------------------------------------------------------------------------------------------------------------


def _recorded() -> bool:
    """Whether ops are recorded now, so that what they give waits too."""
    return MODES.recorder is not None and MODES.grad <= 1 and not active_vmaps.levels


def _family(target: Any, part: bool = False) -> tuple[list[Any], list[Any]] | None:
    """Those that share the memory of `target` and must be taken anew when it (or a part of it) is written.

    Gives ([(tensor, index that the one before has in it), ...] from `target` up to the owner, [views, after what they are views of]);
    None where one of them cannot wait.
    """
    if type(target) is not Lazy and not _wait(target):
        return None
    steps, owner = [], target
    while _origin(owner) is not None:
        form = _form_of_view(owner)
        if form is None or form.op is not _BASIC:
            return None
        owner = owner.origin
        steps.append((owner, form.statics["index"]))
    views = _views(owner)
    for view in views:  # grows meanwhile
        form = None if type(view) is not Lazy else _form_of_view(view)
        if form is None or not form.single or form.grad != MODES.grad:
            return None
        views += _views(view)
    kind = owner.pending.kind
    if (part or steps) and (kind.size > _LARGEST or (kind.grad and not MODES.grad)):
        return None
    return steps, views


def _written(target: Any, value: Any) -> bool:
    """Lets `target` stand for `value`, and what it is a part of for that with the new part."""
    family = _family(target) if _alike(target, value) else None
    if family is None:
        return False
    steps, views = family
    owner = target
    for owner, index in steps:
        value = indexing.put_basic(owner, value, index)
        if type(value) is not Lazy:
            return False
    _become(owner, value, views)
    return True


def _alike(target: Any, value: Any) -> bool:
    return type(value) is Lazy and value.pending.kind.dtype == target.dtype.numpy and value.shape == target.shape


def _origin(tensor: Any) -> Any:
    return getattr(tensor, "origin", None)


def _views(tensor: Any) -> list[Any]:
    return [view for view in [reference() for reference in getattr(tensor, "views", None) or ()] if view is not None]


def _form_of_view(view: Any) -> Any:
    """The form of the call that made a view; None where it is a tensor without its history, or unknown."""
    bucket = view.pending.bucket
    origin = view.origin
    if type(origin) is not Lazy or bucket is origin.pending.bucket or bucket.form is None or not bucket.form.op.view:
        return None
    return bucket.form


def _become(owner: Any, fresh: Any, views: list[Any]) -> None:
    """`owner` stands for `fresh`, its views for what they are of it now."""
    owner.pending, owner.row = fresh.pending, fresh.row
    parts = {id(operand): [ref(view) for view in _views(operand)] or None for operand in (owner, *views)}
    for view in views:
        form = view.pending.bucket.form
        again = form.op.function(view.origin, **form.statics)
        view.pending, view.row = again.pending, again.row
    for operand in (owner, *views):
        operand.views = parts[id(operand)]


# --- plain tensors -----------------------------------------------------------------------------------------------------------------


def _wait(tensor: Any) -> bool:
    """Makes a plain tensor and its views, or those that it is a view of and among, ones that wait (for nothing yet)."""
    recorder: Any = MODES.recorder
    if recorder is None:
        return False
    base = tensor._meta[0] if type(tensor._meta) is tuple else tensor
    views = _held_views(recorder, base, () if base is tensor else (tensor,))
    if views is None or base.array.size > _LARGEST:
        return False
    grad = base._requires_grad and bool(MODES.grad)
    if any(
        [operand._requires_grad != grad for operand in (base, *views)]
    ):  # taken anew, they would have another history
        return False
    ways = [steps_of(view._meta) for view in views]
    if any([op.outputs for way in ways for op, _, _ in way]):
        return False
    for view in views:
        _stand_in(recorder, view)
    port, row = recorder.entry_of(_stand_in(recorder, base))
    _turn(base, port, row)
    for view, way in zip(views, ways, strict=True):
        function = base
        for op, statics, _ in way:
            function = op.function(function, *statics)
        _turn(view, function.pending, function.row)
        note_view(view, function.origin)
    return True


def _turn(tensor: Any, port: Any, row: int) -> None:
    tensor._meta = tensor._grad = None  # no views yet, and a view of none
    tensor.__class__ = Lazy
    tensor.pending, tensor.row = port, row


def _held_views(recorder: Recorder, tensor: Any, known: tuple = ()) -> list[Any] | None:
    """The views of a plain tensor that the program holds, all of which are `known` or operands of recorded calls.

    None where others may hold its memory, or it is a parameter.
    """
    if type(tensor) is not Tensor or (tensor._requires_grad and tensor.node is None):
        return None
    meta = tensor._meta
    if type(tensor.array) is not numpy.ndarray or tensor.array.base is not None or not tensor.array.flags.owndata:
        return None
    result: list[Any] = []
    if meta is not None:
        if type(meta) is tuple or meta.hooks or meta.after_accumulate or meta.retained or meta.silent or meta.view:
            return None
    views = _known_views(recorder, tensor, known)
    for view, holders in zip(views, _holders(views), strict=True):
        if (
            type(view._meta) is not tuple
            or type(view) is not Tensor
            or holders_of_memory(view) > (id(view.array) in recorder.remembered)
        ):
            return None
        if holders > 2 or id(view) not in recorder.entered:  # more than what makes it an operand
            result.append(view)
    own = (id(tensor.array) in recorder.captured) + (id(tensor.array) in recorder.remembered)
    if holders_of_memory(tensor) > own + len(views):
        return None
    return result


def _known_views(recorder: Recorder, tensor: Any, known: tuple = ()) -> list[Any]:
    """Views of a tensor: operands of recorded calls, those made in the scope, and others that are known."""
    if holders_of_memory(tensor) <= (id(tensor.array) in recorder.captured) + (id(tensor.array) in recorder.remembered):
        return []
    views = {id(view): view for view, _ in recorder.entered.values() if base_of(view) is tensor}
    noted = [reference() for reference in recorder.views.get(id(tensor), ())]
    views |= {id(view): view for view in (*noted, *known) if view is not None and base_of(view) is tensor}
    return list(views.values())


def _holders(tensors: list[Any]) -> list[int]:
    """How many hold each of the tensors besides the list."""
    return [getrefcount(tensor) - _unheld[0] for tensor in tensors]


# What the interpreter itself counts, which differs between its versions.
_unheld = [0]
_unheld[0] = _holders([wrap(numpy.empty(1))])[0]


def _stand_in(recorder: Recorder, tensor: Any) -> Any:
    """Another tensor with the same value and history, which is the operand of what has been recorded with `tensor` and its views."""
    views = _known_views(recorder, tensor)
    other = wrap(tensor.array)
    other.node, other._requires_grad = tensor.node, tensor._requires_grad
    other._meta, tensor._meta = tensor._meta, None
    for view in views:
        if type(view._meta) is tuple:
            set_record(view, (other, *view._meta[1:]))
    pending, entry = recorder.entered.pop(id(tensor), (None, None))
    if pending is not None:
        recorder.entered[id(other)] = other, entry
        if type(entry) is tuple:
            port, row = entry
            port.bucket.tensors[row] = other
        else:
            del recorder.shared[id(tensor)]
            recorder.shared[id(other)] = entry
            entry.tensor = other
    return other


# --- indices -----------------------------------------------------------------------------------------------------------------------


def _region(shape: tuple[int, ...], index: Any) -> tuple[int, ...] | None:
    """The shape of what stands at the index."""
    try:
        return numpy.broadcast_to(numpy.False_, shape)[index].shape
    except (IndexError, TypeError, ValueError):
        return None


def _fits(shape: tuple[int, ...], region: tuple[int, ...] | None) -> bool:
    try:
        return numpy.broadcast_shapes(shape, region) == region  # type: ignore[arg-type]
    except ValueError:
        return False


_slots.write, _slots.set_item, _slots.keep_old = write, set_item, keep_old
