"""Convolutions on the GPU against the CPU kernels on the same numbers in float64."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.arrays.cuda_arrays import from_numpy
from dynograd.cuda import driver
from dynograd.kernels.build import batch_invariance, precision
from dynograd.kernels.conv import convolution_layouts_cuda, convolutions_columns, convolutions_cuda
from tests.gpu.values import close, numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)


def on_device(array, last):
    if not last:
        return from_numpy(array, 0)
    created = from_numpy(numpy.ascontiguousarray(numpy.moveaxis(array, 1, -1)), 0)
    return created.transpose(0, created.ndim - 1, *range(1, created.ndim - 1))


def check(x, w, stride=1, padding=0, dilation=1, groups=1, bias=True, last=False, dtype="float32", extra=0):
    dims = len(x) - 2
    window = [(element,) * dims if isinstance(element, int) else element for element in (stride, padding, dilation)]
    x, w, b, c = numbers(0, x, dtype), numbers(1, w, dtype), numbers(2, w[:1], dtype), numbers(3, x[1:2], dtype)
    wide = [tensor.astype("float64") for tensor in (x, w)]
    expected = convolutions_columns.conv_forward(*wide, *window, groups)
    g = numbers(4, expected.shape, dtype)
    per_channel = (-1, *(1,) * dims)
    on_x, on_w, on_g = on_device(x, last), from_numpy(w, 0), on_device(g, last)
    out = convolutions_cuda.conv_forward(on_x, on_w, from_numpy(b, 0) if bias else None, *window, groups)
    assert out.dtype == x.dtype
    assert convolution_layouts_cuda.is_channels_last(out) == (last and not out.is_contiguous)
    assert out.is_contiguous or last
    close(out, expected + b.astype("float64").reshape(per_channel) if bias else expected, dtype)
    shape = (*x.shape[:2], *[size + extra for size in x.shape[2:]])
    expected = convolutions_columns.conv_input_gradient(g.astype("float64"), wide[1], shape, *window, groups)
    out = convolutions_cuda.conv_input_gradient(on_g, on_w, from_numpy(c, 0) if bias else None, shape, *window, groups)
    close(out, expected + c.astype("float64").reshape(per_channel) if bias else expected, dtype)
    assert out.is_contiguous or last
    expected = convolutions_columns.conv_weight_gradient(wide[0], g.astype("float64"), w.shape, *window, groups)
    out = convolutions_cuda.conv_weight_gradient(on_x, on_g, w.shape, *window, groups)
    assert out.is_contiguous
    close(out, expected, dtype)


ROWS = {
    "3x3": dict(x=(1, 16, 6, 8), w=(24, 16, 3, 3), padding=1),
    "odd number of places": dict(x=(1, 20, 5, 7), w=(6, 20, 3, 3), padding=1),
    "few channels": dict(x=(2, 3, 6, 8), w=(8, 3, 3, 3)),
    "stride 2": dict(x=(1, 16, 7, 8), w=(8, 16, 3, 3), stride=2, padding=1),
    "strides of their own": dict(x=(1, 4, 9, 8), w=(8, 4, 3, 2), stride=(3, 2), padding=(2, 0)),
    "stride beyond the kernel": dict(x=(1, 4, 9, 9), w=(8, 4, 2, 2), stride=3),
    "dilation": dict(x=(1, 4, 9, 9), w=(8, 4, 3, 3), dilation=2, padding=2),
    "dilation and stride": dict(x=(1, 4, 11, 12), w=(5, 4, 3, 3), dilation=2, stride=2, padding=1),
    "dilation 3, stride 2": dict(x=(1, 4, 11, 12), w=(5, 4, 3, 3), dilation=3, stride=2, padding=1),
    "groups": dict(x=(2, 4, 6, 6), w=(6, 2, 3, 3), groups=2, padding=1),
    "wide groups": dict(x=(1, 32, 4, 4), w=(32, 16, 3, 3), groups=2, padding=1),
    "depthwise": dict(x=(2, 3, 6, 7), w=(3, 1, 3, 3), groups=3, padding=1),
    "depthwise, stride 2": dict(x=(2, 2, 6, 7), w=(2, 1, 3, 2), groups=2, padding=1, stride=2),
    "depthwise, more outputs": dict(x=(2, 2, 6, 7), w=(4, 1, 2, 3), groups=2, padding=1),
    "depthwise, 8 channels": dict(x=(1, 8, 5, 4), w=(8, 1, 2, 2), groups=8),
    "1x1": dict(x=(2, 6, 5, 4), w=(8, 6, 1, 1)),
    "1x1 with stride": dict(x=(2, 6, 5, 4), w=(8, 6, 1, 1), stride=2),
    "1d": dict(x=(2, 16, 20), w=(8, 16, 5), padding=2),
    "1d, one filter": dict(x=(2, 1, 20), w=(1, 1, 5), stride=2),
    "3d": dict(x=(1, 3, 4, 5, 6), w=(4, 3, 2, 3, 3), padding=1),
    "3d, stride 2": dict(x=(1, 16, 4, 5, 6), w=(4, 16, 2, 3, 3), padding=1, stride=2),
    "output padding": dict(x=(1, 4, 6, 6), w=(8, 4, 3, 3), stride=2, padding=1, extra=1),
}


@pytest.mark.parametrize("name", ROWS)
def test_convolution(name):
    check(**ROWS[name])


@pytest.mark.parametrize(
    "name",
    [
        "3x3",
        "few channels",
        "stride 2",
        "groups",
        "depthwise",
        "depthwise, stride 2",
        "depthwise, 8 channels",
        "1x1",
        "3d",
    ],
)
def test_channels_last(name):
    check(**ROWS[name], last=True)


@pytest.mark.parametrize("dtype", ["float64", "float16", bfloat16], ids=str)
@pytest.mark.parametrize("name", ["3x3", "few channels", "stride 2", "depthwise", "1x1"])
def test_dtypes(name, dtype):
    check(**ROWS[name], dtype=dtype, bias=False)


def test_many_places_are_summed_in_parts():
    check((1, 2, 24, 24), (4, 2, 2, 2))
    check((1, 2, 70, 64), (2, 1, 1, 2), groups=2)


def test_tf32_is_what_the_switch_says():
    precision.set_allow_tf32("cudnn", True)
    x, w = numbers(0, (1, 16, 5, 6)), numbers(1, (8, 16, 3, 3))
    out = convolutions_cuda.conv_forward(from_numpy(x, 0), from_numpy(w, 0), None, (1, 1), (0, 0), (1, 1), 1)
    expected = convolutions_columns.conv_forward(
        *[tensor.astype("float64") for tensor in (x, w)], (1, 1), (0, 0), (1, 1), 1
    )
    close(out, expected, bfloat16)


@pytest.mark.parametrize("shape", [(0, 3, 5, 5), (2, 0, 5, 5)], ids=str)
def test_nothing_to_sum(shape):
    x, w, b = numbers(0, shape), numbers(1, (4, shape[1], 3, 3)), numbers(2, (4,))
    window = (1, 1), (0, 0), (1, 1)
    out = convolutions_cuda.conv_forward(from_numpy(x, 0), from_numpy(w, 0), from_numpy(b, 0), *window, 1)
    close(out, numpy.broadcast_to(b[:, None, None], (shape[0], 4, 3, 3)), "float32")
    g = from_numpy(numbers(3, out.shape), 0)
    assert convolutions_cuda.conv_input_gradient(g, from_numpy(w, 0), None, shape, *window, 1).shape == shape
    gradient = convolutions_cuda.conv_weight_gradient(from_numpy(x, 0), g, w.shape, *window, 1)
    close(gradient, numpy.zeros(w.shape), "float32")


def test_integers_and_complex_numbers():
    x, w = (numpy.random.default_rng(0).integers(-9, 9, shape) for shape in ((1, 2, 4, 5), (3, 2, 2, 2)))
    window = (1, 1), (0, 0), (1, 1)
    out = convolutions_cuda.conv_forward(from_numpy(x, 0), from_numpy(w, 0), None, *window, 1)
    numpy.testing.assert_array_equal(out.numpy(), convolutions_columns.conv_forward(x, w, *window, 1))
    x, w = ((numbers(0, tensor.shape) + 1j * numbers(1, tensor.shape)).astype("complex64") for tensor in (x, w))
    out = convolutions_cuda.conv_forward(from_numpy(x, 0), from_numpy(w, 0), None, *window, 1)
    numpy.testing.assert_allclose(
        out.numpy(), convolutions_columns.conv_forward(x, w, *window, 1), rtol=1e-5, atol=1e-5
    )


def _product_in_one_order(builder, a, b, d, precision, most):
    """Like a GPU's: which row of a tile it is does not change a sum. NumPy's BLAS may sum the last rows of a tile otherwise."""
    return type(d)(numpy.einsum("mk,kn->mn", a.data, b.data, dtype=d.data.dtype) + d.data, d.dtype.scalar)


def test_batch_invariant_results_do_not_depend_on_the_batch(monkeypatch):
    if driver.is_emulated():
        from triton.runtime.interpreter import InterpreterBuilder

        monkeypatch.setattr(InterpreterBuilder, "create_dot", _product_in_one_order)
    x, w = from_numpy(numbers(0, (3, 16, 5, 6)), 0), from_numpy(numbers(1, (8, 16, 3, 3)), 0)
    with batch_invariance.use_batch_invariant(True):
        whole = convolutions_cuda.conv_forward(x, w, None, (1, 1), (1, 1), (1, 1), 1).numpy()
        alone = convolutions_cuda.conv_forward(x[1:2], w, None, (1, 1), (1, 1), (1, 1), 1).numpy()
    numpy.testing.assert_array_equal(whole[1:2], alone)
