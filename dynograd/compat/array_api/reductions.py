"""The standard's reductions and running sums: `axis` may name several dims, none of them (), or all (None)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base import dtypes
from dynograd.base.hints import DtypeLike
from dynograd.compat.array_api.promotion import in_dtype
from dynograd.compat.array_api.table import dims, ops
from dynograd.tensor.creation import full
from dynograd.tensor.tensor import Tensor

__all__ = "all any cumulative_prod cumulative_sum diff max mean min prod std sum var".split()


def sum(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, dtype: DtypeLike = None, keepdims: bool = False
) -> Tensor:
    """The sum; of small signed integers in int64, of unsigned ones in uint64.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        dtype: of the result; by default that of the values.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        The shape of `x` without `axis`.

    >>> xp.sum(xp.asarray([200, 200], dtype=xp.uint8))
    tensor(400, dtype=dynograd.uint64)
    """
    x, over = in_dtype(x, _wide(x, dtype)), dims(axis, x.ndim)
    return ops.sum(x, over, keepdims, dtype=x.dtype) if over else ops.clone(x)


def prod(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, dtype: DtypeLike = None, keepdims: bool = False
) -> Tensor:
    """The product; of integers in 64 bits.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        dtype: of the result; by default that of the values.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        The shape of `x` without `axis`.

    >>> xp.prod(xp.asarray([2, 3]))
    tensor(6)
    """
    x = in_dtype(x, _wide(x, dtype))
    return _over_one(x, axis, keepdims, lambda flat: ops.prod(flat, -1, dtype=x.dtype))


def max(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """The largest value; NaN where one is.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        The shape of `x` without `axis`.

    >>> xp.max(xp.asarray([2, 3]))
    tensor(3)
    """
    over = dims(axis, x.ndim)
    return ops.amax(x, over, keepdims) if over else ops.clone(x)


def min(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """The smallest value; NaN where one is.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        The shape of `x` without `axis`.

    >>> xp.min(xp.asarray([2, 3]))
    tensor(2)
    """
    over = dims(axis, x.ndim)
    return ops.amin(x, over, keepdims) if over else ops.clone(x)


def mean(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """The mean.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        The shape of `x` without `axis`.

    >>> xp.mean(xp.asarray([1.0, 3.0]))
    tensor(2.)
    """
    over = dims(axis, x.ndim)
    return ops.mean(x, over, keepdims) if over else ops.clone(x)


def var(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance; `correction=1` divides by n - 1.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        correction: what is taken off the number of elements.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        The shape of `x` without `axis`.

    >>> xp.var(xp.asarray([1.0, 3.0])), xp.var(xp.asarray([1.0, 3.0]), correction=1)
    (tensor(1.), tensor(2.))
    """
    over = dims(axis, x.ndim)
    return ops.var(x, over, correction=correction, keepdim=keepdims) if over else _alone(x, correction)


def std(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation; `correction=1` divides by n - 1.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        correction: what is taken off the number of elements.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        The shape of `x` without `axis`.

    >>> xp.std(xp.asarray([1.0, 3.0]))
    tensor(1.)
    """
    over = dims(axis, x.ndim)
    return ops.std(x, over, correction=correction, keepdim=keepdims) if over else _alone(x, correction)


def any(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Whether one of the elements is not zero.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        A bool tensor; the shape without `axis`.

    >>> xp.any(xp.asarray([0, 3]))
    tensor(True)
    """
    return _over_one(ops.ne(x, 0), axis, keepdims, lambda flat: ops.any(flat, -1))


def all(x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Whether no element is zero; True where there are none.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        keepdims: the reduced dims stay, with size 1.
    Returns:
        A bool tensor; the shape without `axis`.

    >>> xp.all(xp.asarray([0, 3]))
    tensor(False)
    """
    return _over_one(ops.ne(x, 0), axis, keepdims, lambda flat: ops.all(flat, -1))


def cumulative_sum(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, dtype: DtypeLike = None, include_initial: bool = False
) -> Tensor:
    """Sums of the first elements along `axis`; with `include_initial` a 0 stands before them.

    Args:
        x: a tensor.
        axis: which dim; None is all elements, as if flattened.
        dtype: of the result; by default that of the values.
        include_initial: whether the neutral number stands before them.
    Returns:
        The shape of `x`, one longer along `axis` with the initial number.

    >>> xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True)
    tensor([0, 1, 3, 6])
    """
    return _running("cumulative_sum", ops.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, dtype: DtypeLike = None, include_initial: bool = False
) -> Tensor:
    """Products of the first elements along `axis`; with `include_initial` a 1 stands before them.

    Args:
        x: a tensor.
        axis: which dim; None is all elements, as if flattened.
        dtype: of the result; by default that of the values.
        include_initial: whether the neutral number stands before them.
    Returns:
        The shape of `x`, one longer along `axis` with the initial number.

    >>> xp.cumulative_prod(xp.asarray([1, 2, 3]))
    tensor([1, 2, 6])
    """
    return _running("cumulative_prod", ops.cumprod, 1, x, axis, dtype, include_initial)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours along `axis`, `n` times.

    Args:
        x: a tensor.
        axis: which dim; negative counts from the end.
        n: how often.
        prepend, append: tensors to put before and behind.
    Returns:
        The shape of `x`, shorter by `n` along `axis`.

    >>> xp.diff(xp.asarray([1, 4, 9]), prepend=xp.asarray([0]))
    tensor([1, 3, 5])
    """
    return ops.diff(x, n, axis, prepend, append)


def _running(who: str, op: Any, start: int, x: Tensor, axis: Any, dtype: Any, include_initial: bool) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{who}: axis may be left out for one dim only, got shape {tuple(x.shape)}. Pass axis=.")
        axis = 0
    (dim,) = dims(axis, x.ndim)
    x = in_dtype(x, _wide(x, dtype))
    sums = op(x, dim, dtype=x.dtype)
    if not include_initial:
        return sums
    shape = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    return ops.cat([full(shape, start, dtype=x.dtype, device=x.device), sums], dim)


def _wide(x: Tensor, dtype: Any) -> dtypes.dtype:
    """The dtype in which `x` is summed: that asked for, 64 bits for integers, else its own."""
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    if x.dtype.category > dtypes.INTEGER:
        return x.dtype
    return dtypes.int64 if x.dtype.is_signed or x.dtype is dtypes.bool else dtypes.uint64


def _alone(x: Tensor, correction: float) -> Tensor:
    """The spread of each element by itself."""
    return ops.div(ops.mul(x, 0), 1 - correction)


def _over_one(x: Tensor, axis: Any, keepdims: bool, reduce: Any) -> Tensor:
    """A reduction over the last dim, applied to the dims of `axis` as one."""
    over = dims(axis, x.ndim)
    if not over:
        return reduce(ops.unsqueeze(x, -1))
    kept = [dim for dim in range(x.ndim) if dim not in over]
    shape = [x.shape[dim] for dim in kept]
    count = 1
    for dim in over:
        count *= x.shape[dim]
    reduced = reduce(ops.reshape(ops.permute(x, (*kept, *over)), (*shape, count)))
    return ops.reshape(reduced, [1 if dim in over else x.shape[dim] for dim in range(x.ndim)]) if keepdims else reduced
