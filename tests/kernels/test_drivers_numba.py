"""Kernels called by address, in parts on all threads; registers of processors."""

import ctypes
import os

import numba
import numpy as np
import pytest

from dynograd.kernels.build import drivers_numba, threads
from dynograd.kernels.build.compiling_numba import Chunked, chunked
from dynograd.kernels.build.processors import Processor
from dynograd.kernels.tiles import tile_products_numba, tiles_numba


@chunked(key="test")
def doubled(like, start_value, step, tables, start, stop):
    for item in range(start, stop):
        tables[item] = 2 * tables[item] + start_value + step * like[0]


@chunked(noalias=True)
def normalized(x, scale, y, start, stop):
    """Reassociated sums and a division: code that compiles differently where it is inlined."""
    for r in range(start, stop):
        row, result = x[r], y[r]
        total = np.float32(0)
        for c in range(row.size):
            total += row[c] * row[c]
        for c in range(row.size):
            result[c] = row[c] / total * np.float32(scale) + row[c] / np.float32(3)


_has_the_interpreter = ctypes.CDLL(None).PyGILState_Check
_has_the_interpreter.argtypes, _has_the_interpreter.restype = (), ctypes.c_int


@chunked
def noted(numbers, start, stop):
    """Whether this thread has Python's interpreter, so that no other one runs Python now."""
    for item in range(start, stop):
        numbers[item] = _has_the_interpreter()


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_parts_are_the_whole(dtype, parts):
    tables = np.arange(101)
    doubled(np.ones(1, dtype), 5, 3, tables, count=100, work=0, parts=parts)
    np.testing.assert_array_equal(tables[:100], 2 * np.arange(100) + 8)
    assert tables[100] == 100
    assert repr(doubled) == "<chunked kernel doubled>"


@pytest.mark.parametrize("layout", ["C", "A"])
def test_parts_have_the_bits_of_the_whole(layout):
    """By construction: they are the same machine code."""
    x = np.random.default_rng(0).uniform(0.5, 1, (64, 80)).astype(np.float32)
    x = x if layout == "C" else x[:, ::2]
    serial, parallel = np.empty(x.shape, np.float32), np.empty(x.shape, np.float32)
    normalized(x, 1.5, serial, count=64, work=0)
    normalized(x, 1.5, parallel, count=64, work=0, parts=5)
    np.testing.assert_array_equal(serial, parallel)


def test_the_pool_runs_every_part_once(monkeypatch):
    """Of more parts than threads; the count of items is not a multiple of either."""
    tables, seen = np.arange(103), []
    in_parts = drivers_numba.in_parts
    monkeypatch.setattr(drivers_numba, "in_parts", lambda *numbers: seen.append(numbers) or in_parts(*numbers))
    doubled(np.ones(1, np.float32), 0, 0, tables, count=102, work=0, parts=7)
    np.testing.assert_array_equal(tables[:102], 2 * np.arange(102))
    assert tables[102] == 102
    assert seen == [(7, 2)]


@pytest.mark.parametrize(
    ("options", "has_it"),
    [
        ({"work": 0}, 1),
        ({"work": threads.GRAIN - 1}, 1),
        ({"work": threads.GRAIN}, 0),
        ({"work": 0, "parts": 1}, 0),
    ],
)
def test_other_threads_run_beside_a_kernel_that_takes_a_while(options, has_it):
    numbers = np.full(5, -1)
    noted(numbers, count=4, **options)
    assert numbers.tolist() == [has_it] * 4 + [-1]
    numbers[:] = -1
    noted.serial(numbers, 1, 4)
    assert numbers.tolist() == [-1, 0, 0, 0, -1]


def test_numba_has_what_parts_need():
    """Without it every kernel runs in one part: right, but slow."""
    assert drivers_numba.pool_threads() == min(2, numba.config.NUMBA_NUM_THREADS)
    assert doubled.splits
    assert drivers_numba.in_parts(3, 2) < drivers_numba.AT_ONCE < 0
    starts = {drivers_numba.in_parts(3, 2): 3, drivers_numba.AT_ONCE: 1, 0: 1}
    assert {start: drivers_numba.parts_of(start) for start in starts} == starts


@pytest.mark.parametrize("missing", ["pipeline", "pool"])
def test_runs_in_one_part_without_the_internals(missing, monkeypatch):
    kernel = Chunked(doubled.serial.py_func, noalias=False, exact=False, blas=False, key="test")
    if missing == "pipeline":
        monkeypatch.setattr(kernel, "splits", False)
    else:
        monkeypatch.setattr(drivers_numba, "_most", -1)
    tables = np.arange(10)
    kernel(np.ones(1), 0, 0, tables, count=10, work=0, parts=2)
    np.testing.assert_array_equal(tables, 2 * np.arange(10))


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (Processor("native", "znver4", "+avx,+avx512vl", 32), (32, 32)),
        (Processor("x86-64-v4", "x86-64-v4", "", 32), (32, 32)),
        (Processor("native", "znver5", "+avx,+avx512vl"), (64, 32)),
        (Processor("native", "haswell", "+avx,-avx512vl"), (32, 16)),
        (Processor("native", "apple-m1", "+neon"), (16, 16)),
        (Processor("native", "generic", ""), (16, 16)),
        (Processor("x86-64-v4", "x86-64-v4", ""), (64, 32)),
        (Processor("x86-64-v3", "x86-64-v3", ""), (32, 16)),
        (Processor("arm64", "generic", ""), (16, 16)),
    ],
)
def test_registers_of_processors(target, wanted):
    assert tiles_numba.vector_bytes(target) == wanted


@pytest.mark.parametrize("tiles", [tiles_numba.PRODUCT_TILES, tiles_numba.DOT_TILES])
def test_every_number_of_channels_has_tiles(tiles):
    from dynograd.kernels.conv.convolutions_plans import blocks_of

    for channels in range(1, 70):
        blocks = blocks_of(channels, tuple(tiles))
        assert [begin for begin, _ in blocks] == [sum(height for _, height in blocks[:i]) for i in range(len(blocks))]
        assert sum(height for _, height in blocks) == channels and all(height in tiles for _, height in blocks)


@pytest.mark.parametrize(
    ("variables", "seen"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)],
)
def test_threads_of_the_pool_sleep_soon_unless_the_user_says_otherwise(variables, seen, monkeypatch):
    from numba.np.ufunc import parallel

    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    before, at_launch = dict(os.environ), []
    monkeypatch.setattr(drivers_numba, "_most", 0)
    monkeypatch.setattr(parallel, "_launch_threads", lambda: at_launch.append(os.environ.get("GOMP_SPINCOUNT")))
    drivers_numba.pool_threads()
    assert at_launch == [seen] and dict(os.environ) == before


def test_what_two_threads_make_at_once_stays(monkeypatch):
    """Kernels read these by address: the second thread's would take the place of what the first one's kernel reads."""
    monkeypatch.setattr(drivers_numba, "_orders", {})
    monkeypatch.setattr(tile_products_numba, "_tables", {})
    monkeypatch.setattr(tile_products_numba, "_places", {})
    inner = []

    def beside(function, again):
        """`function`, in the middle of which another thread has come to the same place first."""

        def called(*args):
            if not inner:
                inner.append(0)
                inner[0] = again()
            return function(*args)

        return called

    find = beside(lambda name: 8, lambda: drivers_numba.in_parts(3, 2))
    monkeypatch.setattr(drivers_numba.llvmlite.binding, "address_of_symbol", find)
    assert drivers_numba.in_parts(3, 2) == inner.pop() == drivers_numba.in_parts(3, 2)
    products = tile_products_numba.products32
    again = beside(tile_products_numba.address_of, products.functions)
    monkeypatch.setattr(tile_products_numba, "address_of", again)
    assert products.functions() == inner.pop() == products.functions()
