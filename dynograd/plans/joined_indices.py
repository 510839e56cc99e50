"""`x[i, j]`: index arrays for dims that lie beside each other, as one index into these dims together."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.plans.lowering import layouts

__all__ = ["Joined", "joined"]

_FULL = slice(None)


class Joined(NamedTuple):
    """One index for several.

    Args:
        launches: write it.
        index: counts from 0 on; where one of the several leaves its dim, it leaves the dims together.
        dim: the first of the dims.
        shape: of the array, with one dim in the place of the several.
        bounds: of each of the several, as `IndexCheck` takes them.
    """

    launches: list[Launch]
    index: Any
    dim: int
    shape: tuple[int, ...]
    bounds: list[tuple[Any, int, int]]


def joined(indices: list[Any], template: tuple, shape: tuple[int, ...]) -> Joined | None:
    """The index arrays of `template` into an array of `shape` as one; None where they do not lie beside each other, or are no whole numbers."""
    from dynograd.kernels.index.picks_numba import join_indices

    count = len(indices)
    dim = next((place for place, entry in enumerate(template) if type(entry) is int), 0)
    others = (*template[:dim], *template[dim + count :])
    if count < 2 or template[dim : dim + count] != tuple(range(count)):
        return None
    if any([type(entry) is not slice or entry != _FULL for entry in others]):
        return None
    if any([not isinstance(index, numpy.ndarray) or index.dtype != numpy.int64 for index in indices]):
        return None
    launches: list[Launch] = []
    common = numpy.broadcast_shapes(*[index.shape for index in indices])
    rows = [layouts.row_major(numpy.broadcast_to(index, common), launches) for index in indices]
    if any([row is None for row in rows]):
        return None
    sizes = shape[dim : dim + count]
    index = rows[0]
    for place in range(1, count):
        before, index_before = prod(sizes[:place]), index
        index = layouts.scratch(common, numpy.int64)
        arguments = (*[layouts.flat(array) for array in (index_before, rows[place])], before, sizes[place])
        launches.append(Launch(join_indices, (*arguments, layouts.flat(index)), index.size, 1))
    bounds = [(array, -size, size) for array, size in zip(indices, sizes)]
    return Joined(launches, index, dim, (*shape[:dim], prod(sizes), *shape[dim + count :]), bounds)
