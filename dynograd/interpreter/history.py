"""What a node saved, as tensors with their history: for `create_graph` and for ops that have a decomposition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynograd import arrays
from dynograd.arrays import as_result
from dynograd.autograd.modes import MODES, recording
from dynograd.autograd.nodes import Node, OutputNode, Partial, next_seq
from dynograd.interpreter.shared import tensor_class

if TYPE_CHECKING:
    from dynograd.tensor.tensor import Tensor

saved_forms: list[Any] = []


class GraphSaved:
    """What a node saved, as tensors with their history: what `backward` sees under `create_graph`."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def needs(self, position: int) -> bool:
        return self.node.needs(position)

    def __getattr__(self, name: str) -> Any:
        value = self._with_history(name)
        for form in saved_forms:
            value = form(self.node, name, value)
        return value

    def _with_history(self, name: str) -> Any:
        node = self.node
        value = getattr(node, name)
        op = node.op
        if name in op.extras:
            raise AssertionError(f"{op.name}.backward reads the extra {name!r}, which only fast_backward may do")
        if name == "output":
            if op.outputs is None:
                return with_history(value, node)
            return tuple(
                None
                if array is None
                else with_history(array, OutputNode(node, number))
                if array.dtype.kind in "fcV"
                else with_history(array, None)
                for number, array in enumerate(value)
            )
        if name not in op.array_names or value is None:
            return value
        position = op.array_names.index(name)
        if name == op.list_name:
            after = len(op.array_names) - position - 1
            edges = node.edges[position : len(node.edges) - after]
            return [with_history(element, edge) for element, edge in zip(value, edges, strict=True)]
        if op.list_name and op.array_names.index(op.list_name) < position:
            position -= len(op.array_names)
        return with_history(value, node.edges[position])


class OwnPlaces(GraphSaved):
    """What a node saved, each in a place of its own: gradients of one are not mixed with those of another that depends on it."""

    __slots__ = ()

    def _with_history(self, name: str) -> Any:
        return _own_place(super()._with_history(name))


def _own_place(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_own_place(element) for element in value]
    if not getattr(value, "_requires_grad", False):
        return value
    tensor = tensor_class[0].wrap(value.array)
    tensor.node, tensor._requires_grad = alias_of(value if value.node is None else value.node), True
    return tensor


def with_history(value: Any, edge: Any) -> Any:
    """A tensor on the array `value` whose gradient goes along `edge`."""
    if not arrays.is_array(value):
        return value
    cls = tensor_class[0]
    if edge is not None and not isinstance(edge, Node):
        if edge.array is value:
            return edge
        alias = cls.wrap(value)
        alias.node = alias_of(edge)
        alias._requires_grad = True
        return alias
    tensor = cls.wrap(value)
    if edge is not None:
        tensor.node = edge
        tensor._requires_grad = True
    return tensor


class AliasBackward(Node):
    """Passes the gradient on unchanged."""

    __slots__ = ()

    def apply(self, g: Any) -> Any:
        return (g,)

    apply_graph = apply


def alias_of(edge: Any) -> Node:
    node = AliasBackward()
    node.edges, node.seq, node.hooks, node.attrs = (edge,), next_seq(), None, None
    return node


def in_its_own_place(tensor: Any) -> Tensor:
    """The same value with a place of its own on the tape, joined to the history that it has."""
    if MODES.plan is not None:
        return MODES.plan.in_its_own_place(tensor, _in_its_own_place)
    return _in_its_own_place(tensor)


def _in_its_own_place(tensor: Any) -> Tensor:
    settle = getattr(type(tensor), "__dynograd_settle__", None)
    if settle is not None:  # ops on it run at once, and their nodes save it
        tensor = settle(tensor)
    result = tensor_class[0].wrap(tensor.array)
    result._requires_grad = True
    if tensor.requires_grad:
        result.node = alias_of(tensor if tensor.node is None else tensor.node)
    return result


def through_decomposition(node: Any, g: Any, create_graph: bool) -> Any:
    """Gradients of a fused op through the same function written with other ops."""
    op = node.op
    cls = tensor_class[0]
    saved = OwnPlaces(node) if create_graph else GraphSaved(node)
    arguments: dict[str, Any] = {}
    sources: list[Any] = []
    for name in op.array_names:
        value = getattr(saved, name)
        if not create_graph:
            value = _fresh_leaves(value)
        arguments[name] = value
        sources += list(value) if isinstance(value, (list, tuple)) else [value]
    arguments |= dict(zip(op.static_names, node.attrs, strict=True))
    mode = MODES.grad
    MODES.grad = recording()
    try:
        parts = op.decomposition(**arguments)
        parts = parts if isinstance(parts, (tuple, list)) else (parts,)
        wanted_sources = [
            (source if isinstance(source, cls) else None) if edge is not None else None
            for source, edge in zip(sources, node.edges, strict=True)
        ]
        seeds = g.parts if isinstance(g, Partial) else {0: g}
        chosen = [parts[number] for number in seeds]
        grads = cls.gradients(
            chosen,
            [source for source in wanted_sources if source is not None],
            [seed if isinstance(seed, cls) else cls.wrap(as_result(seed)) for seed in seeds.values()],
            create_graph,
        )
    finally:
        MODES.grad = mode
    remaining = iter(grads)
    result = [None if source is None else next(remaining) for source in wanted_sources]
    return result if create_graph else [None if tensor is None else tensor.array for tensor in result]


def _fresh_leaves(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_fresh_leaves(element) for element in value]
    if value is None or not value._requires_grad:
        return value
    tensor = tensor_class[0].wrap(value.array)
    tensor._requires_grad = True
    return tensor
