"""Arguments of other sizes in each call: what is recorded at some sizes is walked at those between, and gives what the program as it is written does."""

from __future__ import annotations

import gc
import weakref

import numpy
import pytest

import dynograd as torch
from dynograd.plans.compiling import Compiled
from dynograd.plans.sized.sizes import NoFormula, Number, Sizes, at, flat_sizes
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


LENGTHS = (5, 8, 12, 30)


def numbers_of(samples, values):
    sizes = Sizes(samples)
    return sizes, sizes.number(values)


@pytest.mark.parametrize(
    "formula",
    [
        lambda b, n: n,
        lambda b, n: 3 * n - 2,
        lambda b, n: b * n * 64,
        lambda b, n: n * n + 1,
        lambda b, n: b * (n - 1),
        lambda b, n: b * (n - 1) * (n - 1) * 4,
        lambda b, n: -8 * n,
        lambda b, n: b * n * n,
    ],
)
def test_formulas(formula):
    samples = [(3, 5), (4, 8), (2, 12), (6, 30), (5, 11)]
    sizes, number = numbers_of(samples, [formula(*sample) for sample in samples])
    for b in range(2, 7):
        for n in range(5, 31):
            if sizes.fits((b, n)):
                numbers = sizes.numbers((b, n))
                assert numbers is None or at(number, numbers) == formula(b, n), (b, n)
    assert sizes.fits((4, 9)) and at(number, sizes.numbers((4, 9))) == formula(4, 9)
    assert sizes.largest(number) >= formula(6, 30)


@pytest.mark.parametrize(
    "formula",
    [
        lambda n: n // 2,
        lambda n: -(-n // 8) * 8,
        lambda n: min(n, 9),
        lambda n: max(n, 9),
        lambda n: 2**n,
        lambda n: n % 3,
    ],
)
def test_numbers_without_a_formula(formula):
    sizes = Sizes([(n,) for n in LENGTHS])
    with pytest.raises(NoFormula, match="numbers"):
        sizes.number([formula(n) for n in LENGTHS])


@pytest.mark.parametrize(
    ("samples", "inside", "outside"),
    [
        ([(4, 5), (4, 9), (4, 20)], [(4, 6), (4, 20)], [(4, 4), (4, 21), (3, 6)]),
        ([(8,), (16,), (32,)], [(24,)], [(12,), (9,)]),  # at distances of eights
        ([(5, 5), (8, 8), (9, 9)], [(6, 6)], [(6, 7)]),  # that were always alike
        ([(3, 22), (6, 7), (5, 23), (4, 9)], [(4, 12)], [(6, 23)]),  # a product beyond all recorded ones
    ],
)
def test_sizes_that_fit(samples, inside, outside):
    sizes = Sizes(samples)
    assert all(sizes.fits(one) for one in inside) and not any(sizes.fits(one) for one in outside)
    assert not sizes.fits((*samples[0], 1))


def test_two_formulas_that_differ_give_no_number():
    sizes = Sizes([(4, 8), (6, 12), (10, 20)])  # the second is always twice the first
    number = sizes.number([8, 12, 20])
    assert isinstance(number, Number) and sizes.numbers((8, 16)) == [16] and sizes.numbers((8, 12)) is None


@pytest.mark.parametrize("values", [[5.0, 8.0, 12.0, 30.0], [1 / 5, 1 / 8, 1 / 12, 1 / 30]])
def test_floating_numbers(values):
    sizes = Sizes([(n,) for n in LENGTHS])
    real = sizes.real(values)
    assert real.at(sizes.numbers((20,))) == (20.0 if values[0] > 1 else 1 / 20)
    assert sizes.real([0.5] * 4) == 0.5 and numpy.isnan(sizes.real([float("nan")] * 4))
    for others in ([1.5, 2.5, 4.5, 5.0], [0.1, 0.2, 5.0, 8.0], [float("inf"), 1.0, 2.0, 3.0]):
        with pytest.raises(NoFormula):
            sizes.real(others)


def test_too_few_sizes():
    for samples in ([(5,), (6,)], [(5,), (5,), (5,)]):
        with pytest.raises(NoFormula, match="too few"):
            Sizes(samples)
    assert flat_sizes(((4, 5), ((), (3,)))) == ((4, 5, 3), ((None, None), ((), (None,))))


def test_sizes_are_kept_and_reported():
    weight = torch.randn(8, 8)

    def step(x):
        return (x @ weight).tanh().sum(1)

    compiled = torch.compile(step)
    given = {n: torch.randn(3, n, 8) for n in range(4, 20)}
    for n in [4, 4, 19, 11, 8, *range(4, 20), *range(4, 20), *range(4, 20)]:
        assert torch.allclose(compiled(given[n]), step(given[n]), atol=1e-6), n
    report = compiled.report()
    (family,) = [way for way in report.ways if way.sizes]
    assert family.sizes == ((4, 19),) and family.walked >= 25 and "and its like, sizes 4 to 19" in str(report)
    fixed = torch.compile(step, dynamic=False)
    for n in [4, 4, 19, 11, 8, *range(4, 20)]:
        fixed(given[n])
    assert not any(way.sizes for way in fixed.report().ways) and fixed.walked == 4


def test_memory_stays_where_many_sizes_come():
    weight = torch.randn(64, 64)
    compiled = torch.compile(lambda x: (x @ weight).relu().sum(1))
    numbers = numpy.random.default_rng(0)
    for _ in range(20):
        compiled(torch.randn(3, int(numbers.integers(4, 120)), 64))
    before = compiled.shared.arena.whole.nbytes, len(compiled.walks)
    for _ in range(300):
        compiled(torch.randn(3, int(numbers.integers(20, 100)), 64))
    (family,) = compiled.families.all
    assert len(family.program.states) <= 64 and len(compiled.walks) <= 64
    assert compiled.shared.arena.whole.nbytes <= 4 * before[0]


def test_a_step_of_another_size_while_gradients_of_the_last_are_still_there():
    weight = torch.randn(8, 8, requires_grad=True)

    def step(x):
        loss = (x @ weight).tanh().sum()
        loss.backward()
        return loss.detach()

    compiled = Compiled(step, always=True)
    sizes = [4, 4, 19, 11, 8, 9, 10, 9, 12, 9]
    for function in (step, compiled):
        numbers = numpy.random.default_rng(0)
        weight.grad, results = None, []
        for n in sizes:  # gradients are added up
            function(torch.from_numpy(numbers.standard_normal((3, n, 8)).astype("float32")))
            results.append(weight.grad.clone())
        if function is step:
            expected = results
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(expected, results))


def test_what_a_compiled_function_had_is_gone_with_it():
    weight = torch.randn(8, 8, requires_grad=True)

    def step(x):
        weight.grad = None
        loss = (x @ weight).tanh().sum()
        loss.backward()
        return loss.detach()

    compiled = Compiled(step, always=True)
    results = [compiled(torch.randn(3, n, 8)) for n in [4, 4, 19, 11, 8, 9, 10, 9, 12, 9]]
    (family,) = compiled.families.all
    gone = [weakref.ref(thing) for thing in (compiled, family.walk, family.program)]
    gradient = weight.grad
    del compiled, family
    weight.grad = None
    assert gradient.isfinite().all() and all(result.isfinite() for result in results)
    del gradient, results
    gc.collect()
    assert [thing() for thing in gone] == [None] * 3


def test_models_in_training_wait_until_enough_sizes_know_their_backward():
    """A size is learnt in two calls, the second of which is long after: meanwhile others run as they are written."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    compiled = torch.compile(model)._compiled
    lengths = [16, 12, 20, 14, 17, 15, 13, 18, 19]
    for epoch in range(3):
        for n in lengths:
            x = torch.randn(3, n, 4)
            grads = []
            for function in (model, compiled):
                model.zero_grad()
                function(x).square().mean().backward()
                grads.append([parameter.grad.numpy().copy() for parameter in model.parameters()])
            for expected, given in zip(*grads):
                numpy.testing.assert_allclose(given, expected, rtol=2e-4, atol=1e-6)
        if not epoch:
            assert compiled.ways == 3 and not compiled.walked, compiled.report()
    assert compiled.families.all and compiled.walked >= len(lengths), compiled.report()
