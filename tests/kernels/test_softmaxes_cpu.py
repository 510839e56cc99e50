"""Softmax kernels against float64 formulas."""

import numpy as np
import pytest
import scipy.special

from dynograd.kernels.norm import softmaxes_cpu

SHAPES = [((3, 4), 1), ((40, 17), -1), ((17, 40), 0), ((5, 12, 9), 1), ((2000,), 0), ((1, 1), 1), ((300, 1), 1)]
TOLERANCES = {np.float64: 1e-12, np.float32: 1e-5, np.float16: 2e-3}


def close(result, wanted, dtype):
    assert result.dtype == dtype and result.shape == wanted.shape
    np.testing.assert_allclose(result, wanted, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_against_formulas(shape, dim, dtype):
    random = np.random.default_rng(1)
    x, g = (3 * random.normal(size=(2, *shape))).astype(dtype)
    y = softmaxes_cpu.softmax_forward(x, dim)
    close(y, scipy.special.softmax(x.astype(float), axis=dim), dtype)
    exact, wide_g = y.astype(float), g.astype(float)
    close(softmaxes_cpu.softmax_backward(g, y, dim), exact * (wide_g - (exact * wide_g).sum(dim, keepdims=True)), dtype)
    y = softmaxes_cpu.log_softmax_forward(x, dim)
    close(y, scipy.special.log_softmax(x.astype(float), axis=dim), dtype)
    exact = np.exp(y.astype(float)) * wide_g.sum(dim, keepdims=True)
    result = softmaxes_cpu.log_softmax_backward(g, y, dim)
    np.testing.assert_allclose(result, wide_g - exact, rtol=TOLERANCES[dtype], atol=50 * TOLERANCES[dtype])


@pytest.mark.parametrize("columns", [3, 300])
@pytest.mark.parametrize("function", [softmaxes_cpu.softmax_forward, softmaxes_cpu.log_softmax_forward])
def test_masks_infinities_and_nan(function, columns):
    x = np.zeros((6, columns), np.float32)
    x[0] = -np.inf
    x[1, 1] = np.inf
    x[2, 1] = np.nan
    x[3, 1] = -np.float32(np.nan)
    x[4, 1] = -np.inf
    x[5] = 1e4
    y = function(x, 1)
    assert np.isnan(y[[0, 2, 3]]).all() and np.isnan(y[1, 1])
    assert not np.isnan(y[4:]).any()
    logarithm = function is softmaxes_cpu.log_softmax_forward
    assert y[4, 1] == (-np.inf if logarithm else 0)
    np.testing.assert_allclose(y[5], np.full(columns, -np.log(columns) if logarithm else 1 / columns), rtol=1e-5)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_empty(shape):
    x = np.zeros(shape, np.float32)
    for function in (softmaxes_cpu.softmax_forward, softmaxes_cpu.log_softmax_forward):
        assert function(x, 1).shape == shape
    for function in (softmaxes_cpu.softmax_backward, softmaxes_cpu.log_softmax_backward):
        assert function(x, x, 1).shape == shape


def test_strided_input_and_rows_that_underflow():
    x = np.random.default_rng(2).normal(size=(60, 40)).astype(np.float32)
    np.testing.assert_array_equal(
        softmaxes_cpu.softmax_forward(x.T, 1), softmaxes_cpu.softmax_forward(np.ascontiguousarray(x.T), 1)
    )
    y = softmaxes_cpu.softmax_forward(x[:, ::2], 0)
    np.testing.assert_allclose(y.sum(0), np.ones(20), rtol=1e-5)
    x[:, 0] = -1e30
    assert (softmaxes_cpu.softmax_forward(x, 1)[:, 0] == 0).all()
