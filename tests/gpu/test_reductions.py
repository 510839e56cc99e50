"""Reductions and extremes on the GPU against their CPU twins."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.kernels.build.batch_invariance import use_batch_invariant
from dynograd.kernels.reduce import reducing_cuda, reductions_cuda
from tests.gpu.twins import compared, on_device
from tests.gpu.values import numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)
KINDS = ["float32", "float64", "float16", bfloat16, "int32", "int64", "uint8", "bool"]
SHAPES = [
    ((5,), None), ((4, 6), 0), ((4, 6), 1), ((3, 4, 5), (0, 2)), ((3, 4, 5), 1), ((3, 4, 5), (0, 1)), ((1,), 0),
    ((2, 1, 3), (1,)), ((), None), ((2, 0, 3), 0), ((4, 5, 6), None),
]  # fmt: skip


def drawn(shape, kind):
    return numpy.asarray(numpy.asarray(numbers(0, shape) * 3).astype(kind))


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles and numbers of programs with which short rows are cut."""
    monkeypatch.setattr(reducing_cuda, "_ENOUGH", 4)
    monkeypatch.setattr(reducing_cuda.tiles, "__defaults__", (32,))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_sum_and_truth(kind, keepdim):
    for shape, dim in SHAPES:
        x = drawn(shape, kind)
        compared("reductions", "sum", x, dim, keepdim)
        if not keepdim:
            compared("reductions", "any", x, dim, keepdim)
            compared("reductions", "all", x, dim, keepdim)


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_other_sums(shape, dim):
    for kind in ("float32", bfloat16, "float64"):
        compared("reductions", "mean_forward", drawn(shape, kind), dim, False)
        compared("reductions", "not_nan", drawn(shape, kind))
    for kind in ("int32", "bool", "float32", "float64", bfloat16):
        compared("reductions", "count_nonzero", (drawn(shape, kind).astype("float32") // 2).astype(kind), dim)


def test_empty():
    for name in ("sum", "mean_forward", "prod_forward", "any", "all"):
        compared("reductions", name, numpy.zeros((0, 3), "float32"), 0, False)
        compared("reductions", name, numpy.zeros((0, 3), "float32"), 1, True)
    compared("reductions", "count_nonzero", numpy.zeros((0, 3), "float32"), 0)


def test_nan():
    x = drawn((4, 5), "float32")
    x[1, 2], x[2] = numpy.nan, -numpy.inf
    for name in ("sum", "any", "all", "mean_forward", "prod_forward"):
        compared("reductions", name, x, 1, False)
    compared("reductions", "zero_nan", x)
    compared("reductions", "not_nan", x)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_strides(order):
    x = drawn((3, 4, 5), "float32").transpose(order)
    for dim in (None, 0, 1, 2, (0, 2)):
        compared("reductions", "sum", x, dim, False)
        compared("extremes", "amax", x, dim, True)
    compared("extremes", "argmax", x, None, False)
    compared("extremes", "min_along", x, 1, False)
    compared("reductions", "sum", drawn((6, 5), "float32")[::2, ::-1], 0, False)


def test_broadcast():
    x = numpy.broadcast_to(drawn((4, 1), "float32"), (4, 6))
    spread = on_device(drawn((4, 1), "float32")).broadcast_to((4, 6))
    numpy.testing.assert_allclose(reductions_cuda.sum(spread, 1, False).numpy(), x.sum(1), rtol=1e-5)
    compared("reductions", "sum", numpy.ascontiguousarray(x), 1, False)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize(
    ("shape", "dim"), [((1, 700), 1), ((700,), None), ((1, 90, 3), 1), ((2, 300), 1), ((40, 2), 0)], ids=str
)
def test_long_rows(shape, dim):
    """Rows are cut, and the parts reduced."""
    x = drawn(shape, "float32")
    compared("reductions", "sum", x, dim, False)
    compared("reductions", "mean_forward", x, dim, False)
    compared("extremes", "amin", x, dim, False)
    compared("extremes", "argmax", x, dim, False)
    compared("extremes", "argmin", numpy.round(x), dim, True)
    x.reshape(-1)[5::97] = numpy.nan
    compared("extremes", "argmax", x, dim, False)
    compared("extremes", "amax", x, dim, False)
    compared("extremes", "argmax", numpy.full(shape, -numpy.inf, "float32"), dim, False)


def test_products():
    for shape, dim in [((3, 4), 0), ((3, 4), 1), ((5,), None), ((2, 3, 4), 1), ((), None), ((0,), 0)]:
        for kind in ("float32", "float64", bfloat16, "int32"):
            compared("reductions", "prod_forward", drawn(shape, kind), dim, False)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_prod_backward(zeros):
    x = drawn((3, 5), "float32")
    x.reshape(-1)[[7, 8][:zeros]] = 0
    for dim in (None, 0, 1):
        out = numpy.asarray(x.prod(dim))
        compared("reductions", "prod_backward", numpy.ones_like(out) * 2, x, out, dim, False)


@pytest.mark.parametrize(
    ("shape", "to"),
    [((3, 4), (4,)), ((3, 4), (1, 4)), ((3, 4), (3, 1)), ((3, 4), ()), ((2, 3, 4), (3, 1)), ((3,), (3,))],
    ids=str,
)
def test_sum_to(shape, to):
    for kind in ("float32", bfloat16, "int32"):
        compared("reductions", "sum_to", drawn(shape, kind), to)


def test_spread():
    for shape, dim, keepdim in [
        ((3, 4), 0, False),
        ((3, 4), 1, True),
        ((3, 4), None, False),
        ((2, 3, 4), (0, 2), False),
    ]:
        g = drawn((1,) * 0 if dim is None else numpy.zeros(shape).sum(dim, keepdims=keepdim).shape, "float32")
        compared("reductions", "spread", g, shape, dim, keepdim)


@pytest.mark.parametrize(
    ("shape", "dim"), [((3, 40), 1), ((3, 40), 0), ((2, 5, 4), 1), ((3, 4), None), ((3, 4, 5), (0, 2))], ids=str
)
def test_logsumexp(shape, dim):
    for kind in ("float32", "float64", bfloat16):
        x = drawn(shape, kind)
        _, expected = compared("softmaxes", "logsumexp_forward", x, dim, False)
        g = numpy.ones_like(expected)
        compared("softmaxes", "logsumexp_backward", g, x, expected, dim, False)
    x = drawn((4, 5), "float32")
    x[0], x[1, 2], x[2, 2], x[3, 1:] = -numpy.inf, numpy.inf, numpy.nan, -numpy.inf
    _, expected = compared("softmaxes", "logsumexp_forward", x, 1, True)
    compared("softmaxes", "exp_difference", x, expected)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_extremes(kind):
    for shape, dim in SHAPES[:10]:
        x = drawn(shape, kind)
        compared("extremes", "amax", x, dim, False)
        compared("extremes", "amin", x, dim, True)
        if type(dim) is not tuple:
            compared("extremes", "argmax", x, dim, False)
            compared("extremes", "argmin", x, dim, True)
            if dim is not None:
                compared("extremes", "max_along", x, dim, False)
                compared("extremes", "min_along", x, dim, True)


def test_extremes_nan():
    x = drawn((4, 5), "float32")
    x[0, 2], x[0, 4], x[1], x[2] = numpy.nan, numpy.nan, numpy.nan, numpy.inf
    for dim in (0, 1):
        for name in ("max_along", "min_along", "amax", "amin", "argmax", "argmin"):
            compared("extremes", name, x, dim, False)


def test_tie_shares():
    x = numpy.round(drawn((3, 6), "float32"))
    for dim in (None, 0, 1):
        for kind in ("float32", "float64", bfloat16):
            compared("extremes", "tie_shares", x.astype(kind), numpy.asarray(x.max(dim)).astype(kind), dim, False)


def test_same_bits_again():
    x = drawn((2, 5000), "float32")
    bits = {
        extremes_or_sum.tobytes()
        for extremes_or_sum in (compared("reductions", "sum", x, 1, False)[0].numpy() for _ in range(2))
    }
    assert len(bits) == 1


def test_batches_decide_nothing():
    """In batch-invariant mode the number of rows decides neither the tiles of a row nor its segments."""
    with use_batch_invariant():
        for n in (7, 500, 5000, 200_000):
            ways = {(*reducing_cuda.tiles(outer, n, 1)[:2], *reducing_cuda.cut(n, 64, outer)) for outer in (1, 3, 4096)}
            assert len(ways) == 1
        compared("reductions", "sum", drawn((2, 300), "float32"), 1, False)
    assert len({reducing_cuda.cut(200_000, 64, outer) for outer in (1, 4096)}) == 2
