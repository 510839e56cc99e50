"""Convolution kernels against loops over every output place and kernel tap in float64."""

import itertools

import numpy as np
import pytest

from dynograd.kernels import convolutions_cpu

CASES = {
    "1d": ((2, 3, 9), (4, 3, 3), (1,), (1,), (1,), 1),
    "1d stride beyond kernel": ((2, 3, 11), (4, 3, 2), (3,), (0,), (1,), 1),
    "2d": ((3, 2, 6, 7), (5, 2, 3, 2), (1, 1), (1, 0), (1, 1), 1),
    "2d all at once": ((2, 4, 9, 8), (6, 2, 3, 3), (2, 3), (2, 1), (2, 1), 2),
    "padding beyond kernel": ((1, 1, 3, 3), (2, 1, 2, 2), (2, 2), (4, 3), (1, 1), 1),
    "1x1": ((2, 4, 5, 5), (3, 4, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "1x1 strided in groups": ((2, 4, 5, 6), (6, 2, 1, 1), (2, 3), (0, 0), (1, 1), 2),
    "1x1 padded": ((2, 4, 5, 5), (3, 4, 1, 1), (1, 1), (1, 1), (1, 1), 1),
    "depthwise": ((2, 4, 7, 8), (4, 1, 3, 3), (1, 1), (1, 1), (1, 1), 4),
    "depthwise strided, two each": ((2, 3, 7, 8), (6, 1, 3, 2), (2, 3), (1, 2), (2, 1), 3),
    "depthwise, six each": ((2, 2, 7, 8), (12, 1, 3, 2), (1, 1), (1, 1), (1, 1), 2),
    "3d": ((2, 2, 4, 5, 6), (3, 2, 2, 3, 3), (1, 2, 1), (1, 1, 0), (1, 1, 2), 1),
    "depthwise 3d": ((1, 2, 4, 5, 3), (2, 1, 2, 3, 3), (2, 1, 1), (1, 1, 1), (1, 2, 1), 2),
    "kernel reaches over the whole image": ((2, 3, 4, 4), (2, 3, 4, 4), (1, 1), (0, 0), (1, 1), 1),
    "empty batch": ((0, 3, 4, 4), (2, 3, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    "empty batch 1x1": ((0, 3, 4, 4), (2, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1),
}


def taps(x_shape, weight_shape, out_sizes, stride, padding, dilation):
    """(output place, kernel place, input place) of every product that lies inside the input."""
    for place in itertools.product(*map(range, out_sizes)):
        for tap in itertools.product(*map(range, weight_shape[2:])):
            source = tuple(
                o * s - p + k * d for o, s, p, k, d in zip(place, stride, padding, tap, dilation, strict=True)
            )
            if all(0 <= i < size for i, size in zip(source, x_shape[2:], strict=True)):
                yield (..., *place), (..., *tap), (..., *source)


def reference(x, weight, stride, padding, dilation, groups, g=None):
    """Output, and for its gradient g those of x and weight."""
    sizes = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    ]
    sizes = sizes if g is None else g.shape[2:]
    out = np.zeros((x.shape[0], weight.shape[0], *sizes))
    gx, gw = np.zeros(x.shape), np.zeros(weight.shape)
    for group in range(groups):
        o = slice(group * weight.shape[0] // groups, (group + 1) * weight.shape[0] // groups)
        c = slice(group * weight.shape[1], (group + 1) * weight.shape[1])
        for place, tap, source in taps(x.shape, weight.shape, sizes, stride, padding, dilation):
            out[:, o][place] += x[:, c][source] @ weight[o][tap].T
            if g is not None:
                gx[:, c][source] += g[:, o][place] @ weight[o][tap]
                gw[o][tap] += g[:, o][place].T @ x[:, c][source]
    return out, gx, gw


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("case", CASES)
def test_convolution_and_gradients(case, dtype):
    x_shape, weight_shape, *options = CASES[case]
    random = np.random.default_rng(7)
    x, weight = random.normal(size=x_shape).astype(dtype), random.normal(size=weight_shape).astype(dtype)
    out = convolutions_cpu.conv_forward(x, weight, None, *options)
    g = random.normal(size=out.shape).astype(dtype)
    wanted = reference(x.astype(float), weight.astype(float), *options, g.astype(float))
    found = (
        out,
        convolutions_cpu.conv_input_gradient(g, weight, None, x.shape, *options),
        convolutions_cpu.conv_weight_gradient(x, g, weight.shape, *options),
    )
    tolerance = {np.float64: 1e-11, np.float32: 1e-4, np.float16: 2e-2}[dtype]
    for result, exact in zip(found, wanted, strict=True):
        assert result.dtype == dtype and result.shape == exact.shape
        np.testing.assert_allclose(result, exact, rtol=tolerance, atol=tolerance * 3)


@pytest.mark.parametrize("output_padding", [(0, 0), (1, 0), (1, 2)])
def test_input_gradient_of_every_output_padding(output_padding):
    """A transposed convolution leaves stride - 1 sizes to choose from; all give the same forward size."""
    stride, padding, dilation = (2, 3), (1, 1), (1, 2)
    g, weight = np.random.default_rng(8).normal(size=(2, 4, 5, 3)), np.ones((4, 2, 3, 2))
    sizes = [
        (size - 1) * s - 2 * p + d * (k - 1) + 1 + extra
        for size, k, s, p, d, extra in zip((5, 3), (3, 2), stride, padding, dilation, output_padding, strict=True)
    ]
    shape = (2, 4, *sizes)
    found = convolutions_cpu.conv_input_gradient(g, weight, None, shape, stride, padding, dilation, 2)
    wanted = reference(np.zeros(shape), weight, stride, padding, dilation, 2, g)[1]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_strided_inputs_and_nan():
    random = np.random.default_rng(9)
    x, weight = random.normal(size=(6, 7, 3, 2)).transpose(3, 2, 1, 0), random.normal(size=(3, 3, 3, 5)).T
    out = convolutions_cpu.conv_forward(x, weight[..., ::1], None, (1, 1), (1, 1), (1, 1), 1)
    np.testing.assert_allclose(out, reference(x, weight, (1, 1), (1, 1), (1, 1), 1)[0], atol=1e-12)
    spoiled = x.copy()
    spoiled[0, 0, 0, 0] = np.nan
    out = convolutions_cpu.conv_forward(spoiled, weight, None, (1, 1), (0, 0), (1, 1), 1)
    assert np.isnan(out[0, :, 0, 0]).all() and not np.isnan(out[1]).any()
