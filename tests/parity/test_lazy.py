"""Lazy modules beside PyTorch's: text and keys before, the class and the fields after, constructors, weights across."""

import inspect

import numpy
import pytest
import torch

import dynograd
from dynograd import nn
from tests.nn.test_lazy import ROWS, label


def build(library, row):
    return getattr(library.nn, row[0])(*row[1], **row[2])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("row", ROWS, ids=label)
def test_before_and_after_the_first_forward(row):
    ours, theirs = build(dynograd, row), build(torch, row)
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.has_uninitialized_params() == theirs.has_uninitialized_params()
    signature = [list(inspect.signature(type(element)).parameters.items()) for element in (ours, theirs)]
    assert [(name, element.default, element.kind) for name, element in signature[0]] == [
        (name, element.default, element.kind) for name, element in signature[1]
    ]
    known_of_torch = len(row[3]) > 2 or "Linear" in row[0]  # torch takes dim 1 of an unbatched input of instance norm
    x = numpy.random.default_rng(0).normal(size=row[3]).astype("float32")
    ours(dynograd.from_numpy(x))
    if not known_of_torch or not any(True for _ in theirs.state_dict()):
        return
    theirs(torch.from_numpy(x))
    assert repr(ours) == repr(theirs) and type(ours).__name__ == type(theirs).__name__
    theirs.load_state_dict(
        {name: torch.from_numpy(element.numpy().copy()) for name, element in ours.state_dict().items()}
    )
    result = ours.eval()(dynograd.from_numpy(x)).detach().numpy()
    numpy.testing.assert_allclose(result, theirs.eval()(torch.from_numpy(x)).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_weights_of_torch_materialise(row):
    theirs = build(torch, row)
    if not theirs.has_uninitialized_params() or (len(row[3]) == 2 and "Norm" in row[0]):
        pytest.skip("torch has nothing to load, or takes the wrong dim")
    x = numpy.random.default_rng(0).normal(size=row[3]).astype("float32")
    theirs(torch.from_numpy(x))
    ours = build(dynograd, row)
    ours.load_state_dict(
        {name: dynograd.from_numpy(element.numpy().copy()) for name, element in theirs.state_dict().items()}
    )
    result = ours.eval()(dynograd.from_numpy(x)).detach().numpy()
    numpy.testing.assert_allclose(result, theirs.eval()(torch.from_numpy(x)).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("call", ["weight + 1", "weight.shape", "weight.numel()", "share_memory()"])
def test_the_same_kinds_of_errors(call):
    for library in (dynograd, torch):
        layer = library.nn.LazyLinear(2)
        with pytest.raises((ValueError, RuntimeError)) as caught:
            eval(f"layer.{call}", {"layer": layer})
        if library is dynograd:
            kind = type(caught.value)
    assert kind is type(caught.value)
    assert nn.UninitializedParameter.__name__ == torch.nn.UninitializedParameter.__name__
