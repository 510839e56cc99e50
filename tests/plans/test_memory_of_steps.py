"""Compiled steps of many lengths take no more memory the longer they run, and give it back when the function dies."""

from __future__ import annotations

import functools
import gc
import linecache
import tracemalloc
import weakref

import dynograd as torch
from dynograd import nn
from dynograd.ops.readers import _MOST_ENDED
from dynograd.plans.compiling import Compiled
from dynograd.plans.walk_readers import WalkReader

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


def test_what_is_written_for_functions_that_die_goes_too():
    """Names in the modules of ops, and the lines of texts: a program may compile again and again."""
    space = torch.sin.__globals__

    def what_there_is():
        readers = [thing for thing in gc.get_objects() if type(thing) is WalkReader]
        return len(readers), len(space), len(linecache.cache)

    def compile_and_run():
        step = Compiled(lambda x: (x * x).sin().sum(), always=True)
        for _ in range(4):
            step(torch.ones(3))
        assert step.walked

    counts = []
    for _ in range(3):
        for _ in range(_MOST_ENDED + 1):
            compile_and_run()
            gc.collect()
        counts.append(what_there_is())
    assert all(later <= earlier for earlier, later in zip(counts[1], counts[2]))


def test_what_a_record_needed_is_given_back():
    """All values of the step at once, and copies of them to compare with: what stays is the memory of the plan."""
    weight = torch.ones(1 << 20, requires_grad=True)
    step = Compiled(lambda x: functools.reduce(lambda h, _: (h * weight).tanh(), range(12), x), always=True)
    torch.memory.release()
    before = torch.memory.statistics()["in_use"]
    for _ in range(5):
        weight.grad = None
        step(torch.ones(1 << 20)).sum().backward()
    gc.collect()
    after = torch.memory.statistics()
    assert step.walked == 3, step.report()
    assert after["in_use"] + after["unused"] - before < 1.5 * step.report().arena, after
