"""Ops on single vectors or matrices, which have no batch: each row is computed for itself, and the results are put together as rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.ops.op import rows_with
from dynograd.ragged.calls import Call, own_function, ragged_rule
from dynograd.ragged.families.groups import Groups, joined
from dynograd.ragged.families.levels import SHARED, is_deep, lifted
from dynograd.ragged.families.selecting import row_of
from dynograd.ragged.invoking import invoke
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.tensor import Tensor

__all__ = ["each"]


@ragged_rule(*rows_with("ragged", "each"), kind="each", note="each row for itself")
def each(call: Call) -> Any:
    """Each row for itself; results with the shapes of rows are ragged."""
    ragged = call.ragged()
    if any([is_deep(x) for x in ragged]):
        return lifted(call)
    count = ragged[0].partition.count
    for x in ragged[1:]:
        if x.partition.count != count:
            ragged[0].partition.check_same(call.name, x.partition)
    rank = max(x.ndim for x in ragged)

    def own(name: str, value: Any, number: int) -> Any:
        if isinstance(value, RaggedTensor):
            return row_of(value, number)
        if type(value) in (list, tuple):
            return type(value)(own(name, entry, number) for entry in value)
        if isinstance(value, Tensor) and name not in SHARED and value.ndim == rank and value.shape[0] == count:
            return value.select(0, number)  # type: ignore[attr-defined]
        return value

    batches = []
    for number in range(count):
        batches.append(
            _as_batch(_alone(call, {name: own(name, value, number) for name, value in call.arguments.items()}))
        )

    def probe(call: Call, arguments: dict[str, Any]) -> Any:
        """The op on a batch of one, without the batch."""

        def first(whole: Any, row: Any) -> Any:
            if type(whole) in (list, tuple):
                return type(whole)(first(*pair) for pair in zip(whole, row, strict=True))
            batch = isinstance(whole, RaggedTensor) or (isinstance(row, Tensor) and row.ndim == rank)
            return row[0] if batch else row

        return _as_batch(_alone(call, {name: first(call[name], row) for name, row in arguments.items()}))

    return joined(call, ragged, _Single(ragged), batches, probe)


def _alone(call: Call, arguments: dict[str, Any]) -> Any:
    result = invoke(own_function(call.key), call.op, arguments)
    if (
        call.name in ("cov", "corrcoef") and arguments["input"].ndim == 2
    ):  # of one variable a number, but rows need equally many dims
        return result.reshape(2 * (arguments["input"].shape[0],))
    return result


def _as_batch(result: Any) -> Any:
    return type(result)(part.unsqueeze(0) for part in result) if type(result) in (tuple, list) else result.unsqueeze(0)


class _Single(Groups):
    """Each row is a group."""

    def __init__(self, ragged: list[RaggedTensor]) -> None:
        super().__init__(ragged)
        self.rows = [np.array([number], np.int64) for number in range(self.count)]
        self.order = self.inverse = np.arange(self.count, dtype=np.int64)
        self.sorted, self.whole = True, False
