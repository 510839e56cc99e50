"""Products of a sparse matrix, given by its compressed rows, with dense ones.

The matrix has `len(crow) - 1` rows; the entries of row r are `values[crow[r]:crow[r + 1]]`, in the columns `col[...]`. Three ops are each
other's derivatives: `sparse_product` (S @ D), `sparse_transposed_product` (S.T @ D) and `sparse_sampled` (A @ B.T where S has entries).
`dynograd.sparse` is the face of these for users.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import conjugated
from dynograd.ops.op import Gradients, op
from dynograd.ops.row import Row

__all__ = ["sparse_product", "sparse_sampled", "sparse_transposed_product"]

FAMILY = Row(out=None)


def _check(who: str, crow: Any, col: Any, values: Any, dense: Any, columns: int | None, what: str) -> None:
    if crow.dtype.kind not in "iu" or col.dtype.kind not in "iu":
        raise DtypeError(f"{who}: crow and col are integers, got {crow.dtype} and {col.dtype}.")
    if values.ndim != 1 or col.shape != values.shape or crow.ndim != 1 or not crow.shape[0]:
        raise ShapeError(
            f"{who}: expected values and col of one size and crow with one more entry than there are rows, got shapes "
            f"{values.shape}, {col.shape} and {crow.shape}."
        )
    if dense.ndim != 2 or (columns is not None and dense.shape[0] != columns):
        raise ShapeError(f"{who}: expected {what}, got shape {dense.shape}.")
    if dense.dtype != values.dtype:
        raise DtypeError(
            f"{who}: expected both matrices to have the same dtype, got {values.dtype} and {dense.dtype}. Convert one of them."
        )


@op(saves="values crow col dense", at_once="sparse tensors are not recorded")
def sparse_product(values: Array, crow: Array, col: Array, dense: Array) -> Array:
    """The product of a sparse (R, C) and a dense (C, K) matrix. Entries of one place add up.

    Raises:
        ShapeError: sizes that do not fit.

    >>> crow, col = tensor([0, 2, 3]), tensor([0, 2, 1])
    >>> dynograd.sparse_product(tensor([1.0, 2.0, 3.0]), crow, col, tensor([[1.0], [10.0], [100.0]]))
    tensor([[201.],
            [ 30.]])
    """
    _check("sparse_product", crow, col, values, dense, None, "dense of shape (C, K)")
    return kernel("sparse_products", "product", values)(values, crow, col, dense)


@sparse_product.backward
def sparse_product_backward(g: Any, saved: Any) -> Gradients:
    values, crow, col, dense = saved.values, saved.crow, saved.col, saved.dense
    return (
        sparse_sampled(g, conjugated(dense), crow, col) if saved.needs(0) else None,
        None,
        None,
        sparse_transposed_product(conjugated(values), crow, col, g, dense.shape[0]) if saved.needs(3) else None,
    )


@sparse_product.jvp
def sparse_product_jvp(tangents: Any, saved: Any) -> Array:
    return _either(
        tangents,
        lambda moved: sparse_product(moved, saved.crow, saved.col, saved.dense),
        lambda moved: sparse_product(saved.values, saved.crow, saved.col, moved),
    )


@op(saves="values crow col dense", at_once="sparse tensors are not recorded")
def sparse_transposed_product(values: Array, crow: Array, col: Array, dense: Array, columns: int) -> Array:
    """The product of the transpose of a sparse (R, columns) matrix and a dense (R, K) one.

    >>> crow, col = tensor([0, 2, 3]), tensor([0, 2, 1])
    >>> dynograd.sparse_transposed_product(tensor([1.0, 2.0, 3.0]), crow, col, tensor([[1.0], [10.0]]), 3)
    tensor([[ 1.],
            [30.],
            [ 2.]])
    """
    rows = crow.shape[0] - 1
    _check("sparse_transposed_product", crow, col, values, dense, rows, f"dense of shape ({rows}, K)")
    return kernel("sparse_products", "transposed_product", values)(values, crow, col, dense, columns)


@sparse_transposed_product.backward
def sparse_transposed_product_backward(g: Any, saved: Any, columns: Any) -> Gradients:
    values, crow, col, dense = saved.values, saved.crow, saved.col, saved.dense
    return (
        sparse_sampled(conjugated(dense), g, crow, col) if saved.needs(0) else None,
        None,
        None,
        sparse_product(conjugated(values), crow, col, g) if saved.needs(3) else None,
    )


@sparse_transposed_product.jvp
def sparse_transposed_product_jvp(tangents: Any, saved: Any, columns: Any) -> Array:
    return _either(
        tangents,
        lambda moved: sparse_transposed_product(moved, saved.crow, saved.col, saved.dense, columns),
        lambda moved: sparse_transposed_product(saved.values, saved.crow, saved.col, moved, columns),
    )


@op(saves="input other crow col", at_once="sparse tensors are not recorded")
def sparse_sampled(input: Array, other: Array, crow: Array, col: Array) -> Array:
    """The entries of `input @ other.T` at the places of a sparse (R, C) matrix; `input` (R, K), `other` (C, K).

    >>> crow, col = tensor([0, 2, 3]), tensor([0, 2, 1])
    >>> dynograd.sparse_sampled(tensor([[1.0], [2.0]]), tensor([[1.0], [10.0], [100.0]]), crow, col)
    tensor([  1., 100.,  20.])
    """
    rows = crow.shape[0] - 1
    if input.ndim != 2 or other.ndim != 2 or input.shape[0] != rows or input.shape[1] != other.shape[1]:
        raise ShapeError(
            f"sparse_sampled: expected input ({rows}, K) and other (C, K), got shapes {input.shape} and {other.shape}."
        )
    if input.dtype != other.dtype:
        raise DtypeError(
            f"sparse_sampled: expected both matrices to have the same dtype, got {input.dtype} and {other.dtype}. "
            f"Convert one of them."
        )
    return kernel("sparse_products", "sampled", input)(input, other, crow, col)


@sparse_sampled.backward
def sparse_sampled_backward(g: Any, saved: Any) -> Gradients:
    input, other, crow, col = saved.input, saved.other, saved.crow, saved.col
    return (
        sparse_product(g, crow, col, conjugated(other)) if saved.needs(0) else None,
        sparse_transposed_product(g, crow, col, conjugated(input), other.shape[0]) if saved.needs(1) else None,
        None,
        None,
    )


@sparse_sampled.jvp
def sparse_sampled_jvp(tangents: Any, saved: Any) -> Array:
    first, second = tangents[0], tangents[1]
    parts = []
    if first is not None:
        parts.append(sparse_sampled(first, saved.other, saved.crow, saved.col))
    if second is not None:
        parts.append(sparse_sampled(saved.input, second, saved.crow, saved.col))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _either(tangents: Any, of_values: Any, of_dense: Any) -> Array:
    """The sum of what moves with the values (argument 0) and with the dense matrix (argument 3)."""
    parts = [rule(moved) for rule, moved in ((of_values, tangents[0]), (of_dense, tangents[3])) if moved is not None]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]
