"""Views: the same elements under another shape. Nothing is copied unless `reshape` or `contiguous` has to."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.ops.op import composed, op
from dynograd.shapes import as_shape, infer_size, normalize_dim

__all__ = ["permute", "reshape", "t", "transpose", "view"]


@op(name="view", linear=True, view=True, saves="input.shape")
def reshaped(input: Array, shape: tuple[int, ...]) -> Array:
    """`input` under a full `shape` (a view where memory allows, else a copy)."""
    return input.reshape(shape)


@reshaped.backward
def reshaped_backward(g: Any, saved: Any, shape: Any) -> Any:
    return (reshaped(g, saved.input_shape),)


@composed(method=True)
def reshape(input: Any, *shape: Any) -> Any:
    """The same elements in row-major order under another shape; one size may be -1. A view where memory allows.

    Raises:
        ShapeError: the number of elements differs.

    >>> dynograd.reshape(tensor([[1, 2], [3, 4]]), (-1,))
    tensor([1, 2, 3, 4])
    """
    wanted = as_shape("reshape", shape)
    array = getattr(input, "array", input)
    return reshaped(input, infer_size("reshape", wanted, array.size))


@op(name="permute", linear=True, view=True)
def permuted(input: Array, dims: tuple[int, ...]) -> Array:
    """`input` with its dims in the order `dims` (all, counted from the front)."""
    return input.transpose(dims)


@permuted.backward
def permuted_backward(g: Any, saved: Any, dims: Any) -> Any:
    back = [0] * len(dims)
    for place, dim in enumerate(dims):
        back[dim] = place
    return (permuted(g, tuple(back)),)


@composed(method=True)
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """A view with two dims exchanged.

    >>> dynograd.transpose(tensor([[1, 2, 3]]), 0, 1)
    tensor([[1],
            [2],
            [3]])
    """
    rank = len(input.shape)
    one, two = normalize_dim("transpose", dim0, rank), normalize_dim("transpose", dim1, rank)
    dims = list(range(rank))
    if rank:
        dims[one], dims[two] = two, one
    return permuted(input, tuple(dims))


