"""Pooling over windows and back."""

import itertools
import math

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import FLOATS, INTEGERS, Row, error, generate


def spread(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def starts_of(size, k, s, p, d, ceil_mode):
    """First places of the windows along one dim; one that begins beyond the input and its left padding does not count."""
    starts = []
    place = -p
    while place + d * (k - 1) < size + p or (ceil_mode and place < size and place - s + d * (k - 1) < size + p - 1):
        if place + d * (k - 1) >= size + p and not ceil_mode:
            break
        starts.append(place)
        place += s
    return starts


def flat(values, rank):
    """The last `rank` dims as one."""
    return values.reshape(*values.shape[:-rank], math.prod(values.shape[-rank:]))


def windows_of(input, rank, kernel_size, stride, padding, dilation, ceil_mode):
    """(index of the output place, places of each dim inside the input, places counted with padding) of every window."""
    taps, padding, dilation = spread(kernel_size, rank), spread(padding, rank), spread(dilation, rank)
    steps = taps if stride is None else spread(stride, rank)
    sizes = input.shape[-rank:]
    grids = [starts_of(*size, ceil_mode) for size in zip(sizes, taps, steps, padding, dilation, strict=True)]
    for where in itertools.product(*[range(len(grid)) for grid in grids]):
        inside, counted = [], 1
        for grid, number, size, k, p, d in zip(grids, where, sizes, taps, padding, dilation, strict=True):
            places = [grid[number] + tap * d for tap in range(k)]
            inside.append([place for place in places if 0 <= place < size])
            counted *= sum(place < size + p for place in places)
        yield tuple(len(grid) for grid in grids), where, inside, counted


def np_max_pool(rank):
    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        out = index = None
        for shape, where, inside, _ in windows_of(input, rank, kernel_size, stride, padding, dilation, ceil_mode):
            if out is None:
                out = numpy.empty((*input.shape[:-rank], *shape), input.dtype)
                index = numpy.empty(out.shape, numpy.int64)
            values = flat(input[(..., *numpy.ix_(*inside))], rank)
            places = (
                numpy.arange(input[(0,) * (input.ndim - rank)].size)
                .reshape(input.shape[-rank:])[numpy.ix_(*inside)]
                .reshape(-1)
            )
            out[(..., *where)] = values.max(-1)
            index[(..., *where)] = places[values.argmax(-1)]
        return (out, index) if return_indices else out

    return pool


def np_avg_pool(rank):
    def pool(
        input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        out = None
        for shape, where, inside, counted in windows_of(input, rank, kernel_size, stride, padding, 1, ceil_mode):
            if out is None:
                out = numpy.empty((*input.shape[:-rank], *shape))
            values = flat(input[(..., *numpy.ix_(*inside))], rank)
            divisor = divisor_override or (counted if count_include_pad else values.shape[-1])
            out[(..., *where)] = values.sum(-1) / divisor
        return out

    return pool


def np_adaptive(rank, reduce):
    def pool(input, output_size, return_indices=False):
        sizes = input.shape[-rank:]
        counts = [size if n is None else n for n, size in zip(spread(output_size, rank), sizes, strict=True)]
        out = numpy.empty((*input.shape[:-rank], *counts), input.dtype)
        for where in itertools.product(*map(range, counts)):
            place = [
                slice(i * size // n, -(-(i + 1) * size // n)) for i, size, n in zip(where, sizes, counts, strict=True)
            ]
            out[(..., *where)] = reduce(flat(input[(..., *place)], rank), -1)
        return out

    return pool


def np_lp_pool(rank):
    def pool(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        taps = numpy.prod(spread(kernel_size, rank))
        return (np_avg_pool(rank)(input**norm_type, kernel_size, stride, 0, ceil_mode) * taps) ** (1 / norm_type)

    return pool


def np_unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    out = numpy.zeros((*input.shape[:-2], output_size[0] * output_size[1]))
    for where in numpy.ndindex(input.shape):
        out[(*where[:-2], indices[where])] = input[where]
    return out.reshape(*input.shape[:-2], *output_size)


def distinct(*shape):
    """Values in random order, so far apart that differences do not change which one is largest."""
    return lambda rng: [rng.permutation(int(numpy.prod(shape))).reshape(shape) / 7 - 2]


zeros = dynograd.zeros
x = zeros(2, 3, 5, 6)


def window_errors(who):
    return [
        error(lambda op: op(x, 7), RuntimeError, who, "(2, 3, 5, 6)", "(0, 0)", "too small"),
        error(lambda op: op(zeros(5, 6), 2), RuntimeError, who, "3D or 4D", "(5, 6)"),
        error(lambda op: op(x, 2, padding=2), RuntimeError, who, "at most half", "pad=2", "kernel_size=2"),
        error(lambda op: op(x, 2, stride=0), RuntimeError, who, "non-positive stride", "[0, 0]"),
        error(lambda op: op(x, (2, 2, 2)), RuntimeError, who, "kernel_size", "list of 2 values"),
    ]


MAX_WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (2, 3), "stride": (1, 2), "ceil_mode": True},
    {"kernel_size": 2, "dilation": 2, "return_indices": True},
]
AVG_WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (2, 3), "stride": (1, 2), "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 2, "divisor_override": 3},
]
MAX_OPS = ["max_pool", "max_pool_places", "max_pool_values"]

ROWS = [
    *[
        Row(
            "nn.functional.max_pool2d",
            np_max_pool(2),
            args=distinct(2, 2, 5, 6),
            kwargs=kwargs,
            id=str(kwargs),
            dtypes=FLOATS + INTEGERS,
            result=("same", "int64") if "return_indices" in kwargs else (lambda name: name),
            covers=MAX_OPS,
            errors=window_errors("max_pool2d") if number == 0 else (),
        )
        for number, kwargs in enumerate(MAX_WINDOWS)
    ],
    Row("nn.functional.max_pool2d", np_max_pool(2), args=distinct(2, 5, 6), kwargs={"kernel_size": 2}, id="single"),
    Row("nn.functional.max_pool1d", np_max_pool(1), args=distinct(2, 3, 7), kwargs={"kernel_size": 3, "stride": 2, "padding": 1}),
    Row("nn.functional.max_pool3d", np_max_pool(3), args=distinct(1, 2, 4, 3, 3), kwargs={"kernel_size": 2, "stride": (2, 1, 1)}),
    *[
        Row(
            "nn.functional.avg_pool2d",
            np_avg_pool(2),
            shapes=[(2, 2, 5, 6)],
            kwargs=kwargs,
            id=str(kwargs),
            ones=False,
            covers=["avg_pool", "avg_pool_backward"],
            errors=[
                *window_errors("avg_pool2d"),
                error(lambda op: op(x, 2, divisor_override=0), RuntimeError, "divisor must be not zero"),
                error(lambda op: op(x.int(), 2), RuntimeError, "avg_pool2d", "int32"),
            ]
            if number == 0
            else (),
        )
        for number, kwargs in enumerate(AVG_WINDOWS)
    ],
    Row("nn.functional.avg_pool1d", np_avg_pool(1), shapes=[(3, 7)], kwargs={"kernel_size": 3, "stride": 2, "padding": 1}, ones=False),
    Row("nn.functional.avg_pool3d", np_avg_pool(3), shapes=[(1, 2, 4, 3, 3)], kwargs={"kernel_size": 2, "stride": (2, 1, 1)}, ones=False),
    Row(
        "nn.functional.adaptive_avg_pool2d",
        np_adaptive(2, numpy.mean),
        shapes=[(2, 2, 5, 6)],
        kwargs={"output_size": (2, None)},
        covers=["adaptive_avg_pool", "adaptive_avg_pool_backward"],
        ones=False,
        errors=[
            error(lambda op: op(zeros(5, 6), 2), RuntimeError, "adaptive_avg_pool2d", "3D or 4D", "(5, 6)"),
            error(lambda op: op(x, -2), RuntimeError, "greater than or equal to 0", "(-2, -2)"),
            error(lambda op: op(x, (1, 2, 3)), RuntimeError, "2 numbers", "(1, 2, 3)"),
            error(lambda op: op(zeros(1, 2, 0, 3), 2), RuntimeError, "non-zero size", "(1, 2, 0, 3)"),
            error(lambda op: op(x.long(), 2), RuntimeError, "int64"),
        ],
    ),
    Row("nn.functional.adaptive_avg_pool2d", np_adaptive(2, numpy.mean), shapes=[(2, 2, 3, 3)], kwargs={"output_size": 1}, id="global"),
    Row("nn.functional.adaptive_avg_pool1d", np_adaptive(1, numpy.mean), shapes=[(2, 3, 7)], kwargs={"output_size": 4}),
    Row("nn.functional.adaptive_avg_pool3d", np_adaptive(3, numpy.mean), shapes=[(1, 2, 3, 3, 4)], kwargs={"output_size": (2, 1, 3)}, ones=False),
    Row(
        "nn.functional.adaptive_max_pool2d",
        np_adaptive(2, numpy.max),
        args=distinct(2, 2, 5, 6),
        kwargs={"output_size": (2, None)},
        covers=["adaptive_max_pool", "adaptive_max_pool_places"],
        errors=[error(lambda op: op(zeros(1, 2, 0, 3), 2), RuntimeError, "non-zero size", "(1, 2, 0, 3)")],
    ),
    Row("nn.functional.adaptive_max_pool1d", np_adaptive(1, numpy.max), args=distinct(2, 3, 7), kwargs={"output_size": 4}),
    Row("nn.functional.adaptive_max_pool3d", np_adaptive(3, numpy.max), args=distinct(1, 2, 3, 3, 4), kwargs={"output_size": (2, 1, 3)}),
    *[
        Row(
            f"nn.functional.lp_pool{rank}d",
            np_lp_pool(rank),
            shapes=[(2, 2, *(5, 4, 3)[:rank])],
            kwargs={"norm_type": 3, "kernel_size": 2, "stride": 1},
            domain=(0.5, 2),
            tolerance=3,
            ones=False,
        )
        for rank in (1, 2, 3)
    ],
    Row(
        "nn.functional.max_unpool2d",
        np_unpool,
        args=lambda rng: [rng.normal(size=(2, 2, 2)), numpy.array([[[0, 3], [13, 15]], [[1, 2], [9, 19]]]), 2],
        kwargs={"output_size": (4, 5)},
        covers=["max_unpool"],
        errors=[
            error(lambda op: op(zeros(1, 2, 2), dynograd.full((1, 2, 2), 99), 2), RuntimeError, "invalid max index: 99", "[0, 0, 0]", "16 places"),
            error(lambda op: op(zeros(1, 2, 2), zeros(1, 2, 1).long(), 2), RuntimeError, "(1, 2, 2)", "(1, 2, 1)"),
            error(lambda op: op(zeros(1, 2, 2), zeros(1, 2, 2), 2), RuntimeError, "int64", "float32"),
            error(lambda op: op(zeros(1, 2, 2), zeros(1, 2, 2).long(), 2, output_size=(9, 9)), ValueError, "invalid output_size", "[9, 9]"),
            error(lambda op: op(zeros(1, 2, 2), zeros(1, 2, 2).long(), 2, output_size=(4,)), ValueError, "2 or 4 elements", "'1'"),
        ],
    ),
    *[
        Row(
            f"nn.functional.max_unpool{rank}d",
            lambda x, i, k: i * 0.0 + x,
            args=lambda rng, r=rank: [rng.normal(size=(2, *(2,) * r)), numpy.arange(2**r).reshape((1, *(2,) * r)).repeat(2, 0), 1],
            id="same-place",
        )
        for rank in (1, 2, 3)
    ],
]  # fmt: skip
test_rows = generate(ROWS)


def test_unpooling_undoes_pooling_up_to_zeros():
    x = dynograd.arange(16.0).reshape(1, 1, 4, 4)
    values, indices = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(values, indices, 2)
    assert back.nonzero().shape[0] == 4
    assert F.max_pool2d(back, 2).tolist() == values.tolist()


def test_nan_wins_and_the_first_of_equals_gets_the_gradient():
    x = dynograd.tensor([[1.0, float("nan"), 3.0, 3.0]], requires_grad=True)
    y = F.max_pool1d(x, 2)
    assert numpy.isnan(y[0, 0].item())
    y[0, 1].backward()
    assert x.grad.tolist() == [[0.0, 0.0, 1.0, 0.0]]


def test_pooled_values_may_be_overwritten_before_backward():
    x = dynograd.randn(1, 2, 4, 4, requires_grad=True)
    F.relu(F.max_pool2d(x, 2), inplace=True).sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_empty_batches_pass_through(name):
    assert getattr(F, name)(zeros(0, 3, 4, 4), 2).shape == (0, 3, 2, 2)


def test_no_largest_of_no_channel():
    for function, shape in ((F.max_pool1d, (0, 10)), (F.max_pool2d, (2, 0, 4, 4)), (F.max_pool3d, (0, 1, 2, 10))):
        with pytest.raises(RuntimeError, match=r"positive length.*\("):
            function(dynograd.zeros(shape), 1)
    assert F.max_pool2d(dynograd.zeros(0, 1, 4, 4), 2).shape == (0, 1, 2, 2)


def test_avg_pool_of_integers_rounds_towards_zero():
    x = dynograd.arange(-9, 0).reshape(1, 1, 9)
    assert F.avg_pool1d(x, 2).tolist() == [[[-8, -6, -4, -2]]]
    assert F.avg_pool1d(x, 2).dtype == dynograd.int64
    assert F.avg_pool2d(x.reshape(1, 3, 3), 2).tolist() == [[[-7]]]


@pytest.mark.parametrize("power", [1, 2, 3.0])
def test_windows_of_zeros_have_no_slope_in_power_pooling(power):
    x = dynograd.tensor([[[0.0, 0.0, 1.0, 2.0]]], requires_grad=True)
    dynograd.nn.functional.lp_pool1d(x, power, 2).sum().backward()
    assert x.grad[0, 0, :2].tolist() == [0, 0]
    assert x.grad[0, 0, 2:].min() > 0
