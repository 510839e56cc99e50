"""The standard's functions of distinct elements: sorted; each NaN is an element of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

from dynograd.compat.array_api.table import ops
from dynograd.tensor.creation import empty, ones, tensor
from dynograd.tensor.tensor import Tensor

__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct values, where each is first, which of them each element is, and how often each occurs.

    Args:
        x: a tensor.
    Returns:
        (values, indices, inverse_indices, counts).

    >>> xp.unique_all(xp.asarray([5, 3, 5])).counts
    tensor([1, 2])
    """
    flat = ops.reshape(x, (-1,))
    order = _order(flat)
    ordered = flat[order]
    starts: Any = ones(flat.shape, dtype=bool, device=x.device)
    if flat.numel():
        starts[1:] = ordered[1:] != ordered[:-1]
    (first,) = ops.nonzero(starts, as_tuple=True)
    inverse: Any = empty(flat.shape, dtype=order.dtype, device=x.device)
    inverse[order] = ops.cumsum(starts, 0) - 1
    end = tensor([flat.numel()], dtype=first.dtype, device=x.device)
    return UniqueAll(ordered[first], order[first], ops.reshape(inverse, x.shape), ops.diff(first, append=end))


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct values, and how often each occurs.

    Args:
        x: a tensor.
    Returns:
        (values, counts).

    >>> xp.unique_counts(xp.asarray([3, 1, 3]))
    UniqueCounts(values=tensor([1, 3]), counts=tensor([1, 2]))
    """
    unique = unique_all(x)
    return UniqueCounts(unique.values, unique.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct values, and which of them each element is.

    Args:
        x: a tensor.
    Returns:
        (values, inverse_indices).

    >>> xp.unique_inverse(xp.asarray([3, 1, 3]))
    UniqueInverse(values=tensor([1, 3]), inverse_indices=tensor([1, 0, 1]))
    """
    unique = unique_all(x)
    return UniqueInverse(unique.values, unique.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct values.

    Args:
        x: a tensor.
    Returns:
        A 1-d tensor.

    >>> xp.unique_values(xp.asarray([5, 3, 5]))
    tensor([3, 5])
    """
    return unique_all(x).values


def _order(flat: Tensor) -> Any:
    """What sorts the elements, equal ones in their order; complex ones by real part, then by imaginary part."""
    if not flat.dtype.is_complex:
        return ops.argsort(flat, stable=True)
    by_imaginary = ops.argsort(ops.imag(flat), stable=True)
    return by_imaginary[ops.argsort(ops.real(flat)[by_imaginary], stable=True)]
