"""Backward passes through ops: what rules call is recorded as the program's own ops are, and shown to follow from shapes alone."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import numpy

from dynograd import arrays
from dynograd.amp.autocasting import STATE
from dynograd.arrays import MetaArray, meta_arrays, ndarray
from dynograd.autograd import engine
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import OutputNode, Partial, caller
from dynograd.autograd.packing import map_saved
from dynograd.interpreter.history import AliasBackward
from dynograd.plans.comparing import same
from dynograd.plans.passes import Event, hooked, is_constant, unrecorded
from dynograd.plans.python_forms import call_with, results_of
from dynograd.plans.wrapped import Unwrapped, changed
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.duals import forms_of_copy

__all__ = ["GraphPass", "RulesAsOps", "asked_for", "seeds_of", "stays"]

_ones: dict[tuple[Any, ...], Tensor] = {}
_constants: weakref.WeakValueDictionary[tuple[Any, ...], Tensor] = weakref.WeakValueDictionary()


def seeds_of(outputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What the gradients of one-element outputs begin with: the same tensors each time. None: they are no such outputs."""
    if not all([isinstance(output, Tensor) and output.numel() == 1 for output in outputs]):
        return None
    seeds = []
    for output in outputs:
        key = tuple(output.shape), output.dtype
        if key not in _ones:
            _ones[key] = Tensor.wrap(arrays.full(key[0], 1, output.dtype))
        seeds.append(_ones[key])
    return tuple(seeds)


def modes_of_rules() -> tuple[object, ...]:
    """What else decides on the ops that rules call."""
    return MODES.honest, STATE.enabled["cpu"] and STATE.dtypes["cpu"]


def asked_for(flags: tuple[Any, ...], wrapped: Unwrapped | None) -> tuple[Any, ...]:
    """How gradients are asked for, and the forms of operands that are no plain tensors."""
    return (*flags, modes_of_rules()) if wrapped is None else (*flags, modes_of_rules(), wrapped.form)


def _is_seed(tensor: Any) -> bool:
    return _ones.get((tuple(tensor.array.shape), tensor.dtype)) is tensor


def _constant(array: Any, requires_grad: bool = False) -> Tensor:
    """The one tensor with these numbers that records have in the place of what rules make anew each time."""
    key = array.shape, array.strides, array.dtype, array.tobytes(), requires_grad
    tensor = _constants.get(key)
    if tensor is None:
        tensor = _constants[key] = Tensor.wrap(array.copy(order="K"))
        tensor._requires_grad = requires_grad
    return tensor


def stays(tensor: Any) -> bool:
    """Whether nobody but records has it, so that it stays what it is."""
    return _is_seed(tensor) or any([tensor is other for other in _constants.values()])


class RulesAsOps:
    """The part of a recording that notes them."""

    def begin_rules(self) -> None:
        self.by_array: dict[int, list[int]] = {}  # numbers of values, by the id of their array
        self.differentiating = False  # a backward pass runs through ops
        self.listening: list[Any] | None = None  # what is told of the ops that a rule calls
        self.without_values = False  # a rule runs again, to see whether it calls the same ones
        self.made: list[Tensor] = []  # stand for what rules make of shapes and numbers
        self.drawn: dict[Any, int] = {}  # the events that have drawn random numbers, by the place in the stream

    def tell(self: Any, entry: Any, below: Any, args: tuple) -> object:
        """A call of an op that is only told of."""
        inside, self.inside = self.inside, 1
        try:
            result = call_with(below, entry.op, args)
        finally:
            self.inside = inside
        if not inside:
            self.told(entry, args, results_of(result)[0] or ())
        return result

    def told(self: Any, entry: Any, args: tuple, results: Any, described: Any = None) -> None:
        """An op was called: what shapes say of it, and the numbers of tensors that no op has made."""
        kinds = [("same", None)] * len(args) if described is None else described
        operands = [self._outline(value, its_own) for value, its_own in zip(args, kinds)]
        self.listening.append((entry, operands, [_outline(tensor) for tensor in results]))

    def _outline(self: Any, value: Any, described: tuple[str, Any]) -> object:
        kind, content = described
        if isinstance(value, Tensor):
            if type(value.array) is ndarray and is_constant(value.array) and value.array.dtype.kind == "f":
                return "number", float(numpy.float32(value.array))
            return *_outline(value), self._numbers_of(value, described)
        if type(value) not in (list, tuple):
            return ("number", float(numpy.float32(value))) if type(value) in (int, float) else value
        kinds = content[1] if kind == "list" else [("same", None)] * len(value)
        return [self._outline(element, its_own) for element, its_own in zip(value, kinds)]

    def _numbers_of(self: Any, tensor: Any, described: tuple[str, Any]) -> bytes | None:
        """The numbers of a tensor that a rule has made; None: it is made of the tensors that come to the rule."""
        if not self.without_values:
            kind, place = described
            is_own = kind == "outside" and any([self.outside[place].tensor is constant for constant in self.made])
            return tensor.array.tobytes() if is_own else None
        array = tensor.array
        if type(array) is MetaArray:
            return None if array.number is None else numpy.full(array.shape, array.number, array.dtype).tobytes()
        return array.tobytes()

    # --- tensors that rules make of what nodes have saved -----------------------------------------------------------------------

    def saved(self: Any, tensor: Any) -> tuple[str, Any] | None:
        """Describes a tensor on an array of the record, with the history that this has there."""
        array, node = tensor.array, tensor.node
        for number in self.by_array.get(id(array), ()):
            value = self.values[number]
            if value.array is array and value._requires_grad is tensor._requires_grad and _is_same_place(value, node):
                return "value", number
        if _is_seed(tensor):
            return None
        if type(node) is AliasBackward:
            return "value", self._note_alias(tensor)
        if node is None and not tensor._requires_grad:
            for outside in self.outside:
                if outside.array is array and outside.tensor.array is array and not outside.tensor._requires_grad:
                    return "outside", self._place_of(outside.tensor)
            if any([array is constant for constant in self.constants]):
                return "outside", self._place_of(_constant(array))
        if node is None and self.listening is not None:
            constant = _constant(array, tensor._requires_grad)
            self.made.append(constant)
            self.constants.append(array)
            return "outside", self._place_of(constant)
        self.refuse("a tensor that comes into a backward pass from elsewhere")
        return None

    def source_of(self: Any, key: Any) -> int | None:
        """The event that has drawn at this place of the random stream before, where a rule draws the same again."""
        if not self.differentiating:
            self.drawn[key] = len(self.events)
            return None
        source = self.drawn.get(key)
        if source is None:
            self.refuse("a backward pass that draws random numbers of its own")
        return source

    def _note_alias(self: Any, tensor: Any) -> int:
        """A tensor that has the value and the history of another, in a place of its own."""
        edge = tensor.node.edges[0]
        described = None
        if not edge.seq:
            described = self._described(edge) if edge.array is tensor.array else None
        else:
            for number in self.by_array.get(id(tensor.array), ()):
                if self.values[number].array is tensor.array and _is_same_place(self.values[number], edge):
                    described = "value", number
        if described is None:
            self.refuse("a rule takes what is not the step's")
            return -1
        event = Event("place", None, (described,), MODES.grad, caller(2))
        event.results.append(self._new_value(tensor))
        self._over(event)
        return event.results[0]


def _outline(tensor: Any) -> tuple[Any, ...]:
    return "tensor", tensor.array.shape, tensor.array.dtype, tensor._requires_grad


def _is_same_place(tensor: Any, node: Any) -> bool:
    """Whether the gradient of `tensor` goes to `node`."""
    if type(node) is OutputNode and type(tensor.node) is OutputNode:
        return tensor.node.edges[0] is node.edges[0] and tensor.node.attrs == node.attrs
    return tensor.node is node


class GraphPass:
    """A backward pass through ops."""

    def __init__(self, recording: Any) -> None:
        self.recording = recording

    add = staticmethod(engine._sum)

    def rule(self, node: Any, g: Any, create_graph: bool) -> tuple[Any, ...]:
        """Gradients of a node's inputs, as tensors."""
        recording = self.recording
        if type(node) in (OutputNode, AliasBackward) or recording.reason:
            return node.apply_graph(g)
        if id(node) not in recording.shadows:
            recording.refuse(unrecorded(node))
        if node.hooks is not None:
            recording.refuse(hooked(node))
        recording.note_visits([node])
        if recording.listening is not None:  # a rule makes a pass of its own: that is a part of what it calls
            return node.apply_graph(g)
        calls = recording.listening = []
        try:
            gradients = node.apply_graph(g)
        finally:
            recording.listening = None
        if not recording.reason and not self._follows_from_shapes(node, g, calls):
            recording.refuse(f"the backward of {node.op_name()} decides on values")
        return gradients

    def _follows_from_shapes(self, node: Any, g: Any, calls: list[Any]) -> bool:
        """Whether the rule calls the same ops where there are no values."""
        bare = copy.copy(node)
        for name in node.saved_names:
            setattr(bare, name, map_saved(getattr(node, name), _without_values))
        recording = self.recording
        again = recording.listening = []
        recording.without_values = True
        try:
            with forms_of_copy(node, bare, _bare):
                bare.apply_graph(_bare(g))
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            return False
        finally:
            recording.listening, recording.without_values = None, False
        return same(again, calls)


def _bare(g: Any) -> Partial | Tensor:
    """A gradient without values."""
    if type(g) is Partial:
        return Partial({number: _bare(part) for number, part in g.parts.items()})
    return changed(g, _bare_tensor)


def _bare_tensor(g: Any) -> Tensor:
    tensor = Tensor.wrap(_without_values(g.array))
    tensor.node, tensor._requires_grad = g.node, g._requires_grad
    return tensor


def _without_values(array: Any) -> object:
    return meta_arrays.like(array) if type(array) is ndarray and not is_constant(array) else array
