"""Training on the stand-in: kernels are compiled and launched (they compute nothing here), and nobody waits."""

import gc

import pytest

import dynograd as dg
from dynograd import cuda
from dynograd.cuda import driver

pytest.importorskip("triton", reason="kernels are compiled by Triton (pip install dynograd[gpu])")


@pytest.fixture
def make_step(lib):
    """Makes a training step of two layers; its launches run at once and change nothing."""
    lib.standin_eager(1)
    return training_step


def training_step():
    model = dg.nn.Sequential(dg.nn.Linear(16, 32), dg.nn.ReLU(), dg.nn.Linear(32, 4)).to("cuda")
    optimizer = dg.optim.SGD(model.parameters(), lr=0.1)
    x, target = dg.randn(8, 16).to("cuda"), dg.randn(8, 4).to("cuda")

    def once():
        optimizer.zero_grad()
        loss = ((model(x) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    once(), once()
    return once


def test_a_training_step_waits_for_nothing_and_takes_no_new_memory(lib, make_step):
    step = make_step()
    counted = (
        b"cuLaunchKernel",
        b"cuMemAllocFromPoolAsync",
        b"cuMemFreeAsync",
        b"cuStreamSynchronize",
        b"cuCtxSynchronize",
    )
    before, waits = [lib.standin_calls(name) for name in counted], driver.synchronizations()
    allocated, pageable = cuda.memory_allocated(), lib.standin_pageable()
    for _ in range(5):
        step()
    after = [lib.standin_calls(name) for name in counted]
    assert after[0] > before[0] and after[1:] == before[1:]
    assert driver.synchronizations() == waits and lib.standin_pageable() == pageable
    assert cuda.memory_allocated() == allocated


def test_reading_the_loss_waits_once(make_step):
    step = make_step()
    waits = driver.synchronizations()
    step().item()
    assert driver.synchronizations() == waits + 1
    cuda.set_sync_debug_mode("error")
    try:
        loss = step()
        with pytest.raises(RuntimeError, match="synchronizing CUDA operation"):
            loss.item()
    finally:
        cuda.set_sync_debug_mode("default")


def test_a_training_step_can_be_captured(lib, make_step):
    graph, step = cuda.CUDAGraph(), make_step()
    with cuda.graph(graph):
        step()
    launches = lib.standin_calls(b"cuLaunchKernel")
    graph.replay()
    assert lib.standin_calls(b"cuLaunchKernel") == launches and lib.standin_calls(b"cuGraphLaunch") > 0
    graph.reset()


def test_nothing_is_left_when_the_model_is_gone(make_step):
    step = make_step()
    step()
    assert cuda.memory_allocated() > 0
    del step
    gc.collect()
    assert cuda.memory_allocated() == 0


def test_the_older_names_of_autocast_are_there(make_step):
    with cuda.amp.autocast():
        assert dg.is_autocast_enabled("cuda") if hasattr(dg, "is_autocast_enabled") else True
    assert isinstance(cuda.amp.GradScaler(), dg.amp.GradScaler)

    @cuda.amp.custom_fwd
    def forward(x):
        return x

    @cuda.amp.custom_bwd
    def backward(x):
        return x

    assert callable(forward) and callable(backward)
