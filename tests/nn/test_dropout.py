"""A residual and a dropout in one pass, and when not."""

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.nn.layers.dropout import added


class Doubling(nn.Dropout):
    def forward(self, input):
        return input * 2


@pytest.mark.parametrize("training", [True, False])
def test_added_is_the_residual_plus_the_dropout(training):
    x, residual = dynograd.randn(20, 30), dynograd.randn(20, 30)
    for dropout in (nn.Dropout(0.4), nn.Dropout(0.0), nn.Dropout(1.0), nn.Identity(), Doubling(0.5)):
        dropout.train(training)
        dynograd.manual_seed(2)
        expected = residual + dropout(x)
        dynograd.manual_seed(2)
        numpy.testing.assert_allclose(added(residual, dropout, x).numpy(), expected.numpy(), rtol=1e-6, atol=1e-6)


def test_added_calls_a_dropout_that_somebody_watches():
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.3, batch_first=True)
    x = dynograd.randn(20, 5, 16)
    dynograd.manual_seed(1)
    alone = layer(x)
    seen = []
    layer.dropout2.register_forward_hook(lambda module, inputs, output: seen.append(tuple(output.shape)))
    dynograd.manual_seed(1)
    numpy.testing.assert_allclose(alone.detach().numpy(), layer(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert seen == [(20, 5, 16)]


@pytest.mark.parametrize("function", [nn.functional.dropout, nn.functional.dropout2d])
def test_the_order_in_memory_stays(function):
    x = dynograd.rand(2, 3, 4, 5).contiguous(memory_format=dynograd.channels_last)
    assert function(x, 0.5).is_contiguous(memory_format=dynograd.channels_last)
    turned = dynograd.rand(5, 4, 3, 2).permute(3, 2, 1, 0)
    dynograd.manual_seed(3)
    y = nn.functional.dropout(turned, 0.5)
    dynograd.manual_seed(3)
    numpy.testing.assert_array_equal(y.numpy(), nn.functional.dropout(turned.contiguous(), 0.5).numpy())
    assert y.stride() == turned.stride()


def test_dropout2d_of_three_dims_says_how_it_reads_them():
    with pytest.warns(UserWarning, match="3-D input to dropout2d.*dropout1d"):
        y = nn.functional.dropout2d(dynograd.ones(3, 50, 4), 0.5)
    assert all(len(set(channel)) == 1 for channel in y.reshape(150, 4).tolist())
