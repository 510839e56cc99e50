"""Functions that look for `__torch_function__` among their arguments: from the first type that has it on, or while a mode is on.

Both are readers (`ops/readers.py`). Until then plain calls cost what they cost.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from dynograd.interpreter.override_protocol import OVERRIDING, STATE, dispatch, overriding_among
from dynograd.ops.op import Op, registry
from dynograd.ops.readers import Entry, Reader, join
from dynograd.overrides.tables import SPACES, functions_of, methods, properties, public_function_of
from dynograd.tensor.methods import OPERATORS

__all__ = ["begin", "modes", "types_reader", "watch_types"]

_LISTS = (list, tuple)


class _Asking(Reader):
    """Asks the modes of the thread and the types among the arguments. `reported` has the functions, each with what handlers are told."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.reported: dict[Any, Any] = {}

    def report(self, functions: Iterable[tuple[Any, Any]]) -> None:
        """These functions are seen too."""
        for function, reported in functions:
            if isinstance(function, types.FunctionType) and function not in self.reported:
                self.reported[function] = reported
                self.see(join(function))

    def sees(self, entry: Entry) -> bool:
        return entry.function in self.reported

    def call(self, entry: Entry, below: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        state = STATE
        if state.modes and not state.modes_off:
            reported = self.reported[entry.function]
            return dispatch(reported, overriding_among((*args, *kwargs.values())), args, kwargs)
        if not state.off:
            for argument in (*args, *kwargs.values()) if kwargs else args:
                if type(argument) in OVERRIDING or type(argument) in _LISTS:
                    asked = overriding_among((*args, *kwargs.values()))
                    if asked:
                        return dispatch(self.reported[entry.function], asked, args, kwargs)
        return below(*args, **kwargs)


class _Modes(_Asking):
    """Sees every function, also methods and attributes of plain tensors, while a thread is in a mode."""

    def turn_on(self, holder: Any = None) -> None:
        if not self.times:
            self.report(_every_function())
        super().turn_on(holder)


modes = _Modes("modes")
types_reader = _Asking("overrides")


def begin() -> None:
    """The first type that takes functions over was met: public functions look for such types from now on."""
    watch_types()


def watch_types() -> None:
    """Has public functions look for types that take them over; `types_reader.turn_off` ends it."""
    types_reader.report(_public_functions())
    types_reader.turn_on()


def _public_functions() -> Iterable[tuple[Any, Any]]:
    """Functions that users call on tensors, and those of ops that layers call in their place; each with what handlers are told."""
    for space in SPACES:
        for function in functions_of(space, of_tensors=True).values():
            yield function, function
            entry = getattr(function, "op", None)
            if space == "nn.functional" and isinstance(entry, Op) and entry.function is not function:
                yield entry.function, function


def _every_function() -> Iterable[tuple[Any, Any]]:
    for space in SPACES:
        for function in functions_of(space).values():
            yield function, function
    for name, method in methods().items():
        yield method, methods().get(OPERATORS.get(name, name), method)
    for attribute in properties().values():
        yield attribute.fget, attribute.__get__
    for entry in list(registry.values()):
        yield entry.function, public_function_of(entry)
