"""`requires_grad` and modes of networks that change within a step go along the record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from tests.plans.twins import difference, overwritten_between_steps, seen

F = nn.functional
STEPS = 10


def freeze(network: Any, flag: bool) -> None:
    for parameter in network.parameters():
        parameter.requires_grad_(flag)


def adversaries(created: Any, judge: Any, steps: Any, z: Any, x: Any, n: int) -> Any:
    """The judge is held fixed while the other network learns."""
    freeze(judge, False)
    judge.eval()
    steps[0].zero_grad()
    loss = F.softplus(-judge(created(z))).mean()
    loss.backward()
    steps[0].step()
    freeze(judge, True)
    judge.train()
    steps[1].zero_grad()
    other = (F.softplus(-judge(x)) + F.softplus(judge(created(z).detach()))).mean()
    other.backward()
    steps[1].step()
    return loss, other.item()


def part_of_a_network(created: Any, judge: Any, steps: Any, z: Any, x: Any, n: int) -> Any:
    """A layer is fixed for one of two losses, whose gradients are added, and thawed again."""
    steps[0].zero_grad()
    created[0].weight.requires_grad = False
    first = created(z).square().mean()
    created[0].weight.requires_grad = True
    (first + created(x @ torch.ones(3, 4)).mean()).backward()
    steps[0].step()
    return first.detach()


def now_and_then(created: Any, judge: Any, steps: Any, z: Any, x: Any, n: int) -> Any:
    """In some steps the last layer is fixed; the graph of the first loss is left to the caller."""
    steps[0].zero_grad()
    created[2].bias.requires_grad_(n % 3 > 0)
    loss = created(z).square().mean()
    loss.backward()
    created[2].bias.requires_grad_(True)
    kept = created(z).sum()
    return loss, kept.detach()


def history_behind(created: Any, judge: Any, steps: Any, z: Any, x: Any, n: int) -> Any:
    """What is given still has a history, of before and behind a change."""
    freeze(judge, False)
    before = judge(created(z))
    freeze(judge, True)
    return before.mean() + judge(x).mean()


# What happens in a step, and how many of 10 go along the record at least.
ROWS: list[tuple[Callable[..., Any], int]] = [
    (adversaries, 8),
    (part_of_a_network, 8),
    (now_and_then, 4),
    (history_behind, 7),
]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("function, least", ROWS)
def test_flags_that_change(function: Any, least: int, exact: bool) -> None:
    twins = []
    for compile in (lambda step: step, lambda step: Compiled(step, always=True, exact=exact)):
        torch.manual_seed(0)
        created = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        judge = nn.Sequential(nn.Linear(3, 6), nn.LeakyReLU(0.2), nn.Dropout(0.2), nn.Linear(6, 1))
        steps = [torch.optim.SGD(network.parameters(), lr=0.05) for network in (created, judge)]
        twins.append((compile(lambda z, x, n, all=(created, judge, steps): function(*all, z, x, n)), created, judge))
    with overwritten_between_steps():
        for n in range(STEPS):
            numbers = numpy.random.default_rng(n)
            z, x = [torch.from_numpy(numbers.standard_normal((5, size)).astype("float32")) for size in (4, 3)]
            sights = []
            for step, created, judge in twins:
                torch.manual_seed(n)
                result = step(z, x, n)
                if isinstance(result, torch.Tensor) and result.requires_grad:
                    created.zero_grad()
                    judge.zero_grad()
                    result.backward()
                flags = [parameter.requires_grad for parameter in (*created.parameters(), *judge.parameters())]
                sights.append([seen(result), seen(created), seen(judge), flags])
            told = difference(*sights, 0.0 if exact else 1e-4)
            assert not told, f"step {n}: {told}\n{twins[1][0].report()}"
    assert twins[1][0].walked >= least, twins[1][0].report()


def test_a_flag_that_is_another_one_when_a_step_begins_is_another_way() -> None:
    weight = nn.Parameter(torch.ones(3))

    @torch.compile
    def step(x: Any) -> Any:
        before = (weight * x).sum()
        weight.requires_grad_(not weight.requires_grad)
        return before.requires_grad, (weight * x).sum().requires_grad

    flag = True
    for _ in range(9):
        assert step(torch.ones(3)) == (flag, not flag)
        flag = not flag
    assert step.walked >= 4, step.report()


def test_fullgraph_takes_flags_that_change() -> None:
    weight = nn.Parameter(torch.ones(3))

    @torch.compile(fullgraph=True)
    def step(x: Any) -> Any:
        weight.requires_grad_(False)
        y = (weight * x).exp().sum()
        weight.requires_grad_(True)
        return y + (weight * x).exp().sum().detach()

    for _ in range(4):
        step(torch.ones(3))
    assert step.walked == 2 and "requires_grad_(weight)" in str(step.graph()).replace("%", ""), step.graph()
