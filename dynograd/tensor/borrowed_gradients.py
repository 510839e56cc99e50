"""Tensors made of another one (packed elements of rows, entries of a sparse tensor): what their gradients are is asked of that one."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

from dynograd.interpreter.view_history import edge_of

__all__ = ["gradients_of"]


_SENTENCES = {
    "is_leaf": "Whether no op made it, or it needs no gradient.",
    "grad_fn": "The node of the op that made it; None of a leaf.",
}


_Kind = TypeVar("_Kind", bound=type)


def gradients_of(part: str) -> Callable[[_Kind], _Kind]:
    """Class decorator: whether such a tensor requires grad, and its place in the graph, are those of the tensor in its attribute `part`."""

    def decorate(kind: _Kind) -> _Kind:
        for name in ("_requires_grad", "requires_grad"):
            setattr(
                kind,
                name,
                property(
                    attrgetter(f"{part}.requires_grad"), _setter(part, name), doc="Whether ops on it are recorded."
                ),
            )
        for name in ("is_leaf", "grad_fn"):
            setattr(kind, name, property(attrgetter(f"{part}.{name}"), doc=_SENTENCES[name]))
        setattr(kind, "node", property(_node(part), _setter(part, "node")))  # noqa: B010
        return kind

    return decorate


def _setter(part: str, name: str) -> Callable[[Any, Any], None]:
    whole = attrgetter(part)
    return lambda self, value: setattr(whole(self), name, value)


def _node(part: str) -> Callable[[Any], Any]:
    whole = attrgetter(part)

    def node(self: Any) -> Any:
        """The node that made the part; of a leaf that requires grad, the leaf, which collects gradients."""
        return edge_of(whole(self))

    return node
