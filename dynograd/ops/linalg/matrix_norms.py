"""Norms of vectors and matrices, condition numbers: functions of `dynograd.linalg`, here with `linalg_` in front."""

from __future__ import annotations

from math import inf
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import normalize_dim
from dynograd.errors import DtypeError, ShapeError
from dynograd.ops.elementwise.arithmetic import abs, conj
from dynograd.ops.elementwise.choices import where
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.views import permuted
from dynograd.ops.linalg.factorizations import linalg_svdvals
from dynograd.ops.linalg.linear_systems import check_matrices, linalg_inv_ex
from dynograd.ops.op import composed
from dynograd.ops.reduce.extremes import amax, amin
from dynograd.ops.reduce.norms import vector_norm
from dynograd.ops.reduce.reductions import kept, sum
from dynograd.ops.row import Row

FAMILY = Row(ragged="groups")


@composed(ragged="parts")
def linalg_vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The norm of order `ord` (a number, inf or -inf) over `dim`, an int or several; of all elements by default.

    Args:
        x (*): tensor of any shape.
        ord: a number, inf or -inf.
        dim: an int or several; None: all elements.
        keepdim: keep the reduced dims, with size 1.
        dtype: in which it is computed.
    Returns:
        x's shape without `dim`, real.

    >>> dynograd.linalg.vector_norm(tensor([3.0, -4.0]), 1)
    tensor(7.)
    """
    if isinstance(ord, str):
        raise TypeError(
            f"linalg.vector_norm: argument 'ord' must be Number, not str ({ord!r}). Use linalg.matrix_norm."
        )
    return vector_norm(x, ord, dim, keepdim, dtype, "linalg.vector_norm")


def _is(ord: Any, *values: Any) -> bool:
    return not isinstance(ord, str) and ord in values


@composed()
def linalg_matrix_norm(
    A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Array:
    """The norm of matrices that lie along two dims.

    Args:
        A (*, M, N): matrices.
        ord: "fro" (root of the sum of squares), "nuc" (sum of the singular values), 2 and -2 (the largest and the smallest one), 1 and
            -1 (the largest and the smallest sum of a column's sizes), inf and -inf (of a row's).
        dim: the two dims of the matrices.
        keepdim: keep the reduced dims, with size 1.
        dtype: in which it is computed.
    Returns:
        A's shape without `dim`, real.
    Raises:
        RuntimeError: another ord.

    >>> dynograd.linalg.matrix_norm(tensor([[3.0, 0.0], [0.0, 4.0]]), "nuc")
    tensor(7.)
    """
    who = "linalg.matrix_norm"
    if dtype is not None:
        A = convert(A, dtypes.as_dtype(dtype))
    shape = tuple(A.shape)
    if len(shape) < 2:
        raise ShapeError(f"{who}: The input tensor A must have at least 2 dimensions, got shape {shape}.")
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        raise DtypeError(f"{who}: Expected a floating point or complex tensor as input. Got {A.dtype}. Use A.float().")
    if dim is None or isinstance(dim, int) or len(dim) != 2:
        raise ShapeError(f"{who}: dim must be a 2-tuple of ints. Got {dim}.")
    row, column = (normalize_dim(who, dim, len(shape)) for dim in dim)
    if row == column:
        raise ShapeError(f"{who}: dims must be different. Got {tuple(dim)}.")
    if not (ord in ("fro", "nuc") if isinstance(ord, str) else ord in (2, -2, 1, -1, inf, -inf)):
        raise RuntimeError(f"{who}: Order {ord} not supported. Use 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2.")
    if ord == "fro":
        return vector_norm(A, 2, (row, column), keepdim, None, who)
    if ord == "nuc" or _is(ord, 2, -2):
        rest = [place for place in range(len(shape)) if place not in (row, column)]
        values = linalg_svdvals(permuted(A, (*rest, row, column)))
        no_values = ord == 2 and not values.shape[-1]
        result = sum(values, -1) if ord == "nuc" or no_values else (amax if ord == 2 else amin)(values, -1)
        return kept(result, shape, (row, column), False) if keepdim else result
    first, last = (row, column) if _is(ord, 1, -1) else (column, row)
    sums = sum(abs(A), first, keepdim=True)
    if ord > 0 and not shape[last]:
        result = sum(sums, last, keepdim=True)  # no column: 0
    else:
        result = (amax if ord > 0 else amin)(sums, last, keepdim=True)
    return result if keepdim else result.squeeze((row, column))


@composed(ragged="parts")
def linalg_norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The norm of vectors or matrices, as `dim` or the rank says; without `ord` the 2-norm of all elements.

    Args:
        A: tensor of any shape.
        ord: see `matrix_norm` and `vector_norm`.
        dim: an int for vectors, two for matrices.
        keepdim: keep the reduced dims, with size 1.
        dtype: in which it is computed.
    Returns:
        A's shape without `dim`, real.
    Raises:
        ShapeError: `ord` is given, `dim` is not, and A has more than two dims.

    >>> dynograd.linalg.norm(tensor([3.0, 4.0]))
    tensor(5.)
    >>> dynograd.linalg.norm(tensor([[3.0, 0.0], [0.0, 4.0]]), 2)
    tensor(4.)
    """
    who = "linalg.norm"
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype, who)
    rank = len(A.shape)
    if dim is None:
        if rank not in (1, 2):
            raise ShapeError(
                f"{who}: If dim is not specified but ord is, the input must be 1D or 2D. Got {rank}D (shape {tuple(A.shape)})."
            )
        dim = tuple(range(rank))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) not in (1, 2):
        raise ShapeError(f"{who}: If dim is specified, it must be of length 1 or 2. Got {list(dims)}.")
    if len(dims) == 2:
        return linalg_matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(f"{who}: order {ord!r} can only be used with a matrix, but dim is {dims}. Name two dims.")
    return vector_norm(A, ord, dims, keepdim, dtype, who)


@composed()
def linalg_cond(A: Any, p: Any = None) -> Array:
    """The condition number of each matrix, `norm(A, p) * norm(inv(A), p)`; inf for singular ones, 0 for matrices without elements.

    Args:
        A (*, N, N): matrices.
        p: None, 2 or -2 (quotients of singular values, of matrices of any shape), or another order of `matrix_norm`.
    Returns:
        (*), real.

    >>> dynograd.linalg.cond(tensor([[3.0, 0.0], [0.0, 4.0]]), 1)
    tensor(1.3333)
    """
    who = "linalg.cond"
    check_matrices(who, A, p is not None and not _is(p, 2, -2))
    if 0 in tuple(A.shape):
        return linalg_matrix_norm(A, "fro")
    if p is None or _is(p, 2, -2):
        values = linalg_svdvals(A)
        largest, smallest = amax(values, -1), amin(values, -1)
        return smallest / largest if _is(p, -2) else largest / smallest
    if not (p in ("fro", "nuc") if isinstance(p, str) else p in (1, -1, inf, -inf)):
        raise RuntimeError(
            f"{who}: linalg.cond got an invalid norm type: {p}. Use 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2."
        )
    turned, info = linalg_inv_ex(A)
    result = linalg_matrix_norm(A, p)
    regular = info == 0
    turned = where(regular.reshape((*regular.shape, 1, 1)), turned, 0.0)
    return where(regular, result * linalg_matrix_norm(turned, p), inf)


@composed(ragged="parts")
def linalg_vecdot(x: Any, y: Any, *, dim: int = -1) -> Array:
    """The sum of `conj(x) * y` along `dim`; the others broadcast.

    Args:
        x, y: tensors; other dims than `dim` broadcast.
        dim: which dim; negative counts from the end.
    Returns:
        The broadcast shape without `dim`.

    >>> dynograd.linalg.vecdot(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor(11.)
    """
    for operand in (x, y):
        if not (operand.dtype.is_floating_point or operand.dtype.is_complex):
            raise DtypeError(
                f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {operand.dtype}."
            )
    return sum((conj(x) if x.dtype.is_complex else x) * y, dim)
