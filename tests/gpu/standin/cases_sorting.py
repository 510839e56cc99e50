"""How many launches sorting and selecting take, and the blocks and memory that they ask for, on the stand-in libcuda."""

import ctypes

import pytest

from dynograd import cuda
from dynograd.arrays.cuda_arrays import empty
from dynograd.kernels.sort import sorting_cuda, sorting_radix_simt, sorting_rows_simt, sorting_selection_simt
from tests.support import standin_cuda

assert "Stand-in" in cuda.get_device_name(0), "these cases need the stand-in libcuda: run tests/gpu/test_launching.py"


@pytest.fixture
def launches():
    lib = standin_cuda.control()

    def of(function, *arguments):
        before = lib.standin_calls(b"cuLaunchKernel")
        results = function(*arguments)
        return lib.standin_calls(b"cuLaunchKernel") - before, results

    return of


def last():
    """(grid, threads, shared bytes) of the last launch."""
    out = (ctypes.c_uint64 * 64)()
    standin_cuda.control().standin_last(out)
    return out[0], out[3], out[6]


@pytest.mark.parametrize(
    ("shape", "dtype", "grid", "threads", "shared"),
    [
        ((1000, 8), "float32", 8, 128, 9216), ((1000, 100), "float32", 125, 128, 9216), ((7, 1024), "float32", 7, 128, 9216),
        ((7, 2048), "float16", 7, 256, 18432), ((3, 9216), "float32", 3, 1024, 73728), ((3, 9000), "int64", 3, 1024, 92160),
    ],
)  # fmt: skip
def test_short_rows_are_sorted_by_one_launch(shape, dtype, grid, threads, shared, launches):
    count, (values, index) = launches(sorting_cuda.sort, empty(shape, dtype, 0), 1, False)
    assert (count, values.shape, index.shape) == (1, shape, shape)
    assert last() == (grid, threads, shared)


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((1 << 20,), "float32", 12), ((1 << 20,), "int64", 24), ((1 << 20,), "bfloat16", 6), ((1 << 20,), "uint8", 3),
        ((1 << 16,), "float32", 8), ((100, 20000), "float32", 8),
    ],
)  # fmt: skip
def test_long_rows_take_two_or_three_launches_a_digit(shape, dtype, expected, launches):
    assert launches(sorting_cuda.sort, empty(shape, dtype, 0), len(shape) - 1, True)[0] == expected
    assert last()[1:] == (256, 0)


def test_an_order_looks_at_as_few_digits_as_it_can(launches):
    assert launches(sorting_cuda.order_of, empty((1 << 20,), "int64", 0), 50_000)[0] == 6


@pytest.mark.parametrize(
    ("shape", "k", "ordered", "expected"),
    [
        ((8192, 64), 2, True, 1), ((64, 128_000), 50, True, 2), ((64, 128_000), 50, False, 3), ((1 << 20,), 50, True, 2),
        ((1 << 26,), 50, True, 3), ((1 << 20,), 1000, True, 3),
    ],
)  # fmt: skip
def test_the_first_of_rows(shape, k, ordered, expected, launches):
    count, (values, index) = launches(sorting_cuda.topk, empty(shape, "float32", 0), k, len(shape) - 1, True, ordered)
    assert (count, values.shape, index.dtype) == (expected, (*shape[:-1], k), "int64")


@pytest.mark.parametrize(("size", "expected"), [(100, 2), (30_000, 1), (100_000, 9)])
def test_the_kth_of_rows(size, expected, launches):
    count, (values, _) = launches(sorting_cuda.kth, empty((5, size), "float32", 0), 7, 1, False, 1)
    assert (count, values.shape) == (expected, (5,))


def test_how_many_kernels_were_launched():
    modules = sorting_rows_simt, sorting_radix_simt, sorting_selection_simt
    entries = [
        sorting_radix_simt.radix_starts,
        *[element for module in modules for element, _ in module.kernels_to_check()],
    ]
    result = [
        variant
        for entry in entries
        for launcher in entry.kernel.launchers.values()
        for variant in launcher.found.values()
    ]
    print(f"launched {len(result)} variants of {len(entries)} kernels")
    assert len(result) > 10
