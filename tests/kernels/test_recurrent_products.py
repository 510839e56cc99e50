"""Products with a matrix laid out in panels, against NumPy in float64."""

import numpy as np
import pytest

from dynograd.kernels.build import threads
from dynograd.kernels.recurrent.recurrent_products_numba import as_panels, panels_of, rows_product

SIZES = [
    (1, 1, 1),
    (2, 5, 31),
    (3, 64, 32),
    (7, 300, 33),
    (16, 257, 64),
    (70, 20, 100),
    (130, 3, 65),
    (5, 0, 4),
    (0, 3, 4),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_product_follows_float64(size, transposed, dtype):
    rows, depth, columns = size
    random = np.random.default_rng(1)
    a, matrix = random.normal(size=(rows, depth)).astype(dtype), random.normal(size=(depth, columns)).astype(dtype)
    panels = panels_of(np.ascontiguousarray(matrix.T) if transposed else matrix, transposed)
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    result = rows_product(a, panels, columns)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, a.astype(float) @ matrix.astype(float), rtol=tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_do_not_depend_on_how_many_rows_there_are(dtype):
    random = np.random.default_rng(2)
    a, matrix = random.normal(size=(23, 400)).astype(dtype), random.normal(size=(400, 50)).astype(dtype)
    panels = panels_of(matrix, False)
    whole = rows_product(a, panels, 50)
    for start, stop in ((0, 1), (3, 5), (5, 9), (1, 23), (8, 16)):
        np.testing.assert_array_equal(rows_product(a[start:stop].copy(), panels, 50), whole[start:stop])


@pytest.mark.parametrize("transposed", [False, True])
def test_threads_do_not_change_bits(transposed):
    random = np.random.default_rng(3)
    a, matrix = (random.normal(size=(600, 600)).astype(np.float32) for _ in range(2))
    before = threads.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            threads.set_num_threads(count)
            panels = panels_of(matrix, transposed)
            results.append((panels, rows_product(a, panels, 600)))
    finally:
        threads.set_num_threads(before)
    for element, other in zip(*results, strict=True):
        np.testing.assert_array_equal(element, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("depth", [1, 7, 16, 37, 64])
@pytest.mark.parametrize("columns", [1, 8, 31, 32, 71])
def test_panels_of_a_matrix_and_of_its_transpose_are_the_same(columns, depth, dtype):
    matrix = np.arange(depth * columns, dtype=dtype).reshape(depth, columns)
    panels = panels_of(np.ascontiguousarray(matrix.T), True)
    np.testing.assert_array_equal(panels, panels_of(matrix, False))
    np.testing.assert_array_equal(panels.transpose(1, 0, 2).reshape(depth, -1)[:, :columns], matrix)


@pytest.mark.parametrize(("transposed", "shape"), [(False, (3, 37)), (True, (37, 3))])
def test_panels_are_zero_beyond_the_matrix(transposed, shape):
    panels = np.full_like(panels_of(np.ones(shape), transposed), np.nan)  # as wide as this machine's registers
    as_panels(np.ones(shape), panels, transposed, count=len(panels), work=1)
    line = panels.transpose(1, 0, 2).reshape(3, -1)
    assert (line[:, :37] == 1).all() and not line[:, 37:].any()
    assert line.shape[1] > 37
