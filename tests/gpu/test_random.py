"""Random numbers on the GPU: the CPU's, bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.base.devices import device
from dynograd.kernels.random import random_cpu, random_cuda
from tests.gpu.twins import on_device

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)
SEED, OFFSET = 0x9ABCDEF012345678, 0xFFFFFFFFFFFFFFFE  # the counter passes 2**64 in the draw
CUDA = device("cuda", 0)


def same_bits(result, wanted):
    shown = result.numpy()
    assert shown.dtype == wanted.dtype
    assert shown.shape == wanted.shape
    assert shown.tobytes() == numpy.ascontiguousarray(wanted).tobytes()


ROWS = [
    ("uniform", ((7, 5), "float32", -1.0, 3.0)),
    ("uniform", ((33,), "float32")),
    ("uniform", ((33,), "float64", 2.0, 2.5)),
    ("uniform", ((33,), "float16", -2.0, 1.0)),
    ("uniform", ((33,), bfloat16)),
    ("uniform", ((4,), "float16", 1.0, 1.0)),
    ("uniform", ((5,), "complex64")),
    ("normal", ((37, 3), "float32")),
    ("normal", ((37,), "float32", 1.5, 0.25)),
    ("normal", ((37,), "float64", 1.5, 0.25)),
    ("normal", ((37,), "float16")),
    ("normal", ((37,), bfloat16, 1.0, 3.0)),
    ("normal", ((9,), "complex128")),
    ("exponential", ((37,), "float32", 2.5)),
    ("exponential", ((37,), "float64", 0.5)),
    ("exponential", ((37,), "float16", 2.5)),
    ("integers", ((37,), -5, 1000, "int64")),
    ("integers", ((37,), 0, 200, "uint8")),
    ("integers", ((37,), 0, 2, "bool")),
    ("integers", ((37,), -(2**63), 2**63, "int64")),
    ("integers", ((37,), 0, 2**53, "float32")),
    ("integers", ((37,), 0, 300, bfloat16)),
    ("bernoulli", (0.3, (41,), "float32")),
    ("bernoulli", (1.0, (41,), "int64")),
    ("bernoulli", (0.5, (41,), "bool")),
    ("dropout_mask", ((41,), 0.3, "float32")),
    ("dropout_mask", ((41,), 0.3, bfloat16)),
    ("dropout_mask", ((41,), 1.0, "float64")),
    ("permutation", (29,)),
    ("permutation", (1,)),
    ("random_bits", (1100,)),
]


@pytest.mark.parametrize(("name", "arguments"), ROWS, ids=str)
def test_same_bits(name, arguments):
    expected = getattr(random_cpu, name)(SEED, OFFSET, *arguments)
    same_bits(getattr(random_cuda, name)(SEED, OFFSET, *arguments, device=CUDA), expected)


@pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "dropout_mask", "bernoulli"])
def test_nothing_to_draw(name):
    arguments = {"dropout_mask": ((0, 3), 0.5, "float32"), "bernoulli": (0.5, (0, 3), "float32")}
    result = getattr(random_cuda, name)(1, 0, *arguments.get(name, ((0, 3), "float32")), device=CUDA)
    assert result.shape == (0, 3)


@pytest.mark.parametrize("kind", ["float32", "float64", "bool", bfloat16], ids=str)
def test_bernoulli_of_an_array(kind):
    p = numpy.random.default_rng(0).random((6, 7)).astype("float32" if kind == "bool" else kind)
    expected = random_cpu.bernoulli(SEED, OFFSET, p, p.shape, kind)
    same_bits(random_cuda.bernoulli(SEED, OFFSET, on_device(p), p.shape, kind), expected)


def test_normal_with_arrays():
    mean = numpy.linspace(-1, 1, 7, dtype="float32")
    std = numpy.linspace(0.5, 2, 5, dtype="float32")[:, None]
    expected = random_cpu.normal(SEED, OFFSET, (5, 7), "float32", mean, std)
    result = random_cuda.normal(SEED, OFFSET, (5, 7), "float32", on_device(mean), on_device(std))
    same_bits(result, expected)


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(replacement):
    weights = numpy.random.default_rng(0).random((5, 9)).astype("float32")
    weights[:, 3] = 0
    expected = random_cpu.multinomial(SEED, 5, weights, 4, replacement)
    same_bits(random_cuda.multinomial(SEED, 5, on_device(weights), 4, replacement), expected)


def test_a_million_words_come_from_their_places():
    """Blocks of later programs count on where the first ones end."""
    expected = random_cpu.random_bits(3, 2**32 - 100, 4096)
    same_bits(random_cuda.random_bits(3, 2**32 - 100, 4096, CUDA), expected)


# --- dropout -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
def test_dropout_is_the_one_of_the_cpu(p):
    from dynograd.kernels.random import dropouts_cpu, dropouts_cuda

    x, residual = numpy.random.default_rng(0).standard_normal((2, 8, 70)).astype("float32")
    assert dropouts_cuda.in_one_pass(on_device(x))
    for mine, expected in zip(
        dropouts_cuda.dropout_forward(SEED, OFFSET, on_device(x), p),
        dropouts_cpu.dropout_forward(SEED, OFFSET, x, p),
        strict=True,
    ):
        same_bits(mine, expected)
    y, mask = dropouts_cuda.dropout_add_forward(SEED, OFFSET, on_device(x), on_device(residual), p)
    expected, kept = dropouts_cpu.dropout_add_forward(SEED, OFFSET, x, residual, p)
    numpy.testing.assert_allclose(y.numpy(), expected, rtol=1e-6, atol=1e-6)
    same_bits(mask, kept)
    same_bits(
        dropouts_cuda.dropout_backward(on_device(residual), mask, p), dropouts_cpu.dropout_backward(residual, kept, p)
    )


def test_dropout_of_half_types_is_scaled_in_float32():
    from dynograd.kernels.random import dropouts_cuda

    x = numpy.random.default_rng(0).standard_normal((5, 9)).astype(bfloat16)
    y, mask = dropouts_cuda.dropout_forward(1, 0, on_device(x), 0.3)
    expected = x.astype("float32") * mask.numpy() * numpy.float32(1 / 0.7)
    same_bits(y, expected.astype(bfloat16))
    assert not dropouts_cuda.in_one_pass(on_device(x.T))
    assert not dropouts_cuda.in_one_pass(on_device(x.astype("float64")))
