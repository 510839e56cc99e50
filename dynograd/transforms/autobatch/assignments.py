"""In-place writes, recorded: the tensor that owns the memory stands for a call that gives it with the new values, its views for views of that.

A table that is filled row by row (states of a sequence, a memory, a chart) so waits for no value, as long as all that share its memory
are known. That also holds for a plain tensor that was made before, or outside: nobody but itself, its views and recorded calls may hold
its memory. It becomes one that waits; or, where what is written is known, it gets a copy and the calls keep what they have seen.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any
from weakref import ref

import numpy

from dynograd.autograd.modes import MODES
from dynograd.interpreter import TENSORS
from dynograd.ops import indexing
from dynograd.ops.broadcasting import convert, stretch
from dynograd.ops.op import registry
from dynograd.tensor import Tensor, wrap
from dynograd.tensor_parts import ViewMeta
from dynograd.transforms.autobatch.pending import Lazy, _slots, settle
from dynograd.transforms.autobatch.recorder import Recorder

__all__ = ["keep_old", "set_item", "write"]

_LARGEST = 1 << 16  # elements of a tensor that each write copies
_NUMBERS = {int: "iufc", float: "fc", bool: "biufc"}  # of which kinds a tensor may be, to take such a number
_BASIC = registry["basic_index"]


def write(target: Any, value: Any, who: str, at_once: Any) -> Any:
    """Gives `target` the value `value`, which was computed from it: recorded where it can be, else by `at_once(target, value, who)`."""
    if _alike(target, value) and (type(target) is Lazy or _wait(target)) and _written(target, value):
        return target
    settle(target)
    settle(value)
    return at_once(target, value, who)


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
    if not (type(target) is Lazy or _wait(target)) or _views(target) is None or not _may_be_put(target):
        return False
    if type(value) is Lazy and getattr(value, "origin", None) is target:
        form = value.pending.bucket.form
        if form.op is _BASIC and form.statics["index"] == ready:  # x[i] += y: the view has been written already
            return True
    if value.dtype != dtype:
        value = convert(value, dtype)
    if tuple(value.shape) != region:
        value = stretch(value, region)
    return _written(target, indexing.put_basic(target, value, ready))


def keep_old(recorder: Recorder, tensor: Any) -> bool:
    """Before a plain tensor that recorded calls read is written: they keep its memory, and it gets a copy. False where it must not."""
    views = _held_views(recorder, tensor)
    if views is None or views or tensor.array.size > _LARGEST:
        return False
    _stand_in(recorder, tensor)
    tensor.array = tensor.array.copy()
    return True


# --- tensors that wait -------------------------------------------------------------------------------------------------------------


def _written(target: Any, value: Any) -> bool:
    """Lets `target` stand for `value`: itself, or as the part of its base that it is."""
    if not _alike(target, value):
        return False
    base = getattr(target, "origin", None)
    if base is None:
        views = _views(target)
        if views is None:
            return False
        _become(target, value, views)
        return True
    form = target.pending.bucket.form
    views = _views(base) if type(base) is Lazy else None
    if views is None or form.op is not _BASIC or not _may_be_put(base):
        return False
    made = indexing.put_basic(base, value, form.statics["index"])
    if type(made) is not Lazy:
        return False
    _become(base, made, views)
    return True


def _alike(target: Any, value: Any) -> bool:
    return type(value) is Lazy and value.pending.kind.dtype == target.dtype.numpy and value.shape == target.shape


def _may_be_put(base: Any) -> bool:
    return base.pending.kind.size <= _LARGEST and (bool(MODES.grad) or not base.pending.kind.grad)


def _views(base: Any) -> list[Any] | None:
    """Those that share the memory of `base` and can be taken of it anew; None where it is a view itself, or one cannot."""
    if getattr(base, "origin", None) is not None:
        return None
    found = [one for one in [reference() for reference in getattr(base, "views", None) or ()] if one is not None]
    for one in found:
        if (
            type(one) is not Lazy
            or one.origin is not base
            or [1 for view in getattr(one, "views", None) or () if view() is not None]
        ):
            return None
        form = one.pending.bucket.form
        if form is None or not form.op.view or not form.single or form.grad != MODES.grad:
            return None
    return found


def _become(base: Any, made: Any, views: list[Any]) -> None:
    """`base` stands for `made`, its views for what they are of it now."""
    base.pending, base.row = made.pending, made.row
    base.views = [ref(view) for view in views] or None
    for view in views:
        form = view.pending.bucket.form
        again = form.op.function(base, **form.statics)
        view.pending, view.row = again.pending, again.row


# --- plain tensors -----------------------------------------------------------------------------------------------------------------


def _wait(tensor: Any) -> bool:
    """Makes a plain tensor and its views, or those that it is a view of and among, ones that wait (for nothing yet)."""
    recorder: Any = MODES.recorder
    if recorder is None:
        return False
    base = tensor._meta.base if type(tensor._meta) is ViewMeta else tensor
    views = _held_views(recorder, base)
    if views is None or base.array.size > _LARGEST:
        return False
    kinds = [(view, view._meta.op, view._meta.statics) for view in views]
    if any([op.list_name or op.outputs for _, op, _ in kinds]):
        return False
    for view in views:
        _stand_in(recorder, view)
    port, row = recorder.entry_of(_stand_in(recorder, base))
    _turn(base, port, row)
    for view, op, statics in kinds:
        again = op.function(base, *statics)
        _turn(view, again.pending, again.row)
        view.origin = base
    base.views = [ref(view) for view in views] or None
    return True


def _turn(tensor: Any, port: Any, row: int) -> None:
    tensor._meta = tensor._grad = None
    tensor.__class__ = Lazy
    tensor.pending, tensor.row = port, row


def _held_views(recorder: Recorder, tensor: Any) -> list[Any] | None:
    """The views of a plain tensor that the program holds; None where others may hold its memory, or it is a parameter."""
    if type(tensor) is not Tensor or (tensor._requires_grad and tensor.node is None):
        return None
    array, meta = tensor.array, tensor._meta
    if type(array) is not numpy.ndarray or array.base is not None or not array.flags.owndata:
        return None
    views: list[Any] = []
    held: list[Any] = []
    if meta is not None:
        if meta.base is not None or meta.hooks or meta.after_accumulate or meta.retains or meta.silent:
            return None
        views = [one for one in [reference() for reference in meta.views or ()] if one is not None]
        for view in views:
            if type(view._meta) is not ViewMeta or type(view) is not Tensor or getrefcount(view.array) > 2:
                return None
            if getrefcount(view) > _OF_RECORDED or id(view) not in recorder.entered:
                held.append(view)
    if getrefcount(array) > 3 + (id(array) in recorder.captured) + len(views):  # the tensor, `array`, the call
        return None
    return held


_OF_RECORDED = 5  # a tensor that is an operand and nothing else: known as such twice, `views`, `view`, the call


def _stand_in(recorder: Recorder, tensor: Any) -> Any:
    """Another tensor with the same value and history, which is the operand of what has been recorded with `tensor` and its views."""
    other = wrap(tensor.array)
    other.node, other._requires_grad, other._meta = tensor.node, tensor._requires_grad, tensor._meta
    tensor._meta = None
    if type(other._meta) is ViewMeta:
        other._meta.base._meta.views.append(ref(other))
    for reference in getattr(other._meta, "views", None) or ():
        view = reference()
        if view is not None and type(view._meta) is ViewMeta:
            view._meta.base = other
    held, entry = recorder.entered.pop(id(tensor), (None, None))
    if held is not None:
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
