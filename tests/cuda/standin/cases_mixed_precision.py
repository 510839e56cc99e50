"""Mixed-precision training on the stand-in: autocast, a scaled loss, clipping and a fused AdamW wait for nothing."""

import pytest

import dynograd as dg
from dynograd import cuda
from dynograd.cuda import driver

pytest.importorskip("triton", reason="kernels are compiled by Triton (pip install dynograd[gpu])")

OPTIMIZERS = {
    "sgd": lambda ps: dg.optim.SGD(ps, lr=0.1, momentum=0.9),
    "adamw": lambda ps: dg.optim.AdamW(ps, fused=True),
    "adam": lambda ps: dg.optim.Adam(ps, amsgrad=True, capturable=True),
}


def training_step(name):
    model = dg.nn.Sequential(dg.nn.Linear(16, 32), dg.nn.ReLU(), dg.nn.Linear(32, 4)).to("cuda")
    optimizer, scaler = OPTIMIZERS[name](model.parameters()), dg.amp.GradScaler("cuda")
    x, target = dg.randn(8, 16).to("cuda"), dg.randn(8, 4).to("cuda")

    def once():
        optimizer.zero_grad()
        with dg.autocast("cuda", dtype=dg.bfloat16):
            loss = dg.nn.functional.mse_loss(model(x), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        dg.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    once(), once()
    return once


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_waits_for_nothing_and_copies_nothing(lib, name):
    lib.standin_eager(1)
    step = training_step(name)
    step()
    waits, pageable, allocated = driver.synchronizations(), lib.standin_pageable(), cuda.memory_allocated()
    for _ in range(3):
        step()
    assert driver.synchronizations() == waits
    assert lib.standin_pageable() == pageable
    assert cuda.memory_allocated() == allocated


def test_a_step_without_scaling_and_with_counters_on_the_host(lib):
    lib.standin_eager(1)
    p = dg.ones(100).to("cuda").requires_grad_()
    optimizer = dg.optim.AdamW([p])
    p.grad = dg.ones(100).to("cuda")
    optimizer.step()
    before, waits = lib.standin_calls(b"cuLaunchKernel"), driver.synchronizations()
    optimizer.step()
    assert lib.standin_calls(b"cuLaunchKernel") == before + 1
    assert driver.synchronizations() == waits


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_addresses_that_a_capture_copied_are_copied_again_outside(lib, name):
    lib.standin_eager(1)
    p = dg.ones(100).to("cuda").requires_grad_()
    optimizer, graph = OPTIMIZERS[name]([p]), cuda.CUDAGraph()
    p.grad = dg.ones(100).to("cuda")
    optimizer.step()
    (plan,) = optimizer._together().plans.values()
    table = plan.batches[0].table
    p.grad = dg.ones(100).to("cuda")  # elsewhere
    kept = p.grad
    with cuda.graph(graph):
        optimizer.step()
    rows = table.rows
    optimizer.step()
    assert p.grad is kept
    assert table.rows is not rows
    graph.reset()
