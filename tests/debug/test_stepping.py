"""`stepping`: the right line at each node of five models, the same gradients, and what can be done at the prompt."""

from __future__ import annotations

import bdb
import functools
import inspect
import io
import sys
import types

import numpy as np
import pytest

import dynograd as dg
from dynograd import debug, nn
from dynograd.errors import ShapeError
from dynograd.nn import functional as F
from dynograd.utils.checkpoint import checkpoint
from tests.debug.sessions import names_an_op, session, stops

# --- five models: a line of theirs that makes nodes tells their ops in a comment -------------------------------------------------


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(12))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)  # Linear
            x = x.tanh()  # Tanh
            x = x * 1.01  # Mul
        return x.square().mean()  # Square Mean


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(3, 4)

    def forward(self, x):
        h = dg.zeros(2, 4)
        for step in range(14):
            taken = self.outer(x[:, step])  # Linear
            h = self.inner(h) + taken  # Linear Add
            h = h.sigmoid()  # Sigmoid
        return h.sum()  # Sum


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x):
        x = self.first(x)  # Conv
        for _ in range(12):
            y = self.second(x)  # Conv
            x = F.relu(y) + x  # Relu Add
        return F.max_pool2d(x, 2).mean()  # Max Mean


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.write = nn.Linear(4, 12), nn.Linear(4, 4)

    def forward(self, x):
        for _ in range(5):
            q, k, v = self.read(x).chunk(3, -1)  # Linear Split
            weights = (q @ k.transpose(1, 2)).softmax(-1)  # Matmul Permute Transpose Softmax
            x = x + self.write(weights @ v)  # Add Linear Matmul
        return x.logsumexp(-1).sum()  # Logsumexp Sum


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.join = nn.Linear(4, 2)

    def forward(self, depth):
        return self.state(depth).prod()  # Prod

    def state(self, depth):
        if depth == 0:
            return dg.ones(2)
        both = dg.cat([self.state(depth - 1), self.state(depth - 1)])  # Cat
        return self.join(both).tanh()  # Linear Tanh


MODELS = [
    (Perceptron, lambda: dg.randn(3, 6)),
    (Recurrent, lambda: dg.randn(2, 14, 3)),
    (Convolutional, lambda: dg.randn(1, 1, 8, 8)),
    (Attention, lambda: dg.randn(2, 3, 4)),
    (Tree, lambda: 4),
]


WAYS = {
    "plain": lambda net, x: net(x),
    "autobatch": lambda net, x: in_a_scope(net, x),
    "compiled": lambda net, x: compiled(net)(x),
    "checkpoint": lambda net, x: checkpoint(net, x, use_reentrant=False),
}


def in_a_scope(net, x):
    with dg.autobatch(always=True):
        return net(x)


@functools.cache
def compiled(net):
    """The model, compiled, behind calls that have made it a plan."""
    function = dg.compile(net)
    x = dict(MODELS)[type(net)]()
    for _ in range(3):
        function(x).backward()
    net.zero_grad()
    return function


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model, make", MODELS, ids=[row[0].__name__ for row in MODELS])
def test_each_node_stops_on_its_line_and_gradients_stay_the_same(model, make, way):
    dg.manual_seed(0)
    net, x = model(), make()
    net(x).backward()
    expected = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    shown = stops(session(lambda: WAYS[way](net, x).backward(), "n\n" * 500))
    assert len(shown) >= 35
    source, first = inspect.getsourcelines(model)
    for node, line, text in shown:
        assert source[line - first].strip() == text.strip(), (node, line)
        assert names_an_op(text, node), (node, text)
    for parameter, before in zip(net.parameters(), expected, strict=True):
        assert np.array_equal(parameter.grad.numpy(), before.numpy())


def test_the_models_have_two_hundred_nodes():
    counts = []
    for model, make in MODELS:
        dg.manual_seed(0)
        net, x = model(), make()
        counts.append(len(stops(session(lambda net=net, x=x: net(x).backward(), "n\n" * 500))))
    assert sum(counts) >= 200, counts


def small():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x = dg.ones(2, 4)

    def program():
        net(x).square().sum().backward()

    return net, program


COMMANDS = [
    ("p op\nc\n", "'sum'"),
    ("p norm\nc\n", "1.0"),
    ('until (module="1")\np op\nc\n', "'relu'"),
    ('until (op="linear", module="0")\np tuple(g.shape)\nc\n', "(2, 8)"),
    ('until op == "square"\np list(saved)\nc\n', "['input']"),
    ('until op == "square"\np tuple(input.shape)\nc\n', "(2, 3)"),
    ("until (norm > 1e9)\np op\nc\n", None),  # holds nowhere: the pass ends
    ("until (\nc\n", "until: expected a condition"),
    ("up\np type(self).__name__\nc\n", "'stepping'"),
    ("h\nc\n", "the next node of backward"),
    ('until (op="relu")\np explain(g).op\nc\n', "'linear'"),
]


@pytest.mark.parametrize("commands, answer", COMMANDS, ids=[commands.split("\n")[0] for commands, _ in COMMANDS])
def test_commands(commands, answer):
    _, program = small()
    answers = session(program, commands)
    if answer is None:
        assert len(stops(answers)) == 1
    else:
        assert answer in answers


def test_a_condition_may_be_given_at_once():
    _, program = small()
    assert [node for node, _, _ in stops(session(program, "n\nc\n", until='module="1"'))] == ["Relu", "Linear"]
    assert [node for node, _, _ in stops(session(program, "c\n", until=lambda stop: stop.number == 2))] == ["Square"]
    with pytest.raises(
        ValueError, match=r'until: expected a condition such as \(norm > 10\) or \(module="encoder.1"\), got'
    ):
        debug.stepping(until="norm >")


@pytest.mark.parametrize("command", ["g.mul_(0)", "g = g * 0"])
def test_a_gradient_can_be_changed(command):
    net, program = small()
    session(program, f"{command}\nc\n")
    assert not net[0].weight.grad.any() and not net[2].bias.grad.any()


def test_a_gradient_of_another_shape_is_an_error():
    _, program = small()
    with pytest.raises(
        ShapeError, match=r"stepping: expected g to stay a tensor of shape \(\), got one of shape \(3,\)"
    ):
        session(program, "import dynograd\ng = dynograd.ones(3)\nc\n")


def test_quit_leaves_backward():
    _, program = small()
    with pytest.raises(bdb.BdbQuit, match="backward was quit at SumBackward0"):
        session(program, "q\n")
    assert not dg.autograd.engine.observers


def test_step_goes_into_the_rule():
    _, program = small()
    answers = session(program, "s\nwhere\nc\nc\n")
    assert "rule" in answers or "apply" in answers


def test_backward_step_tells_that_lines_were_not_noted(monkeypatch, capsys):
    debug.forget()
    y = (dg.ones(2, requires_grad=True) * 2).sum()
    monkeypatch.setattr(sys, "stdin", io.StringIO("p op\nc\n"))
    y.backward(step=True)
    answers = capsys.readouterr().out
    assert "its line was not noted" in answers and "y.backward(step=True)" in answers and "'sum'" in answers


def test_backward_step_within_anomaly_mode_or_provenance_stops_on_lines(monkeypatch, capsys):
    with debug.provenance():
        y = (dg.ones(2, requires_grad=True) * 2).sum()  # here
        monkeypatch.setattr(sys, "stdin", io.StringIO("n\n" * 9))
        y.backward(step=True)
    answers = capsys.readouterr().out
    assert answers.count("-> y = (dg.ones(2, requires_grad=True) * 2).sum()  # here") == 2


def test_another_debugger_stops_on_the_line(monkeypatch):
    _, program = small()
    seen = []
    monkeypatch.setattr(
        sys, "breakpointhook", lambda: seen.append((sys._getframe(1).f_lineno, sys._getframe(1).f_locals["stop"].op))
    )
    with debug.stepping():
        program()
    line = small.__code__.co_firstlineno + 5
    assert [op for _, op in seen] == ["sum", "square", "linear", "relu", "linear"]
    assert {number for number, _ in seen} == {line}


@pytest.mark.parametrize("listens", [True, False])
def test_debugpy_stops_only_where_an_editor_listens(listens, monkeypatch):
    """Jupyter kernels load it, and its hook does nothing until somebody does."""
    _, program = small()
    seen = []

    def hook():
        seen.append(0)

    hook.__module__ = "debugpy._hook"
    monkeypatch.setattr(sys, "breakpointhook", hook)
    monkeypatch.setitem(sys.modules, "debugpy", types.SimpleNamespace(is_client_connected=lambda: listens))
    answers = session(program, "n\n" * 5)
    assert len(seen) == (5 if listens else 0) and len(stops(answers)) == (0 if listens else 5)


def test_in_autobatch_the_line_is_that_of_an_example():
    cell = nn.Linear(3, 3)

    def state(depth):
        if depth == 0:
            return dg.ones(3)
        both = state(depth - 1) + state(depth - 1)
        return cell(both).tanh()  # of an example

    def program():
        with dg.autobatch():
            loss = sum(state(3).sum() for _ in range(20))
        loss.backward()

    linears = [text for node, _, text in stops(session(program, "n\n" * 600)) if node == "Linear"]
    assert len(linears) == 140 and set(linears) == {"return cell(both).tanh()  # of an example"}


def test_a_compiled_step_is_stepped_through_as_it_is_written():
    net = nn.Linear(3, 2)

    @dg.compile
    def step(x):
        loss = net(x).square().sum()  # compiled
        loss.backward()
        return loss

    for _ in range(4):
        step(dg.ones(2, 3))
    shown = stops(session(lambda: step(dg.ones(2, 3)), "n\n" * 20))
    assert [node for node, _, _ in shown] == ["Sum", "Square", "Linear"]
    assert all(text.endswith("# compiled") for _, _, text in shown)
