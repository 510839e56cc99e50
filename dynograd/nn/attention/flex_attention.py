"""Attention whose scores are changed, and masked, by functions of their position (`torch.nn.attention.flex_attention`).

A function gets the indices of batch, head, query and key as tensors that broadcast to (B, H, Q, K), so it is called once for all scores;
the scores are computed as a whole. PyTorch compiles such a function for each score; what is written for that runs here, as long as it
is made of tensor operations (an `if` on an index cannot be in either).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dynograd.creation import arange, zeros
from dynograd.dtypes import bool as bool_dtype
from dynograd.errors import ShapeError
from dynograd.methods import public_functions
from dynograd.tensor import Tensor

__all__ = [
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "create_nested_block_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_ops = public_functions()
Mask = Callable[[Any, Any, Any, Any], Tensor]
_BLOCK = 128


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Tensor:
    """A mask that lets everything through."""
    return (token_kv == token_kv) & (token_q == token_q)


def and_masks(*mask_mods: Mask) -> Mask:
    """The mask that lets through what all of them do."""

    def both(b: Any, h: Any, q: Any, k: Any) -> Tensor:
        found = noop_mask(b, h, q, k)
        for one in mask_mods:
            found = found & one(b, h, q, k)
        return found

    return both


def or_masks(*mask_mods: Mask) -> Mask:
    """The mask that lets through what one of them does."""

    def either(b: Any, h: Any, q: Any, k: Any) -> Tensor:
        found = ~noop_mask(b, h, q, k)
        for one in mask_mods:
            found = found | one(b, h, q, k)
        return found

    return either


def _indices(sizes: tuple[int, ...], device: Any) -> list[Tensor]:
    """For each dim its indices, as a tensor that broadcasts along the others."""
    rank = len(sizes)
    return [
        arange(size, device=device).reshape(*[size if place == dim else 1 for place in range(rank)])  # type: ignore[attr-defined]
        for dim, size in enumerate(sizes)
    ]


def create_mask(mod_fn: Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """The mask of a function as a bool tensor (B, H, Q_LEN, KV_LEN); B and H count as 1 where they are None.

    >>> from dynograd.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)[0, 0]
    tensor([[ True, False],
            [ True,  True]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    found = mod_fn(*_indices(sizes, device))
    return found.to(bool_dtype).expand(*sizes)  # type: ignore[attr-defined]


class BlockMask:
    """A mask given by a function, for (B, H) or for all; `to_dense` and `sparsity` say which blocks hold something."""

    def __init__(self, mask_mod: Mask, shape: tuple[int, int, int, int], block: tuple[int, int], device: Any) -> None:
        self.mask_mod, self.shape, self.BLOCK_SIZE, self._device = mask_mod, shape, block, device
        self.seq_lengths = shape[2:]
        self._mask: Tensor | None = None

    def mask(self) -> Tensor:
        """Bool (B, H, Q, K), made once."""
        if self._mask is None:
            self._mask = create_mask(self.mask_mod, *self.shape, device=self._device)
        return self._mask

    def to_dense(self) -> Tensor:
        """Int (B, H, blocks of queries, blocks of keys): 1 where a block has a score that counts."""
        batch, heads, queries, keys = self.shape
        rows, columns = (-(-size // block) for size, block in zip((queries, keys), self.BLOCK_SIZE, strict=True))
        room = zeros(batch, heads, rows * self.BLOCK_SIZE[0], columns * self.BLOCK_SIZE[1], device=self._device)
        room[..., :queries, :keys] = self.mask().to(room.dtype)  # type: ignore[index,attr-defined]
        blocks = room.reshape(batch, heads, rows, self.BLOCK_SIZE[0], columns, self.BLOCK_SIZE[1])  # type: ignore[attr-defined]
        return blocks.amax((3, 5)).int()

    def sparsity(self) -> float:
        """The percentage of blocks without any score that counts."""
        dense = self.to_dense()
        return 100 * (1 - dense.sum().item() / max(dense.numel(), 1))  # type: ignore[attr-defined]

    def numel(self) -> int:
        """How many scores there are."""
        return math.prod(self.shape)

    def to(self, device: Any) -> BlockMask:
        """The same mask on another device."""
        return BlockMask(self.mask_mod, self.shape, self.BLOCK_SIZE, device)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _BLOCK,
    _compile: bool = False,
    **options: Any,
) -> BlockMask:
    """A mask for `flex_attention`. B or H of None (or 1) means one mask for all."""
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), block, device)  # type: ignore[arg-type]


def create_nested_block_mask(*args: Any, **kwargs: Any) -> BlockMask:
    """Refuses: ragged tensors go to `varlen_attn`, or to attention as they are."""
    raise NotImplementedError(
        "create_nested_block_mask: not for ragged tensors. nn.functional.scaled_dot_product_attention and "
        "nn.attention.varlen.varlen_attn take them as they are."
    )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[[Tensor, Any, Any, Any, Any], Tensor] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """`softmax(score_mod(query @ key.mT * scale, b, h, q, k)) @ value` over the keys that `block_mask` lets through.

    A query that sees no key gives zeros.

    Args:
        query (B, H, Q, E), key (B, H, K, E), value (B, H, K, V): with `enable_gqa`, keys and values may have fewer heads.
        score_mod: the new scores from scores and the four indices, all broadcast to (B, H, Q, K).
        scale: `1 / sqrt(E)` unless given.
        return_lse: also gives the logarithm of the sums of exponentials, (B, H, Q).
    Returns:
        (B, H, Q, V).

    >>> from dynograd.nn.attention.flex_attention import create_block_mask, flex_attention
    >>> q = dynograd.ones(1, 1, 3, 2)
    >>> v = tensor([1.0, 2.0, 3.0]).reshape(1, 1, 3, 1)
    >>> causal = create_block_mask(lambda b, h, q, k: q >= k, None, None, 3, 3)
    >>> flex_attention(q, q, v, block_mask=causal).flatten()
    tensor([1.0000, 1.5000, 2.0000])
    """
    if any([one.array.ndim != 4 for one in (query, key, value)]):
        shapes = ", ".join([str(tuple(one.shape)) for one in (query, key, value)])
        raise ShapeError(f"flex_attention: expected query, key and value of 4 dims (B, H, T, E), got {shapes}.")
    heads, held = query.shape[1], key.shape[1]
    if heads != held:
        if not enable_gqa or heads % held:
            raise ShapeError(
                f"flex_attention: query has {heads} heads and key {held}. Pass enable_gqa=True where {heads} is a multiple of {held}."
            )
        key, value = (_ops["repeat_interleave"](one, heads // held, 1) for one in (key, value))
    scores = _ops["matmul"](query, key.transpose(-2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)  # type: ignore[attr-defined]
    indices = _indices(tuple(scores.shape), scores.device)
    if score_mod is not None:
        scores = score_mod(scores, *indices)
    if block_mask is not None:
        mask = block_mask.mask()
        if tuple(mask.shape[-2:]) != tuple(scores.shape[-2:]):
            raise ShapeError(
                f"flex_attention: block_mask is for {tuple(mask.shape[-2:])} queries and keys, but there are "
                f"{tuple(scores.shape[-2:])}. Make it with create_block_mask(..., Q_LEN={scores.shape[-2]}, KV_LEN={scores.shape[-1]})."
            )
        scores = scores.masked_fill(~mask.to(scores.device), -math.inf)
    top = _ops["amax"](scores.detach(), -1, True)
    top = top.masked_fill(top == -math.inf, 0.0)
    weights = (scores - top).exp()
    total = weights.sum(-1, keepdim=True)
    result = _ops["matmul"](weights / total.masked_fill(total == 0, 1.0), value).to(value.dtype)
    return (result, (total.log() + top).squeeze(-1)) if return_lse else result
