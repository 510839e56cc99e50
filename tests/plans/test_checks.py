"""Checks of values that a step computes are made when they are there: the step is in one piece, and errors are those of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from tests.plans.twins import overwritten_between_steps

F = nn.functional
D = torch.distributions

# A loss of (layer, x, whole numbers from 0 to 2) whose checks look at values of the step.
LOSSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a distribution's parameters": lambda layer, x, k: D.Normal(layer(x), 1.0).log_prob(x[:, :3]).sum(),
    "class numbers": lambda layer, x, k: D.Categorical(logits=layer(x)).log_prob(k + 0).sum(),
    "a scale": lambda layer, x, k: D.Normal(0.0, layer(x).square() + x[:, :3]).rsample().sum(),
    "labels": lambda layer, x, k: F.cross_entropy(layer(x), k + 0),
    "labels of a margin": lambda layer, x, k: F.multi_margin_loss(layer(x), k + 0),
    "indices of a gather": lambda layer, x, k: layer(x).gather(1, (k + 0).unsqueeze(1)).sum(),
    "rows": lambda layer, x, k: F.embedding(k + 0, layer.weight).sum() + layer(x).sum(),
    "probabilities": lambda layer, x, k: (
        F.binary_cross_entropy(x[:, :3] * 1, layer(x).sigmoid().detach()) + layer(x).sum()
    ),
    "classes as bits": lambda layer, x, k: (F.one_hot(k + 0, 3) * layer(x)).sum(),
    "a reparametrized sample": lambda layer, x, k: D.kl_divergence(
        D.Beta(layer(x).exp(), x[:, :3]), D.Beta(torch.ones(3), 2.0)
    ).sum(),
    "places": lambda layer, x, k: layer(x).t()[k + 0].sum(),
    "places of two dims": lambda layer, x, k: layer.weight[k + 0, (k + 0).sort().values].sum() + layer(x).sum(),
    "filled slices": lambda layer, x, k: layer(x).index_fill(1, k + 0, 2.0).sum(),
    "added slices": lambda layer, x, k: layer(x).index_add(1, k[:2] + 0, x[:, :2]).sum(),
    "copied slices": lambda layer, x, k: layer(x).index_copy(1, k[:1] + 0, x[:, :1]).sum(),
}
WRONG = {
    "a distribution's parameters": lambda x, k: (x * float("nan"), k),
    "class numbers": lambda x, k: (x, k + 5),
    "a scale": lambda x, k: (x * float("nan"), k),
    "probabilities": lambda x, k: (x - 3.0, k),
    "a reparametrized sample": lambda x, k: (-x, k),
}


class Side:
    """A layer and what trains it."""

    def __init__(self, loss: Any, compile: Any) -> None:
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=0.01)

        def step(x: Any, k: Any) -> Any:
            self.optimizer.zero_grad()
            result = loss(self.layer, x, k)
            result.backward()
            self.optimizer.step()
            return result

        self.step = compile(step)

    def outcome(self, n: int, x: Any, k: Any) -> Any:
        torch.manual_seed(n)
        try:
            result = self.step(x, k).detach().numpy().copy()
        except Exception as error:
            result = type(error), str(error)
        values = [parameter.detach().numpy().copy() for parameter in self.layer.parameters()]
        return result, values, [p.grad if p.grad is None else p.grad.numpy().copy() for p in self.layer.parameters()]


def check_same(first: Any, second: Any) -> None:
    if isinstance(first, (list, tuple)):
        assert len(first) == len(second)
        for inner, other in zip(first, second):
            check_same(inner, other)
    elif isinstance(first, numpy.ndarray):
        numpy.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
    else:
        assert first == second


def batch(n: int) -> tuple[Any, Any]:
    numbers = numpy.random.default_rng(n)
    x = numbers.uniform(0.1, 0.9, (6, 4)).astype("float32")
    return torch.from_numpy(x), torch.from_numpy(numbers.integers(0, 3, 6))


@pytest.mark.parametrize("name", LOSSES)
def test_a_check_ends_no_segment_and_fails_as_in_eager_mode(name: str) -> None:
    sides = [
        Side(LOSSES[name], lambda function: function),
        Side(LOSSES[name], lambda function: Compiled(function, always=True)),
    ]
    wrong = WRONG.get(name, lambda x, k: (x, k + 7))
    with overwritten_between_steps():
        for n in range(10):
            x, k = batch(n)
            fails = n in (5, 8)
            outcomes = [side.outcome(n, *(wrong(x, k) if fails else (x, k))) for side in sides]
            check_same(*outcomes)
            assert (type(outcomes[0][0]) is tuple) == fails
    report = sides[1].step.report()
    assert sides[1].step.walked >= 5, report
    assert len(report.ways) == 1 and len(report.ways[0].segments) == 1, report


def test_the_error_tells_the_line_of_the_check() -> None:
    layer = nn.Linear(4, 3)

    @torch.compile
    def step(x: Any) -> Any:
        spread = layer(x).abs() + x[:, :3]
        normal = D.Normal(0.0, spread)
        return normal.log_prob(x[:, :3] * 0.5).sum() * 2

    with torch.no_grad():
        for _ in range(4):
            step(torch.ones(2, 4))
        with pytest.raises(ValueError, match="Expected parameter scale") as caught:
            step(torch.full((2, 4), -1000.0))
    line = step.function.__code__.co_firstlineno + 3
    assert any([f"test_checks.py:{line}" in note for note in caught.value.__notes__])


def caught_here(layer: Any, x: Any, k: Any) -> Any:
    try:
        normal = D.Normal(0.0, layer(x).abs() + x[:, :3])
    except ValueError:
        return layer(x).square().sum()
    return normal.log_prob(x[:, :3] * 0.5).sum()


def written_before(layer: Any, x: Any, k: Any) -> Any:
    labels = k + 0
    picked = x.gather(1, labels.unsqueeze(1))
    labels.add_(1)
    return layer(x).square().sum() + (picked * labels.unsqueeze(1)).sum()


def read_behind(layer: Any, x: Any, k: Any) -> Any:
    loss = F.cross_entropy(layer(x), k + 0)
    return loss * 2 if loss.item() > 0.5 else loss


def another_way(layer: Any, x: Any, k: Any) -> Any:
    loss = F.cross_entropy(layer(x), k + 0)
    return loss.square() if layer.training else loss.exp()


@pytest.mark.parametrize("loss", [caught_here, written_before, read_behind, another_way])
def test_programs_around_checks(loss: Any) -> None:
    sides = [
        Side(loss, lambda function: function),
        Side(loss, lambda function: Compiled(function, always=True)),
    ]
    with overwritten_between_steps():
        for n in range(24):
            x, k = batch(n)
            if n % 5 == 4:
                x, k = x - 1000.0, k + (0 if loss is caught_here else 9)
            for side in sides:
                side.layer.train(n % 7 > 2)
            check_same(*[side.outcome(n, x, k) for side in sides])
    assert sides[1].step.walked > 5
