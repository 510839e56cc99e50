"""nn.CRF against a field written with PyTorch's ops, a loop over time: the same state_dict gives the same values and gradients."""

import numpy
import pytest
import torch

import dynograd
from benchmarks.rows.tagging import looped

RNG = numpy.random.default_rng(0)
LENGTHS = [7, 1, 4]


@pytest.mark.parametrize("tag_count", [1, 5, 33])
@pytest.mark.parametrize("dtype, near", [("float32", 2e-5), ("float64", 1e-11)])
def test_likelihoods_and_gradients(tag_count, dtype, near):
    theirs = looped(torch)(tag_count).to(getattr(torch, dtype))
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    mine = dynograd.nn.CRF(tag_count, batch_first=True, dtype=getattr(dynograd, dtype))
    mine.load_state_dict({name: dynograd.tensor(each.numpy()) for name, each in theirs.state_dict().items()})

    values = RNG.normal(size=(3, 7, tag_count)).astype(dtype)
    tags = RNG.integers(0, tag_count, (3, 7))
    x, y = dynograd.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    result = mine(x, dynograd.tensor(tags), lengths=LENGTHS)
    expected = theirs(y, torch.tensor(tags), torch.tensor(LENGTHS))
    result.backward()
    expected.backward()
    assert result.item() == pytest.approx(expected.item(), rel=near, abs=near)
    pairs = [
        (x.grad, y.grad),
        *[(each.grad, dict(theirs.named_parameters())[name].grad) for name, each in mine.named_parameters()],
    ]
    for element, other in pairs:
        numpy.testing.assert_allclose(element.numpy(), other.numpy(), atol=near * 10)


def test_initial_weights_are_uniform_in_the_same_range():
    weights = dynograd.nn.CRF(200).transitions.detach().numpy()
    assert abs(weights).max() <= 0.1 and abs(weights.std() - 0.1 / 3**0.5) < 1e-3 and abs(weights.mean()) < 2e-3
