"""Pooling, padding, patches and resampling on the GPU against their CPU twins."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.kernels.build import determinism
from dynograd.kernels.image import poolings_cpu, poolings_cuda
from tests.gpu.twins import compared, near, on_device
from tests.gpu.values import numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)

MAX_ROWS = [
    ((2, 3, 9), ((3,), (2,), (1,), (1,), False)),
    ((2, 3, 6, 7), ((2, 2), (2, 2), (0, 0), (1, 1), False)),
    ((1, 2, 7, 8), ((3, 2), (2, 3), (1, 1), (2, 1), True)),
    ((2, 5, 6, 4), ((2, 3, 2), (2, 2, 1), (1, 1, 0), (1, 1, 2), True)),
    ((0, 3, 6, 7), ((2, 2), (2, 2), (0, 0), (1, 1), False)),
]


@pytest.mark.parametrize(("shape", "how"), MAX_ROWS, ids=str)
@pytest.mark.parametrize("kind", ["float32", "float64", bfloat16, "int32"], ids=str)
def test_max_pool(shape, how, kind):
    x = (numbers(0, shape) * 4).astype(kind)
    if numpy.dtype(kind).kind not in "iu" and x.size:
        x.reshape(-1)[[3, 11]] = numpy.nan, -numpy.inf
    compared("poolings", "max_pool_forward", x, *how)
    _, expected = compared("poolings", "max_pool_places", x, *how)
    if numpy.dtype(kind).kind == "f":
        g = numbers(1, expected[0].shape).astype(kind)
        argument = on_device(g), on_device(expected[1]), shape, len(how[0])
        compared("poolings", "max_pool_backward", g, expected[1], shape, len(how[0]), given=argument)


def test_max_pool_of_channels_last_keeps_its_layout():
    x = numpy.ascontiguousarray(numbers(0, (2, 3, 6, 5)).transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    how = (3, 2), (2, 2), (1, 0), (1, 1), True
    (values, places), _ = compared("poolings", "max_pool_places", x, *how)
    assert values.transpose((0, 2, 3, 1)).is_contiguous
    assert places.transpose((0, 2, 3, 1)).is_contiguous
    compared("poolings", "max_pool_backward", numbers(1, values.shape), places.numpy(), x.shape, 2)


def test_max_pool_backward_repeats_with_deterministic_algorithms():
    x, how = numbers(0, (2, 3, 7)), ((3,), (1,), (1,), (1,), False)
    places = poolings_cpu.max_pool_places(x, *how)[1]
    determinism.use_deterministic_algorithms(True)
    try:
        compared("poolings", "max_pool_backward", numbers(1, places.shape), places, x.shape, 1)
    finally:
        determinism.use_deterministic_algorithms(False)


ADAPTIVE_ROWS = [
    ((2, 3, 7), (3,)),
    ((2, 6, 5), (4, 2)),
    ((1, 2, 5, 4, 3), (2, 3, 3)),
    ((2, 3, 4, 5), (1, 1)),
    ((2, 3, 4), (0,)),
]


@pytest.mark.parametrize(("shape", "output"), ADAPTIVE_ROWS, ids=str)
@pytest.mark.parametrize("kind", ["float32", bfloat16], ids=str)
def test_adaptive_pools(shape, output, kind):
    x = numbers(0, shape).astype(kind)
    _, (values, _) = compared("poolings", "adaptive_max_pool_forward", x, output)
    compared("poolings", "adaptive_avg_pool_forward", x, output)
    g = numbers(1, values.shape).astype(kind)
    compared("poolings", "adaptive_avg_pool_backward", g, shape, output)


AVERAGE_ROWS = [
    ((2, 3, 9), ((3,), (2,), (1,), False, True, None)),
    ((2, 3, 6, 7), ((2, 3), (1, 2), (1, 1), True, False, None)),
    ((1, 2, 4, 6, 5), ((2, 3, 2), (2, 2, 1), (1, 1, 0), True, True, 5)),
]


@pytest.mark.parametrize(("shape", "how"), AVERAGE_ROWS, ids=str)
@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_avg_pool(shape, how, kind):
    _, expected = compared("poolings", "avg_pool_forward", numbers(0, shape).astype(kind), *how)
    compared("poolings", "avg_pool_backward", numbers(1, expected.shape).astype(kind), shape, *how)


@pytest.mark.parametrize("kind", ["float32", "int64"])
def test_max_unpool(kind):
    x = (numbers(0, (2, 3, 3)) * 9).astype(kind)
    index = numpy.argsort(numbers(1, (2, 12)), -1)[:, :9].reshape(2, 3, 3)
    compared("poolings", "max_unpool_forward", x, index, (3, 4))


def test_pooled_size_is_the_one_of_the_cpu():
    assert poolings_cuda.pooled_size is poolings_cpu.pooled_size


# --- paddings ------------------------------------------------------------------------------------------------------------


PAD_ROWS = [
    ((3, 4), ((1, 2), (0, 3))),
    ((2, 3, 4), ((0, 0), (1, 1), (2, 0))),
    ((2, 3, 4, 5, 2), ((0, 0), (0, 0), (2, 1), (1, 2), (1, 1))),
    ((2, 3, 2, 3, 2), ((1, 1), (1, 0), (1, 1), (0, 1), (1, 1))),
    ((3, 4), ((0, 0), (0, 0))),
    ((0, 4), ((0, 0), (1, 1))),
]


@pytest.mark.parametrize(("shape", "sides"), PAD_ROWS, ids=str)
@pytest.mark.parametrize("kind", ["float32", "int64", "bool", bfloat16, "complex128"], ids=str)
def test_pad_constant(shape, sides, kind):
    x = (numbers(0, shape) * 3).astype(kind)
    value = 1 if kind in ("bool", "int64") else 2.5
    if kind == "complex128":
        from dynograd.kernels.layout import paddings_cpu, paddings_cuda

        expected = paddings_cpu.pad_constant(x, sides, value)
        numpy.testing.assert_array_equal(paddings_cuda.pad_constant(on_device(x), sides, value).numpy(), expected)
        return
    compared("paddings", "pad_constant", x, sides, value)
    compared("paddings", "pad_constant", x.T, sides[::-1], value)


def test_pad_constant_cuts_off():
    compared("paddings", "pad_constant", numbers(0, (5, 6)), ((-1, 2), (1, -3)), 7.0)
    compared("paddings", "pad_constant", numbers(0, (2, 5, 2, 6, 2)), ((1, 0), (-1, 2), (1, 1), (1, -3), (1, 1)), 7.0)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(("shape", "sides"), PAD_ROWS[:4], ids=str)
def test_pad_mirrored(mode, shape, sides):
    _, expected = compared("paddings", "pad_mirrored", numbers(0, shape), sides, mode)
    compared("paddings", "pad_mirrored_backward", numbers(1, expected.shape), sides, mode)
    compared("paddings", "pad_mirrored_backward", numbers(1, expected.shape).astype("float16"), sides, mode)


# --- patches -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [((2, 3), (1, 1), (0, 0), (1, 1)), ((2, 2), (2, 1), (1, 2), (2, 1)), ((1, 1), (1, 1), (0, 0), (3, 2))],
    ids=str,
)
@pytest.mark.parametrize("kind", ["float32", "float64", bfloat16], ids=str)
def test_patches(how, kind):
    x = numbers(0, (2, 3, 5, 6)).astype(kind)
    _, expected = compared("patches", "columns_of_patches", x, *how)
    compared("patches", "patches_of_columns", numbers(1, expected.shape).astype(kind), (5, 6), *how)


# --- interpolations ------------------------------------------------------------------------------------------------------


RESAMPLE_ROWS = [
    ("nearest", False, None), ("nearest-exact", False, 0.7), ("linear", False, None), ("linear", True, None), ("cubic", False, 0.7),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "corners", "scale"), RESAMPLE_ROWS)
@pytest.mark.parametrize(("kind", "count"), [("float32", 7), ("float64", 3), (bfloat16, 8)], ids=str)
def test_resample(rule, corners, scale, kind, count):
    for shape, dim in (((2, 5, 3), 1), ((2, 5), 1)):
        _, expected = compared(
            "interpolations", "resample", numbers(0, shape).astype(kind), dim, count, rule, corners, scale
        )
        g = numbers(1, expected.shape).astype(kind)
        compared("interpolations", "resample_backward", g, dim, 5, rule, corners, scale)


def test_near_says_what_differs():
    with pytest.raises(AssertionError):
        near(on_device(numbers(0, (3,))), numbers(1, (3,)))
