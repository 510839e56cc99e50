"""Offsets: where sequences that lie behind one another begin and end. Checks for the ops that take them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from dynograd.base import dtypes
from dynograd.errors import DtypeError, IndexRangeError, ShapeError

__all__ = ["checked_offsets"]


def checked_offsets(who: str, name: str, offsets: Any, tokens: int, what: str) -> list[int]:
    """The numbers of `offsets` (B + 1,) of sequences that together are the `tokens` of `what`; an error names the first wrong row."""
    array = getattr(offsets, "array", offsets)
    if not hasattr(array, "dtype"):
        raise TypeError(
            f"{who}: argument {name!r} must be Tensor, not {type(offsets).__name__}. Use tensor({offsets!r})."
        )
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{who}: expected {name} of an integer dtype, got {dtypes.of_array(array)}. Use .long().")
    if len(array.shape) != 1 or not array.shape[0]:
        raise ShapeError(
            f"{who}: expected {name} of shape (B + 1,) for B sequences, got {tuple(array.shape)}. It holds where each begins, and where the "
            f"last one ends."
        )
    operands = array.tolist()
    if operands[0]:
        raise IndexRangeError(
            f"{who}: expected {name} to begin with 0, got {operands[0]}: the tokens before belong to no sequence."
        )
    for row, (start, stop) in enumerate(pairwise(operands)):
        if stop < start:
            raise IndexRangeError(
                f"{who}: {name} must not fall, but row {row} is from {start} to {stop} ({name}[{row}] and [{row + 1}])."
            )
        if stop > tokens:
            raise IndexRangeError(
                f"{who}: row {row} of {name} is from {start} to {stop}, but {what} has {tokens} tokens."
            )
    if operands[-1] != tokens:
        raise IndexRangeError(
            f"{who}: {name} end with {operands[-1]}, but {what} has {tokens} tokens: the last {tokens - operands[-1]} belong to no sequence."
        )
    return operands
