"""Modules of PyTorch that are not here, with their names: programs that only import them run, and who calls one is told why it refuses.

Packages name sharded tensors, exporters and quantizers at their top, whether or not a program ever uses them. The list is `refused.txt`;
whatever stands in it can be imported, asked `isinstance(x, DTensor)` (False) and derived from, and refuses to be made or called; placements,
which only describe, are real.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from dynograd.base import stub_texts, stubs
from dynograd.tensor.absent import absent_module

__all__ = ["above", "addition", "fill", "modules", "others"]

_REASONS = {
    "SHARDED": "distributed.tensor",
    "EXPORT": "export",
    "PACKAGE": "package",
    "QUANTIZED": "ao",
    "CPP": "utils.cpp_extension",
    "ONNX": "onnx",
    "SCRIPT": "jit.frontend",
    "MASKED": "masked.maskedtensor",
    "DEVICES": "xpu.streams",
    "GRAPHS": "fx.experimental",
    "DRIVER": "cuda.tunable",
    "FAKE": "_subclasses",
    "DISPATCH": "utils._python_dispatch",
}


_HERE = {
    "accelerator",
    "cuda",
    "distributed",
    "export",
    "fx",
    "jit",
    "masked",
    "mps",
    "mtia",
    "nn",
    "profiler",
    "sparse",
    "utils",
    "utils.data",
    "xpu",
}


def modules() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The path of each module (without `dynograd.`), with the reason and its names."""
    return _table()[0]


@functools.cache
def _table() -> tuple[dict[str, tuple[str, tuple[str, ...]]], dict[str, tuple[str, tuple[str, ...]]]]:
    """The modules, and the names that are missing in others."""
    text = Path(__file__).with_name("refused.txt").read_text(encoding="utf-8")
    table: dict[str, tuple[str, tuple[str, ...]]] = {}
    why = path = ""
    for line in text.splitlines()[1:]:
        if not line.startswith(" "):
            why = absent_module(_REASONS[line]) or ""
            continue
        words = line.split()
        if words[0].endswith(":"):
            path, words = words[0][:-1], words[1:]
            table[path] = (why, ())
        table[path] = (why, table[path][1] + tuple(words))
    missing = {path[:-1]: table.pop(path) for path in list(table) if path.endswith("+")}
    return table, missing


def addition(path: str, name: str) -> Any:
    """A name of the list that is missing in a module that is here otherwise; None if the list has none."""
    why, names = _table()[1].get(path, ("", ()))
    word = next((word for word in names if word.removesuffix("()") == name), None)
    return None if word is None else _refused(path, name, why, word != name)


def others(path: str, otherwise: Callable[[str], Any] | None = None) -> Callable[[str], object]:
    """The `__getattr__` of a module that is here, for its names in the list; `otherwise` is asked for all else."""

    def attribute(name: str) -> object:
        value = addition(path, name)
        if value is None and otherwise is not None:
            return otherwise(name)
        if value is None:
            raise AttributeError(f"module 'dynograd.{path}' has no attribute {name!r}")
        return value

    return attribute


@functools.cache
def above() -> frozenset[str]:
    """Packages that hold such modules and nothing else."""
    paths = {path.rsplit(".", count)[0] for path in modules() for count in range(1, path.count(".") + 1)}
    return frozenset(paths - set(modules()) - _HERE)


def fill(module: ModuleType) -> None:
    """Puts the names into a module of the list; those that it has already are not refused."""
    from dynograd.distributed import placements

    path = module.__name__.partition(".")[2]
    why, names = modules().get(path, ("", ()))
    real = module.__dict__.get("__all__", [])
    module.__doc__ = module.__doc__ if real else f"Refused: {why}"
    for name in names:
        plain = name.removesuffix("()")
        if plain not in real:
            module.__dict__[plain] = getattr(placements, plain, None) or _refused(path, plain, why, name != plain)
    module.__dict__.update(stubs.names(path))  # what has an answer all the same
    module.__dict__["__all__"] = list(
        dict.fromkeys([*real, *(name.removesuffix("()") for name in names), *stubs.names(path)])
    )


class _Refused(type):
    def __getattr__(cls, name: str) -> NoReturn:
        raise AttributeError(f"{cls.__qualname__}.{name}: {cls._why}")  # type: ignore[attr-defined]


_shared: dict[tuple[str, str], Any] = {}


def _refused(path: str, name: str, why: str, is_function: bool) -> Any:
    """A class or function of that name; a class is the same in all modules that have it."""
    if (name, why) not in _shared:
        message = f"{path}.{name}: {why}"

        def refuse(*args: object, **kwargs: object) -> NoReturn:
            raise NotImplementedError(message)

        refuse.__name__ = refuse.__qualname__ = name
        call = f"dynograd.{path}.{name}()"
        refuse.__doc__ = stub_texts.refused(call, f"{path}.{name}", NotImplementedError, why, ["*args", "**kwargs"])
        contents = {"__init__": refuse, "__doc__": refuse.__doc__, "__module__": f"dynograd.{path}", "_why": why}
        _shared[name, why] = refuse if is_function else _Refused(name, (), contents)
    return _shared[name, why]
