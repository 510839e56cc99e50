"""Compiled steps of many lengths take no more memory the longer they run, and give it back when the function dies."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled

LENGTHS = 20
MOST_GROWTH = 48 << 10  # bytes in 400 calls: caches of the interpreter's own


def compiled_step():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return Compiled(step, always=True)


def bytes_after(step, count):
    for n in range(count):
        step(torch.ones(3 + n * 7 % LENGTHS, 4))
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def growth_and_what_dies():
    step = compiled_step()
    before = bytes_after(step, 200)
    after = bytes_after(step, 400)
    return after - before, [weakref.ref(thing) for thing in (step, step.walk, step.shared.arena)]


def test_memory_stays_and_is_given_back():
    tracemalloc.start()
    try:
        growth, gone = growth_and_what_dies()
    finally:
        tracemalloc.stop()
    assert growth < MOST_GROWTH
    gc.collect()
    assert [reference() for reference in gone] == [None] * len(gone)
