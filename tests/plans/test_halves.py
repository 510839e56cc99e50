"""Steps in float16 and bfloat16: float32 between, rounded where eager mode rounds."""

from __future__ import annotations

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from dynograd.plans.lowering import layouts, lower
from tests.plans.lowering_rows import Made, Row, check, tensor
from tests.plans.twins import difference, overwritten_between_steps, seen

F = nn.functional
KINDS = ["bfloat16", "float16"]


def halves(*shapes, numbers=(), turned=False):
    """Tensors of a half type; `turned`: the first one with its dims in memory the other way round."""

    def make(random, dtype):
        tensors = [tensor(random, "float32", *shape).to(getattr(torch, dtype)).detach() for shape in shapes]
        if turned:
            tensors[0] = tensors[0].T.contiguous().T
        return (*[operand.requires_grad_() for operand in tensors], *numbers)

    return make


ROWS = [
    *[Row(name, halves((6, 40))) for name in "relu gelu silu tanh sigmoid neg exp".split()],
    *[Row(name, halves((6, 40), (6, 40))) for name in "add sub mul div".split()],
    *[Row(name, halves((6, 40), (40,)), "row") for name in "add mul".split()],
    Row("add", halves((40, 32), (40, 32), turned=True), "turned"),
    Row("linear", halves((20, 32), (48, 32), (48,))),
    Row("linear", halves((2, 10, 32), (48, 32), numbers=(None,)), "no bias"),
    Row("matmul", halves((20, 32), (32, 48))),
    Row("matmul", halves((3, 20, 32), (3, 32, 48)), "batch"),
    *[Row(name, halves((12, 40), numbers=(-1,))) for name in ("softmax", "log_softmax")],
    Row("sum", halves((12, 40), numbers=(0,)), "columns"),
    Row("to_copy", halves((12, 40), numbers=(torch.float32,))),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["op", "rule"])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_launches_give_what_eager_gives(row, dtype, kind):
    check(row, dtype, kind)


@pytest.mark.parametrize("dtype", KINDS)
def test_special_numbers(dtype):
    """To a half type and back: what is too large, too small, no number; of two the even one."""
    values = [0.0, -0.0, 1e-41, 6e-8, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-11, 65519.0, 65520.0, 3.39e38, 1e39, -numpy.inf, numpy.inf, numpy.nan, 1 / 3, -2.5]  # fmt: skip
    half = getattr(torch, dtype)
    made = Made(Row("to_copy", lambda r, d: (torch.tensor(values), half)), dtype, 1)
    lowered = lower(made.call)
    expected = made.call.outputs[0].copy()
    made.call.outputs[0].view("u2")[...] = 77
    for launch in lowered:
        launch.kernel(*launch.arguments, count=launch.count, work=0, parts=1)
    numpy.testing.assert_array_equal(made.call.outputs[0].astype("f4"), expected.astype("f4"))


def test_memory_between_is_used_in_turn():
    with layouts.scratches() as taken:
        for seed in range(8):
            assert lower(Made(Row("mul", halves((64, 64), (64, 64))), "bfloat16", seed).call)
    assert sum([array.nbytes for array in taken]) < 8 * 64 * 64 * 4


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(20, 32), nn.LayerNorm(32)
        self.first, self.second, self.out = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 16)

    def forward(self, x):
        h = self.words(x)
        h = h + self.second(F.gelu(self.first(self.norm(h))))
        return self.out(h.softmax(-1) * h)


def run(compiled_by, dtype, autocast, sizes):
    torch.manual_seed(0)
    model = Mixed() if autocast else Mixed().to(getattr(torch, dtype))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(x, labels):
        optimizer.zero_grad()
        with torch.autocast("cpu", getattr(torch, dtype), enabled=autocast):
            loss = F.cross_entropy(model(x).flatten(0, 1).float(), labels)
        loss.backward()
        optimizer.step()
        return loss

    step = compiled_by(step)
    random = numpy.random.default_rng(0)
    results = []
    for n in sizes:
        x, labels = random.integers(0, 20, (4, n)), random.integers(0, 16, 4 * n)
        results.append(seen([step(torch.from_numpy(x), torch.from_numpy(labels)), [*model.parameters()]]))
    return results


@pytest.mark.parametrize("exact", [False, True], ids=["rounded", "exact"])
@pytest.mark.parametrize("autocast", [True, False], ids=["autocast", "half"])
@pytest.mark.parametrize("dtype", KINDS)
def test_steps_are_walked_at_all_sizes(dtype, autocast, exact):
    made = []

    def compiled_by(function):
        made.append(Compiled(function, exact=exact, always=True))
        return made[-1]

    sizes = [8] * 5 + [8, 12, 20, 9, 15, 20, 8, 17, 11, 15, 9]
    expected = run(lambda function: function, dtype, autocast, sizes)
    with overwritten_between_steps():
        results = run(compiled_by, dtype, autocast, sizes)
    for step, (one, other) in enumerate(zip(expected, results)):
        differing = difference(one, other, 0.0 if exact else 2e-2)
        assert differing is None, f"step {step}: {differing}\n{made[0].report()}"
    assert made[0].walked >= 8, made[0].report()
    if autocast and not exact:
        assert not [call for way in made[0].report().ways for call in way.in_python], made[0].report()
