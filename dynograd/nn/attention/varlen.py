"""Attention within sequences that lie behind one another, under PyTorch's names; `nn.functional.varlen_attention` is what computes it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dynograd.arrays import Array
from dynograd.base.dtypes import bool as bool_
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.ops.segment.offsets import checked_offsets
from dynograd.tensor.creation import tensor
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]

_ops = public_functions()


class AuxRequest(NamedTuple):
    """What `varlen_attn` gives besides its result.

    Args:
        lse: the logarithm of the sums of exponentials.

    >>> from dynograd.nn.attention.varlen import AuxRequest
    >>> AuxRequest(lse=True)
    AuxRequest(lse=True)
    """

    lse: bool = False


def varlen_attn(
    query: Any,
    key: Any,
    value: Any,
    cu_seq_q: Any,
    cu_seq_k: Any,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Any = None,
    block_table: Any = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of each sequence of queries with its sequence of keys, on any device, with gradients of any order.

    Args:
        query (Tq, H, E), key (Tk, H, E), value (Tk, H, V): tokens of all sequences behind one another.
        cu_seq_q, cu_seq_k (B + 1,): where sequences begin, and where the last one ends; keys like queries where the
            second is None.
        max_q, max_k, num_splits: accepted; lengths are read from the offsets.
        return_aux: `AuxRequest(lse=True)` also gives the logarithms of the sums of exponentials, as PyTorch does (H, Tq).
        scale: `1 / sqrt(E)` when left out.
        window_size: (left, right), how many keys a query sees on either side of its place, -1 for all; (-1, 0) is
            causal. The last query of a sequence stands at its last key.
        enable_gqa: keys and values have fewer heads.
        seqused_k (B,): how many keys of each sequence are in use, the first ones: a cache with room for more.
        block_table (B, pages): caches in pages: key and value are then (pages, tokens of a page, H, *), and the
            tokens of sequence b lie in the pages `block_table[b]`; needs `seqused_k`, and `cu_seq_k` is not read.
    Returns:
        (Tq, H, V); a pair with the logarithms where `return_aux` asks for them.
    Raises:
        ValueError: numbers of heads that do not fit; `block_table` without `seqused_k`.
        IndexRangeError: more keys in use than a sequence has, or a page that there is not; the message names the sequence.

    >>> from dynograd.nn.attention.varlen import varlen_attn
    >>> q, cuts = dynograd.ones(5, 2, 4), tensor([0, 2, 5])
    >>> varlen_attn(q, q, q, cuts, cuts, 3, 3, window_size=(-1, 0)).shape
    dynograd.Size([5, 2, 4])
    >>> pages = dynograd.ones(6, 16, 2, 4)  # 6 pages of 16 tokens
    >>> table, used = tensor([[4, 0], [2, 2]]), tensor([20, 7])
    >>> step = dynograd.ones(2, 2, 4)  # a query for each sequence
    >>> varlen_attn(step, pages, pages, tensor([0, 1, 2]), None, 1, 20, seqused_k=used, block_table=table).shape
    dynograd.Size([2, 2, 4])
    """
    who = "varlen_attn"
    if block_table is not None:
        key, value, cu_seq_k = _of_pages(who, key, value, block_table, seqused_k)
    elif seqused_k is not None:
        key, value, cu_seq_k = _in_use(who, key, value, cu_seq_q if cu_seq_k is None else cu_seq_k, seqused_k)
    if query.dim() == 3 and key.dim() == 3 and query.shape[1] != key.shape[1]:
        heads, groups = query.shape[1], key.shape[1]
        if not enable_gqa:
            raise ValueError(
                f"{who}: Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={groups}. Try setting "
                f"enable_gqa=True for GQA."
            )
        if not groups or heads % groups:
            raise ValueError(
                f"{who}: Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={groups}."
            )
    left, right = window_size
    both = return_aux is not None and bool(return_aux.lse)
    operands = (query, key, value, cu_seq_q, cu_seq_k)
    return _ops["varlen_attention"](
        *operands, scale=scale, enable_gqa=enable_gqa, window=(left, right), ends=True, return_lse=both
    )


def _in_use(who: str, key: Any, value: Any, offsets: Any, used: Any) -> tuple[Any, Any, Any]:
    """The first `used` keys of each sequence, behind one another."""
    bounds = np.array(checked_offsets(who, "cu_seq_k", offsets, key.shape[0], "key"))
    room = np.diff(bounds)
    counts = _counts(who, used, room, "its part of cu_seq_k has room for")
    if (counts == room).all():
        return key, value, offsets
    places = np.arange(counts.sum()) + np.repeat(bounds[:-1] - (np.cumsum(counts) - counts), counts)
    return _picked(key, value, places, counts)


def _of_pages(who: str, key: Any, value: Any, table: Any, used: Any) -> tuple[Any, Any, Any]:
    """The keys of each sequence, found by its pages, behind one another."""
    if used is None:
        raise ValueError(f"{who}: block_table needs seqused_k, how many tokens of each sequence are in use.")
    if key.dim() != 4 or value.dim() != 4 or key.shape[:3] != value.shape[:3]:
        raise ShapeError(
            f"{who}: with block_table, expected key and value (pages, tokens of a page, heads, features), got {tuple(key.shape)} and "
            f"{tuple(value.shape)}."
        )
    pages = _whole(who, "block_table", table)
    if pages.ndim != 2:
        raise ShapeError(f"{who}: expected block_table (sequences, pages of each), got {pages.shape}.")
    count, size = key.shape[:2]
    counts = _counts(who, used, np.full(len(pages), pages.shape[1] * size), f"{pages.shape[1]} pages of {size} hold")
    needed = np.arange(pages.shape[1]) * size < counts[:, None]
    wrong = needed & ((pages < 0) | (pages >= count))
    if wrong.any():
        row, place = (int(indices[0]) for indices in np.nonzero(wrong))
        raise IndexRangeError(
            f"{who}: block_table[{row}, {place}] = {pages[row, place]}, but key has {count} pages (sequence {row} has {counts[row]} tokens in use)."
        )
    keys, values = (paged.reshape(count * size, *paged.shape[2:]) for paged in (key, value))
    rows = np.repeat(np.arange(len(pages)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    places = pages[rows, within // max(size, 1)] * size + within % max(size, 1)
    return _picked(keys, values, places, counts)


def _picked(key: Any, value: Any, places: Any, counts: Any) -> tuple[Any, Any, Any]:
    """The tokens at `places`, and the offsets of sequences of so many."""
    at = tensor(places, device=key.device)
    offsets = tensor(np.concatenate([[0], np.cumsum(counts)]), device=key.device)
    return key.index_select(0, at), value.index_select(0, at), offsets


def _counts(who: str, used: Any, room: Any, where: str) -> Array:
    counts = _whole(who, "seqused_k", used)
    if counts.shape != room.shape:
        raise ShapeError(f"{who}: expected seqused_k ({len(room)},), one number for each sequence, got {counts.shape}.")
    wrong = (counts < 0) | (counts > room)
    if wrong.any():
        row = int(wrong.argmax())
        raise IndexRangeError(f"{who}: seqused_k[{row}] = {counts[row]}, but {where} {room[row]} tokens.")
    return counts


def _whole(who: str, name: str, value: Any) -> Array:
    if not hasattr(value, "numpy"):
        raise TypeError(f"{who}: expected {name} to be a Tensor, got {type(value).__name__}. Use tensor(...).")
    if value.dtype.is_floating_point or value.dtype.is_complex or value.dtype is bool_:
        raise DtypeError(f"{who}: expected {name} of an integer dtype, got {value.dtype}. Use .long().")
    return value.detach().cpu().numpy().astype(np.int64)


def varlen_attn_out(out: Any, *args: Any, **kwargs: Any) -> Tensor | tuple[Tensor, ...]:
    """`varlen_attn`, written into `out`.

    Args:
        out (Tq, H, V): where to.
        args, kwargs: those of `varlen_attn`.
    Returns:
        `out`; a pair with the logarithms where `return_aux` asks for them.
    Raises:
        ShapeError: `out` has another shape than the result.

    >>> from dynograd.nn.attention.varlen import varlen_attn_out
    >>> q, cuts, out = dynograd.ones(5, 2, 4), tensor([0, 2, 5]), dynograd.empty(5, 2, 4)
    >>> varlen_attn_out(out, q, q, q, cuts, cuts, 3, 3) is out
    True
    """
    results = varlen_attn(*args, **kwargs)
    result, *rest = results if isinstance(results, tuple) else (results,)
    if tuple(out.shape) != tuple(result.shape):
        raise ShapeError(f"varlen_attn_out: expected out of shape {tuple(result.shape)}, got {tuple(out.shape)}.")
    return (out.copy_(result), *rest) if rest else out.copy_(result)
