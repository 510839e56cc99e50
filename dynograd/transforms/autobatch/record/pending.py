"""Lazy: a tensor whose value is still to come. It knows its shape and dtype, and the recorder that can compute it.

A Lazy has Tensor's slots and no others, so that it can *become* a plain tensor: the slots hold its place in the record until a value
is asked for, then the array and the node, and its class is Row. Ops see a Lazy by `__dynograd_op__`; whatever reads it as an
array gets a `PendingArray`, which answers questions about shape and dtype and fetches the value for all others.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import MODES
from dynograd.base import devices, dtypes
from dynograd.base.shapes import Size
from dynograd.interpreter import TENSORS
from dynograd.interpreter.tensor_parts import Meta, RemovableHandle
from dynograd.interpreter.view_history import follow_base
from dynograd.tensor.inplace import write_result
from dynograd.tensor.tensor import Tensor, keeping_hook, tensor_hook
from dynograd.transforms.autobatch.group.rows import RowNode
from dynograd.transforms.autobatch.record.interned import Interned
from dynograd.transforms.autobatch.record.pending_arrays import PendingArray

__all__ = ["KINDS", "Kind", "Lazy", "PendingArray", "Row", "settle", "settled"]

_ARRAY, _NODE = Tensor.__dict__["array"], Tensor.__dict__["node"]
_FLAG, _GRAD, _META = Tensor.__dict__["_requires_grad"], Tensor.__dict__["_grad"], Tensor.__dict__["_meta"]


class Kind:
    """Shape, dtype, device and whether a gradient is wanted: one object for each combination."""

    __slots__ = ("__weakref__", "device", "dtype", "grad", "shape", "shown", "size")

    shape: tuple[int, ...]
    shown: Size  # the shape as a tensor shows it
    dtype: Any
    grad: bool
    device: devices.device
    size: int

    def __init__(self, shape: tuple[int, ...], dtype: Any, grad: bool, device: devices.device) -> None:
        self.shape, self.shown, self.dtype, self.grad, self.device = shape, Size(shape), dtype, grad, device
        self.size = math.prod(shape)

    @staticmethod
    def of(shape: tuple[int, ...], dtype: Any, grad: bool, device: devices.device) -> Kind:
        key = (shape, dtype.num, grad) if device is devices.cpu else (shape, dtype.num, grad, device)
        return KINDS.of(key, lambda: Kind(shape, dtype, grad, device))

    def without_grad(self) -> Kind:
        return Kind.of(self.shape, self.dtype, False, self.device)

    def __repr__(self) -> str:
        return f"{dtypes.BY_NUM[self.dtype.num].name}{list(self.shape)}"


KINDS: Interned[Kind] = Interned(100_000)


class Row(Tensor):
    """A tensor that was computed in a group; hooks on its gradient see all of it, whichever way it was used."""

    __slots__ = ()

    def register_hook(self, hook: Any) -> RemovableHandle:
        follow_base(self)
        node = self.node
        if type(node) is not RowNode:
            return Tensor.register_hook(self, hook)
        slab, row = node.edges[0], node.attrs
        return RemovableHandle(slab.hooks_of(row).before, tensor_hook(hook))

    def retain_grad(self) -> None:
        follow_base(self)
        node = self.node
        if type(node) is not RowNode:
            return Tensor.retain_grad(self)
        if self.retains_grad:
            return None
        self.meta().retained = RemovableHandle(node.edges[0].hooks_of(node.attrs).last, keeping_hook(self))
        return None


TENSORS.add(Row)


class Lazy(Tensor):
    """A tensor of an `autobatch` scope whose value nobody has read yet."""

    __slots__ = ()

    # Tensor's slots under the names of what they hold meanwhile.
    pending = _ARRAY  # the port: which output of which bucket of the record
    row = _NODE  # the place in it
    origin = _META  # of a view: the tensor it is a view of
    views = _GRAD  # weak references to views of this one

    @property
    def array(self) -> Any:
        port = self.pending
        if port.is_open or not port.bucket.done:
            return PendingArray(self, port.kind)
        return settle(self).array

    @array.setter
    def array(self, value: Any) -> None:
        settle(self)
        self.array = value

    @property
    def node(self) -> Any:
        return settle(self).node if self.pending.kind.grad else None

    @node.setter
    def node(self, value: Any) -> None:
        settle(self).node = value

    @property
    def _requires_grad(self) -> bool:
        return self.pending.kind.grad

    @_requires_grad.setter
    def _requires_grad(self, value: bool) -> None:
        settle(self)._requires_grad = value

    @property
    def _grad(self) -> Any:
        return None

    @_grad.setter
    def _grad(self, value: Any) -> None:
        settle(self)._grad = value

    @property
    def _meta(self) -> Any:
        return _VIEW if getattr(self, "origin", None) is not None or self.pending.is_view else None

    @_meta.setter
    def _meta(self, value: Any) -> None:
        settle(self)._meta = value

    shape = property(lambda self: self.pending.kind.shown)
    ndim = property(lambda self: len(self.pending.kind.shape))
    dtype = property(lambda self: dtypes.BY_NUM[self.pending.kind.dtype.num])
    device = property(lambda self: self.pending.kind.device)
    requires_grad = property(
        lambda self: self.pending.kind.grad, lambda self, value: setattr(settle(self), "requires_grad", value)
    )
    is_leaf = property(lambda self: not self.pending.kind.grad)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return Tensor.is_contiguous(settle(self), memory_format)

    def size(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        dim = axis if dim is None else dim
        if dim is None:
            return self.pending.kind.shown
        return Tensor.size(self, dim)

    def detach(self) -> Any:
        result = object.__new__(Lazy)
        result.pending, result.row = self.pending.detached(), self.row
        note_view(result, self)
        return result

    @property
    def data(self) -> Any:
        return settle(self).data

    @data.setter
    def data(self, value: Any) -> None:
        settle(self).data = value

    @staticmethod
    def __dynograd_op__(op: Any, arguments: dict[str, Any]) -> Any:
        return _slots.op(op, arguments)

    @staticmethod
    def __dynograd_in_turn__(function: Any, args: tuple, kwargs: dict) -> Any:
        return function(*settled(args), **settled(kwargs))

    @staticmethod
    def __dynograd_function__(function: Any, args: tuple, kwargs: dict) -> Any:
        return _slots.function(function, args, kwargs)

    @staticmethod
    def __dynograd_write__(target: Any, value: Any, who: str, write: Any) -> Any:
        return _slots.write(target, value, who, write)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not _slots.set_item(self, index, value):
            Tensor.__setitem__(settle(self), index, value)

    @staticmethod
    def __dynograd_set_item__(target: Any, index: Any, value: Any) -> bool:
        return _slots.set_item(target, index, value)

    def backward(self, *args: Any, **kwargs: Any) -> None:
        Tensor.backward(settle(self), *args, **kwargs)


def _settling(name: str) -> Any:
    """A method that first settles the tensor."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(settle(self), name)(*args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


def install_methods() -> None:
    """Gives Lazy the methods of Tensor that need a value or a place in memory; called once, when Tensor has all of its own."""
    for name in type.__dir__(Tensor):
        if name in _SETTLING:
            setattr(Lazy, name, _settling(name))
        elif name.endswith("_") and not name.startswith("_"):
            written = name not in _AT_ONCE and hasattr(Tensor, name[:-1])
            setattr(Lazy, name, _standing(name) if written else _settling(name))
    for name in ("fill_", "zero_", "copy_"):
        setattr(Lazy, name, _filling(name))
    for operator in ("add", "sub", "mul", "truediv"):
        setattr(Lazy, f"__i{operator}__", Lazy.__dict__[{"truediv": "div"}.get(operator, operator) + "_"])


def _filling(name: str) -> Any:
    """`fill_`, `zero_`, `copy_`: as `self[...] = value`."""
    at_once = getattr(Tensor, name)
    arguments = 0 if name == "zero_" else 1

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) == arguments and not kwargs:
            value = args[0] if args else 0
            if (name == "copy_" or not isinstance(value, Tensor)) and _slots.set_item(self, ..., value):
                return self
        return at_once(settle(self), *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


def _standing(name: str) -> Any:
    """An in-place method: a Lazy that shares memory with no other just stands for the result from then on."""
    function = getattr(Tensor, name[:-1])
    at_once = getattr(Tensor, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if MODES.recorder is None:
            return at_once(settle(self), *args, **kwargs)
        return _slots.write(self, function(self, *args, **kwargs), name, write_result)

    method.__name__ = method.__qualname__ = name
    return method


# Not of values, or random: these are done on the value.
_AT_ONCE = frozenset(
    "as_strided_ bernoulli_ detach_ rename_ requires_grad_ resize_ resize_as_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_".split()
)
_SETTLING = frozenset(
    "stride storage_offset data_ptr retain_grad register_hook register_post_accumulate_grad_hook meta run_hooks adds_directly "
    "accumulate_grad has_hooks item tolist numpy __array__ __bool__ __int__ __float__ __complex__ __index__ __repr__ __format__ __dlpack__ "
    "__dlpack_device__ __copy__ __deepcopy__ __reduce_ex__ pin_memory is_pinned record_stream storage untyped_storage "
    "is_shared share_memory_ set_ resize_ to_sparse".split()
)


_VIEW = Meta()  # what a view that is still to come has for the rest: it is one


class _Slots:
    """What the files above fill in."""

    op: Any = None
    function: Any = None
    write: Any = None
    set_item: Any = None
    keep_old: Any = None


_slots = _Slots()
_set_array, _set_node = _ARRAY.__set__, _NODE.__set__


def settle(lazy: Any) -> Any:
    """The tensor itself, with its value: no longer a Lazy. Those that share its memory are settled with it."""
    if type(lazy) is not Lazy:
        return lazy
    lazy.pending.bucket  # noqa: B018 - of a step of a sequence: its call is in the record from now on
    if getattr(lazy, "origin", None) is not None or getattr(lazy, "views", None) is not None:
        return _settle(lazy)
    return _settle_alone(lazy)


def _settle_alone(lazy: Any) -> Any:
    port, row = lazy.pending, lazy.row
    if not port.bucket.done:
        port.bucket.recorder.flush(port.bucket)
    try:
        array, node = port.row(row)
        if port.whole.bucket.common:  # others have the row, too
            array = arrays.copy(array)
    except Exception as error:
        port.bucket.recorder.told(error)
        raise
    return _become(lazy, array, node, None)


def _become(lazy: Any, array: Any, node: Any, meta: Any) -> Any:
    lazy.__class__ = Row
    lazy.array, lazy.node, lazy._requires_grad, lazy._grad = array, node, node is not None, None
    lazy._meta = meta
    return lazy


def _settle(lazy: Any) -> Any:
    """The base of `lazy` gets its value, and every view of it is made again as a view of that memory."""
    base = lazy
    while getattr(base, "origin", None) is not None:
        base = base.origin
    steps: list[tuple[Any, Any, Any]] = []  # (view, what it is a view of, whether it is the same without history)
    family = [base]
    for relative in family:
        for view in [reference() for reference in getattr(relative, "views", None) or ()]:
            if type(view) is Lazy and view.origin is relative:
                family.append(view)
                steps.append((view, relative, view.pending.bucket is relative.pending.bucket))
    _settle_alone(base)
    mode, recorder = MODES.grad, MODES.recorder
    MODES.recorder = None
    try:
        for view, parent, same in steps:
            if same:
                _become(view, parent.array, None, None)
                continue
            form = view.pending.bucket.form
            MODES.grad = form.grad
            function = form.op.function(parent, **form.statics)
            result = function[view.pending.number] if isinstance(function, tuple) else function
            _become(view, result.array, result.node if view.pending.kind.grad else None, result._meta)
    finally:
        MODES.grad, MODES.recorder = mode, recorder
    return lazy


def settled(value: Any) -> Any:
    """`value` with every Lazy in it settled, in tuples, lists and dicts too."""
    if type(value) is Lazy:
        return settle(value)
    if type(value) in (list, tuple):
        for element in value:
            settled(element)
    elif type(value) is dict:
        for element in value.values():
            settled(element)
    return value


Lazy.__dynograd_settle__ = staticmethod(settle)  # type: ignore[attr-defined]


def note_view(view: Any, base: Any) -> None:
    """Remembers that `view` would share memory with `base`, for a write into one of them."""
    view.origin = base
    result = getattr(base, "views", None)
    if result is None:
        result = base.views = []
    result.append(weakref.ref(view))
