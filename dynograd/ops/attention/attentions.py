"""Attention: values averaged with weights that queries and keys agree on.

`attended` is the fused op, which never holds all scores at once; its decomposition, in terms of other ops, gives higher orders and serves
what the kernels leave out (tiny heads, half types, heads that broadcast, masks that want a gradient).
"""

from __future__ import annotations

import math
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.random_streams import default_generator
from dynograd.base.shapes import broadcast_shapes
from dynograd.base.values import has_own_values
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.choices import choose
from dynograd.ops.elementwise.dropouts import masked
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.rearrangements import repeat_interleave
from dynograd.ops.layout.views import permuted
from dynograd.ops.matmul.matmuls import matmul
from dynograd.ops.norm.softmaxes import softmax
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.row import Row

__all__ = ["scaled_dot_product_attention"]

FAMILY = Row(out=None, functional=True)
_HALVES = (dtypes.float16, dtypes.bfloat16)


@op(
    name="scaled_dot_product_attention",
    saves="query key value mask output",
    extras="logarithms",
    cast="lower",
    inner=True,
    by_row="place",
    work="attention",
)
def attended(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    causal: bool,
    scale: float,
    p: float,
    place: tuple[int, int],
) -> Array:
    """softmax(query @ key.T * scale + mask) @ value for arrays that the kernels take; `place` in the stream says which weights are dropped."""
    return kernel("attentions", "attention_forward", query)(query, key, value, mask, causal, scale, p, place)


@attended.fast_backward
def attended_fast_backward(g: Any, saved: Any, causal: Any, scale: Any, p: Any, place: Any) -> Gradients:
    operands = (saved.query, saved.key, saved.value, saved.output, saved.logarithms, saved.mask)
    result = kernel("attentions", "attention_backward", g)(g, *operands, causal, scale, p, place)
    return (*result, None)


@attended.decomposition
def attended_decomposition(
    query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float, p: float, place: tuple[int, int]
) -> Array:
    who = "scaled_dot_product_attention"
    if len(query.shape) > 2 and 1 < key.shape[-3] < query.shape[-3]:
        key, value = _shared_heads(who, query, key), _shared_heads(who, query, value)
    rank = len(key.shape)
    scores = matmul(query * scale, permuted(key, (*range(rank - 2), rank - 1, rank - 2)))
    allowed = None
    if causal:
        array = getattr(query, "array", query)
        allowed = kernel("masks", "causal_mask", array)(query.shape[-2], key.shape[-2], array)
    elif mask is not None:
        numbers = getattr(mask, "array", mask)
        broadcast_shapes(who, tuple(scores.shape), tuple(numbers.shape))
        other = not has_own_values(mask)
        if numbers.dtype.kind == "b":
            allowed = mask if other else numbers
        else:
            scores = scores + mask
            allowed = mask > -math.inf if other else kernel("masks", "above_minus_infinity", numbers)(numbers)
    weights = softmax(scores, len(scores.shape) - 1) if allowed is None else _masked_softmax(scores, allowed)
    if p:
        weights = masked(weights, tuple(weights.shape), p, place)
    return matmul(weights, value)


@composed(covers="scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """softmax(query @ key.T * scale + mask) @ value. A query that may look at nothing gives 0.

    Args:
        query (*, L, E), key (*, S, E), value (*, S, V): leading dims broadcast.
        attn_mask: broadcast to (*, L, S): bool, True where a query may look; or numbers that are added to the scores.
        dropout_p: probability with which weights are dropped; applied whenever it is above 0.
        is_causal: query i sees keys 0 to i; not together with `attn_mask`.
        scale: 1 / sqrt(E) when left out.
        enable_gqa: keys and values have fewer heads (dim -3), each shared by a group of query heads.
    Returns:
        (*, L, V), dtype of `query`.
    Raises:
        ShapeError: sizes that do not fit.
        DtypeError: query, key and value of different dtypes, or a mask that is neither bool nor float32 nor theirs.

    Source: Vaswani et al., Attention is all you need, 2017 (arXiv:1706.03762), equation 1.

    >>> q = k = tensor([[[0.0], [0.0]]])
    >>> dynograd.nn.functional.scaled_dot_product_attention(q, k, tensor([[[1.0], [3.0]]]), is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    who = "scaled_dot_product_attention"
    _check(who, query, key, value, attn_mask, is_causal)
    if scale is None:
        width = query.shape[-1]
        scale = 1 / math.sqrt(width) if width else 1.0
    arrays = [getattr(operand, "array", operand) for operand in (query, key, value)]
    fused = kernel("attentions", "attends_in_tiles", arrays[0])(*arrays)
    dtype = dtypes.of_array(arrays[0])
    of_mask = None if attn_mask is None else dtypes.of_array(getattr(attn_mask, "array", attn_mask))
    mixed = of_mask not in (None, dtype, dtypes.bool)
    if dtype in _HALVES and (mixed or not fused):  # scores and masks are float32's, as inside the kernels
        query, key, value = (convert(operand, dtypes.float32) for operand in (query, key, value))
        if of_mask is dtype:
            attn_mask = convert(attn_mask, dtypes.float32)
        result = _attention(who, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, fused)
        return convert(result, dtype)
    if mixed:
        attn_mask = convert(attn_mask, dtype)
    return _attention(who, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, fused)


def _attention(
    who: str,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    enable_gqa: bool,
    fused: bool,
) -> Array:
    if fused and (len(query.shape) == 2 or enable_gqa or query.shape[-3] == key.shape[-3]):
        weights_shape = (*query.shape[:-1], key.shape[-2])
        if attn_mask is None or _only_hides(attn_mask, weights_shape):
            place = _place(weights_shape) if dropout_p else (0, 0)
            return attended(query, key, value, attn_mask, bool(is_causal), float(scale), float(dropout_p), place)
    if enable_gqa:
        key, value = _shared_heads(who, query, key), _shared_heads(who, query, value)
    lead = broadcast_shapes(who, tuple(query.shape[:-2]), tuple(key.shape[:-2]))
    place = _place((*lead, query.shape[-2], key.shape[-2])) if dropout_p else (0, 0)
    return attended_decomposition(query, key, value, attn_mask, is_causal, scale, dropout_p, place)


def _place(shape: tuple[int, ...]) -> tuple[int, int]:
    """The next place in the stream for a dropout mask of this shape."""
    return default_generator.key(kernel("random", "blocks_needed", 0)("dropout_mask", math.prod(shape)))


def _only_hides(mask: Any, shape_of_weights: tuple[int, ...]) -> bool:
    """Whether a mask broadcasts to the scores alone, without making more of them, and wants no gradient."""
    shape = tuple(mask.shape)
    if getattr(mask, "requires_grad", False) or len(shape) > len(shape_of_weights):
        return False
    return all([extent in (1, size) for extent, size in zip(reversed(shape), reversed(shape_of_weights))])


def _masked_softmax(scores: Any, allowed: Any) -> Array:
    """Softmax over the allowed scores of each row; 0 throughout where none is."""
    if hasattr(allowed, "array"):
        seeing = allowed.any(-1, True)
    else:
        seeing = kernel("masks", "any_in_row", allowed)(allowed)
    last = len(scores.shape) - 1
    if seeing is None:
        return softmax(choose(allowed, scores, -math.inf), last)
    # a row of -inf would make NaN, and NaN times a gradient of 0 is NaN
    weights = softmax(choose(allowed | ~seeing, choose(allowed, scores, 0.0), -math.inf), last)
    return choose(seeing, weights, 0.0)


def _shared_heads(who: str, query: Any, shared: Any) -> Array:
    heads, groups = query.shape[-3], shared.shape[-3]
    if groups == heads:
        return shared
    if not groups or heads % groups:
        raise ShapeError(
            f"{who}: Number of heads in key and value must divide the number of heads in query with enable_gqa=True, got {groups} and "
            f"{heads} (query {tuple(query.shape)}, key or value {tuple(shared.shape)})."
        )
    return repeat_interleave(shared, heads // groups, len(shared.shape) - 3)


def _check(who: str, query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool) -> None:
    shapes = {"query": tuple(query.shape), "key": tuple(key.shape), "value": tuple(value.shape)}
    shown = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    if min([len(shape) for shape in shapes.values()]) < 2:
        raise ShapeError(f"{who}: Expected query, key, and value to all be at least 2 dimensional, but got {shown}.")
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(
            f"{who}: expected query and key of one width, got {query.shape[-1]} and {key.shape[-1]} ({shown}). Project one of them."
        )
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"{who}: expected as many values as keys, got {value.shape[-2]} and {key.shape[-2]} ({shown}). Dim -2 counts them."
        )
    arrays = [getattr(operand, "array", operand) for operand in (query, key, value)]
    kinds = [array.dtype for array in arrays]
    if kinds.count(kinds[0]) != 3:
        raise DtypeError(
            f"{who}: Expected query, key, and value to have the same dtype, but got {', '.join(map(str, kinds))}. Convert with x.to(dtype)."
        )
    if attn_mask is None:
        return
    if is_causal:
        raise RuntimeError(f"{who}: Explicit attn_mask should not be set when is_causal=True. Put both into one mask.")
    mask = getattr(attn_mask, "array", attn_mask)
    if len(attn_mask.shape) > max(map(len, shapes.values())):
        raise ShapeError(f"{who}: attn_mask of shape {tuple(attn_mask.shape)} has more dims than {shown}. Squeeze it.")
    if mask.dtype.kind != "b" and mask.dtype != kinds[0] and dtypes.of_array(mask) is not dtypes.float32:
        raise DtypeError(
            f"{who}: Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {dtypes.of_array(mask)} and "
            f"query.dtype: {dtypes.of_array(arrays[0])}. Convert it."
        )
