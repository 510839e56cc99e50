"""`multi_head_attention_forward`: what MultiheadAttention computes, as one function of all its weights."""

from __future__ import annotations

import math
import warnings
from typing import Any

from dynograd.base.shapes import check_tensor
from dynograd.base.values import has_fixed_number
from dynograd.errors import DtypeError, ShapeError, user_level
from dynograd.nn import ragged_attention
from dynograd.ragged import is_ragged
from dynograd.tensor import creation
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["additive_mask", "multi_head_attention_forward"]

_ops = public_functions()
_WHO = "multi_head_attention_forward"


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """Attention of `num_heads` heads between projected queries, keys and values, and a projection of what they found.

    Ragged queries, keys and values are (B, j, E), the batch first; see `ragged_attention`.

    Args:
        query (L, B, E), key (S, B, Ek), value (S, B, Ev): time first; without B for a single sequence.
        embed_dim_to_check: E.
        num_heads: how many parts E is cut into.
        in_proj_weight (3 E, E): projections of query, key and value; or one of each with `use_separate_proj_weight`.
        in_proj_bias (3 E,): their biases, or None.
        bias_k, bias_v (1, 1, E): one more key and value for every sequence, or None.
        add_zero_attn: one more key and value of zeros.
        dropout_p: the probability with which weights are dropped, if `training`.
        out_proj_weight (E, E), out_proj_bias (E,): of the last projection; the bias may be None.
        training: whether weights are dropped.
        key_padding_mask (B, S): True where a key is padding; numbers are added to the scores.
        need_weights: also give the weights; without, it is quicker.
        attn_mask (L, S) or (B * num_heads, L, S): True where a query may not look; numbers are added to the scores.
        use_separate_proj_weight: the projections are the next three.
        q_proj_weight (E, E), k_proj_weight (E, Ek), v_proj_weight (E, Ev): instead of `in_proj_weight`.
        static_k, static_v (B * num_heads, S, E / num_heads): take the place of projected keys and values.
        average_attn_weights: give the mean of the heads' weights.
        is_causal: says that `attn_mask` is causal, which may be quicker.
    Returns:
        (L, B, E), and the weights (B, L, S), or (B, num_heads, L, S) unless averaged; None without `need_weights`. A
        query that may look at nothing gets weights of 0.
    Raises:
        ShapeError: sizes that do not fit each other.
        ValueError: only one of bias_k and bias_v.
        RuntimeError: `is_causal` without a mask.
        DtypeError: a mask of integers.
    Source: Vaswani et al., Attention is all you need, 2017 (arXiv:1706.03762), section 3.2.2.

    >>> x, w = dynograd.ones(3, 1, 4), dynograd.eye(4)
    >>> out, weights = dynograd.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, dynograd.cat([w, w, w]), None, None, None, False, 0.0, w, None
    ... )
    >>> out.shape, weights.shape
    (dynograd.Size([3, 1, 4]), dynograd.Size([1, 3, 3]))
    """
    if is_ragged(query) or is_ragged(key) or is_ragged(value):
        return ragged_attention.multi_head_attention(multi_head_attention_forward, dict(locals()))
    single = query.dim() == 2
    if query.dim() not in (2, 3) or key.dim() != query.dim() or value.dim() != query.dim():
        raise ShapeError(
            f"{_WHO}: expected query, key and value all 2-D (unbatched) or all 3-D, got shapes {tuple(query.shape)}, "
            f"{tuple(key.shape)} and {tuple(value.shape)}."
        )
    if single:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    rows, batch, width = query.shape
    if width != embed_dim_to_check:
        raise ShapeError(
            f"{_WHO}: was expecting embedding dimension of {embed_dim_to_check}, but got {width} (query of shape "
            f"{(rows, width) if single else tuple(query.shape)}). Project query first, or build MultiheadAttention({width}, {num_heads})."
        )
    if width % num_heads:
        raise ShapeError(f"{_WHO}: embed_dim {width} not divisible by num_heads {num_heads}.")
    if is_causal and attn_mask is None:
        raise RuntimeError(
            f"{_WHO}: Need attn_mask if specifying the is_causal hint. Transformer.generate_square_subsequent_mask makes one."
        )
    if (bias_k is None) is not (bias_v is None):
        raise ValueError(f"{_WHO}: bias_k and bias_v must either both be None or neither be None. Give both, or none.")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight
    if type(width) is int:
        _check_weights(width, weights, in_proj_bias, out_proj_weight, out_proj_bias, key, value)
    q, k, v = _projected(query, key, value, weights, in_proj_bias)
    if bias_k is not None:
        k = _ops["cat"]([k, bias_k.expand(1, batch, width)])
        v = _ops["cat"]([v, bias_v.expand(1, batch, width)])
    q, k, v = (_split_heads(projected, num_heads) for projected in (q, k, v))
    if static_k is not None:
        k = static_k.reshape(batch, num_heads, *static_k.shape[1:])
    if static_v is not None:
        v = static_v.reshape(batch, num_heads, *static_v.shape[1:])
    if add_zero_attn:
        nothing = creation.zeros(batch, num_heads, 1, k.shape[-1], dtype=k.dtype, device=k.device)
        k, v = _ops["cat"]([k, nothing], 2), _ops["cat"]([v, nothing], 2)
    alone = is_causal and key_padding_mask is None and not need_weights and k.shape[2] == key.shape[0]
    mask = None if alone else _mask(attn_mask, key_padding_mask, q, key.shape[0], k.shape[2])
    probability = dropout_p if training else 0.0
    if need_weights:
        attention = _weights(q, k, mask)
        if probability:
            attention = _ops["dropout"](attention, probability, True)
        out = attention @ v
        attention = attention.mean(1) if average_attn_weights else attention
    else:
        attention = None
        out = _ops["scaled_dot_product_attention"](q, k, v, mask, probability, alone)
    out = out.permute(2, 0, 1, 3)
    # in a vmap over rows of different lengths their number is no int
    out = out.reshape(rows, batch, width) if type(rows) is int else out.flatten(2)
    out = _ops["linear"](out, out_proj_weight, out_proj_bias)
    if single:
        return out.squeeze(1), None if attention is None else attention.squeeze(0)
    return out, attention


def additive_mask(who: str, mask: Any, dtype: Any) -> Tensor | None:
    """A mask as numbers to add to scores: -inf where a bool one says True.

    Args:
        who: the function that messages name.
        mask: bool or floating, or None.
        dtype: of the numbers that a bool mask becomes.
    Returns:
        of the shape of `mask`, or None.
    Raises:
        DtypeError: a mask of integers.

    >>> from dynograd.nn.multihead import additive_mask
    >>> additive_mask("mine", tensor([False, True]), dynograd.float32)
    tensor([0., -inf])
    """
    if mask is None:
        return None
    if mask.is_floating_point():
        return mask
    if mask.array.dtype.kind != "b":
        raise DtypeError(
            f"{who}: only bool and floating types of masks are supported, got {mask.dtype}. Compare first: mask != 0."
        )
    return creation.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)


def _check_weights(width: int, weights: Any, bias: Any, out_weight: Any, out_bias: Any, key: Any, value: Any) -> None:
    check_tensor(_WHO, "out_proj_weight", out_weight)
    expected = {
        "out_proj_weight": (out_weight, (out_weight.shape[0], width)),
        "out_proj_bias": (out_bias, out_weight.shape[:1]),
    }
    expected["in_proj_bias"] = bias, (3 * width,)
    if isinstance(weights, tuple):
        for name, weight, read in zip("qkv", weights, (width, key.shape[-1], value.shape[-1]), strict=True):
            expected[f"{name}_proj_weight"] = weight, (width, read)
    else:
        expected["in_proj_weight"] = weights, (3 * width, width)
    for name, (tensor, shape) in expected.items():
        if tensor is not None or name.endswith("weight"):
            check_tensor(_WHO, name, tensor)
        if tensor is not None and tuple(tensor.shape) != tuple(shape):
            raise ShapeError(
                f"{_WHO}: expected {name} of shape {tuple(shape)} for an embedding dimension of {width}, got {tuple(tensor.shape)}."
            )


def _projected(query: Any, key: Any, value: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    if not isinstance(weight, tuple) and query is key and key is value:
        return _ops["linear"](query, weight, bias).chunk(3, -1)
    weights = weight if isinstance(weight, tuple) else weight.chunk(3, 0)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return tuple(_ops["linear"](*operands) for operands in zip((query, key, value), weights, biases, strict=True))


# --- by PyTorch's names, which copies of its attention import from `nn.functional` -------------------------------------------------


def _in_projection_packed(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None) -> list[Tensor]:
    """Queries, keys and values (..., E) by the three parts of the weight (3 E, E) and bias (3 E,)."""
    return list(_projected(q, k, v, w, b))


def _none_or_dtype(input: Tensor | None) -> object:
    """The dtype of a tensor, or None."""
    return None if input is None else input.dtype


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Tensor | None:
    """`additive_mask`, with a warning where the other mask has another dtype."""
    if mask is not None and check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=user_level(),
        )
    return additive_mask(mask_name, mask, target_type)


def _split_heads(x: Any, heads: int) -> Tensor:
    """(L, B, E) as (B, heads, L, E / heads)."""
    steps, batch, width = x.shape
    sizes = heads, width // heads
    split = x.reshape(steps, batch, *sizes) if type(steps) is int else x.unflatten(2, sizes)
    return split.permute(1, 2, 0, 3)


def _mask(attn_mask: Any, key_padding_mask: Any, q: Any, keys: int, columns: int) -> Tensor | None:
    """Both masks as one that broadcasts to (B, heads, L, S); keys added to the given ones are seen by all."""
    batch, heads, rows, _ = q.shape
    attn_mask = additive_mask(_WHO, attn_mask, q.dtype)
    key_padding_mask = additive_mask(_WHO, key_padding_mask, q.dtype)
    if attn_mask is not None:
        expected = {2: (rows, keys), 3: (batch * heads, rows, keys)}.get(attn_mask.dim())
        if tuple(attn_mask.shape) != expected:
            raise ShapeError(
                f"{_WHO}: The shape of the attn_mask is {tuple(attn_mask.shape)}, but should be {(rows, keys)} or "
                f"{(batch * heads, rows, keys)}."
            )
        if attn_mask.dim() == 3:
            attn_mask = attn_mask.reshape(batch, heads, rows, keys)
    if key_padding_mask is not None:
        if tuple(key_padding_mask.shape) != (batch, keys):
            raise ShapeError(
                f"{_WHO}: expected key_padding_mask of shape {(batch, keys)}, got {tuple(key_padding_mask.shape)}."
            )
        key_padding_mask = key_padding_mask.reshape(batch, 1, 1, keys)
    if attn_mask is None:
        mask = key_padding_mask
    else:
        mask = attn_mask if key_padding_mask is None else attn_mask + key_padding_mask
    return mask if mask is None or columns == keys else _ops["pad"](mask, (0, columns - keys))


def _weights(q: Any, k: Any, mask: Any) -> Tensor:
    scores = (q * (1.0 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
    if mask is None:
        return _ops["softmax"](scores, -1)
    blind = (mask == -math.inf).all(-1, True)
    if has_fixed_number(blind) and not bool(blind.any()):
        return _ops["softmax"](scores + mask, -1)
    return _ops["softmax"](scores + mask.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)
