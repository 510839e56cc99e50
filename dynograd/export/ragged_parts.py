"""The parts of ragged tensors, as functions that a program may call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynograd.ragged import RaggedTensor, making
from dynograd.ragged import tensor as tensors
from dynograd.tensor.tensor import Tensor

__all__ = ["FUNCTIONS", "from_parts", "is_ragged", "part_of", "reported", "sizes_of"]

_PARTS = ("values", "offsets", "lengths")
FUNCTIONS: dict[str, Any] = {
    "from_values": tensors.from_values,
    **{name: getattr(making, name) for name in ("ragged_tensor", "ragged_like", "ragged_from_padded")},
    **{name: vars(RaggedTensor)[name] for name in ("with_packed", "to_padded", "to_padded_tensor", "mask", "unbind")},
    **{name: vars(RaggedTensor)[name].fget for name in _PARTS},
    "packed": lambda x: x.packed,
    "of_rows": lambda x, name: x.partition.tensor(name),
}
"""What makes ragged tensors, and gives their parts, by name."""


def reported() -> Iterator[tuple[Any, Any]]:
    """These functions, each with what a mode of `__torch_function__` is told."""
    for name, function in FUNCTIONS.items():
        if name not in ("packed", "of_rows"):
            yield function, vars(RaggedTensor)[name].__get__ if name in _PARTS else function


def part_of(x: RaggedTensor, tensor: Tensor) -> tuple[str, tuple[str, ...]] | None:
    """The function that gives this tensor of a ragged one, and its other arguments; None: it is no part of it."""
    if isinstance(tensor, RaggedTensor):
        return None
    if x.packed.array is tensor.array:
        return "ragged.packed", ()
    names = [key[0] for key, value in x.partition._held.items() if value is tensor and type(key) is tuple]
    return ("ragged.of_rows", (names[0],)) if names else None


def is_ragged(value: Any) -> bool:
    """Whether it is a ragged tensor with one ragged dim."""
    return (
        isinstance(value, RaggedTensor)
        and type(value.partition).__name__ == "Partition"
        and type(value.packed) is Tensor
    )


def from_parts(packed: Tensor, offsets: Tensor, dim: int) -> RaggedTensor:
    """A ragged tensor of its elements, and of where its rows begin."""
    return RaggedTensor(packed, offsets=offsets, dim=dim)


def sizes_of(x: RaggedTensor) -> tuple[int, int, int]:
    """How many rows there are, how many elements in all of them, and in the longest."""
    return x.partition.count, x.partition.total, x.partition.longest
