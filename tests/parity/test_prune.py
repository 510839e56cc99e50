"""Pruning beside PyTorch's: the same masks, keys and weights, one on top of another."""

import numpy
import pytest
import torch
import torch.nn.utils.prune

import dynograd
import dynograd.nn.utils.prune

STEPS = {
    "l1": lambda prune, m: prune.l1_unstructured(m[0], "weight", 0.3),
    "l1 twice": lambda prune, m: [prune.l1_unstructured(m[0], "weight", amount) for amount in (0.3, 4)],
    "ln": lambda prune, m: prune.ln_structured(m[0], "weight", 2, 2, 1),
    "ln on l1": lambda prune, m: [
        prune.l1_unstructured(m[0], "weight", 9),
        prune.ln_structured(m[0], "weight", 0.5, 1, 0),
    ],
    "global": lambda prune, m: prune.global_unstructured(
        [(m[0], "weight"), (m[1], "weight")], prune.L1Unstructured, amount=0.4
    ),
    "identity": lambda prune, m: prune.identity(m[1], "bias"),
    "classes": lambda prune, m: [
        prune.LnStructured.apply(m[0], "weight", amount=1, n=2, dim=0),
        prune.LnStructured.apply(m[0], "weight", amount=2, n=1, dim=1),
        prune.L1Unstructured.apply(m[0], "weight", amount=0.5),
    ],
    "scores": lambda prune, m: [
        prune.l1_unstructured(m[0], "weight", 3, importance_scores=m[0].weight.detach() ** -1),
        prune.global_unstructured(
            [(m[0], "weight"), (m[1], "weight")],
            prune.L1Unstructured,
            importance_scores={(m[1], "weight"): m[1].weight.detach() * 10},
            amount=0.4,
        ),
    ],
}


@pytest.mark.parametrize("name", STEPS)
def test_the_same_masks(name):
    results = []
    for library in (dynograd, torch):
        random = numpy.random.default_rng(0)
        model = library.nn.Sequential(library.nn.Linear(5, 4), library.nn.Linear(4, 3)).double()
        for parameter in model.parameters():
            parameter.data = library.from_numpy(random.normal(size=tuple(parameter.shape)))
        STEPS[name](library.nn.utils.prune, model)
        assert library.nn.utils.prune.is_pruned(model)
        results.append(
            {key: element.numpy() for key, element in model.state_dict().items()}
            | {"w": model[0].weight.detach().numpy()}
        )
    assert list(results[0]) == list(results[1])
    for key, parameter in results[0].items():
        numpy.testing.assert_array_equal(parameter, results[1][key], err_msg=key)
