"""Sequential, lists and dicts of modules and parameters."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import dynograd as dg
from dynograd import nn


def layers(*sizes):
    return [nn.Linear(size, size) for size in sizes]


def test_sequential_is_a_list_that_is_called():
    one, two, three = layers(1, 1, 1)
    model = nn.Sequential(one, two)
    assert len(model) == 2 and model[0] is one and model[-1] is two and list(model) == [one, two]
    model.append(three).insert(0, nn.Identity())
    assert [type(module).__name__ for module in model] == ["Identity", "Linear", "Linear", "Linear"]
    assert model.pop(0).__class__ is nn.Identity and len(model[1:]) == 2
    model[0] = nn.Tanh()
    del model[1]
    assert list(model.state_dict()) == ["1.weight", "1.bias"]
    assert len(model + nn.Sequential(one)) == 3
    with pytest.raises(IndexError, match="index 5 is out of range"):
        model[5]


def test_sequential_takes_names():
    model = nn.Sequential(OrderedDict(a=nn.Linear(1, 2), b=nn.ReLU()))
    assert model.a is model[0] and model(dg.ones(1)).shape == (2,)


def test_module_list():
    items = nn.ModuleList(layers(1, 2))
    items += layers(3)
    items.append(nn.Identity())
    items.insert(0, nn.Tanh())
    assert len(items) == 5 and isinstance(items[0], nn.Tanh) and len(items[1:3]) == 2
    assert items.pop() not in items and items[1] in items
    items[0] = nn.ReLU()
    del items[0]
    assert next(iter(items.state_dict())) == "0.weight" and len(items + layers(1)) == 4
    with pytest.raises(IndexError, match="it holds 3 modules"):
        items[3]
    with pytest.raises(TypeError, match="iterable"):
        items.extend(nn.Linear(1, 1))


def test_module_dict():
    items = nn.ModuleDict({"a": nn.Linear(1, 1)})
    items["b"] = nn.Tanh()
    items.update([("c", nn.ReLU())])
    assert list(items) == ["a", "b", "c"] and "b" in items and len(items.values()) == 3
    assert isinstance(items.pop("b"), nn.Tanh) and list(items.keys()) == ["a", "c"]
    del items["c"]
    assert [key for key, _ in items.items()] == ["a"]
    items.clear()
    assert len(items) == 0


def test_parameter_list_and_dict():
    items = nn.ParameterList([dg.ones(1), nn.Parameter(dg.ones(2))])
    items += [dg.ones(3)]
    items[0] = dg.zeros(1)
    assert len(items) == 3 and all(isinstance(one, nn.Parameter) for one in items)
    assert list(items.state_dict()) == ["0", "1", "2"] and len(items[1:]) == 2
    named = nn.ParameterDict({"a": dg.ones(1)})
    named["b"] = dg.ones(2)
    assert list(named) == ["a", "b"] and named.get("c") is None and len(named.values()) == 2
    assert named.pop("a").tolist() == [1.0] and list(named.state_dict()) == ["b"]
    with pytest.raises(KeyError):
        named["a"]
