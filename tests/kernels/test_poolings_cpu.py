"""Pooling kernels against loops over every window."""

import itertools

import numpy as np
import pytest

from dynograd.kernels.image import poolings_cpu

SHAPES = [(2, 3, 11), (2, 7, 8), (2, 1, 5, 6, 7)]


def windows(sizes, kernel, stride, padding, dilation, ceil_mode):
    """For each output place, the list of input places of its window, outside ones included."""
    counts = [
        poolings_cpu.pooled_size(*dimension, ceil_mode)
        for dimension in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]
    for place in itertools.product(*map(range, counts)):
        ranges = [
            [o * s - p + d * tap for tap in range(k)]
            for o, k, s, p, d in zip(place, kernel, stride, padding, dilation, strict=True)
        ]
        yield place, list(itertools.product(*ranges))


def inside(place, sizes):
    return all(0 <= i < size for i, size in zip(place, sizes, strict=True))


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"), [(2, 2, 0, 1), (3, 2, 1, 1), (2, 3, 1, 2), (3, 1, 1, 2), (2, 4, 0, 1)]
)
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_max_pool(spatial, kernel, stride, padding, dilation, ceil_mode):
    random = np.random.default_rng(1)
    x = random.integers(0, 5, size=SHAPES[spatial - 1]).astype(np.float32)
    sizes = x.shape[-spatial:]
    options = [(value,) * spatial for value in (kernel, stride, padding, dilation)]
    values, indices = poolings_cpu.max_pool_forward(x, *options, ceil_mode)
    g = random.normal(size=values.shape).astype(np.float32)
    gx = np.zeros(x.shape)
    for place, window in windows(sizes, *options, ceil_mode):
        window = [source for source in window if inside(source, sizes)]
        for leading in np.ndindex(x.shape[:-spatial]):
            numbers = [x[leading + source] for source in window]
            best = window[int(np.argmax(numbers))]
            assert values[leading + place] == max(numbers)
            assert indices[leading + place] == np.ravel_multi_index(best, sizes)
            gx[leading + best] += g[leading + place]
    np.testing.assert_allclose(poolings_cpu.max_pool_backward(g, indices, x.shape, spatial), gx, rtol=1e-5, atol=1e-6)


def test_output_size_is_that_of_pytorch():
    cases = {(7, 2, 2, 0, 1, False): 3, (7, 2, 2, 0, 1, True): 4, (5, 2, 3, 1, 1, True): 2, (6, 3, 3, 1, 1, True): 3}
    for case, expected in cases.items():
        assert poolings_cpu.pooled_size(*case) == expected


@pytest.mark.parametrize("kernel", [2, 3])
def test_nan_wins_and_the_last_one_is_named(kernel):
    x = np.zeros((1, 6, 6))
    x[0, 0, 1] = x[0, 1, 0] = np.nan
    x[0, 3, 3] = -np.inf
    values, indices = poolings_cpu.max_pool_forward(x, (kernel,) * 2, (kernel,) * 2, (0, 0), (1, 1), False)
    assert np.isnan(values[0, 0, 0]) and indices[0, 0, 0] == 6
    assert not np.isnan(values[0, 1:]).any()
    assert poolings_cpu.max_pool_forward(np.full((1, 4), -np.inf), (2,), (2,), (0,), (1,), False)[1].tolist() == [
        [0, 2]
    ]


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float16, np.float64])
@pytest.mark.parametrize("kernel", [2, 3])
def test_max_pool_of_other_types_and_layouts(kernel, dtype):
    x = np.random.default_rng(2).integers(0, 100, size=(6, 8, 2)).astype(dtype).T
    options = (kernel,) * 2, (2, 2), (1, 1), (1, 1), False
    values, indices = poolings_cpu.max_pool_forward(x, *options)
    wide_values, wide_indices = poolings_cpu.max_pool_forward(x.astype(np.float32), *options)
    assert values.dtype == dtype
    np.testing.assert_array_equal(values, wide_values)
    np.testing.assert_array_equal(indices, wide_indices)


@pytest.mark.parametrize(("include", "divisor"), [(True, None), (False, None), (True, 5)])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (2, 3, 1), (3, 1, 1)])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_avg_pool(spatial, kernel, stride, padding, ceil_mode, include, divisor):
    random = np.random.default_rng(3)
    x = random.normal(size=SHAPES[spatial - 1])
    sizes = x.shape[-spatial:]
    options = [(value,) * spatial for value in (kernel, stride, padding)]
    result = poolings_cpu.avg_pool_forward(x, *options, ceil_mode, include, divisor)
    g = random.normal(size=result.shape)
    gx = np.zeros(x.shape)
    for place, window in windows(sizes, *options, (1,) * spatial, ceil_mode):
        real = [source for source in window if inside(source, sizes)]
        padded = [
            source for source in window if inside([i + padding for i in source], [s + 2 * padding for s in sizes])
        ]
        count = divisor or len(padded if include else real)
        total = sum(x[(..., *source)] for source in real)
        np.testing.assert_allclose(result[(..., *place)], total / count, rtol=1e-12)
        for source in real:
            gx[(..., *source)] += g[(..., *place)] / count
    backward = poolings_cpu.avg_pool_backward(g, x.shape, *options, ceil_mode, include, divisor)
    np.testing.assert_allclose(backward, gx, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_adaptive(spatial, count):
    random = np.random.default_rng(4)
    x = random.normal(size=SHAPES[spatial - 1])
    sizes, output = x.shape[-spatial:], (count,) * spatial
    means = poolings_cpu.adaptive_avg_pool_forward(x, output)
    values, indices = poolings_cpu.adaptive_max_pool_forward(x, output)
    g = random.normal(size=means.shape)
    gx = np.zeros(x.shape)
    for place in itertools.product(range(count), repeat=spatial):
        ranges = [
            slice(i * size // count, int(np.ceil((i + 1) * size / count))) for i, size in zip(place, sizes, strict=True)
        ]
        window = x[(..., *ranges)].reshape(*x.shape[:-spatial], -1)
        np.testing.assert_allclose(means[(..., *place)], window.mean(-1), rtol=1e-12)
        np.testing.assert_array_equal(values[(..., *place)], window.max(-1))
        gx[(..., *ranges)] += (g[(..., *place)] / window.shape[-1])[(..., *(None,) * spatial)]
    np.testing.assert_array_equal(
        np.take_along_axis(x.reshape(*x.shape[:-spatial], -1), indices.reshape(*x.shape[:-spatial], -1), -1),
        values.reshape(*x.shape[:-spatial], -1),
    )
    np.testing.assert_allclose(poolings_cpu.adaptive_avg_pool_backward(g, x.shape, output), gx, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_gradient_of_one_window_is_a_view(kind):
    """So that what reads it next chooses the order of memory."""
    g = np.arange(6, dtype=kind).reshape(2, 3, 1, 1)
    gx = poolings_cpu.adaptive_avg_pool_backward(g, (2, 3, 4, 5), (1, 1))
    assert gx.strides[2:] == (0, 0) and gx.dtype == kind
    np.testing.assert_allclose(gx, np.broadcast_to(g.astype(float) / 20, gx.shape), rtol=1e-3)


def test_unpool_undoes_max_pool():
    x = np.random.default_rng(5).normal(size=(2, 3, 4, 6)).astype(np.float32)
    values, indices = poolings_cpu.max_pool_forward(x, (2, 2), (2, 2), (0, 0), (1, 1), False)
    back = poolings_cpu.max_unpool_forward(values, indices, (4, 6))
    np.testing.assert_array_equal(back[back != 0], x[back != 0])
    assert (back != 0).sum() == values.size
    np.testing.assert_array_equal(poolings_cpu.max_pool_backward(values, indices, x.shape, 2), back)


def test_empty_batch_and_half_averages():
    empty = np.zeros((0, 3, 6, 6), np.float32)
    options = (2, 2), (2, 2), (0, 0)
    values, indices = poolings_cpu.max_pool_forward(empty, *options, (1, 1), False)
    assert values.shape == indices.shape == (0, 3, 3, 3)
    assert poolings_cpu.max_pool_backward(values, indices, empty.shape, 2).shape == empty.shape
    assert poolings_cpu.avg_pool_forward(empty, *options, False, True, None).shape == (0, 3, 3, 3)
    assert poolings_cpu.avg_pool_backward(values, empty.shape, *options, False, True, None).shape == empty.shape
    assert poolings_cpu.adaptive_avg_pool_forward(empty, (1, 1)).shape == (0, 3, 1, 1)
    ones = np.ones((1, 64, 64), np.float16) * 100
    assert poolings_cpu.avg_pool_forward(ones, (64, 64), (64, 64), (0, 0), False, True, None) == 100
    assert poolings_cpu.adaptive_avg_pool_forward(ones, (1, 1)).dtype == np.float16


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 5), (5, 1), (2, 2), (3, 7)])
def test_windows_that_lie_in_the_padding_alone_stay_inside(sizes, last):
    """Taps 2 or 3 apart step over a short side: there is nothing to take, and the place that the backward pass writes to exists."""
    x = np.ones((2, *sizes, 3), np.float32).transpose(0, 3, 1, 2) if last else np.ones((2, 3, *sizes), np.float32)
    apart = tuple(min(size, 2) + 1 for size in sizes)
    values, places = poolings_cpu.max_pool_places(x, (2, 2), (1, 1), (1, 1), apart, True)
    assert places.min() >= 0 and places.max() < sizes[0] * sizes[1]
    assert set(np.unique(values)) <= {-np.inf, 1}
    poolings_cpu.max_pool_backward(np.ones_like(values), places, x.shape, 2)
