"""The record of a compiled function as a graph, and as a module of `fx`."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import pytest

import dynograd as torch
from dynograd import nn
from dynograd.nn import functional as F
from dynograd.plans.reporting.graphs import DRAWN

OUTSIDE = torch.full((3,), 2.0)
LAYER = nn.Linear(3, 3)


def recorded(function, *args, calls=3):
    compiled = torch.compile(function, name="step")
    compiled = getattr(compiled, "_compiled", compiled)
    compiled.always = True
    for _ in range(calls):
        compiled(*args)
    return compiled


def shown(compiled):
    return re.sub(r"test_graphs\.py:\d+", "here", str(compiled.graph()))


def test_a_training_step():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    optimizer = torch.optim.AdamW(model.parameters())

    def step(x, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    compiled = recorded(step, torch.randn(5, 3), torch.tensor([0, 1, 0, 1, 1]))
    assert (
        shown(compiled)
        == """\
graph of step: 5 tensors from outside, 6 nodes
  %x: float32(5, 3)   # argument
  model.0.weight: float32(4, 3)   # parameter
  model.0.bias: float32(4)   # parameter
  model.2.weight: float32(2, 4)   # parameter
  %labels: int64(5)   # argument
  %0: float32(5, 4) = linear(%x, model.0.weight, model.0.bias)   # here
  %1: float32(5, 4) = relu(%0)   # here
  %2: float32(5, 2) = linear(%1, model.2.weight, None)   # here
  %3: float32() = cross_entropy(%2, %labels, None, ignore_index=-100, label_smoothing=0.0, reduction='mean', with_gradient=True)   # here
  %model.2.weight.grad: float32(2, 4), %model.0.weight.grad: float32(4, 3), %model.0.bias.grad: float32(4) = backward(%3)   # here
  AdamW.step(model.0.weight, model.0.bias, model.2.weight)   # here
  return %3"""
    )
    graph = compiled.graph()
    linear, *_, backward, step = graph.nodes
    x, weight, bias, *_ = graph.inputs
    assert linear.kind == "op" and linear.op.name == "linear" and linear.inputs == [x, weight, bias]
    assert linear.arguments == {"input": x, "weight": weight, "bias": bias} and linear.results[0].requires_grad
    assert x.kind == "argument" and not x.requires_grad and not x.stays
    assert weight.tensor is model[0].weight and graph.parameters["model.0.bias"] is model[0].bias
    assert backward.kind == "backward" and backward.rules == ("cross_entropy", "linear", "relu", "linear")
    assert backward.arguments == {"tensor": graph.result} and not backward.added
    assert [leaf.name + ".grad" for leaf in backward.leaves] == [value.name for value in backward.results]
    assert step.kind == "step" and set(step.leaves) == set(backward.leaves)
    assert re.fullmatch(r".*test_graphs\.py:\d+ in step", linear.line)


class Pair(NamedTuple):
    first: object
    second: object


class Model:
    def __init__(self):
        self.layers = [nn.Linear(3, 3)]
        self.scale = torch.full((3,), 2.0)

    def run(self, x):
        return self.layers[0](x) * self.scale


def helper(x):
    return LAYER(x)


@pytest.mark.parametrize(
    "function, args, names",
    [
        (lambda x: x * OUTSIDE, ("x",), "%x OUTSIDE"),
        (lambda x: helper(x), ("x",), "%x LAYER.weight LAYER.bias"),
        (lambda pair: pair.first + pair.second, (Pair("x", "x"),), "%pair.first %pair.second"),
        (lambda batch: batch["a"] + batch["b"][1], ({"a": "x", "b": ["x", "x"]},), "%batch['a'] %batch['b'][1]"),
        (lambda *rows, last: rows[1] + last, ("x", "x"), "%rows[1] %last"),
        (Model().run, ("x",), "%x layers[0].weight layers[0].bias scale"),
        (nn.Linear(3, 3), ("x",), "%input weight bias"),
        (nn.Sequential(nn.Linear(3, 3)), ("x",), "%input 0.weight 0.bias"),
        (functools.partial(lambda bias, x: x + bias, torch.ones(3)), ("x",), "%x 0"),
        (lambda x: x + torch.rand(3), ("x",), "%x %new_1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names(function, args, names):
    def tensors(value):
        if value == "x":
            return torch.randn(2, 3)
        if isinstance(value, dict):
            return {key: tensors(inner) for key, inner in value.items()}
        return type(value)(*map(tensors, value)) if isinstance(value, Pair) else [tensors(inner) for inner in value]

    options = {"last": torch.ones(3)} if "%last" in names else {}
    compiled = torch.compile(function)
    compiled = getattr(compiled, "_compiled", compiled)
    compiled.always = True
    with torch.no_grad():
        for _ in range(3):
            compiled(*[tensors(value) for value in args], **options)
    assert " ".join(map(repr, compiled.graph().inputs)) == names


def several(x):
    first, second = x.chunk(2)
    values, places = torch.topk(first + second, 2)
    return {"values": values, "places": [places, 3]}, x, "text"


def test_a_function_of_no_module():
    def shifted(x):
        return OUTSIDE + x

    shifted.__module__ = None  # as of functions that `exec` makes
    assert "OUTSIDE" in str(recorded(shifted, torch.ones(3)).graph())


def test_results_in_structures():
    compiled = recorded(several, torch.randn(4, 5))
    graph = compiled.graph()
    split, add, topk = graph.nodes
    assert split.gives_several and not add.gives_several and len(topk.results) == 2
    assert graph.result == ({"values": topk.results[0], "places": [topk.results[1], 3]}, graph.inputs[0], "text")
    assert topk.arguments["k"] == 2 and topk.results[1].dtype is torch.int64 and not topk.results[1].requires_grad
    assert "%0: float32(2, 5), %1: float32(2, 5) = split_with_sizes(%x, split_sizes=(2, 2))   # here" in shown(compiled)


def test_gradients_that_are_added():
    weight = torch.ones(3, requires_grad=True)

    def step(x):
        weight.grad = None
        (x * weight).sum().backward()
        (x * weight).sum().backward()
        y = (x * weight).detach()
        return y + 1

    graph = recorded(step, torch.ones(3)).graph()
    first, second = [node for node in graph.nodes if node.kind == "backward"]
    assert not first.added and second.added == second.leaves
    assert [repr(node.results[0]) for node in (first, second)] == ["%weight.grad", "%weight.grad_2"]
    assert [node.name for node in graph.nodes if node.kind == "detach"] == ["detach"]


def test_random_numbers_are_marked():
    graph = recorded(lambda x: F.dropout(x, 0.5) * 1.0, torch.ones(2, 3)).graph()
    assert graph.nodes[0].arguments["key"] is DRAWN and "key=drawn" in repr(graph.nodes[0])


def test_writes_into_what_the_program_has_made():
    def program(x):
        y = x * 2
        y += 1
        y[0] = 0
        return y * y

    graph = recorded(program, torch.ones(3)).graph()
    assert [node.name for node in graph.nodes] == ["mul", "add", "write", "basic_put", "write", "mul"]
    assert graph.nodes[-1].inputs == [graph.nodes[3].results[0]] * 2


def test_ways():
    compiled = recorded(lambda x: x * 2, torch.ones(3))
    for _ in range(3):
        compiled(torch.ones(4))
    assert [graph.inputs[0].shape for graph in compiled.graphs()] == [(3,), (4,)]
    with pytest.raises(RuntimeError, match=r"graph: expected step to have one way .*, got 2: graphs\(\) gives all"):
        compiled.graph()
    fresh = torch.compile(lambda x: x)
    assert fresh.graphs() == ()
    with pytest.raises(RuntimeError, match=r"got 0: call it twice or more; report\(\) says why"):
        fresh.graph()


def test_the_graph_keeps_no_step_alive():
    compiled = recorded(lambda x: x * 2 + 1, torch.ones(3))
    graph = compiled.graph()
    results = [compiled(torch.full((3,), float(k))) for k in range(3)]
    assert [result[0].item() for result in results] == [1.0, 3.0, 5.0] and compiled.walked == 4
    assert str(graph) == str(compiled.graph())


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.layers = nn.LayerNorm(8), nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.layers(self.norm(x))


MODULES = {
    "layers": (nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)), (3, 6)),
    "images": (
        nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
        ),
        (2, 1, 8, 8),
    ),
    "recurrent": (nn.LSTM(4, 5, bidirectional=True), (3, 2, 4)),
    "block": (Block(), (2, 3, 8)),
}


@pytest.mark.parametrize("name", MODULES)
def test_as_a_graph_of_fx(name):
    torch.manual_seed(0)
    model, shape = MODULES[name]
    model.eval()
    with torch.no_grad():
        compiled = recorded(model, torch.randn(shape))
        (graph,) = compiled.graphs()
        module = torch.fx.from_record(graph, freeze=name == "recurrent")
        x = torch.randn(shape)
        expected = model(x)
        for argument in (module(x), torch.fx.Interpreter(module).run(x)):
            for element, other in zip(_flat(argument), _flat(expected), strict=True):
                assert torch.equal(element, other)
    module.graph.lint()
    assert dict(module.named_parameters()).keys() == dict(model.named_parameters()).keys()
    ops = [node for node in module.graph.nodes if node.op == "call_function"]
    assert all(["test_graphs.py" in node.meta["line"] for node in ops]) and ops[0].meta["shape"] is not None


def _flat(value):
    return [value] if isinstance(value, torch.Tensor) else [leaf for inner in value for leaf in _flat(inner)]


def test_as_a_graph_of_fx_with_structures():
    module = torch.fx.from_record(recorded(several, torch.randn(4, 5)).graph())
    x = torch.randn(4, 5)
    argument, expected = module(x), several(x)
    assert torch.equal(argument[0]["values"], expected[0]["values"]) and argument[0]["places"][1] == 3
    assert (
        torch.equal(argument[0]["places"][0], expected[0]["places"][0]) and argument[1] is x and argument[2] == "text"
    )


def trains(x):
    (x * OWN).sum().backward()


OWN = torch.ones(3, requires_grad=True)


@pytest.mark.parametrize(
    "function, message",
    [
        (trains, r"a forward pass, got one with the node backward \(.*in trains\). Compile the model"),
        (lambda x: F.dropout(x, 0.5), r"without random numbers, got one with the node dropout .*Call eval\(\)"),
        (
            lambda x: x + torch.rand(3),
            r"%new_1, float32\(3\), is made within step.*Make it once outside, hand it in, or say freeze=True",
        ),
    ],
)
def test_what_fx_cannot_have(function, message):
    OWN.grad = None
    compiled = recorded(function, torch.ones(2, 3), calls=2)
    with pytest.raises(ValueError, match=f"from_record: .*{message}"):
        torch.fx.from_record(compiled.graph())
