"""Embeddings of ragged indices: one vector for each real token, or one for each row."""

from __future__ import annotations

from typing import Any

from dynograd.ragged.calls import Call, ragged_rule
from dynograd.ragged.families.groups import grouped
from dynograd.ragged.families.levels import is_deep, lifted
from dynograd.ragged.partitions import Shapes
from dynograd.ragged.tensor import RaggedTensor


@ragged_rule("embedding.public", kind="packed")
def embedding(call: Call) -> Any:
    """A vector for each real token: (B, j) gives (B, j, D)."""
    x = call["input"]
    if not isinstance(x, RaggedTensor):
        raise call.refuse("the weight is one table for all rows; a ragged one (x.values() is the table) has none.")
    if isinstance(x.partition, Shapes):
        return grouped(call)
    return x.with_packed(call.with_(input=x.packed))


@ragged_rule("embedding", kind="inner")
def embedding_op(call: Call) -> Any:
    """A vector for each real token."""
    x = call["indices"]
    return x.with_packed(call.with_(indices=x.packed))


@ragged_rule("embedding_bag", kind="segments")
def embedding_bag(call: Call) -> Any:
    """Each row (B, j) is a bag, or of (B, j, N) each token; no offsets. `per_sample_weights` is ragged like the indices."""
    x, weights = call["input"], call["per_sample_weights"]
    if is_deep(x):
        return lifted(call)
    if not isinstance(x, RaggedTensor) or x.place != 1 or x.ndim > 3:
        raise call.refuse(
            "expected ragged indices (B, j), a bag for each row, or (B, j, N), one for each token. Use x.values() and offsets."
        )
    if call["offsets"] is not None:
        raise ValueError(
            f"{call.name}: offsets should be None for ragged input, whose rows are the bags. Leave offsets out."
        )
    if isinstance(weights, RaggedTensor):
        x.partition.check_same(call.name, weights.partition, ("the input", "the per_sample_weights"))
        weights = weights.packed
    if x.ndim == 3:
        return x.with_packed(call.with_(input=x.packed, per_sample_weights=weights))
    starts = x.partition.tensor("starts", x.device)
    return call.with_(input=x.packed, offsets=starts, per_sample_weights=weights, include_last_offset=False)
