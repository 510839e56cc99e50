"""The parts of ragged tensors, as functions that a program may call."""

from __future__ import annotations

from typing import Any

from dynograd.ragged import RaggedTensor
from dynograd.tensor.tensor import Tensor

__all__ = ["from_parts", "is_ragged", "sizes_of", "values"]


def values(x: RaggedTensor) -> Any:
    """The elements of all rows."""
    return x.packed


def is_ragged(value: Any) -> bool:
    """Whether it is a ragged tensor with one ragged dim."""
    return isinstance(value, RaggedTensor) and type(value.partition).__name__ == "Partition" and type(value.packed) is Tensor


def from_parts(packed: Tensor, offsets: Tensor, dim: int) -> RaggedTensor:
    """A ragged tensor of its elements, and of where its rows begin."""
    return RaggedTensor(packed, offsets=offsets, dim=dim)


def sizes_of(x: RaggedTensor) -> tuple[int, int, int]:
    """How many rows there are, how many elements in all of them, and in the longest."""
    return x.partition.count, x.partition.total, x.partition.longest
