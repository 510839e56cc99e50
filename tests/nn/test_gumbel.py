"""Samples through which gradients flow."""

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F


@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_softmax(hard):
    logits = dynograd.tensor([0.2, 0.5, 0.3]).log().expand(4000, 3).clone().requires_grad_()
    y = F.gumbel_softmax(logits, tau=0.7, hard=hard)
    numpy.testing.assert_allclose(y.sum(-1).detach().numpy(), 1, rtol=1e-5)
    if hard:
        assert sorted({round(v) for v in y.flatten().tolist()}) == [0, 1]
    result = numpy.bincount(y.argmax(-1).numpy(), minlength=3) / 4000
    numpy.testing.assert_allclose(result, [0.2, 0.5, 0.3], atol=0.03)
    y[:, 0].sum().backward()
    assert bool((logits.grad[:, 0] >= 0).all()) and bool((logits.grad[:, 0] > 0).any())


def test_dim():
    y = F.gumbel_softmax(dynograd.zeros(3, 4), hard=True, dim=0)
    numpy.testing.assert_allclose(y.sum(0).numpy(), numpy.ones(4), rtol=1e-6)
