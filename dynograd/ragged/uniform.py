"""Other readings of rows: of one length they are a rectangle, for dense ops on a view; with several ragged dims they are lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.kernels.attention.any_size import is_alike_at_any_size
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.ragged.tensor import RaggedTensor, make

__all__ = ["as_dense", "as_ragged", "dim_first", "lines_of"]


def as_dense(x: RaggedTensor) -> Any:
    """(B, ..., T, ...): the rows as a dense tensor of the same dims; None where their lengths differ, all are 0, or may be others another time."""
    part, packed, place = x.partition, x.packed, x.place
    length = part.uniform
    if not length or is_alike_at_any_size() or isinstance(part, Shapes) or isinstance(packed, RaggedTensor):
        return None
    shape = tuple(packed.shape)
    dense = run("view", packed, (*shape[: place - 1], part.count, length, *shape[place:]))
    return dense if place == 1 else run("permute", dense, dim_first(dense.ndim, place - 1))


def as_ragged(dense: Any, like: RaggedTensor) -> RaggedTensor:
    """What `as_dense` was made of, or rows of another length: a dense tensor whose rows have the ragged dim of `like`."""
    place, shape = like.place, tuple(dense.shape)
    length = shape[place]
    part = like.partition if length == like.partition.longest else Partition(like.partition.lengths * 0 + length)
    if place > 1:
        rest = range(1, len(shape))
        dense = run("permute", dense, (*rest[: place - 1], 0, *rest[place - 1 :]))
    sizes = (*shape[1:place], shape[0] * length, *shape[place + 1 :])
    return make(run("reshape", dense, sizes), part, place)


def lines_of(x: RaggedTensor) -> RaggedTensor:
    """Rows with several ragged dims as the lines that lie in them: (lines, j), each along their last dim."""
    part = x.partition
    assert isinstance(part, Shapes)

    def lines() -> Partition:
        return Partition(np.repeat(part.sizes[:, -1], part.sizes[:, :-1].prod(1)), None)

    return make(x.packed, part.kept("lines", lines), 1)


def dim_first(rank: int, dim: int) -> tuple[int, ...]:
    """The order that puts dim `dim` of `rank` dims in front."""
    return (dim, *[other for other in range(rank) if other != dim])
