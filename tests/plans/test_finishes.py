"""Products that apply relu and its rule: the bits of the two passes one after the other, and only where nobody has what stands between."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.kernels.matmul import matmuls_cpu
from dynograd.nn import functional as F
from dynograd.plans.compiling import Compiled
from dynograd.plans.lowering.bound import run_launches
from dynograd.plans.lowering.products import product

SPECIAL = (numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("extents", [(1, 5, 3), (16, 64, 64), (65, 130, 40), (128, 300, 256)])
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
def test_bits_are_those_of_two_passes(dtype, extents, turned):
    m, n, k = extents
    random = numpy.random.default_rng(0)
    x, y, bias, gate = [random.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (n,), (m, n))]
    if turned:
        x = numpy.ascontiguousarray(x.T).T
    x[:1, :5], gate.reshape(-1)[: len(SPECIAL)] = SPECIAL[: min(5, k)], SPECIAL
    between, relu, gated = numpy.empty((m, n), dtype), numpy.empty((m, n), dtype), numpy.empty((m, n), dtype)
    (launch,) = product(x, y, between, bias)
    run_launches([launch, matmuls_cpu.finished(launch, relu), matmuls_cpu.finished(launch, gated, gate)])
    with torch.no_grad():
        expected = torch.relu(torch.from_numpy(between)).numpy()
    assert relu.tobytes() == expected.tobytes()
    assert gated.tobytes() == numpy.where(gate <= 0, numpy.dtype(dtype).type(0), between).tobytes()


def network(keep: bool) -> Any:
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 3)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        first = model[0](x)
        hidden = first.relu()
        if not keep:
            del first
        loss = F.cross_entropy(model[2](torch.relu(model[1](hidden))), y)
        loss.backward()
        optimizer.step()
        return (loss, first) if keep else (loss,)

    return step, model


@pytest.mark.parametrize("keep", [False, True])
def test_steps_are_as_written(keep):
    (eager, model), (function, other) = network(keep), network(keep)
    step = Compiled(function, always=True)
    random = numpy.random.default_rng(1)
    for _ in range(6):
        x, y = torch.from_numpy(random.standard_normal((8, 12), dtype=numpy.float32)), torch.randint(3, (8,))
        for result, expected in zip(step(x, y), eager(x, y)):
            torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)
    for first, second in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(second, first, rtol=1e-4, atol=1e-6)
    groups = [group.members for group in step.report().ways[0].groups]
    assert groups.count(("linear", "relu")) == (1 if keep else 2)
    assert groups.count(("backward of linear", "backward of relu")) == 2


def test_exact_steps_have_none():
    function, _ = network(False)
    step = Compiled(function, always=True, exact=True)
    for _ in range(3):
        step(torch.ones(8, 12), torch.zeros(8, dtype=torch.int64))
    assert not [group for group in step.report().ways[0].groups if "linear" in group.members]


def test_what_reads_the_product_ends_it():
    torch.manual_seed(0)
    layer = nn.Linear(12, 16)

    def function(x: Any) -> Any:
        hidden = layer(x)
        return hidden.relu() + hidden.sum()

    step = Compiled(function, always=True)
    with torch.no_grad():
        for n in range(4):
            torch.testing.assert_close(
                step(torch.ones(4, 12) * n), function(torch.ones(4, 12) * n), rtol=1e-5, atol=1e-5
            )
    assert not [group for group in step.report().ways[0].groups if "linear" in group.members]
