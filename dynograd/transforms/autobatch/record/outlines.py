"""Arguments and results of cells: nested tuples, lists and dicts of tensors, apart from the tensors in them."""

from __future__ import annotations

from typing import Any

from dynograd.tensor.tensor import Tensor
from dynograd.transforms.autobatch.record.forms import frozen


class _Place:
    def __repr__(self) -> str:
        return "*"


PLACE = _Place()


def outline_of(tree: Any, leaves: list[Any]) -> Any:
    """`tree` with a mark in place of each tensor, as something that can be compared; the tensors go to `leaves`."""
    if isinstance(tree, Tensor):
        leaves.append(tree)
        return PLACE
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind, tuple([outline_of(element, leaves) for element in tree])
    if kind is dict:
        return kind, tuple([(key, outline_of(element, leaves)) for key, element in tree.items()])
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind, tuple([outline_of(element, leaves) for element in tree])
    return None, frozen(tree), _Held(tree)


class _Held:
    """A value beside what it is compared by."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: Any) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def filled(outline: Any, leaves: Any) -> Any:
    """The tree again, with the next of `leaves` at each mark."""
    if outline is PLACE:
        return next(leaves)
    kind = outline[0]
    if kind is None:
        return outline[2].value
    if kind is dict:
        return {key: filled(part, leaves) for key, part in outline[1]}
    parts = [filled(part, leaves) for part in outline[1]]
    return kind(*parts) if hasattr(kind, "_fields") else parts if kind is list else tuple(parts)


def count_others(outline: Any) -> int:
    if outline is PLACE:
        return 0
    if outline[0] is None:
        return int(outline[2].value is not None)
    return sum([count_others(part[1] if outline[0] is dict else part) for part in outline[1]])
