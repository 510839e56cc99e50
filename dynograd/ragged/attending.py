"""Attention between ragged tensors: each row's queries see the keys of the same row, and nothing is padded."""

from __future__ import annotations

import math
from typing import Any

from dynograd.ops.op import registry
from dynograd.ops.ragged_attentions import attended_over, checked_tokens
from dynograd.ragged.calls import Call, ragged_rule
from dynograd.ragged.elementwise import run
from dynograd.ragged.groups import grouped
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.ragged.tensor import RaggedTensor

__all__ = ["attend"]


def attend(
    who: str,
    query: Any,
    key: Any,
    value: Any,
    rows: Partition,
    others: Partition,
    key_mask: Any = None,
    p: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
    grouped: bool = False,
) -> Any:
    """`varlen_attention` of query (Tq, H, E), key and value (Tk, H, *) whose rows are those of two partitions."""
    checked_tokens(who, query, key, value, key_mask, grouped)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    device = query.device
    weights = query.shape[1] * int((rows.lengths * others.lengths).sum()) if p else 0
    window, longest = (-1, 0 if causal else -1), (rows.longest, others.longest)
    offsets = rows.tensor("offsets", device), others.tensor("offsets", device)
    return attended_over(query, key, value, *offsets, key_mask, window, False, scale, p, weights, longest)


@ragged_rule("scaled_dot_product_attention.public", kind="segments")
def scaled_dot_product_attention(call: Call) -> Any:
    """Row by row, for (B, H, j, E) and (B, j, E); several lengths of queries and keys, causal, grouped heads, dropout."""
    named = {name: call[name] for name in ("query", "key", "value")}
    rank = max(one.ndim for one in named.values())
    if rank not in (3, 4) or any([isinstance(one.partition, Shapes) for one in call.ragged()]):
        return grouped(call)
    if call["attn_mask"] is not None:
        return NotImplemented
    for one in named.values():
        if not isinstance(one, RaggedTensor) or one.ndim != rank or one.place != rank - 2:
            return NotImplemented
    query, key, value = named.values()
    key.partition.check_same(call.name, value.partition, ("the key", "the value"))
    if query.partition.count != key.partition.count:
        query.partition.check_same(call.name, key.partition, ("the query", "the key"))
    q, k, v = (_tokens_first(one.packed) for one in (query, key, value))
    p, causal = call["dropout_p"], bool(call["is_causal"])
    found = attend(
        call.name, q, k, v, query.partition, key.partition, None, p, causal, call["scale"], call["enable_gqa"]
    )
    return query.with_packed(run("permute", found, (1, 0, 2)) if rank == 4 else registry["squeeze"].function(found, 1))


def _tokens_first(packed: Any) -> Any:
    """(T, H, E) of (H, T, E) or of (T, E)."""
    return run("permute", packed, (1, 0, 2)) if packed.ndim == 3 else registry["unsqueeze"].function(packed, 1)
