"""`x[index]` and `x[index] = value` of ragged tensors.

The first entry picks rows: a number gives the row, a slice, list, index tensor or mask (B,) a ragged tensor of those rows. The entry of the ragged
dim counts within each row: `x[:, -1]` is the last element of each, `x[:, :k]` the first k (or fewer), and a ragged index tensor has
places of its own for each row. Entries of other dims read as in a dense tensor. A ragged mask keeps the true elements of each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.errors import IndexRangeError, ShapeError
from dynograd.kernels.attention.any_size import is_alike_at_any_size
from dynograd.ops.index.indices import FULL
from dynograd.ops.op import registry
from dynograd.ragged.calls import Call, Refusal, ragged_rule
from dynograd.ragged.families.entries import dims_of, host, in_range, is_vector, row_numbers
from dynograd.ragged.families.entries import entries as entries_of
from dynograd.ragged.families.entries import number as number_of
from dynograd.ragged.families.groups import Groups, Source, index_of, joined
from dynograd.ragged.families.pairing import paired
from dynograd.ragged.families.selecting import gathered, row_of, rows_at, rows_between
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes, shown
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.tensor.tensor import Tensor

__all__ = ["getitem", "item", "masked", "sliced"]


@ragged_rule("getitem", kind="rows", note="rows, elements of each row, masks and index tensors, also ragged ones")
def getitem(call: Call) -> Any:
    """Rows by the first entry, elements of each row by that of the ragged dim."""
    x, index = call["input"], call["index"]
    if not isinstance(x, RaggedTensor):
        return _dense_at(call, x, index)
    return item(x, index)


@ragged_rule("basic_index", kind="rows")
def basic_index(call: Call) -> Any:
    """As `getitem`."""
    return item(call["input"], call["index"])


def _dense_at(call: Call, x: Any, index: Any) -> Any:
    """A dense tensor at ragged places: `table[tokens]`."""
    entries = index if isinstance(index, tuple) else (index,)
    ragged = [entry for entry in entries if isinstance(entry, RaggedTensor)]
    like = ragged[0]
    for other in ragged[1:]:
        like.partition.check_same("getitem", other.partition)
    if like.dtype.name == "bool":
        raise call.refuse(
            "a ragged mask has no place in a dense tensor; make it ragged with ragged_from_padded(x, lengths), or use mask.to_padded(False)."
        )
    inner = tuple([entry.packed if isinstance(entry, RaggedTensor) else entry for entry in entries])
    elements = run("getitem", x, inner)
    lead = next(place for place, entry in enumerate(entries) if isinstance(entry, RaggedTensor))
    if lead:
        raise call.refuse("a ragged index of a dense tensor must stand in front; use x.movedim(dim, 0)[index].")
    return like.with_packed(elements)


def item(x: RaggedTensor, index: Any) -> Any:
    """`x[index]`."""
    if isinstance(index, RaggedTensor):
        return masked(x, index) if index.dtype.name == "bool" else _rows_of_rows(x, index)
    entries = entries_of(x, index)
    first, rest = entries[0], entries[1:]
    if first is None:
        return run("unsqueeze", item(x, tuple(rest)), 0) if rest else run("unsqueeze", x, 0)
    if isinstance(first, RaggedTensor) and first.dtype.name == "bool":
        rows = masked(x, first)
        return item(rows, (FULL,) * 2 + tuple(rest)) if rest else rows
    number = number_of(first)
    if number is not None:
        row = row_of(x, in_range(number, x.partition.count))
        return row[tuple(rest)] if rest else row
    if is_vector(first) and any([is_vector(entry) for entry in rest]):
        return paired(x, first, rest)
    if is_vector(first) and np.ndim(host(first)) == 2 and host(first).dtype.kind in "iu":
        return _levels_of_rows(x, host(first), rest)
    chosen = _rows(x, first)
    return (
        _within(chosen, rest)
        if any([entry is not None and entry != FULL if not isinstance(entry, Tensor) else True for entry in rest])
        or None in rest
        else chosen
    )


def _rows(x: RaggedTensor, entry: Any) -> RaggedTensor:
    if isinstance(entry, slice) and entry.step in (None, 1):
        first, last, _ = entry.indices(x.partition.count)
        whole = entry == FULL or (first == 0 and last == x.partition.count and not is_alike_at_any_size())
        return x if whole else rows_between(x, first, max(first, last))
    return rows_at(x, row_numbers(x.partition.count, entry))


def _levels_of_rows(x: RaggedTensor, index: np.ndarray, rest: list[Any]) -> Any:
    """Rows by an index of two dims: (n, k) rows, of which each n is a row of rows."""
    part = Partition(np.full(index.shape[0], index.shape[1], np.int64))
    levels = make(rows_at(x, row_numbers(x.partition.count, index.reshape(-1))), part)
    return item(levels, (FULL, FULL, *rest)) if rest else levels


def _within(x: Any, entries: list[Any]) -> Any:
    """All rows, with an entry for each dim of a row (None makes a dim, missing ones are whole)."""
    if isinstance(x.partition, Shapes):
        return _within_shapes(x, entries)
    dim, at = 1, None
    for place, named in enumerate(entries):
        if named is None:
            continue
        if dim == x.place:
            at = place
        dim += dims_of(named)
    if at is None or (isinstance(entries[at], slice) and entries[at] == FULL):
        return _beside(x, entries, at)
    entry = entries[at]
    if isinstance(entry, RaggedTensor):
        if entry.dtype.name == "bool":
            raise Refusal("getitem: a ragged mask covers the rows too: x[mask], not x[:, mask].")
        x = _places_of_rows(x, entry)
    elif isinstance(entry, slice):
        x = sliced(x, entry)
    else:
        number = number_of(entry)
        if number is None:
            place = x.place
            x = _common_places(x, entry)
            dense_entries = [FULL, *entries]
            others = entries[:at] + entries[at + 1 :]
            pairs = any([is_vector(other) for other in others])
            dense_entries[at + 1] = np.arange(x.shape[place]) if pairs else FULL
            return (
                x[tuple(dense_entries)]
                if any([other is None or is_vector(other) or other != FULL for other in others])
                else x
            )
        elements = element(x, number)
        others = [FULL, *entries[:at], *entries[at + 1 :]]
        return elements[tuple(others)] if len(others) > 1 else elements
    entries = [*entries]
    entries[at] = FULL
    return _beside(x, entries, at)


def _beside(x: RaggedTensor, entries: list[Any], at: int | None) -> RaggedTensor:
    """Entries of dims beside the ragged one, on packed elements."""
    if isinstance(x.packed, RaggedTensor):
        if entries and entries[0] is None:
            raise Refusal("getitem: None in front of the upper level of rows; use x.unsqueeze(1).")
        return x.with_packed(item(x.packed, (FULL, *entries[1:])))
    if at is None:  # the ragged dim is not named: it is whole, behind all entries
        before = entries
        entries = [*entries, *[FULL] * (x.place - 1 - sum([dims_of(entry) for entry in before])), FULL]
        at = len(entries) - 1
    elements = run("getitem", x.packed, tuple(entries))
    lead, shape_lead = entries[:at], 0
    for entry in lead:
        if entry is None or isinstance(entry, slice):
            shape_lead += 1
        elif number_of(entry) is None:
            if any(
                [
                    number_of(other) is None and other is not None and not isinstance(other, slice)
                    for other in entries[at:]
                ]
            ):
                raise Refusal(
                    "getitem: index tensors on both sides of the ragged dim; index in two steps, x[:, index][..., other]."
                )
            shape_lead += (
                getattr(entry, "ndim", 1) if getattr(getattr(entry, "dtype", None), "name", "") != "bool" else 1
            )
    return x.with_packed(elements, shape_lead + 1)


def _within_shapes(x: RaggedTensor, entries: list[Any]) -> Any:
    """Rows with several ragged dims: rows of equal shape together, numbers and slices within each."""
    groups = Groups([x])
    source = Source(x, groups)
    index = (FULL, *entries)
    by_group = [run("getitem", source.dense(number), index) for number in range(len(groups.rows))]
    call = Call("getitem", registry["getitem"], {"input": x, "index": index})
    return joined(call, [x], groups, by_group)


# --- the ragged dim ----------------------------------------------------------------------------------------------------------


def element(x: RaggedTensor, number: int) -> Any:
    """(B, *) element `number` of each row; negative ones count from its end."""
    part = x.partition
    short = (part.lengths <= number) if number >= 0 else (part.lengths < -number)
    if short.any():
        row = int(short.argmax())
        raise IndexRangeError(
            f"getitem: index {number} is out of bounds for row {row}, which has {part.lengths[row]} elements (lengths {shown(part.lengths)}). "
            f"Take the rows that are long enough, x[x.lengths() > {number if number >= 0 else -number - 1}], or use x.to_padded()."
        )
    places = part.offsets[:-1] + number if number >= 0 else part.offsets[1:] + number
    return _picked_dense(x, places, (part.count,))


def _picked_dense(x: RaggedTensor, places: np.ndarray, shape: tuple[int, ...]) -> Any:
    """(B, dims in front, *shape[1:], dims behind): packed elements, one or k for each row."""
    if isinstance(x.packed, RaggedTensor):
        picked = rows_at(x.packed, places)
        if len(shape) == 1:
            return picked
        return make(picked, Partition(np.full(shape[0], shape[1], np.int64)))
    lead = x.place - 1
    index = index_of(places, x.packed)
    picked = run("index", x.packed, [index], (*(FULL,) * lead, 0))
    if lead:
        picked = run("permute", picked, (lead, *range(lead), *range(lead + 1, picked.ndim)))
    if len(shape) == 1:
        return picked
    rest = tuple(picked.shape)[1:]
    picked = run("reshape", picked, (*shape, *rest))
    return picked if not lead else run("permute", picked, (0, *range(2, lead + 2), 1, *range(lead + 2, picked.ndim)))


def sliced(x: RaggedTensor, entry: slice) -> RaggedTensor:
    """A slice of each row, cut to what the row has."""
    step = 1 if entry.step is None else int(entry.step)
    if step <= 0:
        raise ValueError(f"getitem: step must be greater than zero, got {step}. Use flip({x.place}).")
    part = x.partition
    lengths = part.lengths

    def bound(value: Any, default: np.ndarray) -> np.ndarray:
        if value is None:
            return default
        number = host(value).astype(np.int64) if isinstance(value, Tensor) and value.ndim else np.int64(int(value))
        return np.clip(np.where(number < 0, lengths + number, number), 0, lengths)

    first = bound(entry.start, np.zeros_like(lengths))
    last = np.maximum(bound(entry.stop, lengths), first)
    counts = -(-(last - first) // step)
    if step == 1 and part.count and np.array_equal(counts, lengths):
        return x
    kept = Partition(counts)
    inside = np.arange(kept.total, dtype=np.int64) - np.repeat(kept.offsets[:-1], counts)
    return make(gathered(x, np.repeat(part.offsets[:-1] + first, counts) + inside * step), kept, x.place)


def _places_of_rows(x: RaggedTensor, index: RaggedTensor) -> RaggedTensor:
    """Each row at its own places: `x[:, index]` with a ragged index (B, j)."""
    part, own = x.partition, index.partition
    if index.ndim != 2 or own.count != part.count:
        raise ShapeError(
            f"getitem: a ragged index of the ragged dim needs one vector for each of {part.count} rows, got shape {tuple(index.shape)}."
        )
    numbers = host(index.packed).astype(np.int64)
    lengths = np.repeat(part.lengths, own.lengths)
    wrong = (numbers < -lengths) | (numbers >= lengths)
    if wrong.any():
        at = int(wrong.argmax())
        row = int(own.array("rows")[at])
        raise IndexRangeError(
            f"getitem: index {numbers[at]} at position {at - int(own.offsets[row])} of row {row} is out of bounds: the row has "
            f"{part.lengths[row]} elements."
        )
    numbers = np.where(numbers < 0, numbers + lengths, numbers)
    return make(gathered(x, np.repeat(part.offsets[:-1], own.lengths) + numbers), own, x.place)


def _common_places(x: RaggedTensor, entry: Any) -> Any:
    """The same places of every row: a dense (B, k, *) tensor."""
    part, numbers = x.partition, host(entry)
    if numbers.dtype.kind == "b":
        numbers = np.flatnonzero(numbers)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise Refusal(
            f"getitem: an index of the ragged dim must be a vector of integers, got {numbers.dtype} of shape {numbers.shape}."
        )
    numbers = numbers.astype(np.int64)
    for number in numbers:
        short = (part.lengths <= number) if number >= 0 else (part.lengths < -number)
        if short.any():
            row = int(short.argmax())
            raise IndexRangeError(
                f"getitem: index {number} is out of bounds for row {row}, which has {part.lengths[row]} elements."
            )
    places = np.where(numbers >= 0, part.offsets[:-1, None] + numbers, part.offsets[1:, None] + numbers).reshape(-1)
    return _picked_dense(x, places, (part.count, len(numbers)))


def masked(x: RaggedTensor, mask: RaggedTensor) -> RaggedTensor:
    """The elements of each row where a ragged mask, of as many dims as it has, is true."""
    x.partition.check_same("getitem", mask.partition, ("the", "the mask's"))
    if isinstance(x.packed, RaggedTensor) and isinstance(mask.packed, RaggedTensor):
        return x.with_packed(masked(x.packed, mask.packed))
    if isinstance(x.partition, Shapes):
        real = host(mask.packed)
        counts = np.add.reduceat(np.append(real, False).astype(np.int64), x.partition.offsets[:-1]) * (
            x.partition.lengths > 0
        )
        return make(run("index", x.packed, [mask.packed], (0,)), Partition(counts.astype(np.int64)))
    if mask.place != 1 or x.place != 1:
        raise Refusal("getitem: a ragged mask of a tensor whose ragged dim is not 1; transpose first.")
    if tuple(mask.packed.shape)[1:] != tuple(x.packed.shape)[1 : mask.packed.ndim]:
        raise IndexError(f"getitem: the shape of the mask {tuple(mask.shape)} does not match {tuple(x.shape)}.")
    real = host(mask.packed)
    per_token = real.sum(tuple(range(1, real.ndim)), dtype=np.int64)
    counts = np.diff(np.concatenate(([0], np.cumsum(per_token)))[x.partition.offsets])
    if mask.packed.ndim == 1:
        return make(gathered(x, np.flatnonzero(real).astype(np.int64)), Partition(counts))
    return make(run("getitem", x.packed, mask.packed), Partition(counts))


def _rows_of_rows(x: RaggedTensor, index: RaggedTensor) -> RaggedTensor:
    """The rows named by a ragged index: one more level."""
    if isinstance(index.packed, RaggedTensor):
        return index.with_packed(_rows_of_rows(x, index.packed))
    return make(rows_at(x, row_numbers(x.partition.count, index.packed)), index.partition)
