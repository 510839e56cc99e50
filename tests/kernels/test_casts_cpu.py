"""Large arrays in another dtype: as NumPy rounds, on one thread and on two."""

import ml_dtypes
import numpy as np
import pytest

import dynograd as dg
from dynograd.kernels.build import threads
from dynograd.kernels.layout import casts_cpu

random = np.random.default_rng(0)
EDGES = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    65504.0,
    65519.9,
    65520.0,
    5.9e-8,
    2.9e-8,
    1e-9,
    3.39e38,
    1.0 + 2**-8,
    1.0 + 3 * 2**-8,
]


def same(result, wanted):
    """Equal bits, but for those of NaN."""
    assert result.dtype == wanted.dtype
    bits = f"u{result.itemsize}"
    with np.errstate(all="ignore"):
        unordered = np.isnan(wanted)
        np.testing.assert_array_equal(np.isnan(result), unordered)
    np.testing.assert_array_equal(result.view(bits)[~unordered], wanted.view(bits)[~unordered])


@pytest.fixture(params=[1, 2])
def on_threads(request, monkeypatch):
    monkeypatch.setattr(threads, "GRAIN", 1 << 9)
    kept = threads.get_num_threads()
    threads.set_num_threads(request.param)
    yield
    threads.set_num_threads(kept)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_half_types(kind, on_threads):
    every = np.arange(1 << 16, dtype=np.uint16).view(kind)
    with np.errstate(all="ignore"):
        expected = every.astype(np.float32)
    same(casts_cpu.to_float(every, np.dtype(np.float32)), expected)
    x = random.integers(0, 1 << 32, 70007, np.uint64).astype(np.uint32).view(np.float32)
    x[: len(EDGES)] = EDGES
    x[100:40000] = random.standard_normal(39900)
    with np.errstate(all="ignore"):
        expected = x.astype(kind)
    same(casts_cpu.to_float(x, np.dtype(kind)), expected)


@pytest.mark.parametrize("target", [np.float32, np.float64])
@pytest.mark.parametrize("source", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_])
def test_numbers(source, target, on_threads):
    x = (random.standard_normal(70007) * 1e9).astype(np.int64).astype(source)
    result = casts_cpu.to_float(x, np.dtype(target))
    if threads.get_num_threads() == 1 or source == target:
        assert result is None  # NumPy does it as quickly
    else:
        same(result, x.astype(target))


def test_as_tensors():
    x = dg.tensor(random.standard_normal((90, 80)).astype(np.float32), requires_grad=True)
    half = x.half()
    assert half.dtype is dg.float16
    half.float().sum().backward()
    assert (x.grad == 1).all()
    assert dg.equal(x.detach().t().bfloat16(), x.detach().bfloat16().t())
