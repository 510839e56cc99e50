"""What a program calls its tensors: as arguments of a compiled function, as parameters and buffers of modules that it reaches."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

from dynograd.nn.module import Module
from dynograd.tensor.tensor import Tensor

__all__ = ["is_filled", "names_of_arguments", "names_within"]

_DEEPEST = 4  # lists of lists, functions that call functions


def names_of_arguments(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> dict[int, str]:
    """Names of the tensors that a function is called with, by id: "x", "batch[0]", "batch['lengths']"."""
    if isinstance(module := getattr(function, "__self__", None), Module):
        function = module.forward
    try:
        arguments = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # the call itself says what is wrong
        arguments = {**{f"args[{place}]": value for place, value in enumerate(args)}, **kwargs}
    names: dict[int, str] = {}
    for name, value in arguments.items():
        for path, tensor in _tensors_in(value, name):
            names.setdefault(id(tensor), path)
    return names


def _tensors_in(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, element in value.items():
            yield from _tensors_in(element, f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple, set)):
        fields = getattr(value, "_fields", None)
        for place, element in enumerate(value):
            yield from _tensors_in(element, f"{path}.{fields[place]}" if fields else f"{path}[{place}]")


def names_within(function: Callable[..., Any]) -> dict[int, str]:
    """Names of the parameters, buffers and other tensors that a function reaches, by id.

    Those of a module have its own names ("0.weight"); of a function those of the names that it reads outside itself ("model.0.weight"), also in
    functions that it calls, and in the object whose method it is.
    """
    names: dict[int, str] = {}
    if isinstance(module := getattr(function, "__self__", None), Module):
        _note(module, "", names, 0)
    for path, value in _reached_by(function, set()):
        _note(value, path, names, 0)
    return names


def _note(value: Any, path: str, names: dict[int, str], depth: int) -> None:
    if isinstance(value, Tensor):
        names.setdefault(id(value), path)
    elif isinstance(value, Module):
        for name, tensor in (*value.named_parameters(), *value.named_buffers()):
            names.setdefault(id(tensor), f"{path}.{name}" if path else name)
    elif depth < _DEEPEST and isinstance(value, (list, tuple, dict)):
        for key, element in value.items() if isinstance(value, dict) else enumerate(value):
            _note(element, f"{path}[{key!r}]", names, depth + 1)


def _reached_by(function: Any, seen: set[int], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """What a function reads outside itself, by name."""
    if id(function) in seen or depth > _DEEPEST:
        return
    seen.add(id(function))
    if isinstance(function, functools.partial):
        for place, value in (*enumerate(function.args), *function.keywords.items()):
            yield str(place), value
        yield from _reached_by(function.func, seen, depth)
        return
    function = inspect.unwrap(function)
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, (Module, types.ModuleType)):
        yield from getattr(owner, "__dict__", {}).items()
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or (function.__module__ or "").startswith("dynograd."):
        return
    values = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    reached = {name: cell.cell_contents for name, cell in values.items() if is_filled(cell)}
    for name in _names_in(function.__code__):
        if name in function.__globals__:
            reached.setdefault(name, function.__globals__[name])
    yield from reached.items()
    for value in reached.values():
        if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            yield from _reached_by(value, seen, depth + 1)


def is_filled(cell: types.CellType) -> bool:
    """Whether a closure has put something into it by now."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # empty
        return False
    return True


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)
