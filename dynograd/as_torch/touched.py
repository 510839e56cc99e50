"""What a program asked of `torch`: the names that it used, and those that it asked for in vain, with who asked first.

A name that is missing is explained when it is asked for: refused, and why; or absent although PyTorch has it; or in neither.
"""

from __future__ import annotations

import contextlib
import dis
import importlib
import os
import sys
from types import FrameType, ModuleType
from typing import Any, NamedTuple, NoReturn

from dynograd.compat.verdicts import why_missing
from dynograd.tensor.tensor import Tensor

__all__ = ["Lacking", "Report", "lacking", "no_module", "report", "used", "watch", "watch_tensors"]

_IMPORT_FROM = dis.opmap["IMPORT_FROM"]
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_used: dict[str, None] = {}
_lacking: dict[str, Lacking] = {}
_looking: set[tuple[str, str]] = set()


class Lacking(NamedTuple):
    """A name that was asked for in vain."""

    name: str
    why: str
    asked_by: str
    """The file and line that asked first."""


class Report(NamedTuple):
    """What a program asked of torch; `str(report)` is a text for people.

    Args:
        used: names that it got.
        lacking: those that it asked for in vain: `name`, `why`, and `asked_by`, the file and line that asked first.

    >>> import torch
    >>> _ = torch.zeros(1)
    >>> isinstance(str(dynograd.as_torch.report()), str)
    True
    """

    used: tuple[str, ...]
    lacking: tuple[Lacking, ...]

    def __str__(self) -> str:
        lines = [
            f"{len(self.used)} names of torch's top level and modules were used, {len(self.lacking)} were asked for in vain."
        ]
        lines += [f"  {row.name}  asked by {row.asked_by}\n    {row.why}" for row in self.lacking]
        return "\n".join(lines)


def report() -> Report:
    """What the program asked of torch until now.

    Names asked for in vain are not always needed: packages ask `hasattr(torch, name)`, or try and do without.

    Returns:
        A `Report`.

    >>> import torch
    >>> hasattr(torch, "no_such_name")
    False
    >>> [row.name for row in dynograd.as_torch.report().lacking if row.name == "torch.no_such_name"]
    ['torch.no_such_name']
    """
    return Report(tuple(_used), tuple(_lacking.values()))


def used(name: str) -> None:
    """Takes down a name that a program got."""
    _used[name] = None


def watch(module: ModuleType, name: str) -> None:
    """Explains, from now on, the names that a module of dynograd has not."""
    before = module.__dict__.get("__getattr__")
    if getattr(before, "explains", False):
        return

    absent: set[str] = set()  # modules that were looked for in vain: packages ask for some names at every step

    def attribute(asked: str) -> Any:
        error: AttributeError | None = None
        if before is not None:
            try:
                return before(asked)
            except AttributeError as own:
                error = own
        if not asked.startswith("__") and asked not in absent and (name, asked) not in _looking:
            _looking.add((name, asked))  # the import asks this module for the name, too
            with (
                contextlib.ExitStack() as stack,
                contextlib.suppress(ModuleNotFoundError),
            ):  # PyTorch has imported more of its modules by now
                stack.callback(_looking.discard, (name, asked))
                return importlib.import_module(f"{name}.{asked}")
            absent.add(asked)
        return lacking(name, asked, error)

    attribute.explains = True  # type: ignore[attr-defined]
    module.__dict__["__getattr__"] = attribute


def lacking(module: str, name: str, error: AttributeError | None = None) -> NoReturn:
    """Raises the error for a name that is missing; for a `from ... import`, whose own error would say nothing, an ImportError.

    Raises:
        AttributeError, ImportError: always.
    """
    if name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    fullname = f"{module}.{name}"
    why = why_missing(fullname)
    frame = _asking()
    _lacking.setdefault(fullname, Lacking(fullname, why, _place(frame)))
    text = f"{fullname}: {why}"
    if frame is not None and frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM and fullname not in sys.modules:
        raise ImportError(f"cannot import name {name!r} from {module!r}: {why}", name=module) from None
    raise AttributeError(text, name=name) from None


def watch_tensors() -> None:
    """Explains, from now on, the attributes that tensors have not."""

    def attribute(self: Tensor, asked: str) -> Any:
        kind = type(self)
        if hasattr(kind, asked):
            return object.__getattribute__(self, asked)  # a property whose own error is the one to show
        text = f"{kind.__name__!r} object has no attribute {asked!r}"
        asker = _caller()
        if asked.startswith("__") or asker is None or _is_own(asker):
            raise AttributeError(text, name=asked, obj=self)
        name = f"torch.Tensor.{asked}"
        why = why_missing(name)
        _lacking.setdefault(name, Lacking(name, why, _place(asker)))
        raise AttributeError(f"{text}: {why}", name=asked, obj=self)

    type.__setattr__(Tensor, "__getattr__", attribute)


def no_module(fullname: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error for a module that is missing."""
    why = why_missing(fullname)
    _lacking.setdefault(fullname, Lacking(fullname, why, _place(_asking())))
    return ModuleNotFoundError(f"No module named {fullname!r}: {why}", name=fullname)


def _asking() -> FrameType | None:
    """The nearest frame that is neither dynograd's nor the import system's."""
    frame = _caller()
    while frame is not None:
        if not _is_own(frame) and "importlib" not in os.path.basename(os.path.dirname(frame.f_code.co_filename)):
            return frame
        frame = frame.f_back
    return None


def _caller() -> FrameType | None:
    """The first frame behind those of this file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def _is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith((_PACKAGE, "<frozen importlib"))


def _place(frame: FrameType | None) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "an unknown place"
