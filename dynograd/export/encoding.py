"""Arguments and results as JSON values, and back.

Numbers that fit, texts, True, False and None stand for themselves and a list is a list; all else is a dict with one key, which says what it is.
A tensor is the number of its value, a number that differs from size to size the number of its formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from dynograd.base import devices, dtypes, layouts, memory_formats
from dynograd.base.shapes import Size
from dynograd.errors import ProgramError
from dynograd.tensor.tensor import Tensor

__all__ = ["FLOATING", "Formula", "Json", "Packed", "Ref", "Tree", "built", "encoded", "reader", "tensors_in"]

Json: TypeAlias = Any
"""A JSON value."""
Tree: TypeAlias = Any
"""Tensors and plain values in lists, tuples and dicts."""

_LARGEST = 1 << 63
_FORMATS = {
    name: getattr(memory_formats, name)
    for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}
_DTYPES = {kind.name: kind for kind in vars(dtypes).values() if isinstance(kind, dtypes.dtype)}


_NAMED: dict[str, dict[str, Any]] = {"dtype": _DTYPES, "layout": layouts.ALL, "memory_format": _FORMATS}


@dataclass(frozen=True, slots=True)
class Ref:
    """The number of a value."""

    number: int


@dataclass(frozen=True, slots=True)
class Formula:
    """The number of a formula. `kind` is "number", or of floating numbers one of `FLOATING`."""

    number: int
    kind: str = "number"


@dataclass(frozen=True, slots=True)
class Packed:
    """A PackedSequence: a `Ref` for each of its tensors, or None."""

    parts: tuple[Any, ...]


def encoded(value: Tree) -> Json:
    """The JSON value of an argument.

    Raises:
        TypeError: it has none; the message names its type.
    """
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int and -_LARGEST <= value < _LARGEST:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is complex:
        return {"complex": [encoded(value.real), encoded(value.imag)]}
    if type(value) is Ref:
        return {"value": value.number}
    if type(value) is Formula:
        return {value.kind: value.number}
    if type(value) is Packed:
        return {"packed": [encoded(part) for part in value.parts]}
    if type(value) is list:
        return [encoded(part) for part in value]
    if type(value) is Size:
        return {"size": [encoded(part) for part in value]}
    if isinstance(value, tuple):
        return {"tuple": [encoded(part) for part in value]}
    if type(value) is dict:
        return {"dict": [[encoded(key), encoded(part)] for key, part in value.items()]}
    if type(value) is slice:
        return {"slice": [encoded(part) for part in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    for key, kind, text in (
        ("dtype", dtypes.dtype, "name"),
        ("device", devices.device, ""),
        ("layout", layouts.layout, "name"),
        ("memory_format", memory_formats.memory_format, "name"),
    ):
        if isinstance(value, kind):
            return {key: getattr(value, text) if text else str(value)}
    if value in (int, float, bool):  # as dtypes
        return {"dtype": {int: "int64", float: "float64", bool: "bool"}[value]}
    item = getattr(value, "item", None)
    if type(value).__module__ == "numpy" and item is not None and not getattr(value, "ndim", 1):
        return encoded(item())
    raise TypeError(type(value).__name__)


def tensors_in(value: Tree) -> Iterator[Tensor]:
    """The tensors in a structure, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(part)


Reader = Callable[[list[Any], list[int]], Any]
"""Gives an argument, from the values of a run and the numbers at its sizes."""


def built(value: Json, values: Any, numbers: Any) -> Tree:
    """What a JSON value stands for.

    Raises:
        ProgramError: it stands for nothing.
    """
    return reader(value)(values, numbers)


def reader(
    value: Any, known: int = _LARGEST, formulas: int = _LARGEST, used: set[int] | None = None, depth: int = 0
) -> Reader:
    """Reads a JSON value once for all runs.

    Args:
        known: how many values there are before it.
        formulas: how many formulas there are.
        used: gets the numbers of the values that it reads.
    Raises:
        ProgramError: it stands for nothing, or for a value that is not there yet.
    """
    if depth > 50:
        raise _damaged("arguments nested 50 deep")
    if value is None or type(value) in (bool, int, float, str):
        return lambda values, numbers: value
    parts = value if type(value) is list else None
    if parts is None:
        if type(value) is not dict or len(value) != 1:
            raise _damaged(value)
        ((kind, content),) = value.items()
        if kind in _LOOKED_UP or kind in FLOATING:
            if type(content) is not int or not 0 <= content < (known if kind == "value" else formulas):
                raise _damaged(value)
            if kind == "value" and used is not None:
                used.add(content)
            return _LOOKED_UP[kind](content) if kind in _LOOKED_UP else _floating(FLOATING[kind][0], content)
        if kind not in _LISTS:
            constant = _constant(kind, content)
            return lambda values, numbers: constant
        if type(content) is not list or (kind == "slice" and len(content) != 3):
            raise _damaged(value)
        if kind == "dict" and any([type(pair) is not list or len(pair) != 2 for pair in content]):
            raise _damaged(value)
        parts = content if kind != "dict" else [part for pair in content for part in pair]
        make = _LISTS[kind]
    else:
        make = list
    readers = [reader(part, known, formulas, used, depth + 1) for part in parts]
    return lambda values, numbers: make([read(values, numbers) for read in readers])


def _dict(parts: list[Any]) -> dict[Any, Any]:
    try:
        return dict(zip(parts[::2], parts[1::2]))
    except TypeError:
        raise _damaged(parts[::2]) from None


def _packed(parts: list[Any]) -> object:
    from dynograd.nn.utils.rnn import PackedSequence  # most programs have none

    try:
        return PackedSequence(*parts)
    except TypeError:
        raise _damaged(parts) from None


_LISTS: dict[str, Callable[[list[Any]], Any]] = {
    "packed": _packed,
    "tuple": tuple,
    "size": Size,
    "slice": lambda parts: slice(*parts),
    "dict": _dict,
}
_LOOKED_UP: dict[str, Callable[[int], Reader]] = {
    "value": lambda place: lambda values, numbers: values[place],
    "number": lambda place: lambda values, numbers: numbers[place],
}


FLOATING: dict[str, tuple[Callable[[int], float], Callable[[float], float]]] = {
    "real": (float, lambda value: value),
    "share": (lambda number: 1.0 / number, lambda value: 1.0 / value),
    "root": (math.sqrt, lambda value: value * value),
    "root_share": (lambda number: 1.0 / math.sqrt(number), lambda value: 1.0 / (value * value)),
    "power": (lambda number: number**-0.5, lambda value: 1.0 / (value * value)),
    "log": (math.log, math.exp),
}
"""Floating numbers of whole ones: how, and the whole number of one of them, but for rounding."""


def _floating(function: Callable[[int], float], place: int) -> Reader:
    def read(values: Any, numbers: Any) -> float:
        try:
            return function(numbers[place])
        except (ArithmeticError, ValueError) as error:
            raise ProgramError(
                f"a number follows from sizes by {function}, which {numbers[place]} has none of"
            ) from error

    return read


def _constant(kind: str, content: Json) -> Tree:
    try:
        if kind == "float":
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content]
        if kind == "complex":
            real, imaginary = [built(part, (), ()) for part in content]
            return complex(real, imaginary)
        if kind == "ellipsis":
            return Ellipsis
        if kind == "device":
            return devices.as_device(content)
        return _NAMED[kind][content]
    except (LookupError, TypeError, ValueError, RuntimeError):
        raise _damaged({kind: content}) from None


def _damaged(value: Any) -> ProgramError:
    return ProgramError(
        f"load_program: expected an argument, got {str(value)[:80]}. The file is damaged, or of another dynograd: export it anew."
    )
