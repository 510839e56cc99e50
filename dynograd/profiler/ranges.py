"""Who is told when an op, a node of the backward pass or a user's range begins and ends.

While someone listens, each op's function has other code, which tells the listeners and calls the function's own; with nobody
listening the functions are exactly what they were, so a profiler that is off costs nothing.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable
from typing import Any, Protocol

from dynograd.amp.autocasting import code_changed
from dynograd.autograd import engine
from dynograd.base.generated_sources import run_source
from dynograd.interpreter.recorded_methods import note_change
from dynograd.ops.op import Op, code_below, registry, set_shortcuts_aside, when_written
from dynograd.ragged.tensor import load_rules

__all__ = ["Listener", "listen", "record_function", "stop_listening"]


class Listener(Protocol):
    """Hears of ranges: what `begin` returns is given to `end`."""

    def begin(self, kind: str, name: str, args: tuple) -> Any:
        """A range begins: `kind` is "op", "backward", "user" or "module"."""

    def end(self, mark: Any, result: Any) -> None:
        """It ends; `result` is what the op returned."""


_listeners: list[Any] = []
_lock = threading.Lock()
_exchanged: list[tuple[Any, Any, Any]] = []  # functions that tell now, their own code, the code that tells
_telling: dict[Any, Any] = {}  # own code -> the code that tells
_own: dict[Any, Any] = {}  # the other way


def listen(listener: Listener) -> None:
    """From now on `listener` hears of everything, on every thread."""
    with _lock:
        _listeners.append(listener)
        if len(_listeners) > 1:
            return
        load_rules()
        for key, op in registry.items():
            if op.kind == "composed" or op.written is None:
                _exchange(key, op)
        note_change()
        set_shortcuts_aside(+1)
        when_written.append(_written)
        code_changed.append(_over_other_code)
        engine.observers.append(_observe)


def stop_listening(listener: Listener) -> None:
    """`listener` hears no more."""
    with _lock:
        _listeners.remove(listener)
        if _listeners:
            return
        when_written.remove(_written)
        set_shortcuts_aside(-1)
        code_changed.remove(_over_other_code)
        engine.observers.remove(_observe)
        for function, own, telling in _exchanged:
            if function.__code__ is telling:  # else autocast has put its own code over it since
                function.__code__ = own
        _exchanged.clear()
        note_change()


def _written(op: Op) -> None:
    _exchange(op.name, op)


def _over_other_code(names: list[str]) -> None:
    """Autocast has put its code over these ops, or taken it away: they tell again, over what there is now."""
    for key in names:
        _exchange(key, registry[key])


def _exchange(key: str, op: Op) -> None:
    if key.endswith(".public"):
        return  # the op below has the same name
    function = inspect.unwrap(op.function)
    if not isinstance(function, types.FunctionType) or function.__closure__:
        return
    found = function.__code__
    own = _own.get(found, found)  # autocast may have put back the code that tells
    telling = _telling.get(own)
    if telling is None:
        plain = types.FunctionType(own, function.__globals__, function.__name__, function.__defaults__)
        plain.__kwdefaults__ = function.__kwdefaults__
        entry = f"__told_{len(_telling)}"
        text = f"def {function.__name__}(*args, **kwargs):\n    return {entry}(args, kwargs)\n"
        made = run_source(text, f"told op {op.name}", {})
        function.__globals__[entry] = functools.partial(_tell, op.name, plain)
        telling = made[function.__name__].__code__
        _telling[own], _own[telling] = telling, own
        code_below[telling] = own
    _exchanged.append((function, own, telling))
    function.__code__ = telling


def _tell(name: str, plain: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    listeners = _listeners
    if not listeners:
        return plain(*args, **kwargs)
    named = [value for value in kwargs.values() if hasattr(value, "shape") or isinstance(value, (list, tuple))]
    given = (*args, *named)
    marks = [(one, one.begin("op", name, given)) for one in listeners]
    result = None
    try:
        result = plain(*args, **kwargs)
        return result
    finally:
        for one, mark in reversed(marks):
            one.end(mark, result)


def _observe(node: Any, run: Callable[[], Any]) -> Any:
    marks = [(one, one.begin("backward", node.name(), ())) for one in _listeners]
    try:
        return run()
    finally:
        for one, mark in reversed(marks):
            one.end(mark, None)


class record_function:
    """A named range in the profiles that are being taken: a context manager and a decorator.

    >>> with dynograd.profiler.profile() as taken:
    ...     with dynograd.profiler.record_function("forward"):
    ...         _ = dynograd.ones(3).sum()
    >>> [one.key for one in taken.key_averages() if one.key == "forward"]
    ['forward']
    """

    kind = "user"

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self.marks: list[Any] = []

    def __enter__(self) -> record_function:
        self.marks.append([(one, one.begin(self.kind, self.name, ())) for one in _listeners])
        return self

    def __exit__(self, *error: Any) -> None:
        for one, mark in reversed(self.marks.pop()):
            one.end(mark, None)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def ranged(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name, self.args):
                return function(*args, **kwargs)

        return ranged
