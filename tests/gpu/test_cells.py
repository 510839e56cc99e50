"""Single recurrent steps, places of packed tokens, cross products and identities on the GPU against their CPU twins."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.arrays.cuda_arrays import from_numpy
from dynograd.kernels.matmul import matrix_products_cpu, matrix_products_cuda
from dynograd.kernels.recurrent import cells_cpu, cells_cuda, recurrent_packing_cpu, recurrent_packing_cuda
from tests.gpu.values import close, numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)
DTYPES = ["float32", "float64", "float16", bfloat16]


def both(name, cpu, cuda, arrays, dtype):
    expected = getattr(cpu, name)(*arrays)
    results = getattr(cuda, name)(*[from_numpy(array, 0) for array in arrays])
    for element, two in zip(results, expected, strict=True):
        assert element.dtype == two.dtype
        close(element, two, dtype)


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (0, 4), (70, 16)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_steps(shape, dtype):
    rows, width = shape
    state, other, four = numbers(0, shape, dtype), numbers(1, shape, dtype), numbers(2, (rows, 4 * width), dtype)
    three, outer = numbers(3, (rows, 3 * width), dtype), numbers(4, (rows, 3 * width), dtype)
    compute = "float64" if dtype == "float64" else "float32"
    both("lstm_step_forward", cells_cpu, cells_cuda, (four, state), dtype)
    active = cells_cpu.lstm_step_forward(four, state)[2]
    assert active.dtype == compute
    both("lstm_step_backward", cells_cpu, cells_cuda, (state, other, active, other, state), dtype)
    both("gru_step_forward", cells_cpu, cells_cuda, (three, outer, state), dtype)
    active = cells_cpu.gru_step_forward(three, outer, state)[1]
    both("gru_step_backward", cells_cpu, cells_cuda, (other, active, outer, state), dtype)


def test_steps_of_strided_arrays():
    gates, cell = numbers(0, (20, 3)).T[:, ::1], numbers(1, (5, 3)).T
    results = cells_cuda.lstm_step_forward(from_numpy(numbers(0, (20, 3)), 0).T, from_numpy(numbers(1, (5, 3)), 0).T)
    for element, two in zip(results, cells_cpu.lstm_step_forward(gates, cell), strict=True):
        close(element, two, "float32")


@pytest.mark.parametrize("lengths", [[5, 3, 3, 1], [4, 0, 0], [], [2]], ids=str)
def test_places_of_packed_tokens(lengths):
    lengths = numpy.array(lengths, "int64")
    on = from_numpy(lengths, 0)
    sizes = recurrent_packing_cpu.sizes_of(lengths)
    numpy.testing.assert_array_equal(recurrent_packing_cuda.sizes_of(on).numpy(), sizes)
    result = recurrent_packing_cuda.lengths_of(from_numpy(sizes, 0)).numpy()
    numpy.testing.assert_array_equal(result, recurrent_packing_cpu.lengths_of(sizes))
    order = recurrent_packing_cpu.longest_first(lengths[::-1])
    result = recurrent_packing_cuda.longest_first(from_numpy(lengths[::-1].copy(), 0)).numpy()
    numpy.testing.assert_array_equal(result, order)
    for ranks in (None, order):
        for batch_first in (False, True):
            argument = (len(sizes), len(lengths), batch_first)
            expected = recurrent_packing_cpu.places(sizes, ranks, *argument)
            on_ranks = None if ranks is None else from_numpy(ranks, 0)
            result = recurrent_packing_cuda.places(from_numpy(sizes, 0), on_ranks, *argument)
            numpy.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("dtype", [*DTYPES, "int64", "int32", "complex64"], ids=str)
@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((4, 3), 1), ((3, 5), 0), ((2, 3, 4), -2), ((0, 3), 1)], ids=str)
def test_cross(shape, dim, dtype):
    kind = numpy.dtype(dtype)
    x, y = ((9 * numbers(seed, shape, "float64")).astype(kind) for seed in (0, 1))
    if kind.kind == "c":
        x, y = x + 1j * y, y - 2j * x
    expected = matrix_products_cpu.cross(x, y, dim)
    result = matrix_products_cuda.cross(from_numpy(x, 0), from_numpy(y, 0), dim)
    assert result.dtype == expected.dtype
    if kind.kind in "ic":
        numpy.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-3)
    else:
        close(result, expected, dtype)


@pytest.mark.parametrize("dtype", ["float32", bfloat16, "int64"], ids=str)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (0, 0)], ids=str)
def test_identity_like_and_scaled(shape, dtype):
    x = (4 * numbers(0, shape, "float64")).astype(dtype)
    result = matrix_products_cuda.identity_like(from_numpy(x, 0))
    numpy.testing.assert_array_equal(result.numpy(), matrix_products_cpu.identity_like(x))
    result = matrix_products_cuda.scaled(from_numpy(x, 0), 2.5)
    expected = matrix_products_cpu.scaled(x, 2.5)
    assert result.dtype == expected.dtype
    numpy.testing.assert_array_equal(result.numpy(), expected)
