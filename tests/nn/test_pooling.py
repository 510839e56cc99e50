"""Pooling layers. See `rows.py`."""

from __future__ import annotations

import numpy

import dynograd as dg
from dynograd import nn
from tests.nn.references import np_pool, np_windows
from tests.nn.rows import Row, error, generate

IMAGES = {1: (2, 3, 6), 2: (2, 3, 4, 6), 3: (1, 2, 4, 4, 3)}
RANKS = (1, 2, 3)


def average_with_real_count(p, x):
    ones = np_windows(numpy.ones_like(x), 2, 2, 1)
    return np_windows(x, 2, 2, 1).sum(-1) / ones.sum(-1)


ROWS = [
    Row(f"MaxPool{rank}d", (2,), shapes=[IMAGES[rank]], reference=lambda p, x: np_windows(x, 2).max(-1),
        text=f"MaxPool{rank}d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)")
    for rank in RANKS
]  # fmt: skip
ROWS += [
    Row(f"AvgPool{rank}d", (2,), shapes=[IMAGES[rank]], reference=lambda p, x: np_windows(x, 2).mean(-1),
        text=f"AvgPool{rank}d(kernel_size={2 if rank > 1 else (2,)}, stride={2 if rank > 1 else (2,)}, padding={0 if rank > 1 else (0,)})")
    for rank in RANKS
]  # fmt: skip
ROWS += [
    Row(f"LPPool{rank}d", (2, 2), shapes=[IMAGES[rank]], reference=lambda p, x: numpy.sqrt((np_windows(x, 2) ** 2).sum(-1)),
        text=f"LPPool{rank}d(norm_type=2, kernel_size=2, stride=None, ceil_mode=False)", domain=(0.1, 2))
    for rank in RANKS
]  # fmt: skip
ROWS += [
    Row(f"AdaptiveAvgPool{rank}d", (2,), shapes=[IMAGES[rank]], reference=lambda p, x: np_pool(x, 2, numpy.mean),
        text=f"AdaptiveAvgPool{rank}d(output_size=2)")
    for rank in RANKS
]  # fmt: skip
ROWS += [
    Row(f"AdaptiveMaxPool{rank}d", (2,), shapes=[IMAGES[rank]], reference=lambda p, x: np_pool(x, 2, numpy.max),
        text=f"AdaptiveMaxPool{rank}d(output_size=2)")
    for rank in RANKS
]  # fmt: skip
ROWS += [
    Row("MaxPool2d", (3, 2), {"padding": 1, "dilation": (1, 2)}, [IMAGES[2]], id="options",
        reference=lambda p, x: np_windows(x, 3, 2, 1, -numpy.inf, (1, 2)).max(-1),
        text="MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=(1, 2), ceil_mode=False)",
        errors=[
            error(lambda layer: layer(dg.zeros(2)), RuntimeError, "max_pool2d", "(2,)"),
            error(lambda layer: nn.MaxPool2d(2, padding=2)(dg.zeros(1, 1, 4, 4)), RuntimeError, "max_pool2d", "pad=2"),
        ]),
    Row("MaxPool2d", (2,), {"ceil_mode": True}, [(1, 1, 3, 3)], out=(1, 1, 2, 2), id="ceil",
        reference=lambda p, x: np_windows(numpy.pad(x, [(0, 0)] * 2 + [(0, 1)] * 2, constant_values=-9), 2).max(-1)),
    Row("MaxPool1d", (2,), shapes=[(3, 4)], reference=lambda p, x: x.reshape(3, 2, 2).max(-1), id="single"),
    Row("AvgPool2d", (2, 2, 1), shapes=[IMAGES[2]], reference=lambda p, x: np_windows(x, 2, 2, 1).mean(-1), id="padded",
        text="AvgPool2d(kernel_size=2, stride=2, padding=1)"),
    Row("AvgPool2d", (2, 2, 1), {"count_include_pad": False}, [IMAGES[2]], reference=average_with_real_count, id="real count"),
    Row("AvgPool2d", (2,), {"divisor_override": 3}, [IMAGES[2]], reference=lambda p, x: np_windows(x, 2).sum(-1) / 3, id="divisor",
        errors=[error(lambda layer: nn.AvgPool2d(2, divisor_override=0)(dg.zeros(1, 1, 4, 4)), RuntimeError, "divisor")]),
    Row("AdaptiveAvgPool2d", ((None, 5),), shapes=[IMAGES[2]], reference=lambda p, x: np_pool(x, (4, 5), numpy.mean), id="mixed",
        text="AdaptiveAvgPool2d(output_size=(None, 5))"),
    Row("AdaptiveAvgPool2d", (1,), shapes=[IMAGES[2]], reference=lambda p, x: x.mean((2, 3), keepdims=True), id="one"),
]  # fmt: skip

test_rows = generate(ROWS)


def test_unpool_puts_maxima_back():
    for rank in RANKS:
        x = dg.rand(2, 3, 4, 6, 2)[(..., *[0] * (3 - rank))] + 1
        pool = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)
        unpool = getattr(nn, f"MaxUnpool{rank}d")(2)
        values, indices = pool(x)
        back = unpool(values, indices, x.shape)
        assert back.shape == x.shape
        assert dg.equal(pool(back)[0], values) and int((back != 0).sum()) == values.numel()
        assert (
            repr(unpool) == f"MaxUnpool{rank}d(kernel_size={(2,) * rank}, stride={(2,) * rank}, padding={(0,) * rank})"
        )


def test_unpool_takes_the_size_that_pooling_rounded_away():
    values, indices = nn.MaxPool2d(2, return_indices=True)(dg.rand(1, 1, 5, 5))
    assert nn.MaxUnpool2d(2)(values, indices, output_size=(5, 5)).shape == (1, 1, 5, 5)


def test_adaptive_max_pool_returns_indices():
    x = dg.tensor([[[1.0, 5.0, 2.0, 7.0]]])
    values, indices = nn.AdaptiveMaxPool1d(2, return_indices=True)(x)
    assert values.tolist() == [[[5, 7]]] and indices.tolist() == [[[1, 3]]]
