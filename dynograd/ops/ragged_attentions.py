"""Attention within sequences of different lengths that lie behind one another: no padding, and no mask for it.

`attended_ragged` is the fused op; its decomposition is dense attention, sequence by sequence, from which higher orders come.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from dynograd import arrays, dtypes
from dynograd.arrays import Array
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.attentions import _masked_softmax, _shared_heads
from dynograd.ops.indexing import get_basic
from dynograd.ops.joins import joined
from dynograd.ops.matmuls import matmul
from dynograd.ops.offsets import checked_offsets
from dynograd.ops.op import composed, op
from dynograd.ops.softmaxes import softmax_over
from dynograd.ops.views import permuted, reshaped
from dynograd.random_streams import default_generator

__all__ = ["varlen_attention"]


@op(name="varlen_attention", saves="query key value offsets_q offsets_k mask output", extras="logarithms")
def attended_ragged(
    query: Array,
    key: Array,
    value: Array,
    offsets_q: Array,
    offsets_k: Array,
    mask: Array | None,
    window: tuple[int, int],
    ends: bool,
    scale: float,
    p: float,
    place: tuple[int, int],
    longest: tuple[int, int],
) -> Array:
    """Attention (Tq, H, V) within each sequence; `place` in the stream says which weights are dropped. `longest`: of queries, of keys."""
    given = (query, key, value, offsets_q, offsets_k, mask, window, ends, scale, p, place, longest)
    return kernel("attentions", "ragged_attention_forward", query)(*given)


@attended_ragged.fast_backward
def attended_ragged_fast_backward(
    g: Any, saved: Any, window: Any, ends: Any, scale: Any, p: Any, place: Any, longest: Any
) -> Any:
    kept = (
        saved.query,
        saved.key,
        saved.value,
        saved.output,
        saved.logarithms,
        saved.offsets_q,
        saved.offsets_k,
        saved.mask,
    )
    found = kernel("attentions", "ragged_attention_backward", g)(g, *kept, window, ends, scale, p, place, longest)
    return (*found, None, None, None)


@attended_ragged.decomposition
def attended_ragged_decomposition(
    query: Any,
    key: Any,
    value: Any,
    offsets_q: Any,
    offsets_k: Any,
    mask: Any,
    window: tuple[int, int],
    ends: bool,
    scale: float,
    p: float,
    place: tuple[int, int],
    longest: tuple[int, int],
) -> Any:
    heads = query.shape[1]
    bounds_q, bounds_k = (getattr(one, "array", one).tolist() for one in (offsets_q, offsets_k))
    spans = list(zip(bounds_q, bounds_q[1:], bounds_k, bounds_k[1:], strict=False))
    factors = _factors(query, sum([(b - a) * (d - c) for a, b, c, d in spans]) * heads, p, place) if p else None
    parts, drawn = [], 0
    for first_q, last_q, first_k, last_k in spans:
        rows, keys = last_q - first_q, last_k - first_k
        q = permuted(_tokens(query, first_q, last_q), (1, 0, 2))
        k, v = (permuted(_tokens(one, first_k, last_k), (1, 0, 2)) for one in (key, value))
        k, v = (_shared_heads("varlen_attention", q, one) for one in (k, v))
        scores = matmul(q * scale, permuted(k, (0, 2, 1)))
        allowed = None
        if window != (-1, -1):
            shift = keys - rows if ends else 0
            array = getattr(query, "array", query)
            allowed = kernel("masks", "window_mask", array)(rows, keys, shift, *window, array)
        if mask is not None:
            own = _tokens(mask, first_k, last_k)
            numbers = getattr(own, "array", own)
            if numbers.dtype.kind != "b":
                scores = scores + own
                numbers = kernel("masks", "above_minus_infinity", numbers)(numbers)
            allowed = numbers if allowed is None else allowed & numbers
        if allowed is None:
            weights = softmax_over(scores, 2)
        else:
            weights = _masked_softmax(scores, allowed)
        if factors is not None:
            size = heads * rows * keys
            weights = weights * reshaped(_tokens(factors, drawn, drawn + size), (heads, rows, keys))
            drawn += size
        parts.append(permuted(matmul(weights, v), (1, 0, 2)))
    if not parts:
        return permuted(
            _shared_heads("varlen_attention", permuted(query, (1, 0, 2)), permuted(value, (1, 0, 2))), (1, 0, 2)
        )
    return joined(parts, 0)


@composed(covers="varlen_attention")
def varlen_attention(
    query: Any,
    key: Any,
    value: Any,
    offsets_q: Any,
    offsets_k: Any = None,
    key_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: tuple[int, int] | None = None,
    ends: bool = False,
) -> Any:
    """`scaled_dot_product_attention` of each sequence with itself, or with another; tokens of all sequences lie behind one another.

    A query without keys, or that sees none, gives 0. Work and memory go with the real tokens; in batch-invariant mode a sequence's rows
    have the bits that dense attention of it alone gives.

    Args:
        query (Tq, H, E), key (Tk, H, E), value (Tk, H, V): H heads.
        offsets_q (B + 1,), offsets_k (B + 1,): where the sequences of queries and of keys begin, and where the last one ends; one for
            both when left out.
        key_mask (Tk,): bool, True for keys that are seen; or numbers that are added to the scores.
        dropout_p: probability with which weights are dropped; applied whenever it is above 0.
        is_causal: query i of a sequence sees keys 0 to i.
        scale: 1 / sqrt(E) when left out.
        enable_gqa: keys and values have fewer heads, each shared by a group of query heads.
        window: query i sees keys i - window[0] to i + window[1]; -1 for all on that side. (-1, 0) is causal.
        ends: for causal and window, a sequence's last query stands at its last key (as in `varlen_attn`) instead of its first at the first.
    Returns:
        (Tq, H, V), dtype of `query`.
    Raises:
        ShapeError: sizes that do not fit.
        IndexRangeError: offsets that do not begin with 0, fall, or do not end with the number of tokens.
        DtypeError: arrays of different dtypes, or offsets that are not integers.

    >>> q = k = dynograd.zeros(3, 1, 1)
    >>> v = tensor([[[1.0]], [[3.0]], [[5.0]]])
    >>> dynograd.nn.functional.varlen_attention(q, k, v, tensor([0, 2, 3])).flatten()
    tensor([2., 2., 5.])
    """
    who = "varlen_attention"
    if offsets_k is None:
        offsets_k = offsets_q
    checked_tokens(who, query, key, value, key_mask, enable_gqa)
    if _in_a_batch(offsets_q, offsets_k):  # their values are read where the examples are known
        bounds = _window(window, is_causal), bool(ends)
        scale = _scale(scale, query)
        return attended_ragged(
            query, key, value, offsets_q, offsets_k, key_mask, *bounds, scale, float(dropout_p), (0, 0), (0, 0)
        )
    first = checked_offsets(who, "offsets_q", offsets_q, query.shape[0], "query")
    second = first if offsets_k is offsets_q else None
    if second is None or key.shape[0] != query.shape[0]:
        second = checked_offsets(who, "offsets_k", offsets_k, key.shape[0], "key")
    if len(first) != len(second):
        raise ShapeError(
            f"{who}: expected as many sequences of keys as of queries, got {len(second) - 1} (offsets_k) and {len(first) - 1} (offsets_q)."
        )
    bounds = _window(window, is_causal)
    scale = _scale(scale, query)
    lengths = [[stop - start for start, stop in pairwise(one)] for one in (first, second)]
    total = query.shape[1] * sum([rows * keys for rows, keys in zip(*lengths, strict=True)])
    longest = max(lengths[0], default=0), max(lengths[1], default=0)
    ends = bool(ends) and first != second
    return attended_over(
        query, key, value, offsets_q, offsets_k, key_mask, bounds, ends, scale, dropout_p, total, longest
    )


def _in_a_batch(*values: Any) -> bool:
    """Whether `vmap` has another one of these for each example."""
    return any([hasattr(type(one), "__dynograd_in_turn__") for one in values])


def _window(window: tuple[int, int] | None, causal: bool) -> tuple[int, int]:
    if window is None:
        return (-1, 0 if causal else -1)
    if causal and window[1] != 0:
        raise ValueError(
            f"varlen_attention: got is_causal=True and window {tuple(window)}, which sees {window[1]} to the right. Use ({window[0]}, 0)."
        )
    left, right = (max(int(one), -1) for one in window)
    return left, right


def _scale(scale: float | None, query: Any) -> float:
    if scale is not None:
        return float(scale)
    return 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0


def attended_over(
    query: Any, key: Any, value: Any, offsets_q: Any, offsets_k: Any, mask: Any, window: tuple[int, int], ends: bool, scale: float,
    p: float, weights: int, longest: tuple[int, int],
) -> Any:  # fmt: skip
    """`varlen_attention` of arguments that were checked; `weights`: how many there are in all heads; `longest` sequences, of q and of k."""
    place = default_generator.key(kernel("random", "blocks_needed", 0)("dropout_mask", weights)) if p else (0, 0)
    given = (query, key, value, offsets_q, offsets_k, mask, window, bool(ends), float(scale), float(p), place, longest)
    if _in_a_batch(query, key, value, mask):
        return attended_ragged(*given)
    array = getattr(query, "array", query)
    takes = kernel("attentions", "attends_ragged", array)
    if min(query.shape[1:]) and value.shape[2] and takes(array, value.shape[2], window, ends):
        if not getattr(mask, "requires_grad", False):
            return attended_ragged(*given)
    return attended_ragged_decomposition(*given)


def _tokens(x: Any, start: int, stop: int) -> Any:
    return get_basic(x, (slice(start, stop),))


def _factors(query: Any, count: int, p: float, place: tuple[int, int]) -> Any:
    array = getattr(query, "array", query)
    return kernel("random", "dropout_mask", arrays.device_of(array))(*place, (count,), p, array.dtype)


def checked_tokens(who: str, query: Any, key: Any, value: Any, mask: Any, grouped: bool) -> None:
    shapes = {"query": tuple(query.shape), "key": tuple(key.shape), "value": tuple(value.shape)}
    shown = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    if any([len(shape) != 3 for shape in shapes.values()]):
        raise ShapeError(f"{who}: Expected query, key and value of 3 dims (tokens, heads, features), but got {shown}.")
    if query.shape[2] != key.shape[2]:
        raise ShapeError(
            f"{who}: expected query and key of one width, got {query.shape[2]} and {key.shape[2]} ({shown}). Project one of them."
        )
    if key.shape[:2] != value.shape[:2]:
        raise ShapeError(
            f"{who}: expected key and value of the same tokens and heads, got {tuple(key.shape[:2])} and {tuple(value.shape[:2])} ({shown})."
        )
    heads, groups = query.shape[1], key.shape[1]
    if heads != groups and not grouped:
        raise ShapeError(
            f"{who}: Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={groups} ({shown}). "
            f"enable_gqa=True shares keys among query heads."
        )
    if heads != groups and (not groups or heads % groups):
        raise ShapeError(
            f"{who}: Expect number of query heads to be a multiple of kv heads but got Hq={heads} and Hkv={groups} ({shown})."
        )
    found = [getattr(one, "array", one) for one in (query, key, value)]
    if len({one.dtype for one in found}) != 1:
        raise DtypeError(
            f"{who}: Expected query, key, and value to have the same dtype, but got {', '.join(str(one.dtype) for one in found)}. Convert "
            f"with x.to(dtype)."
        )
    if mask is None:
        return
    numbers = getattr(mask, "array", mask)
    if tuple(mask.shape) != (key.shape[0],):
        raise ShapeError(
            f"{who}: expected key_mask of shape ({key.shape[0]},), one for each key, got {tuple(mask.shape)}."
        )
    if numbers.dtype.kind != "b" and numbers.dtype != found[0].dtype:
        raise DtypeError(
            f"{who}: expected key_mask to be bool or of the dtype of query, got {dtypes.of_array(numbers)} and {dtypes.of_array(found[0])}."
        )
