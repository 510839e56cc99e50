"""Layers that draw, on ragged rows in training: what is dropped together, what is scaled, and that gradients see the same draw."""

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.nn import functional as F

LENGTHS = [5, 0, 9, 1, 7]
SIZES = [(6, 5), (4, 7), (6, 5), (6, 5), (2, 9)]


def rows():
    return dynograd.ragged_tensor(
        [dynograd.ones(16, length, dtype=dynograd.float64) for length in LENGTHS], ragged_dims=2
    )


def images(*more):
    return dynograd.ragged_tensor([dynograd.ones(16, *more, *size, dtype=dynograd.float64) for size in SIZES])


CHANNELS = [
    (nn.Dropout1d, rows),
    (nn.Dropout2d, images),
    (nn.Dropout3d, lambda: images(2)),
    (nn.FeatureAlphaDropout, images),
    (nn.FeatureAlphaDropout, rows),
]


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(("kind", "make"), CHANNELS)
def test_channels_are_dropped_as_a_whole_in_each_row(kind, make, inplace):
    dynograd.manual_seed(1)
    x = make()
    y = kind(0.5, inplace)(x.clone() if inplace else x)
    kept = []
    for row in y.unbind():
        flat = row.flatten(1)
        if flat.shape[1]:
            assert (flat == flat[:, :1]).all()
            kept.append(tuple(flat[:, 0].tolist()))
    assert all(len(set(element)) == 2 for element in kept)  # some of 16 channels go, some stay
    assert len(set(kept)) == len(kept)  # each row has a draw of its own
    if kind is not nn.FeatureAlphaDropout:
        assert {value for element in kept for value in element} == {0.0, 2.0}


@pytest.mark.parametrize("kind", [nn.Dropout, nn.AlphaDropout, nn.RReLU])
@pytest.mark.parametrize("make", [rows, images])
def test_elements_are_drawn_one_by_one(kind, make):
    dynograd.manual_seed(1)
    y = (kind() if kind is nn.RReLU else kind(0.5))(-make())
    values = y.values()
    assert len(set(values.flatten().tolist())) > 1
    assert numpy.ndim(values) and y.shape == make().shape


@pytest.mark.parametrize(("kind", "make"), [*CHANNELS, (nn.Dropout, rows), (nn.Dropout, images)])
def test_the_gradient_is_that_of_the_same_draw(kind, make):
    x = make().requires_grad_()
    y = kind(0.5)(x)
    (g,) = dynograd.autograd.grad(y.sum(), x, create_graph=True)
    slopes = (y - y.detach() + g).values() if kind is nn.FeatureAlphaDropout else y.values()
    assert numpy.allclose(g.values().detach(), slopes.detach())
    (g * x).sum().backward()


def test_dropout_with_a_residual():
    x = rows()
    y = F.dropout(x, 0.5) + x
    assert set(y.values().flatten().tolist()) == {1.0, 3.0}
