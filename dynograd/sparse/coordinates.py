"""Arithmetic of places: coordinates (sparse dims, entries) of int64, numbers of places in row-major order, starts of sorted groups."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from dynograd.ops.index.indexing import getitem
from dynograd.ops.index.lookups import searchsorted, unique
from dynograd.ops.index.picks import index_add
from dynograd.ops.layout.joins import stack
from dynograd.ops.layout.views import reshape
from dynograd.tensor.creation import arange, zeros
from dynograd.tensor.tensor import Tensor

__all__ = [
    "apart",
    "coalesced",
    "expanded",
    "joined",
    "matched",
    "numbered",
    "scattered",
    "starts_of",
    "summed",
]


def numbered(places: Any, sizes: Sequence[int]) -> Tensor:
    """The number of each place in row-major order."""
    numbers = None
    for row, size in enumerate(sizes):
        numbers = places[row] if numbers is None else numbers * size + places[row]
    return arange(places.shape[1], device=places.device) * 0 if numbers is None else numbers


def apart(numbers: Any, sizes: Sequence[int]) -> Tensor:
    """The opposite of `numbered`."""
    rows = []
    for size in reversed(sizes):
        rows.append(numbers % max(size, 1))
        numbers = numbers // max(size, 1)
    return stack(rows[::-1]) if rows else zeros(0, numbers.shape[0], dtype=numbers.dtype, device=numbers.device)


def summed(groups: Any, entries: Any, count: int) -> Any:
    """(count, *dense dims): the sums of the entries of each group."""
    if entries.dtype.name == "bool":
        return summed(groups, entries.long(), count) != 0
    sums = zeros(count, *entries.shape[1:], dtype=entries.dtype, device=entries.device)
    return index_add(sums, 0, groups, entries)


def coalesced(places: Any, entries: Any, whole: Sequence[int]) -> tuple[Any, Any]:
    """Places sorted and each once, entries of one place added up."""
    sizes = whole[: places.shape[0]]
    numbers, groups = unique(numbered(places, sizes), return_inverse=True)
    return apart(numbers, sizes), summed(groups, entries, numbers.shape[0])


def scattered(places: Any, entries: Any, whole: Sequence[int]) -> Tensor:
    """All elements: zeros where there is no entry."""
    sizes = whole[: places.shape[0]]
    return reshape(summed(numbered(places, sizes), entries, prod(sizes)), tuple(whole))


def starts_of(sorted_groups: Any, count: int) -> Tensor:
    """(count + 1,): where each of `count` groups begins among its sorted numbers."""
    return searchsorted(sorted_groups.contiguous(), arange(count + 1, device=sorted_groups.device))


def expanded(starts: Any, count: int) -> Tensor:
    """(count,): the group of each entry."""
    return searchsorted(starts[1:].contiguous(), arange(count, device=starts.device), right=True)


def joined(starts: Any, rows: Any) -> tuple[Any, Any]:
    """All entries of the groups `rows`, one after the other: (which of `rows` each is for, its place)."""
    firsts = getitem(starts, rows)
    counts = getitem(starts, rows + 1) - firsts
    ends = counts.cumsum(0)
    total = int(ends[-1].item()) if ends.shape[0] else 0
    owner = searchsorted(ends, arange(total, device=starts.device), right=True)
    return owner, arange(total, device=starts.device) - getitem(ends - counts, owner) + getitem(firsts, owner)


def matched(numbers: Any, others: Any) -> tuple[Any, Any]:
    """(whether each number is among the sorted `others`, where)."""
    if not others.shape[0]:
        return numbers < 0, numbers * 0
    at = searchsorted(others, numbers).clamp(max=others.shape[0] - 1)
    return getitem(others, at) == numbers, at
