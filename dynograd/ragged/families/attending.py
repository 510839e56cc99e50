"""Attention between ragged tensors: each row's queries see the keys of the same row, and nothing is padded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dynograd.base.dtypes import int64
from dynograd.errors import ShapeError
from dynograd.ops.attention.ragged_attentions import attended_over, checked_tokens
from dynograd.ops.layout.joins import cat
from dynograd.ops.op import registry
from dynograd.ragged.calls import Call, ragged_rule
from dynograd.ragged.families.groups import Groups, Source, back_in_order, grouped, index_of
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.creation import zeros

__all__ = ["attend", "attend_by_shape"]


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
    rank = max(operand.ndim for operand in named.values())
    if rank not in (3, 4) or any([isinstance(x.partition, Shapes) for x in call.ragged()]):
        return grouped(call)
    if call["attn_mask"] is not None:
        return NotImplemented
    for operand in named.values():
        if not isinstance(operand, RaggedTensor) or operand.ndim != rank or operand.place != rank - 2:
            return NotImplemented
    query, key, value = named.values()
    key.partition.check_same(call.name, value.partition, ("the key", "the value"))
    if query.partition.count != key.partition.count:
        query.partition.check_same(call.name, key.partition, ("the query", "the key"))
    q, k, v = (_tokens_first(operand.packed) for operand in (query, key, value))
    p, causal = call["dropout_p"], bool(call["is_causal"])
    result = attend(
        call.name, q, k, v, query.partition, key.partition, None, p, causal, call["scale"], call["enable_gqa"]
    )
    return query.with_packed(run("permute", result, (1, 0, 2)) if rank == 4 else run("squeeze", result, 1))


def attend_by_shape(attended: Callable[..., tuple], query: Any, key: Any, value: Any) -> tuple:
    """`attended(query, key, value, numbers of the rows)` on each group of rows of equal shape, (B, H, j, E) as (rows, H, T, E).

    Each of its results (rows, H, Tq, ...) comes back with the rows of `query`; operands that are dense have an entry for each row.
    """
    operands = query, key, value
    ragged = [operand for operand in operands if isinstance(operand, RaggedTensor)]
    counts = {
        operand.partition.count if isinstance(operand, RaggedTensor) else operand.shape[0] for operand in operands
    }
    if len(counts) > 1:
        raise ShapeError(
            f"attention: query, key and value have rows of shapes {[tuple(operand.shape) for operand in operands]}."
        )
    if isinstance(key, RaggedTensor) and isinstance(value, RaggedTensor):
        key.partition.check_same("attention", value.partition, ("the key", "the value"))
    groups = Groups(ragged)
    sources = {id(x): Source(x, groups) for x in ragged}
    by_group = []
    for number, rows in enumerate(groups.rows):
        numbers = index_of(rows, query.packed if isinstance(query, RaggedTensor) else query)
        of_rows = [
            sources[id(operand)].dense(number) if id(operand) in sources else run("index", operand, [numbers], (0,))
            for operand in operands
        ]
        by_group.append(attended(*of_rows, numbers))
    if not by_group:  # no rows: the results of one without elements say what shape theirs have
        packed = [run("unsqueeze", operand.packed, 0) if id(operand) in sources else operand for operand in operands]
        results = attended(*packed, zeros(1, dtype=int64))
        if not isinstance(query, RaggedTensor):
            return results
        return tuple([query.with_packed(run("squeeze", result, 0)) for result in results])
    return tuple([_in_order(pieces, query, groups) for pieces in zip(*by_group, strict=True)])


def _in_order(pieces: tuple, query: Any, groups: Groups) -> Any:
    """Results (rows, H, Tq, ...) of the groups as one, its rows those of the query."""
    if not isinstance(query, RaggedTensor):
        whole = cat(list(pieces))
        return whole if groups.sorted else run("index", whole, [index_of(groups.inverse, whole)], (0,))
    rest = tuple(range(3, pieces[0].ndim))
    flat = registry["flatten"].function
    tokens = [flat(run("permute", piece, (0, 2, 1, *rest)), 0, 1) for piece in pieces]
    lengths = Partition(np.ascontiguousarray(query.partition.lengths[groups.order]))
    whole, _ = back_in_order(tokens, lengths, groups)
    return query.with_packed(run("permute", whole, (1, 0, *[dim - 1 for dim in rest])))


def _tokens_first(packed: Any) -> Any:
    """(T, H, E) of (H, T, E) or of (T, E)."""
    return run("permute", packed, (1, 0, 2)) if packed.ndim == 3 else run("unsqueeze", packed, 1)
