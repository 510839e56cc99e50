"""Convolution kernels against loops over every output place and kernel tap in float64."""

import itertools
import os
import subprocess
import sys

import llvmlite.binding
import numpy as np
import pytest

from dynograd.kernels.build import threads
from dynograd.kernels.conv import convolutions_cpu

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
    "as long as its line, stride beyond it": ((3, 5, 6), (4, 5, 6), (7,), (0,), (1,), 1),
    "as large as its image, to many channels": ((9, 20, 7, 7), (40, 20, 7, 7), (1, 1), (0, 0), (1, 1), 1),
    "one channel to six": ((3, 1, 12, 12), (6, 1, 5, 5), (1, 1), (2, 2), (1, 1), 1),
    "lines of ten in planes of fourteen": ((3, 6, 14, 14), (16, 6, 5, 5), (1, 1), (0, 0), (1, 1), 1),
    "whole vectors": ((3, 16, 8, 8), (16, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "whole vectors, stride 2": ((2, 8, 16, 16), (24, 8, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "stem": ((1, 3, 30, 30), (10, 3, 7, 7), (2, 2), (3, 3), (1, 1), 1),
    "deep": ((2, 150, 9, 9), (9, 150, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "deep, lines of 15": ((1, 150, 9, 15), (9, 150, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "deep, no padding": ((3, 150, 6, 17), (5, 150, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    "deep, whole vectors": ((2, 150, 4, 16), (5, 150, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "deep 1x1": ((2, 1300, 3, 5), (9, 1300, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "deep, strided": ((2, 150, 7, 7), (3, 150, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "few taps to two channels": ((2, 4, 7), (2, 4, 4), (1,), (1,), (1,), 1),
    "many lines": ((1, 40, 40, 24), (3, 40, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "1x1 image": ((3, 5, 1, 1), (7, 5, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "1x1 image, 3x3": ((3, 5, 1, 1), (7, 5, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "1x1 strided": ((2, 3, 9, 17), (5, 3, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    "huge padding": ((1, 2, 3, 4), (3, 2, 3, 3), (1, 2), (11, 20), (1, 1), 1),
    "stride beyond kernel, twice": ((2, 3, 13, 13), (4, 3, 2, 2), (3, 4), (1, 0), (1, 1), 1),
    "dilated 1d": ((2, 3, 50), (7, 3, 5), (2,), (6,), (3,), 1),
    "blocks that overlap": ((2, 18, 9, 8), (33, 18, 2, 3), (2, 1), (0, 2), (1, 2), 1),
    "three channels to twenty": ((3, 3, 9, 7), (20, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "few channels to many, 1x1": ((2, 5, 7, 7), (16, 5, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "many channels, 1x1 strided": ((2, 16, 9, 8), (32, 16, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    "more channels than a run is tiled by": ((3, 20, 7, 7), (40, 20, 3, 1), (1, 1), (1, 0), (1, 1), 1),
    "many channels, 3d": ((2, 20, 4, 6, 5), (24, 20, 3, 2, 3), (1, 2, 1), (1, 0, 1), (1, 1, 1), 1),
    "many channels, stride beyond kernel": ((2, 16, 7, 8), (16, 16, 2, 1), (3, 2), (0, 0), (1, 1), 1),
    "many channels, lines of many images": ((5, 16, 20, 20), (16, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "empty batch": ((0, 3, 4, 4), (2, 3, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    "1x1 of many channels": ((2, 66, 5, 5), (70, 66, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "1x1, images smaller than the weight": ((3, 70, 2, 2), (66, 70, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "1x1 strided, images smaller than the weight": ((3, 70, 3, 4), (66, 70, 1, 1), (2, 3), (0, 0), (1, 1), 1),
    "1x1 of sequences shorter than the weight": ((4, 70, 3), (66, 70, 1), (1,), (0,), (1,), 1),
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


def last(array):
    """The same values with the channels of a place side by side."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


def cut_out(array):
    """The same values as a part of a larger array, none of its dims contiguous."""
    around = np.full([2 * size + 3 for size in array.shape], np.nan, array.dtype)
    inside = around[tuple(slice(1, 1 + 2 * size, 2) for size in array.shape)]
    inside[...] = array
    return inside


def turned(array):
    """The same values, the last two dims exchanged in memory."""
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


LAYOUTS = {"row-major": np.array, "channels last": last, "part of more": cut_out, "transposed": turned}


# Half types are copied to float32 first.
KINDS = [*itertools.product([np.float64, np.float32], LAYOUTS), (np.float16, "row-major")]


@pytest.mark.parametrize(("dtype", "layout"), KINDS)
@pytest.mark.parametrize("case", CASES)
def test_convolution_and_gradients(case, dtype, layout):
    x_shape, weight_shape, *options = CASES[case]
    random = np.random.default_rng(7)
    x, weight = random.normal(size=x_shape).astype(dtype), random.normal(size=weight_shape).astype(dtype)
    x, weight = LAYOUTS[layout](x), LAYOUTS[layout](weight)
    out = convolutions_cpu.conv_forward(x, weight, None, *options)
    g = LAYOUTS[layout](random.normal(size=out.shape).astype(dtype))
    expected = reference(x.astype(float), weight.astype(float), *options, g.astype(float))
    results = (
        out,
        convolutions_cpu.conv_input_gradient(g, weight, None, x.shape, *options),
        convolutions_cpu.conv_weight_gradient(x, g, weight.shape, *options),
    )
    tolerance = {np.float64: 1e-11, np.float32: 1e-4, np.float16: 2e-2}[dtype]
    for result, exact in zip(results, expected, strict=True):
        assert result.dtype == dtype and result.shape == exact.shape
        np.testing.assert_allclose(result, exact, rtol=tolerance, atol=tolerance * 3)
    biased = convolutions_cpu.conv_forward(x, weight, np.arange(weight_shape[0], dtype=dtype), *options)
    shift = np.arange(weight_shape[0]).reshape(-1, *(1,) * (out.ndim - 2))
    np.testing.assert_allclose(biased, expected[0] + shift, rtol=tolerance, atol=tolerance * 3)


def all_three(case, dtype=np.float32, layout=np.array):
    """Results of `case`: output, gradient of x, gradient of the weight."""
    x_shape, weight_shape, *options = case
    random = np.random.default_rng(3)
    x, weight = layout(random.normal(size=x_shape).astype(dtype)), random.normal(size=weight_shape).astype(dtype)
    out = convolutions_cpu.conv_forward(x, weight, None, *options)
    g = layout(random.normal(size=out.shape).astype(dtype))
    gx = convolutions_cpu.conv_input_gradient(g, weight, None, x.shape, *options)
    return out, gx, convolutions_cpu.conv_weight_gradient(x, g, weight.shape, *options)


PARALLEL = {
    "images": ((12, 16, 16, 16), (24, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "lines of one image": ((1, 24, 33, 40), (10, 24, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "deep": ((3, 200, 7, 7), (20, 200, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "1x1": ((5, 64, 7, 7), (40, 64, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "1x1, images smaller than the weight": ((4, 70, 2, 2), (66, 70, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "depthwise": ((6, 24, 20, 20), (24, 1, 3, 3), (1, 1), (1, 1), (1, 1), 24),
    "1x1 to few channels": ((2, 24, 40, 40), (17, 24, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "sequences": ((9, 20, 300), (30, 20, 5), (1,), (2,), (1,), 1),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", [np.array, last])
@pytest.mark.parametrize("case", PARALLEL)
def test_threads_do_not_change_bits(case, layout, dtype):
    before = threads.get_num_threads()
    results = []
    try:
        for count in (1, 2, 5):
            threads.set_num_threads(count)
            results.append(all_three(PARALLEL[case], dtype, layout))
    finally:
        threads.set_num_threads(before)
    for other in results[1:]:
        assert all((element == two).all() for element, two in zip(results[0], other, strict=True))


@pytest.mark.parametrize("layout", [np.array, last])
@pytest.mark.parametrize("case", PARALLEL)
def test_images_do_not_depend_on_their_neighbours(case, layout):
    x_shape, weight_shape, *options = PARALLEL[case]
    random = np.random.default_rng(5)
    x, weight = random.normal(size=x_shape).astype(np.float32), random.normal(size=weight_shape).astype(np.float32)
    x = layout(x)
    out = convolutions_cpu.conv_forward(x, weight, None, *options)
    gx = convolutions_cpu.conv_input_gradient(out, weight, None, x.shape, *options)
    for n in range(len(x)):
        assert (convolutions_cpu.conv_forward(x[n : n + 1], weight, None, *options)[0] == out[n]).all()
        alone = convolutions_cpu.conv_input_gradient(out[n : n + 1], weight, None, (1, *x.shape[1:]), *options)
        assert (alone[0] == gx[n]).all()


def test_layout_of_results_is_that_of_inputs():
    case = ((2, 8, 9, 9), (16, 8, 3, 3), (1, 1), (1, 1), (1, 1), 1)
    for result in all_three(case)[:2]:
        assert result.flags.c_contiguous
    for result in all_three(case, layout=last)[:2]:
        assert np.moveaxis(result, 1, -1).flags.c_contiguous


@pytest.mark.parametrize("place", [(0, 0), (3, 9), (8, 4)])
@pytest.mark.parametrize("shape", [(2, 2, 9, 10), (2, 2, 10, 16), (2, 2, 9, 5)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_where_it_belongs(shape, place, value):
    """Vectors run over gaps, and over neighbours: what is there must not reach other results."""
    options = ((1, 1), (1, 1), (1, 1), 1)
    x, weight = np.ones(shape, np.float32), np.ones((3, 2, 3, 3), np.float32)
    at = (0, 1, place[0] % shape[2], place[1] % shape[3])
    x[at] = value
    g = np.zeros((shape[0], 3, *shape[2:]), np.float32)
    g[(0, 0, *at[2:])] = 1  # only this output counts
    result = convolutions_cpu.conv_forward(x, weight, None, *options)
    with np.errstate(invalid="ignore"):
        out, _, _ = reference(x, weight, *options)
        gw = convolutions_cpu.conv_weight_gradient(x, g, weight.shape, *options)
    np.testing.assert_array_equal(np.isfinite(result), np.isfinite(out))
    assert np.isfinite(gw[:, 0]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_where_it_belongs_in_channels_last(value):
    """The last tile of a run is wider than what is left of it where channels are few."""
    options = ((1, 1), (1, 1), (1, 1), 1)
    x, weight = np.ones((2, 3, 9, 10), np.float32), np.ones((16, 3, 3, 3), np.float32)
    x[0, 1, 4, 5] = value
    x, g = last(x), np.zeros((2, 16, 9, 10), np.float32)
    g[:, :, 0, 0] = g[0, :, 4, 5] = 1
    result = convolutions_cpu.conv_forward(x, weight, None, *options)
    near = np.zeros(result.shape, bool)
    near[0, :, 3:6, 4:7] = True
    np.testing.assert_array_equal(np.isfinite(result), ~near)
    gw = convolutions_cpu.conv_weight_gradient(x, last(g), weight.shape, *options)
    assert not np.isfinite(gw[:, 1, 1, 1]).any() and np.isfinite(gw[:, ::2]).all()


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
    result = convolutions_cpu.conv_input_gradient(g, weight, None, shape, stride, padding, dilation, 2)
    expected = reference(np.zeros(shape), weight, stride, padding, dilation, 2, g)[1]
    np.testing.assert_allclose(result, expected, atol=1e-12)


def test_strided_inputs_and_nan():
    random = np.random.default_rng(9)
    x, weight = random.normal(size=(6, 7, 3, 2)).transpose(3, 2, 1, 0), random.normal(size=(3, 3, 3, 5)).T
    out = convolutions_cpu.conv_forward(x, weight[..., ::1], None, (1, 1), (1, 1), (1, 1), 1)
    np.testing.assert_allclose(out, reference(x, weight, (1, 1), (1, 1), (1, 1), 1)[0], atol=1e-12)
    spoiled = x.copy()
    spoiled[0, 0, 0, 0] = np.nan
    out = convolutions_cpu.conv_forward(spoiled, weight, None, (1, 1), (0, 0), (1, 1), 1)
    assert np.isnan(out[0, :, 0, 0]).all() and not np.isnan(out[1]).any()


FEATURES = llvmlite.binding.get_host_cpu_features()
WIDE = FEATURES.get("avx512vl", False)
HERE = FEATURES.flatten()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, features, size",
    [
        ("haswell", "+avx,+avx2,+fma", 32),
        ("generic", "", 16),
        pytest.param(
            "skylake-avx512", HERE, 64, marks=pytest.mark.skipif(not WIDE, reason="this processor has no AVX-512")
        ),
    ],
)
def test_other_processors(name, features, size):
    """The tiles of processors with other registers, in a process that compiles for such a one."""
    program = (
        "from tests.kernels.test_convolutions_cpu import *\n"
        "from dynograd.kernels.tiles import tiles_numba\n"
        f"assert tiles_numba.BYTES == {size}, tiles_numba.BYTES\n"
        "for case in ('2d all at once', 'one channel to six', 'whole vectors, stride 2', '3d', 'depthwise, six each', 'blocks that overlap'):\n"
        "    test_convolution_and_gradients(case, np.float32, 'row-major')\n"
        "    test_convolution_and_gradients(case, np.float32, 'channels last')\n"
        "for case in ('2d all at once', 'whole vectors, stride 2'):\n"
        "    test_convolution_and_gradients(case, np.float64, 'row-major')\n"
        "print('well')\n"
    )
    environment = os.environ | {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "well", done.stderr


@pytest.mark.slow
def test_second_process_compiles_nothing(tmp_path):
    program = (
        "from tests.kernels.test_convolutions_cpu import *\n"
        "from dynograd.kernels.build import kernel_cache\n"
        "threads.set_num_threads(2)\n"
        "print([float(abs(result).sum()) for result in all_three(PARALLEL['images'])])\n"
        "print(kernel_cache.statistics()['compiled'])\n"
    )
    environment = os.environ | {"DYNOGRAD_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600)
        for _ in range(2)
    )
    assert second.stdout, second.stderr
    assert first.stdout.split("\n")[0] == second.stdout.split("\n")[0]
    assert int(first.stdout.split()[-1]) > 0 and int(second.stdout.split()[-1]) == 0
