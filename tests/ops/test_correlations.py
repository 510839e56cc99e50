"""Convolution, its transpose, and the ops behind both: each is the other's gradient, and theirs too."""

import itertools

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from dynograd.ops.conv.correlations import correlate, correlate_back, correlate_weight
from tests.ops.harness import Row, error, generate


def spread(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def np_conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Tap by tap of the kernel."""
    rank = weight.ndim - 2
    single = input.ndim == rank + 1
    input = input[None] if single else input
    stride, dilation = spread(stride, rank), spread(dilation, rank)
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        sides = [(total // 2, total - total // 2) for total in totals]
    else:
        sides = [(p, p) for p in spread(0 if padding == "valid" else padding, rank)]
    x = numpy.pad(input, [(0, 0), (0, 0), *sides])
    sizes = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(x.shape[2:], weight.shape[2:], stride, dilation, strict=True)
    ]
    out = numpy.zeros((len(x), len(weight), *sizes))
    step_in, step_out = x.shape[1] // groups, len(weight) // groups
    for group, tap in itertools.product(range(groups), itertools.product(*map(range, weight.shape[2:]))):
        place = [
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilation, sizes, stride, strict=True)
        ]
        window = x[(slice(None), slice(group * step_in, (group + 1) * step_in), *place)]
        filters = weight[(slice(group * step_out, (group + 1) * step_out), slice(None), *tap)]
        out[:, group * step_out : (group + 1) * step_out] += numpy.einsum("nc...,oc->no...", window, filters)
    if bias is not None:
        out += bias.reshape(-1, *[1] * rank)
    return out[0] if single else out


def np_conv_transpose(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Every input place adds its kernel to the output."""
    rank = weight.ndim - 2
    single = input.ndim == rank + 1
    input = input[None] if single else input
    stride, padding, extra, dilation = (
        spread(element, rank) for element in (stride, padding, output_padding, dilation)
    )
    full = [
        (n - 1) * s + d * (k - 1) + 1 + o
        for n, s, d, k, o in zip(input.shape[2:], stride, dilation, weight.shape[2:], extra, strict=True)
    ]
    step_in, step_out = len(weight) // groups, weight.shape[1]
    out = numpy.zeros((len(input), step_out * groups, *full))
    for group, tap in itertools.product(range(groups), itertools.product(*map(range, weight.shape[2:]))):
        place = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, input.shape[2:], stride, strict=True)
        ]
        values = input[:, group * step_in : (group + 1) * step_in]
        filters = weight[(slice(group * step_in, (group + 1) * step_in), slice(None), *tap)]
        target = out[(slice(None), slice(group * step_out, (group + 1) * step_out), *place)]
        target += numpy.einsum("nc...,co->no...", values, filters)
    out = out[(slice(None), slice(None), *[slice(p, size - p) for p, size in zip(padding, full, strict=True)])]
    if bias is not None:
        out = out + bias.reshape(-1, *[1] * rank)
    return out[0] if single else out


zeros = dynograd.zeros
x, w = zeros(2, 3, 5, 5), zeros(4, 3, 2, 2)
CONV_ERRORS = [
    error(
        lambda op: op(zeros(2, 5, 5, 5), w),
        RuntimeError,
        "conv2d",
        "groups=1",
        "[4, 3, 2, 2]",
        "[2, 5, 5, 5]",
        "3 channels",
        "got 5",
    ),
    error(lambda op: op(zeros(5, 5), w), RuntimeError, "conv2d", "3D (unbatched) or 4D (batched)", "[5, 5]"),
    error(lambda op: op(x, zeros(4, 3, 9, 2)), RuntimeError, "(5 x 5)", "(9 x 2)", "Kernel size can't be greater"),
    error(lambda op: op(x, zeros(4, 3, 2)), RuntimeError, "weight of 4 dims", "(4, 3, 2)"),
    error(lambda op: op(x, w.double()), RuntimeError, "float32", "weight type (float64)", "should be the same"),
    error(lambda op: op(x, w, zeros(4).double()), RuntimeError, "bias type (float64)"),
    error(lambda op: op(x, w, zeros(3)), RuntimeError, "expected bias to be 1-dimensional with 4 elements", "[3]"),
    error(lambda op: op(x, w, stride=0), RuntimeError, "non-positive stride", "[0, 0]"),
    error(lambda op: op(x, w, dilation=(1, 0)), RuntimeError, "non-positive dilation", "[1, 0]"),
    error(lambda op: op(x, w, padding=-1), RuntimeError, "negative padding", "[-1, -1]"),
    error(lambda op: op(x, w, padding="same", stride=2), RuntimeError, "padding='same'", "strided", "[2, 2]"),
    error(lambda op: op(x, w, padding="full"), ValueError, "'full'", "'valid', 'same'"),
    error(lambda op: op(x, w, stride=(1, 2, 3)), RuntimeError, "expected stride", "list of 2 values", "[1, 2, 3]"),
    error(lambda op: op(x, w, stride=1.5), TypeError, "stride", "1.5"),
    error(lambda op: op(x, w, groups=0), RuntimeError, "non-positive groups", "got 0"),
    error(lambda op: op(zeros(2, 9, 5, 5), w, groups=3), RuntimeError, "divisible by 3 at dimension 0", "[4, 3, 2, 2]"),
]
t = zeros(3, 4, 2, 2)
TRANSPOSE_ERRORS = [
    error(
        lambda op: op(zeros(2, 5, 5, 5), t), RuntimeError, "transposed=1", "[3, 4, 2, 2]", "to have 3 channels", "got 5"
    ),
    error(
        lambda op: op(x, t, output_padding=1),
        RuntimeError,
        "output padding must be smaller",
        "output_padding=1",
        "stride=1",
    ),
    error(lambda op: op(x, t, padding=9), RuntimeError, "(5 x 5)", "(-12 x -12)", "Output size is too small"),
    error(lambda op: op(x, t, zeros(3)), RuntimeError, "with 4 elements", "[3]"),
    error(lambda op: op(x, t, groups=2), RuntimeError, "divisible by groups=2", "3 channels"),
]
THREE = ["convolution", "convolution_input_gradient", "convolution_weight_gradient"]


def row(name, reference, shapes, id, errors=(), covers=(), **kwargs):
    return Row(
        name,
        reference,
        shapes=shapes,
        kwargs=kwargs,
        id=id,
        ones=False,
        empty=False,
        tolerance=5,
        errors=errors,
        covers=covers,
    )


ROWS = [
    row("conv1d", np_conv, [(2, 2, 6), (3, 2, 3), (3,)], "plain", covers=THREE),
    row("conv1d", np_conv, [(2, 4, 7), (6, 2, 2), (6,)], "groups", groups=2, stride=2, padding=1, dilation=2),
    row("conv1d", np_conv, [(2, 2, 6), (3, 2, 4)], "same", padding="same"),
    row("conv1d", np_conv, [(2, 6), (3, 2, 3), (3,)], "single", padding="valid"),
    row("conv1d", np_conv, [(2, 3, 6), (6, 1, 3), (6,)], "depthwise", groups=3, padding=1),
    row("conv2d", np_conv, [(2, 3, 4, 5), (2, 3, 3, 2), (2,)], "plain", CONV_ERRORS),
    row("conv2d", np_conv, [(1, 2, 5, 6), (4, 1, 2, 3)], "groups", groups=2, stride=(2, 1), padding=(0, 2), dilation=(1, 2)),
    row("conv2d", np_conv, [(2, 3, 3, 4), (2, 3, 1, 1), (2,)], "pointwise", stride=2),
    row("conv2d", np_conv, [(2, 3, 4), (2, 2, 2, 2), (2,)], "single-same", padding="same"),
    row("conv3d", np_conv, [(1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (2,)], "plain", stride=(1, 2, 1), padding=(0, 1, 0)),
    row("conv_transpose1d", np_conv_transpose, [(2, 2, 4), (2, 3, 3), (3,)], "plain"),
    row("conv_transpose1d", np_conv_transpose, [(2, 4, 4), (4, 3, 3), (6,)], "groups", groups=2, stride=3, padding=1, output_padding=2),
    row("conv_transpose1d", np_conv_transpose, [(2, 2, 4), (2, 3, 2)], "beyond", stride=2, dilation=4, output_padding=3),
    row("conv_transpose1d", np_conv_transpose, [(2, 2, 4), (2, 3, 2), (3,)], "border", dilation=3, padding=1, output_padding=2),
    row("conv_transpose2d", np_conv_transpose, [(2, 2, 3, 2), (2, 3, 2, 3), (3,)], "plain", TRANSPOSE_ERRORS, stride=2, padding=(0, 1)),
    row("conv_transpose2d", np_conv_transpose, [(2, 3, 2), (2, 3, 2, 2)], "single"),
    row("conv_transpose3d", np_conv_transpose, [(1, 2, 2, 2, 2), (2, 2, 2, 1, 2), (2,)], "plain", stride=(1, 2, 2), output_padding=(0, 1, 0)),
]  # fmt: skip
test_rows = generate(ROWS)

WINDOWS = [((1,), (0,), (1,), 1), ((2,), (1,), (2,), 2), ((3,), (2,), (1,), 1)]


@pytest.mark.parametrize("window", WINDOWS)
def test_the_three_are_one_trilinear_form(window):
    """<correlate(x, w), g> = <correlate_back(g, w), x> = <correlate_weight(x, g), w>."""
    rng = numpy.random.default_rng(0)
    groups = window[3]
    x, w = rng.normal(size=(2, 2 * groups, 9)), rng.normal(size=(2 * groups, 2, 3))
    out = correlate(x, w, None, *window)
    g = rng.normal(size=out.shape)
    value = (out * g).sum()
    assert (correlate_back(g, w, None, x.shape, *window) * x).sum() == pytest.approx(value)
    assert (correlate_weight(x, g, w.shape, *window) * w).sum() == pytest.approx(value)


def test_empty_batches_pass_through():
    x = zeros(0, 3, 5, 5, requires_grad=True)
    w = zeros(4, 3, 2, 2, requires_grad=True)
    out = F.conv2d(x, w, zeros(4))
    out.sum().backward()
    assert out.shape == (0, 4, 4, 4)
    assert x.grad.shape == x.shape
    assert not w.grad.numpy().any()


def test_same_padding_puts_the_odd_zero_behind():
    out = F.conv1d(dynograd.tensor([[[1.0, 2.0, 3.0]]]), dynograd.tensor([[[1.0, 1.0]]]), padding="same")
    assert out.tolist() == [[[3.0, 5.0, 3.0]]]


@pytest.mark.parametrize("function", [F.conv1d, F.conv_transpose1d])
def test_gradients_of_complex_convolutions(function):
    rng = numpy.random.default_rng(0)
    inputs = [dynograd.tensor(rng.normal(size=(2, *shape))).requires_grad_() for shape in ((2, 3, 5), (3, 3, 2))]

    def parts(x, w):
        return dynograd.view_as_real(function(dynograd.complex(*x), dynograd.complex(*w), stride=2))

    assert dynograd.autograd.gradcheck(parts, inputs)
    assert dynograd.autograd.gradgradcheck(parts, inputs)
