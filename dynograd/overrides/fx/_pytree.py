"""`torch.fx._pytree`: structures that are flattened after a known form."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from dynograd.utils import _pytree

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

_flatteners: dict[Any, Callable[[Any, Any], list]] = {
    dict: lambda value, spec: [value[key] for key in spec.context],
    list: lambda value, spec: [value[place] for place in range(spec.num_children)],
    tuple: lambda value, spec: [value[place] for place in range(spec.num_children)],
    namedtuple: lambda value, spec: [
        value[place] for place in range(spec.num_children)
    ],  # the type of forms of all of them
}


def register_pytree_flatten_spec(cls: type, flatten_fn_spec: Callable, flatten_fn_exact_match_spec: Any = None) -> None:
    """Says how a type is flattened after a form: a function of (value, form) that gives the values below."""
    _flatteners[cls] = flatten_fn_spec


def tree_flatten_spec(pytree: Any, spec: _pytree.TreeSpec) -> list:
    """The leaves of a structure of this form.

    >>> from dynograd.fx._pytree import tree_flatten_spec
    >>> from dynograd.utils._pytree import tree_structure
    >>> tree_flatten_spec({"b": 1, "a": (2, 3)}, tree_structure({"a": (0, 0), "b": 0}))
    [2, 3, 1]
    """
    if spec.is_leaf():
        return [pytree]
    if spec.type not in _flatteners:
        raise RuntimeError(
            f"{type(pytree)} does not have a flatten_fn_spec associated with it. Please register one with "
            f"torch.fx._pytree.register_pytree_flatten_spec."
        )
    values = _flatteners[spec.type](pytree, spec)
    return [
        leaf
        for value, below in zip(values, spec.children_specs, strict=True)
        for leaf in tree_flatten_spec(value, below)
    ]
