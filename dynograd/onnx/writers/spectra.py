"""Eigenvalues and singular values, and what follows from them: rotations of Jacobi's in a Scan, of all pairs of columns in turn."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.compat.inner import higher_order
from dynograd.onnx.writers.matrices import algorithm, householder, joined
from dynograd.tensor import creation
from dynograd.tensor.tensor import Tensor

__all__: list[str] = []

_SWEEPS = 12  # over all pairs; matrices of 100 columns are at rest after 10 in float64


@algorithm("linalg_eigh")
def _symmetric_pairs(input: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    """Rotates rows and columns. The signs of the vectors are not LAPACK's, which follow from another algorithm."""
    half = input.triu() if upper else input.tril()
    matrix = half + (half.triu(1) if upper else half.tril(-1)).mT
    count = matrix.shape[-1]

    def step(state: tuple[Tensor, Tensor], turn: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        own, vectors = state
        partners = _partners(turn, count)
        diagonal = own.diagonal(0, -2, -1)
        beside = own.gather(-1, partners.unsqueeze(-1).expand(*own.shape[:-1], 1)).squeeze(-1)
        cosine, sine = _rotation(diagonal, diagonal.index_select(-1, partners), beside, partners)
        own = _rotated(own, partners, cosine, sine)
        own = _rotated(own.mT, partners, cosine, sine)
        own = (own + own.mT) / 2  # a column and its partner must see the same number between them
        return (own, _rotated(vectors, partners, cosine, sine)), turn

    eye = creation.eye(count, dtype=matrix.dtype).expand(matrix.shape) + 0
    (own, vectors), _ = higher_order.scan(step, (matrix, eye), creation.arange(count * _SWEEPS))
    values, order = own.diagonal(0, -2, -1).sort(-1)
    return values, vectors.gather(-1, order.unsqueeze(-2).expand(vectors.shape))


@algorithm("linalg_svd")
def _singular_triples(input: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Rotates columns until they are at right angles: their lengths are the singular values. Signs as of `linalg_eigh`."""
    width, count = input.shape[-1], min(input.shape[-2:])

    def step(state: tuple[Tensor, Tensor], turn: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        own, vectors = state
        partners = _partners(turn, width)
        squares = (own * own).sum(-2)
        products = (own * own.index_select(-1, partners)).sum(-2)
        cosine, sine = _rotation(squares, squares.index_select(-1, partners), products, partners)
        return (_rotated(own, partners, cosine, sine), _rotated(vectors, partners, cosine, sine)), turn

    eye = creation.eye(width, dtype=input.dtype).expand(*input.shape[:-2], width, width) + 0
    (own, vectors), _ = higher_order.scan(step, (input + 0, eye), creation.arange(width * _SWEEPS))
    order = (own * own).sum(-2).argsort(-1, descending=True).unsqueeze(-2)
    own = own.gather(-1, order.expand(own.shape))[..., :count]
    vectors = vectors.gather(-1, order.expand(vectors.shape))
    values = (own * own).sum(-2).sqrt()
    # Columns of length 0 have no direction; reflections complete the others, up to signs.
    turned, rows = householder(own, full)
    signs = rows.diagonal(0, -2, -1).sign()
    signs = (signs + (signs == 0)).unsqueeze(-2)
    left = joined(turned[..., :count] * signs, turned[..., count:])
    return left, values, vectors.mT if full else vectors[..., :count].mT


def _partners(turn: Tensor, count: int) -> Tensor:
    """Whom each column is paired with in a turn: places whose sum is the turn, modulo their number, meet once in so many turns."""
    return (turn - creation.arange(count)) % count


def _rotation(own: Tensor, other: Tensor, between: Tensor, partners: Tensor) -> tuple[Tensor, Tensor]:
    """(cosine, sine), seen from each column, by which it and its partner come to stand at right angles.

    Args:
        own, other: the squares of lengths, or the numbers on the diagonal, of the column and of its partner.
        between: their product, or the number beside the diagonal.
    """
    places = creation.arange(own.shape[-1])
    is_at_rest = (between == 0) | (partners == places)
    ratio = (other - own) / (2 * between).masked_fill(is_at_rest, 1)
    sign = ratio.sign() + (ratio == 0) * (partners - places).sign()
    tangent = (sign / (ratio.abs() + (ratio * ratio + 1).sqrt())).masked_fill(is_at_rest, 0)
    cosine = 1 / (tangent * tangent + 1).sqrt()
    return cosine, tangent * cosine


def _rotated(columns: Tensor, partners: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    return columns * cosine.unsqueeze(-2) - columns.index_select(-1, partners) * sine.unsqueeze(-2)


@algorithm("linalg_svdvals")
def _singular_values(A: Tensor) -> Tensor:
    return _singular_triples(A, False)[1]


@algorithm("linalg_pinv")
def _pseudoinverse(input: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    left, values, right = _values_and_vectors(input, hermitian)
    is_zero = ~_is_above(input, values.abs(), atol, rtol)
    factors = (1 / values.masked_fill(is_zero, 1)).masked_fill(is_zero, 0)
    return right.mT @ (factors.unsqueeze(-1) * left.mT)


@algorithm("linalg_matrix_rank")
def _rank(input: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    values = _values_and_vectors(input, hermitian)[1].abs()
    return _is_above(input, values, atol, rtol).long().sum(-1)


def _values_and_vectors(input: Tensor, hermitian: bool) -> tuple[Tensor, Tensor, Tensor]:
    if hermitian:
        values, vectors = _symmetric_pairs(input, False)
        return vectors, values, vectors.mT
    return _singular_triples(input, False)


def _is_above(input: Tensor, values: Tensor, atol: Any, rtol: Any) -> Tensor:
    """Which values are above max(atol, rtol * the largest); rtol is the precision times the larger size if neither is given."""
    bound = values.amax(-1)
    if rtol is not None:
        bound = bound * rtol
    else:
        bound = bound * max(input.shape[-2:]) * float(numpy.finfo(input.dtype.numpy).eps)
        bound = bound if atol is None else bound.masked_fill(creation.as_tensor(atol) > 0, 0)
    if atol is not None:
        bound = bound.maximum(creation.as_tensor(atol, dtype=bound.dtype))
    return values > bound.unsqueeze(-1)
