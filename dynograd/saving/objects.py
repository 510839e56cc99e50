"""Objects in checkpoints: written as the name of their class and their parts, and made again only of classes that the program trusts.

A file names classes, it has no code. `load` looks a name up among those that `add_safe_globals` was given, dynograd's own layers and ops, and
a few of Python's (such as `datetime.date`, whose arguments it checks), and nowhere else: no file can import anything, or call what its reader
has not named.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple

from dynograd.tensor.methods import public_functions

__all__ = ["Parts", "global_name", "new", "own_function", "own_layer", "parts_of", "set_state", "trusted_names"]


class Parts(NamedTuple):
    """What an object is made of, as `copy` and `pickle` ask for it."""

    maker: Any
    """A class or function, called with `arguments`; with `is_new`, a class whose `__new__` is."""
    is_new: bool
    arguments: tuple
    keywords: dict[str, Any]
    state: Any
    items: list[Any]
    pairs: list[tuple[Any, Any]]


def global_name(value: Any) -> str | None:
    """The name under which a class or function can be imported ("collections.deque"); None for anything else."""
    if not isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    place: Any = sys.modules.get(module or "builtins")
    for part in name.split("."):
        place = getattr(place, part, None)
    return f"{module or 'builtins'}.{name}" if place is value else None


def parts_of(value: Any) -> Parts:
    """What an object is made of.

    Raises:
        TypeError: it cannot be copied (an open file, a lock).
    """
    reduced = value.__reduce_ex__(2)
    if isinstance(reduced, str):
        raise TypeError(f"it stands for a name ({reduced})")
    maker, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    keywords: dict[str, Any] = {}
    is_new = maker is copyreg.__newobj__ or maker is copyreg.__newobj_ex__
    if maker is copyreg.__newobj_ex__:
        maker, arguments, keywords = arguments
    elif is_new:
        maker, *arguments = arguments
    return Parts(maker, is_new, tuple(arguments), keywords, state, list(items or ()), list(pairs or ()))


def new(maker: Any, arguments: Iterable[Any], keywords: Mapping[str, Any], is_new: bool) -> Any:
    """The object, without its state."""
    return maker.__new__(maker, *arguments, **keywords) if is_new else maker(*arguments, **keywords)


def set_state(value: Any, state: Any) -> None:
    """Gives an object its state: by its `__setstate__`, or attribute by attribute."""
    own = getattr(value, "__setstate__", None)
    if own is not None:
        own(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        value.__dict__.update(attributes)
    for name, entry in (slots or {}).items():
        setattr(value, name, entry)


def own_layer(name: str) -> Any:
    """The class of that name below `dynograd.nn` (a layer, or a part of one), or None."""
    module, _, attribute = name.rpartition(".")
    layer = getattr(sys.modules.get(module), attribute, None) if module.startswith("dynograd.nn") else None
    return layer if isinstance(layer, type) and layer.__module__.startswith("dynograd.nn") else None


def own_function(name: str) -> Any:
    """The function of that name among dynograd's ops and those of `dynograd.nn.functional` (`activation` of a layer), or None."""
    functional, attribute = sys.modules.get("dynograd.nn.functional"), name.rpartition(".")[2]
    for function in (getattr(functional, attribute, None), public_functions().get(attribute)):
        if callable(function) and global_name(function) == name:
            return function
    return None


def trusted_names(trusted: Iterable[Any]) -> dict[str, Any]:
    """By "module.name", what a file may name; a pair says the name that stands in files."""
    result = {}
    for entry in trusted:
        if isinstance(entry, tuple):
            result[entry[1]] = entry[0]
        else:
            result[f"{entry.__module__}.{entry.__qualname__}"] = entry
    return result
