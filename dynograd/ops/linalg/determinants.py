"""Determinants and their logarithms; gradients at singular matrices too."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import conj
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.complexes import imag, is_complex_array
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.layout.joins import cat
from dynograd.ops.layout.views import reshaped
from dynograd.ops.linalg.linear_systems import check_matrices, inverses
from dynograd.ops.matmul.matmuls import _adjoint as adjoint_of
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.row import Row

__all__ = ["linalg_det"]

FAMILY = Row(ragged="groups")


@op(name="linalg_det", saves="A output")
def determinants(A: Array) -> Array:
    """The determinant of each matrix."""
    return kernel("linear_algebra", "determinant", A)(A)


@determinants.backward
def determinants_backward(g: Any, saved: Any) -> Gradients:
    raw = getattr(saved.output, "array", saved.output)
    if arrays.is_array(raw) and (raw == 0).any():
        return (_weighted(g, adjoint_of(_adjugate(saved.A))),)
    turned = adjoint_of(inverses(saved.A, False)[0])
    return (_weighted(g * conj(saved.output), turned),)


def _weighted(number: Any, matrices: Any) -> Array:
    return reshaped(number, (*number.shape, 1, 1)) * matrices


def _adjugate(A: Any) -> Array:
    """det(A) times the inverse of A, also of singular matrices: minors, one after the other."""
    size = A.shape[-1]
    rows = []
    for row in range(size):
        line = []
        for column in range(size):
            minor = _without(_without(A, row, -2), column, -1)
            value = determinants(minor) if size > 1 else get_basic(A, (Ellipsis, 0, 0)) * 0 + 1
            line.append(reshaped(-value if (row + column) % 2 else value, (*value.shape, 1, 1)))
        rows.append(cat(line, -2))
    return cat(rows, -1)


def _without(A: Any, place: int, dim: int) -> Array:
    before: tuple = (Ellipsis, slice(0, place)) if dim == -1 else (Ellipsis, slice(0, place), slice(None))
    after: tuple = (Ellipsis, slice(place + 1, None)) if dim == -1 else (Ellipsis, slice(place + 1, None), slice(None))
    return cat([get_basic(A, before), get_basic(A, after)], dim)


def _quick_linalg_det(compute: Any, A: Any) -> tuple | None:
    if A.ndim > 1 and A.shape[-1] == A.shape[-2] and A.dtype.char in "fdFD":
        return compute(A), ()
    return None


@composed(covers="linalg_det")
@shortcut(determinants, _quick_linalg_det, compute="linear_algebra.determinant")
def linalg_det(A: Any) -> Array:
    """The determinant of each matrix; singular ones have their gradient, too.

    Args:
        A (*, N, N): matrices.
    Returns:
        (*), in the dtype of A.

    >>> dynograd.linalg.det(tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2.)
    """
    check_matrices("linalg.det", A, True)
    return determinants(A)


@composed(method=True, out=None)
def det(input: Any) -> Array:
    """Another name of `linalg.det`.

    Args:
        input (*, N, N): matrices.
    Returns:
        (*), in the dtype of `input`.

    >>> dynograd.det(tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2.)
    """
    return linalg_det(input)


@op(name="linalg_slogdet", outputs="sign logabsdet", saves="A output")
def signs_and_logarithms(A: Array) -> tuple[Array, Array]:
    """The sign and the logarithm of the size of the determinant of each matrix."""
    return kernel("linear_algebra", "sign_and_logarithm", A)(A)


@signs_and_logarithms.backward
def signs_and_logarithms_backward(g: Any, saved: Any) -> Gradients:
    weight = g[1]
    if is_complex_array(saved.A):
        weight = weight - imag(conj(g[0]) * saved.output[0]) * 1j
    return (_weighted(weight, adjoint_of(inverses(saved.A, False)[0])),)


@composed(covers="linalg_slogdet")
def linalg_slogdet(A: Any) -> tuple[Array, Array]:
    """(sign, log |det|) of each matrix; 0 and -inf for singular ones.

    Args:
        A (*, N, N): matrices.
    Returns:
        A named tuple of two tensors (*): `sign`, -1, 0 or 1 (or of size 1), and `logabsdet`.

    >>> dynograd.linalg.slogdet(tensor([[-1.0]]))
    dynograd.return_types.linalg_slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.))
    """
    check_matrices("linalg.slogdet", A, True)
    return signs_and_logarithms(A)


@composed(method=True)
def slogdet(input: Any) -> tuple[Array, Array]:
    """Another name of `linalg.slogdet`.

    Args:
        input (*, N, N): matrices.
    Returns:
        A named tuple of two tensors (*): `sign`, -1, 0 or 1 (or of size 1), and `logabsdet`.

    >>> dynograd.slogdet(tensor([[1.0, 2.0], [3.0, 4.0]]))
    dynograd.return_types.linalg_slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.6931))
    """
    return linalg_slogdet(input)


@composed(method=True, out=None)
def logdet(input: Any) -> Array:
    """The logarithm of the determinant of each matrix: -inf where it is 0, NaN where it is negative.

    Args:
        input (*, N, N): matrices.
    Returns:
        (*), in the dtype of `input`.

    >>> dynograd.logdet(tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor(0.)
    """
    check_matrices("logdet", input, True)
    sign, logarithm = signs_and_logarithms(input)
    if is_complex_array(input):
        return logarithm + sign.angle() * 1j
    return where(sign < 0, float("nan"), logarithm)
