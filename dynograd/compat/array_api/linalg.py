"""The standard's linear algebra, on matrices in the last two dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynograd import linalg
from dynograd.base.hints import DtypeLike
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.compat.array_api.promotion import promoted
from dynograd.compat.array_api.reductions import sum
from dynograd.compat.array_api.table import dims, ops
from dynograd.tensor.tensor import Tensor

__all__ = [
    *"cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer".split(),
    *"pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm".split(),
]


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product; 1-d tensors are a row before and a column behind.

    Args:
        x1 (..., N, K), x2 (..., K, M): tensors.
    Returns:
        (..., N, M).

    >>> xp.matmul(xp.asarray([[1, 2]]), xp.asarray([[3], [4]]))
    tensor([[11]])
    """
    return ops.matmul(*promoted(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The matrices with rows and columns exchanged.

    Args:
        x: a tensor.
    Returns:
        (..., M, N).
    Raises:
        ValueError: fewer than two dims.

    >>> xp.matrix_transpose(xp.asarray([[1, 2]]))
    tensor([[1],
            [2]])
    """
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected at least 2 dims, got shape {tuple(x.shape)}.")
    return ops.transpose(x, -2, -1)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Sums of products over the last `axes` dims of `x1` and the first of `x2`, or over two lists of dims.

    Args:
        x1, x2: tensors that broadcast.
        axes: a number of dims, or two lists of them.
    Returns:
        A tensor of the dims that are left.

    >>> xp.tensordot(xp.asarray([1, 2]), xp.asarray([3, 4]), axes=1)
    tensor(11)
    """
    return ops.tensordot(*promoted(x1, x2), dims=axes if isinstance(axes, int) else [list(dims) for dims in axes])


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum of `conj(x1) * x2` along `axis`, which counts from the end; the other dims broadcast.

    Args:
        x1, x2: tensors that broadcast.
        axis: which dim; negative counts from the end.
    Returns:
        The broadcast shape without `axis`.

    >>> xp.vecdot(xp.asarray([1, 2]), xp.asarray([3, 4]))
    tensor(11)
    """
    left, right = promoted(x1, x2)
    for x in (left, right):
        if not -x.ndim <= axis < 0 and not (axis >= 0 and left.ndim == right.ndim):
            raise ValueError(
                f"vecdot: expected a negative axis of both tensors, got {axis} for shape {tuple(x.shape)}."
            )
    if left.shape[axis] != right.shape[axis]:
        raise ValueError(f"vecdot: sizes along axis {axis} differ: {left.shape[axis]} and {right.shape[axis]}.")
    product = (ops.conj(left) if left.dtype.is_complex else left) * right
    return sum(product, axis=axis, dtype=product.dtype)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of each element of one vector with each of another.

    Args:
        x1 (n,), x2 (m,): vectors.
    Returns:
        (n, m).

    >>> xp.linalg.outer(xp.asarray([1, 2]), xp.asarray([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    return ops.outer(*promoted(x1, x2))


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three elements along `axis`; the other dims broadcast.

    Args:
        x1, x2 (..., 3): tensors that broadcast.
        axis: which dim; negative counts from the end.
    Returns:
        The broadcast shape.

    >>> xp.linalg.cross(xp.asarray([1, 0, 0]), xp.asarray([0, 1, 0]))
    tensor([0, 0, 1])
    """
    left, right = promoted(x1, x2)
    if left.shape[axis] != 3 or right.shape[axis] != 3:
        raise ValueError(
            f"cross: expected size 3 along axis {axis}, got shapes {tuple(x1.shape)} and {tuple(x2.shape)}."
        )
    return linalg.cross(*ops.broadcast_tensors(left, right), dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The `offset`-th diagonals of the matrices.

    Args:
        x: a tensor.
        offset: which diagonal; 0 is the main one.
    Returns:
        (..., length of the diagonal).

    >>> xp.linalg.diagonal(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    tensor([2., 4.])
    """
    return ops.diagonal(x, offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DtypeLike = None) -> Tensor:
    """The sums of the diagonals.

    Args:
        x: a tensor.
        offset: which diagonal; 0 is the main one.
        dtype: of the result; by default that of the values.
    Returns:
        (...).

    >>> xp.linalg.trace(xp.asarray([[1, 2], [3, 4]]))
    tensor(5)
    """
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: str | float = "fro") -> Tensor:
    """The norm of each matrix: "fro", "nuc", 1, 2, inf or their negatives.

    Args:
        x: a tensor.
        keepdims: the reduced dims stay, with size 1.
        ord: "fro", "nuc", 1, 2, inf or their negatives.
    Returns:
        (...).

    >>> xp.linalg.matrix_norm(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    tensor(4.4721)
    """
    return linalg.matrix_norm(x, "fro" if ord is None else ord, keepdim=keepdims)


def vector_norm(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: str | float = 2
) -> Tensor:
    """The norm over `axis`: (sum of |x|**ord)**(1 / ord); with 0 the number of elements that are not zero.

    Args:
        x: a tensor.
        axis: an int or several; None is all.
        keepdims: the reduced dims stay, with size 1.
        ord: a number; inf and -inf are the largest and the smallest absolute value.
    Returns:
        The shape of `x` without `axis`.

    >>> xp.linalg.vector_norm(xp.asarray([3.0, 4.0]))
    tensor(5.)
    """
    over = dims(axis, x.ndim)
    if over:
        return linalg.vector_norm(x, ord, over, keepdims)
    size = ops.abs(x)
    return ops.to(size != 0, size.dtype) if ord == 0 else size


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The matrices multiplied `n` times; a negative `n` inverts them.

    Args:
        x: a tensor.
        n: any int.
    Returns:
        The shape of `x`.

    >>> xp.linalg.matrix_power(xp.asarray([[2.0, 0.0], [0.0, 4.0]]), 2)
    tensor([[ 4.,  0.],
            [ 0., 16.]])
    """
    return linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The number of singular values above `rtol` times the largest.

    Args:
        x: a tensor.
        rtol: the relative tolerance; None is the dtype's epsilon times the larger size.
    Returns:
        (...), integers.

    >>> xp.linalg.matrix_rank(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    tensor(2)
    """
    return linalg.matrix_rank(x, rtol=rtol)


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudoinverse of each matrix; singular values up to `rtol` times the largest count as 0.

    Args:
        x: a tensor.
        rtol: the relative tolerance; None is the dtype's epsilon times the larger size.
    Returns:
        (..., M, N).

    >>> xp.linalg.pinv(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return linalg.pinv(x, rtol=rtol)


def det(x: Tensor, /) -> Tensor:
    """The determinants.

    Args:
        x: a tensor.
    Returns:
        (...).

    >>> xp.linalg.det(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    tensor(8.)
    """
    return linalg.det(x)


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Sign and logarithm of the size of each determinant.

    Args:
        x: a tensor.
    Returns:
        (sign, logabsdet), each (...).

    >>> xp.linalg.slogdet(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    SlogdetResult(sign=tensor(1.), logabsdet=tensor(2.0794))
    """
    return SlogdetResult(*linalg.slogdet(x))


def inv(x: Tensor, /) -> Tensor:
    """The inverses.

    Args:
        x: a tensor.
    Returns:
        The shape of `x`.

    >>> xp.linalg.inv(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return linalg.inv(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """X with `x1 @ X == x2`; a 1-d `x2` is one right-hand side, any other holds matrices.

    Args:
        x1 (..., N, N), x2 (N,) or (..., N, K): tensors.
    Returns:
        The shape of `x2`.

    >>> xp.linalg.solve(xp.asarray([[2.0, 0.0], [0.0, 4.0]]), xp.asarray([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    A, B = promoted(x1, x2)
    if B.ndim == 1:
        return ops.squeeze(linalg.solve(A, ops.unsqueeze(B, -1)), -1)
    if B.ndim == A.ndim - 1 and A.ndim > 2:  # which PyTorch would take as a batch of vectors
        B = ops.unsqueeze(B, 0)
    return linalg.solve(A, B)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The lower (or upper) triangle L with `L @ L.mH == x`.

    Args:
        x: a tensor.
        upper: give the upper triangle.
    Returns:
        The shape of `x`.

    >>> xp.linalg.cholesky(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[1.4142, 0.0000],
            [0.0000, 2.0000]])
    """
    return linalg.cholesky(x, upper=upper)


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues, in rising order, and eigenvectors, in columns, of symmetric or Hermitian matrices.

    Args:
        x: a tensor.
    Returns:
        (eigenvalues (..., N), eigenvectors (..., N, N)).

    >>> xp.linalg.eigh(xp.asarray([[2.0, 0.0], [0.0, 4.0]])).eigenvalues
    tensor([2., 4.])
    """
    return EighResult(*linalg.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues, in rising order, of symmetric or Hermitian matrices.

    Args:
        x: a tensor.
    Returns:
        (..., N).

    >>> xp.linalg.eigvalsh(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    tensor([2., 4.])
    """
    return linalg.eigvalsh(x)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """Q with orthonormal columns and a triangular R with `Q @ R == x`.

    Args:
        x: a tensor.
        mode: "reduced" or "complete".
    Returns:
        (Q, R).

    >>> xp.linalg.qr(xp.asarray([[2.0, 0.0], [0.0, 4.0]])).R.shape
    dynograd.Size([2, 2])
    """
    return QRResult(*linalg.qr(x, mode))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """U, singular values in falling order, and Vh.

    Args:
        x: a tensor.
        full_matrices: square U and Vh.
    Returns:
        (U, S, Vh).

    >>> xp.linalg.svd(xp.asarray([[2.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 2.])
    """
    return SVDResult(*linalg.svd(x, full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values, in falling order.

    Args:
        x: a tensor.
    Returns:
        (..., min(M, N)).

    >>> xp.linalg.svdvals(xp.asarray([[2.0, 0.0], [0.0, 4.0]]))
    tensor([4., 2.])
    """
    return linalg.svdvals(x)


_show_plainly(globals())
