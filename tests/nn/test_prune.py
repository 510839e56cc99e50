"""Pruning against NumPy: which elements go, keys, again on top, together, removal, errors."""

from __future__ import annotations

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.nn.utils import prune


def smallest(scores, count):
    mask = numpy.ones(scores.size)
    mask[numpy.argsort(scores.reshape(-1))[:count]] = 0
    return mask.reshape(scores.shape)


@pytest.mark.parametrize(("amount", "count"), [(0.3, 6), (7, 7), (0, 0), (1.0, 20)])
def test_l1_unstructured_prunes_the_smallest_again_and_is_removed(amount, count):
    layer = nn.Linear(5, 4)
    weight, parameter = layer.weight.detach().numpy().copy(), layer.weight
    assert prune.l1_unstructured(layer, "weight", amount) is layer and prune.is_pruned(nn.Sequential(layer))
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_mask"] and layer.weight_orig is parameter
    mask = smallest(numpy.abs(weight), count)
    numpy.testing.assert_array_equal(layer.weight_mask.numpy(), mask)
    layer(dg.ones(1, 5)).sum().backward()
    numpy.testing.assert_array_equal(parameter.grad.numpy(), mask)
    prune.l1_unstructured(layer, "weight", 0.5)
    left = round(0.5 * (20 - count))
    assert int(layer.weight_mask.sum()) == 20 - count - left
    prune.remove(layer, "weight")
    assert layer.weight is parameter and list(layer.state_dict()) == ["bias", "weight"] and not prune.is_pruned(layer)
    numpy.testing.assert_allclose(parameter.detach().numpy(), weight * smallest(numpy.abs(weight), count + left))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("n", [1, 2, float("inf")])
def test_ln_structured(n, dim):
    layer = nn.Conv2d(3, 4, 2)
    weight = numpy.moveaxis(layer.weight.detach().numpy(), dim, 0)
    norms = numpy.linalg.norm(weight.reshape(weight.shape[0], -1), n, axis=1)
    prune.ln_structured(layer, "weight", 1, n, dim)
    result = numpy.moveaxis(layer.weight_mask.numpy(), dim, 0).reshape(weight.shape[0], -1)
    numpy.testing.assert_array_equal(result, smallest(norms, 1)[:, None] * numpy.ones_like(result))
    prune.random_structured(layer, "weight", 1, dim)


def test_random_global_custom_and_identity():
    layer, other = nn.Linear(5, 4), nn.Linear(4, 3)
    prune.random_unstructured(layer, "weight", 0.25)
    assert int(layer.weight_mask.sum()) == 15
    prune.global_unstructured([(layer, "bias"), (other, "weight")], prune.L1Unstructured, amount=6)
    assert int(layer.bias_mask.sum() + other.weight_mask.sum()) == 10
    prune.identity(other, "bias")
    assert int(other.bias_mask.sum()) == 3
    prune.custom_from_mask(other, "bias", dg.tensor([0.0, 1.0, 0.0]))
    assert other.bias.detach()[0] == 0 and other(dg.ones(1, 4)).shape == (1, 3)


linear = lambda: nn.Linear(5, 4)  # noqa: E731
ERRORS = [
    (lambda: prune.l1_unstructured(linear(), "weight", 1.5), ValueError, r"amount=1.5 .*\[0, 1\]"),
    (lambda: prune.l1_unstructured(linear(), "weight", 21), ValueError, "amount=21 .*prune=20"),
    (lambda: prune.remove(linear(), "weight"), ValueError, "'weight' of module Linear has to be pruned"),
    (lambda: prune.custom_from_mask(linear(), "weight", dg.ones(2)), ValueError, r"\(2,\) differs from .*\(4, 5\)"),
    (lambda: prune.ln_structured(linear(), "bias", 1, 2, 0), ValueError, "at least 2 dimensions, the parameter has 1"),
    (lambda: prune.global_unstructured([(linear(), "bias")], "l1", amount=1), TypeError, "got 'l1'"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, kind, words = ERRORS[number]
    with pytest.raises(kind, match=words):
        call()


class EveryOther(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


def test_a_method_of_ones_own_alone_and_on_top():
    layer = nn.Linear(4, 2)
    assert type(EveryOther.apply(layer, "weight")) is EveryOther
    assert layer.weight_mask.tolist() == [[0, 1, 0, 1], [0, 1, 0, 1]]
    container = EveryOther.apply(layer, "weight")
    assert layer.weight_mask.tolist() == [[0, 0, 0, 1], [0, 0, 0, 1]]
    assert (
        isinstance(container, prune.PruningContainer)
        and len(container) == 2
        and list(container) == [container[0], container[1]]
    )
    prune.L1Unstructured.apply(layer, "weight", 1)
    assert len(container) == 3 and int(layer.weight_mask.sum()) == 1 and len(layer._forward_pre_hooks) == 1
    pruned = EveryOther().prune(dg.ones(4))
    assert pruned.tolist() == [0, 1, 0, 1]
    with pytest.raises(TypeError, match="int is not a BasePruningMethod"):
        container.add_pruning_method(3)
    other = EveryOther()
    other._tensor_name = "bias"
    with pytest.raises(ValueError, match="acting on the parameter named 'weight'. Found 'bias'"):
        container.add_pruning_method(other)
    with pytest.raises(ValueError, match=r"same shape as Linear.weight, got \(3,\) and \(2, 4\)"):
        prune.l1_unstructured(layer, "weight", 1, importance_scores=dg.ones(3))
    with pytest.raises(TypeError, match="parameters is not an Iterable"):
        prune.global_unstructured(3, prune.L1Unstructured, amount=1)
    with pytest.raises(TypeError, match="Found LnStructured of type 'structured'"):
        prune.global_unstructured([(layer, "weight")], prune.LnStructured, amount=1, n=1)


def test_pruned_modules_are_copied_and_trained():
    import copy

    layer = prune.l1_unstructured(nn.Linear(3, 2), "weight", 3)
    layer(dg.ones(1, 3)).sum().backward()
    layer.weight_orig.grad = None
    twin = copy.deepcopy(prune.remove(layer, "weight"))
    assert int((twin.weight == 0).sum()) == 3 and list(twin.state_dict()) == list(layer.state_dict())
