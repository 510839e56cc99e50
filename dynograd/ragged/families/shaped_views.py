"""Views of rows with several ragged dims (images of different sizes): rows lie flat behind one another, so that most views only rename sizes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dynograd.ops.op import registry
from dynograd.ragged.calls import Call
from dynograd.ragged.families.groups import grouped, index_of
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, RaggedSize, Shapes
from dynograd.ragged.tensor import RaggedTensor, make

__all__ = ["as_shapes", "expanded_shapes", "of_sizes", "viewed_shapes"]


def viewed_shapes(x: RaggedTensor, sizes: tuple[Any, ...]) -> Any:
    """Each row in the order of its elements as another shape; None where the sizes do not fit. -1 may be another size in each row."""
    part = x.partition
    assert isinstance(part, Shapes)
    if tuple(sizes) == tuple(x.shape):
        return x
    if sizes in ((-1,), (x.numel(),)):
        return x.packed
    if len(sizes) < 2 or sizes[0] not in (part.count, -1) or sizes[1:].count(-1) > 1:
        return None
    named = [size for size in sizes[1:] if isinstance(size, RaggedSize)]
    if any([size.partition.count != part.count for size in named]):
        return None
    target = np.ones((part.count, len(sizes) - 1), np.int64)
    for dim, size in enumerate(sizes[1:]):
        target[:, dim] = size.partition.lengths if isinstance(size, RaggedSize) else size
    open_ = [dim for dim, size in enumerate(sizes[1:]) if isinstance(size, int) and size == -1]
    fixed = [None if isinstance(size, RaggedSize) else size for size in sizes[1:]]
    for dim in open_:
        known = np.delete(target, dim, 1).prod(1)
        target[:, dim] = part.lengths // np.maximum(known, 1)
        # where all ragged sizes are named, what is left is the same in every row
        own = sum([size is None for size in part.fixed])
        same = len(named) == own and part.count and (target[:, dim] == target[0, dim]).all()
        fixed[dim] = int(target[0, dim]) if same else None
    if (target.prod(1) != part.lengths).any() or (target < 0).any():
        return None
    return of_sizes(x.packed, Shapes(target, tuple(fixed)))


def of_sizes(packed: Any, part: Shapes) -> Any:
    """Elements of rows flat behind one another, as a ragged tensor with that many ragged dims; without any, a dense one."""
    ragged = [dim for dim, size in enumerate(part.fixed) if size is None]
    reshape = registry["reshape"].function
    if len(ragged) > 1:
        return make(packed, part, 0)
    if not ragged:
        return reshape(packed, (part.count, *part.fixed))
    dim = ragged[0]
    lengths = part.sizes_of(dim + 1)
    lead, rest = part.fixed[:dim], part.fixed[dim + 1 :]
    if prod(lead) != 1:  # type: ignore[arg-type]
        places = part.kept("side_by_side", lambda: _side_by_side(part, lengths, prod(lead), prod(rest)))  # type: ignore[arg-type]
        packed = run("index", packed, [index_of(places, packed)], (0,))
    return make(reshape(packed, (*lead, lengths.total, *rest)), lengths, dim + 1)


def as_shapes(x: RaggedTensor) -> RaggedTensor:
    """Rows with one ragged dim flat behind one another: what `of_sizes` takes."""
    dim = x.place - 1
    lead, rest = tuple(x.packed.shape)[:dim], tuple(x.packed.shape)[dim + 1 :]
    lengths = x.partition
    sizes = np.ones((lengths.count, x.packed.ndim), np.int64) * np.array([*lead, 1, *rest])
    sizes[:, dim] = lengths.lengths
    part = Shapes(sizes, (*lead, None, *rest))
    packed = run("reshape", x.packed, (-1,) if x.packed.numel() else (0,))
    if prod(lead) != 1:
        places = np.empty(part.total, np.int64)
        places[_side_by_side(part, lengths, prod(lead), prod(rest))] = np.arange(part.total)
        packed = run("index", packed, [index_of(places, packed)], (0,))
    return make(packed, part, 0)


def _side_by_side(part: Shapes, lengths: Partition, lead: int, rest: int) -> np.ndarray:
    """Where the elements (lead, all rows behind one another, rest) are among rows (lead, j, rest) that are flat behind one another."""
    row, place = lengths.array("rows"), lengths.array("places")
    front = np.arange(lead)[:, None, None] * lengths.lengths[row][None, :, None]
    return (part.offsets[:-1][row][None, :, None] + (front + place[None, :, None]) * rest + np.arange(rest)).reshape(-1)


def expanded_shapes(x: RaggedTensor, sizes: tuple[Any, ...]) -> Any:
    """Dims of size 1 beside the ragged ones stretched; None where the sizes do not fit."""
    shape = tuple(x.shape)
    if len(sizes) != len(shape):
        return None
    for have, want in zip(shape, sizes, strict=True):
        if not (isinstance(want, int) and (want == -1 or have == 1)) and have != want:
            return None
    if sizes[0] not in (-1, shape[0]):
        return None
    plain = tuple([-1 if have == want else want for have, want in zip(shape, sizes, strict=True)])
    if set(plain) == {-1}:
        return x
    return grouped(Call("expand.public", registry["expand.public"], {"input": x, "sizes": plain}))
