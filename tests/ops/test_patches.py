"""Windows as columns, and back."""

import numpy

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate


def pair(value):
    return (value, value) if isinstance(value, int) else value


def grid(sizes, kernel, dilation, padding, stride):
    return [
        range(-p, size + p - d * (k - 1), s)
        for size, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]


def places(sizes, kernel_size, dilation, padding, stride):
    """(column, number of the tap, row, column of the image) of everything inside the image."""
    kernel, dilation, padding, stride = map(pair, (kernel_size, dilation, padding, stride))
    tops, lefts = grid(sizes, kernel, dilation, padding, stride)
    for window, (top, left) in enumerate((top, left) for top in tops for left in lefts):
        for tap in range(kernel[0] * kernel[1]):
            row, column = top + tap // kernel[1] * dilation[0], left + tap % kernel[1] * dilation[1]
            yield window, tap, row, column, 0 <= row < sizes[0] and 0 <= column < sizes[1]


def np_unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    if input.ndim == 3:
        return np_unfold(input[None], kernel_size, dilation, padding, stride)[0]
    results = list(places(input.shape[2:], kernel_size, dilation, padding, stride))
    taps, windows = results[-1][1] + 1, results[-1][0] + 1
    out = numpy.zeros((*input.shape[:2], taps, windows))
    for window, tap, row, column, inside in results:
        if inside:
            out[:, :, tap, window] = input[:, :, row, column]
    return out.reshape(len(input), input.shape[1] * taps, windows)


def np_fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    if input.ndim == 2:
        return np_fold(input[None], output_size, kernel_size, dilation, padding, stride)[0]
    results = list(places(output_size, kernel_size, dilation, padding, stride))
    taps = results[-1][1] + 1
    values = input.reshape(len(input), input.shape[1] // taps, taps, input.shape[-1])
    out = numpy.zeros((*values.shape[:2], *output_size))
    for window, tap, row, column, inside in results:
        if inside:
            out[:, :, row, column] += values[:, :, tap, window]
    return out


x, c = dynograd.zeros(1, 2, 4, 5), dynograd.zeros(1, 8, 12)
WINDOW = {"kernel_size": (2, 3), "dilation": (1, 2), "padding": 1, "stride": (2, 1)}
ROWS = [
    Row(
        "im2col",
        np_unfold,
        shapes=[(2, 2, 4, 5)],
        kwargs=WINDOW,
        ones=False,
        covers=["columns_of_patches"],
        errors=[
            error(lambda op: op(x, 9), RuntimeError, "unfold", "(4, 5)", "(9, 9)", "(-4, -3)", "at least one"),
            error(lambda op: op(x[0, 0], 2), RuntimeError, "unfold", "3D or 4D", "[4, 5]"),
            error(lambda op: op(x, 0), RuntimeError, "non-positive kernel_size", "[0, 0]"),
        ],
    ),
    Row("im2col", np_unfold, shapes=[(2, 4, 5)], kwargs={"kernel_size": 2}, id="single", ones=False, empty=False),
    Row(
        "nn.functional.fold",
        np_fold,
        shapes=[(2, 12, 9)],
        kwargs={"output_size": (4, 5), "kernel_size": (2, 3), "dilation": (1, 2), "padding": 1, "stride": (2, 1)},
        ones=False,
        covers=["patches_of_columns"],
        tolerance=2,
        errors=[
            error(lambda op: op(c, (4, 5), 3), RuntimeError, "fold", "divisible by the product of kernel_size", "=8", "(3, 3)"),
            error(lambda op: op(c, (4, 6), 2), RuntimeError, "fold", "3 * 5 = 15", "input.size(2)=12"),
            error(lambda op: op(c[0, 0], (4, 5), 2), RuntimeError, "2D or 3D", "[12]"),
        ],
    ),
    Row("nn.functional.fold", np_fold, shapes=[(8, 12)], kwargs={"output_size": (4, 5), "kernel_size": 2}, id="single", ones=False, empty=False),
]  # fmt: skip
test_rows = generate(ROWS)


def test_folding_the_columns_counts_how_often_each_place_is_seen():
    x = dynograd.ones(1, 1, 3, 3)
    assert F.fold(F.unfold(x, 2), (3, 3), 2).tolist() == [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]


def test_convolution_is_a_product_with_the_columns():
    x, w = dynograd.randn(2, 3, 5, 4), dynograd.randn(6, 3, 2, 2)
    columns = F.unfold(x, 2, stride=2, padding=1)
    expected = F.conv2d(x, w, stride=2, padding=1)
    result = (w.reshape(6, -1) @ columns).reshape(expected.shape)
    numpy.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
