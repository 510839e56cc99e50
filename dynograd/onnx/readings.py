"""Where a program reads values of tensors while it is recorded: what follows from them would be no part of the record."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.nodes import user_line
from dynograd.onnx.noting import notes_of_thread, recording_of_thread
from dynograd.ops.readers import Entry, Reader, join
from dynograd.tensor.tensor import Tensor

__all__ = ["READINGS"]

_READING = ("item", "tolist", "numpy", "__bool__", "__index__", "__dlpack__")


class _Readings(Reader):
    """Sees the methods that read values of a tensor; on threads that note nothing they are what they are otherwise."""

    name = "plan"
    changes_calls = False

    def __init__(self) -> None:
        super().__init__()
        self.methods = {Tensor.__dict__[name]: name for name in _READING}

    def turn_on(self, holder: Any = None) -> None:
        for method in self.methods:
            join(method)
        super().turn_on(holder)

    def sees(self, entry: Entry) -> bool:
        return entry.function in self.methods

    def call(self, entry: Entry, below: Any, args: tuple, kwargs: dict[str, Any]) -> object:
        notes, plan, tensor = notes_of_thread(), recording_of_thread(), args[0]
        if notes is not None and plan is not None and notes.is_known(plan, tensor):
            notes.readings.append((self.methods[entry.function], user_line(), plan.numbers.get(id(tensor))))
        return below(*args, **kwargs)


READINGS = _Readings()
