"""PyTorch's protocol `__torch_function__`: which types take functions over, and the asking of them, whatever the function.

Plain calls never ask. `public_forms`, `overriding` and `overrides` do, each where it meets such types.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable
from typing import Any

from dynograd.tensor.tensor import Tensor


class _State(threading.local):
    """What this thread has switched off, and the modes it is in, innermost last."""

    def __init__(self) -> None:
        self.off = 0  # types are not asked
        self.modes_off = 0
        self.modes: list[Any] = []


STATE = _State()
OVERRIDING: set[type] = set()
PLAIN_CLASSES: set[type] = {Tensor}  # they have the protocol for their subclasses
when_first: list[Callable[[], Any]] = []  # called when the first type is met: functions begin to look for them


def disabled_torch_function(func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
    """As `__torch_function__` of a subclass: its instances are plain tensors to every function, and so are the results."""
    return NotImplemented


def is_overriding(kind: type) -> bool:
    """Whether instances of `kind` take functions over."""
    if kind in OVERRIDING:
        return True
    handler = getattr(kind, "__torch_function__", None)
    if handler is None or handler is disabled_torch_function or kind in PLAIN_CLASSES:
        return False
    if of_the_library(kind.__module__):  # our own kinds of tensors have ways of their own
        return False
    OVERRIDING.add(kind)
    for begin in when_first:
        begin()
    when_first.clear()
    return True


def overriding_among(values: Iterable[Any]) -> list[Any]:
    """One instance of each type that takes over, in the order in which they are asked: a subclass before its bases."""
    result: list[Any] = []
    for value in values:
        for item in value if type(value) in (list, tuple) else (value,):
            kind = type(item)
            if is_overriding(kind) and all(type(other) is not kind for other in result):
                place = [number for number, other in enumerate(result) if issubclass(kind, type(other))]
                result.insert(place[0] if place else len(result), item)
    return result


def dispatch(func: Any, overriding: list[Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the innermost mode, or else the first of `overriding` that does not decline, makes of `func(*args, **kwargs)`.

    Raises:
        TypeError: all declined.
    """
    kinds = tuple([type(overriding) for overriding in overriding])
    asked: list[Any] = []
    if STATE.modes and not STATE.modes_off:
        before = STATE.modes
        mode, STATE.modes = before[-1], before[:-1]
        try:
            result = mode.__torch_function__(func, kinds, args, kwargs)
        finally:
            STATE.modes = before
        if result is not NotImplemented:
            return result
        asked.append(mode)
    if not STATE.off:
        for candidate in overriding:
            result = candidate.__torch_function__(func, kinds, args, kwargs)
            if result is not NotImplemented:
                return result
        asked += overriding
    listed = "\n".join([f"  - {_kind(overriding)} {type(overriding)}" for overriding in asked])
    raise TypeError(
        f"Multiple dispatch failed for '{name_of(func)}'; all __torch_function__ handlers returned NotImplemented:\n\n{listed}\n\n"
        f"Let one of them handle this function, or convert the arguments to one type."
    )


def _kind(value: Any) -> str:
    return "tensor subclass" if isinstance(value, Tensor) else "mode" if value in STATE.modes else "type"


def name_of(func: Any) -> Any:
    """`dynograd.add`, `dynograd.Tensor.add`, `dynograd.Tensor.shape.__get__`."""
    return known_names.get(func) or getattr(func, "__qualname__", repr(func))


known_names: dict[Any, str] = {}


class paused:
    """A context in which types (and with `modes`, modes too) are not asked, in this thread."""

    def __init__(self, modes: bool = False) -> None:
        self.modes = modes

    def __enter__(self) -> None:
        STATE.off += 1
        STATE.modes_off += self.modes

    def __exit__(self, *error: Any) -> None:
        STATE.off -= 1
        STATE.modes_off -= self.modes


class DisableTorchFunctionSubclass(paused):
    """A context in which subclasses and types like tensors are not asked; modes are.

    >>> class Named(dynograd.Tensor):
    ...     pass
    >>> with dynograd._C.DisableTorchFunctionSubclass():
    ...     type(Named([1.0]) + 1).__name__
    'Tensor'
    """

    def __init__(self) -> None:
        super().__init__()


class DisableTorchFunction(paused):
    """A context in which neither types nor modes are asked.

    >>> with dynograd._C.DisableTorchFunction():
    ...     x = tensor([1.0]) + 1
    """

    def __init__(self) -> None:
        super().__init__(modes=True)


def of_the_library(module: str) -> bool:
    """Whether a module of dynograd has that name; those that show classes for users to derive from do not count."""
    shows_users_classes = module.startswith(("dynograd.overrides", "dynograd.interpreter.overrid"))
    return module.startswith("dynograd.") and not shows_users_classes


ORDINARY: set[type] = {Tensor, bool, int, float, complex, str, list, tuple, type(None)}
"""Types that take no functions over, or that are asked elsewhere; others are asked for once."""


def answer_of_foreign(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What a type among the arguments that is no tensor makes of a call; NotImplemented where there is none that takes functions over."""
    for kind in {type(argument) for argument in (*args, *kwargs.values())} - ORDINARY:
        if not is_overriding(kind) or issubclass(kind, Tensor):
            ORDINARY.add(kind)
    asked = [] if STATE.off else overriding_among((*args, *kwargs.values()))
    if not asked:
        return NotImplemented
    if hasattr(function, "op"):  # called with all its arguments, defaults too
        signature = function.op.public_signature
        args, kwargs = as_given(signature, dict(signature.bind(*args, **kwargs).arguments))
    return dispatch(function, asked, args, kwargs)


def as_given(signature: inspect.Signature, arguments: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Arguments by name as a caller would give them: those without a default in order, of the others what is not the default."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if name not in arguments:
            continue
        value = arguments[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= value
        elif parameter.default is parameter.empty:
            args.append(value)
        elif value is not parameter.default:
            kwargs[name] = value
    return tuple(args), kwargs
