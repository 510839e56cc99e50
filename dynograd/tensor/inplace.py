"""Writing into tensors: `add_` and its like, `copy_`, `x[index] = value`, and what that does to the history of views.

An in-place op is its functional form followed by a write. The write stamps the memory (see `autograd/writes.py`), so backward can
tell when something it needs was overwritten. A write into a view gives the whole base a new history in which the written region
comes from the new value; every view of the base makes its own anew from that when it is next asked for it, as in PyTorch.
"""

from __future__ import annotations

import functools
from typing import Any

from numpy import may_share_memory, putmask

from dynograd import arrays
from dynograd.arrays import Array, buffers, literals, ndarray, storages
from dynograd.arrays.meta_arrays import MetaArray, no_values
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller
from dynograd.autograd.packing import Packed, map_saved
from dynograd.autograd.writes import note_again, stamp
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes
from dynograd.errors import DtypeError, InplaceError, ShapeError
from dynograd.interpreter import TENSORS
from dynograd.interpreter.tensor_parts import base_of, is_silent, view_of
from dynograd.interpreter.view_history import follow_base, overwrite, rebase, write_steps
from dynograd.kernels import kernel
from dynograd.ops.index import indexing
from dynograd.ops.layout.broadcasting import convert, stretch
from dynograd.ops.layout.conversions import moved
from dynograd.ops.op import registry
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["copy_", "fill_", "set_item", "write_result", "zero_"]


# Asked before a tensor is written, one for each `autobatch` scope and compiled step that is open; all call `ask`.
guards: list[Any] = []


def guard() -> functools.partial[None]:
    """One of a scope or step of its own, so that whoever has entered it can tell."""
    return functools.partial(ask)


def ask(tensor: Any) -> None:
    """Calls that wait run first, if they may read what is about to be written."""
    if MODES.plan is not None:
        MODES.plan.before_write(tensor)
    if MODES.recorder is not None:
        MODES.recorder.before_write(tensor)


def renews(target: Tensor, operands: Any) -> bool:
    """Whether a compiled step has made `target`, which stands for another value after a write of the operands."""
    MODES.plan.take_in(target, operands)
    return MODES.plan.may_renew(target)


def has_no_history(*values: Any) -> bool:
    """Whether all tensors among the values are plain ones, and a write of them gives nobody a history."""
    grad = MODES.grad
    return not any(
        [
            isinstance(value, Tensor) and (type(value) not in TENSORS or (grad and value._requires_grad))
            for value in values
        ]
    )


class beside_plans:
    """Inside, no compiled step records or compares ops: a write into a tensor from outside is computed where it stands."""

    __slots__ = ("held",)

    def __enter__(self) -> None:
        self.held, MODES.plan = MODES.plan, None

    def __exit__(self, *error: object) -> None:
        MODES.plan = self.held


def write_result(target: Tensor, result: Tensor, who: str) -> Tensor:
    """Makes `target` hold `result`, which was computed from it: values, dtype rule, history, views.

    Where the type of the other operand answered (`x *= other`, by its `__rmul__`), its answer is the result.
    """
    if not isinstance(result, Tensor):
        return result
    if target._meta is not None:
        follow_base(target)
    if result._meta is not None:
        follow_base(result)
    if guards and MODES.plan is not None and MODES.plan.store(target, result):
        return target
    if guards and MODES.plan is not None and MODES.plan.may_renew(target, result):
        plan = MODES.plan
        fitting = result if plan.is_alike(target, result) else _fitting(target, result, who)
        if isinstance(fitting, Exception):
            raise fitting
        if plan.renew(target, fitting):
            return target
    if type(target) not in TENSORS or type(result) not in TENSORS:
        other = _other_write(target, result, who, write_result)
        if other is not None:
            return other
    if 0 in target.array.strides and who not in REPEATED:
        refuse_repeats(who, target.array)
    fitting = _fitting(target, result, who)
    if isinstance(fitting, Exception):
        raise fitting  # here, so that a traceback has a frame less
    result = fitting
    if guards:
        guards[0](target)
    recording = MODES.grad and (target._requires_grad or result._requires_grad)
    if recording:
        check_writable(target, who)
        _keep_old_values(target, result)
    arrays.write(target.array, result.array)
    _stamp(target)
    if recording:
        rebase(target, result)
    return target


def _fitting(target: Tensor, result: Tensor, who: str) -> Tensor | ShapeError | DtypeError:
    """The result in the shape and the dtype of the tensor that it is to be written into, or the error that says why it cannot have them."""
    if result.array.shape != target.array.shape:
        return ShapeError(
            f"{who}: output with shape {tuple(target.array.shape)} doesn't match the broadcast shape "
            f"{tuple(result.array.shape)}. An in-place op cannot grow its tensor; use {who.rstrip('_')} instead."
        )
    if result.array.dtype != target.array.dtype:
        if not dtypes.can_cast(result.dtype, target.dtype):
            return DtypeError(
                f"{who}: result type {result.dtype} can't be cast to the desired output type {target.dtype}. "
                f"Use {who.rstrip('_')}, which returns a new tensor, or convert the operand first."
            )
        result = convert(result, target.dtype)
    return result


def _other_write(target: Tensor, value: Tensor, who: str, write: Any) -> Tensor | None:
    """Lets a type that takes over ops take over writes too; None when neither has such a type."""
    for operand in (target, value):
        handler = getattr(type(operand), "__dynograd_write__", None)
        if handler is not None:
            return handler(target, value, who, write)
    return None


def check_writable(target: Tensor, who: str) -> None:
    """Raises `InplaceError` for a leaf that requires grad, or a view of one."""
    if not MODES.grad:
        return
    if target.requires_grad and target.node is None:
        raise InplaceError(
            f"{who}: a leaf Variable that requires grad is being used in an in-place operation (shape "
            f"{tuple(target.array.shape)}). Wrap the write in no_grad(), or write to x.detach() or a clone()."
        )
    base = base_of(target)
    if base is not None and base.node is None and (base._requires_grad or target._requires_grad):
        raise InplaceError(  # the leaf may itself be a view of what needs no gradient
            f"{who}: a view of a leaf Variable that requires grad is being used in an in-place operation (leaf of shape "
            f"{tuple(base.array.shape)}). Wrap the write in no_grad(), or write to a clone()."
        )


def refuse_repeats(who: str, array: Any) -> None:
    """Raises for memory that stands at several indices: what would be written last is not defined."""
    if 0 in array.strides and storages.repeats(array):
        raise InplaceError(
            f"{who}: unsupported operation: more than one element of the written-to tensor refers to a single memory location "
            f"(shape {tuple(array.shape)}, strides {arrays.strides_in_elements(array)}). Please clone() the tensor before performing the "
            f"operation."
        )


def refuse_overlap(who: str, target: Any, operand: Any, wholly: bool = False) -> None:
    """Raises where an operand lies partly in the memory that is written: an element may be overwritten before it is read.

    With `wholly`, also where it is that memory.
    """
    if storages.overlap_partly(target, operand) or (wholly and target.size and arrays.may_overlap(target, operand)):
        raise InplaceError(
            f"{who}: unsupported operation: some elements of the input tensor (shape {tuple(operand.shape)}, storage offset "
            f"{arrays.offset_in_elements(operand)}) and the written-to tensor (shape {tuple(target.shape)}, storage offset "
            f"{arrays.offset_in_elements(target)}) refer to a single memory location. Please clone() the tensor before performing the "
            f"operation."
        )


def _keep_old_values(target: Tensor, result: Tensor) -> None:
    """What the new node saved of the memory about to be overwritten becomes a copy."""
    node = result.node
    if node is None:
        return
    owner = arrays.base_of(target.array)

    def kept(value: Any) -> Any:
        if type(value) is Packed:  # a hook of saved tensors has handed back the memory itself
            if isinstance(value.held, Tensor) and arrays.base_of(value.held.array) is owner:
                value.held = wrap(arrays.copy(value.held.array))
        elif arrays.is_array(value) and arrays.base_of(value) is owner:
            return arrays.copy(value)
        return value

    for name in node.saved_names:
        value = getattr(node, name)
        old_values = map_saved(value, kept)
        if old_values is not value:
            setattr(node, name, old_values)


def _stamp(target: Tensor) -> None:
    if not is_silent(target):
        stamp(target.array)


def _assign(target: Tensor, source: Tensor, who: str) -> Tensor:
    if target._meta is not None:
        follow_base(target)
    if source._meta is not None:
        follow_base(source)
    if guards and MODES.plan is not None and MODES.plan.store(target, source):
        return target
    if guards and MODES.plan is not None and renews(target, (source,)):
        return write_result(
            target,
            indexing.put_basic(
                target, _like(_beside(source, target), target.array.shape, target.dtype, who), (Ellipsis,)
            ),
            who,
        )
    if type(target) not in TENSORS or type(source) not in TENSORS:
        other = _other_write(target, source, who, _assign)
        if other is not None:
            return other
    if 0 in target.array.strides and who not in REPEATED:
        refuse_repeats(who, target.array)
    if source.array is not target.array and (source.array.base is not None or target.array.base is not None):
        refuse_overlap(who, target.array, source.array)
    source = _like(source, target.array.shape, target.dtype, who)
    if guards:
        guards[0](target)
    recording = MODES.grad and (target._requires_grad or source._requires_grad)
    if recording:
        check_writable(target, who)
    arrays.write(target.array, source.array)
    _stamp(target)
    if recording:
        overwrite(target, source)
    return target


def _like(source: Tensor, shape: tuple[int, ...], dtype: dtypes.dtype, who: str) -> Tensor:
    """The tensor, stretched and converted to what is assigned to memory of this shape and dtype."""
    if source.array.shape != shape:
        full = source.array.shape
        extra = max(len(full) - len(shape), 0)
        region = full[extra:] if who == "setitem" and set(full[:extra]) == {1} else full
        try:
            fits = broadcast_shapes(who, shape, region) == shape
        except ShapeError:
            fits = False
        if not fits:
            raise ShapeError(
                f"{who}: shape mismatch: value of shape {tuple(full)} cannot be broadcast to the written region of "
                f"shape {tuple(shape)}. Reshape the value."
            )
        if region is not full:
            source = source.reshape(region)
        source = stretch(source, shape)
    return source if source.dtype is dtype else convert(source, dtype)


def copy_(self: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Copies `other` (broadcast, converted) into this tensor.

    Args:
        other: tensor, broadcast to this one.
        non_blocking: do not wait for a copy between host and GPU.
    Returns:
        The tensor itself.

    >>> x = dynograd.zeros(2)
    >>> x.copy_(tensor([1, 2]))
    tensor([1., 2.])
    """
    return _assign(self, _as_tensor(other, self), "copy_")


def fill_(self: Tensor, value: Any) -> Tensor:
    """Sets every element to `value` (a number or a 0-d tensor).

    Args:
        value: number, or tensor without dims.
    Returns:
        `input`.

    >>> dynograd.fill_(dynograd.zeros(2), 3)
    tensor([3., 3.])
    """
    source = _as_tensor(value, self, self.array.size)
    if source.array.ndim:
        raise ShapeError(
            f"fill_: fill_ only supports 0-dimension value tensor but got tensor with {source.array.ndim} dimensions. Use copy_."
        )
    return _assign(self, source, "fill_")


def zero_(self: Tensor) -> Tensor:
    """Sets every element to 0.

    Returns:
        `input`.

    >>> dynograd.zero_(dynograd.ones(2))
    tensor([0., 0.])
    """
    return _assign(self, wrap(arrays.zeros((), self.dtype)), "zero_")


def _renew_at(target: Tensor, index: Any, value: Any) -> bool:
    """`target[index] = value` of a tensor that a compiled step has made: a copy with the value in it is its value from then on."""
    if any([isinstance(entry, ndarray) for entry in (index if type(index) is tuple else (index,))]):
        return False  # places that a record does not know
    if not renews(target, (value,)):
        return False
    if isinstance(index, Tensor) and index.dtype is dtypes.bool and index.shape == target.shape:
        if type(value) in (int, float):
            number = literals.fitting(value, target.dtype, 1)
            write_result(target, registry["masked_fill"].function(target, index, number), "setitem")
            return True
    source = _beside(_as_tensor(value, target), target)
    is_basic, ready = indexing.index_of(target.array.shape, index)
    if is_basic:
        shape = indexing.shape_at(target.array.shape, ready)
        result = indexing.put_basic(target, _like(source, shape, target.dtype, "setitem"), ready)
    else:
        result = indexing.put_at(target, convert(source, target.dtype), ready)
    write_result(target, result, "setitem")
    return True


_SMALL = 1 << 15


def _apart(array: Any, entry: Any) -> Array | None:
    """The array of a tensor without history in other memory than `array`, else None."""
    if type(entry) not in TENSORS or (entry.requires_grad and MODES.grad):
        return None
    other = entry.array
    if type(other) is not ndarray or other is array:
        return None
    shared = (other.base is not None or array.base is not None) and arrays.base_of(other) is arrays.base_of(array)
    return None if shared else other


def set_item(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`."""
    if guards:
        recorded = getattr(type(value), "__dynograd_set_item__", None)
        if recorded is not None and recorded(self, index, value):
            return
        known = value
        if MODES.plan is not None:
            if _renew_at(self, index, value):
                return
            (known,) = MODES.plan.settled(self, (value,))
        guards[0](self)
        if MODES.plan is not None and has_no_history(self, known):
            with beside_plans():
                set_item(self, index, known)
            return
        value = known
    if self._meta is not None:
        follow_base(self)
    if not self._requires_grad and _write_plain(self, index, value):
        return
    source = _as_tensor(value, self)
    if type(source.array) is MetaArray and type(self.array) is ndarray:
        raise no_values("setitem")
    by_ops = _has_history(self, source) or type(self) not in TENSORS or type(source) not in TENSORS
    # Of a write that ops compute, tensors among the indices stay tensors.
    find = indexing.index_of if by_ops and type(index) is not int else indexing.normalize_index
    is_basic, ready = find(self.array.shape, index)
    if is_basic:
        whole = ready == (Ellipsis,)  # of what is overwritten throughout the history ends
        if MODES.grad == 1 and MODES.recorder is None and not whole and _write_region(self, ready, source):
            return
        if MODES.plan is not None and type(self.array) is ndarray and not _has_history(self, source):
            target = Tensor.wrap(self.array[ready])  # a view that nobody gets is no part of a compiled step
        else:
            target = self if whole else indexing.get_basic(self, ready)
        is_number = source.array.ndim == 0 and type(source) in TENSORS and type(target) in TENSORS
        if is_number and arrays.may_overlap(target.array, source.array):  # it is read before it is written over
            source = source.clone()
        _assign(target, source, "setitem")
        return
    if by_ops:
        write_result(self, indexing.put_at(self, convert(source, self.dtype), ready), "setitem")
        return
    indexing.assign_at(self.array, ready, arrays.cast(source.array, self.dtype))
    _stamp(self)


def _has_history(target: Tensor, source: Tensor) -> bool:
    """Whether a write is a part of the graph of gradients."""
    return bool(MODES.grad and (target._requires_grad or source._requires_grad))


def _write_region(self: Tensor, index: Any, source: Tensor) -> bool:
    """`self[index] = source` where it is recorded, `self` is no view and the shapes agree: no view is made on the way.

    False leaves it to the general way.
    """
    if type(self) not in TENSORS or type(source) not in TENSORS or view_of(self) is not None:
        return False
    if source._meta is not None:
        follow_base(source)
    if (self.node is None) if self._requires_grad else not source._requires_grad:
        return False  # a leaf, or nothing to record
    array, other = self.array, source.array
    if type(array) is not ndarray or type(other) is not ndarray or other.dtype != array.dtype:
        return False
    if 0 in array.strides or arrays.base_of(other) is arrays.base_of(array):
        return False
    target = array[index]
    if target.shape != other.shape:
        return False
    target[...] = other
    if not is_silent(self):
        stamp(target)
    del array, target  # whoever else holds the memory may have views of it
    edge = (source.node or source) if source._requires_grad else None
    write_steps(self, edge, ((indexing.get_basic.op, (index,), None),))
    return True


def _write_plain(self: Tensor, index: Any, value: Any) -> bool:
    """Writes values without history at ints, slices, an index tensor or a mask straight into the array.

    False leaves it to the general way.
    """
    array = self.array
    masked = False
    if type(index) in TENSORS:
        index = index.array
        if type(index) is not ndarray or type(array) is not ndarray or index.base is not None or array.base is index:
            return False
        number = index.dtype.num
        if number == _BOOL:
            shape = index.shape
            masked = shape == array.shape
            if not shape or not (masked or shape == array.shape[: len(shape)]):
                return False
            if type(value) in TENSORS and value.array.ndim > 1:
                return False
        elif number != _INT64 or not array.ndim:
            return False
        elif not index.ndim:
            index = index.item()
    elif type(index) is tuple and index and type(index[0]) in TENSORS:
        arrays_there: list[Any] = [_apart(array, entry) for entry in index]
        for index_array in arrays_there:
            if index_array is None or index_array.dtype.num != _INT64 or index_array.ndim != arrays_there[0].ndim:
                return False
        index = tuple(arrays_there if arrays_there[0].ndim else [array.item() for array in arrays_there])
    elif type(index) is not int:
        for entry in index if type(index) is tuple else (index,):
            if type(entry) is not int and not (type(entry) is slice and entry.step is None):
                return False
    if array.base is not None and 0 in array.strides:
        return False
    kind = type(value)
    if kind is float or kind is int:
        if not -65504.0 <= value <= 65504.0 and buffers.is_too_large(value, array.dtype.itemsize):
            return False
    elif kind not in TENSORS or value._requires_grad or (value._meta is not None and value.requires_grad):
        return False
    else:
        source, value = value, value.array
        if value.dtype != array.dtype or type(value) is not type(array):
            return False
        if (value.base is not None or array.base is not None) and arrays.base_of(value) is arrays.base_of(array):
            if _is_view_at(source, self, index):
                return True
            if type(index) is ndarray or (type(index) is tuple and index and type(index[0]) is ndarray):
                return False
            try:
                if may_share_memory(array[index], value):
                    return False
            except IndexError:
                return False
    try:
        large = array.nbytes >= _SMALL
        if masked and large and kernel("writes", "masked_fill", array)(array, index, value):
            pass
        elif masked and kind is float and array.dtype.char in "fd":
            putmask(array, index, value)  # NumPy's quicker way for these
        elif large and type(index) in (ndarray, tuple) and type(value) is ndarray:
            write_at = kernel("indexing", "write_at", array)
            write_at(array, index, value)
        else:
            array[index] = value
    except (IndexError, TypeError, ValueError, OverflowError):
        return False
    if not is_silent(self):
        stamp(array, caller(3))
    return True


def _is_view_at(view: Tensor, self: Tensor, index: Any) -> bool:
    """Whether `view` is `self[index]`, as after `self[index] += value`: there is nothing to write."""
    record = view._meta
    if type(record) is not tuple or view.array.base is None:
        return False
    base, before, op, statics, *_ = record
    if base is not self or before is not None or op is not _GET_BASIC:
        return False
    key = index if type(index) is tuple else (index, Ellipsis) if type(index) is int else (index,)
    if statics[0] != key or (view.array.base is not self.array and view.array.base is not self.array.base):
        return False
    note_again(self.array)
    return True


_GET_BASIC = indexing.get_basic.op
_BOOL, _INT64 = dtypes.bool.numpy.num, dtypes.int64.numpy.num


def _as_tensor(value: Any, like: Tensor, size: int = 1) -> Tensor:
    """What is written into `like`. A number becomes a tensor of its dtype; `size`: see `literals.fitting`."""
    if isinstance(value, Tensor):
        return value
    if type(value) is arrays.CudaArray:
        return wrap(value)
    kind = like.dtype
    number = arrays.from_python(literals.fitting(value, kind, size), kind)
    return wrap(arrays.to_device(number, arrays.place_of(like.array)))


def _beside(source: Tensor, target: Tensor) -> Tensor:
    """The same values on the device of `target`."""
    place = arrays.place_of(target.array)
    return source if arrays.place_of(source.array) == place else moved(source, place)


# What fills with one value may write an element several times.
REPEATED = frozenset(["zero_", "fill_", *[f"{entry.name}_" for entry in registry.values() if entry.row["refills"]]])
