"""Scatter kernels against element-by-element loops."""

import numpy as np
import pytest

from dynograd.kernels import embeddings_cpu

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
        wanted = np.zeros((11, width))
        for place in np.ndindex(shape):
            if indices[place] != padding:
                wanted[indices[place]] += g[place]
        found = embeddings_cpu.embedding_backward(g, indices, 11, padding)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)


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
    wanted = np.moveaxis(x.astype(float), dim, 0)
    for i, place in enumerate(index):
        wanted[place] += np.moveaxis(source, dim, 0)[i]
    found = embeddings_cpu.index_add(x, dim, index, source)
    assert found.dtype == dtype and found.flags.c_contiguous
    np.testing.assert_array_equal(found, np.moveaxis(wanted, 0, dim))
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("shape", [(2, 3, 4), (4, 5, 6), (3, 0, 2)])
def test_scatter_add(shape, dim, dtype):
    x = draw((6, 7, 8), dtype)[:, ::-1]
    index = np.random.default_rng(1).integers(6, size=shape)
    source = draw((9, 9, 9), dtype, 2)
    wanted = x.astype(float)
    for place in np.ndindex(shape):
        target = list(place)
        target[dim] = index[place]
        wanted[tuple(target)] += source[place]
    np.testing.assert_array_equal(embeddings_cpu.scatter_add(x, dim, index, source), wanted)


def test_scatter_add_rows_in_place_on_any_layout():
    for out in (np.zeros((5, 300)), np.zeros((300, 5)).T, np.zeros((5, 100, 3), np.float32)):
        rows = draw((4, *out.shape[1:]), out.dtype)
        assert embeddings_cpu.scatter_add_rows(out, np.array([1, -1, 1, 4]), rows) is out
        np.testing.assert_array_equal(out[1], rows[0] + rows[2])
        np.testing.assert_array_equal(out[4], rows[1] + rows[3])
