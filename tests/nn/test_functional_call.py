"""`functional_call`: names that are tied, unknown, assigned to or None; the module is as before whatever happens."""

from __future__ import annotations

import numpy
import pytest

import dynograd
from dynograd import nn, tensor
from dynograd.func import functional_call


class Scaled(nn.Module):
    """Two names for one weight, a buffer that is assigned, and an attribute that may be there."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(1, 1), nn.Linear(1, 1, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("count", tensor([0.0]))
        self.label = "a"

    def forward(self, x):
        self.count = self.count + 1
        return self.second(self.first(x)) * getattr(self, "factor", 1.0)


def values_of(model):
    values = {name: value.tolist() for name, value in model.state_dict().items() if name != "count"}
    return values, [*model._parameters, *model._buffers]


@pytest.fixture
def model():
    model = Scaled()
    before = values_of(model)
    yield model
    assert values_of(model) == before and not hasattr(model, "factor")
    assert model.second.weight is model.first.weight


X = tensor([[2.0]])


def test_tied_names_are_replaced_together(model):
    state = {"first.weight": tensor([[3.0]]), "first.bias": tensor([1.0])}
    assert functional_call(model, state, X).item() == (2 * 3 + 1) * 3
    weight = model.first.weight.item()
    numpy.testing.assert_allclose(functional_call(model, state, X, tie_weights=False).item(), 7 * weight, rtol=1e-6)


def test_unknown_names_are_attributes_for_the_call(model):
    state = {"first.weight": tensor([[3.0]]), "first.bias": None, "factor": tensor(2.0)}
    assert functional_call(model, state, X).item() == 2 * 3 * 3 * 2


def test_what_the_module_deletes_stays_in_the_dict():
    module = nn.Module()
    module.forward = lambda x: (x * module.factor, delattr(module, "factor"))[0]
    state = {"factor": tensor(2.0)}
    assert functional_call(module, state, X).item() == 4.0
    assert state["factor"].item() == 2.0 and not hasattr(module, "factor")


def test_what_the_module_assigns_is_in_the_dict(model):
    state, given = {"count": tensor([5.0])}, tensor([5.0])
    state["count"] = given
    functional_call(model, state, X)
    assert state["count"].tolist() == [6.0] and given.tolist() == [5.0]


@pytest.mark.parametrize(
    ("state", "options", "error", "words"),
    [
        (
            {"first.weight": tensor([[1.0]]), "second.weight": tensor([[2.0]])},
            {},
            ValueError,
            r"multiple values for keys \['first.weight', 'second.weight'\], which are tied.*tie_weights=False",
        ),
        ({"third.weight": X}, {}, KeyError, "Scaled has no module 'third'.*there are first, second"),
        ({"label": X}, {}, TypeError, "'label' of Scaled is no tensor but a str"),
        ({"count": 3}, {}, TypeError, "expected a Tensor for 'count', got int"),
        ({"factor": X}, {"strict": True}, RuntimeError, r"unexpected \['factor'\], missing \['count', 'first.bias'"),
    ],
)
def test_what_cannot_be_replaced(model, state, options, error, words):
    with pytest.raises(error, match=words):
        functional_call(model, dict(state), X, **options)


def test_a_module_that_holds_itself():
    outer = nn.Module()
    outer.layer = nn.Linear(1, 1, bias=False)
    outer.layer.outer = outer
    outer.forward = lambda x: outer.layer(x)
    state = {"layer.outer.layer.weight": tensor([[4.0]])}
    assert functional_call(outer, state, X, tie_weights=False).item() == 8.0
    assert dynograd.equal(outer.layer.weight, next(iter(outer.layer._parameters.values())))
