"""Large writes along a dim against NumPy, slice by slice: sizes that no block divides, runs of a few neighbours, any number of threads."""

import numpy as np
import pytest

from dynograd.kernels.build import threads
from dynograd.kernels.index import indexing_cpu, lookups_cpu, scatters_cpu

CASES = [
    ((300, 7, 41), 0),
    ((300, 7, 41), 1),
    ((300, 7, 41), 2),
    ((60001,), 0),
    ((5, 20011), 0),
    ((5, 20011), 1),
    ((20011, 3), 0),
    ((20011, 3), 1),
    ((3, 1, 20000), 1),
    ((9001, 17), 0),
    ((130, 513), 0),
    ((1, 130, 513), 1),
]
JOINS = {"write": lambda kept, new: new, "sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


@pytest.fixture(params=[1, 2])
def num_threads(request):
    before = threads.get_num_threads()
    threads.set_num_threads(request.param)
    yield request.param
    threads.set_num_threads(before)


def put_along(x, dim, index, src, join):
    """One slice of the index after the other, so that the last of several writes stays."""
    created = np.moveaxis(x, dim, 0).copy()
    index, src = np.moveaxis(index, dim, 0), np.moveaxis(src, dim, 0)
    grid = np.ogrid[tuple([slice(size) for size in index.shape[1:]])] if index.ndim > 1 else ()
    for places, values in zip(index, src, strict=True):
        created[(places, *grid)] = JOINS[join](created[(places, *grid)], values)
    return np.moveaxis(created, 0, dim)


def whole_numbers(rng, shape, kind):
    """Sums of these are exact in any order."""
    return rng.integers(-50, 50, shape).astype(kind)


@pytest.mark.parametrize("kind", ["f4", "f8", "i8"])
@pytest.mark.parametrize(("shape", "dim"), CASES, ids=str)
def test_along_a_dim(shape, dim, kind, num_threads):
    rng = np.random.default_rng(0)
    x, src = whole_numbers(rng, shape, kind), whole_numbers(rng, shape, kind)
    index = rng.integers(0, shape[dim], shape)
    assert np.array_equal(scatters_cpu.gather(x, dim, index), np.take_along_axis(x, index, dim))
    assert np.array_equal(scatters_cpu.scatter(x, dim, index, src), put_along(x, dim, index, src, "write"))
    assert np.array_equal(scatters_cpu.scatter_add(x, dim, index, src), put_along(x, dim, index, src, "sum"))
    for name in ("amax", "amin"):
        created = scatters_cpu.scatter_reduce(x, dim, index, src, name, True)
        assert np.array_equal(created, put_along(x, dim, index, src, name))
    signs = np.sign(src) + (src == 0)
    created = scatters_cpu.scatter_reduce(x, dim, index, signs, "prod", True)
    assert np.array_equal(created, put_along(x, dim, index, signs, "prod"))
    turned = x[::-1, ..., ::-1] if x.ndim > 1 else x[::-1]
    assert np.array_equal(scatters_cpu.gather(turned, dim, index), np.take_along_axis(turned, index, dim))
    assert np.array_equal(scatters_cpu.scatter(turned, dim, index, src), put_along(turned, dim, index, src, "write"))


@pytest.mark.parametrize("wrong", [-1, "size"])
@pytest.mark.parametrize(("shape", "dim"), CASES, ids=str)
def test_an_index_outside(shape, dim, wrong, num_threads):
    rng = np.random.default_rng(0)
    x, index = np.zeros(shape, np.float32), rng.integers(0, shape[dim], shape)
    index.reshape(-1)[rng.integers(index.size)] = shape[dim] if wrong == "size" else wrong
    with pytest.raises(IndexError):
        scatters_cpu.gather(x, dim, index)
    with pytest.raises(IndexError):
        scatters_cpu.scatter(x, dim, index, x)
    with pytest.raises(IndexError):
        scatters_cpu.scatter_add(x, dim, index, x)
    with pytest.raises(IndexError):
        scatters_cpu.scatter_reduce(x, dim, index, x, "amax", True)
    with pytest.raises(IndexError):
        scatters_cpu.scatter_reduce(x, dim, index, x, "prod", False)


@pytest.mark.parametrize("kind", ["?", "f2", "f4", "i8", "c8", "c16"])
@pytest.mark.parametrize(("shape", "dim"), CASES, ids=str)
def test_whole_slices(shape, dim, kind, num_threads):
    rng = np.random.default_rng(0)
    index = rng.integers(-shape[dim], shape[dim], shape[dim] + 5)
    key = (*(slice(None),) * dim, index) if dim else index
    x = whole_numbers(rng, shape, kind)
    for src in (whole_numbers(rng, x[key].shape, kind), np.asarray(3, kind)):
        created, expected = x.copy(), x.copy()
        indexing_cpu.write_at(created, key, src)
        expected[key] = src
        assert np.array_equal(created, expected)
    index[-1] = shape[dim]
    with pytest.raises(IndexError, match="out of bounds"):
        indexing_cpu.write_at(x, key, np.asarray(3, kind))


@pytest.mark.parametrize(("shape", "dim"), CASES, ids=str)
def test_slices_are_added(shape, dim, num_threads):
    rng = np.random.default_rng(0)
    for size in (shape[dim], max(shape[dim] // 50, 1)):  # far apart, and all in one corner
        index = rng.integers(-size, size, shape[dim] + 5)
        key = (*(slice(None),) * dim, index)
        created = whole_numbers(rng, shape, "f4")
        expected, src = created.copy(), whole_numbers(rng, created[key].shape, "f4")
        scatters_cpu.add_slices(created, dim, index, src)
        np.add.at(expected, key, src)
        assert np.array_equal(created, expected)
        for wrong in (-shape[dim] - 1, shape[dim]):
            index[-1] = wrong
            with pytest.raises(IndexError):
                scatters_cpu.add_slices(created, dim, index, src)


def test_sums_have_the_same_bits_with_any_number_of_threads():
    rng = np.random.default_rng(0)
    before, created = threads.get_num_threads(), []
    x, src = rng.standard_normal((2, 500, 777)).astype("f4")
    index = rng.integers(0, 500, (500, 777))
    far = rng.integers(0, 1 << 19, 1 << 19)
    long, values = rng.standard_normal((2, 1 << 19)).astype("f4")
    for count in (1, 2, 3):
        threads.set_num_threads(count)
        out = long.copy()
        scatters_cpu.add_slices(out, 0, far, values)
        created.append((scatters_cpu.scatter_add(x, 0, index, src).tobytes(), out.tobytes()))
    threads.set_num_threads(before)
    assert created[0] == created[1] == created[2]


def test_a_source_that_is_written_over():
    """NumPy's way: what is read is what was there before."""
    rng = np.random.default_rng(0)
    index = rng.permutation(70000)
    x = np.arange(70000.0)
    indexing_cpu.write_at(x, index, x)
    assert np.array_equal(x[index], np.arange(70000.0))
    x = np.arange(90000.0).reshape(300, 300)
    index = rng.permutation(300)
    indexing_cpu.write_at(x, (slice(None), index), x)
    assert np.array_equal(x[:, index], np.arange(90000.0).reshape(300, 300))


@pytest.mark.parametrize("shape", [(70, 71), (3001, 3), (5, 1, 1000), (7, 11, 13, 5), (5000, 1), (3, 0)], ids=str)
def test_positions(shape, num_threads):
    rng = np.random.default_rng(0)
    for dense in (0.0, 0.01, 0.6, 1.0):
        mask = rng.random(shape) < dense
        for element in (mask, mask[::-1], mask.T, mask.astype("f4")):
            result = lookups_cpu.nonzero(element)
            assert result.dtype == np.int64
            assert np.array_equal(result, np.argwhere(element))
