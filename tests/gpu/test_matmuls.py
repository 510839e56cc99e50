"""Matrix products on the GPU against those of NumPy in float64."""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy
import pytest

from dynograd.arrays.cuda_arrays import CudaArray, empty, from_numpy
from dynograd.cuda import driver
from dynograd.kernels.build import batch_invariance, precision
from dynograd.kernels.matmul import matmul_tiles, matmuls_cuda
from dynograd.kernels.matmul import matmuls_triton as device
from tests.gpu.values import close, numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)


def strided(array: numpy.ndarray, how: str) -> CudaArray:
    """The values on the device, laid out as `how` says."""
    if how == "transposed":
        return from_numpy(numpy.ascontiguousarray(array.swapaxes(-1, -2)), 0).swapaxes(-1, -2)
    if how == "sliced":
        wide = numpy.zeros((*array.shape[:-1], array.shape[-1] + 3), array.dtype)
        wide[..., 1:-2] = array
        return from_numpy(wide, 0)[..., 1:-2]
    if how == "every other":
        wide = numpy.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return from_numpy(wide, 0)[..., ::2]
    return from_numpy(array, 0)


SHAPES = [
    ((5, 7), (7, 6)),
    ((33, 40), (40, 70)),
    ((1, 9), (9, 5)),
    ((6, 9), (9, 1)),
    ((9,), (9, 5)),
    ((6, 9), (9,)),
    ((9,), (9,)),
    ((2, 3, 5, 8), (2, 3, 8, 4)),
    ((3, 5, 8), (8, 4)),
    ((2, 1, 5, 8), (3, 8, 4)),
    ((5, 8), (3, 8, 4)),
    ((3, 1, 2, 4, 8), (1, 2, 2, 8, 3)),
    ((3, 8), (2, 8, 1)),
    ((2, 1, 8), (2, 8, 6)),
    ((0, 8), (8, 4)),
    ((3, 0), (0, 4)),
    ((2, 0, 3, 4), (4, 5)),
    ((1, 3000), (3000, 2)),
]


@pytest.mark.parametrize(("one", "two"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", bfloat16], ids=str)
def test_matmul(one, two, dtype):
    x, y = numbers(0, one, dtype), numbers(1, two, dtype)
    out = matmuls_cuda.matmul_forward(from_numpy(x, 0), from_numpy(y, 0))
    assert out.dtype == x.dtype
    close(out, numpy.matmul(x.astype("float64"), y.astype("float64")), dtype)


@pytest.mark.parametrize("how_y", ["plain", "transposed", "sliced", "every other"])
@pytest.mark.parametrize("how_x", ["plain", "transposed", "sliced", "every other"])
@pytest.mark.parametrize("shapes", [((2, 24, 40), (2, 40, 16)), ((1, 40), (40, 9)), ((9, 40), (40, 1))], ids=str)
def test_operands_are_read_where_they_lie(shapes, how_x, how_y):
    x, y = numbers(0, shapes[0], "float16"), numbers(1, shapes[1], "float16")
    out = matmuls_cuda.matmul_forward(strided(x, how_x), strided(y, how_y))
    close(out, numpy.matmul(x.astype("float64"), y.astype("float64")), "float16")


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int8", "int16", "bool"])
@pytest.mark.parametrize(
    ("one", "two"), [((5, 20), (20, 6)), ((2, 3, 4), (4, 5)), ((7,), (7,)), ((3, 0), (0, 2))], ids=str
)
def test_integers_wrap_and_truths_stay_truths(one, two, dtype):
    random = numpy.random.default_rng(2)
    x, y = ((random.integers(0, 120, shape) * (random.random(shape) < 0.3)).astype(dtype) for shape in (one, two))
    out = matmuls_cuda.matmul_forward(from_numpy(x, 0), from_numpy(y, 0))
    assert out.dtype == x.dtype
    numpy.testing.assert_array_equal(out.numpy(), numpy.matmul(x, y))


def test_complex_numbers():
    x = (numbers(0, (3, 5), "float64") + 1j * numbers(1, (3, 5), "float64")).astype("complex64")
    y = (numbers(2, (5, 4), "float64") + 1j * numbers(3, (5, 4), "float64")).astype("complex64")
    out = matmuls_cuda.matmul_forward(from_numpy(x, 0), from_numpy(y, 0))
    numpy.testing.assert_allclose(out.numpy(), x @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", bfloat16], ids=str)
@pytest.mark.parametrize("bias", [None, (6,), (1,), (), (4, 6)], ids=str)
@pytest.mark.parametrize("lead", [(4,), (1,), (), (2, 4)], ids=str)
def test_linear(lead, bias, dtype):
    x, w = numbers(0, (*lead, 9), dtype), numbers(1, (6, 9), dtype)
    b = None if bias is None else numbers(2, bias, dtype)
    out = matmuls_cuda.linear_forward(from_numpy(x, 0), from_numpy(w, 0), None if b is None else from_numpy(b, 0))
    expected = x.astype("float64") @ w.astype("float64").T + (0 if b is None else b.astype("float64"))
    close(out, expected, dtype)


def test_linear_with_a_vector_as_weight():
    x, w, b = numbers(0, (2, 3, 9), "float32"), numbers(1, (9,), "float32"), numbers(2, (), "float32")
    out = matmuls_cuda.linear_forward(*[from_numpy(tensor, 0) for tensor in (x, w, b)])
    close(out, x.astype("float64") @ w + b, "float32")


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_activation_in_the_same_kernel(activation, rows):
    from math import erf

    x, w, b = numbers(0, (rows, 9), "float32"), numbers(1, (6, 9), "float32"), numbers(2, (6,), "float32")
    out = matmuls_cuda.linear_activation_forward(*[from_numpy(tensor, 0) for tensor in (x, w, b)], activation)
    z = x.astype("float64") @ w.T + b
    formulas = {
        "relu": lambda z: numpy.maximum(z, 0),
        "gelu": lambda z: 0.5 * z * (1 + numpy.vectorize(erf)(z / 2**0.5)),
        "silu": lambda z: z / (1 + numpy.exp(-z)),
    }
    close(out, formulas[activation](z), "float32")


def test_nothing_of_the_memory_beside_an_operand_is_multiplied():
    x = numpy.full((20, 40), numpy.nan, "float32")
    x[3:9, 5:14] = numbers(0, (6, 9), "float32")
    y = numpy.full((30, 30), numpy.inf, "float32")
    y[2:11, 4:11] = numbers(1, (9, 7), "float32")
    out = matmuls_cuda.matmul_forward(from_numpy(x, 0)[3:9, 5:14], from_numpy(y, 0)[2:11, 4:11])
    close(out, x[3:9, 5:14].astype("float64") @ y[2:11, 4:11], "float32")


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_long_inner_dims_are_cut_in_parts_and_added_in_order(dtype, bias):
    x, y, b = numbers(0, (9, 700), dtype), numbers(1, (700, 8), dtype), numbers(2, (8,), dtype)
    argument = [from_numpy(tensor, 0) for tensor in (x, y, b)]
    out = matmuls_cuda.multiply(argument[0], argument[1], argument[2] if bias else None, "relu" if bias else "")
    expected = x.astype("float64") @ y.astype("float64") + (b.astype("float64") if bias else 0)
    close(out, numpy.maximum(expected, 0) if bias else expected, dtype)


def test_parts_are_used_where_few_tiles_meet_a_long_inner_dim():
    assert matmul_tiles.splits_of(1, 4096, 64, 132) == 16
    assert matmul_tiles.splits_of(66, 4096, 64, 132) == 2
    assert matmul_tiles.splits_of(100, 4096, 64, 132) == 1
    assert matmul_tiles.splits_of(1, 100, 64, 132) == 1


@pytest.mark.parametrize(
    ("kind", "shape", "wanted"),
    [
        ("half", (1, 8192, 8192, 8192), (128, 256)),
        ("half", (1, 16, 4096, 4096), (64, 256)),
        ("single", (1, 4096, 4096, 4096), (128, 128)),
        ("half", (64, 64, 64, 64), (64, 64)),
    ],
)
def test_tiles_fit_the_shape(kind, shape, wanted):
    result = matmul_tiles.chosen(kind, *shape, 132)
    assert (result.rows, result.columns) == wanted
    others = matmul_tiles.rivals(kind, result)
    assert result not in others and {other.depth for other in others} == {result.depth}


@pytest.mark.parametrize("b_rows", [False, True])
@pytest.mark.parametrize("a_rows", [False, True])
@pytest.mark.parametrize("size", [(64, 64, 64), (72, 40, 56)], ids=str)
def test_tiles_by_descriptors(size, a_rows, b_rows):
    m, n, k = size
    x, y, b = numbers(0, (m, k), bfloat16), numbers(1, (k, n), bfloat16), numbers(2, (n,), bfloat16)
    element, two = strided(x, "plain" if a_rows else "transposed"), strided(y, "plain" if b_rows else "transposed")
    out = empty((m, n), bfloat16, 0)
    device.product_by_descriptors(
        (3,), element, two, out, from_numpy(b, 0), m, n, k, k if a_rows else m, n if b_rows else k, 3, A_ROWS=a_rows, B_ROWS=b_rows,
        BM=32, BN=32, BK=32, GROUP=2, HAS_BIAS=True, ACTIVATION="", SPECIALIZE=False,
    )  # fmt: skip
    close(out, x.astype("float64") @ y.astype("float64") + b.astype("float64"), bfloat16)


def test_large_half_products_go_by_descriptors(monkeypatch):
    used = []
    real = device.product_by_descriptors
    spy = SimpleNamespace(product_by_descriptors=lambda *given, **named: (used.append(1), real(*given, **named)))
    monkeypatch.setattr(matmuls_cuda, "device", spy)
    monkeypatch.setattr(matmuls_cuda, "_plans", {})
    monkeypatch.setattr(matmuls_cuda.matmul_tiles, "chosen", lambda *_: matmul_tiles.Tiles(128, 256, 64, 8, 3, 1.0))
    x, y = numbers(0, (130, 64), bfloat16), numbers(1, (264, 64), bfloat16)
    out = matmuls_cuda.linear_forward(from_numpy(x, 0), from_numpy(y, 0), None)
    close(out, x.astype("float64") @ y.astype("float64").T, bfloat16)
    assert used == [1]


@pytest.mark.parametrize("dtype", ["float32", bfloat16], ids=str)
def test_large_products_are_launched_through_the_tuner(dtype, monkeypatch):
    monkeypatch.setattr(matmuls_cuda, "_WORTH_MEASURING", 0)
    monkeypatch.setattr(matmuls_cuda, "_plans", {})
    monkeypatch.setattr(matmuls_cuda, "_tuners", {})
    x, y = numbers(0, (130, 40), dtype), numbers(1, (40, 264), dtype)
    close(
        matmuls_cuda.matmul_forward(from_numpy(x, 0), from_numpy(y, 0)),
        x.astype("float64") @ y.astype("float64"),
        dtype,
    )
    assert matmuls_cuda._tuners
    if driver.is_emulated():  # a card's count of processors may leave one choice
        assert all([len(tuner.configs) > 1 for tuner in matmuls_cuda._tuners.values()])


def test_batch_invariant_products_do_not_depend_on_the_rows():
    x, y = numbers(0, (70, 300), "float32"), numbers(1, (300, 9), "float32")
    element, two = from_numpy(x, 0), from_numpy(y, 0)
    with batch_invariance.use_batch_invariant(True):
        whole = matmuls_cuda.matmul_forward(element, two).numpy()
        for row in (0, 69):
            numpy.testing.assert_array_equal(
                matmuls_cuda.matmul_forward(element[row : row + 1], two).numpy()[0], whole[row]
            )


def test_the_switch_for_tf32():
    import dynograd

    assert not precision.allows_tf32("matmul")
    try:
        precision.set_float32_matmul_precision("high")
        assert precision.allows_tf32("matmul") and dynograd.backends.cuda.matmul.allow_tf32
        x, y = numbers(0, (20, 30), "float32"), numbers(1, (30, 40), "float32")
        close(matmuls_cuda.matmul_forward(from_numpy(x, 0), from_numpy(y, 0)), x.astype("float64") @ y, bfloat16)
        dynograd.backends.cuda.matmul.allow_tf32 = False
        assert not precision.allows_tf32("matmul") and precision.get_float32_matmul_precision() == "highest"
        dynograd.backends.cuda.matmul.fp32_precision = "tf32"
        assert precision.allows_tf32("matmul")
        dynograd.backends.cudnn.allow_tf32 = False
        assert not precision.allows_tf32("cudnn")
    finally:
        precision.set_allow_tf32("cudnn", True)
        precision.set_float32_matmul_precision("highest")
    with pytest.raises(ValueError, match="expected 'highest', 'high' or 'medium', got 'low'"):
        precision.set_float32_matmul_precision("low")
    with pytest.raises(TypeError, match="expected True or False, got int 1"):
        precision.set_allow_tf32("matmul", 1)
