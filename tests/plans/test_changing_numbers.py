"""Numbers that a program computes in Python, and that are others in each step: the record has them as tensors of one element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled

F = nn.functional
STEPS = 24


class Reversed(torch.autograd.Function):
    """The gradient goes back with another sign, and a factor."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.factor = factor
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return -ctx.factor * g, None


def annealed(model: Any, n: int, x: Any) -> Any:
    """The weight of a part of the loss grows, as in a variational autoencoder."""
    h = model(x)
    return h.square().mean() + h.abs().mean() * min(1.0, n / 16)


def on_either_side(model: Any, n: int, x: Any) -> Any:
    h = model(x)
    return ((n + 1) / (h.square() + 2)).mean() + (0.5 / (n + 1) - h).mean() + h.mean() / math.sqrt(n + 1)


def whole_numbers(model: Any, n: int, x: Any) -> Any:
    return (model(x) * n + (n - 3)).square().mean()


def two_in_turn(model: Any, n: int, x: Any) -> Any:
    return (model(x).square() * (0.5 if n % 2 else 2.0)).sum()


def of_steps_so_far(model: Any, n: int, x: Any) -> Any:
    h = model(x)
    mean = torch.zeros(3)
    for part in range(3):
        mean = mean + (h[part % len(h)] - mean) / (part + n + 1)
    return mean.square().sum()


def in_a_function_of_the_users(model: Any, n: int, x: Any) -> Any:
    return Reversed.apply(model(x), 2 / (1 + math.exp(-n / 5)) - 1).square().mean()


def beside_no_gradient(model: Any, n: int, x: Any) -> Any:
    with torch.no_grad():
        target = model(x) * 0.9**n
    return (model(x) - target).square().mean()


def not_finite(model: Any, n: int, x: Any) -> Any:
    return (model(x) * {7: math.nan, 9: math.inf, 11: 1e300}.get(n, n / 10)).sum().nan_to_num(0.0, 0.0, 0.0)


PROGRAMS = [
    annealed,
    on_either_side,
    whole_numbers,
    two_in_turn,
    of_steps_so_far,
    in_a_function_of_the_users,
    beside_no_gradient,
    not_finite,
]


def trained(
    program: Any, compile: Callable[[Any], Any], dtype: Any, rows: Callable[[int], int]
) -> tuple[list[Any], Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    @compile
    def step(x: Any, n: int) -> Any:
        loss = program(model, n, x)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        return loss, model[0](x).detach() * (n + 1)

    random, seen = numpy.random.default_rng(0), []
    for n in range(STEPS):
        x = torch.from_numpy(random.standard_normal((rows(n), 4))).to(dtype)
        seen.append([tensor.detach().numpy().copy() for tensor in (*step(x, n), *model.parameters())])
    return seen, step


def check(program: Any, dtype: Any, rows: Callable[[int], int], least: int, **options: Any) -> None:
    expected, _ = trained(program, lambda step: step, dtype, rows)
    seen, compiled = trained(program, lambda step: Compiled(step, always=True, **options), dtype, rows)
    tolerance = 0.0 if options.get("exact") else 1e-4
    for n, (left, right) in enumerate(zip(seen, expected, strict=True)):
        for array, other in zip(left, right, strict=True):
            told = f"step {n}\n{compiled.report()}"
            numpy.testing.assert_allclose(array, other, rtol=tolerance, atol=tolerance / 10, err_msg=told)
    assert compiled.walked >= least, compiled.report()


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"replay": True}], ids=["checked", "exact", "replay"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers_of_steps(program: Any, options: Any) -> None:
    least = STEPS - (8 if program is not_finite else 4)
    check(program, torch.float32, lambda n: 5, least, **options)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_numbers_beside_other_dtypes(dtype: Any) -> None:
    """Half types take a number as it is: the record has it as a constant."""
    check(annealed, dtype, lambda n: 5, STEPS - 4 if dtype is torch.float64 else 0, exact=True)


@pytest.mark.parametrize("program", [annealed, on_either_side, in_a_function_of_the_users])
def test_numbers_and_sizes_change(program: Any) -> None:
    check(program, torch.float32, lambda n: 3 + n * 7 % 4, 6)


def test_numbers_of_sizes_stay_functions_of_these() -> None:
    """Nothing has to be filled in where a number follows from the sizes."""
    weight = nn.Parameter(torch.ones(4))

    def step(x: Any) -> Any:
        return (x * weight).sum(1) / len(x)

    compiled = Compiled(step, always=True)
    for n in range(40):
        x = torch.full((2 + n * 7 % 9, 4), 1.0)
        assert torch.equal(compiled(x), step(x))
    assert compiled.walked >= 20
    assert not compiled.changing.numbers.changing


def test_a_record_begun_anew_behind_a_write_knows_how_often_was_written():
    """The number of the last add changes: the record is left behind the write, and what is recorded then is walked later."""
    buffer, versions = torch.zeros(4), []

    def step(number):
        h = buffer * 1.5
        h.div_(buffer.abs() + 1)
        versions.append(h._version)
        if number is not None:
            (h * 1.5).add_(number)

    compiled = Compiled(step, exact=True, always=True)
    for number in (*[None] * 6, 7.0, 0.5, 0.5, 10.0, 0.5, 0.5):
        compiled(number)
    assert versions == [1] * 12 and compiled.walked > 4


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("is_whole", [True, False])
def test_numbers_beside_those_of_rules(is_whole: bool, exact: bool) -> None:
    """Where a number changes, what comes before it is run anew from another line: the numbers there, and those of the program's own gradient, stay what they were."""

    def of(x: Any, y: Any) -> tuple[Any, ...]:
        rows = torch.stack([row.max() for row in y.unbind(1)])
        wide = F.pad(x, (1, 1), mode="circular")
        slope = torch.autograd.grad(wide.tanh().square().sum(), wide, create_graph=True)[0]
        mixed = F.bilinear(wide * slope, wide, wide.new_ones(2, 6, 6) * 0.1)
        scaled = max(rows.flatten().tolist()) * rows
        return F.glu(torch.cat([mixed, mixed], -2), -2), scaled

    def step(x: Any, y: Any) -> tuple[Any, ...]:
        results = of(x, y)
        if is_whole:
            sum([result.sin().sum() for result in results]).backward()
        return results

    def seen(function: Any, n: int) -> list[Any]:
        random = numpy.random.default_rng(0)
        x, y = [torch.tensor(random.standard_normal((4, 4)) + 0.3 * (n == 3), requires_grad=True) for _ in range(2)]
        results = function(x, y)
        if not is_whole:
            sum([result.sin().sum() for result in results]).backward()
        return [result.detach().numpy() for result in (*results, x.grad, y.grad)]

    compiled = Compiled(step, exact=exact, always=True)
    for n in range(8):
        for array, other in zip(seen(compiled, n), seen(step, n), strict=True):
            numpy.testing.assert_allclose(array, other, rtol=0 if exact else 1e-12, atol=0 if exact else 1e-13)
