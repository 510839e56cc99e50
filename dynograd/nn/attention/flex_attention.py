"""Attention whose scores are changed, and masked, by functions of their position (`torch.nn.attention.flex_attention`).

A function gets the indices of batch, head, query and key as tensors that broadcast to (B, H, Q, K), so it is called once for all scores;
the scores are computed as a whole. PyTorch compiles such a function for each score; what is written for that runs here, as long as it
is made of tensor operations (an `if` on an index cannot be in either).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dynograd.base.dtypes import bool as bool_dtype
from dynograd.base.hints import DeviceLike
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.base.signatures import without_private
from dynograd.errors import ShapeError
from dynograd.ragged import is_ragged
from dynograd.tensor.creation import arange, full, zeros
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = [
    "AuxOutput",
    "AuxRequest",
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
_DEFAULT_SPARSE_BLOCK_SIZE = 128


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """A mask that lets everything through.

    Args:
        batch, head, token_q, token_kv: indices, tensors that broadcast.
    Returns:
        True everywhere.

    >>> from dynograd.nn.attention.flex_attention import create_mask, noop_mask
    >>> create_mask(noop_mask, None, None, 1, 2).flatten()
    tensor([True, True])
    """
    return (token_kv == token_kv) & (token_q == token_q)


def and_masks(*mask_mods: Mask) -> Mask:
    """The mask that lets through what all of them do.

    Args:
        mask_mods: masks: functions of the indices (batch, head, query, key).
    Returns:
        a mask.

    >>> from dynograd.nn.attention.flex_attention import and_masks, create_mask
    >>> near = and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k < 2)
    >>> create_mask(near, None, None, 3, 3)[0, 0]
    tensor([[ True, False, False],
            [ True,  True, False],
            [False,  True,  True]])
    """

    def both(b: Any, h: Any, q: Any, k: Any) -> Tensor:
        mask = noop_mask(b, h, q, k)
        for mask_mod in mask_mods:
            mask = mask & mask_mod(b, h, q, k)
        return mask

    return both


def or_masks(*mask_mods: Mask) -> Mask:
    """The mask that lets through what one of them does.

    Args:
        mask_mods: masks: functions of the indices (batch, head, query, key).
    Returns:
        a mask.

    >>> from dynograd.nn.attention.flex_attention import create_mask, or_masks
    >>> ends = or_masks(lambda b, h, q, k: k == 0, lambda b, h, q, k: k == q)
    >>> create_mask(ends, None, None, 3, 3)[0, 0]
    tensor([[ True, False, False],
            [ True,  True, False],
            [ True, False,  True]])
    """

    def either(b: Any, h: Any, q: Any, k: Any) -> Tensor:
        mask = ~noop_mask(b, h, q, k)
        for mask_mod in mask_mods:
            mask = mask | mask_mod(b, h, q, k)
        return mask

    return either


def _indices(sizes: tuple[int, ...], device: DeviceLike) -> list[Tensor]:
    """For each dim its indices, as a tensor that broadcasts along the others."""
    rank = len(sizes)
    return [
        arange(size, device=device).reshape(*[size if place == dim else 1 for place in range(rank)])
        for dim, size in enumerate(sizes)
    ]


def create_mask(
    mod_fn: Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: DeviceLike = None
) -> Tensor:
    """The mask of a function as a bool tensor.

    Args:
        mod_fn: a function of the indices (batch, head, query, key), which are tensors that broadcast.
        B, H: sizes of batch and heads; None is 1.
        Q_LEN, KV_LEN: how many queries and keys.
        device: of the mask.
    Returns:
        (B, H, Q_LEN, KV_LEN), bool, True where a query may look.

    >>> from dynograd.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)[0, 0]
    tensor([[ True, False],
            [ True,  True]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    mask = mod_fn(*_indices(sizes, device))
    return mask.to(bool_dtype).expand(*sizes)


class BlockMask:
    """A mask of a function, for (B, H) or for all; `to_dense` and `sparsity` say which blocks hold something.

    Args:
        mask_mod: a function of the indices (batch, head, query, key).
        shape: (B, H, Q, K).
        block: sizes of the blocks of queries and of keys.
        device: of the mask.

    >>> from dynograd.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, BLOCK_SIZE=2)
    BlockMask(shape=(1, 1, 4, 4), sparsity=25.00%)
    """

    def __init__(
        self, mask_mod: Mask, shape: tuple[int, int, int, int], block: tuple[int, int], device: DeviceLike
    ) -> None:
        self.mask_mod, self.shape, self.BLOCK_SIZE, self._device = mask_mod, shape, block, device
        self.seq_lengths = shape[2:]
        self._mask: Tensor | None = None

    def mask(self) -> Tensor:
        """The mask as a tensor, made once.

        Returns:
            (B, H, Q, K), bool.

        >>> from dynograd.nn.attention.flex_attention import create_block_mask
        >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 2, 2).mask()[0, 0]
        tensor([[ True, False],
                [ True,  True]])
        """
        if self._mask is None:
            self._mask = create_mask(self.mask_mod, *self.shape, device=self._device)
        return self._mask

    def to_dense(self) -> Tensor:
        """Which blocks have a score that counts.

        Returns:
            (B, H, blocks of queries, blocks of keys), int32: 1 where there is one, else 0.

        >>> from dynograd.nn.attention.flex_attention import create_block_mask
        >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, BLOCK_SIZE=2).to_dense()[0, 0]
        tensor([[1, 0],
                [1, 1]], dtype=dynograd.int32)
        """
        batch, heads, queries, keys = self.shape
        rows, columns = (-(-size // block) for size, block in zip((queries, keys), self.BLOCK_SIZE, strict=True))
        room = zeros(batch, heads, rows * self.BLOCK_SIZE[0], columns * self.BLOCK_SIZE[1], device=self._device)
        room[..., :queries, :keys] = self.mask().to(room.dtype)
        blocks = room.reshape(batch, heads, rows, self.BLOCK_SIZE[0], columns, self.BLOCK_SIZE[1])
        return blocks.amax((3, 5)).int()

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks, of each batch and head below its numbers: full, light where only some count, or empty.

        Args:
            grid_size: how many rows and columns at most; several blocks share a place where there are more. -1: a place for each.
            limit: how many pictures at most.
        Returns:
            A text.

        >>> from dynograd.nn.attention.flex_attention import create_block_mask
        >>> print(create_block_mask(lambda b, h, q, k: q <= k, None, None, 4, 4, BLOCK_SIZE=2).to_string())
        (0, 0)
        ████
          ██
        <BLANKLINE>
        """
        dense = self.to_dense()
        most = grid_size if isinstance(grid_size, tuple) else (grid_size, grid_size)
        steps = [-(-size // at_most) if at_most > 0 else 1 for size, at_most in zip(dense.shape[2:], most, strict=True)]
        pictures = []
        for place in itertools.islice(itertools.product(*map(range, dense.shape[:2])), max(limit, 0)):
            lines = [
                "".join([_shade(part.float().mean().item()) * 2 for part in rows.split(max(steps[1], 1), 1)])
                for rows in dense[place].split(max(steps[0], 1))
            ]
            pictures.append("\n".join([str(place), *lines, ""]))
        if math.prod(dense.shape[:2]) > len(pictures):
            pictures += [
                "...",
                "To print out more, set BlockMask.to_string(limit=N)",
            ]
        return "\n".join(pictures)

    def sparsity(self) -> float:
        """The percentage of blocks without any score that counts.

        Returns:
            float, from 0 to 100.

        >>> from dynograd.nn.attention.flex_attention import create_block_mask
        >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, BLOCK_SIZE=2).sparsity()
        25.0
        """
        dense = self.to_dense()
        return 100 * (1 - dense.sum().item() / max(dense.numel(), 1))

    def numel(self) -> int:
        """How many scores there are.

        Returns:
            B * H * Q * K.

        >>> from dynograd.nn.attention.flex_attention import create_block_mask
        >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4).numel()
        16
        """
        return math.prod(self.shape)

    def to(self, device: DeviceLike) -> BlockMask:
        """The same mask on another device.

        Args:
            device: where to.
        Returns:
            BlockMask.

        >>> from dynograd.nn.attention.flex_attention import create_block_mask
        >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 2, 2).to("cpu").mask().device
        device(type='cpu')
        """
        return BlockMask(self.mask_mod, self.shape, self.BLOCK_SIZE, device)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def _shade(share: float) -> str:
    return "█" if share == 1 else "░" if share else " "


@without_private
def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: DeviceLike = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """A mask for `flex_attention`.

    Args:
        mask_mod: a function of the indices (batch, head, query, key), True where a query may look.
        B, H: sizes of batch and heads; None (or 1) is one mask for all.
        Q_LEN, KV_LEN: how many queries and keys.
        device: of the mask.
        BLOCK_SIZE: sizes of the blocks of queries and of keys, or one for both.
        _compile, separate_full_blocks, compute_dq_write_order, dq_kv_order: how PyTorch keeps blocks; accepted.
    Returns:
        BlockMask.

    >>> from dynograd.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
    BlockMask(shape=(1, 1, 256, 256), sparsity=25.00%)
    """
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), block, device)  # type: ignore[arg-type]


@without_private
def create_nested_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    q_nt: Tensor,
    kv_nt: Tensor | None = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
) -> BlockMask:
    """A mask for ragged queries and keys: as large as the longest row needs.

    Args:
        mask_mod: a function of the indices (batch, head, query, key), which count from each row's beginning.
        B, H: sizes of batch and heads; None (or 1) is one mask for all.
        q_nt (B, H, j, E): ragged queries.
        kv_nt (B, H, j, E): ragged keys; those of the queries when left out.
        BLOCK_SIZE: sizes of the blocks of queries and of keys, or one for both.
        _compile: accepted.
    Returns:
        BlockMask.
    Raises:
        ShapeError: queries or keys of another form.

    >>> from dynograd.nn.attention.flex_attention import create_nested_block_mask
    >>> q = dynograd.ragged_tensor([dynograd.ones(2, 1, 4), dynograd.ones(3, 1, 4)]).transpose(1, 2)
    >>> create_nested_block_mask(lambda b, h, q, k: q >= k, None, None, q).shape
    (1, 1, 3, 3)
    """
    queries, keys = [
        _row_lengths("create_nested_block_mask", nested).longest for nested in (q_nt, q_nt if kv_nt is None else kv_nt)
    ]
    return create_block_mask(mask_mod, B, H, queries, keys, q_nt.device, BLOCK_SIZE, _compile)


class AuxRequest(NamedTuple):
    """What `flex_attention` gives beside its result.

    Args:
        lse: the logarithm of the sums of exponentials.
        max_scores: each query's largest score.

    >>> from dynograd.nn.attention.flex_attention import AuxRequest
    >>> AuxRequest(lse=True)
    AuxRequest(lse=True, max_scores=False)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for in an `AuxRequest`, None for the rest.

    Args:
        lse (B, H, Q): the logarithm of the sums of exponentials.
        max_scores (B, H, Q): each query's largest score, without history.

    >>> from dynograd.nn.attention.flex_attention import AuxRequest, flex_attention
    >>> q = dynograd.ones(1, 1, 3, 2)
    >>> _, aux = flex_attention(q, q, q, return_aux=AuxRequest(lse=True))
    >>> aux.lse.shape, aux.max_scores
    (dynograd.Size([1, 1, 3]), None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """`softmax(score_mod(query @ key.mT * scale, b, h, q, k)) @ value` over the keys that `block_mask` lets through.

    A query that sees no key gives zeros. Ragged rows (B, H, j, E) see the keys of their own row: q and k count from
    the row's beginning, b counts the rows, and `block_mask` is at least as large as the longest row. Rows of equal
    shape are computed together, nothing is padded.

    Args:
        query (B, H, Q, E), key (B, H, K, E), value (B, H, K, V): with `enable_gqa`, keys and values may have fewer heads.
        score_mod: the new scores from scores and the four indices, all broadcast to (B, H, Q, K).
        block_mask: which keys a query sees; all when left out.
        scale: `1 / sqrt(E)` when left out.
        enable_gqa: several heads of queries share a head of keys and values.
        return_lse: also give the logarithm of the sums of exponentials, (B, H, Q).
        kernel_options: accepted.
        return_aux: also give an `AuxOutput` of what is asked for: the same logarithms, and each query's largest score
            (without history).
    Returns:
        (B, H, Q, V); a pair with what else is asked for.
    Raises:
        ShapeError: tensors that are not 4-d, numbers of heads that do not fit, a mask for other sizes.
        ValueError: both `return_lse` and `return_aux`.
    Source: Dong et al., Flex attention: a programming model for generating optimized attention kernels, 2024 (arXiv:2412.05496).

    >>> from dynograd.nn.attention.flex_attention import create_block_mask, flex_attention
    >>> q = dynograd.ones(1, 1, 3, 2)
    >>> v = tensor([1.0, 2.0, 3.0]).reshape(1, 1, 3, 1)
    >>> causal = create_block_mask(lambda b, h, q, k: q >= k, None, None, 3, 3)
    >>> flex_attention(q, q, v, block_mask=causal).flatten()
    tensor([1.0000, 1.5000, 2.0000])
    """
    if return_lse and return_aux is not None:
        raise ValueError(
            "flex_attention: both return_lse and return_aux are given. Pass return_aux=AuxRequest(lse=True)."
        )
    named = {"query": query, "key": key, "value": value}
    if any([tensor.ndim != 4 for tensor in named.values()]):
        shapes = ", ".join([str(tuple(tensor.shape)) for tensor in named.values()])
        raise ShapeError(f"flex_attention: expected query, key and value of 4 dims (B, H, T, E), got {shapes}.")
    parts = [_row_lengths("flex_attention", tensor) for tensor in named.values() if is_ragged(tensor)]
    heads, key_heads = query.shape[1], key.shape[1]
    if heads != key_heads and (not enable_gqa or heads % key_heads):
        raise ShapeError(
            f"flex_attention: query has {heads} heads and key {key_heads}. Pass enable_gqa=True where {heads} is a multiple of {key_heads}."
        )
    if block_mask is not None:
        _check_mask(block_mask, query, key)

    def attend(query: Tensor, key: Tensor, value: Tensor, batch: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        if heads != key_heads:
            key, value = (_ops["repeat_interleave"](tensor, heads // key_heads, 1) for tensor in (key, value))
        return _attended(query, key, value, score_mod, block_mask, scale, batch)

    if parts:
        from dynograd.ragged.families.attending import attend_by_shape

        result, lse, largest = attend_by_shape(attend, query, key, value)
    else:
        result, lse, largest = attend(query, key, value)
    if return_aux is not None:
        return result, AuxOutput(lse if return_aux.lse else None, largest if return_aux.max_scores else None)
    return (result, lse) if return_lse else result


def _attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor] | None,
    block_mask: BlockMask | None,
    scale: float | None,
    batch: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(result, logarithms of the sums, largest scores); `batch` are the numbers of ragged rows."""
    scores = _ops["matmul"](query, key.transpose(-2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    indices = _indices(tuple(scores.shape), scores.device)
    if batch is not None:
        indices[0] = batch.reshape(-1, 1, 1, 1)
    if score_mod is not None:
        scores = score_mod(scores, *indices)
    if block_mask is not None:
        if batch is None:
            mask = block_mask.mask().to(scores.device)
        else:
            shared = [index * 0 if size == 1 else index for index, size in zip(indices[:2], block_mask.shape[:2])]
            mask = block_mask.mask_mod(*shared, *indices[2:]).to(bool_dtype)
        scores = scores.masked_fill(~mask, -math.inf)
    if scores.shape[-1]:
        largest = _ops["amax"](scores.detach(), -1, True)
    else:
        largest = full((*scores.shape[:-1], 1), -math.inf, dtype=scores.dtype, device=scores.device)
    top = largest.masked_fill(largest == -math.inf, 0.0)
    weights = (scores - top).exp()
    total = weights.sum(-1, keepdim=True)
    result = _ops["matmul"](weights / total.masked_fill(total == 0, 1.0), value).to(value.dtype)
    return result, (total.log() + top).squeeze(-1), largest.squeeze(-1)


def _check_mask(block_mask: BlockMask, query: Any, key: Any) -> None:
    """That there is a mask for all scores: for ragged rows it may be larger."""
    queries, keys = (
        _row_lengths("", tensor).longest if is_ragged(tensor) else tensor.shape[-2] for tensor in (query, key)
    )
    sizes = tuple(block_mask.shape[-2:])
    if is_ragged(query) or is_ragged(key):
        fits = sizes[0] >= queries and sizes[1] >= keys
    else:
        fits = sizes == (queries, keys)
    if not fits:
        raise ShapeError(
            f"flex_attention: block_mask is for {sizes} queries and keys, but there are {(queries, keys)}. "
            f"Make it with create_block_mask(..., Q_LEN={queries}, KV_LEN={keys})."
        )


def _row_lengths(who: str, x: Any) -> Any:
    """The partition of ragged rows (B, H, j, E)."""
    if not is_ragged(x) or x.ndim != 4 or x.place != 2 or is_ragged(x.packed):
        raise ShapeError(
            f"{who}: expected ragged rows (B, H, j, E) whose lengths differ in dim 2, got shape {tuple(x.shape)}. "
            f"Bring the heads forward: x.transpose(1, 2) of (B, j, H, E)."
        )
    return x.partition


_show_plainly(globals())
