"""Ragged sizes where dense code names a size: `arange(T)`, `table[:T]`, `bias[:, :, :T, :T]`, `zeros(B, T, D)`, with `B, T, D = x.shape` of a ragged x.

A ragged size is no number, so what asks for one raises; the functions named here are called again, for each row with its own number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynograd.errors import ShapeError
from dynograd.ragged.families.groups import index_of
from dynograd.ragged.invoking import run
from dynograd.ragged.making import ragged_tensor
from dynograd.ragged.partitions import Partition, RaggedSize, Shapes, shown
from dynograd.ragged.tensor import make
from dynograd.tensor.tensor import Tensor

__all__ = ["SIZED", "arange_of_rows", "made_of_sizes"]


def made_of_sizes(who: str, sizes: Any, make_packed: Callable[[tuple[int, ...]], Any]) -> Any:
    """What `make_packed(shape)` gives for all rows, of sizes (B, j, D) or (1, j, D), which broadcasts; of (j, D) rows are counted in front."""
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    count = _count(who, sizes)
    if count is None:
        return NotImplemented
    own = list(sizes[1:] if isinstance(sizes[0], int) and sizes[0] in (1, count) else sizes)
    ragged = [dim for dim, size in enumerate(own) if isinstance(size, RaggedSize)]
    if len(ragged) == 1:
        part = own[ragged[0]].partition
        own[ragged[0]] = part.total
        return make(make_packed(tuple(own)), part, ragged[0] + 1)
    table = np.ones((count, len(own)), np.int64)
    for dim, size in enumerate(own):
        table[:, dim] = size.partition.lengths if dim in ragged else size
    part = Shapes(table, tuple([None if dim in ragged else size for dim, size in enumerate(own)]))
    return make(make_packed((part.total,)), part, 0)


def arange_of_rows(arguments: dict[str, Any]) -> Any:
    """(B, j): 0, 1, ... of each row."""
    start, end = arguments.pop("start"), arguments.pop("end")
    start, end = (0, start) if end is None else (0 if start is None else start, end)
    step = arguments.pop("step")
    if not isinstance(end, RaggedSize) or not isinstance(start, int) or not isinstance(step, int) or step < 1:
        return NotImplemented
    part = end.partition
    if start or step != 1:
        part = Partition(np.maximum(-((start - part.lengths) // step), 0))
    device = arguments.pop("device")
    places = part.tensor("places", device) * step + start
    dtype = arguments.pop("dtype")
    numbers = make(places if dtype is None else places.to(dtype), part)
    if arguments.get("out") is not None:
        raise ShapeError("arange: out= has no form for ragged sizes. Leave it away.")
    if arguments.get("requires_grad"):
        numbers.requires_grad_()
    return numbers


def cut(arguments: dict[str, Any]) -> Any:
    """`x[..., a:T]` of a dense x: the first elements of a dim, for each row as many as it has. A dim 0 of size 1, or of one entry for each
    row, that is taken as a whole counts the rows; else these are counted in front."""
    x, index = arguments["input"], arguments["index"]
    entries = list(index) if isinstance(index, tuple) else [index]
    count = _count(
        "getitem", [part for entry in entries if isinstance(entry, slice) for part in (entry.start, entry.stop)]
    )
    if count is None or not isinstance(x, Tensor) or any([isinstance(entry, (Tensor, list)) for entry in entries]):
        return NotImplemented
    if Ellipsis in entries:
        at = entries.index(Ellipsis)
        room = x.ndim - sum([entry is not None and entry is not Ellipsis for entry in entries])
        entries[at : at + 1] = [slice(None)] * room
    plain: list[Any] = []
    cuts: list[tuple[int, slice]] = []  # dim of the result, what to take of it
    dim = 0
    for entry in entries:
        ragged = isinstance(entry, slice) and isinstance(entry.stop, RaggedSize)
        if ragged:
            if (
                entry.start not in (None, 0) and (not isinstance(entry.start, int) or entry.start < 0)
            ) or entry.step not in (
                None,
                1,
            ):
                return NotImplemented
            cuts.append((dim, entry))
        plain.append(slice(None) if ragged else entry)
        dim += not isinstance(entry, int)
    if not cuts:
        return NotImplemented
    whole = run("getitem", x, tuple(plain))
    in_front = entries[0] is None or (isinstance(entries[0], slice) and entries[0] == slice(None))
    of_rows = in_front and whole.shape[0] in (1, count)
    if of_rows and whole.shape[0] == 1:
        whole, cuts, of_rows = whole[0], [(dim - 1, bound) for dim, bound in cuts], False
    bounds = [_bounds(bound, int(whole.shape[dim])) for dim, bound in cuts]
    if len(cuts) == 1 and not of_rows:
        dim, (starts, part) = cuts[0][0], bounds[0]
        places = Partition.places_from(starts, part)
        return make(run("index_select", whole, dim, index_of(places, whole)), part, dim + 1)
    rows = []
    for number in range(count):
        row = whole[number] if of_rows else whole
        for (dim, _), (starts, part) in zip(cuts, bounds, strict=True):
            row = row.narrow(dim - of_rows, int(starts[number]), int(part.lengths[number]))
        rows.append(row)
    dims = [dim + (not of_rows) for dim, _ in cuts]
    return ragged_tensor(rows, ragged_dims=dims) if rows else NotImplemented


def _bounds(bound: slice, size: int) -> tuple[np.ndarray, Partition]:
    """Where the elements of each row begin, and how many there are: slices stop at the end of the dim, as they do in Python."""
    start = min(bound.start or 0, size)
    lengths = np.maximum(np.minimum(bound.stop.partition.lengths, size) - start, 0)
    part = bound.stop.partition
    if not (start == 0 and (lengths == part.lengths).all()):
        part = Partition(lengths)
    return np.full(len(lengths), start), part


def stretched(arguments: dict[str, Any], expands: bool) -> Any:
    """For `x.expand(B, T, D)` or `x.repeat(1, T, 1)` of a dense x with one entry for each row, or one for all, and a dim of size 1 that becomes
    as long as rows: (packed elements, lengths, the dim, the other sizes)."""
    x, sizes = arguments["input"], arguments.get("repeats") or arguments.get("dims") or arguments["sizes"]
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    count = _count("expand", sizes)
    if count is None or not isinstance(x, Tensor) or len(sizes) < x.ndim or isinstance(sizes[0], RaggedSize):
        return NotImplemented
    x = run("getitem", x, (None,) * (len(sizes) - x.ndim))
    ragged = [dim for dim, size in enumerate(sizes) if isinstance(size, RaggedSize)]
    rows_asked = (1, -1, count) if x.shape[0] == 1 else (1, -1, count)[: 2 + expands]
    if len(ragged) != 1 or x.shape[ragged[0]] != 1 or x.shape[0] not in (1, count) or sizes[0] not in rows_asked:
        return NotImplemented
    dim = ragged[0]
    part = sizes[dim].partition
    rows = part.array("rows") if x.shape[0] == count else np.zeros(part.total, np.int64)
    # (total, ...) with the ragged dim in front
    front = run("index_select", x.squeeze(dim), 0, index_of(rows, x))
    return front.movedim(0, dim - 1), part, dim, [size for at, size in enumerate(sizes) if at not in (0, dim)]


def expand(arguments: dict[str, Any]) -> Any:
    pieces = stretched(arguments, True)
    if pieces is NotImplemented:
        return pieces
    packed, part, dim, sizes = pieces
    sizes.insert(dim - 1, part.total)
    return make(packed.expand(*sizes), part, dim)


def repeat(arguments: dict[str, Any]) -> Any:
    pieces = stretched(arguments, False)
    if pieces is NotImplemented:
        return pieces
    packed, part, dim, sizes = pieces
    sizes.insert(dim - 1, 1)
    return make(packed.repeat(*sizes), part, dim)


SIZED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "getitem": cut,
    "expand.public": expand,
    "repeat.public": repeat,
    "tile": repeat,
}


def _count(who: str, sizes: Any) -> int | None:
    """How many rows the ragged ones of `sizes` have; None: there is no ragged one."""
    counts = {size.partition.count: size for size in sizes if isinstance(size, RaggedSize)}
    if len(counts) > 1:
        first, second = list(counts.values())[:2]
        raise ShapeError(
            f"{who}: ragged sizes of {first.partition.count} and of {second.partition.count} rows (lengths {shown(first.partition.lengths)} and "
            f"{shown(second.partition.lengths)}). All need the same rows."
        )
    return next(iter(counts), None)
