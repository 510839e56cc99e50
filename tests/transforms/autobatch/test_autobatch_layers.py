"""Layers that are one op: their calls are recorded at once, unless something sends them another way meanwhile."""

from __future__ import annotations

import contextlib

import pytest

import dynograd
from dynograd import nn
from dynograd.nn import functional as F
from dynograd.ops.readers import CALLS

LAYERS = {
    "linear": lambda: nn.Linear(3, 2),
    "no bias": lambda: nn.Linear(3, 2, bias=False),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}


@pytest.mark.parametrize("name", LAYERS)
def test_calls_are_those_of_the_op(name):
    layer, x = LAYERS[name](), dynograd.randn(5, 3)
    with dynograd.autobatch(always=True) as report:
        results = [layer(row * 2) for row in x] + [layer(row.exp()) for row in x]
    assert report.launches == 3
    for element, row in zip(results, [*(x * 2), *x.exp()]):
        assert dynograd.allclose(element, layer(row))


def _replaced(layer, patched):
    layer.weight = nn.Parameter(layer.weight.detach() * 10)
    return contextlib.nullcontext()


def _patched(layer, patched):
    patched.setattr(F, "linear", lambda x, weight, bias: (x @ weight.T + bias) * 10)
    return contextlib.nullcontext()


def _hooked(layer, patched):
    layer.register_forward_hook(lambda module, args, output: output * 10)
    return contextlib.nullcontext()


def _assigned(layer, patched):
    plain = layer.forward
    layer.forward = lambda x: plain(x) * 10
    return contextlib.nullcontext()


class _TenTimes(dynograd.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 10 if function is F.linear else result


WAYS = {
    "weight": _replaced,
    "function": _patched,
    "hook": _hooked,
    "forward": _assigned,
    "mode": lambda *_: _TenTimes(),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_changes_inside_the_scope_counts_at_once(way, monkeypatch):
    layer, x = nn.Linear(3, 2), dynograd.ones(3)
    nn.init.zeros_(layer.bias)
    with dynograd.autobatch(always=True):
        y = x * 2
        before = [layer(y) for _ in range(3)]
        with WAYS[way](layer, monkeypatch):
            after = [layer(y) for _ in range(2)]
    assert all([(element == before[0]).all() for element in before])
    assert all([dynograd.allclose(element, before[0] * 10) for element in after])


def test_autocast_and_no_grad_inside_the_scope_count():
    layer, x = nn.Linear(3, 2), dynograd.ones(3)
    with dynograd.autobatch(always=True):
        y = x * 2
        plain = [layer(y) for _ in range(3)]
        with dynograd.autocast("cpu", dtype=dynograd.bfloat16):
            cast = [layer(y) for _ in range(2)]
        with dynograd.no_grad():
            bare = [layer(y) for _ in range(2)]
        again = layer(y)
    assert [element.dtype for element in cast] == [dynograd.bfloat16] * 2 and again.dtype == dynograd.float32
    assert [element.requires_grad for element in (*plain, *bare, again)] == [True] * 3 + [False] * 2 + [True]


def test_a_profiler_hears_of_all_calls():
    layer, x = nn.Linear(3, 2), dynograd.ones(3)
    with dynograd.autobatch(always=True):
        y = x * 2
        layer(y), layer(y)
        with dynograd.profiler.profile() as told:
            layer(y), layer(y)
    assert [average.count for average in told.key_averages() if average.key == "linear"] == [2]


def test_mistakes_are_told_as_outside():
    layer = nn.Linear(3, 2)
    with dynograd.autobatch(always=True):
        y = dynograd.ones(3) * 2
        layer(y), layer(y)
        with pytest.raises(ValueError, match="linear: input has 4 features"):
            layer(dynograd.ones(4) * 2)
        with pytest.raises(TypeError, match="must be Tensor, not list"):
            layer([1.0])


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: setattr(layer, "padding_idx", 1),
        lambda layer: setattr(layer, "scale_grad_by_freq", True),
        lambda layer: setattr(layer, "max_norm", 0.01),
        lambda layer: setattr(layer, "weight", nn.Parameter(layer.weight.detach() + 1)),
    ],
)
def test_an_embeddings_options_count_from_when_they_are_changed(change):
    layer, number = nn.Embedding(4, 3), dynograd.tensor(1)

    def body():
        actual = [layer(number) for _ in range(3)]
        change(layer)
        return [*actual, layer(number), layer(number)]

    results = []
    for scope in (contextlib.nullcontext(), dynograd.autobatch(always=True)):
        dynograd.manual_seed(0)
        layer = nn.Embedding(4, 3)
        weight = layer.weight
        with scope:
            result = body()
        dynograd.stack(result).sum().backward()
        results.append((dynograd.stack(result).detach(), weight.grad))
    assert all([dynograd.equal(element, other) for element, other in zip(*results)])


def test_modules_ask_anew_in_each_scope_and_behind_it():
    layer, x = nn.Linear(3, 2), dynograd.randn(3)
    plain = layer(x)
    for _ in range(4):  # from the third time on, the code of functions is exchanged as it was the time before
        before = CALLS.change
        with dynograd.autobatch(always=True) as report:
            inside = CALLS.change
            rows = [layer(x * 1) for _ in range(3)]
        assert inside is not before and CALLS.change is not inside
        assert report.groups["linear -> float32[2]"] == [3]
        assert all([row.allclose(plain) for row in rows])
        with dynograd.profiler.profile() as profiler:
            layer(x)
        assert any(["linear" in event.key for event in profiler.key_averages()])
