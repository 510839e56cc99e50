"""Losses on the GPU against their CPU twins."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.kernels.loss import losses_cpu, losses_cuda
from dynograd.kernels.rows import row_programs_cuda
from tests.gpu.twins import compared, near, on_device
from tests.gpu.values import numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)
SHAPES = [
    ((5, 7), (5,)),
    ((7,), ()),
    ((3, 4, 6), (3, 6)),
    ((2, 5, 2, 3), (2, 2, 3)),
    ((1, 3), (1,)),
    ((4, 3, 1), (4, 1)),
]
OPTIONS = [(False, 0.0), (True, 0.0), (False, 0.2), (True, 0.2)]


def scores_and_labels(shape, target, kind="float32"):
    classes = shape[min(1, len(shape) - 1)]
    labels = numpy.asarray(numpy.random.default_rng(1).integers(0, classes, target))
    return (numbers(0, shape) * 3).astype(kind), labels


def class_weights(weighted, classes, kind):
    return numpy.linspace(0.2, 2, classes).astype(kind) if weighted else None


def both(name, *arguments):
    """What both kernels return: (loss, ...)."""
    expected = getattr(losses_cpu, name)(*arguments)
    return getattr(losses_cuda, name)(*[on_device(argument) for argument in arguments]), expected


@pytest.mark.parametrize(("shape", "target"), SHAPES, ids=str)
@pytest.mark.parametrize(("weighted", "smoothing"), OPTIONS)
def test_cross_entropy(shape, target, weighted, smoothing):
    for kind in ("float32", "float64") if smoothing == 0.2 else ("float32", bfloat16):
        x, labels = scores_and_labels(shape, target, kind)
        weight = class_weights(weighted, shape[min(1, len(shape) - 1)], kind)
        for reduction in ("none", "mean", "sum"):
            result, expected = both("cross_entropy_forward", x, labels, weight, -100, smoothing, reduction)
            near(result[0], numpy.asarray(expected[0]))
            near(result[1].reshape((labels.size, 2)), expected[1].reshape(2, -1).T)
            assert result[3] is None
            g = numbers(2, target).astype(kind) if reduction == "none" else numpy.asarray(1.5, kind)
            options = weight, -100, smoothing, reduction
            gx = losses_cpu.cross_entropy_backward(g, x, labels, expected[1], expected[2], *options)
            mine = [on_device(element) for element in (g, x, labels)]
            weight_there = on_device(weight)
            created = losses_cuda.cross_entropy_backward(*mine, result[1], result[2], weight_there, *options[1:])
            assert created.dtype == gx.dtype
            near(created, gx)


def test_cross_entropy_of_many_classes(monkeypatch):
    """Rows longer than a tile."""
    monkeypatch.setattr(losses_cuda, "_TILE", 32)
    for shape, target in [((2, 150), (2,)), ((2, 20, 3), (2, 3))]:
        x, labels = scores_and_labels(shape, target)
        x[0, :10] = -numpy.inf
        x.reshape(shape[0], shape[1], -1)[0, labels.reshape(shape[0], -1)[0, 0], 0] = 0.5
        x.reshape(shape[0], shape[1], -1)[0, 12:, :] = 0.25
        result, expected = both("cross_entropy_forward", x, labels, None, -100, 0.0, "mean")
        near(result[0], numpy.asarray(expected[0]))
        near(result[1].reshape((labels.size, 2)), expected[1].reshape(2, -1).T)
        gx = losses_cpu.cross_entropy_backward(
            numpy.float32(1), x, labels, expected[1], expected[2], None, -100, 0.0, "mean"
        )
        mine = [on_device(element) for element in (numpy.float32(1), x, labels)]
        near(losses_cuda.cross_entropy_backward(*mine, result[1], result[2], None, -100, 0.0, "mean"), gx)


def test_ignored_and_infinite():
    x, labels = scores_and_labels((6, 5), (6,))
    x[1], x[2, 2], x[3, 1] = -numpy.inf, numpy.inf, numpy.nan
    x[4, (labels[4] + 1) % 5] = -numpy.inf
    labels[0] = 2
    for ignored in (2, -100):
        result, expected = both("cross_entropy_forward", x, labels, None, ignored, 0.0, "none")
        near(result[0], expected[0])
    for labels in (numpy.full(6, 2),):
        result, _ = both("cross_entropy_forward", x, labels, None, 2, 0.0, "mean")
        assert numpy.isnan(result[0].numpy())
        result, _ = both("nll_loss_forward", x, labels, None, 2, "mean")
        assert numpy.isnan(result[0].numpy())


def test_many_rows(monkeypatch):
    """More losses than one program adds."""
    monkeypatch.setattr(losses_cuda, "_ONE_PROGRAM", 100)
    x, labels = scores_and_labels((4100, 2), (4100,))
    weight = class_weights(True, 2, "float32")
    for name, options in (("cross_entropy_forward", (-100, 0.0, "mean")), ("nll_loss_forward", (-100, "mean"))):
        result, expected = both(name, x, labels, weight, *options)
        near(result[0], numpy.asarray(expected[0]))


@pytest.mark.parametrize(("shape", "target"), SHAPES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_nll(shape, target, weighted):
    for kind in ("float32", "float64", bfloat16):
        x, labels = scores_and_labels(shape, target, kind)
        ignored = int(labels.reshape(-1)[0]) if labels.size > 1 else -100
        weight = class_weights(weighted, shape[min(1, len(shape) - 1)], kind)
        for reduction in ("none", "mean", "sum"):
            result, expected = both("nll_loss_forward", x, labels, weight, ignored, reduction)
            near(result[0], numpy.asarray(expected[0]))
            g = numbers(2, target).astype(kind) if reduction == "none" else numpy.asarray(1.5, kind)
            gx = losses_cpu.nll_loss_backward(g, x, labels, expected[1], weight, ignored, reduction)
            mine = [on_device(element) for element in (g, x, labels)]
            created = losses_cuda.nll_loss_backward(*mine, result[1], on_device(weight), ignored, reduction)
            assert created.dtype == gx.dtype
            near(created, gx)


@pytest.mark.parametrize("shape", [(3, 70), (2, 5, 6), (90,)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_distribution_entropy(shape, weighted, monkeypatch):
    for kept in (row_programs_cuda._HELD, 16):
        monkeypatch.setattr(row_programs_cuda, "_HELD", kept)
        x, wanted_shares = numbers(0, shape), numpy.abs(numbers(1, shape))
        weight = class_weights(weighted, shape[min(1, len(shape) - 1)], "float32")
        result, expected = compared("losses", "distribution_entropy_forward", x, wanted_shares, weight)
        g = numbers(2, expected[0].shape)
        compared("losses", "distribution_entropy_backward", g, x, wanted_shares, weight, *expected[1:])
        assert len(result) == 3


PAIRED = [
    ("mse", 0.0), ("l1", 0.0), ("smooth_l1", 0.7), ("huber", 0.7), ("binary_cross_entropy_with_logits", 0.0),
    ("binary_cross_entropy", 0.0), ("kl_div", 0.0), ("kl_div_of_logarithms", 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameter"), PAIRED)
def test_paired(name, parameter):
    for size, kind in ((5, "float32"), (3000, "float32"), (60, bfloat16)):
        x, t = numbers(0, (size,)), numpy.abs(numbers(1, (size,)))
        if name == "binary_cross_entropy":
            x, t = (numpy.clip(numpy.abs(tensor), 0.01, 0.99) for tensor in (x, t))
        x, t = x.astype(kind), t.astype(kind)
        for reduction in ("mean", "sum"):
            compared("paired_losses", "loss_forward", name, x, t, parameter, reduction)
        g = numpy.asarray(1.5, kind)
        compared("paired_losses", "loss_backward", name, g, x, t, parameter, "mean", loose=3)


def test_pays():
    x = on_device(numbers(0, (3, 4)))
    from dynograd.kernels.loss.paired_losses_cuda import pays

    assert pays(x, x)
    assert not pays(x, on_device(numbers(0, (4,))))
    assert not pays(x, on_device(numbers(0, (3, 4), "float64")))
