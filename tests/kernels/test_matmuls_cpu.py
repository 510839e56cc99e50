"""Matrix products in blocks: layouts, batches, cuts, and independence of all of these."""

import numpy
import pytest

from dynograd.kernels.build import blas, threads
from dynograd.kernels.build.addresses_numba import address, handle
from dynograd.kernels.build.batch_invariance import use_batch_invariant
from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.matmul import matmuls_cpu

FLOATS = ("float32", "float64")


def drawn(*shape, kind="float32", seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(kind)


def close(result, one, two):
    expected = numpy.matmul(one.astype("float64"), two.astype("float64"))
    assert result.shape == expected.shape
    assert result.dtype == one.dtype
    rounding = 1e-6 if one.dtype == numpy.float32 else 1e-14
    assert numpy.allclose(result, expected, atol=4 * rounding * (one.shape[-1] + 1), rtol=0)


def laid_out(how, rows, columns, kind):
    """A matrix whose rows, columns or neither lie in one piece."""
    if how == "transposed":
        return drawn(columns, rows, kind=kind).T
    if how == "part":
        return drawn(rows, columns + 5, kind=kind)[:, 2 : columns + 2]
    if how == "strided":
        return drawn(rows, 2 * columns, kind=kind)[:, ::2]
    if how == "repeated":
        return numpy.broadcast_to(drawn(1, columns, kind=kind), (rows, columns))
    return drawn(rows, columns, kind=kind)


LAYOUTS = ("plain", "transposed", "part", "strided", "repeated")
# Around the sizes of tiles (12 rows, 32 columns), of blocks (256 steps, 384 rows, 1024 columns), and vectors.
SIZES = [
    (129, 300, 97),
    (13, 700, 64),
    (400, 520, 33),
    (50, 64, 1100),
    (12, 260, 16),
    (1, 300, 130),
    (200, 300, 1),
    (1, 20000, 1),
]


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_matrices_in_any_layout(size, kind):
    m, k, n = size
    for left in LAYOUTS:
        for right in LAYOUTS:
            element, two = laid_out(left, m, k, kind), laid_out(right, k, n, kind)
            close(matmuls_cpu._product(element, two, None), element, two)


BATCHES = {
    "heads": lambda: (drawn(2, 90, 3, 64).transpose(0, 2, 1, 3), drawn(2, 90, 3, 64).transpose(0, 2, 3, 1)),
    "broadcast-left": lambda: (drawn(1, 3, 90, 70), drawn(4, 1, 70, 60)),
    "no-batch-right": lambda: (drawn(5, 2, 90, 70).transpose(1, 0, 2, 3), drawn(70, 60)),
    "uneven": lambda: (drawn(2, 3, 4, 50, 60).transpose(2, 1, 0, 3, 4), drawn(3, 1, 60, 70)),
    "many-small": lambda: (drawn(300, 16, 16), drawn(300, 16, 16)),
    "rows": lambda: (drawn(7, 1, 900), drawn(7, 900, 200)),
    "rows-transposed": lambda: (drawn(7, 1, 900), drawn(7, 200, 900).swapaxes(1, 2)),
    "columns": lambda: (drawn(7, 200, 900), drawn(7, 900, 1)),
    "vector-left": lambda: (drawn(900), drawn(3, 900, 200)),
    "vector-right": lambda: (drawn(3, 200, 900), drawn(900)),
    "vectors": lambda: (drawn(20000), drawn(20000, seed=1)),
    "no-rows": lambda: (drawn(0, 300), drawn(300, 400)),
    "no-inner": lambda: (drawn(3, 90, 0), drawn(3, 0, 100)),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches(name):
    element, two = BATCHES[name]()
    close(matmuls_cpu.matmul_forward(element, two), element, two)


@pytest.mark.parametrize("shape", [(150,), (1,), (1, 150), (300, 1), (300, 150)], ids=str)
def test_a_product_begins_with_what_it_is_added_to(shape):
    element, two, begin = drawn(300, 200), drawn(200, 150), drawn(*shape, seed=2)
    result = matmuls_cpu._product(element, two, begin)
    assert numpy.allclose(result, element.astype("float64") @ two + begin, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 100, 200), (300, 200), (200,), (1, 200), (0, 200)], ids=str)
def test_linear_adds_the_bias(shape):
    x, weight, bias = drawn(*shape), drawn(150, 200), drawn(150)
    result = matmuls_cpu.linear_forward(x, weight, bias)
    assert result.shape == (*shape[:-1], 150)
    assert numpy.allclose(result, x.astype("float64") @ weight.T + bias, atol=1e-4)


@pytest.mark.parametrize("features", [1, 255, 300, 2100])
@pytest.mark.parametrize(
    "bias", [(slice(None),), (slice(0, 1),), (slice(None, None, -1),)], ids=["each", "all", "backwards"]
)
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
def test_a_row_begins_with_the_bias(features, bias, columns):
    x, weight, bias = drawn(1, 203), drawn(features, 203), drawn(features)[bias]
    result = matmuls_cpu.linear_forward(x, numpy.asfortranarray(weight) if columns else weight, bias)
    assert numpy.allclose(result, x.astype("float64") @ weight.T + bias, atol=1e-4)


@pytest.mark.parametrize("size", [(300, 200, 150), (30, 900, 500), (1, 900, 700), (700, 900, 1)], ids=str)
def test_any_number_of_threads_gives_the_same_bits(size):
    m, k, n = size
    element, two = drawn(m, k), drawn(k, n)
    before = threads.get_num_threads()
    try:
        result = []
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            result.append(matmuls_cpu.matmul_forward(element, two))
    finally:
        threads.set_num_threads(before)
    assert (result[0] == result[1]).all()
    assert (result[0] == result[2]).all()


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("inner", [5, 64, 300])
def test_rows_do_not_depend_on_their_batch(kind, inner):
    x, weight, bias = drawn(130, inner, kind=kind), drawn(45, inner, kind=kind), drawn(45, kind=kind)
    with use_batch_invariant(True):
        alone = [matmuls_cpu.linear_forward(x[i : i + 1].copy(), weight, bias)[0] for i in range(130)]
        for rows in (1, 2, 3, 7, 16, 33, 130):
            assert (matmuls_cpu.linear_forward(x[:rows], weight, bias) == alone[:rows]).all()
            assert (matmuls_cpu.linear_forward(x[:rows].T.copy().T, weight, bias) == alone[:rows]).all()


def test_infinities_and_nan_come_through():
    element, two = drawn(100, 100), drawn(100, 100)
    element[3, 4], element[5, 6] = numpy.nan, numpy.inf
    result = matmuls_cpu._product(element, two, None)
    assert numpy.isnan(result[3]).all()
    assert numpy.isinf(result[5]).all()
    assert numpy.isfinite(numpy.delete(result, [3, 5], 0)).all()


def test_the_users_number_of_blas_threads_stays():
    known = blas.library()
    if known is None or known.get_threads is None:
        pytest.skip("NumPy's BLAS does not tell its number of threads")
    before = known.get_threads()
    matmuls_cpu.matmul_forward(drawn(200, 200), drawn(200, 200))
    assert known.get_threads() == before


def test_a_handle_leads_to_the_data():
    argument = numpy.arange(6.0)[::2]

    @compiled(key="test_a_handle_leads_to_the_data 1")
    def look(one):
        return address(one)

    assert look(handle(argument)) == argument.ctypes.data
