"""The standard's functions that look for elements, and those that pick them by number."""

from __future__ import annotations

from typing import Any

from dynograd.compat.array_api.promotion import tensors
from dynograd.compat.array_api.reductions import sum
from dynograd.compat.array_api.table import dims, ops
from dynograd.tensor.tensor import Tensor

__all__ = "argmax argmin count_nonzero nonzero searchsorted take take_along_axis where".split()


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The number of the first largest element, along `axis` or of all.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        The shape of `x` without `axis`.

    >>> xp.argmax(xp.asarray([1, 3, 2]))
    tensor(1)
    """
    return _arg(ops.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The number of the first smallest element, along `axis` or of all.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        The shape of `x` without `axis`.

    >>> xp.argmin(xp.asarray([1, 3, 2]))
    tensor(0)
    """
    return _arg(ops.argmin, x, axis, keepdims)


def _arg(op: Any, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    if axis is not None:
        return op(x, axis, keepdims)
    place = op(ops.reshape(x, (-1,)), 0)
    return ops.reshape(place, (1,) * x.ndim) if keepdims else place


def count_nonzero(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        The shape of `x` without `axis`.

    >>> xp.count_nonzero(xp.asarray([[0, 1], [2, 3]]), axis=0, keepdims=True)
    tensor([[1, 2]])
    """
    return sum(ops.ne(x, 0), axis=axis, keepdims=keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of the elements that are not zero: for each dim, a tensor of indices.

    Args:
        x: a tensor with dims.
    Returns:
        A tuple of int64 tensors.
    Raises:
        ValueError: `x` has no dims.

    >>> xp.nonzero(xp.asarray([0, 3, 4]))
    (tensor([1, 2]),)
    """
    if x.ndim == 0:
        raise ValueError("nonzero: expected a tensor with dims, got one without. Use x != 0.")
    return tuple(ops.nonzero(x, as_tuple=True))


def searchsorted(x1: Tensor, x2: Tensor | complex, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where the values `x2` would stand in the sorted 1-d `x1`: before ("left") or behind ("right") equal ones.

    Args:
        x1 (n,), x2: tensors.
        side: "left" or "right".
        sorter: the numbers that sort `x1`, where it is not sorted.
    Returns:
        int64, the shape of `x2`.

    >>> xp.searchsorted(xp.asarray([1, 3, 5]), xp.asarray([3, 4]))
    tensor([1, 2])
    """
    return ops.searchsorted(*tensors(x1, x2), side=side, sorter=sorter)


def where(condition: Tensor, x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
    """`x1` where the condition holds, `x2` elsewhere.

    Args:
        condition: bool.
        x1, x2: tensors or numbers that broadcast.
    Returns:
        The broadcast shape.

    >>> xp.where(xp.asarray([True, False]), 1.0, xp.asarray([2.0, 3.0]))
    tensor([1., 3.])
    """
    return ops.where(condition, *tensors(x1, x2))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The elements (or rows, ...) of `x` with the given numbers along `axis`, which a 1-d `x` may leave out.

    Args:
        x: a tensor.
        indices (n,): integers.
        axis: which dim; negative counts from the end.
    Returns:
        A tensor with n places along `axis`.

    >>> xp.take(xp.asarray([[1, 2], [3, 4]]), xp.asarray([1, 0]), axis=0)
    tensor([[3, 4],
            [1, 2]])
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: axis may be left out for one dim only, got shape {tuple(x.shape)}. Pass axis=.")
        axis = 0
    (dim,) = dims(axis, x.ndim)
    return x[(slice(None),) * dim + (indices,)]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """For each place of `indices`, the element of `x` with that number along `axis`; other dims broadcast.

    Args:
        x: a tensor.
        indices: integers.
        axis: which dim; negative counts from the end.
    Returns:
        The shape of `indices`.

    >>> xp.take_along_axis(xp.asarray([[1, 2], [3, 4]]), xp.asarray([[1], [0]]))
    tensor([[2],
            [3]])
    """
    (dim,) = dims(axis, x.ndim)
    return ops.take_along_dim(x, ops.where(indices < 0, indices + x.shape[dim], indices), dim)
