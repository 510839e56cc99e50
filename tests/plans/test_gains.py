"""Which steps are left as they are written, since a walk along their record would cost more than it saves."""

from __future__ import annotations

import functools

import pytest

import dynograd as torch
from dynograd.plans import compiling
from dynograd.plans.walking import gains

_lost = gains.Balance.lost  # before tests are to go along their records whatever that costs


def test_what_differentiates_nothing_is_left_where_a_walk_costs_more(monkeypatch):
    """In this grad mode alone: the same function learns along its record."""
    monkeypatch.setattr(compiling, "gain_without_gradients", gains.gain_without_gradients)
    weight = torch.linspace(-1, 1, 8).requires_grad_()

    @torch.compile
    def f(x):
        return (x * weight).relu().sum()

    def learn(x):
        weight.grad = None
        f(x).backward()
        return weight.grad.tolist()

    x = torch.arange(8.0)
    with torch.no_grad():
        expected = [f.function(x).item()] * 6
        assert [f(x).item() for _ in range(6)] == expected
    assert not f.walked and "without gradients it would be slower by some" in str(f.report())
    assert len(f.graph().nodes) == 3  # the record is there for whoever wants to read it
    assert [learn(x) for _ in range(6)] == [[0.0] * 4 + [4.0, 5.0, 6.0, 7.0]] * 6
    walked = f.walked
    assert walked >= 2
    with torch.no_grad():
        f(x)
    assert f.walked == walked and f.calls == 13


def test_parameters_that_are_unfrozen_are_learned_along_the_record(monkeypatch):
    """While they are frozen nothing is differentiated, and the function is left as it is written; as often as that changes."""
    monkeypatch.setattr(compiling, "gain_without_gradients", gains.gain_without_gradients)
    weight = torch.nn.Parameter(torch.linspace(-1, 1, 8))

    @torch.compile
    def f(x):
        return (x * weight).relu().sum()

    x, walked = torch.arange(8.0), []
    for _ in range(2):
        weight.requires_grad_(False)
        before = f.walked
        assert [f(x).item() for _ in range(6)] == [f.function(x).item()] * 6
        assert f.walked == before
        weight.requires_grad_(True)
        for _ in range(6):
            weight.grad = None
            f(x).backward()
            assert weight.grad.tolist() == [0.0] * 4 + [4.0, 5.0, 6.0, 7.0]
        walked.append(f.walked - before)
    assert walked[0] >= 4 and walked[1] == 6, str(f.report())


@pytest.mark.parametrize(
    "program, gains_something",
    [
        (lambda x: x * 2, False),
        (lambda x: (x * 2 + 1).tanh().exp(), False),
        (lambda x: functools.reduce(lambda h, _: (h * 0.5).tanh(), range(12), x), True),
        (lambda x: x.t().reshape(4, -1)[:, 1:].unsqueeze(0), False),
        (lambda x: functools.reduce(lambda h, _: torch.cat([h[:, 4:], h[:, :4]], 1), range(12), x), False),
    ],
)
def test_gain_of_what_differentiates_nothing(program, gains_something, monkeypatch):
    monkeypatch.setattr(compiling, "gain_without_gradients", gains.gain_without_gradients)
    compiled = torch.compile(program)
    for n in range(5):
        x = torch.arange(32.0).reshape(4, 8) + n
        assert compiled(x).numpy() == pytest.approx(program(x).numpy(), rel=1e-5)
    assert bool(compiled.walked) is gains_something


def test_what_is_gained_by_not_writing_counts(monkeypatch):
    """Four operations are too few for small tensors; for large ones one loop writes a quarter of the memory."""
    monkeypatch.setattr(compiling, "gain_without_gradients", gains.gain_without_gradients)
    walked = []
    for count in (64, 1 << 16):
        compiled = torch.compile(lambda x: ((x * 2 + 1).abs() * x).neg())
        for _ in range(4):
            compiled(torch.ones(4, count))
        walked.append(compiled.walked)
    assert walked[0] == 0 and walked[1] > 0


def _linear(count):
    return torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(count)])


def kept_without_a_backward(compile, rows):
    weight = torch.linspace(-1, 1, 4).requires_grad_()
    step = compile(lambda x: x * weight + 1)
    return step, lambda x: step(x).detach()


def differentiated_outside(compile, rows):
    model = _linear(10)
    step = compile(lambda x: model(x))

    def call(x):
        model.zero_grad()
        loss = step(x).square().sum()
        loss.backward()
        return loss.detach()

    return step, call


def differentiated_with_a_graph(compile, rows):
    model = torch.nn.Sequential(*_linear(2), torch.nn.Tanh(), *_linear(2))
    step = compile(lambda x: model(x))

    def call(x):
        model.zero_grad()
        x.requires_grad_()
        (slope,) = torch.autograd.grad(step(x).sum(), x, create_graph=True)
        loss = slope.square().sum()
        loss.backward()
        return loss.detach()

    return step, call


def called_again_before_it_is_differentiated(compile, rows):
    model = _linear(3)
    step = compile(lambda x: model(x))

    def call(x):
        model.zero_grad()
        loss = sum([step(x * factor).square().sum() for factor in (1, 2, 3, 4, 5, 6)])
        loss.backward()
        return loss.detach()

    return step, call


def read_inside(compile, rows):
    weight = torch.linspace(-1, 1, 4).requires_grad_()

    def function(x):
        h = x * weight
        rows = [h.tolist()]
        for _ in range(3):
            h = h * 2 - 1
            rows.append(h.tolist())
        return h + rows[0][0][0] + rows[-1][0][0]

    step = compile(function)
    return step, lambda x: step(x).detach()


def averaged_inside(compile, rows):
    weight = torch.linspace(-1, 1, 4).requires_grad_()
    means = [torch.zeros(4) for _ in range(6)]

    def function(x):
        loss = (x * weight).square().sum()
        weight.grad = None
        loss.backward()
        with torch.no_grad():
            for mean in means:
                mean.mul_(0.9)
        return loss.detach()

    step = compile(function)
    return step, step


def stepped_by_hand(compile, rows):
    model = _linear(2)

    def function(x):
        loss = model(x).square().sum()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 1e-3 * parameter.grad
                parameter.grad = None
        return loss.detach()

    step = compile(function)
    return step, step


def noise_in_gradients(compile, rows):
    model = _linear(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def function(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        for parameter in model.parameters():
            parameter.grad += 0.01 * torch.randn_like(parameter.grad)
        optimizer.step()
        return loss.detach()

    step = compile(function)
    return step, step


def learned_inside(compile, rows):
    model = _linear(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def function(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = compile(function)
    return step, step


def read_without_gradients(compile, rows):
    def function(x):
        for _ in range(6):
            x = (x * 0.5).sin()
            x = x + x.tolist()[0][0]
        return x

    step = compile(function)
    return step, torch.no_grad()(step)


def without_gradients(among_others):
    def program(compile, rows):
        layers = torch.nn.Sequential(*_linear(7), torch.nn.ReLU(), torch.nn.Tanh())
        step = compile(lambda x: layers(x))

        def call(x):
            result = step(x)
            for _ in range(40 * among_others):
                torch.nn.functional.linear(x, layers[0].weight)
            return result

        return step, torch.no_grad()(call)

    return program


@pytest.mark.parametrize(
    "program, rows, gains_something",
    [
        (without_gradients(False), 3, True),
        (without_gradients(True), 3, False),  # functions get other code again and again
        (kept_without_a_backward, 3, False),
        (differentiated_outside, 3, True),
        (differentiated_with_a_graph, 3, False),
        (called_again_before_it_is_differentiated, 3, False),
        (read_inside, 3, False),
        (read_inside, 1 << 14, True),  # kernels take so long that it does not matter
        (averaged_inside, 3, False),
        (stepped_by_hand, 3, True),
        (noise_in_gradients, 3, False),
        (learned_inside, 3, True),
        (read_without_gradients, 3, False),
    ],
)
def test_what_walks_have_gained_is_counted(program, rows, gains_something, monkeypatch):
    """Calls that lose along their records are left as they are written after some, with the same results; others go on along them."""
    monkeypatch.setattr(gains.Balance, "lost", _lost)
    outcomes, calls = [], 100 if rows < 100 else 30
    for compile in (lambda function: function, torch.compile):
        torch.manual_seed(0)
        step, call = program(compile, rows)
        outcomes.append([call(torch.full((rows, 4), 0.1 * (n % 7))) for n in range(calls)])
    for expected, result in zip(*outcomes):
        assert torch.allclose(result, expected, rtol=1e-4)
    assert (step.walked > calls - 10) is gains_something, str(step.report())
    assert ("along its record it is slower by some" in str(step.report())) is not gains_something


def test_losses_are_counted_by_grad_mode(monkeypatch):
    """A function that loses where it is read without gradients goes on along its record where it learns."""
    monkeypatch.setattr(gains.Balance, "lost", _lost)
    model = _linear(1)

    @torch.compile
    def step(x):
        model.zero_grad()
        for _ in range(5):
            x = model(x).sin()
            if not torch.is_grad_enabled():
                x = x + x.tolist()[0][0]
        if torch.is_grad_enabled():
            x.sum().backward()
        return x.detach()

    for _ in range(120):
        with torch.no_grad():
            step(torch.ones(2, 4))
    lost = step.walked
    for _ in range(60):
        step(torch.ones(2, 4))
    assert lost < 100 and step.walked - lost > 50, str(step.report())


@pytest.mark.parametrize(("rows", "width", "least", "most"), [(4, 8, 40, 60), (4096, 256, 3, 20)])
def test_a_record_costs_as_much_as_many_calls_of_small_ops(rows, width, least, most):
    weight = torch.nn.Parameter(torch.eye(width))

    def step(x):
        weight.grad = None
        h = x
        for _ in range(4):
            h = (h @ weight).tanh()
        h.sum().backward()

    compiled, x = compiling.Compiled(step, always=True), torch.ones(rows, width)
    for _ in range(3):
        compiled(x)
    (path,) = compiled.walk.paths
    assert least <= gains.cost_of_a_record(path.program) <= most
