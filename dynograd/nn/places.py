"""Where in a model an error arose: a note on the exception that names the module's path and its parameters.

Each module on the way out puts its own name before the path, so the note grows from `Linear` to `Model.encoder.layers.3.linear1`.
Type and message of the exception stay as they are. Its traceback shows every `forward` and what raised the error; what only hands calls on
(the call of a module, the written function of an op) is left out, unless `DYNOGRAD_FULL_TRACEBACKS=1` is set.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

from dynograd.base.generated_sources import is_generated
from dynograd.errors import HANDING_ON

__all__ = ["note_place"]

_SHOWN = 6
_full_tracebacks = os.environ.get("DYNOGRAD_FULL_TRACEBACKS", "0") not in ("", "0")


class _Place(str):
    """The text of the note; what the next module on the way out needs to lengthen it."""

    outermost: Any
    path: str
    rest: str

    def __reduce__(self) -> tuple:
        return str, (str(self),)


def note_place(error: BaseException, module: Any) -> None:
    """Notes on `error` that it passed through a call of `module`; again for each module around it."""
    if not _full_tracebacks:
        _shorten(error)
    notes: list[str] = getattr(error, "__notes__", [])
    for position, note in enumerate(notes):
        if type(note) is _Place:
            notes[position] = _around(note, module)
            return
    error.add_note(_written(module, "", _described(module)))


def _shorten(error: BaseException) -> None:
    """Leaves out what only hands calls on, but for the frame that has caught the error and the one that raised it."""
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        following = entry.tb_next
        code = following.tb_frame.f_code
        if following.tb_next is not None and (code in HANDING_ON or is_generated(code)):
            entry.tb_next = following.tb_next
        else:
            entry = following


def _written(outermost: Any, path: str, rest: str) -> _Place:
    place = _Place(f"in module {type(outermost).__name__}{path}{rest}")
    place.outermost, place.path, place.rest = weakref.ref(outermost), path, rest
    return place


def _around(note: _Place, module: Any) -> _Place:
    inner = note.outermost()
    if inner is module:
        return note
    for name, submodule in module.named_modules():
        if submodule is inner:
            return _written(module, f".{name}{note.path}", note.rest)
    return _written(module, f" -> {type(inner).__name__}{note.path}", note.rest)


def _described(module: Any) -> str:
    """Its class is the end of the path already where it is called alone; options and parameters help most."""
    try:
        options = module.extra_repr()
        tensors = [
            f"{name} {_shape(tensor)}"
            for name, tensor in module.__dict__.get("_parameters", {}).items()
            if tensor is not None
        ]
    except Exception:  # a module that is not ready to be described must not hide the error
        return ""
    shown = ", ".join(tensors[:_SHOWN]) + (f" and {len(tensors) - _SHOWN} more" if len(tensors) > _SHOWN else "")
    return f": {type(module).__name__}({options}){' with ' + shown if tensors else ''}"


def _shape(parameter: Any) -> str:
    try:
        return str(tuple(parameter.shape))
    except Exception:  # a lazy parameter has none yet
        return "(no shape yet)"
