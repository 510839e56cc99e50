"""Parametrizations beside PyTorch's: keys, text, weights from the same originals, gradients, signatures."""

import inspect

import numpy
import pytest
import torch

import dynograd

LAYERS = {
    "Linear": ("Linear", (5, 3)),
    "wide": ("Linear", (3, 5)),
    "square": ("Linear", (4, 4)),
    "Conv2d": ("Conv2d", (2, 3, 2)),
    "ConvTranspose2d": ("ConvTranspose2d", (2, 3, 2)),
}
ROWS = [(name, kind, {}) for name in ("weight_norm", "spectral_norm") for kind in LAYERS]
ROWS += [("weight_norm", "Conv2d", {"dim": dim}) for dim in (1, 2, None)]
ROWS += [
    ("orthogonal", kind, {"orthogonal_map": map, "use_trivialization": trivialized})
    for kind in ("Linear", "wide", "square")
    for map in (None, "matrix_exp", "cayley", "householder")
    for trivialized in (True, False)
]


def build(library, row):
    name, kind, options = row
    layer = getattr(library.nn, LAYERS[kind][0])(*LAYERS[kind][1]).double().eval()
    return getattr(library.nn.utils.parametrizations, name)(layer, **options).eval()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_same_originals_give_the_same_weight(row):
    ours, theirs = build(dynograd, row), build(torch, row)
    assert list(ours.state_dict()) == list(theirs.state_dict()) and repr(ours) == repr(theirs)
    random = numpy.random.default_rng(0)
    state = {name: each.numpy().copy() for name, each in theirs.state_dict().items()}
    for name, element in state.items():
        if "original" in name and row[2].get("orthogonal_map", "") in ("", "matrix_exp", "cayley"):
            element += 0.1 * random.normal(size=element.shape)
    for library, layer in ((dynograd, ours), (torch, theirs)):
        layer.load_state_dict({name: library.from_numpy(each.copy()) for name, each in state.items()})
    numpy.testing.assert_allclose(ours.weight.detach().numpy(), theirs.weight.detach().numpy(), atol=1e-10)
    factors = random.normal(size=tuple(theirs.weight.shape))
    for library, layer in ((dynograd, ours), (torch, theirs)):
        (layer.weight * library.from_numpy(factors)).sum().backward()
    for (name, element), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if other.grad is not None:
            numpy.testing.assert_allclose(element.grad.numpy(), other.grad.numpy(), atol=1e-9, err_msg=name)


@pytest.mark.parametrize("module", ["parametrize", "parametrizations"])
def test_the_same_names_and_arguments(module):
    ours, theirs = (getattr(element.nn.utils, module) for element in (dynograd, torch))
    assert set(ours.__all__) == set(theirs.__all__)
    for name in theirs.__all__:
        mine, other = (inspect.signature(getattr(element, name)).parameters for element in (ours, theirs))
        assert [(key, element.default) for key, element in mine.items()] == [
            (key, element.default) for key, element in other.items()
        ]
