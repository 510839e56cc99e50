"""Maxima put back to where `max_pool1d`, `max_pool2d` and `max_pool3d` found them."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.conv.spatial_sizes import per_dim
from dynograd.ops.image.poolings import placed
from dynograd.ops.image.windows import check_rank
from dynograd.ops.op import composed
from dynograd.ops.row import Row

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]

FAMILY = Row(out=None, ragged="groups", functional=True)


@composed()
def max_unpool1d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Array:
    """Puts maxima of a sequence back to their places; see `max_unpool2d`.

    Args:
        input (N, C, L) or (C, L): the maxima.
        indices: what `max_pool1d` returned with `return_indices`.
        kernel_size, stride, padding: as `max_pool1d` had them.
        output_size: the size of the result, where several are possible; the smallest when left out.
    Returns:
        (N, C, L') or (C, L').

    >>> values, indices = dynograd.nn.functional.max_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 2, return_indices=True)
    >>> dynograd.nn.functional.max_unpool1d(values, indices, 2)
    tensor([[0., 3., 2., 0.]])
    """
    return _unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


@composed()
def max_unpool2d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Array:
    """Puts the maxima of `max_pool2d` back to their places, zeros elsewhere.

    Args:
        input (N, C, H, W) or (C, H, W): the maxima.
        indices: what `max_pool2d` returned with `return_indices`.
        kernel_size, stride, padding: as `max_pool2d` had them.
        output_size: the size of the result, where several are possible; the smallest when left out.
    Returns:
        (N, C, H', W') or (C, H', W').
    Raises:
        ShapeError: an index outside the result.

    >>> x = dynograd.arange(4.0).reshape(1, 2, 2)
    >>> values, indices = dynograd.nn.functional.max_pool2d(x, 2, return_indices=True)
    >>> dynograd.nn.functional.max_unpool2d(values, indices, 2)
    tensor([[[0., 0.],
             [0., 3.]]])
    """
    return _unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


@composed()
def max_unpool3d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Array:
    """Puts maxima of a volume back to their places; see `max_unpool2d`.

    Args:
        input (N, C, D, H, W) or (C, D, H, W): the maxima.
        indices: what `max_pool3d` returned with `return_indices`.
        kernel_size, stride, padding: as `max_pool3d` had them.
        output_size: the size of the result, where several are possible; the smallest when left out.
    Returns:
        (N, C, D', H', W') or (C, D', H', W').

    >>> x = dynograd.arange(8.0).reshape(1, 2, 2, 2)
    >>> values, indices = dynograd.nn.functional.max_pool3d(x, 2, return_indices=True)
    >>> dynograd.nn.functional.max_unpool3d(values, indices, 2).sum().item()
    7.0
    """
    return _unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


def _unpool(
    who: str, rank: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Array:
    check_rank(who, rank, input)
    taps = per_dim(who, "kernel_size", kernel_size, rank, 1)
    steps = taps if stride is None else per_dim(who, "stride", stride, rank, 1)
    padding = per_dim(who, "padding", padding, rank, 0)
    if tuple(indices.shape) != tuple(input.shape):
        raise ShapeError(
            f"{who}: Expected shape of indices to be same as that of the input tensor {tuple(input.shape)}, but got indices tensor with "
            f"shape {tuple(indices.shape)}."
        )
    own = input.shape[len(input.shape) - rank :]
    smallest = [(size - 1) * s + k - 2 * p for size, s, k, p in zip(own, steps, taps, padding, strict=True)]
    sizes = _unpooled(who, rank, smallest, steps, output_size)
    index = getattr(indices, "array", indices)
    if index.dtype.kind not in "iu":
        raise DtypeError(
            f"{who}: elements in indices should be type int64, got {indices.dtype}. Pass what max_pool returned."
        )
    index = arrays.all_values(index)
    wrong = kernel("indexing", "out_of_range", index)(index, 0, prod(sizes), who)
    if wrong is not None:
        raise ShapeError(
            f"{who}: Found an invalid max index: {wrong[0]} at position {list(wrong[1])}; the output of size {tuple(sizes)} has "
            f"{prod(sizes)} places. Pass output_size."
        )
    return placed(input, indices, tuple(sizes))


def _unpooled(who: str, rank: int, smallest: list[int], steps: tuple[int, ...], output_size: Any) -> list[int]:
    if output_size is None:
        return smallest
    sizes = list(output_size)
    if len(sizes) == rank + 2:
        sizes = sizes[2:]
    if len(sizes) != rank:
        raise ShapeError(
            f"{who}: output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of '{len(sizes)}'."
        )
    for size, least, step in zip(sizes, smallest, steps, strict=True):
        if not least - step < size < least + step:
            ranges = [
                (smallest_size - s + 1, smallest_size + s - 1) for smallest_size, s in zip(smallest, steps, strict=True)
            ]
            raise ShapeError(
                f"{who}: invalid output_size {sizes}: each size must be in one of the ranges {ranges} (both ends count)."
            )
    return sizes
