# fmt: off
# ruff: noqa
"""The functions of `dynograd.linalg`.

Written by `python -m tools.make_stubs` from the functions themselves; do not edit it. A test keeps it up to date.
"""

import builtins
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, Literal, TypeAlias, overload

import numpy as _numpy

from dynograd import return_types as _return_types
from dynograd.base import devices as _devices
from dynograd.base import dtypes as _dtypes
from dynograd.base import layouts as _layouts
from dynograd.base import memory_formats as _memory_formats
from dynograd.base import random_streams as _random_streams
from dynograd.base import shapes as _shapes
from dynograd.ragged.tensor import RaggedTensor as _RaggedTensor
from dynograd.sparse.tensor import SparseTensor as _SparseTensor
from dynograd.tensor.tensor import Tensor

_Int: TypeAlias = builtins.int
_Ints: TypeAlias = builtins.int | Sequence[builtins.int]
_Number: TypeAlias = builtins.int | builtins.float | builtins.bool | builtins.complex | _numpy.number[Any] | _numpy.bool_
_Item: TypeAlias = (
    builtins.int | slice | EllipsisType | Tensor | Sequence[builtins.int] | Sequence[Tensor] | _numpy.ndarray[Any, Any] | _numpy.integer[Any]
    | list[Any] | None
)
_Index: TypeAlias = _Item | tuple[_Item, ...]
_Device: TypeAlias = _devices.device | builtins.str | builtins.int | None
_Dtype: TypeAlias = _dtypes.dtype | type | None

from dynograd.errors import LinAlgError as LinAlgError
def cholesky(A: Tensor, *, upper: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    'The lower triangle L with `L @ L.mH = A` (or the upper one), of Hermitian positive definite matrices.'
def cholesky_ex(A: Tensor, *, upper: builtins.bool = False, check_errors: builtins.bool = False, out: Any = None) -> _return_types.linalg_cholesky_ex:
    '(L, info): `cholesky` that does not raise; info is the order of the first minor that is not positive definite, or 0.'
def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    'The condition number of each matrix, `norm(A, p) * norm(inv(A), p)`; inf for singular ones, 0 for matrices without elements.'
def cross(input: Tensor, other: Tensor | _Number, *, dim: builtins.int = -1, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The cross product of vectors of size 3 along `dim`.'
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The determinant of each matrix; singular ones have their gradient, too.'
def diagonal(A: Tensor, *, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
    'A view of the diagonal of each matrix.'
def eig(A: Tensor, *, out: Any = None) -> _return_types.linalg_eig:
    '(eigenvalues, eigenvectors) of each matrix, complex, in no order.'
def eigh(A: Tensor, UPLO: builtins.str = 'L', *, out: Any = None) -> _return_types.linalg_eigh:
    '(eigenvalues in ascending order, eigenvectors) of Hermitian matrices, of which one triangle is read.'
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The eigenvalues of each matrix, complex, in no order.'
def eigvalsh(A: Tensor, UPLO: builtins.str = 'L', *, out: Tensor | None = None) -> Tensor:
    'The eigenvalues of Hermitian matrices, in ascending order.'
def householder_product(input: Tensor, tau: Any, *, out: Tensor | None = None) -> Tensor:
    'The first columns of the product of reflections `I - tau_i v_i v_i^H`, as `geqrf` gives them: v_i is 1 at i and `input` below.'
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    'The inverse of each matrix.'
def inv_ex(A: Tensor, *, check_errors: builtins.bool = False, out: Any = None) -> _return_types.linalg_inv_ex:
    '(inverse, info): `inv` that does not raise for singular matrices; their info is not 0, and their inverse has no meaning.'
def ldl_factor(A: Tensor, *, hermitian: builtins.bool = False, out: Any = None) -> _return_types.linalg_ldl_factor:
    '(L and D in one matrix, row exchanges) of `A = L @ D @ L.mT`, for `ldl_solve`; there is no gradient, as in PyTorch.'
def ldl_factor_ex(A: Tensor, *, hermitian: builtins.bool = False, check_errors: builtins.bool = False, out: Any = None) -> _return_types.linalg_ldl_factor_ex:
    '(LD, pivots, info): `ldl_factor` with info, the place of a zero on the diagonal of D, or 0.'
def ldl_solve(LD: Any, pivots: Tensor, B: Tensor, *, hermitian: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    'X with `A @ X = B`, for what `ldl_factor(A)` gave; there is no gradient, as in PyTorch.'
def lstsq(A: Tensor, B: Tensor, rcond: builtins.float | None = None, *, driver: builtins.str | None = None, out: Any = None) -> _return_types.linalg_lstsq:
    'X with the least `|A @ X - B|` (the smallest of them), as (solution, residuals, rank, singular_values).'
def lu(A: Tensor, *, pivot: builtins.bool = True, out: Any = None) -> _return_types.linalg_lu:
    '(P, L, U) with `A = P @ L @ U`: a permutation, a lower triangle with ones on its diagonal, an upper triangle.'
def lu_factor(A: Tensor, *, pivot: builtins.bool = True, out: Any = None) -> _return_types.linalg_lu_factor:
    '(L and U in one matrix, row exchanges counted from 1), for `lu_solve`.'
def lu_factor_ex(A: Tensor, *, pivot: builtins.bool = True, check_errors: builtins.bool = False, out: Any = None) -> _return_types.linalg_lu_factor_ex:
    '(LU, pivots, info): `lu_factor` with info, the place of a zero on the diagonal of U, or 0.'
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: builtins.bool = True, adjoint: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    "X with `A @ X = B` for what `lu_factor(A)` gave (`X @ A = B` unless `left`; with A's adjoint if `adjoint`)."
def matmul(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    'Another name of `matmul`.'
def matrix_exp(input: Tensor) -> Tensor:
    'The exponential of each square matrix, `I + A + A @ A / 2 + ...`.'
def matrix_norm(A: Tensor, ord: Any = 'fro', dim: _Ints = (-2, -1), keepdim: builtins.bool = False, *, dtype: _Dtype | None = None, out: Tensor | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
    'The norm of matrices that lie along two dims.'
def matrix_power(A: Tensor, n: builtins.int, *, out: Tensor | None = None) -> Tensor:
    'The n-th power of each square matrix; see `matrix_power`.'
def matrix_rank(A: Tensor, tol: Any = None, hermitian: builtins.bool = False, *, atol: Any = None, rtol: Any = None, out: Tensor | None = None) -> Tensor:
    'The number of singular values of each matrix above the tolerance (`tol` is an absolute one).'
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    'The product of two or more matrices in the cheapest order; the first and the last may be vectors.'
def norm(A: Tensor, ord: Any = None, dim: _Ints | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype | None = None, out: Tensor | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
    'The norm of vectors or matrices, as `dim` or the rank says; without `ord` the 2-norm of all elements.'
def pinv(A: Tensor, rcond: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    'The pseudoinverse of each matrix: the inverse on its range, 0 beside it.'
def qr(A: Tensor, mode: builtins.str = 'reduced', *, out: Any = None) -> _return_types.linalg_qr:
    '(Q, R) with `A = Q @ R`: orthonormal columns and an upper triangle.'
def slogdet(A: Tensor, *, out: Any = None) -> _return_types.linalg_slogdet:
    '(sign, log |det|) of each matrix; 0 and -inf for singular ones.'
def solve(A: Tensor, B: Tensor, *, left: builtins.bool = True, out: Tensor | None = None) -> Tensor:
    'X with `A @ X = B` (`X @ A = B` unless `left`); batches broadcast.'
def solve_ex(A: Tensor, B: Tensor, *, left: builtins.bool = True, check_errors: builtins.bool = False, out: Any = None) -> _return_types.linalg_solve_ex:
    '(result, info): `solve` that does not raise for singular matrices; their info is not 0.'
def solve_triangular(A: Tensor, B: Tensor, *, upper: builtins.bool, left: builtins.bool = True, unitriangular: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    'X with `A @ X = B` (`X @ A = B` unless `left`), where only one triangle of A counts; batches broadcast.'
def svd(A: Tensor, full_matrices: builtins.bool = True, *, driver: Any = None, out: Any = None) -> _return_types.linalg_svd:
    '(U, S, Vh) with `A = U @ diag(S) @ Vh`: orthonormal columns, singular values in descending order, orthonormal rows.'
def svdvals(A: Tensor, *, driver: Any = None, out: Tensor | None = None) -> Tensor:
    'The singular values of each matrix, in descending order.'
def tensorinv(A: Tensor, ind: builtins.int = 2, *, out: Tensor | None = None) -> Tensor:
    'The inverse with respect to `tensordot` over the first `ind` dims.'
def tensorsolve(A: Tensor, B: Tensor, dims: _Ints | None = None, *, out: Tensor | None = None) -> Tensor:
    'X with `tensordot(A, X, X.ndim) = B`; the dims `dims` of A are moved to its end first.'
def vander(x: Tensor, *, N: builtins.int | None = None) -> Tensor:
    'The powers 0 to N - 1 (by default as many as there are numbers) of each number of the last dim, in a new one.'
def vecdot(x: Tensor, y: Tensor, *, dim: builtins.int = -1, out: Tensor | None = None, axis: _Ints | None = None) -> Tensor:
    'The sum of `conj(x) * y` along `dim`; the others broadcast.'
def vector_norm(x: Tensor, ord: Any = 2, dim: _Ints | None = None, keepdim: builtins.bool = False, *, dtype: _Dtype | None = None, out: Tensor | None = None, axis: _Ints | None = None, keepdims: builtins.bool | None = None) -> Tensor:
    'The norm of order `ord` (a number, inf or -inf) over `dim`, an int or several; of all elements by default.'
