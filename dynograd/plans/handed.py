"""Handed: a tensor of the record that a step's ops hand to the user's program, while its value is still to be computed.

It has Tensor's slots and no others, so that it can *become* a plain tensor. It knows its shape, dtype and strides; what asks for numbers
gets them from the walk, which runs the plan up to there; what asks for its place in the graph of gradients ends the walk: the ops so far are
run anew as they are written, and the tensor is then what they give.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import Node
from dynograd.autograd.writes import count_on
from dynograd.base import dtypes
from dynograd.base.shapes import Size
from dynograd.interpreter import differentiation
from dynograd.interpreter.tensor_parts import SILENT, Meta
from dynograd.plans.gpu.array_kinds import is_contiguous
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.autobatch.record.pending_arrays import PendingArray

__all__ = ["Handed", "Value", "become", "detached", "new_handed", "same_memory", "stand_for", "turn_into"]

_ARRAY, _NODE = Tensor.__dict__["array"], Tensor.__dict__["node"]


class Value:
    """What is known of one recorded result: its number in the record, its shape, dtype and strides, whether it requires grad."""

    __slots__ = (
        "contiguous",
        "device",
        "dtype",
        "grad",
        "history",
        "is_leaf",
        "is_view",
        "number",
        "shape",
        "shown",
        "size",
        "strides",
        "version",
        "walk",
    )
    whole = None
    kind = property(lambda self: self)

    def __init__(self, walk: Any, number: int, array: Any, grad: bool, is_view: bool) -> None:
        self.walk, self.number, self.grad, self.is_view = walk, number, grad, is_view
        self.shape, self.dtype, self.strides, self.size = array.shape, array.dtype, array.strides, array.size
        self.shown, self.contiguous = Size(array.shape), is_contiguous(array)
        self.device = arrays.place_of(array)
        self.is_leaf = False  # though it requires grad
        self.history: str | None = None  # the name of the node that made it
        self.version = 0  # how often the step has written into it in place


class Handed(Tensor):
    """A tensor of the record whose numbers nobody has asked for in this step."""

    __slots__ = ()

    value = _NODE  # Tensor's slot, under the name of what it holds meanwhile

    pending = property(lambda self: self.value)
    origin = property(lambda self: self if self.value.is_view else None)

    @property
    def array(self) -> PendingArray:
        return PendingArray(self, self.value)

    @array.setter
    def array(self, array: Any) -> None:
        self.plain("a tensor was given other memory").array = array

    def _may_be_written(self) -> bool:
        """A view whose step is over is plain from now on: what it is a view of may have got another history since."""
        value = self.value
        return value.is_view and not value.walk.running and not isinstance(value.walk.leave("", self), Handed)

    @property
    def node(self) -> Node | None:
        if self._may_be_written():
            return self.node
        if not self.value.grad:
            return None
        return self.value.walk.leave("the graph of gradients was asked for", self).node

    @node.setter
    def node(self, node: Any) -> None:
        self.value.walk.leave("a tensor was given another history", self).node = node

    def _history_name(self) -> str | None:
        return self._history_name() if self._may_be_written() else self.value.history

    shape = property(lambda self: self.value.shown)
    ndim = property(lambda self: len(self.value.shape))
    dtype = property(lambda self: dtypes.BY_NUM[self.value.dtype.num])
    itemsize = property(lambda self: self.value.dtype.itemsize)
    nbytes = property(lambda self: self.value.size * self.value.dtype.itemsize)
    is_leaf = property(
        lambda self: self.is_leaf if self._may_be_written() else not self.value.grad or self.value.is_leaf
    )
    requires_grad = property(
        lambda self: self.requires_grad if self._may_be_written() else self.value.grad,
        lambda self, value: self.value.walk.flag(self, value),
    )
    device = property(lambda self: self.value.device)
    is_cpu = property(lambda self: self.value.device.type == "cpu")
    is_cuda = property(lambda self: self.value.device.type == "cuda")
    _version = property(lambda self: self.value.walk.version_of(self.value))
    is_meta = property(lambda self: False)
    _base = property(lambda self: (self.value.walk.view_record(self.value.number) or (None,))[0])

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        if not (requires_grad and self.value.grad):
            self.requires_grad = requires_grad
        return self

    def dim(self) -> int:
        return len(self.value.shape)

    ndimension = dim

    def numel(self) -> int:
        return self.value.size

    nelement = numel

    def size(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        dim = axis if dim is None else dim
        shape = self.value.shape
        if dim is None:
            return self.value.shown
        if type(dim) is int and -len(shape) <= dim < len(shape):
            return shape[dim]
        return Tensor.size(self, dim)

    def __len__(self) -> int:
        return self.value.shape[0] if self.value.shape else Tensor.__len__(self)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: Any = None,
        create_graph: bool = False,
        inputs: Any = None,
        *,
        step: bool = False,
    ) -> None:
        if step:
            Tensor.backward(self.plain("backward is stepped through"), step=True)
            return
        if gradient is None and inputs is None and not create_graph:
            walk = self.value.walk
            if MODES.plan is walk and walk.goes_back(self, bool(retain_graph)):
                return
        differentiation.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        if memory_format is None:
            return self.value.contiguous
        return Tensor.is_contiguous(self, memory_format)

    def stride(self, dim: int | None = None, *, axis: int | None = None) -> int | tuple[int, ...]:
        if dim is None and axis is None:
            return tuple([stride // self.value.dtype.itemsize for stride in self.value.strides])
        return Tensor.stride(self, dim, axis=axis)

    @staticmethod
    def __dynograd_settle__(tensor: Any) -> Tensor:
        tensor.value.walk.read(tensor)
        return tensor

    def numpy(self, *, force: bool = False) -> Any:
        self.value.walk.read(self)
        return Tensor.numpy(self, force=force)

    def __dlpack__(self, **options: Any) -> Any:
        self.value.walk.read(self)
        return Tensor.__dlpack__(self, **options)

    def __copy__(self) -> Any:
        return self.plain("a tensor is copied").__copy__()

    def __deepcopy__(self, memo: dict) -> Any:
        return self.plain("a tensor is copied").__deepcopy__(memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.plain("a tensor is pickled").__reduce_ex__(protocol)

    def plain(self, reason: str) -> Any:
        """The tensor itself, which no record has from now on."""
        return self.value.walk.leave(reason, self)

    @staticmethod
    def __dynograd_plain__(tensor: Any) -> Any:
        return tensor.plain("a tensor changes its own shape")

    __dynograd_number__ = True  # as an index it is read, as in a step that is not walked: what it picks is a view

    def item(self) -> Any:
        if self.value.size != 1:
            return Tensor.item(self)
        return self.value.walk.number_of(self).item()

    def __bool__(self) -> bool:
        return bool(self.item()) if self.value.size == 1 else Tensor.__bool__(self)

    def __float__(self) -> float:
        return float(self.item()) if self.value.size == 1 else Tensor.__float__(self)

    def __int__(self) -> int:
        return int(self.item()) if self.value.size == 1 else Tensor.__int__(self)

    def detach(self) -> Tensor:
        walk = self.value.walk
        return walk.detach(self) if walk.running else Tensor.wrap(walk.read(self))

    @property
    def data(self) -> Tensor:
        walk = self.value.walk
        return walk.detach(self, True) if walk.running else Tensor.wrap(walk.read(self)).data

    @data.setter
    def data(self, value: Tensor) -> None:
        Tensor.data.__set__(self, value)  # type: ignore[attr-defined]

    @staticmethod
    def __dynograd_op__(op: Any, arguments: dict[str, Any]) -> Any:
        """An op that the record does not have here."""
        walk = _walk_of(arguments.values())
        walk.met_unknown(op, arguments)
        return op.function(**arguments)

    @staticmethod
    def __dynograd_function__(function: Any, args: tuple, kwargs: dict) -> Any:
        walk = _walk_of((*args, *kwargs.values()))
        handlers = [type(value) for value in args if hasattr(type(value), "__dynograd_function__")]
        if walk.running and MODES.plan is walk and all([issubclass(kind, Handed) for kind in handlers]):
            return function.applied(args, kwargs, True)[0]
        for value in args:
            if isinstance(value, Handed):
                value.value.walk.leave(f"{function.__name__}, a function with a backward of its own", value)
        return function.apply(*args, **kwargs)

    @staticmethod
    def __dynograd_write__(target: Any, value: Any, who: str, write: Any) -> Any:
        walk = _walk_of((target, value))
        if isinstance(target, Handed) or (isinstance(value, Handed) and value.value.grad):
            for tensor in (target, value):
                if isinstance(tensor, Handed):
                    walk.leave(f"{who} writes into a recorded tensor", tensor)
        else:
            walk.read(value)
        return write(target, value, who)


def _walk_of(values: Any) -> Any:
    for value in values:
        if isinstance(value, Handed):
            return value.value.walk
        if isinstance(value, (list, tuple)):
            for element in value:
                if isinstance(element, Handed):
                    return element.value.walk
    raise AssertionError("no recorded tensor among the operands")


class Read(Handed):
    """A recorded tensor with history whose numbers have been read in this step: a copy of its own."""

    __slots__ = ()
    array = _ARRAY  # type: ignore[assignment]
    item, __bool__, __float__, __int__ = Tensor.item, Tensor.__bool__, Tensor.__float__, Tensor.__int__
    numpy, __dlpack__, data = Tensor.numpy, Tensor.__dlpack__, Tensor.data  # type: ignore[assignment]
    _version = Tensor._version  # type: ignore[assignment]


def _comparison(name: str, other_way: str) -> Callable[[Any, Any], object]:
    """Python asks the operand whose class is derived from the other's first, on whichever side it stands. So where one of two is a recorded tensor, or
    was one when the record was made, what the record has here says which side that is.
    """

    @functools.wraps(getattr(Tensor, f"__{name}__"))
    def compare(self: Any, other: Any) -> object:
        walk = self.value.walk
        if isinstance(other, Tensor) and walk.running and MODES.plan is walk:
            operand = "value", self.value.number
            choices = [(choice.of.key, choice.args) for choice in (walk.at, *walk.at.others) if choice.of is not None]
            if not any([key == name and args[0] == operand for key, args in choices]) and any(
                [key == other_way and args[1] == operand for key, args in choices]
            ):
                return getattr(Tensor, f"__{other_way}__")(other, self)
        return getattr(Tensor, f"__{name}__")(self, other)

    return compare


for _name, _other_way in (("lt", "gt"), ("gt", "lt"), ("le", "ge"), ("ge", "le"), ("eq", "eq"), ("ne", "ne")):
    setattr(Handed, f"__{_name}__", _comparison(_name, _other_way))
Handed.__name__ = Handed.__qualname__ = Read.__name__ = Read.__qualname__ = "Tensor"  # as errors name them

_set_value = Handed.value.__set__  # type: ignore[attr-defined]
_VIEW = Meta()  # what a view has for the rest: it is one


def detached(tensor: Any, silent: bool) -> Tensor:
    """`tensor.detach()`, or `tensor.data`, where no step is recorded or compared."""
    result = Tensor.wrap(tensor.array)
    if silent:
        result._meta = SILENT
    return result


def same_memory(tensor: Any) -> Tensor:
    """`tensor.detach()`, or `tensor.data`, of what has no history: a view, so that a write into either is one into both."""
    result: Tensor = tensor.view(tensor.shape)
    return result


def new_handed(value: Value) -> Handed:
    result = object.__new__(Handed)
    _set_value(result, value)
    result._requires_grad, result._grad, result._meta = value.grad, None, _VIEW if value.is_view else None
    return result


def stand_for(tensor: Any, value: Value) -> None:
    """The tensor is a recorded one, with this value to come."""
    turn_into(tensor, Handed)
    _set_value(tensor, value)
    tensor._requires_grad, tensor._grad, tensor._meta = value.grad, None, _VIEW if value.is_view else None


def become(
    handed: Any, array: Any, node: Any, requires_grad: bool, meta: Any = None, kind: type[Tensor] = Tensor
) -> None:
    """The recorded tensor is a plain one from now on; or a `Read`, which still knows what it is in the record."""
    if type(handed) is Handed and handed.value.version:
        count_on(array, handed.value.version)
    turn_into(handed, kind)
    handed.array, handed._requires_grad = array, requires_grad
    if kind is Tensor:
        handed.node, handed._meta = node, meta


def turn_into(tensor: Any, kind: type) -> None:
    tensor.__class__ = kind
