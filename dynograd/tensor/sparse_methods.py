"""Tensor's methods that make sparse tensors; `dynograd.sparse` is imported when the first of them is called."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from dynograd.tensor.tensor import Tensor

__all__ = ["install_sparse_methods"]


def _making() -> ModuleType:
    return _importer[0]()


_importer: list[Callable[[], ModuleType]] = []  # gives the module above, which the top level names


def to_sparse(
    input: Tensor, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None
) -> Tensor:
    """The elements that are not zero as a sparse tensor, part of the graph.

    Args:
        input: a dense tensor with at least one dim.
        sparse_dim: so many leading dims are sparse, the others whole in each entry; None: all are.
        layout: `dynograd.sparse_coo` unless given; or sparse_csr or sparse_csc, of a matrix.
        blocksize: None; layouts of blocks are not here.
        dense_dim: accepted.
    Returns:
        A `SparseTensor` of the same shape.
    Raises:
        ShapeError: `sparse_dim` is not from 1 to the number of dims.

    >>> tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([2.]),
           size=(2, 2), nnz=1, layout=dynograd.sparse_coo)
    """
    return _making().to_sparse(input, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_coo(input: Tensor, dense_dim: Any = None) -> Tensor:
    """The elements that are not zero with their coordinates: `to_sparse` of layout sparse_coo.

    Args:
        input: a dense tensor with at least one dim.
        dense_dim: accepted.
    Returns:
        A `SparseTensor` of the same shape.

    >>> tensor([0.0, 3.0]).to_sparse_coo().indices()
    tensor([[1]])
    """
    return _making().to_sparse_coo(input, dense_dim)


def to_sparse_csr(input: Tensor, dense_dim: Any = None) -> Tensor:
    """The elements of a matrix that are not zero, by compressed rows: `to_sparse` of layout sparse_csr.

    Args:
        input (M, N): a dense matrix.
        dense_dim: accepted.
    Returns:
        A `SparseTensor` of the same shape.

    >>> tensor([[0.0, 3.0], [0.0, 0.0]]).to_sparse_csr().crow_indices()
    tensor([0, 1, 1])
    """
    return _making().to_sparse_csr(input, dense_dim)


def to_sparse_csc(input: Tensor, dense_dim: Any = None) -> Tensor:
    """The elements of a matrix that are not zero, by compressed columns: `to_sparse` of layout sparse_csc.

    Args:
        input (M, N): a dense matrix.
        dense_dim: accepted.
    Returns:
        A `SparseTensor` of the same shape.

    >>> tensor([[0.0, 3.0], [0.0, 0.0]]).to_sparse_csc().ccol_indices()
    tensor([0, 0, 1])
    """
    return _making().to_sparse_csc(input, dense_dim)


def sparse_mask(input: Tensor, mask: Any) -> Tensor:
    """The elements where the sparse `mask` has entries, whatever those are.

    Args:
        input: a tensor.
        mask: a sparse tensor of the same shape.
    Returns:
        A `SparseTensor` with the places of `mask`.
    Raises:
        TypeError: `mask` is not sparse.
        ShapeError: it has another shape.

    >>> tensor([1.0, 2.0]).sparse_mask(tensor([0.0, 5.0]).to_sparse()).to_dense()
    tensor([0., 2.])
    """
    return _making().sparse_mask(input, mask)


def install_sparse_methods(importer: Callable[[], ModuleType]) -> None:
    """Puts these methods on Tensor; `importer` gives `dynograd.sparse.making` when the first of them is called."""
    _importer[:] = [importer]
    for method in (to_sparse, to_sparse_coo, to_sparse_csr, to_sparse_csc, sparse_mask):
        setattr(Tensor, method.__name__, method)
