"""Batch rules of losses: one call for the scores of all examples, whose losses are then reduced example by example."""

from __future__ import annotations

from typing import Any

from dynograd.transforms.batching.batched import Batched, run
from dynograd.transforms.batching.calls import Call, rule


@rule("cross_entropy", "nll_loss")
def of_classes(call: Call) -> Any:
    """Examples of scores (C,) or (N, C) and class numbers. Factors of classes, and means that may be over nothing, go another way."""
    rank, reduction = call.rank("input"), call["reduction"]
    if hasattr(type(call["input"]), "__dynograd_rows__"):
        return _of_rows(call)
    if rank not in (1, 2) or call["weight"] is not None or not call.size:
        return NotImplemented
    scores, target = call.front("input"), call.front("target")
    if type(scores) is Batched or type(target) is Batched or target.ndim != rank:
        return NotImplemented
    if reduction == "mean" and (target.device.type != "cpu" or bool((target.array == call["ignore_index"]).any())):
        return NotImplemented
    if rank == 2:
        scores = run("view", scores, (-1, scores.shape[-1]))
        target = run("view", target, (-1,))
    loss = call.with_(input=scores, target=target, reduction="none")
    if rank == 1:
        return loss
    loss = run("view", loss, (call.size, -1))
    return loss if reduction == "none" else run(reduction, loss, (1,), False)


def _of_rows(call: Call) -> Any:
    """Examples that are the rows of ragged scores (V, j, C), with class numbers (V, j)."""
    scores, target, weight = call["input"], call["target"], call["weight"]
    if (
        scores.ndim != 3
        or scores.place != 1
        or not hasattr(type(target), "__dynograd_rows__")
        or "weight" in call.batched
    ):
        return NotImplemented
    scores.partition.check_same(call.op.name, target.partition, ("the input", "the target"))
    losses = scores.with_packed(call.with_(input=scores.packed, target=target.packed, reduction="none"))
    if call["reduction"] == "none":
        return losses
    total = losses.sum(1)
    if call["reduction"] == "sum":
        return total
    counted = target.packed != call["ignore_index"]
    share = counted if weight is None else weight[target.packed * counted] * counted
    return total / target.with_packed(share.to(total.dtype)).sum(1)
