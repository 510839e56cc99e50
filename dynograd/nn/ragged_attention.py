"""MultiheadAttention of ragged tensors (B, j, E): all real tokens are projected together, and each row attends to its own.

What the kernel leaves out (weights that are asked for, masks other than causal and of keys, keys that are added) is computed row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from dynograd.errors import DtypeError, ShapeError
from dynograd.ragged import RaggedTensor, ragged_tensor
from dynograd.ragged.families.attending import attend
from dynograd.ragged.families.levels import is_deep
from dynograd.ragged.families.selecting import row_of
from dynograd.ragged.partitions import Partition
from dynograd.ragged.tensor import make
from dynograd.tensor import creation
from dynograd.tensor.methods import public_functions

__all__ = ["multi_head_attention"]

_ops = public_functions()
_WHO = "multi_head_attention_forward"


def multi_head_attention(forward: Callable[..., Any], arguments: dict[str, Any]) -> tuple[Any, Any]:
    """The result of `forward` for its `arguments`, of which query, key or value are ragged.

    Args:
        forward: `multi_head_attention_forward`.
        arguments: its arguments by name, where key_padding_mask is ragged (B, j) like the keys, or dense (B,
            longest): True where a key is not to be seen; numbers are added; attn_mask is (L, S), of which each row
            has its first places, or ragged (B, j, j); with `is_causal` it may be left out.
    Returns:
        (B, j, E) and, with `need_weights`, (B, j, j) weights.
    Raises:
        ShapeError: sizes that do not fit each other.

    >>> attend = dynograd.nn.MultiheadAttention(4, 2)
    >>> x = dynograd.ragged_tensor([dynograd.ones(2, 4), dynograd.ones(3, 4)])
    >>> attend(x, x, x)[0].shape
    dynograd.Size([2, j1, 4])
    """
    if is_deep(arguments["query"]):
        return _below(forward, arguments)
    same = arguments["query"] is arguments["key"], arguments["key"] is arguments["value"]
    query = _as_rows("query", arguments["query"])
    key = query if same[0] else _as_rows("key", arguments["key"])
    value = key if same[1] else _as_rows("value", arguments["value"])
    key.partition.check_same(_WHO, value.partition, ("the key", "the value"))
    if query.partition.count != key.partition.count:
        query.partition.check_same(_WHO, key.partition, ("the query", "the key"))
    width, heads = int(query.packed.shape[1]), arguments["num_heads"]
    if width != arguments["embed_dim_to_check"]:
        raise ShapeError(
            f"{_WHO}: was expecting embedding dimension of {arguments['embed_dim_to_check']}, but got {width} (query of shape "
            f"{tuple(query.shape)}). Project query first, or build MultiheadAttention({width}, {heads})."
        )
    arguments = {**arguments, "query": query, "key": key, "value": value}
    hidden = _of_keys(arguments["key_padding_mask"], key)
    others = ("bias_k", "bias_v", "static_k", "static_v")
    if arguments["need_weights"] or arguments["add_zero_attn"] or any([arguments[name] is not None for name in others]):
        return _row_by_row(forward, arguments, hidden)
    if arguments["attn_mask"] is not None and not arguments["is_causal"]:
        return _row_by_row(forward, arguments, hidden)
    if hidden is not None and hidden.dtype.name == "bool":
        hidden = ~hidden
    q, k, v = _projected(arguments, same)
    p = arguments["dropout_p"] if arguments["training"] else 0.0
    attended = attend(_WHO, q, k, v, query.partition, key.partition, hidden, p, bool(arguments["is_causal"]))
    attended = attended.reshape(attended.shape[0], heads * v.shape[2])
    return query.with_packed(_ops["linear"](attended, arguments["out_proj_weight"], arguments["out_proj_bias"])), None


def _below(forward: Callable[..., Any], arguments: dict[str, Any]) -> tuple[Any, Any]:
    """Several levels (documents of sentences): each sentence attends to its own words, or to the same sentence of the keys."""
    upper = arguments["query"].partition
    lower = dict(arguments)
    for name in ("query", "key", "value", "key_padding_mask"):
        operand = arguments[name]
        if is_deep(operand):
            upper.check_same(_WHO, operand.partition, ("the query", f"the {name}"))
            lower[name] = operand.packed
        elif name != "key_padding_mask":
            raise ShapeError(
                f"{_WHO}: query has several levels of rows (shape {tuple(arguments['query'].shape)}), {name} has shape {tuple(operand.shape)}. Give it "
                f"the same levels."
            )
    for name, other in (("key", "query"), ("value", "key")):
        if arguments[name] is arguments[other]:
            lower[name] = lower[other]
    output, weights = multi_head_attention(forward, lower)
    return make(output, upper), None if weights is None else make(weights, upper)


def _as_rows(name: str, x: Any) -> Any:
    """A ragged tensor (B, j, E); a dense (B, T, E) has rows of one length."""
    if isinstance(x, RaggedTensor):
        if x.dim() != 3 or x.place != 1 or isinstance(x.packed, RaggedTensor):
            raise ShapeError(f"{_WHO}: expected a ragged {name} (B, j, E), got shape {tuple(x.shape)}.")
        return x
    if x.dim() != 3:
        raise ShapeError(f"{_WHO}: expected {name} (B, T, E) beside ragged tensors, got shape {tuple(x.shape)}.")
    batch, steps, width = x.shape
    return make(x.reshape(batch * steps, width), Partition(numpy.full(batch, steps, numpy.int64)))


def _projected(arguments: dict[str, Any], same: tuple[bool, bool]) -> tuple[Any, ...]:
    """Queries, keys and values (tokens, heads, features)."""
    packed = [arguments[name].packed for name in ("query", "key", "value")]
    weight, bias, heads = arguments["in_proj_weight"], arguments["in_proj_bias"], arguments["num_heads"]
    if not arguments["use_separate_proj_weight"] and all(same):
        parts = _ops["linear"](packed[0], weight, bias).chunk(3, -1)
    else:
        apart = arguments["use_separate_proj_weight"]
        weights = [arguments[f"{name}_proj_weight"] for name in "qkv"] if apart else weight.chunk(3, 0)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        parts = tuple(_ops["linear"](*operands) for operands in zip(packed, weights, biases, strict=True))
    return tuple([projected.unflatten(-1, (heads, projected.shape[-1] // heads)) for projected in parts])


def _of_keys(mask: Any, key: Any) -> Any:
    """A mask of keys as one entry for each real key."""
    if mask is None:
        return None
    if isinstance(mask, RaggedTensor):
        key.partition.check_same(_WHO, mask.partition, ("the key", "the key_padding_mask"))
        hidden = mask.packed
    else:
        count, longest = key.partition.count, key.partition.longest
        if mask.dim() != 2 or mask.shape[0] != count or mask.shape[1] < longest:
            raise ShapeError(
                f"{_WHO}: expected key_padding_mask ragged like the keys, or of shape {(count, longest)}, got {tuple(mask.shape)}."
            )
        hidden = mask[key.partition.tensor("rows", mask.device), key.partition.tensor("places", mask.device)]
    if not hidden.is_floating_point() and hidden.dtype.name != "bool":
        raise DtypeError(
            f"{_WHO}: only bool and floating types of masks are supported, got {hidden.dtype}. Compare first: mask != 0."
        )
    return hidden


def _row_by_row(forward: Callable[..., Any], arguments: dict[str, Any], hidden: Any) -> tuple[Any, Any]:
    """The dense function on each row alone."""
    query, key = arguments["query"], arguments["key"]
    rows = [arguments[name].unbind() for name in ("query", "key", "value")]
    masks = [None] * len(rows[0]) if hidden is None else hidden.split(key.partition.lengths.tolist())
    heads, mask = arguments["num_heads"], arguments["attn_mask"]
    outputs, weights = [], []
    for number, (q, k, v, of_keys) in enumerate(zip(*rows, masks, strict=True)):
        own = _own_mask(mask, number, q.shape[0], k.shape[0], heads, arguments["is_causal"], q)
        static = {
            name: None if arguments[name] is None else arguments[name][number * heads : (number + 1) * heads]
            for name in ("static_k", "static_v")
        }
        changed = {"query": q, "key": k, "value": v, "key_padding_mask": of_keys, "attn_mask": own, "is_causal": False}
        output, weight = forward(**{**arguments, **changed, **static})
        outputs.append(output)
        weights.append(weight)
    if not outputs:
        return query, None
    out = make(_ops["cat"](outputs), query.partition)
    return out, ragged_tensor(weights) if arguments["need_weights"] else None


def _own_mask(mask: Any, number: int, rows: int, keys: int, heads: int, causal: bool, like: Any) -> Any:
    if isinstance(mask, RaggedTensor):
        mask = row_of(mask, number)
        if tuple(mask.shape)[-2:] != (rows, keys):
            raise ShapeError(
                f"{_WHO}: row {number} has {rows} queries and {keys} keys, but its attn_mask has shape {tuple(mask.shape)}. Make it (B, j, j)."
            )
        return mask
    if mask is None:
        return creation.ones(rows, keys, dtype=bool, device=like.device).triu(1) if causal else None
    if mask.dim() == 3:
        mask = mask[number * heads : (number + 1) * heads]
    if mask.shape[-2] < rows or mask.shape[-1] < keys:
        raise ShapeError(
            f"{_WHO}: row {number} has {rows} queries and {keys} keys, but attn_mask has shape {tuple(mask.shape)}. It needs a place for each "
            f"of the longest row."
        )
    return mask[..., :rows, :keys]
