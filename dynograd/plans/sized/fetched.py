"""Sizes of tensors that a step fetches itself (its batch, from a queue or an attribute): part of what formulas are found from."""

from __future__ import annotations

from collections.abc import Sequence

from dynograd.plans.sized.sizes import NoFormula, Sizes
from dynograd.plans.steps import Path

__all__ = ["fetched_sizes", "free_places", "kept"]


def fetched_sizes(path: Path) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """The sizes of tensors that are others in each step and no arguments; and where they stand: (number of the tensor, dim)."""
    sizes: list[int] = []
    places: list[tuple[int, int]] = []
    for outside in path.outside:
        if outside.fresh and not outside.name:
            shape = outside.kind[2]
            sizes += shape
            places += [(outside.number, dim) for dim in range(len(shape))]
    return tuple(sizes), tuple(places)


def free_places(samples: Sequence[tuple[int, ...]], count: int, idle: Sequence[int] = ()) -> list[int]:
    """The places of sizes behind the first `count` that are no formulas of those before them, without the idle ones."""
    free: list[int] = []
    for place in range(count, len(samples[0])):
        values = [sample[place] for sample in samples]
        if len(set(values)) == 1:
            continue
        try:
            Sizes([kept(sample, count, free) for sample in samples], idle).number(values)
        except NoFormula:
            free.append(place)
    return free


def kept(sample: tuple[int, ...], count: int, places: Sequence[int]) -> tuple[int, ...]:
    """The first sizes, and those at the places."""
    return (*sample[:count], *[sample[place] for place in places])
