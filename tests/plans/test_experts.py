"""Steps whose values decide how many rows each of several parts gets: nearly all go along the record, at numbers that were never recorded."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from tests.plans.twins import difference, overwritten_between_steps, seen

F = nn.functional
STEPS = 50
WIDTH = 8


def mixed_by_places(tokens: Any, weights: Any, chosen: Any, experts: Any) -> Any:
    mixed = torch.zeros_like(tokens)
    for number, expert in enumerate(experts):
        rows, places = torch.where(chosen == number)
        if len(rows):
            mixed = mixed.index_add(0, rows, expert(tokens[rows]) * weights[rows, places, None])
    return mixed


def mixed_by_masks(tokens: Any, weights: Any, chosen: Any, experts: Any) -> Any:
    mixed = tokens * 1
    for number, expert in enumerate(experts):
        mask = chosen[:, 0] == number
        mixed[mask] = expert(tokens[mask]) * weights[mask][:, :1]
    return mixed


def steps_of(compile: Any, mix: Any, tokens: int, experts: int, chosen: int) -> tuple[Any, Any]:
    torch.manual_seed(0)
    gate = nn.Linear(WIDTH, experts)
    parts = nn.ModuleList(
        [nn.Sequential(nn.Linear(WIDTH, 12), nn.GELU(), nn.Linear(12, WIDTH)) for _ in range(experts)]
    )
    model = nn.ModuleList([gate, parts, nn.LayerNorm(WIDTH)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    @compile
    def step(x: Any) -> Any:
        weights, places = gate(x).softmax(-1).topk(chosen, -1)
        loss = F.mse_loss(model[2](mix(x, weights, places, parts)), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, model


@pytest.mark.parametrize(
    "mix, tokens, experts, chosen, least, exact",
    [
        (mixed_by_places, 48, 4, 2, 40, False),
        (mixed_by_places, 40, 6, 2, 35, False),
        (mixed_by_places, 24, 3, 1, 35, True),
        (mixed_by_masks, 40, 3, 1, 35, False),
        (mixed_by_masks, 40, 3, 1, 35, True),
    ],
)
def test_mixtures_of_experts(mix: Any, tokens: int, experts: int, chosen: int, least: int, exact: bool) -> None:
    made: list[Any] = []

    def compile(function: Any) -> Any:
        made.append(Compiled(function, always=True, exact=exact))
        return made[-1]

    twins = [steps_of(side, mix, tokens, experts, chosen) for side in (lambda function: function, compile)]
    numbers = numpy.random.default_rng(0)
    with overwritten_between_steps():
        for n in range(STEPS):
            x = torch.from_numpy(numbers.standard_normal((tokens, WIDTH)).astype("float32"))
            told = difference(*[[seen(step(x)), seen(model)] for step, model in twins], 0.0 if exact else 1e-4)
            assert not told, f"step {n}: {told}\n{made[0].report()}"
    assert made[0].walked >= least, made[0].report()
    if not exact:  # else calls in their Python form follow from all sizes
        check_spliced(made[0].families.all[-1].ways[0])


def check_spliced(way: Any) -> None:
    """What is put together of other sizes, each of which comes again and again, is what formulas give for these."""
    program = way.program
    numbers = numpy.random.default_rng(1)
    ranges, places = program.sizes.ranges, program.sizes.places
    assert program.splices is not None and program.splices.usable
    spliced = 0
    for _ in range(30):
        sizes = list(program.at)
        for place, (low, high, step) in zip(places, ranges):
            sizes[place] = int(numbers.integers(0, min((high - low) // step + 1, 4))) * step + low
        for place, other in program.sizes.alike:
            sizes[place] = sizes[other]
        states = []
        for turn in range(2):
            program.states.clear()
            if turn:
                program.at = ()
            assert way.resize(tuple(sizes))
            spliced += program.spliced is not None
            states.append(laid_out(way))
        assert states[0] == states[1]
    assert spliced > 20


def laid_out(way: Any) -> Any:
    program, path = way.program, way.path
    words = [[row.tolist() for row in bound.state()] for bound in program.tables]
    arrays = [
        *program.arrays,
        *program.outside,
        *[path.arrays[number] for number in path.numbers],
        *[outside.array for outside in path.outside if outside.fresh],
    ]
    values = [way.walk.values[number] for number in path.numbers]
    shown = [(value.shape, value.strides, value.size, value.shown, value.contiguous) for value in values]
    steps = [[described for described in step.args if described[0] == "same"] for step in path.steps]
    return (
        words,
        [(array.__array_interface__["data"][0], array.shape, array.strides) for array in arrays],
        shown,
        repr(steps),
        [outside.kind for outside in path.outside],
        program.numbers,
    )


def test_numbers_that_are_cut_off_beyond_the_recorded_sizes_are_no_formulas() -> None:
    """How many rows are read grows with those at the mask, up to nine: which no step with as many has shown."""
    weight = nn.Linear(4, 4)

    def function(x: Any) -> Any:
        rows = weight(x)[x[:, 0] > 0]
        return rows[: min(len(rows), 9)].square().sum() + rows.shape[0]

    compiled = Compiled(function, always=True)
    numbers = numpy.random.default_rng(0)
    for n in range(30):
        x = numpy.abs(numbers.standard_normal((20, 4))).astype("float32")
        x[3 + n % 5 if n < 15 else 2 + n % 18 :, 0] *= -1
        assert compiled(torch.from_numpy(x)).item() == pytest.approx(function(torch.from_numpy(x)).item(), rel=1e-5)
    assert compiled.walked > 5, compiled.report()
