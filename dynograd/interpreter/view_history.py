"""What a write into a view does to the history of its base, and of the base's other views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynograd import arrays
from dynograd.arrays import Array, storages
from dynograd.autograd.modes import MODES, show
from dynograd.autograd.nodes import Node, next_seq
from dynograd.base import dtypes
from dynograd.base.values import TENSORS
from dynograd.interpreter.history import with_history
from dynograd.interpreter.shared import tensor_class
from dynograd.interpreter.tensor_parts import Meta, full_meta, is_shared, set_record, steps_of, view_of

if TYPE_CHECKING:
    from dynograd.tensor.tensor import Tensor


# --- what a view asks --------------------------------------------------------------------------------------------------------


def follow_base(tensor: Any) -> bool:
    """Gives a view the history of what it is a view of, where that was written since.

    Whether the tensor has become one of a type that takes over ops, because its base is of such a type now.
    """
    meta = tensor._meta
    record = meta if meta is None or type(meta) is tuple else meta.view
    if record is None:
        return False
    base = record[0]
    owner = base._meta
    if owner is None:
        return False
    if type(owner) is Meta and owner.view is None and type(base) in TENSORS:  # the usual case
        if owner.written == record[5]:
            return False
    else:
        while (moved := view_of(base)) is not None:  # it has changed its own shape: it is a view of what it was
            base = moved[0]
        if base is not record[0]:
            record = (base, *record[1:])
            set_record(tensor, record)
        handler = getattr(type(base), "__dynograd_follow__", None)
        if handler is not None:
            return handler(tensor, base)
        owner = base._meta
        if owner is None or owner.written == record[5]:
            return False
    since = owner.written  # before the history, which another thread may change meanwhile
    source = tensor_class[0].wrap(base.array)
    source.node, source._requires_grad = base.node, base._requires_grad
    mode, recorder = MODES.grad, MODES.recorder
    MODES.grad, MODES.recorder = 1, None
    try:
        replayed = replay(source, steps_of(record))
    finally:
        MODES.grad, MODES.recorder = mode, recorder
    tensor.node, tensor._requires_grad = replayed.node, replayed._requires_grad
    set_time(replayed, source)
    set_record(tensor, (*record[:5], since))
    _retain_again(tensor)
    return False


def set_time(view: Any, base: Any) -> None:
    """A view that follows its base has the time of the write, whenever it is used first: in what order backward sums does not depend on that."""
    node, end = view.node, base.node
    while end is not None and node is not None and node is not end:
        node.seq = end.seq + 0.5  # before all that came later; many may share it, since none of these leads to another
        node = node.edges[0]


def edge_of(tensor: Tensor) -> Any:
    """Where the gradient of a tensor goes: to its node, to the tensor itself, or nowhere."""
    if tensor._meta is not None:
        follow_base(tensor)
    if not tensor._requires_grad:
        return None
    node = tensor.node
    return tensor if node is None else node


# --- what a write tells ------------------------------------------------------------------------------------------------------


def rebase(target: Tensor, result: Tensor) -> None:
    """Gives `target` (and the base it is a view of, and the base's other views) the history of `result`."""
    follow_base(target)
    record = view_of(target)
    edge = edge_of(result)
    if record is not None:
        write_steps(record[0], edge, steps_of(record))
        return
    if edge is None:
        edge = overwrite_node(target, None)
    _renew(target, edge if isinstance(edge, Node) else with_history(arrays.copy(result.array), edge).node)


def overwrite(target: Tensor, source: Tensor) -> None:
    """Gives `target` (and the base it is a view of, and the base's other views) the history of a copy of `source`."""
    follow_base(target)
    record = view_of(target)
    if record is not None:
        node = overwrite_node(None, source) if edge_of(source) is not None else None
        write_steps(record[0], node, steps_of(record))
        return
    _renew(target, overwrite_node(target, source))


def overwrite_node(target: Tensor | None, source: Tensor | None) -> Node:
    return _recorded(
        CopyBackwards, (None if target is None else edge_of(target), None if source is None else edge_of(source)), None
    )


def _recorded(kind: type[Node], edges: tuple, attrs: Any) -> Node:
    node = kind()
    node.edges, node.seq, node.hooks, node.attrs = edges, next_seq(), None, attrs
    if MODES.grad > 1:
        show(node)
    return node


def _renew(base: Tensor, node: Node) -> None:
    """A new history of a tensor that was written. Hooks stay with the old one; `retain_grad` asks for the gradient of the new."""
    base.node, base._requires_grad = node, True
    if is_shared(base):
        full_meta(base).written = next_seq()  # after the history: a view that is made meanwhile then has the old number
    _retain_again(base)


def _retain_again(tensor: Tensor) -> None:
    meta = tensor._meta
    if type(meta) is Meta and meta.retained is not None:
        meta.retained.remove()
        meta.retained = None
        if tensor.node is not None:
            tensor.retain_grad()


def write_steps(base: Tensor, edge: Any, steps: tuple) -> None:
    """Gives `base` the history of a write into its view by `steps`, of a value whose history is `edge`."""
    node: Any = _recorded(ViewWrite, (edge_of(base), edge), steps)
    by_memory = any([entry.name == "as_strided" for entry, _, _ in steps])
    node.strides = arrays.strides_in_elements(base.array) if by_memory else None
    _renew(base, node)


def replay(source: Any, steps: tuple) -> Tensor | Array:
    """The view of `source` that the recorded steps describe; works on arrays and tensors."""
    for entry, statics, number in steps:
        source = entry.function(source, *statics)
        if number is not None:
            source = source[number]
    return source


class CopyBackwards(Node):
    """The history of a tensor that was overwritten throughout: no gradient to what it held, all of it to what was copied into it."""

    __slots__ = ()

    def apply(self, g: Any) -> tuple[Array | None, Array]:
        return arrays.zeros_like(arrays.as_result(g)) if self.needs(0) else None, g

    def apply_graph(self, g: Any) -> tuple[Tensor | None, Tensor]:
        return tensor_class[0].wrap(arrays.zeros_like(g.array)) if self.needs(0) else None, g


class ViewWrite(Node):
    """The history of a base after a write into one of its views: outside the region the old base, inside the new value."""

    __slots__ = ("strides",)
    strides: tuple[int, ...] | None  # of the base, where a step goes by places in memory (`as_strided`)

    def apply(self, g: Any) -> tuple[Array | None, Array | None]:
        g = self._laid_out(arrays.as_result(g))
        inner = replay(g, self.attrs) if self.edges[1] is not None else None
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
        result = storages.placed(memory, g.dtype, g.shape, tuple([step * g.dtype.itemsize for step in strides]), 0)
        arrays.write(result, g)
        return result

    def apply_graph(self, g: Any) -> tuple[Tensor | None, Tensor | None]:
        if self.strides is not None:
            g = g.contiguous()
        outside = self._laid_out(arrays.ones_like(g.array))
        arrays.write(replay(outside, self.attrs), 0)
        return (
            g * tensor_class[0].wrap(outside) if self.edges[0] is not None else None,
            replay(g, self.attrs) if self.edges[1] is not None else None,
        )

    def name(self) -> str:
        return "CopySlices"

    def op_name(self) -> str:
        return "a write into a view"

    def __repr__(self) -> str:
        return "<CopySlices>"
