"""`dynograd.sparse`: functions of sparse tensors, named like PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base.hints import DtypeLike
from dynograd.base.shapes import check_tensor, normalize_dim
from dynograd.errors import ShapeError
from dynograd.ops.index.indexing import getitem
from dynograd.ops.index.lookups import unique
from dynograd.ops.index.scatters import scatter_reduce
from dynograd.ops.layout.joins import cat, stack
from dynograd.ops.layout.views import reshape
from dynograd.ops.matmul.matmuls import matmul
from dynograd.ops.matmul.sparse_products import sparse_sampled
from dynograd.sparse import coordinates
from dynograd.sparse.rules import sum_of
from dynograd.sparse.tensor import COO, SparseTensor, form_of, of_coordinates
from dynograd.tensor.creation import arange, as_tensor, empty, zeros
from dynograd.tensor.tensor import Tensor

__all__ = ["addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum"]


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """The product of two matrices, one of them sparse or both; gradients flow to both.

    Args:
        mat1 (N, K), mat2 (K, M): matrices.
        reduce: what becomes of the products of a row's entries: "sum", "mean", "amax" or "amin" (a sparse matrix with a dense one); "max" and
            "min" are the last two.
    Returns:
        (N, M): dense, or sparse when both are sparse.
    Raises:
        ShapeError: the sizes do not fit.

    >>> x = dynograd.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    >>> dynograd.sparse.mm(x, tensor([[1.0], [10.0]]))
    tensor([[20.],
            [ 3.]])
    """
    check_tensor("sparse.mm", "mat1", mat1)
    check_tensor("sparse.mm", "mat2", mat2)
    if len(mat1.shape) != 2 or len(mat2.shape) != 2:
        raise ShapeError(f"sparse.mm: expected matrices, got shapes {tuple(mat1.shape)} and {tuple(mat2.shape)}.")
    if reduce == "sum":
        return matmul(mat1, mat2)
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("mean", "amax", "amin"):
        raise ValueError(f"sparse.mm: reduce must be one of sum, mean, amax, amin, got {reduce!r}.")
    _only_sparse("sparse.mm", mat1)
    crow, col, entries = mat1.to_sparse_csr().compressed_rows()
    if mat1.whole[1] != mat2.shape[0]:
        raise ShapeError(f"sparse.mm: shapes {mat1.whole} and {tuple(mat2.shape)} cannot be multiplied.")
    rows = coordinates.expanded(crow, col.shape[0])
    parts = reshape(entries, (-1, 1)) * getitem(mat2, col)
    product = zeros(mat1.whole[0], mat2.shape[1], dtype=parts.dtype, device=parts.device)
    index = reshape(rows, (-1, 1)).expand(parts.shape)
    return scatter_reduce(product, 0, index, parts, reduce, include_self=False)


spmm = smm = dsmm = mm


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * mat + alpha * (mat1 @ mat2)` with a sparse `mat1`.

    Args:
        mat (N, M): dense or sparse.
        mat1 (N, K): sparse.
        mat2 (K, M): dense or sparse.
        beta, alpha: numbers.
    Returns:
        (N, M).

    >>> x = dynograd.sparse_coo_tensor([[0], [1]], [2.0], (2, 2))
    >>> dynograd.sparse.addmm(dynograd.ones(2, 1), x, tensor([[1.0], [10.0]]), alpha=0.5)
    tensor([[11.],
            [ 1.]])
    """
    product = matmul(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else (mat if beta == 1 else mat * beta) + product


def sampled_addmm(
    input: SparseTensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> SparseTensor:
    """`beta * input + alpha * (mat1 @ mat2)` where `input` has entries; the product is computed nowhere else.

    Args:
        input (N, M): a sparse matrix.
        mat1 (N, K), mat2 (K, M): dense matrices.
        beta, alpha: numbers.
    Returns:
        (N, M), sparse with the entries' places of `input`.

    >>> x = dynograd.ones(2, 2).tril().to_sparse_csr()
    >>> dynograd.sparse.sampled_addmm(x, tensor([[1.0], [2.0]]), tensor([[3.0, 4.0]])).to_dense()
    tensor([[4., 0.],
            [7., 9.]])
    """
    _only_sparse("sparse.sampled_addmm", input)
    check_tensor("sparse.sampled_addmm", "mat1", mat1)
    check_tensor("sparse.sampled_addmm", "mat2", mat2)
    if input.form != "sparse_csr":
        return sampled_addmm(input.to_sparse_csr(), mat1, mat2, beta=beta, alpha=alpha).to_sparse(layout=input.form)
    if (
        len(mat1.shape) != 2
        or len(mat2.shape) != 2
        or (mat1.shape[0], mat2.shape[1]) != input.whole
        or mat1.shape[1] != mat2.shape[0]
    ):
        raise ShapeError(
            f"sparse.sampled_addmm: mat1 of shape {tuple(mat1.shape)} and mat2 of shape {tuple(mat2.shape)} have no product of shape "
            f"{input.whole}."
        )
    product = sparse_sampled(mat1, mat2.t(), input.starts, input.places)
    return input.with_entries(input.entries * beta + product * alpha)


def sum(input: SparseTensor, dim: int | Sequence[int] | None = None, dtype: DtypeLike = None) -> Tensor:
    """The sum over some dims (all unless given): sparse while a sparse dim is left, else dense.

    Args:
        input: a sparse tensor.
        dim: an int or several; None is every dim.
        dtype: of the sum.
    Returns:
        The shape of `input` without `dim`.

    >>> x = dynograd.sparse_coo_tensor([[0, 1], [1, 1]], [2.0, 3.0], (2, 2))
    >>> dynograd.sparse.sum(x), dynograd.sparse.sum(x, 0).to_dense()
    (tensor(5.), tensor([0., 5.]))
    """
    _only_sparse("sparse.sum", input)
    return sum_of(input if dtype is None else input.to(dtype), dim)


def softmax(input: SparseTensor, dim: int, *, dtype: DtypeLike = None) -> SparseTensor:
    """Softmax over the entries along a sparse dim; what has no entry counts as -inf.

    Args:
        input: a sparse tensor.
        dim: a sparse dim; negative counts from the end.
        dtype: compute in this dtype; None is that of `input`.
    Returns:
        The shape and the places of `input`.

    >>> x = dynograd.sparse_coo_tensor([[0, 0, 1], [0, 1, 1]], [1.0, 1.0, 7.0], (2, 3))
    >>> dynograd.sparse.softmax(x, 1).values()
    tensor([0.5000, 0.5000, 1.0000])
    """
    whole, shifted, groups, count = _shifted("sparse.softmax", input, dim, dtype)
    powers = shifted.exp()
    return whole.with_entries(powers / getitem(coordinates.summed(groups, powers, count), groups))


def log_softmax(input: SparseTensor, dim: int, *, dtype: DtypeLike = None) -> SparseTensor:
    """The logarithm of `sparse.softmax`.

    Args:
        input: a sparse tensor.
        dim: a sparse dim; negative counts from the end.
        dtype: compute in this dtype; None is that of `input`.
    Returns:
        The shape and the places of `input`.

    >>> x = dynograd.sparse_coo_tensor([[0, 1], [1, 1]], [1.0, 7.0], (2, 3))
    >>> dynograd.sparse.log_softmax(x, 1).values()
    tensor([0., 0.])
    """
    whole, shifted, groups, count = _shifted("sparse.log_softmax", input, dim, dtype)
    return whole.with_entries(shifted - getitem(coordinates.summed(groups, shifted.exp(), count).log(), groups))


def _shifted(who: str, input: SparseTensor, dim: int, dtype: Any) -> tuple[SparseTensor, Any, Any, int]:
    """(coalesced, entries minus the largest of their group, the group of each, how many groups)."""
    _only_sparse(who, input)
    whole = input.to_sparse_coo().coalesce()
    whole = whole if dtype is None else whole.to(dtype)
    dim = normalize_dim(who, dim, len(whole.whole))
    if dim >= whole.sparse_dim():
        raise ShapeError(f"{who}: dim {dim} is dense; use x.values().softmax({dim - whole.sparse_dim() + 1}).")
    others = [row for row in range(whole.sparse_dim()) if row != dim]
    numbers = coordinates.numbered(whole.places[others], [whole.whole[row] for row in others])
    distinct, groups = unique(numbers, return_inverse=True)
    entries, count = whole.entries, distinct.shape[0]
    base = zeros(count, *entries.shape[1:], dtype=entries.dtype, device=entries.device)
    index = reshape(groups, (-1, *[1] * (entries.ndim - 1))).expand(entries.shape)
    largest = scatter_reduce(base, 0, index, entries.detach(), "amax", include_self=False)
    return whole, entries - getitem(largest, groups), groups, count


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: object = None) -> SparseTensor:
    """A sparse matrix with the rows of `diagonals` on the diagonals `offsets` (above the main one where positive).

    Args:
        diagonals (D, L): a row for each diagonal; column j of it stands in column j of the matrix.
        offsets (D,): integers, each once.
        shape: (rows, columns).
        layout: of the result; coordinates unless given.
    Returns:
        A sparse matrix.

    >>> dynograd.sparse.spdiags(tensor([[1.0, 2.0]]), tensor([1]), (2, 2)).to_dense()
    tensor([[0., 2.],
            [0., 0.]])
    """
    if diagonals.ndim == 1:
        diagonals = reshape(diagonals, (1, -1))
    numbers = as_tensor(offsets).reshape(-1).tolist()
    rows, columns = (int(size) for size in shape)
    if diagonals.ndim != 2 or diagonals.shape[0] != len(numbers) or len(set(numbers)) != len(numbers):
        raise ShapeError(
            f"sparse.spdiags: expected one row of diagonals for each of the distinct offsets {numbers}, got shape {tuple(diagonals.shape)}."
        )
    places, entries = [], []
    for row, offset in enumerate(numbers):
        first = max(0, offset)
        last = min(columns, rows + offset, diagonals.shape[1])
        if last <= first:
            continue
        column = arange(first, last, device=diagonals.device)
        places.append(stack([column - offset, column]))
        entries.append(diagonals[row, first:last])
    if not places:
        matrix = of_coordinates(empty(2, 0, dtype=arange(1).dtype), diagonals.reshape(-1)[:0], (rows, columns), True)
    else:
        matrix = of_coordinates(cat(places, 1), cat(entries, 0), (rows, columns))
    return matrix if layout is None or form_of("sparse.spdiags", layout) == COO else matrix.to_sparse(layout=layout)


def _only_sparse(who: str, input: Any) -> None:
    if not isinstance(input, SparseTensor):
        raise TypeError(f"{who}: expected a sparse tensor, got {type(input).__name__}. Make one with x.to_sparse().")
