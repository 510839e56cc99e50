"""Arguments of other sizes in each call: what is recorded at some sizes is walked at those between, and gives what the program as it is written does."""

from __future__ import annotations

import gc
import weakref

import numpy
import pytest

import dynograd as torch
from dynograd.kernels.build import targets_numba
from dynograd.plans.compiling import Compiled
from dynograd.plans.sized.sizes import NoFormula, Number, Sizes, at, flat_sizes
from tests.plans import fetched_programs
from tests.plans.sized_programs import PROGRAMS, WALKED, Tagger, classes, words_and_labels
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


@pytest.mark.parametrize("kind", ["lengths", "both"])
@pytest.mark.parametrize("exact", [False, True], ids=["rounded", "exact"])
@pytest.mark.parametrize("name", fetched_programs.PROGRAMS)
def test_sizes_that_are_no_arguments_and_ways_that_depend_on_values(name, exact, kind):
    made = []

    def compiled_by(function):
        made.append(Compiled(function, exact=exact, always=True))
        return made[-1]

    def results_of(compile):
        torch.manual_seed(0)
        call, watched = fetched_programs.PROGRAMS[name](compile)
        numbers = numpy.random.default_rng(0)
        return [seen([call(numbers, n, count), watched()]) for n, count in lengths_of(kind, 100)]

    expected = results_of(lambda function: function)
    with overwritten_between_steps():
        results = results_of(compiled_by)
    for step, (one, other) in enumerate(zip(expected, results)):
        differing = difference(one, other, 0.0 if exact else 2e-4)
        assert differing is None, f"step {step}: {differing}\n{made[0].report()}"
    if not exact:
        assert made[0].walked >= fetched_programs.LEAST[name][kind == "both"], made[0].report()


def signatures():
    """How many kernels there are, compiled or loaded."""
    dispatchers = [thing for thing in gc.get_objects() if issubclass(type(thing), targets_numba._Dispatcher)]
    return sum(len(dispatcher.overloads) for dispatcher in dispatchers)


def causal(width, heads):
    class Causal(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.qkv = torch.nn.LayerNorm(width), torch.nn.Linear(width, 3 * width)

        def forward(self, x):
            q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, heads, width // heads)).permute(2, 0, 3, 1, 4).unbind(0)
            h = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + h.transpose(1, 2).flatten(2)

    return torch.nn.Sequential(Causal(), torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width))


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (lambda: causal(32, 2), range(66, 126, 2)),
        (lambda: torch.nn.LSTM(16, 16, batch_first=True), range(5, 100, 3)),
        (lambda: torch.nn.GRU(16, 16, batch_first=True), range(5, 100, 3)),
        (lambda: torch.nn.Sequential(torch.nn.Linear(16, 160), torch.nn.Tanh()), range(30, 200, 6)),
    ],
    ids=["attention", "lstm", "gru", "wide"],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_no_call_is_made_anew_for_a_size(make, sizes, threads):
    """Attention, recurrent layers and sums over many rows have formulas; sizes that come for the first time are walked, and nothing is compiled."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        model = make()
        width = next(p for p in model.parameters() if p.ndim > 1).shape[-1]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(x):
            optimizer.zero_grad()
            h = model(x)
            loss = ((h[0] if isinstance(h, tuple) else h) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        compiled = Compiled(step, always=True, dynamic=True)
        numbers = numpy.random.default_rng(0)
        batches = [torch.from_numpy(numbers.standard_normal((4, n, width)).astype("float32")) for n in sizes]
        start = [parameter.clone() for parameter in model.parameters()]
        order = numbers.permutation(len(batches)).tolist()

        def steps_of(function):
            for parameter, values in zip(model.parameters(), start):
                parameter.grad = None
                with torch.no_grad():
                    parameter.copy_(values)
            losses = [function(batches[place]) for place in (0, 0, -1, 9, 4)]
            kernels, walked = signatures(), compiled.walked
            losses += [function(batches[place]) for place in order]
            assert signatures() == kernels and compiled.walked - walked == (function is compiled) * len(order)
            return [*losses, *[parameter.clone() for parameter in model.parameters()]]

        for batch in batches:  # what eager compiles at some sizes
            step(batch)
        expected, results = steps_of(step), steps_of(compiled)
        assert numpy.allclose(expected[: len(order)], results[: len(order)], rtol=1e-4), compiled.report()
        assert all(
            torch.allclose(one, other, atol=1e-5)
            for one, other in zip(expected[-8:], results[-8:])
            if one is not other and not isinstance(one, float)
        )
        assert not any([family.program.apart for family in compiled.families.all])
    finally:
        torch.set_num_threads(before)


def test_nothing_is_compiled_behind_the_third_size():
    """A thousand steps of fifty lengths."""
    torch.manual_seed(0)
    model = Tagger(torch.nn.LSTM(8, 8, batch_first=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = classes(model, x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = Compiled(step, always=True)
    numbers = numpy.random.default_rng(0)
    for n in (60, 60, 11, 25):
        compiled(*words_and_labels(numbers, n, 4))
    compiled(*words_and_labels(numbers, 40, 4))
    kernels, walked = signatures(), compiled.walked
    for n in numbers.integers(11, 61, 1000).tolist():
        compiled(*words_and_labels(numbers, n, 4))
    assert signatures() == kernels and compiled.walked - walked == 1000, compiled.report()


def test_a_batch_of_other_sizes_in_the_middle_of_a_step():
    """What was handed out before stays as it is; sizes beyond the recorded ones are recorded."""
    weight = torch.randn(8, 8)
    waiting = []

    def step(x):
        h = (x @ weight).tanh()
        other = waiting[-1]
        return h.sum(1), (other @ weight).relu().sum(1), h.shape[1]

    compiled = Compiled(step, always=True)
    numbers = numpy.random.default_rng(0)
    for n, m in [(4, 3), (4, 3), (9, 12), (6, 5), (7, 8), *numbers.integers(3, 14, (60, 2)).tolist()]:
        x = torch.from_numpy(numbers.standard_normal((2, n, 8)).astype("float32"))
        waiting.append(torch.from_numpy(numbers.standard_normal((3, m, 8)).astype("float32")))
        for one, other in zip(step(x), compiled(x)):
            assert one == other if type(one) is int else torch.allclose(one, other, atol=1e-5)
    assert compiled.walked > 45 and compiled.families.all[-1].fetched == [(2, 1)], compiled.report()


def test_sizes_that_are_marked():
    weight = torch.randn(8, 8)

    def step(x):
        return (x @ weight).relu().sum(1)

    compiled = Compiled(step, always=True)
    for n in [4, 4, 19, 11, *range(4, 20)]:
        x = torch.randn(3, n, 8)
        torch.compiler.mark_static(x, 1)
        assert torch.allclose(compiled(x), step(x), atol=1e-5)
    assert not compiled.families.all
    for n in [*range(4, 20)]:  # others are not marked
        compiled(torch.randn(3, n, 8))
    assert compiled.walked >= 16

    def mostly_python(x):
        return x.cumsum(1).flip(1).cumsum(1).flip(1).sum(1)

    for mark, options in (
        (None, {}),
        (torch.compiler.mark_dynamic, {}),
        (torch._dynamo.maybe_mark_dynamic, {}),
        (None, {"dynamic": True}),
    ):
        compiled = Compiled(mostly_python, always=True, **options)
        for n in [4, 4, 19, 11, 9, 10, 12]:
            x = torch.randn(3, n, 8)
            if mark is not None:
                mark(x, 1)
            assert torch.allclose(compiled(x), mostly_python(x), atol=1e-4)
        assert compiled.walked == (0 if mark is None and not options else 3), compiled.report()
    with pytest.raises(IndexError, match="mark_dynamic: expected dims from -2 to 1"):
        torch.compiler.mark_dynamic(weight, 2)
    with pytest.raises(TypeError, match="mark_static: expected a tensor, got list"):
        torch.compiler.mark_static([3])


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


def test_too_many_sizes():
    samples = [tuple(numpy.random.default_rng(seed).integers(2, 30, 20).tolist()) for seed in range(5)]
    with pytest.raises(NoFormula, match="more than 12 sizes that differ"):
        Sizes(samples)


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
    words = sum([bound.table.words.nbytes for bound in family.program.tables])
    assert len(family.program.states) * words <= 1 << 23 and len(compiled.walks) <= 64
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


def test_the_exact_mode_has_its_bits_where_few_rows_come():
    """Kernels of a few rows may be others than those of more, and round otherwise: what is not exact at one size is not used at others."""
    torch.manual_seed(0)
    layer, weight = torch.nn.Linear(3, 3), torch.nn.Parameter(torch.randn(3, 3))

    def step(rows, extra):
        layer.zero_grad()
        first = layer(torch.cat([*rows, extra])).sum()
        h = (torch.cat([rows[0], rows[-1]]) + weight[0]).cumsum(0)
        h = torch.nn.functional.layer_norm(h, (3,)).softmax(0)
        (first + h.square().mean()).backward()
        return h.detach()

    compiled = Compiled(step, exact=True, always=True)
    for n in range(30):
        numbers = numpy.random.default_rng(n)
        lengths = numbers.integers(0, 4, 5)
        rows = [torch.from_numpy(numbers.standard_normal((k, 3)).astype("f")) for k in lengths]
        extra = torch.from_numpy(numbers.standard_normal((2, 3)).astype("f"))
        assert step(rows, extra).numpy().tobytes() == compiled(rows, extra).numpy().tobytes(), compiled.report()
    assert compiled.walked > 10, compiled.report()


@pytest.mark.parametrize("exact", [False, True], ids=["rounded", "exact"])
def test_memory_that_is_used_earlier_at_one_of_the_sizes(exact):
    """Where there are as many examples as states, sums of gradients need their memory two calls sooner."""
    layer, moves = torch.nn.Linear(5, 4), torch.nn.Parameter(torch.randn(4, 4))
    first = torch.nn.Parameter(torch.zeros(4))
    leaves = [*layer.parameters(), moves, first]

    def step(x):
        scores = layer(x)
        total = first + scores[:, 0]
        for place in range(1, 3):
            total = torch.logsumexp(total.unsqueeze(2) + moves + scores[:, place].unsqueeze(1), 1)
        for leaf in leaves:
            leaf.grad = None
        total.sum().backward()
        return total

    compiled = Compiled(step, exact=exact, always=True)
    for count in [3, 3, 4, 4, 9, 9, 6, 5, 7, 8, 4, 6, 3, 9]:
        x = torch.randn(count, 3, 5)
        expected = seen([step(x), [leaf.grad for leaf in leaves]])
        given = seen([compiled(x), [leaf.grad for leaf in leaves]])
        differing = difference(expected, given, 0.0 if exact else 1e-5)
        assert differing is None, f"{count} examples: {differing}"
        if count == 6 and not exact:
            assert compiled.families.all, compiled.report()  # of the first three sizes
