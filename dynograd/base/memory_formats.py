"""In which order the elements of a tensor lie in memory, apart from its shape: `channels_last` and its like, as in PyTorch."""

from __future__ import annotations

from typing import Any

from dynograd.base.shown_names import shown
from dynograd.errors import ShapeError

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "legacy_contiguous_format",
    "memory_format",
    "preserve_format",
    "wanted",
]


class memory_format:
    """In which order the dims lie in memory: `contiguous_format`, `channels_last` (4-d), `channels_last_3d` (5-d) or `preserve_format`.

    Args:
        name: one of these.
        rank: how many dims a tensor of this format has; 0: any.

    >>> dynograd.zeros(1, 3, 4, 5).to(memory_format=dynograd.channels_last).stride()
    (60, 1, 15, 3)
    """

    __slots__ = ("name", "rank")

    def __init__(self, name: str, rank: int = 0) -> None:
        self.name, self.rank = name, rank

    def __repr__(self) -> str:
        return shown(self.name)

    def __reduce__(self) -> str:
        return self.name


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
legacy_contiguous_format = contiguous_format
channels_last = memory_format("channels_last", 4)
channels_last_3d = memory_format("channels_last_3d", 5)


def wanted(who: str, format: Any, rank: int, default: memory_format = preserve_format) -> memory_format:
    """The format that an argument stands for, checked against the number of dims."""
    if format is None:
        return default
    if not isinstance(format, memory_format):
        raise TypeError(
            f"{who}: memory_format must be a dynograd.memory_format such as dynograd.channels_last, got {format!r}."
        )
    if format.rank and format.rank != rank:
        raise ShapeError(
            f"{who}: required rank {format.rank} tensor to use {format.name} format, got a tensor of {rank} dims."
        )
    return format
