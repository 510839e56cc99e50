"""Batch rules of losses: one call for the scores of all examples, whose losses are then reduced example by example."""

from __future__ import annotations

from typing import Any

from dynograd.transforms.batching.batched import Batched, run
from dynograd.transforms.batching.calls import Call, rule

__all__: list[str] = []


@rule("cross_entropy", "nll_loss")
def of_classes(call: Call) -> Any:
    """Examples of scores (C,) or (N, C) and class numbers. Factors of classes, and means that may be over nothing, go another way."""
    rank, reduction = call.rank("input"), call["reduction"]
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
