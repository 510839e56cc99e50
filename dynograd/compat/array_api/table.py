"""The ops by name, for the files of this package."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dynograd.tensor.methods import public_functions

__all__ = ["dims", "ops"]

ops: Any = SimpleNamespace(**{name: one for name, one in public_functions().items() if name.isidentifier()})


def dims(axis: Any, rank: int) -> tuple[int, ...]:
    """`axis` (None: all) as a tuple of dims that count from the front.

    Raises:
        IndexError: an axis outside, or named twice.
    """
    given = tuple(range(rank)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    found = tuple([one + rank if one < 0 else one for one in given])
    if any([not 0 <= one < rank for one in found]) or len(set(found)) != len(found):
        raise IndexError(f"axis: expected different axes between {-rank} and {rank - 1}, got {axis}.")
    return found
