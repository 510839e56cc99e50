"""Normalization kernels against float64 formulas, their gradients against finite differences."""

import numpy as np
import pytest

from dynograd.kernels.build import threads
from dynograd.kernels.norm import normalizations_cpu

TOLERANCES = {np.float64: 1e-6, np.float32: 3e-4, np.float16: 3e-2}
EPS = 1e-3


def differences(function, array, delta=1e-5):
    gradient = np.empty_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + delta
        above = function()
        array[index] = kept - delta
        gradient[index] = (above - function()) / (2 * delta)
        array[index] = kept
    return gradient


def layer_norm(x, ndim, weight, bias):
    axes = tuple(range(-ndim, 0))
    normal = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + EPS)
    return normal * (1 if weight is None else weight) + (0 if bias is None else bias)


def batch_norm(x, weight, bias, mean, variance):
    axes, shape = (0, *range(2, x.ndim)), (-1, *(1,) * (x.ndim - 2))
    mean = x.mean(axes) if mean is None else mean
    variance = x.var(axes) if variance is None else variance
    normal = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + EPS)
    return normal * (1 if weight is None else weight.reshape(shape)) + (0 if bias is None else bias.reshape(shape))


def compare(results, wanted, dtype):
    for result, exact in zip(results, wanted, strict=True):
        assert result.shape == exact.shape and result.dtype == dtype
        np.testing.assert_allclose(result, exact, rtol=TOLERANCES[dtype], atol=3 * TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize(("shape", "ndim"), [((3, 4), 1), ((6, 5, 12), 1), ((4, 3, 5, 7), 2), ((300,), 1)])
def test_layer_norm(shape, ndim, affine, dtype):
    random = np.random.default_rng(1)
    x, g = random.normal(1, 2, size=(2, *shape)).astype(dtype).astype(float)
    weight, bias = random.normal(size=(2, *shape[-ndim:])).astype(dtype).astype(float) if affine else (None, None)
    narrow = [None if array is None else array.astype(dtype) for array in (x, weight, bias, g)]
    y, mean, rstd = normalizations_cpu.layer_norm_forward(narrow[0], ndim, narrow[1], narrow[2], EPS)
    compare([y], [layer_norm(x, ndim, weight, bias)], dtype)
    axes = tuple(range(-ndim, 0))
    np.testing.assert_allclose(mean, x.mean(axes, keepdims=True), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rstd, 1 / np.sqrt(x.var(axes, keepdims=True) + EPS), rtol=1e-4)

    scale, shift = (np.ones(shape[-ndim:]), np.zeros(shape[-ndim:])) if weight is None else (weight, bias)

    def loss():
        return (g * layer_norm(x, ndim, scale, shift)).sum()

    result = normalizations_cpu.layer_norm_backward(narrow[3], narrow[0], mean, rstd, narrow[1], ndim)
    compare(result, [differences(loss, array) for array in (x, scale, shift)], dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (100, 3), (4, 3, 5), (6, 3, 4, 5), (2, 2, 2, 3, 2)])
def test_batch_norm(shape, training, affine, dtype):
    random = np.random.default_rng(2)
    x, g = random.normal(1, 2, size=(2, *shape)).astype(dtype).astype(float)
    weight, bias = random.normal(size=(2, shape[1])).astype(dtype).astype(float) if affine else (None, None)
    running = random.uniform(0.5, 2, size=(2, shape[1])).astype(np.float32).astype(float)
    mean, variance = (None, None) if training else running
    narrow = [None if array is None else array.astype(dtype) for array in (x, weight, bias, g)]
    y, *statistics = normalizations_cpu.batch_norm_forward(*narrow[:3], *running, training, 0.1, EPS)
    compare([y], [batch_norm(x, weight, bias, mean, variance)], dtype)
    axes = (0, *range(2, x.ndim))
    biased = x.var(axes) if training else variance
    expected = [
        x.mean(axes) if training else mean,
        1 / np.sqrt(biased + EPS),
        x.var(axes, ddof=1) if training else biased,
    ]
    for result, exact in zip(statistics, expected, strict=True):
        np.testing.assert_allclose(result, exact, rtol=1e-4, atol=1e-5)

    scale, shift = (np.ones(shape[1]), np.zeros(shape[1])) if weight is None else (weight, bias)

    def loss():
        return (g * batch_norm(x, scale, shift, mean, variance)).sum()

    result = normalizations_cpu.batch_norm_backward(narrow[3], narrow[0], narrow[1], *statistics[:2], training)
    compare(result, [differences(loss, array) for array in (x, scale, shift)], dtype)


def test_far_from_zero():
    """Two passes: the variance does not vanish beside a large mean."""
    x = (1e4 + np.random.default_rng(3).normal(size=(32, 64, 8))).astype(np.float32)
    last = np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)
    for y in (
        normalizations_cpu.layer_norm_forward(x, 2, None, None, 0.0)[0],
        normalizations_cpu.batch_norm_forward(x, None, None, None, None, True, 0.1, 0.0)[0].transpose(1, 0, 2),
        normalizations_cpu.batch_norm_forward(last, None, None, None, None, True, 0.1, 0.0)[0].transpose(1, 0, 2),
    ):
        np.testing.assert_allclose(y.reshape(len(y), -1).std(axis=1), np.ones(len(y)), rtol=1e-3)


@pytest.mark.parametrize("columns", [3, 300])
def test_nan_stays_in_its_row_and_channel(columns):
    x = np.random.default_rng(4).normal(size=(4, 2, columns)).astype(np.float32)
    x[1, 0, 1] = np.nan
    y = normalizations_cpu.layer_norm_forward(x, 1, None, None, EPS)[0]
    assert np.isnan(y[1, 0]).all() and np.isnan(y).sum() == columns
    y = normalizations_cpu.batch_norm_forward(x, None, None, None, None, True, 0.1, EPS)[0]
    assert np.isnan(y[:, 0]).all() and not np.isnan(y[:, 1]).any()


def test_strided_and_empty():
    x = np.random.default_rng(5).normal(size=(6, 40, 5)).astype(np.float32).transpose(2, 1, 0)
    for a, b in zip(
        normalizations_cpu.batch_norm_forward(x, None, None, None, None, True, 0.1, EPS),
        normalizations_cpu.batch_norm_forward(np.ascontiguousarray(x), None, None, None, None, True, 0.1, EPS),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    empty = np.zeros((0, 4, 3), np.float32)
    y, mean, rstd = normalizations_cpu.layer_norm_forward(empty, 1, None, None, EPS)
    assert y.shape == empty.shape and mean.shape == (0, 4, 1)
    assert normalizations_cpu.layer_norm_backward(y, empty, mean, rstd, None, 1)[1].tolist() == [0, 0, 0]
    y, mean, rstd, _ = normalizations_cpu.batch_norm_forward(empty, None, None, None, None, True, 0.1, EPS)
    assert normalizations_cpu.batch_norm_backward(y, empty, None, mean, rstd, True)[0].shape == empty.shape


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("shape", "groups"), [((2, 4), 2), ((3, 6, 5), 3), ((2, 4, 3, 4), 4), ((2, 8, 70, 2), 1)])
def test_group_norm(shape, groups, affine, dtype):
    random = np.random.default_rng(6)
    x, g = random.normal(1, 2, size=(2, *shape)).astype(dtype).astype(float)
    weight, bias = random.normal(size=(2, shape[1])).astype(dtype).astype(float) if affine else (None, None)
    narrow = [None if array is None else array.astype(dtype) for array in (x, weight, bias, g)]
    along = (-1, *(1,) * (len(shape) - 2))
    scale, shift = (np.ones(shape[1]), np.zeros(shape[1])) if weight is None else (weight, bias)

    def exact():
        rows = x.reshape(shape[0] * groups, -1)
        normal = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + EPS)
        return normal.reshape(shape) * scale.reshape(along) + shift.reshape(along)

    y, mean, rstd = normalizations_cpu.group_norm_forward(narrow[0], groups, narrow[1], narrow[2], EPS)
    compare([y], [exact()], dtype)
    result = normalizations_cpu.group_norm_backward(narrow[3], narrow[0], mean, rstd, narrow[1], groups)
    if x.size < 200:
        compare(result, [differences(lambda: (g * exact()).sum(), array) for array in (x, scale, shift)], dtype)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape", [(4, 3, 5, 6), (16, 8, 4, 4), (2, 200, 3, 3), (5, 24, 40, 41), (2, 300, 13, 13)])
def test_channels_last_memory(shape, training):
    """Channels beside each other in memory: the same numbers, in the same order."""
    random = np.random.default_rng(7)
    x, g = random.normal(1, 2, size=(2, *shape)).astype(np.float32)
    weight, bias, mean, variance = random.uniform(0.5, 1, size=(4, shape[1])).astype(np.float32)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    results = []
    for array in (x, last):
        y, *statistics = normalizations_cpu.batch_norm_forward(array, weight, bias, mean, variance, training, 0.1, EPS)
        gradients = normalizations_cpu.batch_norm_backward(g, array, weight, *statistics[:2], training)
        assert y.strides == array.strides == gradients[0].strides
        results.append((y, *statistics, *gradients))
    for element, other in zip(*results, strict=True):
        np.testing.assert_allclose(element, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape", [(64, 16, 20, 20), (20000, 16), (3, 12, 5000)])
def test_parts_change_no_bits(shape, last):
    random = np.random.default_rng(8)
    x, g = random.normal(size=(2, *shape)).astype(np.float32)
    if last:
        x, g = (np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1) for array in (x, g))
    before, outcomes = threads.get_num_threads(), []
    for count in (1, 2):
        threads.set_num_threads(count)
        results = normalizations_cpu.batch_norm_forward(x, None, None, None, None, True, 0.1, EPS)
        results += normalizations_cpu.batch_norm_backward(g, x, None, *results[1:3], True)
        y, mean, rstd = normalizations_cpu.group_norm_forward(x, 4, None, None, EPS)
        outcomes.append((*results, y, *normalizations_cpu.group_norm_backward(g, x, mean, rstd, None, 4)))
    threads.set_num_threads(before)
    for element, other in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(element, other)


def test_evaluation_and_groups_do_not_feel_batch_neighbours():
    random = np.random.default_rng(9)
    for shape in ((50, 6, 9, 9), (50, 80)):  # an example alone is no fewer elements than compiled kernels take
        x = random.normal(size=shape).astype(np.float32)
        mean, variance = random.uniform(0.5, 1, size=(2, shape[1])).astype(np.float32)
        whole = normalizations_cpu.batch_norm_forward(x, None, None, mean, variance, False, 0.1, EPS)[0]
        alone = normalizations_cpu.batch_norm_forward(x[7:8], None, None, mean, variance, False, 0.1, EPS)[0]
        np.testing.assert_array_equal(whole[7:8], alone)
        whole, alone = (
            normalizations_cpu.group_norm_forward(element, 2, None, None, EPS)[0] for element in (x, x[7:8])
        )
        np.testing.assert_array_equal(whole[7:8], alone)
