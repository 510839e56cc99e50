"""Reductions of large arrays against NumPy in float64, on one thread and on two."""

import numpy as np
import pytest

from dynograd.kernels.build import threads
from dynograd.kernels.norm import softmaxes_cpu
from dynograd.kernels.reduce import blocks_cpu, extremes_cpu, norms_cpu, reductions_cpu

CASES = [
    ((70001,), 0),
    ((70001,), None),
    ((300, 301), 0),
    ((300, 301), 1),
    ((300, 301), None),
    ((9, 1100, 37), 1),
    ((9, 1100, 37), (0, 2)),
    ((7, 129, 3, 33), (0, 1, 3)),
    ((5, 40, 500), (0, 1)),
    ((20000, 7), 0),
    ((3, 9001, 2), 1),
    ((2, 1, 5000, 1), (1, 2)),
]


@pytest.fixture(params=[1, 2])
def thread_count(request, monkeypatch):
    kept = threads.get_num_threads()
    monkeypatch.setattr(threads, "GRAIN", 1 << 10)
    threads.set_num_threads(request.param)
    yield request.param
    threads.set_num_threads(kept)


def draw(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("layout", ["row-major", "turned"])
@pytest.mark.parametrize(("shape", "dim"), CASES)
def test_sums_and_extremes(shape, dim, layout, keepdim, thread_count):
    x = draw(shape) if layout == "row-major" else draw(shape[::-1]).T
    assert blocks_cpu.suits(x, dim)
    wide, size = x.astype(np.float64), reductions_cpu.count_of(shape, dim)
    options = {"axis": dim, "keepdims": keepdim}
    np.testing.assert_allclose(reductions_cpu.sum(x, dim, keepdim), wide.sum(**options), atol=2e-7 * size**0.5 * 5)
    np.testing.assert_array_equal(extremes_cpu.amax(x, dim, keepdim), x.max(**options))
    np.testing.assert_array_equal(extremes_cpu.amin(x, dim, keepdim), x.min(**options))
    norm = norms_cpu.vector_norm_forward(x, 2, dim, keepdim)
    np.testing.assert_allclose(norm, np.sqrt(np.square(wide).sum(**options)), rtol=1e-6)
    sizes = norms_cpu.vector_norm_forward(x, 1, dim, keepdim)
    np.testing.assert_allclose(sizes, abs(wide).sum(**options), rtol=1e-6)
    factors = np.where(abs(x) > 2.5, np.where(x > 0, 2, 0.5), np.sign(x)).astype(np.float32)
    products = reductions_cpu.prod_forward(factors, dim, keepdim)
    np.testing.assert_array_equal(products, factors.astype(np.float64).prod(**options))
    assert norm.shape == products.shape == wide.sum(**options).shape and norm.dtype == products.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, pytest.param(np.int32, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("shape", "dim"), [case for case in CASES if not isinstance(case[1], tuple)])
def test_places_of_extremes(shape, dim, dtype, thread_count):
    x = (draw(shape) * 30).round().astype(dtype)  # many equals: the first counts
    for keepdim in (False, True):
        np.testing.assert_array_equal(extremes_cpu.argmax(x, dim, keepdim), x.argmax(dim, keepdims=keepdim))
        np.testing.assert_array_equal(extremes_cpu.argmin(x, dim, keepdim), x.argmin(dim, keepdims=keepdim))
        if dim is not None:
            values, places = extremes_cpu.max_along(x, dim, keepdim)
            np.testing.assert_array_equal(values, x.max(dim, keepdims=keepdim))
            np.testing.assert_array_equal(places, x.argmax(dim, keepdims=keepdim))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_extremes_with_nan_infinities_and_zeros(dim, dtype, thread_count):
    x = draw((200, 300), dtype)
    x[3, 5], x[7] = np.inf, -np.inf
    x[9, 1], x[:, 20] = np.nan, -abs(x[:, 20])
    x[11, 2] = -np.float64(np.nan)
    x[13], x[:, 21] = -0.0, 0.0
    x[15] = -abs(x[15])
    for largest in (True, False):
        element, arg = (extremes_cpu.amax, extremes_cpu.argmax) if largest else (extremes_cpu.amin, extremes_cpu.argmin)
        np.testing.assert_array_equal(element(x, dim, False), (x.max if largest else x.min)(dim))
        np.testing.assert_array_equal(arg(x, dim, False), (x.argmax if largest else x.argmin)(dim))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_logsumexp_and_its_gradient(dim, thread_count):
    x = draw((6, 70, 90)) * 20
    x[1], x[2, 3], x[3, :, 4] = -np.inf, np.inf, -np.inf
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        top = wide.max(dim, keepdims=True)
        level = top + np.log(np.exp(wide - np.where(np.isfinite(top), top, 0)).sum(dim, keepdims=True))
        level = np.where(np.isinf(top), top, level)
        result = softmaxes_cpu.logsumexp_forward(x, dim, True)
        np.testing.assert_allclose(result, level, rtol=1e-6, atol=1e-6)
        assert softmaxes_cpu.logsumexp_forward(x, dim, False).shape == x.sum(dim).shape
        g = draw(result.shape, seed=1)
        expected = g * np.where(level == -np.inf, 0, np.exp(wide - level))
        np.testing.assert_allclose(
            softmaxes_cpu.logsumexp_backward(g, x, result, dim, True), expected, rtol=1e-5, atol=1e-6
        )


def test_sums_of_many_numbers_are_exact_to_a_millionth_and_equal_on_any_number_of_threads():
    x = np.random.default_rng(0).random((1 << 23, 2), np.float32)
    exact = x.astype(np.float64).sum(0)
    kept = threads.get_num_threads()
    result = []
    for count in (1, 2):
        threads.set_num_threads(count)
        result.append((reductions_cpu.sum(x, 0, False), reductions_cpu.sum(x, None, False)))
    threads.set_num_threads(kept)
    np.testing.assert_array_equal(result[0][0], result[1][0])
    assert result[0][1] == result[1][1]
    np.testing.assert_allclose(result[0][0], exact, rtol=1e-6)
    np.testing.assert_allclose(result[0][1], exact.sum(), rtol=1e-6)


def test_integers_and_truth_sum_in_int64(thread_count):
    x = np.full((300, 100), 2**31 - 1, np.int32)
    assert reductions_cpu.sum(x, None, False) == 300 * 100 * (2**31 - 1)
    np.testing.assert_array_equal(reductions_cpu.sum(x > 0, 0, False), np.full(100, 300))
    np.testing.assert_array_equal(reductions_cpu.count_nonzero(x, 1), np.full(300, 100))
