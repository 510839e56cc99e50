"""Which steps are left as they are written, since a walk along their record would cost more than it saves."""

from __future__ import annotations

import functools

import pytest

import dynograd as torch
from dynograd.plans import compiling
from dynograd.plans.walking import gains


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
