"""Parameters that become others between calls: no way of before is taken with them, and the ways that come after are walked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dynograd as torch
from dynograd.plans.compiling import Compiled

Change = Callable[[Any], Any]  # of a parameter


def other_memory(parameter: Any) -> None:
    parameter.data = parameter.data * 0.5 + 1


def hook(parameter: Any) -> None:
    parameter.register_hook(lambda g: g * 2)


def frozen(parameter: Any) -> None:
    parameter.requires_grad_(False)


CHANGES = [other_memory, hook, frozen]


def trained(compile: Callable[[Any], Any], change: Change, branches: list[bool], changes: list[int]) -> Any:
    torch.manual_seed(0)
    first, last = torch.nn.Parameter(torch.rand(4)), torch.nn.Parameter(torch.rand(4))

    @compile
    def step(x: Any, more: bool) -> Any:
        y = (x * first).tanh()
        if more:
            y = (y * last).tanh()
        loss = y.square().sum()
        loss.backward()
        return loss.detach()

    seen = []
    for n, more in enumerate(branches):
        if n in changes:
            change(last)
        first.grad = last.grad = None
        loss = step(torch.rand(3, 4), more)
        seen.append([loss.item(), first.grad.tolist(), None if last.grad is None else last.grad.tolist()])
    return seen, step


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize(
    ("branches", "walked"),
    [
        ([True] * 14, 11),  # a later layer: one call as it is written, and one record for each state
        ([True, False, *[True, False, False, True] * 5], 17),  # a layer of one way
        ([True, True, *[True, False, False, True] * 5], 17),
    ],
    ids=["later layer", "another way", "first way"],
)
def test_a_parameter_that_changes_between_calls(change: Change, branches: list[bool], walked: int) -> None:
    changes = [5]
    expected, _ = trained(lambda step: step, change, branches, changes)
    got, compiled = trained(lambda step: Compiled(step, always=True, exact=True), change, branches, changes)
    assert got == expected
    assert compiled.walked >= walked, str(compiled.report())


def test_two_memories_that_take_turns_are_recorded_once_each() -> None:
    """Averaged weights take the place of the trained ones, and give it back."""

    def run(compile: Callable[[Any], Any]) -> Any:
        others: list[Any] = []

        def exchange(parameter: Any) -> None:
            others.append(parameter.data)
            parameter.data = others.pop(0) if len(others) > 1 else parameter.data + 1

        return trained(compile, exchange, [True] * 40, list(range(4, 40, 3)))

    expected, _ = run(lambda step: step)
    got, compiled = run(lambda step: Compiled(step, always=True, exact=True))
    assert got == expected
    assert compiled.walked >= 30, str(compiled.report())


@pytest.mark.parametrize("order", [[0] * 5 + [1, 0, 1, 0, 0, 1, 2, 0, 1, 2, 2, 1], [0, 0, 1, 1, 2, 1, 2, 0] * 2])
def test_models_that_take_turns_keep_their_own_weights(order: list[int]) -> None:
    """Whose weights come in turn stand for one another on a way; the plan of their backward writes none of them."""

    def run(compile: Callable[[Any], Any]) -> Any:
        torch.manual_seed(0)
        models = [torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)) for _ in range(3)]
        step = compile(lambda model, x: model(x).sum())
        seen = []
        for number in order:
            model = models[number]
            model.zero_grad()
            step(model, torch.rand(3, 4)).backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= parameter.grad * 0.1
            seen.append([parameter.tolist() for model in models for parameter in model.parameters()])
        return seen, step

    expected, _ = run(lambda step: step)
    got, compiled = run(lambda step: Compiled(step, always=True, exact=True))
    assert got == expected
    assert compiled.walked >= 5, str(compiled.report())
