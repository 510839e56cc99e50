"""The ops by name, for the files of this package."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from dynograd.tensor.methods import public_functions

__all__ = ["dims", "ops", "sentence_of"]

ops: Any = SimpleNamespace(**{name: function for name, function in public_functions().items() if name.isidentifier()})


def dims(axis: Any, rank: int) -> tuple[int, ...]:
    """`axis` (None: all) as a tuple of dims that count from the front.

    Raises:
        IndexError: an axis outside, or named twice.
    """
    axes = tuple(range(rank)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    dims = tuple([dim + rank if dim < 0 else dim for dim in axes])
    if any([not 0 <= dim < rank for dim in dims]) or len(set(dims)) != len(dims):
        raise IndexError(f"axis: expected different axes between {-rank} and {rank - 1}, got {axis}.")
    return dims


def sentence_of(op: Any, input: str = "x") -> str:
    """What the op's docstring says before its sections, with the standard's names of arguments."""
    names = {"input": input, "other": "x2", "dim": "axis"}
    first = (op.__doc__ or "").split("\n\n")[0].strip()
    return re.sub(
        r"`[^`]*`", lambda span: re.sub(r"\b(input|other|dim)\b", lambda name: names[name[0]], span[0]), first
    )
