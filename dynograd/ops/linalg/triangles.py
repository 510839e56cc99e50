"""Triangles and diagonals of matrices: `tril`, `triu`, `diag`, `diag_embed`."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import check_sizes, check_whole, normalize_dim
from dynograd.errors import GradientError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.layout.conversions import copied
from dynograd.ops.layout.strides import diagonal, fill_diagonal_of
from dynograd.ops.layout.views import ravel
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.row import Row

__all__ = ["diag", "diag_embed", "diagflat", "tril", "tril_indices", "triu", "triu_indices"]

FAMILY = Row(ragged="groups")


@op(method=True, inplace=True, linear=True, few="triangles.tril_few")
def tril(input: Array, diagonal: int = 0) -> Array:
    """The lower triangle of the last two dims, zeros elsewhere.

    Args:
        input (*, M, N): matrices.
        diagonal: the highest one kept; 0 is the main diagonal, 1 the next one above it.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: fewer than two dims.

    >>> dynograd.tril(dynograd.ones(2, 3))
    tensor([[1., 0., 0.],
            [1., 1., 0.]])
    """
    _check_matrix("tril", input)
    return kernel("triangles", "tril", input)(input, diagonal)


@tril.backward
def tril_backward(g: Any, saved: Any, diagonal: Any) -> Gradients:
    return (tril(g, diagonal),)


@op(method=True, inplace=True, linear=True, few="triangles.triu_few")
def triu(input: Array, diagonal: int = 0) -> Array:
    """The upper triangle of the last two dims, zeros elsewhere.

    Args:
        input (*, M, N): matrices.
        diagonal: the lowest one kept; 0 is the main diagonal, 1 the next one above it.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: fewer than two dims.

    >>> dynograd.triu(dynograd.ones(2, 3), 1)
    tensor([[0., 1., 1.],
            [0., 0., 1.]])
    """
    _check_matrix("triu", input)
    return kernel("triangles", "triu", input)(input, diagonal)


@triu.backward
def triu_backward(g: Any, saved: Any, diagonal: Any) -> Gradients:
    return (triu(g, diagonal),)


def _check_matrix(who: str, input: Any) -> None:
    if input.ndim < 2:
        raise ShapeError(f"{who}: input tensor must have at least 2 dimensions, got shape {tuple(input.shape)}.")


@composed(method=True, out="exact", ragged="each")
def diag(input: Any, diagonal: int = 0) -> Array:
    """A vector as the diagonal of a new matrix, or the diagonal of a matrix as a vector, in memory of its own.

    Args:
        input (N,) or (M, N): a vector or a matrix.
        diagonal: 0 is the main diagonal, positive ones lie above it, negative ones below.
    Returns:
        A matrix, or a vector.
    Raises:
        ShapeError: neither a vector nor a matrix.

    >>> dynograd.diag(tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim == 2:
        return copied(_diagonal(input, diagonal))
    raise ShapeError(
        f"diag: Supports 1D or 2D tensors. Got {input.ndim}D (shape {tuple(input.shape)}). Use diagonal or diag_embed."
    )


_diagonal = diagonal


@composed(method=True, out=None)
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Matrices of zeros with the last dim of `input` on a diagonal; they lie in the new dims `dim1` and `dim2`.

    Args:
        input (*, N): vectors.
        offset: 0 is the main diagonal, positive ones lie above it, negative ones below.
        dim1, dim2: where the dims of the matrices stand in the result.
    Returns:
        (*, M, M), with M = N + abs(offset).

    >>> dynograd.diag_embed(tensor([1, 2]), offset=1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    if not input.ndim:
        raise ShapeError("diag_embed: expected a tensor of at least 1 dim, got a 0-d one. Use unsqueeze(0).")
    rank = input.ndim + 1
    dim, two = normalize_dim("diag_embed", dim1, rank), normalize_dim("diag_embed", dim2, rank)
    if dim == two:
        raise ShapeError(f"diag_embed: diagonal dimensions cannot be identical, got dim1={dim1} and dim2={dim2}.")
    if dim > two:
        dim, two, offset = two, dim, -offset
    side = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    shape.insert(dim, side)
    shape.insert(two, side)
    return fill_diagonal_of(input, tuple(shape), offset, dim, two)


@composed(method=True, out=None, ragged="each")
def diagflat(input: Any, offset: int = 0) -> Array:
    """A matrix with all elements of `input` on a diagonal.

    Args:
        input: tensor of any shape.
        offset: 0 is the main diagonal, positive ones lie above it, negative ones below.
    Returns:
        (M, M), with M = number of elements + abs(offset).

    >>> dynograd.diagflat(tensor([[1, 2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(ravel(input), offset)


@op(differentiable=False, out=None, at_once="it takes no tensors")
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Array:
    """(2, N) row and column numbers of the lower triangle of a `row` x `col` matrix, row by row.

    Args:
        row, col: the sizes of the matrix.
        offset: the highest diagonal that belongs to the triangle.
        dtype: of the numbers; int64 by default.
        device: where it lives; by default the default device.
        layout, pin_memory: accepted.
        requires_grad: record what is done with the result.
    Returns:
        (2, N), row numbers and column numbers.

    >>> dynograd.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    _check_no_gradient("tril_indices", requires_grad)
    return _indices("tril_indices", row, col, offset, dtype, device, True)


@op(differentiable=False, out=None, at_once="it takes no tensors")
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Array:
    """(2, N) row and column numbers of the upper triangle of a `row` x `col` matrix, row by row.

    Args:
        row, col: the sizes of the matrix.
        offset: the lowest diagonal that belongs to the triangle.
        dtype: of the numbers; int64 by default.
        device: where it lives; by default the default device.
        layout, pin_memory: accepted.
        requires_grad: record what is done with the result.
    Returns:
        (2, N), row numbers and column numbers.

    >>> dynograd.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    _check_no_gradient("triu_indices", requires_grad)
    return _indices("triu_indices", row, col, offset, dtype, device, False)


def _check_no_gradient(who: str, requires_grad: bool) -> None:
    if requires_grad:
        raise GradientError(
            f"{who}: only floating point tensors can require gradients, and indices are integers. Leave requires_grad away."
        )


def _indices(who: str, row: int, col: int, offset: int, dtype: Any, device: Any, lower: bool) -> Array:
    place = arrays.check_device(who, device)
    if not (type(row) is type(col) is type(offset) is int and 0 <= row <= 1024 and 0 <= col <= 1024):
        check_sizes(who, (row, col))
        check_whole(who, offset=offset)
    result = kernel("triangles", "triangle_indices", place)(row, col, offset, lower)
    if dtype is None and type(result) is arrays.ndarray:
        return result
    return arrays.cast(result, dtypes.int64 if dtype is None else dtypes.as_dtype(dtype))
