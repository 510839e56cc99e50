"""Batch rules of what runs along one dim: softmax, cumulative ops, sorting."""

from __future__ import annotations

from typing import Any

from dynograd.transforms.batching.batched import run
from dynograd.transforms.batching.calls import Call, rule


@rule(
    "softmax",
    "log_softmax",
    "cumsum",
    "sum_onwards",
    "cumprod",
    "cummax",
    "cummin",
    "logcumsumexp",
    "reversed_along",
    "sort",
    "argsort",
    "topk",
)
def along_dim(call: Call) -> Any:
    """The result has the example's dims; examples of no dims are rows of one element."""
    if call.rank("input"):
        return call.with_(dim=call["dim"] + 1)
    result = call.with_(input=run("view", call["input"], (call.size, 1)), dim=1)
    if isinstance(result, tuple):
        return type(result)(*[run("view", tensor, (call.size,)) for tensor in result])
    return run("view", result, (call.size,))


@rule("recurrence")
def recurrence(call: Call) -> Any:
    if not call.rank("input"):
        return NotImplemented
    return call.with_(input=call.front("input"), decay=call.front("decay"), dim=call["dim"] + 1)


@rule("cross")
def cross(call: Call) -> Any:
    return call.with_(input=call.front("input"), other=call.front("other"), dim=call["dim"] + 1)
