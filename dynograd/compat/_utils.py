"""What programs take from `torch._utils`: several tensors as one flat one and back, and tensors from their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.compat.inner.rebuilding import *  # noqa: F403
from dynograd.compat.inner.rebuilding import __all__ as _rebuilding
from dynograd.errors import ShapeError
from dynograd.ops.layout.joins import cat

__all__ = ["_flatten_dense_tensors", "_unflatten_dense_tensors", *_rebuilding]


def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """All elements of the tensors behind each other.

    >>> from dynograd._utils import _flatten_dense_tensors
    >>> _flatten_dense_tensors([tensor([[1.0, 2.0]]), tensor([3.0])])
    tensor([1., 2., 3.])
    """
    return cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Views of `flat` in the shapes of the tensors.

    Raises:
        ShapeError: `flat` has fewer elements.
    """
    count = sum([tensor.numel() for tensor in tensors])
    if flat.numel() < count:
        raise ShapeError(f"_unflatten_dense_tensors: flat has {flat.numel()} elements but the tensors have {count}.")
    views, place = [], 0
    for tensor in tensors:
        views.append(flat.narrow(0, place, tensor.numel()).view(tensor.shape))
        place += tensor.numel()
    return tuple(views)
