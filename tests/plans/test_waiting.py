"""Calls that wait while the program writes into a tensor from outside: they give what they give as they are written, and are computed in few pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dynograd as torch
from dynograd import nn
from dynograd.nn import functional as F
from dynograd.plans.compiling import Compiled

Program = tuple[Callable[..., Any], list[Any]]  # a step, and the tensors that it writes


def counter_beside(factor: Any, count: Any) -> Program:
    def step(x: Any) -> Any:
        y = (x * factor).tanh()
        count.add_(1)
        return y + factor

    return step, [factor, count]


def factor_itself(factor: Any, count: Any) -> Program:
    def step(x: Any) -> Any:
        y = (x * factor).tanh()
        factor.add_(1)
        return (y + factor).sum()

    return step, [factor, count]


def part_of_factor(factor: Any, count: Any) -> Program:
    row = factor[1]

    def step(x: Any) -> Any:
        y = (x * factor).tanh()
        row.mul_(2)
        return (y + factor).sum()

    return step, [factor, count]


def memory_of_factor(factor: Any, count: Any) -> Program:
    def step(x: Any) -> Any:
        y = (x * factor.detach()).tanh()
        factor.add_(1)
        return (y + factor.detach()).sum()

    return step, [factor, count]


def input_itself(factor: Any, count: Any) -> Program:
    def step(x: Any) -> Any:
        y = (x * factor).tanh()
        x.add_(1)
        return (y + x).sum()

    return step, [factor, count]


def gradient(factor: Any, count: Any) -> Program:
    weight = nn.Parameter(factor.clone())

    def step(x: Any) -> Any:
        weight.grad = None
        loss = (x * weight).tanh().sum()
        loss.backward()
        count.add_(1)
        return loss

    return step, [weight, count]


def batch_norms(factor: Any, count: Any) -> Program:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 6), nn.BatchNorm1d(6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean() + model[1].running_mean.sum()
        loss.backward()
        optimizer.step()
        return loss

    return step, [*model.parameters(), *model.buffers()]


PROGRAMS = [counter_beside, factor_itself, part_of_factor, memory_of_factor, input_itself, gradient, batch_norms]


@pytest.mark.parametrize("make", PROGRAMS)
@pytest.mark.parametrize("exact", [False, True], ids=["", "exact"])
def test_writes_are_seen_as_written(make: Any, exact: bool) -> None:
    (eager, tensors), (function, others) = [make(torch.ones(4, 6), torch.zeros(())) for _ in range(2)]
    step = Compiled(function, always=True, exact=exact)
    for number in range(6):
        torch.manual_seed(number)
        x = torch.randn(4, 6)
        torch.testing.assert_close(step(x.clone()), eager(x), rtol=1e-5, atol=1e-5)
        for tensor, expected in zip(others, tensors):
            torch.testing.assert_close(tensor, expected, rtol=1e-4, atol=1e-5)
    assert step.report().walked


def test_a_counter_ends_no_piece() -> None:
    step = Compiled(counter_beside(torch.ones(4, 6), torch.zeros(()))[0], always=True)
    with torch.no_grad():
        for _ in range(4):
            step(torch.ones(4, 6))
    assert len(step.report().ways[0].segments) == 1


def test_a_batch_norm_ends_a_piece_for_each_of_its_statistics() -> None:
    """Not for its counter, which nothing waits for."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)) for _ in range(3)])

    def function(x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    step = Compiled(function, always=True)
    for _ in range(5):
        model.zero_grad()
        step(torch.randn(2, 2, 4, 4))
    assert len(step.report().ways[0].segments) == 1 + 2 * 3


def test_what_fails_fails_before_the_write() -> None:
    table, count = torch.randn(5, 3), torch.zeros(())

    @torch.compile
    def step(index: Any) -> Any:
        rows = F.embedding(index, table)
        count.add_(1)
        return rows.tanh().sum()

    for _ in range(4):
        step(torch.tensor([0, 4]))
    with pytest.raises(IndexError):
        step(torch.tensor([0, 5]))
    assert count.item() == 4
