"""Arguments of other sizes in each call: what is recorded at some sizes is walked at those between, and gives what the program as it is written does."""

from __future__ import annotations

import numpy
import pytest

import dynograd as torch
from dynograd.plans.compiling import Compiled
from tests.plans.sized_programs import PROGRAMS, WALKED
from tests.plans.twins import difference, overwritten_between_steps, seen

STEPS = 110


def lengths_of(kind, steps=STEPS):
    """(length, number of examples) of each step."""
    numbers = numpy.random.default_rng(3)
    counts = numpy.full(steps, 4) if kind == "lengths" else numbers.integers(3, 7, steps)
    return list(zip(numbers.integers(5, 24, steps).tolist(), counts.tolist()))


def run(name, sizes, compiled_by):
    torch.manual_seed(0)
    step, watched, batch = PROGRAMS[name](compiled_by)
    numbers = numpy.random.default_rng(0)
    results = []
    for n, count in sizes:
        arguments = batch(numbers, n, count)
        results.append(seen([step(*arguments), watched()]))
    return results


@pytest.mark.parametrize("kind", ["lengths", "both"])
@pytest.mark.parametrize("exact", [False, True], ids=["rounded", "exact"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_between_recorded_ones(name, exact, kind):
    made = []

    def compiled_by(function):
        if isinstance(function, torch.nn.Module):
            result = torch.compile(function, mode="exact" if exact else None)
            made.append(result._compiled)
            return result
        made.append(Compiled(function, exact=exact, always=True))
        return made[-1]

    sizes = lengths_of(kind)
    expected = run(name, sizes, lambda function: function)
    with overwritten_between_steps():
        results = run(name, sizes, compiled_by)
    for step, (one, other) in enumerate(zip(expected, results)):
        differing = difference(one, other, 0.0 if exact else 2e-4)
        assert differing is None, f"step {step} of sizes {sizes[step]}: {differing}\n{made[0].report()}"
    if WALKED[name] and kind == "lengths" and not exact:
        assert made[0].families.all, made[0].report()
    if WALKED[name] is False:
        assert not made[0].families.all
