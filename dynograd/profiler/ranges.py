"""Who is told when an op, a node of the backward pass or a user's range begins and ends.

Who listens to ops is a reader (`ops/readers.py`): with nobody listening the functions are exactly what they are, so a profiler that is off
costs nothing.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol

from dynograd.autograd import engine
from dynograd.ops.readers import Entry, Reader, join
from dynograd.tensor.tensor import Tensor

__all__ = ["Listener", "listen", "record_function", "stop_listening"]


class Listener(Protocol):
    """Hears of ranges: what `begin` returns is given to `end`."""

    def begin(self, kind: str, name: str, args: tuple) -> Any:
        """A range begins: `kind` is "op" (with its arguments), "backward" (with its node and the gradient that comes), "user" or "module"."""

    def end(self, mark: Any, result: Any) -> None:
        """It ends; `result` is what the op returned, or the gradients that the node gave; None after an error."""


_listeners: list[Any] = []
_lock = threading.Lock()


class _Telling(Reader):
    """Tells the listeners of each op."""

    name = "profiler"
    sets_aside = ("",)

    def sees(self, entry: Entry) -> bool:
        if entry.op is None:
            return entry.function in _CUTS
        return not entry.key.endswith(".public")  # the op below has the same name

    def call(self, entry: Entry, below: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        listeners = _listeners
        if not listeners:
            return below(*args, **kwargs)
        named = [value for value in kwargs.values() if hasattr(value, "shape") or isinstance(value, (list, tuple))]
        operands = (*args, *named)
        name = entry.key if entry.op is None else entry.op.name
        marks = [(listener, listener.begin("op", name, operands)) for listener in listeners]
        result = None
        try:
            result = below(*args, **kwargs)
            return result
        finally:
            for listener, mark in reversed(marks):
                listener.end(mark, result)


_telling = _Telling()
_CUTS = {Tensor.detach: "detach", Tensor.data.fget: "data"}  # no ops, but what a history ends at
for _function, _name in _CUTS.items():
    join(_function, _name)


def listen(listener: Listener) -> None:
    """From now on `listener` hears of everything, on every thread."""
    with _lock:
        _listeners.append(listener)
        if len(_listeners) > 1:
            return
        _telling.turn_on()
        engine.observers.append(_observe)


def stop_listening(listener: Listener) -> None:
    """`listener` hears no more."""
    with _lock:
        _listeners.remove(listener)
        if _listeners:
            return
        _telling.turn_off()
        engine.observers.remove(_observe)


def _observe(node: Any, g: Any, rule: Callable[[Any], tuple]) -> tuple:
    marks = [(listener, listener.begin("backward", node.name(), (node, g))) for listener in _listeners]
    result = None
    try:
        result = rule(g)
        return result
    finally:
        for listener, mark in reversed(marks):
            listener.end(mark, result)


class record_function:
    """A named range in the profiles that are being taken: a context manager and a decorator.

    Args:
        name: what the range is called.
        args: kept for compatibility.

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
        self.marks.append([(listener, listener.begin(self.kind, self.name, ())) for listener in _listeners])
        return self

    def __exit__(self, *error: Any) -> None:
        for listener, mark in reversed(self.marks.pop()):
            listener.end(mark, None)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def ranged(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name, self.args):
                return function(*args, **kwargs)

        return ranged
