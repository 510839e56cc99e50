"""Ops on segments of rows in plans: where segments lie is read in each step, and rows of no segment stay 0."""

from __future__ import annotations

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from dynograd.plans.lowering import lower
from dynograd.plans.lowering.forms import FORMS
from tests.plans.lowering_rows import Made, Row, check, tensor
from tests.plans.twins import difference, overwritten_between_steps, seen

F, ROWS, SEGMENTS, WIDTH = "float32", 60, 5, 24


def bounds(random, covered):
    """Starts and ends of segments behind one another, some of them empty; not `covered`: with rows of none in front and behind."""
    low, high = (0, ROWS) if covered else (3, ROWS - 7)
    cuts = numpy.sort(random.integers(low, high + 1, SEGMENTS - 1))
    offsets = numpy.concatenate([[low], cuts, [high]])
    return torch.tensor(offsets[:-1]), torch.tensor(offsets[1:])


def of_segments(*shapes, numbers=(), places=None, covered=True, seed=None):
    """Tensors of these shapes, places if there are some, starts and ends, and the numbers."""

    def make(random, dtype):
        tensors = [tensor(random, dtype, *shape) for shape in shapes]
        if places is not None:
            tensors.append(torch.tensor(random.integers(0, 4, places)))
        return (*tensors, *bounds(random if seed is None else numpy.random.default_rng(seed), covered), *numbers)

    return make


WHOLE, EACH = (ROWS, WIDTH), (SEGMENTS, WIDTH)
OPS = {
    "segment_sum": dict(shapes=[WHOLE]),
    "segment_spread": dict(shapes=[EACH], numbers=(ROWS,)),
    "segment_extreme": dict(shapes=[WHOLE], numbers=("max",)),
    "segment_product": dict(shapes=[WHOLE]),
    "segment_softmax": dict(shapes=[WHOLE]),
    "segment_combine": dict(shapes=[WHOLE, EACH], numbers=("mul",)),
    "segment_squares": dict(shapes=[WHOLE], numbers=(True,)),
    "segment_logsumexp": dict(shapes=[WHOLE]),
    "segment_cumsum": dict(shapes=[WHOLE], numbers=(False,)),
    "segment_cumprod": dict(shapes=[WHOLE]),
    "segment_logcumsumexp": dict(shapes=[WHOLE]),
    "segment_move": dict(shapes=[WHOLE], numbers=(2,)),
    "segment_behind_one": dict(shapes=[WHOLE]),
    "segment_recurrence": dict(shapes=[WHOLE, WHOLE], numbers=(True,)),
    "segment_gather": dict(shapes=[WHOLE], places=WHOLE, numbers=(0,)),
    "segment_scatter": dict(shapes=[WHOLE], places=WHOLE, numbers=(0, ROWS)),
    "segment_places": dict(shapes=[WHOLE], numbers=("max", 0)),
}  # fmt: skip
# Rules that are more than kernels over segments: NumPy multiplies, and they stay in Python.
IN_PYTHON = {"segment_product", "segment_squares", "segment_combine", "segment_cumprod", "segment_recurrence", "segment_logcumsumexp"}  # fmt: skip


@pytest.mark.parametrize("covered", [True, False], ids=["covered", "not covered"])
@pytest.mark.parametrize("name", OPS)
def test_other_lengths(name, covered):
    """Two steps have other segments, one of which may leave rows out where the other one does not."""
    options = dict(OPS[name])
    check(Row(name, of_segments(*options.pop("shapes"), **options, covered=covered)), F, "op")


@pytest.mark.parametrize("name", [name for name in OPS if name != "segment_places"])
def test_rules(name):
    options = dict(OPS[name])
    make = of_segments(*options.pop("shapes"), **options)
    if name in IN_PYTHON:
        assert lower(Made(Row(name, make), F, 1, "rule").call) is None
    else:
        check(Row(name, make), F, "rule")


def test_rows_of_no_segment_become_zeros_in_a_step_that_has_some():
    """The recorded step had none."""
    created = Made(Row("segment_softmax", of_segments(WHOLE)), F, 1)
    lowered = lower(created.call)
    _, starts, ends = created.call.inputs
    starts[...], ends[...] = bounds(numpy.random.default_rng(5), False)[0].array, bounds(numpy.random.default_rng(5), False)[1].array  # fmt: skip
    created.call.outputs[0][...] = numpy.nan
    for launch in lowered:
        launch.kernel(*launch.arguments, count=launch.count, work=0, parts=1)
    result = created.call.outputs[0]
    assert not result[:3].any() and not result[-7:].any() and not numpy.isnan(result).any()


def test_long_segments_and_sorted_ones_stay_in_python():
    """Whether a segment is reduced in pieces, and how many rows there are in order, follows from the lengths."""
    long = Row("segment_sum", lambda r, d: (tensor(r, d, 3000, 100), torch.tensor([0, 10]), torch.tensor([10, 3000])))
    assert lower(Made(long, F, 1).call) is None
    ordered = Row("segment_places", of_segments(WHOLE, numbers=("ascending", 0)))
    assert lower(Made(ordered, F, 1).call) is None
    assert ("op", "segment_sum") not in FORMS


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.scores, self.out = nn.Linear(6, 16), nn.Linear(16, 1, bias=False), nn.Linear(48, 3)

    def forward(self, x):
        h = self.first(x).relu()
        weights = self.scores(h).softmax(1)
        return self.out(torch.cat([h.mean(1), h.amax(1), (h * weights).sum(1)], 1))


def run(compiled_by, steps=24):
    torch.manual_seed(0)
    model = Pooled()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, labels):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    step = compiled_by(step)
    random = numpy.random.default_rng(0)
    results = []
    for number in range(steps):
        lengths = random.permutation([7, 3, 4, 5 - (number % 5 == 4)])
        rows = [torch.from_numpy(random.standard_normal((length, 6)).astype(F)) for length in lengths]
        results.append(seen([step(torch.ragged_tensor(rows), torch.tensor([0, 1, 2, 0])), [*model.parameters()]]))
    return results


def test_steps_that_pool_rows_are_walked():
    created = []

    def compiled_by(function):
        created.append(Compiled(function))
        return created[-1]

    expected = run(lambda function: function)
    with overwritten_between_steps():
        results = run(compiled_by)
    for step, (element, other) in enumerate(zip(expected, results)):
        differing = difference(element, other, 2e-4)
        assert differing is None, f"step {step}: {differing}\n{created[0].report()}"
    report = created[0].report()
    assert created[0].walked >= 18 and not [call for way in report.ways for call in way.in_python], report
