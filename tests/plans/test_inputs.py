"""Large inputs are read where the caller has them, and still a step is what it is as it is written, whatever becomes of them meanwhile."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from dynograd.plans.programs import Program

ROWS, COLUMNS = 96, 128


def batch(n: int) -> Any:
    return torch.from_numpy(numpy.random.default_rng(n).standard_normal((ROWS, COLUMNS), dtype=numpy.float32))


def small_step(between: Any = lambda x: None) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(COLUMNS, 64), nn.ReLU(), nn.Linear(64, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        hidden = model(x)
        between(x)
        loss = (hidden * hidden).mean() + x.mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, model


def write_in_place(x: Any) -> None:
    with torch.no_grad():
        x.mul_(0.5)


def write_by_numpy(x: Any) -> None:
    x.numpy()[:] = 0.25


def replace(x: Any) -> None:
    x.data = torch.full_like(x, 0.125)


BETWEEN = {
    "nothing": lambda x: None,
    "a look": lambda x: x.numpy().sum(),
    "an item": lambda x: x[3, 4].item(),
    "a sum": lambda x: float(x.sum()),
}
# What eager's backward would not see either, or refuses: the step computes forward only.
WRITES = {"in place": write_in_place, "by NumPy": write_by_numpy, "other memory": replace}


def compiled(step: Any) -> Compiled:
    return Compiled(step, always=True)


def pointed(step: Compiled) -> int:
    """How many inputs may be read elsewhere."""
    return sum([len(path.program.pointers) for walk in step.walks.values() for path in walk.paths])


@pytest.mark.parametrize("between", BETWEEN)
def test_steps_are_as_written(between):
    (eager, model), (function, other) = small_step(BETWEEN[between]), small_step(BETWEEN[between])
    step = compiled(function)
    for n in range(8):
        torch.testing.assert_close(step(batch(n)), eager(batch(n)), rtol=1e-4, atol=1e-5)
    for first, second in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(second, first, rtol=1e-4, atol=1e-5)
    assert step.walked > 4 and pointed(step) == (between != "an item")  # which is a view


@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_later_is_not_read(write):
    torch.manual_seed(0)
    weight = torch.randn(COLUMNS, 8)

    def function(x: Any) -> Any:
        first = x @ weight
        WRITES[write](x)
        return first, x @ weight

    step = compiled(function)
    with torch.no_grad():
        for n in range(8):
            for result, expected in zip(step(batch(n)), function(batch(n))):
                torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_memory_that_somebody_else_has_is_copied():
    """NumPy may write there while nothing is computed yet."""
    weight = torch.randn(COLUMNS, 8)
    buffer = numpy.zeros((ROWS, COLUMNS), numpy.float32)

    def function(x: Any) -> Any:
        result = x @ weight
        buffer[...] = -1.0
        return result

    step = compiled(function)
    with torch.no_grad():
        for n in range(6):
            values = batch(n).numpy()
            buffer[...] = values
            torch.testing.assert_close(
                step(torch.from_numpy(buffer)), torch.from_numpy(values) @ weight, rtol=1e-4, atol=1e-5
            )
    assert step.walked and pointed(step) == 1


def test_views_of_inputs_are_copied():
    def function(x: Any) -> Any:
        return x[1:].exp().sum() + x.reshape(-1).sum()

    step = compiled(function)
    with torch.no_grad():
        for n in range(6):
            torch.testing.assert_close(step(batch(n)), function(batch(n)), rtol=1e-4, atol=1e-2)
    assert step.walked > 2 and pointed(step) == 0


def test_other_ways_read_the_input_too():
    weight = torch.randn(COLUMNS, 8)

    def function(x: Any, turn: bool) -> Any:
        hidden = x @ weight
        return (hidden.relu() if turn else hidden.tanh()) + x.mean()

    step = compiled(function)
    with torch.no_grad():
        for n in range(12):
            torch.testing.assert_close(step(batch(n), n % 3 == 0), function(batch(n), n % 3 == 0), rtol=1e-4, atol=1e-5)


def test_what_backward_needs_later_is_copied():
    model = nn.Linear(COLUMNS, 8)
    step = compiled(lambda x: model(x).relu())
    for n in range(6):
        x = batch(n)
        model.zero_grad()
        result = step(x)
        with torch.no_grad():
            grads = torch.ones_like(result)
        del x
        junk = [batch(99 + k) for k in range(3)]
        result.backward(grads)
        got = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(batch(n)).relu().backward(grads)
        for gradient, p in zip(got, model.parameters()):
            torch.testing.assert_close(gradient, p.grad, rtol=1e-4, atol=1e-4)
        assert junk


def test_beside_indices_that_are_checked() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(COLUMNS, 3)

    @torch.compile
    def step(x: Any, k: Any) -> Any:
        return layer(x).log_softmax(1).gather(1, k.unsqueeze(1)).sum()

    with torch.no_grad():
        for n in range(6):
            x, k = batch(n), torch.arange(ROWS) % 3
            assert step(x, k).item() == pytest.approx(step.function(x, k).item(), rel=1e-5)
    assert step.walked == 4 and step.walk.paths[0].program.pointers


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("distances", [(1, 1, 1, 1, 3, 0, 5, 2), (5, 5, 5, 5, 1, 2, 0, -1), (0, 0, 0, 0, 9, 9, 9, 9)])
def test_inputs_that_share_memory_may_lie_at_other_distances(distances: tuple[int, ...], replay: bool) -> None:
    """Windows of one series: what they share in the recorded call is others' in the next one."""
    weight = torch.nn.Parameter(torch.ones(3))
    series = torch.from_numpy(numpy.random.default_rng(0).standard_normal((40, 3)).astype("float32"))

    def step(x: Any, y: Any) -> Any:
        weight.grad = None
        loss = (x * weight - y).square().sum()
        loss.backward()
        return loss

    def gradient() -> list[float]:
        assert weight.grad is not None
        return weight.grad.tolist()

    compiled = Compiled(step, always=True, replay=replay)
    for call, distance in enumerate(distances * 2):
        x, y = series[call + 1 : call + 6], series[call + 1 + distance : call + 6 + distance]
        expected = [step(x, y).item(), *gradient()]
        assert [compiled(x, y).item(), *gradient()] == pytest.approx(expected, rel=1e-5, abs=1e-5), f"call {call}"
    assert compiled.walked >= 2, compiled.report()


class Wide(nn.Module):
    """Its weights are large: their gradients are written where the leaves are to have them."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(256, 256), nn.Linear(256, 256), nn.Linear(256, 300)
        if tied:
            self.second.weight = self.first.weight

    def forward(self, x: Any) -> Any:
        return self.out(self.second(self.first(x).relu()).tanh())


def added(model: Any, loss: Any, n: int) -> None:
    loss.backward()


def from_none(model: Any, loss: Any, n: int) -> None:
    model.zero_grad()
    loss.backward()


def twice(model: Any, loss: Any, n: int) -> None:
    model.zero_grad()
    loss.backward(retain_graph=True)
    loss.backward()


def as_values(model: Any, loss: Any, n: int) -> None:
    for parameter, gradient in zip(model.parameters(), torch.autograd.grad(loss, [*model.parameters()])):
        parameter.grad = gradient


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("differentiate", [added, from_none, twice, as_values])
def test_gradients_of_large_weights_are_those_of_eager_mode(differentiate, tied, exact):
    """And stay what they were when others come."""
    runs = []
    for compile in (lambda function: function, lambda function: Compiled(function, always=True, exact=exact)):
        torch.manual_seed(0)
        model = Wide(tied)
        run, kept = compile(model.forward), []
        for n in range(6):
            x = torch.from_numpy(numpy.random.default_rng(n).standard_normal((32, 256), dtype=numpy.float32))
            differentiate(model, run(x).square().mean(), n)
            kept.append([parameter.grad for parameter in model.parameters()])
            if differentiate is added:
                kept[-1] = [gradient.clone() for gradient in kept[-1]]
        runs.append(kept)
    for n, (expected, gradients) in enumerate(zip(*runs)):
        for first, second in zip(expected, gradients):
            torch.testing.assert_close(
                second, first, rtol=0 if exact else 1e-4, atol=0 if exact else 1e-7, msg=f"step {n}"
            )
    paths = [path for walk in run.walks.values() for path in walk.paths]
    if not exact:
        assert sum([len(path.program.gradient_pointers) for path in paths]) >= 2, str(run.report())


def test_a_backward_pass_without_a_plan_leaves_what_the_next_one_reads(monkeypatch):
    """Also where its plan was given more memory than the forward's had, and then differed."""
    check = Program.check
    monkeypatch.setattr(Program, "check", lambda self, *args: not self.seeds and check(self, *args))
    runs = []
    for compile in (lambda function: function, lambda function: Compiled(function, always=True)):
        torch.manual_seed(0)
        model = Wide(False)
        run, gradients = compile(model.forward), []
        for n in range(4):
            x = torch.from_numpy(numpy.random.default_rng(n).standard_normal((512, 256), dtype=numpy.float32))
            twice(model, run(x).square().mean(), n)
            gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        runs.append(gradients)
    torch.testing.assert_close(runs[1], runs[0], rtol=1e-4, atol=1e-6)
    assert run.walked, run.report()
