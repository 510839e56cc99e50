"""Softmax, norms, deviations and fused activations on the GPU against their CPU twins: whole rows, and rows in parts."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.elementwise import fused_activations_cuda
from dynograd.kernels.norm import normalizations_cuda
from dynograd.kernels.reduce import deviations_cuda
from dynograd.kernels.rows import row_programs_cuda
from tests.gpu.twins import compared, near, on_device
from tests.gpu.values import numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)
HELD = row_programs_cuda._HELD


@pytest.fixture(params=["whole", "parts"])
def form(request, monkeypatch):
    """Rows held by a program, and rows gone through in small parts."""
    if request.param == "parts":
        monkeypatch.setattr(row_programs_cuda, "_HELD", 16)
        monkeypatch.setattr(row_programs_cuda, "_TILE", 32)
        monkeypatch.setattr(row_programs_cuda, "_GROUPS", 1)
    return request.param


def drawn(seed, shape, kind="float32"):
    return numpy.asarray(numpy.asarray(numbers(seed, shape)).astype(kind))


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(
    ("shape", "dim"), [((3, 70), 1), ((3, 70), -1), ((20, 6), 0), ((2, 9, 5), 1), ((4,), 0), ((0, 3), 1)], ids=str
)
def test_softmax(shape, dim):
    for kind in ("float32", "float64", bfloat16)[: 3 if len(shape) > 1 else 1]:
        x, g = drawn(0, shape, kind) * 3, drawn(1, shape, kind)
        for name in ("softmax", "log_softmax"):
            _, y = compared("softmaxes", f"{name}_forward", x.astype(kind), dim)
            compared("softmaxes", f"{name}_backward", g, y, dim, loose=2)


@pytest.mark.usefixtures("form")
def test_softmax_of_infinities():
    x = drawn(0, (5, 6))
    x[0], x[1, 2], x[2, 2], x[3, 1:] = -numpy.inf, numpy.inf, numpy.nan, -numpy.inf
    for dim in (0, 1):
        compared("softmaxes", "softmax_forward", x, dim)
        compared("softmaxes", "log_softmax_forward", x, dim)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((3, 70), 1), ((3, 7), None), ((20, 3), 0), ((2, 5, 4), 1), ((2, 3, 4), (0, 2)), ((3,), 0)],
    ids=str,
)
def test_deviations(shape, dim):
    for kind in ("float32", "float64", bfloat16):
        x = drawn(0, shape, kind)
        _, expected = compared("deviations", "var_forward", x, dim, 1, False)
        compared("deviations", "std_forward", x, dim, 0, True)
    x = drawn(0, shape)
    g = numpy.asarray(drawn(1, numpy.asarray(expected).shape))
    dims = tuple(range(len(shape))) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    distance = (x - x.mean(dims, keepdims=True)) * g.reshape(x.mean(dims, keepdims=True).shape)
    result = deviations_cuda.distance_times(on_device(g), on_device(x), dim)
    assert (result is None) == (dim == (0, 2))
    if result is not None:
        near(result, distance, 2)


def test_variance_of_nothing():
    for shape in ((3, 1), (3, 0)):
        compared("deviations", "var_forward", drawn(0, shape), 1, 1, False)


# --- layer and RMS norm ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(("shape", "rank"), [((3, 70), 1), ((40, 6), 1), ((2, 3, 4), 2)], ids=str)
@pytest.mark.parametrize("kind", ["float32", "float64", bfloat16], ids=str)
def test_layer_and_rms_norm(shape, rank, kind):
    x, g = drawn(0, shape, kind), drawn(1, shape, kind)
    normalized = shape[len(shape) - rank :]
    for weight, bias in [(drawn(2, normalized, kind), drawn(3, normalized, kind)), (None, None)]:
        _, (_, mean, rstd) = compared("normalizations", "layer_norm_forward", x, rank, weight, bias, 1e-5)
        compared("normalizations", "layer_norm_backward", g, x, mean, rstd, weight, rank, loose=4)
        _, (_, scale) = compared("rms_norms", "rms_norm_forward", x, rank, weight, 1e-6)
        compared("rms_norms", "rms_norm_backward", g, x, weight, scale, rank, loose=4)


# --- group and batch norm ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(
    ("shape", "groups"), [((3, 4, 5), 2), ((2, 6, 3, 3), 3), ((3, 4), 1), ((2, 4, 40), 4)], ids=str
)
@pytest.mark.parametrize("kind", ["float32", "float64", bfloat16], ids=str)
def test_group_norm(shape, groups, kind):
    x, g = drawn(0, shape, kind), drawn(1, shape, kind)
    for weight, bias in [(drawn(2, shape[1:2], kind), drawn(3, shape[1:2], kind)), (None, None)]:
        _, (_, mean, rstd) = compared("normalizations", "group_norm_forward", x, groups, weight, bias, 1e-5, loose=4)
        compared("normalizations", "group_norm_backward", g, x, mean, rstd, weight, groups, loose=5)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("shape", [(6, 3), (3, 4, 5), (2, 3, 4, 3), (5, 2, 1), (2, 3, 40)], ids=str)
@pytest.mark.parametrize("training", [False, True])
def test_batch_norm(shape, training):
    running = drawn(4, shape[1:2]), numpy.abs(drawn(5, shape[1:2])) + 0.5
    for kind in ("float32", "float64", bfloat16):
        x, g = drawn(0, shape, kind), drawn(1, shape, kind)
        moving = tuple(element.astype("float64") for element in running) if kind == "float64" else running
        for weight, bias in [(drawn(2, shape[1:2], kind), drawn(3, shape[1:2], kind)), (None, None)]:
            options = weight, bias, *moving, training, 0.1, 1e-5
            _, (_, mean, rstd, _) = compared("normalizations", "batch_norm_forward", x, *options, loose=4)
            compared("normalizations", "batch_norm_backward", g, x, weight, mean, rstd, training, loose=5)


def test_batch_norm_of_channels_last():
    x, g = (numpy.moveaxis(drawn(seed, (2, 3, 4, 5)), -1, 1) for seed in (0, 1))
    weight, bias = drawn(2, (5,)), drawn(3, (5,))
    result, (_, mean, rstd, _) = compared(
        "normalizations", "batch_norm_forward", x, weight, bias, None, None, True, 0.1, 1e-5, loose=4
    )
    assert result[0].strides == on_device(x).strides
    created, _ = compared("normalizations", "batch_norm_backward", g, x, weight, mean, rstd, True, loose=5)
    assert created[0].strides == result[0].strides


def test_moved_statistics():
    compared("normalizations", "moved_statistics", drawn(0, (5,)), drawn(1, (5,)), 0.1)
    compared("normalizations", "moved_statistics", drawn(0, (5,), bfloat16), drawn(1, (5,)), 0.1, loose=2)


def test_batch_norm_keeps_far_means():
    """A mean of 1000 deviations costs no digits: distances are taken before squares."""
    x = drawn(0, (4, 2, 60)) + 1000
    result = normalizations_cuda.batch_norm_forward(on_device(x), None, None, None, None, True, 0.1, 1e-5)
    wide = x.astype("float64")
    numpy.testing.assert_allclose(result[3].numpy(), wide.var((0, 2), ddof=1), rtol=1e-4)


# --- fused -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu"])
def test_bias_activation(name):
    for shape in ((3, 70), (40, 5), (2, 3, 4)):
        x, g, bias = drawn(0, shape), drawn(1, shape), drawn(2, shape[-1:])
        compared("fused_activations", "bias_activation_forward", name, x, bias)
        compared("fused_activations", "bias_activation_backward", name, g, x, bias, loose=2)


@pytest.mark.usefixtures("form")
def test_swiglu_and_added_norm():
    for shape in ((3, 70), (2, 3, 4)):
        x, gate, g, more = (drawn(seed, shape) for seed in range(4))
        compared("fused_activations", "swiglu_forward", gate, x)
        compared("fused_activations", "swiglu_backward", g, gate, x)
        for weight, bias in [(drawn(4, shape[-1:]), drawn(5, shape[-1:])), (None, None)]:
            _, (_, total, mean, rstd) = compared(
                "fused_activations", "add_layer_norm_forward", x, gate, weight, bias, 1, 1e-5
            )
            compared("fused_activations", "add_layer_norm_backward", g, more, total, mean, rstd, weight, 1, loose=4)


def test_half_types_stay():
    """The GPU takes every floating dtype in one pass, and gives it back."""
    x, bias = on_device(drawn(0, (3, 4), bfloat16)), on_device(drawn(1, (4,), bfloat16))
    assert fused_activations_cuda.in_one_pass(x, bias)
    assert not fused_activations_cuda.in_one_pass(x, on_device(drawn(1, (4,))))
    created = fused_activations_cuda.bias_activation_forward("silu", x, bias)
    assert isinstance(created, CudaArray)
    assert created.dtype == bfloat16
    s = drawn(0, (3, 4), bfloat16).astype("float32") + drawn(1, (4,), bfloat16).astype("float32")
    near(created, (s / (1 + numpy.exp(-s))).astype(bfloat16), 2)
