"""The standard's sorts; equal elements keep their order."""

from __future__ import annotations

from typing import Any

from dynograd.compat.array_api.table import ops
from dynograd.tensor.tensor import Tensor

__all__ = ["argsort", "sort"]


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """`x` sorted along `axis`; NaN counts as largest.

    Args:
        x: a tensor.
        axis: which dim; negative counts from the end.
        descending: the largest first.
        stable: equal elements keep their order.
    Returns:
        The shape of `x`.

    >>> xp.sort(xp.asarray([3, 1, 2]), descending=True)
    tensor([3, 2, 1])
    """
    return ops.sort(x, axis, descending, stable)[0]


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The numbers along `axis` that sort `x`.

    Args:
        x: a tensor.
        axis: which dim; negative counts from the end.
        descending: the largest first.
        stable: equal elements keep their order.
    Returns:
        The shape of `x`.

    >>> xp.argsort(xp.asarray([3, 1, 2]))
    tensor([1, 2, 0])
    """
    order: Any = ops.argsort(x, axis, descending, stable)
    return order
