"""Whether the values of a tensor can be looked at. Composed ops ask, where what they do depends on values (a check, a length).

A tensor may stand for several (an example of vmap), for rows of different lengths, or for what is still to come; its type then says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = [
    "TENSORS",
    "differs_by_example",
    "exporters",
    "has_fixed_number",
    "has_own_values",
    "has_values",
    "read_values",
    "recorders",
]

TENSORS: set[type] = set()
"""Types of tensors that are what they show: an array, and its history. `Tensor`, and subclasses of it that take no ops over."""


def has_values(tensor: Any) -> bool:
    """Whether it is a tensor, array or number whose values are there, and not of a type that takes ops over."""
    return not hasattr(type(tensor), "__dynograd_op__")


recorders: list[Callable[[Any], bool]] = []
"""Say of a value whether it is a tensor, which may have other values when the step that is being noted comes again."""


def has_own_values(tensor: Any) -> bool:
    """`has_values`, and `compile` notes no step: what is computed of the array of a tensor beside ops would be no part of the record."""
    return has_values(tensor) and not any([may_change(tensor) for may_change in recorders])


exporters: list[Callable[[Any], bool]] = []
"""Say of a tensor whether it is a value of a program that is being exported, which has other numbers in other calls."""


def has_fixed_number(tensor: Any) -> bool:
    """Whether a tensor that is an index stands for its number, by which it gives a view: its values are there or a compiled step reads them, and no
    program that is exported has other ones there.
    """
    is_known = has_values(tensor) or hasattr(type(tensor), "__dynograd_number__")
    return is_known and not any([is_exported(tensor) for is_exported in exporters])


def differs_by_example(tensor: Any) -> bool:
    """Whether it stands for another tensor in each example of a running vmap."""
    return hasattr(type(tensor), "__dynograd_in_turn__")


def read_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a composed op that reads values of its arguments: with one that differs by example it may run once for each."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for argument in (*args, *kwargs.values()):
            handler = getattr(type(argument), "__dynograd_in_turn__", None)
            if handler is not None:
                return handler(function, args, kwargs)
        return function(*args, **kwargs)

    return called
