"""gather and scatter along the ragged dim: places in rows as places in the packed elements, for one dense call."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.errors import IndexRangeError
from dynograd.ragged.calls import Call
from dynograd.ragged.families.groups import index_of
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.ragged.tensor import RaggedTensor

__all__ = ["moved_along_rows"]


def moved_along_rows(call: Call, x: Any, index: Any) -> Any:
    """gather, scatter and their kin of rows (B, j, *) with an index for each row: ragged, or (B, k, *) dense. None: not so simple."""
    if not isinstance(x, RaggedTensor) or x.place != 1 or not _plain(x) or index.ndim != x.ndim:
        return None
    part = x.partition
    if isinstance(index, RaggedTensor):
        if index.place != 1 or not _plain(index) or index.partition.count != part.count:
            return None
        own = index.partition
    elif index.shape[0] == part.count:
        own = Partition(np.full(part.count, index.shape[1], np.int64))
    else:
        return None
    arguments: dict[str, Any] = {"input": x.packed, "dim": 0}
    for name in ("index", "src"):
        operand = call.get(name)
        if getattr(operand, "ndim", 0) < 1:
            continue
        packed = _packed(operand, own)
        if packed is None:
            return None
        arguments[name] = packed
    arguments["index"] = _shifted(call.name, arguments["index"], part, own)
    packed = call.with_(**arguments)
    if call.name != "gather":
        return x.with_packed(packed)
    if isinstance(index, RaggedTensor):
        return index.with_packed(packed)
    return run("view", packed, tuple(index.shape))


def _plain(x: RaggedTensor) -> bool:
    return not isinstance(x.partition, Shapes) and not isinstance(x.packed, RaggedTensor)


def _packed(operand: Any, own: Partition) -> Any:
    """An operand in the rows of the index, as packed elements; None where it has others."""
    if isinstance(operand, RaggedTensor):
        return operand.packed if operand.place == 1 and _plain(operand) and operand.partition.same(own) else None
    shape = tuple(operand.shape)
    if len(shape) < 2 or own.uniform != shape[1] or shape[0] != own.count:
        return None
    return run("reshape", operand, (own.total, *shape[2:]))


def _shifted(who: str, index: Any, part: Partition, own: Partition) -> Any:
    """The index counted from the first packed element.

    Raises:
        IndexRangeError: outside of the row.
    """
    rows = own.array("rows")
    column = (len(rows), *(1,) * (index.ndim - 1))

    def beside(numbers: np.ndarray) -> Any:
        return run("reshape", index_of(numbers[rows], index), column)

    wrong = (index < 0) | (index >= beside(part.lengths))
    if bool(wrong.any()):
        place = int(np.flatnonzero(arrays.to_numpy(wrong.array).any(tuple(range(1, index.ndim))))[0])
        row = int(rows[place])
        values = arrays.to_numpy(index.array)[place].reshape(-1)
        value = next(int(value) for value in values if not 0 <= value < part.lengths[row])
        last = part.lengths[row] - 1
        expected = f"Expected 0 to {last}." if last >= 0 else "Give it no index, or an element."
        raise IndexRangeError(
            f"{who}: index {value} is out of bounds for row {row}, which has {last + 1} elements. {expected}"
        )
    return index + beside(part.offsets[:-1])
