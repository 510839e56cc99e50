"""What a node saved, handed to a user's `pack` when it is recorded and asked back from `unpack` when backward needs it.

A node whose saved arrays are packed changes its class: the new one puts the arrays back before the rule runs and takes them away
after. A node without hooks knows nothing of all this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.autograd.nodes import Node

__all__ = ["Packed", "map_saved", "pack_node"]


class Packed:
    """Stands in the place of a saved array; `array()` gives it back."""

    __slots__ = ("held", "unpack")

    def __init__(self, content: Any, unpack: Callable[[Any], Any]) -> None:
        self.held, self.unpack = content, unpack

    def array(self) -> Array:
        return self.unpack(self.held)


def pack_node(node: Node, pack: Callable[[Any], Packed]) -> None:
    """Replaces each array that `node` saved by `pack(array)`."""
    own = getattr(type(node), "pack_saved", None)
    if own is not None:
        own(node, pack)
        return
    has_packed = False
    for name in node.saved_names:
        value = getattr(node, name)
        packed = map_saved(value, lambda x: pack(x) if _is_saved_array(x) else x)
        if packed is not value:
            setattr(node, name, packed)
            has_packed = True
    if has_packed:
        node.__class__ = _packed_class(type(node))


def map_saved(value: Any, change: Callable[[Any], Any]) -> Any:
    """`change` of every array in `value`; `value` itself when nothing changed."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        changed = [map_saved(part, change) for part in value]
        return value if all([part is old for part, old in zip(changed, value)]) else type(value)(changed)
    return change(value)


def _is_saved_array(value: Any) -> bool:
    """An array, but not a number that stood beside the tensors (those are kept as constant 0-d arrays)."""
    if type(value) not in arrays.array_types:
        return False
    return bool(value.ndim) or type(value) is arrays.CudaArray or value.flags.writeable


_classes: dict[type[Node], type[Node]] = {}


def _packed_class(plain: type[Node]) -> type[Node]:
    packed = _classes.get(plain)
    if packed is not None:
        return packed

    def restored(rule: Any) -> Callable[..., Any]:
        def run(node: Any, g: Any) -> Any:
            kept = [(name, getattr(node, name)) for name in node.saved_names]
            try:
                for name, value in kept:
                    setattr(node, name, map_saved(value, _unpacked))
                return rule(node, g)
            finally:
                for name, value in kept:
                    setattr(node, name, value)

        return run

    packed = _classes[plain] = type(
        plain.__name__,
        (plain,),
        {"__slots__": (), "apply": restored(plain.apply), "apply_graph": restored(plain.apply_graph)},
    )
    return packed


def _unpacked(value: Any) -> Array | None:
    return value.array() if type(value) is Packed else value
