"""Attention within sequences that lie behind one another, under PyTorch's names; `nn.functional.varlen_attention` is what computes it."""

from __future__ import annotations

from typing import Any, NamedTuple

from dynograd.errors import ShapeError
from dynograd.methods import public_functions

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]

_ops = public_functions()


class AuxRequest(NamedTuple):
    """What `varlen_attn` gives besides its result."""

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
) -> Any:
    """Attention of each sequence of queries with its sequence of keys, on any device, with gradients of any order.

    Args:
        query (Tq, H, E), key (Tk, H, E), value (Tk, H, V): tokens of all sequences behind one another.
        cu_seq_q, cu_seq_k (B + 1,): where sequences begin, and where the last one ends; keys like queries where the second is None.
        max_q, max_k: accepted; lengths are read from the offsets.
        window_size: (left, right), how many keys a query sees on either side of its place, -1 for all; (-1, 0) is causal. The last query
            of a sequence stands at its last key.
        enable_gqa: keys and values have fewer heads.
        seqused_k, block_table: key caches in pages are not supported.
    Raises:
        NotImplementedError: `seqused_k`, `block_table`, or sums of exponentials in `return_aux`.

    >>> from dynograd.nn.attention.varlen import varlen_attn
    >>> q, cuts = dynograd.ones(5, 2, 4), tensor([0, 2, 5])
    >>> varlen_attn(q, q, q, cuts, cuts, 3, 3, window_size=(-1, 0)).shape
    dynograd.Size([5, 2, 4])
    """
    for name, given in (("seqused_k", seqused_k), ("block_table", block_table)):
        if given is not None:
            raise NotImplementedError(
                f"varlen_attn: {name} (caches of keys in pages) is not supported. Cut key and value to the tokens in use."
            )
    if return_aux is not None and return_aux.lse:
        raise NotImplementedError(
            "varlen_attn: AuxRequest(lse=True) is not supported. (query @ key.T * scale).logsumexp(-1) of a sequence is what it gives."
        )
    if query.dim() == 3 and key.dim() == 3 and query.shape[1] != key.shape[1]:
        heads, groups = query.shape[1], key.shape[1]
        if not enable_gqa:
            raise ValueError(
                f"varlen_attn: Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={groups}. Try setting "
                f"enable_gqa=True for GQA."
            )
        if not groups or heads % groups:
            raise ValueError(
                f"varlen_attn: Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={groups}."
            )
    left, right = window_size
    return _ops["varlen_attention"](
        query, key, value, cu_seq_q, cu_seq_k, scale=scale, enable_gqa=enable_gqa, window=(left, right), ends=True
    )


def varlen_attn_out(out: Any, *args: Any, **kwargs: Any) -> Any:
    """`varlen_attn`, written into `out`.

    Raises:
        ShapeError: `out` has another shape than the result.
    """
    found = varlen_attn(*args, **kwargs)
    if tuple(out.shape) != tuple(found.shape):
        raise ShapeError(f"varlen_attn_out: expected out of shape {tuple(found.shape)}, got {tuple(out.shape)}.")
    return out.copy_(found)
