"""Words for values, calls and places, as explanations and the debugger show them."""

from __future__ import annotations

import os
from typing import Any

import numpy

from dynograd.debug.recording import Call, Value

__all__ = [
    "as_float",
    "at",
    "described",
    "first_bad",
    "index_text",
    "kinds_in",
    "number",
    "range_of",
    "shape_of",
    "short",
]


def number(value: Any) -> str:
    """`0.25`, `nan`, `-inf`, `3`."""
    return f"{value:.4g}" if isinstance(value, (float, numpy.floating)) else str(value)


def short(line: str | None) -> str:
    """`train.py:14` of `/home/me/train.py:14 in step`."""
    if line is None:
        return "an unknown line"
    place, _, function = line.partition(" in ")
    name = os.path.basename(place)
    return name if function in ("", "<module>") else f"{name} in {function}"


def at(call: Call) -> str:
    """`log at train.py:14, in Model.head`."""
    path = f", in module {call.path}" if call.path else ""
    return f"{call.op} at {short(call.line)}{path}"


def shape_of(value: Value) -> str:
    """`float32(8, 12)`."""
    return f"{str(value.dtype).rpartition('.')[2]}({', '.join(map(str, value.shape))})"


def kinds_in(numbers: numpy.ndarray) -> str:
    """`3 nan, 1 inf of 40`; "" where all are numbers."""
    plain = as_float(numbers)
    counts = [(int(test(plain).sum()), name) for test, name in ((numpy.isnan, "nan"), (numpy.isinf, "inf"))]
    listed = ", ".join(f"{count} {name}" for count, name in counts if count)
    return f"{listed} of {plain.size}" if listed else ""


def range_of(value: Value) -> str:
    """`in [-1.2, 3.4], mean 0.1, 50% zeros`, or what is not a number in it."""
    numbers = value.numbers()
    if numbers is None:
        return "(values no longer held)" if value.is_finite() else "(not finite; values no longer held)"
    return described(numbers)


def described(numbers: numpy.ndarray) -> str:
    """The same of an array."""
    plain = as_float(numbers)
    if not plain.size:
        return "empty"
    bad = kinds_in(numbers)
    if bad:
        return bad
    if numbers.dtype.kind == "c":
        return f"up to {number(numpy.abs(plain).max())} in size"
    if plain.size == 1:
        return f"= {number(plain.reshape(-1)[0])}"
    text = f"in [{number(plain.min())}, {number(plain.max())}]"
    if numbers.dtype.kind in "fV":
        text += f", mean {number(plain.mean(dtype=numpy.float64))}"
    zeros = float((plain == 0).mean())
    return text + (f", {zeros:.0%} zeros" if zeros >= 0.005 else "")


def as_float(numbers: numpy.ndarray) -> numpy.ndarray:
    """The array in a dtype that NumPy's functions know: bfloat16 and the like as float32."""
    return numbers.astype(numpy.float32) if numbers.dtype.kind == "V" or numbers.dtype.name == "bfloat16" else numbers


def first_bad(value: Value) -> tuple[tuple[int, ...], str] | None:
    """The index of the first element that is no number, and words for it: `[2, 1]`, of a ragged tensor `[2][1], in row 2`."""
    numbers = value.numbers()
    if numbers is None:
        return None
    bad = numpy.argwhere(~numpy.isfinite(as_float(numbers)))
    if not len(bad):
        return None
    index = tuple(int(position) for position in bad[0])
    return index, index_text(value, index)


def index_text(value: Value, index: tuple[int, ...]) -> str:
    """Words for an index; of the elements of a ragged tensor the row and the place in it, within `vmap` the example and the place."""
    offsets = value.offsets
    if offsets is not None:
        row = int(numpy.searchsorted(offsets, index[0], side="right")) - 1
        return f"row {row}, {[index[0] - int(offsets[row]), *index[1:]]}"
    levels = len(index) - len(value.shape)  # of vmap
    if levels > 0:
        inner = f", {list(index[levels:])}" if value.shape else ""
        return f"example {', '.join(map(str, index[:levels]))}{inner}"
    return str(list(index))
