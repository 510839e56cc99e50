"""Running sums, products, extremes and recurrences on the GPU against their CPU twins."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.kernels.reduce import reducing_cuda, scans_cuda
from tests.gpu.twins import compared
from tests.gpu.values import numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)
SHAPES = [((7,), 0), ((3, 5), 1), ((3, 5), 0), ((2, 3, 4), 1), ((), 0), ((2, 0, 3), 1), ((1, 1), 1)]


def drawn(shape, kind="float32"):
    return numpy.asarray(numpy.asarray(numbers(0, shape) * 3).astype(kind))


@pytest.mark.parametrize("kind", ["float32", "float64", bfloat16, "int64", "int32"], ids=str)
def test_sums_and_products(kind):
    for shape, dim in SHAPES:
        x = drawn(shape, kind)
        compared("scans", "cumsum", x, dim, False)
        compared("scans", "cumsum", x, dim, True)
        compared("scans", "cumprod_forward", x, dim)
        compared("scans", "reversed_along", x, dim) if shape else None
        compared("scans", "behind_one", x, dim) if shape else None


@pytest.mark.parametrize("kind", ["float32", bfloat16, "int64"], ids=str)
def test_extremes(kind):
    for shape, dim in SHAPES:
        x = numpy.asarray(numpy.round(drawn(shape, "float32")).astype(kind))
        compared("scans", "cummax", x, dim)
        compared("scans", "cummin", x, dim)


def test_extremes_nan():
    x = drawn((4, 6))
    x[0, 2], x[1, 0], x[2], x[3, 4:] = numpy.nan, numpy.nan, -numpy.inf, numpy.inf
    for name in ("cummax", "cummin"):
        for dim in (0, 1):
            compared("scans", name, x, dim)


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(scans_cuda, "_TILE", 16)
    monkeypatch.setattr(scans_cuda, "_TOPS", 4)
    monkeypatch.setattr(reducing_cuda, "_ENOUGH", 4)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(("shape", "dim"), [((70,), 0), ((2, 37), 1), ((1, 30, 3), 1)], ids=str)
def test_long_rows(shape, dim):
    """Tiles one after the other, and sums of segments."""
    x = drawn(shape)
    compared("scans", "cumsum", x, dim, False)
    compared("scans", "cumsum", x, dim, True)
    compared("scans", "cumprod_forward", x / 3, dim)
    compared("scans", "cummax", x, dim)
    compared("scans", "cummin", numpy.round(x), dim)
    compared("scans", "logcumsumexp_forward", x, dim)
    compared("scans", "recurrence", x, drawn(shape) / 3, dim, loose=5)


def test_segments(monkeypatch):
    monkeypatch.setattr(scans_cuda, "_TILE", 64)
    x = drawn((1, 1500))
    compared("scans", "cumsum", x, 1, False)
    compared("scans", "cumsum", x, 1, True)
    compared("scans", "cumsum", drawn((900,), "int64"), 0, True)


@pytest.mark.usefixtures("small_tiles")
def test_extremes_and_logarithms_of_segments(monkeypatch):
    """More segments than are looked at at once; long ties, NaN and infinities that go on into the next segments."""
    monkeypatch.setattr(reducing_cuda, "_ENOUGH", 100)
    monkeypatch.setattr(scans_cuda, "_TOPS", 2)
    x = numpy.round(drawn((1, 80)))
    x[0, :30] = -numpy.inf
    for element in (x, numpy.where(numpy.arange(80) == 60, numpy.nan, x).astype("float32")):
        compared("scans", "cummax", element, 1)
        compared("scans", "cummin", -element, 1)
        compared("scans", "logcumsumexp_forward", element, 1)
    compared("scans", "cummax", numpy.full((2, 50), -numpy.inf, "float32"), 1)
    compared("scans", "cummin", numpy.full((1, 50), numpy.iinfo("int64").max), 1)
    compared("scans", "cummax", drawn((100,), bfloat16), 0)


@pytest.mark.parametrize("kind", ["float32", "float64", bfloat16], ids=str)
def test_logarithms_and_recurrences(kind):
    for shape, dim in [*SHAPES[:4], ((), 0)]:
        x = drawn(shape, kind)
        compared("scans", "logcumsumexp_forward", x, dim)
        compared("scans", "recurrence", x, numpy.asarray(x / 4).astype(kind), dim)


def test_infinite_logarithms():
    x = drawn((6, 5))
    x[0, 0], x[1, 2], x[2, 1], x[3], x[4, 3], x[5, :2] = -numpy.inf, numpy.inf, numpy.nan, -numpy.inf, 90, -numpy.inf
    x[1, 3], x[0, 3] = -numpy.inf, 200
    for dim in (0, 1):
        compared("scans", "logcumsumexp_forward", x, dim)


@pytest.mark.parametrize("zeros", [0, 1, 3])
def test_cumprod_backward(zeros):
    x = drawn((3, 5)) / 2
    x.reshape(-1)[[2, 7, 9][:zeros]] = 0
    for dim in (0, 1):
        compared("scans", "cumprod_backward", numbers(1, (3, 5)), x, x.cumprod(dim, dtype="float32"), dim)
    compared("scans", "cumprod_backward", drawn(()), drawn(()), drawn(()), 0)
