"""The entries of an index of a ragged tensor: one for each dim that is named, numbers and vectors on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.errors import DtypeError, IndexRangeError
from dynograd.ops.index.indices import FULL
from dynograd.ragged.calls import Refusal
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.tensor import Tensor

__all__ = ["dims_of", "entries", "host", "in_range", "is_vector", "number", "row_numbers"]


def entries(x: RaggedTensor, index: Any) -> list[Any]:
    """One entry for each dim that is named, Ellipsis filled in."""
    listed = list(index) if isinstance(index, tuple) else [index]
    places = [place for place, entry in enumerate(listed) if entry is Ellipsis]
    if len(places) > 1:
        raise IndexError("getitem: an index can only have a single ellipsis ('...').")
    used = sum([dims_of(entry) for entry in listed])
    if used > x.ndim:
        raise IndexError(
            f"getitem: too many indices for a ragged tensor of {x.ndim} dims (shape {tuple(x.shape)}): {used} given."
        )
    if places:
        at = places[0]
        listed[at : at + 1] = [FULL] * (x.ndim - used)
    return listed or [FULL]


def dims_of(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    if isinstance(entry, RaggedTensor) and entry.dtype.name == "bool":
        return entry.ndim
    if isinstance(entry, Tensor) and entry.dtype.name == "bool":
        return entry.ndim
    return 1


def is_vector(entry: Any) -> bool:
    """Whether an entry picks by a list, array or tensor of numbers, or by a mask of one dim."""
    if isinstance(entry, (list, np.ndarray)):
        return np.ndim(entry) > 0
    return isinstance(entry, Tensor) and not isinstance(entry, RaggedTensor) and entry.ndim > 0


def number(entry: Any) -> int | None:
    if isinstance(entry, (bool, np.bool_)):
        return None
    if isinstance(entry, (int, np.integer)):
        return int(entry)
    if (
        isinstance(entry, Tensor)
        and not isinstance(entry, RaggedTensor)
        and not entry.ndim
        and entry.dtype.name != "bool"
    ):
        return int(entry.item())
    return None


def in_range(number: int, count: int) -> int:
    if not -count <= number < count:
        raise IndexRangeError(
            f"getitem: index {number} is out of bounds for dimension 0 with size {count} (the rows of a ragged tensor)."
        )
    return number + count if number < 0 else number


def host(entry: Any) -> np.ndarray:
    raw = getattr(entry, "array", entry)
    return np.asarray(arrays.to_numpy(raw) if hasattr(raw, "dtype") else raw)


def row_numbers(count: int, entry: Any) -> np.ndarray:
    """The numbers of the rows that a slice, list, index vector or mask (B,) picks."""
    if isinstance(entry, slice):
        if entry.step is not None and entry.step <= 0:
            raise ValueError(f"getitem: step must be greater than zero, got {entry.step}. Use flip(0).")
        return np.arange(count, dtype=np.int64)[entry]
    picked = host(entry)
    if picked.dtype.kind == "b":
        if picked.shape != (count,):
            raise IndexError(
                f"getitem: the shape of the mask {picked.shape} does not match the {count} rows of a ragged tensor."
            )
        return np.flatnonzero(picked).astype(np.int64)
    if picked.size and picked.dtype.kind not in "iu":
        raise DtypeError(f"getitem: tensors used as indices must be integers or bool, got {picked.dtype}.")
    if picked.ndim != 1:
        raise Refusal(
            f"getitem: an index of rows must be a vector here, got shape {picked.shape}. Use x[index.ravel()]."
        )
    picked = picked.astype(np.int64)
    wrong = (picked < -count) | (picked >= count)
    if wrong.any():
        at = int(wrong.argmax())
        raise IndexRangeError(
            f"getitem: index {picked[at]} at position {at} is out of bounds for dimension 0 with size {count} (the rows)."
        )
    return np.where(picked < 0, picked + count, picked)
