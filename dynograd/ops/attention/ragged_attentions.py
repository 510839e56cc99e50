"""Attention within sequences of different lengths that lie behind one another: no padding, and no mask for it.

`attended_ragged` is the fused op; its decomposition is dense attention, sequence by sequence, from which higher orders come.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.random_streams import default_generator
from dynograd.base.values import differs_by_example
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.attention.attentions import _masked_softmax, _shared_heads
from dynograd.ops.elementwise.choices import choose
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.layout.joins import joined
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.ops.matmul.matmuls import matmul
from dynograd.ops.norm.softmaxes import softmax
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.precisions import widened
from dynograd.ops.reduce.reductions import logsumexp_dims
from dynograd.ops.reduce.reductions import sum as sum_dims
from dynograd.ops.segment.offsets import checked_offsets

__all__ = ["varlen_attention"]


@op(
    name="varlen_attention",
    saves="query key value offsets_q offsets_k mask output",
    extras="logarithms",
    functional=True,
    inner=True,
    partly_at_once="reads the lengths of its sequences",
    work="ragged attention",
)
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
    operands = (query, key, value, offsets_q, offsets_k, mask, window, ends, scale, p, place, longest)
    return kernel("attentions", "ragged_attention_forward", query)(*operands)


@attended_ragged.fast_backward
def attended_ragged_fast_backward(
    g: Any, saved: Any, window: Any, ends: Any, scale: Any, p: Any, place: Any, longest: Any
) -> Gradients:
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
    result = kernel("attentions", "ragged_attention_backward", g)(g, *kept, window, ends, scale, p, place, longest)
    return (*result, None, None, None)


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
) -> Array:
    spans = _spans(offsets_q, offsets_k)
    heads = query.shape[1]
    factors = _factors(query, sum([(b - a) * (d - c) for a, b, c, d in spans]) * heads, p, place) if p else None
    parts, drawn = [], 0
    for scores, allowed, v in _scores(query, key, value, spans, mask, window, ends, scale):
        weights = softmax(scores, 2) if allowed is None else _masked_softmax(scores, allowed)
        if factors is not None:
            size = prod(weights.shape)
            weights = weights * reshaped(_tokens(factors, drawn, drawn + size), tuple(weights.shape))
            drawn += size
        parts.append(permuted(matmul(weights, v), (1, 0, 2)))
    return joined(parts, 0) if parts else _of_no_sequences(query, value)


@op(
    name="varlen_attention_with_logarithms",
    outputs="output logarithms",
    saves="query key value offsets_q offsets_k mask output",
    extras="rows",
    inner=True,
    work="ragged attention",
)
def attended_with_logarithms(
    query: Array,
    key: Array,
    value: Array,
    offsets_q: Array,
    offsets_k: Array,
    mask: Array | None,
    window: tuple[int, int],
    ends: bool,
    scale: float,
    longest: tuple[int, int],
) -> Array:
    """`varlen_attention`, and (H, Tq) the logarithm of the sum of the exponentials of each query's scores."""
    operands = (query, key, value, offsets_q, offsets_k, mask, window, ends, scale, 0.0, (0, 0), longest)
    output, rows = kernel("attentions", "ragged_attention_forward", query)(*operands)
    by_head = kernel("attentions", "logarithms_by_head", query)
    return (output, by_head(rows, offsets_q, query.shape[1])), rows


@attended_with_logarithms.fast_backward
def attended_with_logarithms_fast_backward(
    g: Any, saved: Any, window: Any, ends: Any, scale: Any, longest: Any
) -> Gradients:
    # The kernel's gradient of a score is weight * (g . value - g . output). With one feature more, 0 in the values and -1 in the output,
    # whose gradient is that of the logarithm, it is weight * (g . value - g . output + g of the logarithm).
    g_output, output = g[0], saved.output[0]
    kind, device = dtypes.of_array(output), arrays.device_of(output)
    column = g[1].transpose(1, 0).reshape((*output.shape[:2], 1)).astype(output.dtype)
    wider = (
        (g_output, column),
        (saved.value, arrays.full((*saved.value.shape[:2], 1), 0, kind, device)),
        (output, arrays.full((*output.shape[:2], 1), -1, kind, device)),
    )
    g_wide, value, output = (kernel("joins", "cat", part[0])(part, 2) for part in wider)
    kept = (saved.query, saved.key, value, output, saved.rows, saved.offsets_q, saved.offsets_k, saved.mask)
    backward = kernel("attentions", "ragged_attention_backward", g_output)
    g_query, g_key, g_value = backward(g_wide, *kept, window, ends, scale, 0.0, (0, 0), longest)
    return g_query, g_key, g_value[..., :-1], None, None, None


@attended_with_logarithms.decomposition
def attended_with_logarithms_decomposition(
    query: Any,
    key: Any,
    value: Any,
    offsets_q: Any,
    offsets_k: Any,
    mask: Any,
    window: tuple[int, int],
    ends: bool,
    scale: float,
    longest: tuple[int, int],
) -> tuple[Array, Array]:
    parts, sums = [], []
    for scores, allowed, v in _scores(query, key, value, _spans(offsets_q, offsets_k), mask, window, ends, scale):
        if allowed is not None:
            weights = _masked_softmax(scores, allowed)
            scores = choose(allowed, scores, -math.inf)
        else:
            weights = softmax(scores, 2)
        parts.append(permuted(matmul(weights, v), (1, 0, 2)))
        wide = widened(scores)
        sums.append(logsumexp_dims(wide, 2, False) if scores.shape[2] else sum_dims(wide, (2,), False) - math.inf)
    if not parts:
        output = _of_no_sequences(query, value)
        return output, widened(permuted(get_basic(output, (slice(None), slice(None), 0)), (1, 0)))
    return joined(parts, 0), joined(sums, 1)


def _spans(offsets_q: Any, offsets_k: Any) -> list[tuple[int, int, int, int]]:
    """(first query, end of queries, first key, end of keys) of each sequence."""
    bounds_q, bounds_k = (getattr(operand, "array", operand).tolist() for operand in (offsets_q, offsets_k))
    return list(zip(bounds_q, bounds_q[1:], bounds_k, bounds_k[1:], strict=False))


def _scores(
    query: Any, key: Any, value: Any, spans: list[tuple[int, int, int, int]], mask: Any, window: tuple[int, int], ends: bool, scale: float
) -> Iterator[tuple[Any, Any, Any]]:  # fmt: skip
    """Of each sequence: scores (H, queries, keys), which of them count (None: all), and values (H, keys, V)."""
    for first_q, last_q, first_k, last_k in spans:
        rows, keys = last_q - first_q, last_k - first_k
        q = permuted(_tokens(query, first_q, last_q), (1, 0, 2))
        k, v = (permuted(_tokens(operand, first_k, last_k), (1, 0, 2)) for operand in (key, value))
        k, v = (_shared_heads("varlen_attention", q, operand) for operand in (k, v))
        scores = matmul(q * scale, permuted(k, (0, 2, 1)))
        allowed = None
        if window != (-1, -1):
            shift = keys - rows if ends else 0
            array = getattr(query, "array", query)
            allowed = kernel("masks", "window_mask", array)(rows, keys, shift, *window, array)
        if mask is not None:
            own = _tokens(mask, first_k, last_k)
            numbers: Array = getattr(own, "array", own)
            if numbers.dtype.kind != "b":
                scores = scores + own
                numbers = kernel("masks", "above_minus_infinity", numbers)(numbers)
            allowed = numbers if allowed is None else allowed & numbers
        yield scores, allowed, v


def _of_no_sequences(query: Any, value: Any) -> Array:
    heads = permuted(query, (1, 0, 2))
    return permuted(_shared_heads("varlen_attention", heads, permuted(value, (1, 0, 2))), (1, 0, 2))


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
    return_lse: bool = False,
) -> Array | tuple[Array, ...]:
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
        return_lse: also give the logarithm of the sum of the exponentials of each query's scores, by which results over parts of the
            keys are joined; without dropout.
    Returns:
        (Tq, H, V), dtype of `query`; with `return_lse` a pair of it and (H, Tq), in float32 for half types, -inf for a query that
        sees no key.
    Raises:
        ValueError: `return_lse` with dropout, or a window that is not causal with `is_causal`.
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
    if return_lse and dropout_p:
        raise ValueError(f"{who}: got return_lse=True and dropout_p={dropout_p}; only one of them at a time. Pass 0.")
    if _in_a_batch(offsets_q, offsets_k):  # their values are read where the examples are known
        seen, scale = _window(window, is_causal), _scale(scale, query)
        operands = (query, key, value, offsets_q, offsets_k, key_mask, seen, bool(ends), scale)
        if return_lse:
            return attended_with_logarithms(*operands, (0, 0))
        return attended_ragged(*operands, float(dropout_p), (0, 0), (0, 0))
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
    lengths = [[stop - start for start, stop in pairwise(operand)] for operand in (first, second)]
    total = query.shape[1] * sum([rows * keys for rows, keys in zip(*lengths, strict=True)])
    longest = max(lengths[0], default=0), max(lengths[1], default=0)
    ends = bool(ends) and first != second
    operands = (query, key, value, offsets_q, offsets_k, key_mask, bounds, ends, scale)
    if return_lse:
        return _attended_with_logarithms(*operands, longest)
    return attended_over(*operands, dropout_p, total, longest)


def _in_a_batch(*values: Any) -> bool:
    """Whether `vmap` has another one of these for each example."""
    return any([differs_by_example(value) for value in values])


def _window(window: tuple[int, int] | None, causal: bool) -> tuple[int, int]:
    if window is None:
        return (-1, 0 if causal else -1)
    if causal and window[1] != 0:
        raise ValueError(
            f"varlen_attention: got is_causal=True and window {tuple(window)}, which sees {window[1]} to the right. Use ({window[0]}, 0)."
        )
    left, right = (max(int(reach), -1) for reach in window)
    return left, right


def _scale(scale: float | None, query: Any) -> float:
    if scale is not None:
        return float(scale)
    return 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0


def attended_over(
    query: Any, key: Any, value: Any, offsets_q: Any, offsets_k: Any, mask: Any, window: tuple[int, int], ends: bool, scale: float,
    p: float, weights: int, longest: tuple[int, int],
) -> Array:  # fmt: skip
    """`varlen_attention` of arguments that were checked; `weights`: how many there are in all heads; `longest` sequences, of q and of k."""
    place = default_generator.key(kernel("random", "blocks_needed", 0)("dropout_mask", weights)) if p else (0, 0)
    operands = (
        query,
        key,
        value,
        offsets_q,
        offsets_k,
        mask,
        window,
        bool(ends),
        float(scale),
        float(p),
        place,
        longest,
    )
    if _in_a_batch(query, key, value, mask) or _taken(query, value.shape[2], window, ends, mask):
        return attended_ragged(*operands)
    return attended_ragged_decomposition(*operands)


def _attended_with_logarithms(
    query: Any, key: Any, value: Any, offsets_q: Any, offsets_k: Any, mask: Any, window: tuple[int, int], ends: bool, scale: float,
    longest: tuple[int, int],
) -> tuple[Array, ...]:  # fmt: skip
    operands = (query, key, value, offsets_q, offsets_k, mask, window, bool(ends), float(scale), longest)
    # the gradient has values of one feature more
    if _in_a_batch(query, key, value, mask) or _taken(query, value.shape[2] + 1, window, ends, mask):
        return attended_with_logarithms(*operands)
    return attended_with_logarithms_decomposition(*operands)


def _taken(query: Any, width: int, window: tuple[int, int], ends: bool, mask: Any) -> bool:
    """Whether a kernel computes it."""
    array = getattr(query, "array", query)
    if not min(query.shape[1:]) or not width or getattr(mask, "requires_grad", False):
        return False
    return kernel("attentions", "attends_ragged", array)(array, width, window, ends)


def _tokens(x: Any, start: int, stop: int) -> Array:
    return get_basic(x, (slice(start, stop),))


def _factors(query: Any, count: int, p: float, place: tuple[int, int]) -> Array:
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
    arrays = [getattr(operand, "array", operand) for operand in (query, key, value)]
    if len({array.dtype for array in arrays}) != 1:
        raise DtypeError(
            f"{who}: Expected query, key, and value to have the same dtype, but got {', '.join(str(array.dtype) for array in arrays)}. Convert "
            f"with x.to(dtype)."
        )
    if mask is None:
        return
    numbers = getattr(mask, "array", mask)
    if tuple(mask.shape) != (key.shape[0],):
        raise ShapeError(
            f"{who}: expected key_mask of shape ({key.shape[0]},), one for each key, got {tuple(mask.shape)}."
        )
    if numbers.dtype.kind != "b" and numbers.dtype != arrays[0].dtype:
        raise DtypeError(
            f"{who}: expected key_mask to be bool or of the dtype of query, got {dtypes.of_array(numbers)} and {dtypes.of_array(arrays[0])}."
        )
