"""Scatter kernels against element-by-element loops."""

import numpy as np
import pytest

from dynograd.kernels.index import embeddings_cpu, indexing_cpu, scatters_cpu

DTYPES = [np.float64, np.float32, np.float16, np.int64]


def draw(shape, dtype, seed=0):
    values = np.random.default_rng(seed).integers(-4, 5, size=shape)
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES[:3])
@pytest.mark.parametrize(("shape", "width"), [((), 3), ((7,), 5), ((20, 30), 8), ((0,), 4), ((3, 0), 2)])
def test_embedding(shape, width, dtype):
    weight = draw((11, width), dtype)
    indices = np.random.default_rng(1).integers(11, size=shape)
    np.testing.assert_array_equal(embeddings_cpu.embedding_forward(weight, indices), weight[indices])
    g = draw((*shape, width), dtype, 2)
    for padding in (None, 4):
        expected = np.zeros((11, width))
        for place in np.ndindex(shape):
            if indices[place] != padding:
                expected[indices[place]] += g[place]
        result = embeddings_cpu.embedding_backward(g, indices, 11, padding)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, expected)


def test_half_types_add_up_in_float32():
    g = np.ones((5000, 1), np.float16)
    assert embeddings_cpu.embedding_backward(g, np.zeros(5000, np.int64), 1, None)[0, 0] == 5000


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("count", [0, 3, 200])
def test_index_add(count, dim, dtype):
    x = draw((4, 5, 6), dtype)
    kept = x.copy()
    index = np.random.default_rng(1).integers(x.shape[dim], size=count)
    shape = list(x.shape)
    shape[dim] = count
    source = draw(shape, dtype, 2)
    expected = np.moveaxis(x.astype(float), dim, 0)
    for i, place in enumerate(index):
        expected[place] += np.moveaxis(source, dim, 0)[i]
    result = indexing_cpu.index_put_forward(x, source, [index], (*(slice(None),) * (dim % 3), 0), True)
    assert result.dtype == dtype and result.flags.c_contiguous
    np.testing.assert_array_equal(result, np.moveaxis(expected, 0, dim))
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("shape", [(2, 3, 4), (4, 5, 6), (3, 0, 2)])
def test_scatter_add(shape, dim, dtype):
    x = draw((6, 7, 8), dtype)[:, ::-1]
    index = np.random.default_rng(1).integers(6, size=shape)
    source = draw(shape, dtype, 2)
    expected = x.astype(float)
    for place in np.ndindex(shape):
        target = list(place)
        target[dim] = index[place]
        expected[tuple(target)] += source[place]
    np.testing.assert_array_equal(scatters_cpu.scatter_add(x, dim % 3, index, source), expected)


@pytest.mark.parametrize("dtype", [*DTYPES, np.int32])
@pytest.mark.parametrize(
    ("shape", "dim", "count"), [((5, 300), 0, 4), ((5, 100, 3), 1, 70), ((4, 3, 7), 2, 900), ((6,), 0, 40000)]
)
def test_add_slices(shape, dim, count, dtype):
    out = draw(shape, dtype)
    index = np.random.default_rng(1).integers(-shape[dim], shape[dim], size=count)
    src = draw((*shape[:dim], count, *shape[dim + 1 :]), dtype, 2) // 2
    expected = out.astype(float)
    np.add.at(expected, (*(slice(None),) * dim, index), src)
    scatters_cpu.add_slices(out, dim, index, src)
    np.testing.assert_array_equal(out, expected)
