"""`torch.utils._pytree`: nested lists, tuples, named tuples and dicts as a list of leaves and a structure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

__all__ = [
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_unflatten",
]


class TreeSpec(NamedTuple):
    """What stands around the leaves: a type, its keys and the structures inside; a leaf has the type None."""

    type: Any
    context: Any
    children_specs: tuple[Any, ...]

    @property
    def num_leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.type is None else sum(child.num_leaves for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether this is a leaf itself."""
        return self.type is None


_LEAF = TreeSpec(None, None, ())
_registered: dict[type, tuple[Any, Any]] = {}


def register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, **options: Any) -> None:
    """Has objects of a class taken apart: `flatten_fn(object)` gives (children, context), `unflatten_fn(children, context)` the object.

    Args:
        options: names for serialization and tracing, accepted for PyTorch's sake.
    Raises:
        ValueError: the class is registered, or known.

    >>> from dynograd.utils._pytree import register_pytree_node, tree_map
    >>> class Pair:
    ...     def __init__(self, one, two):
    ...         self.one, self.two = one, two
    >>> register_pytree_node(Pair, lambda pair: ([pair.one, pair.two], None), lambda children, context: Pair(*children))
    >>> tree_map(lambda x: x + 1, Pair(1, 2)).two
    3
    """
    if cls in _registered or cls in (dict, OrderedDict, list, tuple):
        raise ValueError(f"register_pytree_node: {cls.__name__} is already registered as pytree node.")
    _registered[cls] = (flatten_fn, unflatten_fn)


def tree_flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the structure that puts them back.

    >>> from dynograd.utils._pytree import tree_flatten, tree_unflatten
    >>> leaves, spec = tree_flatten({"a": [1, 2], "b": (3,)})
    >>> leaves, tree_unflatten([x + 1 for x in leaves], spec)
    ([1, 2, 3], {'a': [2, 3], 'b': (4,)})
    """
    leaves: list[Any] = []
    return leaves, _take(tree, leaves, is_leaf)


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The structure with these leaves.

    Raises:
        ValueError: too many or too few leaves.
    """
    listed = list(leaves)
    if len(listed) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: expected {treespec.num_leaves} leaves, got {len(listed)}.")
    return _put(treespec, iter(listed))


def tree_leaves(tree: Any, is_leaf: Any = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_map(func: Any, tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """The structure with `func` of each leaf (and of the same leaves of `rests`)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], spec)


def tree_map_only(kind: Any, func: Any, tree: Any, is_leaf: Any = None) -> Any:
    """As `tree_map`, for the leaves of a type; the others stay."""
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree, is_leaf=is_leaf)


def tree_any(pred: Any, tree: Any, is_leaf: Any = None) -> bool:
    """Whether a leaf satisfies `pred`."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all(pred: Any, tree: Any, is_leaf: Any = None) -> bool:
    """Whether all leaves satisfy `pred`."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def _take(tree: Any, leaves: list[Any], is_leaf: Any) -> TreeSpec:
    kind = type(tree)
    if is_leaf is None or not is_leaf(tree):
        if kind in _registered:
            children, context = _registered[kind][0](tree)
            return TreeSpec(kind, context, tuple(_take(child, leaves, is_leaf) for child in children))
        if kind in (dict, OrderedDict):
            return TreeSpec(kind, list(tree), tuple(_take(child, leaves, is_leaf) for child in tree.values()))
        if kind in (list, tuple) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
            return TreeSpec(kind, None, tuple(_take(child, leaves, is_leaf) for child in tree))
    leaves.append(tree)
    return _LEAF


def _put(spec: TreeSpec, leaves: Any) -> Any:
    if spec.type is None:
        return next(leaves)
    parts = [_put(child, leaves) for child in spec.children_specs]
    if spec.type in _registered:
        return _registered[spec.type][1](parts, spec.context)
    if spec.context is not None:
        return spec.type(zip(spec.context, parts))
    return spec.type(*parts) if hasattr(spec.type, "_fields") else spec.type(parts)
