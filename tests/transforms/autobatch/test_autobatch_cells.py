"""Cells by what is decorated: methods, several of one module, functions of modules, copies."""

import collections
import copy
import inspect
import pickle

import numpy
import pytest

import dynograd
from dynograd import nn


class Net(nn.Module):
    """Its methods are cells, whatever they are called and whatever their first parameter is called."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    @dynograd.cell
    def forward(self, x):
        return self.layer(x)

    @dynograd.cell
    def scaled(this, x, factor=2):
        return this.layer(x) * factor

    @dynograd.cell
    def pair(self, *parts):
        return self.layer(parts[0]), parts[0] * 3

    @staticmethod
    @dynograd.cell
    def halved(x):
        return x / 2


@dynograd.cell
def applied(net, x):
    return net.layer(x).tanh()


Bounds = collections.namedtuple("Bounds", "least most")


@dynograd.cell
def bounded(x, bounds, parts):
    return x.clamp(bounds.least, bounds.most) + parts["a"][0] * parts["b"]


@dynograd.cell
def nothing():
    return dynograd.ones(3)


CALLS = {
    "forward": lambda net, x: net(x),
    "scaled": lambda net, x: net.scaled(x),
    "with a keyword": lambda net, x: net.scaled(x, factor=3),
    "pair": lambda net, x: net.pair(x)[0] + net.pair(x)[1],
    "static": lambda net, x: net.halved(x),
    "a function of a module": lambda net, x: applied(net, x),
    "all": lambda net, x: applied(net, net.halved(net.scaled(net(x)))),
    "named tuples": lambda net, x: bounded(x, Bounds(0.5, 1.5), {"a": (2.0, "unused"), "b": x}),
    "tensors in named tuples": lambda net, x: bounded(x, Bounds(x * 0, x + 1), {"a": [x], "b": 3}),
    "no arguments": lambda net, x: nothing() + x,
}


@pytest.mark.parametrize("name", CALLS)
def test_cells_give_what_their_bodies_give(name):
    call, nets, xs = CALLS[name], [Net(), Net()], [dynograd.ones(3) * k for k in range(3)]
    with dynograd.autobatch(always=True) as report:
        found = [call(net, x) for x in xs for net in nets]
    expected = [call(net, x) for x in xs for net in nets]
    for one, other in zip(found, expected):
        numpy.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-6)
    assert name == "no arguments" or any(label.startswith("cell ") for label in report.groups)


def module_cell():
    return dynograd.cell(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))


@pytest.mark.parametrize("make", [Net, module_cell, lambda: nn.GRUCell(3, 3)], ids=["method", "module", "nn"])
@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_of_modules_that_were_cells(make, copied):
    net, xs = make(), [dynograd.ones(3) * k for k in range(3)]

    def outputs(of, scope):
        if not scope:
            return [of(x).detach().numpy() for x in xs]
        with dynograd.autobatch(always=True) as report:
            found = [of(x) for x in xs]
        assert list(report.groups) and all("cell " in label for label in report.groups)
        return [one.detach().numpy() for one in found]

    expected = outputs(net, True)
    other = copied(net)
    numpy.testing.assert_allclose(outputs(other, True), expected, rtol=1e-6)
    with dynograd.no_grad():
        for one in other.parameters():
            one.mul_(2)
    for of in (net, other):
        numpy.testing.assert_allclose(outputs(of, True), outputs(of, False), rtol=1e-6)


def test_a_module_is_a_cell_once():
    net = module_cell()
    first = net.forward
    assert dynograd.cell(net) is net and net.forward == first


def with_hook(net, told):
    return net.layer.register_forward_hook(lambda *args: told.append(1))


def with_hook_of_all(net, told):
    return nn.modules.module.register_module_forward_hook(
        lambda module, *args: told.append(1) if module is net.layer else None
    )


@pytest.mark.parametrize("register", [with_hook, with_hook_of_all])
def test_hooks_of_modules_inside_are_called_from_then_on(register):
    net, told, x = Net(), [], dynograd.ones(3)
    with dynograd.autobatch(always=True) as report:
        first = [net(x * k) for k in range(3)]
        handle = register(net, told)
        others = [net(x * k) for k in range(3)]
        assert len(told) == 3
        handle.remove()
        first += [net(x * k) for k in range(3)]
        assert len(told) == 3
    assert [sizes for label, sizes in report.groups.items() if "cell Net" in label] == [[3, 3]]
    assert [why for why, *_ in report.flushes] == ["a change of a module's hooks or mode", "the end of the scope"]
    for one, other in zip(first, others + others):
        numpy.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-6)


class Inner(nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x


def test_modes_of_modules_inside_count():
    net, x = dynograd.cell(nn.Sequential(Inner())), dynograd.ones(2)
    with dynograd.autobatch(always=True):
        found = [net(x), net(x)]
        net[0].eval()
        found += [net(x), net(x)]
        net.train()
        found += [net(x)]
    assert [one[0].item() for one in found] == [2, 2, 1, 1, 2]


def test_a_replaced_forward_counts_at_once():
    class Twice(nn.Module):
        @dynograd.cell
        def forward(self, x):
            return x * 2

    first, other, x = Twice(), Twice(), dynograd.ones(2)
    with dynograd.autobatch(always=True):
        found = [one(x) for one in (first, first, other, other)]
        first.forward = lambda x: x * 3
        found += [first(x), other(x)]
        Twice.forward = lambda self, x: x * 5
        found += [first(x), other(x)]
        del first.forward
        found.append(first(x))
    assert [one[0].item() for one in found] == [2, 2, 2, 2, 3, 2, 3, 5, 5]


def test_hooks_that_come_and_go_between_calls_of_a_cell():
    layer, x, seen = nn.GRUCell(2, 2), dynograd.ones(2), []
    with dynograd.autobatch(always=True):
        found = [layer(x, x) for _ in range(3)]
        handle = layer.register_forward_hook(lambda *args: seen.append("called"))
        found += [layer(x, x) for _ in range(2)]
        handle.remove()
        found += [layer(x, x) for _ in range(2)]
    assert len(seen) == 2
    assert all((one == found[0]).all() for one in found)


def test_a_module_with_the_dict_of_another_is_recorded_with_its_own_parameters():
    layer, x = nn.GRUCell(2, 2), dynograd.ones(2)
    with dynograd.autobatch(always=True):
        layer(x, x), layer(x, x)
        other = nn.GRUCell.__new__(nn.GRUCell)
        other.__dict__.update(layer.__dict__)
        other._parameters = {name: nn.Parameter(one * 0) for name, one in layer._parameters.items()}
        found = [other(x, x) for _ in range(2)]
    assert all((one == 0.5).all() for one in found)


def test_calls_of_one_cell_with_arguments_nested_in_turns_are_groups():
    layer, x = nn.BinaryTreeLSTMCell(3, 3), dynograd.ones(3)
    leaf = layer(x)
    inner = layer(None, leaf, leaf)
    with dynograd.autobatch(always=True) as report:
        found = []
        for _ in range(4):
            state = layer(x * 1)
            found.append((state, layer(None, state, state)))
    assert report.launches == 3
    for pair in found:
        for state, wanted in zip(pair, (leaf, inner)):
            assert all([dynograd.allclose(one, other) for one, other in zip(state, wanted)])


def test_a_forward_keeps_its_parameters():
    for module in (nn.Linear(3, 3), nn.GRUCell(3, 3)):
        parameters = inspect.signature(module.forward)
        assert str(parameters) != "(*args, **kwargs)"
        assert inspect.signature(dynograd.cell(module).forward) == parameters
