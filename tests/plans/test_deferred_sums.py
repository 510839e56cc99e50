"""Weights that many small calls use: their gradients wait as rows, are summed a few hundred at a time, and before code of the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from tests.plans.functions_of_users import MaskedRelu
from tests.plans.twins import difference, overwritten_between_steps, seen

WIDTH = 128
STEPS = 6


def plain(cell: Any, table: Any, x: Any, times: int) -> Any:
    """An unrolled loop."""
    h = x
    for k in range(times):
        h = cell(h).tanh() + table(torch.arange(len(x)) + k)
    return h.square().mean()


def with_functions(cell: Any, table: Any, x: Any, times: int) -> Any:
    """Sums are made before each backward of a Function."""
    h = x
    for k in range(times):
        h = cell(h).tanh() + table(torch.arange(len(x)) + k)
        h = MaskedRelu.apply(h) if k % 3 == 1 else h
    return h.square().mean()


def beside_a_whole_gradient(cell: Any, table: Any, x: Any, times: int) -> Any:
    """The same weights in one large call, and as they are: gradients that do not wait."""
    h = cell(x.repeat(20, 1)).tanh()
    whole = (cell.weight * cell.weight).mean() + table.weight.square().mean()
    return plain(cell, table, h[: len(x)], times) + h.mean() + whole


def as_values(cell: Any, table: Any, x: Any, times: int) -> Any:
    h = with_functions(cell, table, x, times)
    gradients = torch.autograd.grad(h, [cell.weight, table.weight])
    return sum([gradient.square().mean() for gradient in gradients])


# What a step computes, whether it has a backward pass, and how many rows and calls it has.
ROWS: list[tuple[Callable[..., Any], bool, int, int]] = [
    (plain, True, 4, 5),
    (plain, True, 40, 30),
    (with_functions, True, 4, 7),
    (with_functions, True, 40, 30),
    (beside_a_whole_gradient, True, 40, 15),
    (as_values, False, 40, 15),
]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("function, differentiates, rows, times", ROWS)
def test_steps_with_sums_that_wait_go_along_the_record(
    function: Any, differentiates: bool, rows: int, times: int, exact: bool
) -> None:
    twins = []
    for compile in (lambda step: step, lambda step: Compiled(step, always=True, exact=exact)):
        torch.manual_seed(0)
        modules = nn.Linear(WIDTH, WIDTH), nn.Embedding(2 * WIDTH, WIDTH)

        def step(x: Any, modules: Any = modules) -> Any:
            loss = function(*modules, x, times)
            if differentiates:
                for module in modules:
                    module.zero_grad()
                loss.backward()
            return loss

        twins.append((compile(step), modules))
    with overwritten_between_steps():
        for n in range(STEPS):
            numbers = numpy.random.default_rng(n).standard_normal((rows, WIDTH)).astype("float32")
            sights = [[seen(step(torch.from_numpy(numbers))), seen(list(modules))] for step, modules in twins]
            sights = [
                [*sight, seen([[parameter.grad for parameter in module.parameters()] for module in modules])]
                for sight, (_, modules) in zip(sights, twins)
            ]
            told = difference(*sights, 0.0 if exact else 1e-4)
            assert not told, f"step {n}: {told}\n{twins[1][0].report()}"
    assert twins[1][0].walked == STEPS - 2, twins[1][0].report()
