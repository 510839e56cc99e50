"""Batches cut into parts: tensors along their first dim, ragged tensors by rows, lists of samples, and dicts of these."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.errors import ShapeError
from dynograd.tensor.tensor import Tensor

__all__ = ["cut", "length_of"]


def length_of(batch: tuple[Any, ...]) -> int:
    """The number of samples; raises where the parts of a batch differ."""
    lengths = {length for value in batch for length in _lengths(value)}
    if len(lengths) != 1:
        raise ShapeError(
            f"VirtualShards.of: expected tensors and lists of one length, got "
            f"{'lengths ' + ', '.join(map(str, sorted(lengths))) if lengths else 'none'}."
        )
    return lengths.pop()


def _lengths(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [length for entry in value.values() for length in _lengths(entry)]
    return [len(value)] if _is_cut(value) else []


def _is_cut(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, (Tensor, np.ndarray)) and value.ndim > 0)


def cut(value: Any, part: slice) -> object:
    """The samples of a part; what has no length is the same in all."""
    if isinstance(value, dict):
        return {key: cut(entry, part) for key, entry in value.items()}
    return value[part] if _is_cut(value) else value
