"""Products with an end (an activation, its rule, a sum): the bits of the two passes one after the other, and only where nobody has what stands between."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.kernels.matmul import matmuls_numba as ends
from dynograd.nn import functional as F
from dynograd.plans.compiling import Compiled
from dynograd.plans.lowering.bound import run_launches
from dynograd.plans.lowering.families.products import finished, product

SPECIAL = (numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("extents", [(1, 5, 3), (16, 64, 64), (65, 130, 40), (128, 300, 256)])
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
def test_bits_are_those_of_two_passes(dtype, extents, turned):
    m, n, k = extents
    random = numpy.random.default_rng(0)
    x, y, bias, beside = [random.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (n,), (m, n))]
    if turned:
        x = numpy.ascontiguousarray(x.T).T
    x[:1, :5], beside.reshape(-1)[: len(SPECIAL)] = SPECIAL[: min(5, k)], SPECIAL
    between, relu, gated, gelu, slopes, total, again = [numpy.empty((m, n), dtype) for _ in range(7)]
    (launch,) = product(x, y, between, bias)
    run_launches(
        [
            launch,
            finished(launch, ends.RELU, relu),
            finished(launch, ends.RELU_RULE, gated, beside),
            finished(launch, ends.GELU, again, gelu),
            finished(launch, ends.GELU_RULE, slopes, beside),
            finished(launch, ends.SUM, total, beside),
        ]
    )
    assert again.tobytes() == between.tobytes()
    assert gated.tobytes() == numpy.where(beside <= 0, numpy.dtype(dtype).type(0), between).tobytes()
    assert total.tobytes() == (between + beside).tobytes()
    with torch.no_grad():
        product_of, other = torch.from_numpy(between), torch.from_numpy(beside)
        assert relu.tobytes() == torch.relu(product_of).numpy().tobytes()
        rows = [(gelu, F.gelu(product_of)), (slopes, torch.ops.aten.gelu_backward(product_of, other))]
        for result, expected in rows:
            torch.testing.assert_close(
                torch.from_numpy(result),
                expected,
                rtol=2e-6,
                atol=1e-6 if dtype == "float32" else 1e-12,
                equal_nan=True,
            )


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
