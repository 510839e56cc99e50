"""Where a program reads values of tensors while it is recorded: what follows from them would be no part of the record."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import user_line
from dynograd.ops.readers import Entry, Reader, join
from dynograd.plans.recording import Recording
from dynograd.tensor.tensor import Tensor

__all__ = ["noted_readings"]

_READING = ("item", "tolist", "numpy", "__bool__", "__index__", "__dlpack__")


class _OfThread(threading.local):
    readings: list[tuple[str, str]] | None = None


_of_thread = _OfThread()


class _Readings(Reader):
    """Sees the methods that read values of a tensor; on threads that note nothing they are what they are otherwise."""

    name = "plan"
    changes_calls = False

    def __init__(self) -> None:
        super().__init__()
        self.methods = {Tensor.__dict__[name]: name for name in _READING}

    def sees(self, entry: Entry) -> bool:
        return entry.function in self.methods

    def call(self, entry: Entry, below: Any, args: tuple, kwargs: dict[str, Any]) -> object:
        readings, plan, tensor = _of_thread.readings, MODES.plan, args[0]
        if readings is not None and type(plan) is Recording and not plan.inside:
            if id(tensor) in plan.numbers or id(tensor) in plan.arguments:
                readings.append((self.methods[entry.function], user_line()))
        return below(*args, **kwargs)


_READER = _Readings()


@contextmanager
def noted_readings() -> Iterator[list[tuple[str, str]]]:
    """Notes where this thread reads values that a record has made or was called with: (method, line) of each."""
    for method in _READER.methods:
        join(method)
    readings: list[tuple[str, str]] = []
    before, _of_thread.readings = _of_thread.readings, readings
    _READER.turn_on()
    try:
        yield readings
    finally:
        _READER.turn_off()
        _of_thread.readings = before
