"""Sequential, lists and dicts of modules and parameters."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import dynograd as dg
from dynograd import nn


def layers(*sizes):
    return [nn.Linear(size, size) for size in sizes]


def test_sequential_is_a_list_that_is_called():
    element, two, three = layers(1, 1, 1)
    model = nn.Sequential(element, two)
    assert len(model) == 2 and model[0] is element and model[-1] is two and list(model) == [element, two]
    model.append(three).insert(0, nn.Identity())
    assert [type(module).__name__ for module in model] == ["Identity", "Linear", "Linear", "Linear"]
    assert model.pop(0).__class__ is nn.Identity and len(model[1:]) == 2
    model[0] = nn.Tanh()
    del model[1]
    assert list(model.state_dict()) == ["1.weight", "1.bias"]
    assert len(model + nn.Sequential(element)) == 3
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
    assert len(items) == 3 and all(isinstance(item, nn.Parameter) for item in items)
    assert list(items.state_dict()) == ["0", "1", "2"] and len(items[1:]) == 2
    named = nn.ParameterDict({"a": dg.ones(1)})
    named["b"] = dg.ones(2)
    assert list(named) == ["a", "b"] and named.get("c") is None and len(named.values()) == 2
    assert named.pop("a").tolist() == [1.0] and list(named.state_dict()) == ["b"]
    with pytest.raises(KeyError):
        named["a"]


def test_module_list_prints_equal_neighbours_once():
    items = nn.ModuleList([*layers(2, 2), nn.ReLU(), *layers(2), nn.ModuleList()])
    text = """ModuleList(
  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)
  (2): ReLU()
  (3): Linear(in_features=2, out_features=2, bias=True)
  (4): ModuleList()
)"""
    assert repr(items) == text


def test_lists_refuse_what_is_no_module():
    for items in (nn.Sequential(), nn.ModuleList()):
        with pytest.raises(TypeError, match="int"):
            items.append(3)
        with pytest.raises(TypeError, match=r"insert: expected a Module, got int"):
            items.insert(0, 3)
    with pytest.raises(TypeError, match="key/value pairs, but got int"):
        nn.ModuleDict(3)
    with pytest.raises(ValueError, match=r"element 1 .* \(key, value\) pair, got \[3\]"):
        nn.ModuleDict([("a", nn.ReLU()), [3]])
    with pytest.raises(TypeError, match=r"element 1 should be Iterable, a \(key, value\) pair; is int"):
        nn.ModuleDict([("a", nn.ReLU()), 3])
    with pytest.raises(TypeError, match="iterable, but got Tensor"):
        nn.ParameterList(dg.ones(2))


def test_parameter_dict_is_a_dict():
    items = nn.ParameterDict({"z": dg.ones(1), "a": dg.ones(2)})
    assert list(items) == ["a", "z"], "a plain dict is taken in the order of its keys"
    assert list(nn.ParameterDict(OrderedDict(z=dg.ones(1), a=dg.ones(2)))) == ["z", "a"]
    assert items.setdefault("a", dg.zeros(3)) is items["a"] and isinstance(
        items.setdefault("b", dg.zeros(3)), nn.Parameter
    )
    other = nn.ParameterDict(OrderedDict(y=dg.ones(1), a=dg.zeros(2)))
    both = items | other
    assert list(both) == ["a", "z", "b", "y"] and both["a"] is other["a"] and "y" not in items
    with pytest.raises(TypeError, match="unsupported operand"):
        items | {"y": dg.ones(1)}
    both |= nn.ParameterDict({"x": dg.ones(1)})
    assert list(both)[-1] == "x"
    twin = items.copy()
    assert twin["z"] is items["z"] and list(reversed(twin)) == ["b", "z", "a"]
    assert items.popitem()[0] == "b" and "b" in twin
    items.clear()
    assert len(items) == 0 and list(items.parameters()) == []
    again = items.fromkeys(["c", "d"], dg.ones(1))
    assert len(items) == 0 and isinstance(again, nn.ParameterDict) and list(again) == ["c", "d"]
    assert isinstance(again["d"], nn.Parameter) and items.fromkeys("e")["e"] is None


def test_what_is_no_tensor_is_kept_as_it_is():
    items = nn.ParameterList([3, dg.ones(2, 1)])
    assert items[0] == 3 and len(list(items.parameters())) == 1
    assert repr(items) == (
        "ParameterList(\n    (0): Object of type: int\n    (1): Parameter containing: [dynograd.float32 of size 2x1]\n)"
    )


def test_sequential_times_a_number_has_its_modules_again():
    element = nn.Linear(1, 1)
    model = nn.Sequential(element, nn.ReLU())
    for product in (model * 2, 2 * model):
        assert list(product) == list(model) * 2 and len(model) == 2
    same = model
    model *= 3
    assert model is same and len(model) == 6 and model[4] is element
    for factor, error, words in (
        (0, ValueError, "factor of 1 or more, got 0"),
        (1.5, TypeError, "Sequential and float"),
    ):
        with pytest.raises(error, match=words):
            model * factor
        with pytest.raises(error, match=words):
            model *= factor


@pytest.mark.parametrize("index", [-3, 3])
def test_sequential_inserts_within_its_length(index):
    with pytest.raises(IndexError, match=f"Index out of range: {index}, with 2 modules"):
        nn.Sequential(nn.ReLU(), nn.ReLU()).insert(index, nn.Tanh())


def test_sequential_grows_in_place():
    model = nn.Sequential(*layers(1))
    same = model
    model += nn.Sequential(*layers(1, 1))
    assert model is same and list(dict(model.named_children())) == ["0", "1", "2"]
    del model[:2]
    assert list(dict(model.named_children())) == ["0"]


@pytest.mark.parametrize(
    "named",
    [
        nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()}),
        nn.ParameterDict([("a", dg.ones(1)), ("b", dg.ones(2))]),
    ],
)
def test_views_of_named_values_are_those_of_dicts(named):
    assert [*reversed(named.keys())] == ["b", "a"] and named.keys() & {"a", "c"} == {"a"}
    assert [value is named["b"] for value in reversed(named.values())] == [True, False]
    assert [name for name, _ in reversed(named.items())] == ["b", "a"] and len(named.values()) == 2
