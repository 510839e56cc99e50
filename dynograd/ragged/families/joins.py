"""Ragged tensors joined and divided: along the rows, along the ragged dim (each row with its own), along other dims."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.base.shapes import normalize_dim
from dynograd.errors import ShapeError
from dynograd.ops.op import registry
from dynograd.ragged.calls import Call, ragged_rule
from dynograd.ragged.families.groups import grouped
from dynograd.ragged.families.indexing import item, sliced
from dynograd.ragged.families.selecting import gathered, rows_between
from dynograd.ragged.invoking import run
from dynograd.ragged.making import ragged_tensor
from dynograd.ragged.partitions import Partition, RaggedSize, Shapes
from dynograd.ragged.tensor import RaggedTensor, make

__all__ = ["joined_rows"]


def as_ragged(who: str, x: Any, like: RaggedTensor) -> RaggedTensor:
    """A dense tensor (B, L, *) as rows of one length."""
    if isinstance(x, RaggedTensor):
        return x
    if x.ndim != like.ndim or isinstance(like.partition, Shapes):
        raise ShapeError(
            f"{who}: expected tensors of {like.ndim} dims like the ragged one, got shape {tuple(x.shape)}."
        )
    if isinstance(like.packed, RaggedTensor):
        return ragged_tensor([list(row.unbind(0)) for row in x.unbind(0)])
    place = like.place
    front = x.movedim(place, 1)
    flat = front.reshape(front.shape[0] * front.shape[1], *front.shape[2:])
    part = Partition(np.full(front.shape[0], front.shape[1], np.int64))
    return make(flat.movedim(0, place - 1) if place > 1 else flat, part, place)


@ragged_rule("cat", kind="rows", note="rows behind rows (dim 0), each row with its own (the ragged dim), or features")
def cat(call: Call) -> Any:
    """Along dim 0 the rows of all; along the ragged dim each row with those of the others."""
    tensors = list(call["tensors"])
    like = next(tensor for tensor in tensors if isinstance(tensor, RaggedTensor))
    dim = normalize_dim("cat", call["dim"], like.ndim)
    tensors = [tensor for tensor in tensors if isinstance(tensor, RaggedTensor) or tuple(tensor.shape) != (0,)]
    if dim and (
        isinstance(like.partition, Shapes)
        or any([tensor.place != like.place for tensor in tensors if isinstance(tensor, RaggedTensor)])
    ):
        return grouped(call)
    if isinstance(like.partition, Shapes):
        rows = [row for tensor in tensors for row in tensor.unbind(0)]
        return ragged_tensor(
            rows, ragged_dims=[place for place, size in enumerate(like.partition.fixed, 1) if size is None]
        )
    tensors = [as_ragged("cat", tensor, like) for tensor in tensors]
    if not dim:
        return joined_rows(tensors)
    if dim != like.place:
        for tensor in tensors[1:]:
            tensors[0].partition.check_same("cat", tensor.partition, ("the first", "a later"))
        return like.with_packed(call.on({"tensors": [tensor.packed for tensor in tensors], "dim": dim - 1}), like.place)
    parts = [tensor.partition for tensor in tensors]
    for part in parts[1:]:
        if part.count != parts[0].count:
            raise ShapeError(
                f"cat: ragged tensors of {parts[0].count} and {part.count} rows along dim {dim}. Each row needs one of the other."
            )
    whole = Partition(sum([part.lengths for part in parts]))  # type: ignore[arg-type]
    places = np.empty(whole.total, np.int64)
    before, shift = np.zeros(whole.count, np.int64), 0
    for part in parts:
        target = np.repeat(whole.offsets[:-1] + before - part.offsets[:-1], part.lengths) + np.arange(part.total)
        places[target] = shift + np.arange(part.total)
        before, shift = before + part.lengths, shift + part.total
    together = call.on({"tensors": [tensor.packed for tensor in tensors], "dim": dim - 1})
    return make(gathered(make(together, Partition(np.array([shift], np.int64)), dim), places), whole, dim)


def joined_rows(tensors: list[RaggedTensor]) -> RaggedTensor:
    """The rows of all of them behind one another."""
    place = tensors[0].place
    part = Partition(np.concatenate([tensor.partition.lengths for tensor in tensors]))
    if isinstance(tensors[0].packed, RaggedTensor):
        return make(joined_rows([tensor.packed for tensor in tensors]), part, place)
    return make(run("cat", [tensor.packed for tensor in tensors], place - 1), part, place)


@ragged_rule("stack", kind="rows")
def stack(call: Call) -> Any:
    """A new dim: in front, one row of rows for each; elsewhere beside the ragged dim."""
    tensors = list(call["tensors"])
    like = next(tensor for tensor in tensors if isinstance(tensor, RaggedTensor))
    dim = normalize_dim("stack", call["dim"], like.ndim + 1)
    tensors = [as_ragged("stack", tensor, like) for tensor in tensors]
    if not dim:
        counts = np.array([tensor.partition.count for tensor in tensors], np.int64)
        return make(joined_rows(tensors), Partition(counts))
    if isinstance(like.partition, Shapes) or any([tensor.place != like.place for tensor in tensors]):
        return grouped(call)
    for tensor in tensors[1:]:
        tensors[0].partition.check_same("stack", tensor.partition, ("the first", "a later"))
    if isinstance(like.packed, RaggedTensor) and dim == 1:
        return run("cat", [run("unsqueeze", tensor, 1) for tensor in tensors], 1)
    packed = call.on({"tensors": [tensor.packed for tensor in tensors], "dim": dim - 1})
    return like.with_packed(packed, like.place + (dim <= like.place))


# --- parts -------------------------------------------------------------------------------------------------------------------


@ragged_rule("split_with_sizes", "unsafe_split_with_sizes", kind="rows")
def split_with_sizes(call: Call) -> Any:
    """Rows by their number; along the ragged dim all rows must have the length that the sizes sum to."""
    x = call["input"]
    return tuple(_pieces(call, x, list(call["split_sizes"]), normalize_dim("split", call["dim"], x.ndim)))


@ragged_rule("split", "unsafe_split", "split_copy", kind="rows")
def split(call: Call) -> Any:
    """Along the ragged dim as many pieces as the longest row has; those of shorter rows are shorter, or empty."""
    x = call["tensor"]
    size = call["split_size_or_sections"] if call["split_size"] is None else call["split_size"]
    dim = normalize_dim("split", call["dim"], x.ndim)
    return tuple(_pieces(call, x, size if isinstance(size, int) else list(size), dim))


def _pieces(call: Call, x: RaggedTensor, size: Any, dim: int) -> list[Any]:
    part = x.partition
    if isinstance(size, int) and size <= 0:
        raise ShapeError(f"split: split_size must be positive, got {size}.")
    if dim and (isinstance(part, Shapes) or dim != x.place):
        if isinstance(part, Shapes):
            return list(grouped(call))
        parts = run("split", x.packed, size, dim - 1)
        return [x.with_packed(part) for part in parts]
    total = part.count if not dim else part.longest
    sizes = size if isinstance(size, list) else [size] * max(-(-total // size), 1)
    if isinstance(size, list):
        wrong = sum(size) != part.count if not dim else part.lengths != sum(size)
        if np.any(wrong):
            where = (
                f"the {part.count} rows"
                if not dim
                else f"row {int(np.argmax(wrong))}, which has {part.lengths[int(np.argmax(wrong))]} elements"
            )
            raise ShapeError(f"split: split_sizes {size} sum to {sum(size)} and not to {where}.")
    pieces, first = [], 0
    for count in sizes:
        if dim:
            pieces.append(sliced(x, slice(first, first + count)))
        else:
            pieces.append(rows_between(x, first, min(first + count, part.count)))
        first += count
    return pieces


@ragged_rule("chunk", "unsafe_chunk", kind="rows")
def chunk(call: Call) -> Any:
    """Along the ragged dim, `chunks` pieces of each row, the last ones shorter or empty."""
    x, chunks = call["input"], call["chunks"]
    dim = normalize_dim("chunk", call["dim"], x.ndim)
    if chunks < 1:
        raise RuntimeError(f"chunk: chunk expects `chunks` to be greater than 0, got: {chunks}")
    if dim != x.place or isinstance(x.partition, Shapes):
        size = x.partition.count if not dim else x.shape[dim]
        if not isinstance(size, int):
            return grouped(call)
        return (
            tuple(_pieces(Call("split", registry["split"], {}), x, max(-(-size // chunks), 1), dim))
            if not isinstance(x.partition, Shapes) or not dim
            else grouped(call)
        )
    sizes = -(-x.partition.lengths // chunks)
    return tuple([_of_each(x, sizes * number, sizes * (number + 1)) for number in range(chunks)])


@ragged_rule("tensor_split", kind="rows")
def tensor_split(call: Call) -> Any:
    """Along the ragged dim each row for itself, into parts as equal as its length allows."""
    x = call["input"]
    dim = normalize_dim("tensor_split", call["dim"], x.ndim)
    sections = next(
        value for value in (call["indices_or_sections"], call["indices"], call["sections"]) if value is not None
    )
    if hasattr(sections, "tolist"):
        sections = sections.tolist()
    part = x.partition
    if dim and (dim != x.place or isinstance(part, Shapes)):
        if isinstance(part, Shapes):
            return grouped(call)
        return tuple([x.with_packed(piece) for piece in run("tensor_split", x.packed, sections, dim - 1)])
    lengths = part.lengths if dim else np.array([part.count], np.int64)
    if isinstance(sections, int):
        if sections < 1:
            raise RuntimeError(f"tensor_split: number of sections must be larger than 0, got {sections}.")
        sizes, more = lengths // sections, lengths % sections
        ends = [sizes * (number + 1) + np.minimum(number + 1, more) for number in range(sections)]
    else:
        ends = [
            np.clip(np.where(number < 0, lengths + number, number), 0, lengths) for number in map(int, sections)
        ] + [lengths]
    starts = [np.zeros_like(lengths), *ends[:-1]]
    if dim:
        return tuple([_of_each(x, first, np.maximum(first, last)) for first, last in zip(starts, ends, strict=True)])
    return tuple(
        [
            rows_between(x, int(first[0]), max(int(first[0]), int(last[0])))
            for first, last in zip(starts, ends, strict=True)
        ]
    )


@ragged_rule("vsplit", "hsplit", "dsplit", kind="rows")
def even_split(call: Call) -> Any:
    """`tensor_split` along dim 0, 1 or 2, into parts that are equal in every row."""
    x, dim = call["input"], ("vsplit", "hsplit", "dsplit").index(call.name)
    sections = call["indices_or_sections"]
    sections = sections[0] if len(sections) == 1 else sections
    if dim >= x.ndim:
        raise ShapeError(f"{call.name}: expected a tensor of {dim + 1} dims at least, got shape {tuple(x.shape)}.")
    if isinstance(sections, int):
        size = x.shape[dim]
        sizes = size.partition.lengths if isinstance(size, RaggedSize) else np.array([size])
        wrong = sizes % max(sections, 1) != 0
        if wrong.any() or sections < 1:
            row = int(wrong.argmax())
            where = (
                f"row {row} has {sizes[row]} elements"
                if dim and isinstance(size, RaggedSize)
                else f"the size is {sizes[row]}"
            )
            raise ShapeError(
                f"{call.name}: dim {dim} is not divisible into {sections} equal parts: {where}. Use tensor_split."
            )
    return run("tensor_split", x, sections, dim)


def _of_each(x: RaggedTensor, first: np.ndarray, last: np.ndarray) -> RaggedTensor:
    """Elements `first[i]` to `last[i]` of row i, cut to what it has."""
    first, last = np.minimum(first, x.partition.lengths), np.minimum(last, x.partition.lengths)
    kept = Partition(last - first)
    return make(gathered(x, Partition.places_from(x.partition.offsets[:-1] + first, kept)), kept, x.place)


@ragged_rule("narrow", "narrow_copy", kind="rows")
def narrow(call: Call) -> Any:
    """`x[:, start:start + length]`: rows that are too short are an error, as in each row alone."""
    x, start, length = call["input"], call["start"], call["length"]
    dim = normalize_dim("narrow", call["dim"], x.ndim)
    start = int(start.item()) if hasattr(start, "item") else int(start)
    part = x.partition
    sizes = (
        part.lengths
        if dim == x.place and not isinstance(part, Shapes)
        else np.array([part.count if not dim else x.shape[dim]])
    )
    low = np.where(start < 0, sizes + start, start)
    wrong = (low < 0) | (low + length > sizes) if length >= 0 else np.ones_like(low, bool)
    if wrong.any():
        row = int(wrong.argmax())
        raise ShapeError(
            f"narrow: start ({start}) + length ({length}) exceeds dimension size ({sizes[row]}){f' of row {row}' if dim == x.place else ''}. "
            f"x[:, start:stop] cuts each row to what it has."
        )
    if isinstance(part, Shapes) and dim:
        return grouped(call)
    if not dim:
        return rows_between(x, int(low[0]), int(low[0]) + length)
    if dim != x.place:
        return x.with_packed(run("narrow", x.packed, dim - 1, start, length))
    return _of_each(x, low, low + length)


@ragged_rule("select", "select_copy", kind="rows")
def select(call: Call) -> Any:
    """One index of a dim, without that dim: `x[:, index]`."""
    x = call["input"]
    dim = normalize_dim("select", call["dim"], x.ndim)
    index = call["index"]
    return x[(*(slice(None),) * dim, int(index.item()) if hasattr(index, "item") else index)]


@ragged_rule("slice_copy", kind="rows")
def slice_copy(call: Call) -> Any:
    """`x[:, start:end:step]`."""
    x = call["input"]
    dim = normalize_dim("slice_copy", call["dim"], x.ndim)
    return x[(*(slice(None),) * dim, slice(call["start"], call["end"], call["step"]))]


@ragged_rule("index_select", kind="rows")
def index_select(call: Call) -> Any:
    """Rows by their numbers, the same places of each row (dense), or slices of another dim."""
    x, index = call["input"], call["index"]
    if not isinstance(x, RaggedTensor):
        if (
            isinstance(index, RaggedTensor)
            and normalize_dim("index_select", call["dim"], x.ndim) == 0
            and index.ndim == 2
        ):
            return index.with_packed(call.with_(index=index.packed))
        raise call.refuse("a ragged index picks along dim 0 of a dense tensor; use x.movedim(dim, 0)[index].")
    dim = normalize_dim("index_select", call["dim"], x.ndim)
    return item(x, (*(slice(None),) * dim, index))
