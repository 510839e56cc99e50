"""LU and triangular solutions with and without the functions of a BLAS library, and what LAPACK reports of bad matrices."""

import numpy
import pytest

from dynograd.kernels.linalg import linear_algebra_cpu as kernels

KINDS = [numpy.float32, numpy.float64, numpy.complex64, numpy.complex128]


@pytest.fixture(params=["library", "loops"])
def way(request, monkeypatch):
    if request.param == "loops":
        monkeypatch.setattr(kernels, "_routine", lambda name: (None, None))


def matrices(kind, *shape):
    rng = numpy.random.default_rng(0)
    created = rng.normal(size=shape) + (1j * rng.normal(size=shape) if kind(0).dtype.kind == "c" else 0)
    return created.astype(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 5), (2, 4, 2), (2, 2, 4), (1, 1), (0, 3, 3), (2, 0, 0)])
def test_lu(way, kind, shape):
    x = matrices(kind, *shape)
    packed, pivots, info = kernels.lu(x)
    rows, columns = shape[-2:]
    count = min(rows, columns)
    lower = numpy.tril(packed[..., :count], -1) + numpy.eye(rows, count)
    upper = numpy.triu(packed[..., :count, :])
    result = kernels.permutation(pivots, rows, kind) @ lower @ upper
    assert packed.dtype == kind and pivots.dtype == numpy.int32 and not info.any()
    numpy.testing.assert_allclose(result, x, rtol=1e-4, atol=1e-5)
    assert (abs(lower) <= 1.5).all()


def test_lu_reports_the_first_zero_pivot(way):
    x = numpy.array([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]]])
    assert kernels.lu(x)[2].tolist() == [2, 1, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_solve_triangular(way, kind, upper, unit):
    a = matrices(kind, 2, 4, 4) + 3 * numpy.eye(4, dtype=kind)
    b = matrices(kind, 4, 3)
    whole = numpy.triu(a) if upper else numpy.tril(a)
    if unit:
        whole = whole * (1 - numpy.eye(4)) + numpy.eye(4)
    result = kernels.solve_triangular(numpy.asfortranarray(a), numpy.broadcast_to(b, (2, 4, 3)), upper, unit)
    assert result.dtype == kind
    numpy.testing.assert_allclose(
        result, numpy.linalg.solve(whole, numpy.broadcast_to(b, (2, 4, 3))), rtol=2e-3, atol=1e-4
    )


def test_first_failure():
    assert kernels.first_failure(numpy.zeros((2, 2), numpy.int32)) is None
    assert kernels.first_failure(numpy.array([[0, 0], [3, 1]], numpy.int32)) == (2, 3)
