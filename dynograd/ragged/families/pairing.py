"""Index vectors of several dims of a ragged tensor, which go together pair by pair: `x[[0, 2], [1, 3]]` is x[0, 1] and x[2, 3].

As in a dense tensor, one vector for the rows and one for another dim are broadcast against one another; the result has one entry for
each pair, in dim 0: `x[torch.arange(len(x)), x.lengths() - 1]` are the last elements of all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.errors import IndexRangeError, ShapeError
from dynograd.ops.index.indices import FULL
from dynograd.ragged.calls import Refusal
from dynograd.ragged.families.entries import host, is_vector, number, row_numbers
from dynograd.ragged.families.groups import index_of
from dynograd.ragged.families.selecting import row_of, rows_at
from dynograd.ragged.invoking import run
from dynograd.ragged.making import ragged_tensor
from dynograd.ragged.partitions import Shapes
from dynograd.ragged.tensor import RaggedTensor

__all__ = ["paired"]


def paired(x: RaggedTensor, first: Any, rest: list[Any]) -> Any:
    """`x[first, *rest]`, where `first` and some of `rest` are vectors."""
    if any([entry is None or isinstance(entry, RaggedTensor) for entry in rest]):
        raise Refusal("getitem: pairs of index vectors beside None or a ragged index; index in two steps.")
    numbers = _vector(first, x.partition.count)
    vectors = [_vector(entry, None) if is_vector(entry) else None for entry in rest]
    try:
        rows, *others = np.broadcast_arrays(numbers, *[vector for vector in vectors if vector is not None])
    except ValueError:
        shapes = [vector.shape for vector in (numbers, *vectors) if vector is not None]
        raise ShapeError(f"getitem: index vectors go together pair by pair, but have shapes {shapes}.") from None
    row_list, left = row_numbers(x.partition.count, rows), iter(others)
    entries = [entry if vector is None else next(left) for entry, vector in zip(rest, vectors, strict=True)]
    entries += [FULL] * (x.ndim - 1 - len(entries))
    if isinstance(x.partition, Shapes):
        return _one_by_one(x, row_list, entries)
    at = x.place - 1
    if isinstance(entries[at], np.ndarray):
        return _elements(x, row_list, entries, at)
    if at and any([isinstance(entry, np.ndarray) for entry in entries[:at]]):
        return _one_by_one(x, row_list, entries)
    return _beside(rows_at(x, row_list), entries, at)


def _vector(entry: Any, count: int | None) -> np.ndarray:
    numbers = host(entry)
    if numbers.dtype.kind == "b":
        numbers = row_numbers(count, numbers) if count is not None else np.flatnonzero(numbers)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise Refusal(
            f"getitem: index vectors of pairs must be vectors of integers, got {numbers.dtype} of shape {numbers.shape}."
        )
    return numbers.astype(np.int64)


def _elements(x: RaggedTensor, rows: np.ndarray, entries: list[Any], at: int) -> Any:
    """Element `entries[at][n]` of row `rows[n]`: (n, *)."""
    part, numbers = x.partition, entries[at]
    lengths = part.lengths[rows]
    wrong = (numbers < -lengths) | (numbers >= lengths)
    if wrong.any():
        pair = int(wrong.argmax())
        raise IndexRangeError(
            f"getitem: index {numbers[pair]} at position {pair} is out of bounds for row {rows[pair]}, which has {lengths[pair]} elements."
        )
    places = part.offsets[:-1][rows] + np.where(numbers < 0, numbers + lengths, numbers)
    others = [*entries[:at], *entries[at + 1 :]]
    if isinstance(x.packed, RaggedTensor):
        return _again(rows_at(x.packed, places), others)
    front = x.packed if not at else run("permute", x.packed, (at, *range(at), *range(at + 1, x.packed.ndim)))
    return run("getitem", front, (index_of(places, front), *[_given(other, front) for other in others]))


def _beside(x: RaggedTensor, entries: list[Any], at: int) -> Any:
    """Rows that are chosen already; vectors for dims behind the ragged one, of which each row has its own number."""
    own, later = entries[at], entries[at + 1 :]
    alone = number(own)
    if own != FULL:
        x = run("getitem", x, (FULL, *entries[:at], own))
        if alone is not None:
            return _again(x, [*[FULL] * at, *later])
    rows = x.partition.array("rows")
    spread = [entry[rows] if isinstance(entry, np.ndarray) else entry for entry in later]
    if isinstance(x.packed, RaggedTensor):
        return x.with_packed(paired(x.packed, np.arange(x.partition.total), spread))
    if at:
        return _one_by_one(x, np.arange(x.partition.count), [*[FULL] * (at + 1), *later])
    every = index_of(np.arange(x.partition.total), x.packed)
    return x.with_packed(run("getitem", x.packed, (every, *[_given(entry, x.packed) for entry in spread])))


def _again(x: Any, entries: list[Any]) -> Any:
    """The other entries of (n, *): vectors are paired with the n."""
    if all([isinstance(entry, slice) and entry == FULL for entry in entries]):
        return x
    if not any([isinstance(entry, np.ndarray) for entry in entries]):
        return x[(FULL, *entries)]
    return x[(np.arange(len(x)), *entries)]


def _given(entry: Any, like: Any) -> Any:
    return index_of(entry, like) if isinstance(entry, np.ndarray) else entry


def _one_by_one(x: RaggedTensor, rows: np.ndarray, entries: list[Any]) -> Any:
    """Pair by pair: rows with several ragged dims, or with vectors in front of the ragged one."""
    elements = [
        row_of(x, int(row))[tuple([int(entry[pair]) if isinstance(entry, np.ndarray) else entry for entry in entries])]
        for pair, row in enumerate(rows)
    ]
    if not elements:
        return x.packed[:0] if not isinstance(x.packed, RaggedTensor) else x.packed.packed[:0]
    part = x.partition
    ragged = [dim for dim, size in enumerate(part.fixed) if size is None] if isinstance(part, Shapes) else [x.place - 1]
    left = [dim for dim, entry in enumerate(entries) if isinstance(entry, slice)]
    dims = [left.index(dim) + 1 for dim in ragged if dim in left]
    return ragged_tensor(elements, ragged_dims=dims) if dims else run("stack", elements, 0)
