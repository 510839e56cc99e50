"""Causal masks for `scaled_dot_product_attention` where there are more keys than queries, or fewer."""

from __future__ import annotations

from dynograd.base.hints import DeviceLike
from dynograd.tensor.creation import ones
from dynograd.tensor.tensor import Tensor

__all__ = ["causal_lower_right", "causal_upper_left"]


def causal_upper_left(*size: int, device: DeviceLike = None) -> Tensor:
    """A bool mask: query t sees the keys up to t.

    Args:
        size: T queries and S keys.
        device: of the mask.
    Returns:
        (T, S), bool, True where a query may look.
    Raises:
        ValueError: not two sizes.

    >>> dynograd.nn.attention.bias.causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    rows, columns = _sizes("causal_upper_left", size)
    return ones(rows, columns, dtype=_bool, device=device).tril()


def causal_lower_right(*size: int, device: DeviceLike = None) -> Tensor:
    """A bool mask: the last query sees all keys, and each one before it one key less.

    Args:
        size: T queries and S keys.
        device: of the mask.
    Returns:
        (T, S), bool, True where a query may look.
    Raises:
        ValueError: not two sizes.

    >>> dynograd.nn.attention.bias.causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    rows, columns = _sizes("causal_lower_right", size)
    return ones(rows, columns, dtype=_bool, device=device).tril(columns - rows)


def _sizes(who: str, size: tuple[int, ...]) -> tuple[int, ...]:
    if len(size) != 2:
        raise ValueError(f"{who}: expected two sizes, of queries and keys, got {size}.")
    return size


from dynograd.base.dtypes import bool as _bool  # noqa: E402  (the name is Python's above)
from dynograd.base.signatures import show_plainly as _show_plainly  # noqa: E402

_show_plainly(globals())
