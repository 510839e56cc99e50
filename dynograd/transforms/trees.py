"""Nested tuples, lists and dicts of tensors: taken apart, and put together again in the same form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["flatten", "map_tree", "rebuild"]


def map_tree(change: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The same structure with `change(leaf, leaf of others...)` in place of each leaf; None is a leaf."""
    if isinstance(tree, dict):
        return type(tree)(
            (key, map_tree(change, value, *(tree[key] for tree in others))) for key, value in tree.items()
        )
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_tree(change, *parts) for parts in zip(tree, *others, strict=True)))
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_tree(change, *parts) for parts in zip(tree, *others, strict=True))
    return change(tree, *others)


def flatten(tree: Any) -> list[Any]:
    """All leaves, in order."""
    leaves: list[Any] = []
    map_tree(leaves.append, tree)
    return leaves


def rebuild(tree: Any, leaves: list[Any]) -> Any:
    """The structure of `tree` with other leaves."""
    remaining = iter(leaves)
    return map_tree(lambda _: next(remaining), tree)


def same_structure(first: Any, other: Any) -> bool:
    """Whether both are nested in the same way, leaves aside."""
    if isinstance(first, dict) or isinstance(other, dict):
        return (
            isinstance(first, dict)
            and isinstance(other, dict)
            and list(first) == list(other)
            and all(same_structure(first[key], other[key]) for key in first)
        )
    if isinstance(first, (tuple, list)) or isinstance(other, (tuple, list)):
        return type(first) is type(other) and len(first) == len(other) and all(map(same_structure, first, other))
    return True
