"""Writing into tensors: `add_` and its like, `copy_`, `x[index] = value`, and what that does to the history of views.

An in-place op is its functional form followed by a write. The write stamps the memory (see `autograd/writes.py`), so backward can
tell when something it needs was overwritten. A write into a view gives the whole base a new history in which the written region
comes from the new value; every living view of the base is then recomputed from it, as in PyTorch.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import Any

from numpy import putmask

from dynograd import arrays, dtypes
from dynograd.arrays import CudaArray, ndarray, storages
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import Node, caller, next_seq
from dynograd.autograd.packing import Packed, map_saved
from dynograd.autograd.writes import stamp
from dynograd.errors import DtypeError, InplaceError, ShapeError
from dynograd.interpreter import TENSORS, with_history
from dynograd.interpreter.fusion import into_of
from dynograd.interpreter.promotion import number_array, scalars32, scalars64, whole_of
from dynograd.interpreter.shared import F32, F64, I64
from dynograd.kernels import ufuncs
from dynograd.kernels.loops_cpu import ONE_PASS
from dynograd.kernels.ufuncs import COMPOSED
from dynograd.ops import indexing
from dynograd.ops.broadcasting import convert, stretch
from dynograd.ops.conversions import copied
from dynograd.ops.op import Op, registry
from dynograd.shapes import broadcast_shapes
from dynograd.tensor import Tensor, wrap

__all__ = ["install_inplace", "write_result"]


# Told of a tensor that is about to be written: open `autobatch` scopes, whose waiting calls may read it.
guards: list[Any] = []


def write_result(target: Tensor, result: Tensor, who: str) -> Tensor:
    """Makes `target` hold `result`, which was computed from it: values, dtype rule, history, views."""
    if type(target) not in TENSORS or type(result) not in TENSORS:
        other = _other_write(target, result, who, write_result)
        if other is not None:
            return other
    if 0 in target.array.strides and who not in REPEATED:
        refuse_repeats(who, target.array)
    if result.array.shape != target.array.shape:
        if result.array.size == 1 and target.array.ndim == 0:
            result = result.reshape(())  # type: ignore[attr-defined]
        else:
            raise ShapeError(
                f"{who}: output with shape {tuple(target.array.shape)} doesn't match the broadcast shape "
                f"{tuple(result.array.shape)}. An in-place op cannot grow its tensor; use {who.rstrip('_')} instead."
            )
    if result.array.dtype != target.array.dtype:
        if not dtypes.can_cast(result.dtype, target.dtype):
            raise DtypeError(
                f"{who}: result type {result.dtype} can't be cast to the desired output type {target.dtype}. "
                f"Use {who.rstrip('_')}, which returns a new tensor, or convert the operand first."
            )
        result = convert(result, target.dtype)
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


def _other_write(target: Tensor, value: Tensor, who: str, write: Any) -> Any:
    """Lets a type that takes over ops take over writes too; None when neither has such a type."""
    for one in (target, value):
        handler = getattr(type(one), "__dynograd_write__", None)
        if handler is not None:
            return handler(target, value, who, write)
    return None


def check_writable(target: Tensor, who: str) -> None:
    """Raises `InplaceError` for a leaf that requires grad, or a view of one."""
    if not MODES.grad:
        return
    if target._requires_grad and target.node is None:
        raise InplaceError(
            f"{who}: a leaf Variable that requires grad is being used in an in-place operation (shape "
            f"{tuple(target.array.shape)}). Wrap the write in no_grad(), or write to x.detach() or a clone()."
        )
    meta = target._meta
    if meta is not None and meta.base is not None:
        base = meta.base
        if base._requires_grad and base.node is None:
            raise InplaceError(
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
        made = map_saved(value, kept)
        if made is not value:
            setattr(node, name, made)


def _stamp(target: Tensor) -> None:
    meta = target._meta
    if meta is None or not meta.silent:
        stamp(target.array)


def rebase(target: Tensor, result: Tensor) -> None:
    """Gives `target` (and the base it is a view of, and the base's other views) the history of `result`."""
    meta = target._meta
    if meta is None or meta.base is None:
        edge = result.node or (result if result._requires_grad else None)
        if edge is None:
            target.node, target._requires_grad = None, False
        else:
            target.node = edge if isinstance(edge, Node) else with_history(arrays.copy(result.array), edge).node
            target._requires_grad = True
        _refresh_views(target)
        return
    base = meta.base
    node = ViewWrite()
    node.edges = (_edge(base), result.node or (result if result._requires_grad else None))
    node.seq, node.hooks, node.attrs = next_seq(), None, meta.steps
    by_memory = any([entry.name == "as_strided" for entry, _, _ in meta.steps])
    node.strides = arrays.strides_in_elements(base.array) if by_memory else None
    base.node, base._requires_grad = node, True
    _refresh_views(base)


def _edge(tensor: Tensor) -> Any:
    return (tensor.node or tensor) if tensor._requires_grad else None


def _refresh_views(base: Tensor) -> None:
    """Recomputes the history of every living view from the base's."""
    meta = base._meta
    if meta is None or not meta.views:
        return
    living = [one for one in (reference() for reference in meta.views) if one is not None]
    source = wrap(base.array)
    source.node, source._requires_grad = base.node, base._requires_grad
    for view in living:
        if view._meta is None or view._meta.base is not base:
            continue
        replayed = replay(source, view._meta.steps)
        view.node, view._requires_grad = replayed.node, replayed._requires_grad


def replay(source: Any, steps: tuple) -> Any:
    """The view of `source` that the recorded steps describe; works on arrays and tensors."""
    for entry, statics, number in steps:
        source = entry.function(source, *statics)
        if number is not None:
            source = source[number]
    return source


class ViewWrite(Node):
    """The history of a base after a write into one of its views: outside the region the old base, inside the new value."""

    __slots__ = ("strides",)  # of the base, where a step goes by places in memory (`as_strided`)

    def apply(self, g: Any) -> Any:
        g = self._laid_out(arrays.as_result(g))
        inner = replay(g, self.attrs) if self.edges[1] is not None else None
        if inner is not None:
            inner = arrays.copy(inner)
        outer = None
        if self.edges[0] is not None:
            outer = self._laid_out(arrays.copy(g))
            arrays.write(replay(outer, self.attrs), 0)
        return outer, inner

    def _laid_out(self, g: Any) -> Any:
        """The gradient with the base's places in memory, where they count."""
        strides = self.strides
        if strides is None or arrays.strides_in_elements(g) == strides or not g.size:
            return g
        reach = 1 + sum([(size - 1) * step for size, step in zip(g.shape, strides)])
        memory = storages.bytes_of(arrays.empty((reach,), dtypes.BY_NUM[g.dtype.num], arrays.device_of(g)))
        made = storages.placed(memory, g.dtype, g.shape, tuple([step * g.dtype.itemsize for step in strides]), 0)
        arrays.write(made, g)
        return made

    def apply_graph(self, g: Any) -> Any:
        if self.strides is not None:
            g = g.contiguous()
        outside = self._laid_out(arrays.ones_like(g.array))
        arrays.write(replay(outside, self.attrs), 0)
        return (
            g * wrap(outside) if self.edges[0] is not None else None,
            replay(g, self.attrs) if self.edges[1] is not None else None,
        )

    def name(self) -> str:
        return "CopySlices"

    def op_name(self) -> str:
        return "a write into a view"

    def __repr__(self) -> str:
        return "<CopySlices>"


def _assign(target: Tensor, source: Tensor, who: str) -> Tensor:
    if type(target) not in TENSORS or type(source) not in TENSORS:
        other = _other_write(target, source, who, _assign)
        if other is not None:
            return other
    shape = target.array.shape
    if 0 in target.array.strides and who not in REPEATED:
        refuse_repeats(who, target.array)
    if source.array is not target.array and (source.array.base is not None or target.array.base is not None):
        refuse_overlap(who, target.array, source.array)
    if source.array.shape != shape:
        extra = source.array.ndim - len(shape)
        try:
            common = broadcast_shapes(who, shape, source.array.shape)
        except ShapeError:
            common = ()
        if common != shape and not (extra > 0 and set(source.array.shape[:extra]) == {1}):
            raise ShapeError(
                f"{who}: shape mismatch: value of shape {tuple(source.array.shape)} cannot be broadcast to the written region of "
                f"shape {tuple(shape)}. Reshape the value."
            )
        if extra > 0:
            source = source.reshape(source.array.shape[extra:])  # type: ignore[attr-defined]
        source = stretch(source, shape)
    if source.array.dtype != target.array.dtype:
        source = convert(source, target.dtype)
    if guards:
        guards[0](target)
    recording = MODES.grad and (target._requires_grad or source._requires_grad)
    if recording:
        check_writable(target, who)
    arrays.write(target.array, source.array)
    _stamp(target)
    if recording:
        rebase(target, _own_history(source) if source._requires_grad else _no_history(source))
    return target


def _own_history(source: Tensor) -> Tensor:
    """The same with a node of its own, so that hooks on the copy are not hooks on `source`."""
    made = wrap(source.array)
    node = CopyBackwards()
    node.edges, node.seq, node.hooks, node.attrs = (_edge(source),), next_seq(), None, None
    made.node, made._requires_grad = node, True
    return made


def _no_history(source: Tensor) -> Tensor:
    node = Cut()
    node.edges, node.seq, node.hooks, node.attrs = (), next_seq(), None, None
    made = wrap(source.array)
    made.node, made._requires_grad = node, True
    return made


class Cut(Node):
    """The history of a tensor overwritten with constants: it still requires grad, and no gradient goes further."""

    __slots__ = ()

    def apply(self, g: Any) -> Any:
        return ()

    apply_graph = apply

    def name(self) -> str:
        return "CopyBackwards"


class CopyBackwards(Node):
    """The history of a tensor that another was copied into: passes the gradient on."""

    __slots__ = ()

    def apply(self, g: Any) -> Any:
        return (g,)

    apply_graph = apply


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Copies `src` (broadcast, converted) into this tensor.

    >>> x = dynograd.zeros(2)
    >>> x.copy_(tensor([1, 2]))
    tensor([1., 2.])
    """
    return _assign(self, _as_tensor(src, self), "copy_")


def fill_(self: Tensor, value: Any) -> Tensor:
    """Sets every element to `value` (a number or a 0-d tensor)."""
    source = _as_tensor(value, self)
    if source.array.ndim:
        raise ShapeError(
            f"fill_: fill_ only supports 0-dimension value tensor but got tensor with {source.array.ndim} dimensions. Use copy_."
        )
    return _assign(self, source, "fill_")


def zero_(self: Tensor) -> Tensor:
    """Sets every element to 0."""
    return _assign(self, wrap(arrays.zeros((), self.dtype)), "zero_")


def set_item(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`."""
    if guards:
        guards[0](self)
    if not self._requires_grad and _write_plain(self, index, value):
        return
    source = _as_tensor(value, self)
    is_basic, ready = indexing.normalize_index(self.array.shape, index)
    if is_basic:
        target = self if ready == (Ellipsis,) else indexing.get_basic(self, ready)
        _assign(target, source, "setitem")
        return
    recording = MODES.grad and (self._requires_grad or source._requires_grad)
    if recording or type(self) not in TENSORS or type(source) not in TENSORS:
        write_result(self, indexing.put_at(self, convert(source, self.dtype), ready), "setitem")
        return
    indexing.assign_at(self.array, ready, arrays.cast(source.array, self.dtype))
    _stamp(self)


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
        elif number != _INT64 or not index.ndim or not array.ndim:
            return False
    elif type(index) is not int:
        for one in index if type(index) is tuple else (index,):
            if type(one) is not int and not (type(one) is slice and one.step is None):
                return False
    if array.base is not None and 0 in array.strides:
        return False
    kind = type(value)
    if kind is float or kind is int:
        pass
    elif kind not in TENSORS or value._requires_grad:
        return False
    else:
        value = value.array
        if value.dtype != array.dtype:
            return False
        if (value.base is not None or array.base is not None) and arrays.base_of(value) is arrays.base_of(array):
            return False
    try:
        if masked and kind is float and array.dtype.char in "fd":
            putmask(array, index, value)  # NumPy's quicker way for these
        else:
            array[index] = value
    except (IndexError, TypeError, ValueError, OverflowError):
        return False
    meta = self._meta
    if meta is None or not meta.silent:
        stamp(array, caller(3))
    return True


_BOOL, _INT64 = dtypes.bool.numpy.num, dtypes.int64.numpy.num


def _as_tensor(value: Any, like: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if type(value) is arrays.CudaArray:
        return wrap(value)
    return wrap(arrays.to_device(arrays.from_python(value, like.dtype), arrays.place_of(like.array)))


def inplace_form(entry: Op, name: str) -> Any:
    """The method `name_` of an op: computes the functional form and writes it into the tensor."""
    function = entry.function
    who = name + "_"
    op = registry.get(name)
    direct = _direct_form(op, entry)
    elementwise = op is not None and op.kind == "elementwise"
    quick: Any = None

    @functools.wraps(function)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if guards:
            guards[0](self)
        if direct is not None and type(self) in TENSORS and not (self._requires_grad and MODES.grad):
            nonlocal quick
            array = self.array
            if quick is None and type(array) is ndarray:
                quick = _quick_form(op, array)
            if array.base is not None and 0 in array.strides:
                refuse_repeats(who, array)
            if (quick is not None and quick(array, args, kwargs)) or direct(array, args, kwargs):
                meta = self._meta
                if meta is None or not meta.silent:
                    stamp(array)
                return self
        if type(self) in TENSORS:
            array = self.array
            if 0 in array.strides and who not in REPEATED:
                refuse_repeats(who, array)
            if elementwise:
                for one in args:
                    if type(one) in TENSORS and (one.array.base is not None or array.base is not None):
                        refuse_overlap(who, array, one.array)
        if type(self) not in TENSORS or any([isinstance(one, Tensor) and type(one) not in TENSORS for one in args]):
            # tangents are computed with the old values, which their history must keep
            old = copied(self)
            return write_result(self, function(old, *[old if one is self else one for one in args], **kwargs), who)
        return write_result(self, function(self, *args, **kwargs), who)

    method.__name__ = method.__qualname__ = who
    method.__doc__ = f"In-place form of `{name}`."
    return method


def _quick_form(op: Any, like: Any) -> Any:
    """`quick(array, args, kwargs)`: what `direct` does with small arrays of one shape and numbers; False leaves it to `direct`."""
    fast, least, _ = into_of(op, like)
    if fast is not None and len(op.array_names) == 2 and not op.static_names:
        return _quick_pair(op, fast, least)
    functions = ufuncs.FLAT.get(op.name)
    return _never if functions is None else _quick_flat(op, functions)


def _quick_pair(op: Any, fast: Any, least: int) -> Any:
    whole = op.name in ("add", "sub", "mul")

    def quick(array: Any, args: Any, kwargs: Any) -> bool:
        kind = array.dtype
        if len(args) != 1 or kwargs or type(array) is not ndarray:
            return False
        (other,) = args
        if kind is F32 or kind is F64:
            if array.size >= least:
                return False
            if type(other) in TENSORS:
                operand = other.array
                if operand.dtype is not kind or operand.shape != array.shape or (other._requires_grad and MODES.grad):
                    return False
                if operand is not array and (operand.base is not None or array.base is not None):
                    refuse_overlap(f"{op.name}_", array, operand)
            elif type(other) is float or type(other) is int:
                operand = (scalars32 if kind is F32 else scalars64).get(other)
                if operand is None:
                    operand = number_array(other, kind)
            else:
                return False
        elif whole and kind is I64 and type(other) is int:
            operand = whole_of(other)
        else:
            return False
        try:  # noqa: SIM105  (a context manager takes 0.3 us)
            fast(array, operand, out=array)
        except arrays.FLOATING_WARNINGS:  # raised when everything is written
            pass
        return True

    return quick


def _quick_flat(op: Any, functions: Any) -> Any:
    """Of the ops that have a function with numbers at the end (`ufuncs.FLAT`)."""
    count = len(op.array_names) - 1 - (op.name == "lerp")
    numbers = functions.count - 1 - count
    statics = _STATICS.get(op.name, ())
    last = statics[-1][0] if len(statics) == 1 else ""

    def quick(array: Any, args: Any, kwargs: Any) -> bool:
        kind = array.dtype
        if not (COMPOSED <= array.size < ONE_PASS) or not (kind is F32 or kind is F64) or type(array) is not ndarray:
            return False
        if kwargs:
            if len(kwargs) > 1 or last not in kwargs:
                return False
            args = (*args, kwargs[last])
        elif last and len(args) == count:
            args = (*args, statics[-1][1])
        if len(args) != count + numbers:
            return False
        shape = array.shape
        operands = []
        for one in args[:count]:
            if type(one) not in TENSORS or (one._requires_grad and MODES.grad):
                return False
            other = one.array
            if other.dtype is not kind or other.shape != shape:
                return False
            if other is not array and (other.base is not None or array.base is not None):
                return False
            operands.append(other)
        known = scalars32 if kind is F32 else scalars64
        for one in args[count:]:
            if (type(one) is not float and type(one) is not int) or one != one:
                return False
            found = known.get(one)
            operands.append(number_array(one, kind) if found is None else found)
        try:  # noqa: SIM105
            functions[kind.char](array, *operands, out=array)
        except arrays.FLOATING_WARNINGS:
            pass
        return True

    return quick


def _never(array: Any, args: Any, kwargs: Any) -> bool:
    return False


def _direct_form(op: Op | None, face: Op) -> Any:
    """`direct(array, args, kwargs)` computes an elementwise op into the array's own memory; False leaves it to the general way.

    For float arrays, numbers, and operands of the same dtype that are not recorded. None for ops of another kind.
    """
    if op is None or op.kind != "elementwise" or op.promote not in ("arithmetic", "float"):
        return None
    statics = _STATICS.get(op.name, ())
    if len(statics) != len(op.static_names) or (op is not face and op.name not in FACES):
        return None
    count = len(op.array_names) - 1
    fast: Any = None
    least: int | None = None
    compute: Any = None

    def direct(array: Any, args: Any, kwargs: Any) -> bool:
        nonlocal fast, least, compute
        on_gpu = type(array) is CudaArray
        if not on_gpu and type(array) is not ndarray:
            return False  # one without values, on the device meta
        if least is None and not on_gpu:
            fast, least, compute = into_of(op, array)
        values = args[count:]
        if len(args) < count or len(values) > len(statics) or array.dtype.kind != "f":
            return False
        given: tuple = ()
        if statics:
            found = dict(statics)
            found.update(zip(found, values))
            for key, value in kwargs.items():
                if key not in found:
                    return False
                found[key] = value
            given = tuple(found.values())
            if not all([type(value) in (int, float) or value is None for value in given]) or set(given) == {None}:
                return False
        elif kwargs:
            return False
        kind = array.dtype
        operands = [array]
        for one in args[:count]:
            if type(one) in TENSORS:
                other = one.array
                if other.dtype is not kind or (one._requires_grad and MODES.grad):
                    return False
                if other is not array and (other.base is not None or array.base is not None):
                    refuse_overlap(f"{op.name}_", array, other)
                if other.shape != array.shape and other.ndim and not _stretches(other.shape, array.shape):
                    return False
            elif type(one) in (int, float) and (on_gpu or kind.itemsize > 2):
                other = one if on_gpu else number_array(one, kind)
            else:
                return False
            operands.append(other)
        if on_gpu:
            from dynograd.kernels import elementwise_cuda

            return elementwise_cuda.into(op.name, operands, given)
        if array.size >= least:  # type: ignore[operator]
            return compute(operands, given) or _by_numpy(fast, operands)
        return _by_numpy(fast, operands)

    return direct


def _by_numpy(fast: Any, operands: list[Any]) -> bool:
    if fast is None:
        return False
    with contextlib.suppress(*arrays.FLOATING_WARNINGS):  # raised when everything is written
        fast(*operands, out=operands[0])
    return True


def _stretches(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(shape) <= len(wanted) and all(
        [size in (1, full) for size, full in zip(shape[::-1], wanted[::-1], strict=False)]
    )


def reshaping_form(function: Any, who: str) -> Any:
    """The method that changes a tensor's own shape (`unsqueeze_`): it becomes a view of what it was."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not MODES.grad and self._requires_grad and self.node is None:
            self.array = function(self.detach(), *args, **kwargs).array
            return self
        check_writable(self, who)
        before = wrap(self.array)
        before.node, before._requires_grad, before._meta = self.node, self._requires_grad, self._meta
        for view in before._meta.views or () if before._meta is not None else ():
            living = view()
            if living is not None and living._meta.base is self:
                living.meta().base = before
        after = function(before, *args, **kwargs)
        self.array, self.node, self._requires_grad, self._meta = (
            after.array,
            after.node,
            after._requires_grad,
            after._meta,
        )
        if self._meta is not None and self._meta.base is not None:
            self._meta.base._meta.views.append(weakref.ref(self))
        return self

    method.__name__ = method.__qualname__ = who
    method.__doc__ = f"In-place form of `{who[:-1]}`: the tensor itself changes its shape."
    return method


# What fills with one value may write an element several times.
REPEATED = frozenset({"zero_", "fill_", "masked_fill_", "index_fill_", "index_put_"})
_RESHAPING = ("as_strided", "squeeze", "unsqueeze", "transpose", "t", "swapaxes", "swapdims")
# Ops whose public function, called with tensors and numbers in the op's own order, is the op.
FACES = frozenset("add sub mul div maximum minimum relu sigmoid abs neg addcmul addcdiv clamp".split())
# Their static arguments, with the public function's defaults.
_STATICS = {"addcmul": (("value", 1),), "addcdiv": (("value", 1),), "clamp": (("min", None), ("max", None))}
_AUGMENTED = {
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__ipow__": "pow_",
    "__iand__": "bitwise_and_",
    "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_",
    "__ilshift__": "bitwise_left_shift_",
    "__irshift__": "bitwise_right_shift_",
}


def install_inplace(table: dict[str, Op]) -> None:
    """Puts every `name_` method, the augmented operators and item assignment on Tensor."""
    for key, entry in list(table.items()):
        if not entry.inplace or key.endswith(".public"):
            continue
        face = table.get(f"{key}.public", entry)
        setattr(Tensor, f"{entry.name}_", inplace_form(face, entry.name))
    for name in _RESHAPING:
        setattr(Tensor, f"{name}_", reshaping_form(getattr(Tensor, name), f"{name}_"))
    for operator, name in _AUGMENTED.items():
        if hasattr(Tensor, name):
            setattr(Tensor, operator, getattr(Tensor, name))
    for method in (copy_, fill_, zero_):
        setattr(Tensor, method.__name__, method)
    Tensor.__setitem__ = set_item  # type: ignore[attr-defined,index]
