"""Functions that look for `__torch_function__` among their arguments: from the first type that has it on, or while a mode is on.

A function keeps its identity, since programs use functions as keys and import them by name: its code is exchanged for code that looks first.
Until then nothing is exchanged, and plain calls cost what they cost.
"""

from __future__ import annotations

import inspect
import threading
import types
from collections.abc import Iterator
from typing import Any

from dynograd.amp import autocasting
from dynograd.base.generated_sources import is_unwritten, run_source
from dynograd.interpreter.overriding import OVERRIDING, STATE, dispatch, overriding_among
from dynograd.interpreter.recorded_methods import note_change
from dynograd.ops.op import Op, code_below, registry
from dynograd.overrides.tables import SPACES, functions_of, methods, properties, public_function_of
from dynograd.tensor.methods import OPERATORS

__all__ = ["begin", "guard_everything", "unguard"]

_LISTS = (list, tuple)
_lock = threading.Lock()
_guards: dict[Any, Guard] = {}
_inside = [0]  # how many threads are in a mode


class Guard:
    """The code put over one function, and what it was before."""

    def __init__(self, function: types.FunctionType, reported: Any) -> None:
        self.function, self.reported = function, reported
        self.lasting = self.signed = False
        entry = f"_guard_{len(_guards)}"
        free = ", ".join(function.__code__.co_freevars)
        lines = [f"def make({free}):", f"    def {_title(function)}(*args, **kwargs):"]
        lines += [f"        if 0: {free}"] if free else []  # the same closure, or the code would not fit
        lines += [f"        return {entry}(args, kwargs)", f"    return {_title(function)}"]
        made = run_source("\n".join(lines) + "\n", f"override of {function.__name__}", {})
        self.code = made["make"](*[None] * len(function.__code__.co_freevars)).__code__
        function.__globals__[entry] = self.run
        self.plain = function

    def install(self) -> None:
        function = self.function
        below: Any = function.__code__
        while below is not None:
            if below is self.code:  # other code may have been put over it
                return
            below = code_below.get(below)
        self.plain = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.plain.__kwdefaults__, self.plain.__annotations__ = function.__kwdefaults__, function.__annotations__
        if not hasattr(function, "__signature__") and not hasattr(function, "__wrapped__"):
            function.__signature__ = inspect.signature(self.plain)  # type: ignore[attr-defined]
            self.signed = True
        code_below[self.code] = function.__code__
        function.__code__ = self.code
        note_change()

    def remove(self) -> None:
        """Takes the code off; where other code has been put over it, it stays, and passes calls on."""
        if self.function.__code__ is self.code:
            self.function.__code__ = self.plain.__code__
            note_change()
            if self.signed:
                self.signed = False
                del self.function.__dict__["__signature__"]

    def run(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        state = STATE
        if state.modes and not state.modes_off:
            return dispatch(self.reported, overriding_among((*args, *kwargs.values())), args, kwargs)
        if not state.off:
            for one in (*args, *kwargs.values()) if kwargs else args:
                if type(one) in OVERRIDING or type(one) in _LISTS:
                    found = overriding_among((*args, *kwargs.values()))
                    if found:
                        return dispatch(self.reported, found, args, kwargs)
        if not is_unwritten(self.plain.__code__):
            return self.plain(*args, **kwargs)
        beneath = self.function.__code__ is not self.code
        self.remove()
        try:
            return (self.plain if beneath else self.function)(*args, **kwargs)
        finally:
            if self.installed():
                self.install()

    def installed(self) -> bool:
        return self.lasting or bool(_inside[0])


def _title(function: Any) -> str:
    return function.__name__ if function.__name__.isidentifier() else "function"


def begin() -> None:
    """The first type that takes functions over was met: public functions look for such types from now on."""
    with _lock:
        for function, reported in _public_functions():
            guard = _guard(function, reported)
            guard.lasting = True
            guard.install()


def guard_everything() -> None:
    """A mode begins: functions, methods and attributes of plain tensors look for it too."""
    with _lock:
        _inside[0] += 1
        if _inside[0] == 1:
            for function, reported in _every_function():
                _guard(function, reported).install()


def unguard() -> None:
    """A mode ends; after the last one functions are as they were."""
    with _lock:
        _inside[0] -= 1
        if not _inside[0]:
            for guard in _guards.values():
                if not guard.lasting:
                    guard.remove()


def _guard(function: Any, reported: Any) -> Guard:
    found = _guards.get(function)
    if found is None:
        found = _guards[function] = Guard(function, reported)
    return found


def _public_functions() -> Iterator[tuple[Any, Any]]:
    """Functions that users call on tensors, and those of ops that layers call in their place; each with what handlers are told."""
    for space in SPACES:
        for function in functions_of(space, of_tensors=True).values():
            yield from _with_code(function, function)
            entry = getattr(function, "op", None)
            if space == "nn.functional" and isinstance(entry, Op) and entry.function is not function:
                yield from _with_code(entry.function, function)


def _every_function() -> Iterator[tuple[Any, Any]]:
    for space in SPACES:
        for function in functions_of(space).values():
            yield from _with_code(function, function)
    for name, method in methods().items():
        yield from _with_code(method, methods().get(OPERATORS.get(name, name), method))
    for found in properties().values():
        yield from _with_code(found.fget, found.__get__)
    for entry in list(registry.values()):
        yield from _with_code(entry.function, public_function_of(entry))


def _with_code(function: Any, reported: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(function, types.FunctionType):
        yield function, reported


def _renew(names: list[str]) -> None:
    with _lock:
        for guard in _guards.values():
            if guard.installed():
                guard.install()


def _below(function: Any, code: types.CodeType) -> types.CodeType:
    guard = _guards.get(function)
    return guard.plain.__code__ if guard is not None and code is guard.code else code


# Autocast exchanges codes too: it learns the code that lies below ours, and ours is put over each code that it sets.
autocasting.code_beneath.append(_below)
autocasting.code_changed.append(_renew)
