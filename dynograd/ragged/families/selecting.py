"""Rows of a ragged tensor: some of them, in another order, several times."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.ops.index.indices import FULL
from dynograd.ragged.families.groups import index_of
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.ragged.tensor import RaggedTensor, make

__all__ = ["gathered", "row_of", "rows_at", "rows_between"]


def row_of(x: RaggedTensor, number: int) -> Any:
    """Row `number` (from 0): a view."""
    part = x.partition
    first, last = int(part.offsets[number]), int(part.offsets[number + 1])
    if isinstance(part, Shapes):
        return run("view", run("basic_index", x.packed, (slice(first, last),)), tuple(part.sizes[number].tolist()))
    if isinstance(x.packed, RaggedTensor):
        return rows_between(x.packed, first, last)
    return run("basic_index", x.packed, (slice(None),) * (x.place - 1) + (slice(first, last),))


def rows_between(x: RaggedTensor, first: int, last: int) -> RaggedTensor:
    """Rows `first` to `last`, as a view."""
    part = x.partition
    begin, end = int(part.offsets[first]), int(part.offsets[last])
    if isinstance(part, Shapes):
        rows: Partition = Shapes(part.sizes[first:last], part.fixed)
    else:
        rows = Partition(part.lengths[first:last], part.offsets[first : last + 1] - begin)
    return make(elements_between(x, begin, end), rows, x.place)


def elements_between(x: RaggedTensor, begin: int, end: int) -> Any:
    if isinstance(x.packed, RaggedTensor):
        return rows_between(x.packed, begin, end)
    return run("basic_index", x.packed, (*(slice(None),) * (max(x.place, 1) - 1), slice(begin, end)))


def rows_at(x: RaggedTensor, rows: np.ndarray) -> RaggedTensor:
    """The rows with these numbers (from 0), in this order."""
    if len(rows) and (np.diff(rows) == 1).all():
        return rows_between(x, int(rows[0]), int(rows[-1]) + 1)
    part, places = x.partition.of_rows(rows)
    return make(gathered(x, places), part, x.place)


def gathered(x: RaggedTensor, places: np.ndarray) -> Any:
    """The packed elements of `x` at these places of the packed dim."""
    if isinstance(x.packed, RaggedTensor):
        return rows_at(x.packed, places)
    lead = max(x.place, 1) - 1
    return run("index", x.packed, [index_of(places, x.packed)], (*(FULL,) * lead, 0))
