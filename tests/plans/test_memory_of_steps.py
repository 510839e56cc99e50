"""Compiled steps of many lengths take no more memory the longer they run, and give it back when the function dies."""

from __future__ import annotations

import functools
import gc
import linecache
import tracemalloc
import weakref

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.arrays import buffers
from dynograd.kernels.layout.digests_cpu import digest
from dynograd.ops.readers import _MOST_ENDED
from dynograd.plans.compiling import Compiled
from dynograd.plans.lowering.bound import _Apart
from dynograd.plans.memory import ReservedMemory
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


# --- while a step is recorded ---------------------------------------------------------------------------------------------------------

ELEMENTS = 1 << 17  # twice what the pool of buffers knows as large
DEPTH = 16


def chain(x, w):
    return functools.reduce(lambda h, _: (h * w).tanh(), range(DEPTH), x).sum()


def chain_of_views(x, w):
    return functools.reduce(lambda h, _: (h.view(2, -1).T * 0.5).T.reshape(-1) * w, range(DEPTH), x).sum()


def chain_in_place(x, w):
    h = x * w
    for _ in range(DEPTH):
        h = (h * w).add_(1.0).mul_(0.5)
    return h.sum()


def chain_backward(x, w):
    loss = chain(x, w)
    loss.backward()
    return loss


def chain_of_products(x, w):
    h = x.view(256, -1)
    for _ in range(DEPTH):
        h = (w.view(256, -1)[:, :256] @ h) * 0.1
    return h.sum()


def with_random_numbers(x, w):
    torch.manual_seed(3)
    h = functools.reduce(lambda h, _: nn.functional.dropout(h * w, 0.3), range(DEPTH), x)
    h.sum().backward()
    return h.sum()


LARGE_STEPS = [  # (step, whether gradients are recorded, so many arrays of x's size are there at most when one is looked for)
    (chain, False, 3),
    (chain_of_views, False, 5),
    (chain_in_place, False, 4),
    (chain_of_products, False, 4),
    (chain_backward, True, 2 * DEPTH + 6),  # backward reads what each product and each tanh has got and given
    (with_random_numbers, True, 3 * DEPTH + 6),
]


@pytest.mark.parametrize("step, grad, most", LARGE_STEPS, ids=lambda value: getattr(value, "__name__", ""))
def test_what_dies_in_a_recorded_step_takes_no_memory(step, grad, most, monkeypatch):
    """As where nothing is recorded; and the step has the numbers of the one that is not recorded."""
    resident = []

    def let_go(memory, before=ReservedMemory.let_go):
        before(memory)
        resident.append(memory.bytes)

    monkeypatch.setattr(ReservedMemory, "let_go", let_go)
    monkeypatch.setattr(ReservedMemory, "is_due", lambda memory: True)
    x, w = torch.randn(ELEMENTS), torch.randn(ELEMENTS, requires_grad=grad)
    expected, gradient = step(x, w), w.grad
    w.grad = None
    compiled = Compiled(step, always=True, exact=True)
    for _ in range(4):
        loss = compiled(x, w)
        assert loss.item() == expected.item()
        assert gradient is None or torch.equal(w.grad, gradient)
        w.grad = None
    assert compiled.walked == 2, compiled.report()
    assert resident and max(resident) <= most * x.array.nbytes * 1.01


def test_memory_that_somebody_has_stays_while_a_step_is_recorded():
    """A value, a view of one, and an array of it, each alone, and what nodes have saved."""
    kept = []

    def step(x, w):
        h = x * 2.0
        kept.append([(h + 1.0), (h + 2.0).view(2, -1)[1], (h + 3.0).detach().numpy()])
        return (h * w).sum()

    x, w = torch.ones(ELEMENTS), torch.ones(ELEMENTS, requires_grad=True)
    compiled = Compiled(step, always=True)
    for _ in range(3):
        compiled(x, w).backward()
    for whole, view, array in kept:
        assert bool((whole == 3.0).all()) and bool((view == 4.0).all()) and (array == 5.0).all()
    assert bool((w.grad == 6.0).all())


def test_an_array_that_is_there_is_never_let_go_of():
    memory, array = ReservedMemory(), buffers.zeros((ELEMENTS,), numpy.dtype("float32"))
    array += 1
    memory.reserve(array)
    view, outline = array[5:9], memory.outline(array)
    del array
    memory.let_go()
    assert memory.resident and (view == 1).all() and (outline == 1).all()
    del view
    memory.let_go()
    assert not memory.resident


DIGESTED = ["float32", "float64", "float16", "int64", "int8", "bool", "complex128"]


@pytest.mark.parametrize("dtype", DIGESTED)
def test_digests_tell_arrays_apart(dtype):
    """One element that is another, rows in another order, and signs that change."""
    numbers = numpy.random.default_rng(0).standard_normal((300, 301))
    array = numbers > 0 if dtype == "bool" else (50 * numbers).astype(dtype)
    for laid in (array, array.T, array[::2, 1:]):
        before = digest(laid)
        assert digest(laid.copy(order="K")) == before
        changed, exchanged, negated = [laid.copy(order="K") for _ in range(3)]
        changed[5, 7] = not changed[5, 7]
        exchanged[2:] = exchanged[:1:-1].copy()
        negated[:4, :2] = -negated[:4, :2] if dtype != "bool" else ~negated[:4, :2]
        for other in (changed, exchanged, negated):
            assert digest(other) != before


def test_a_record_leaves_no_cycles():
    """Else its memory would stay until Python looks for them."""

    def step(x):
        return functools.reduce(lambda h, _: (h * 2.0).softmax(-1), range(4), x.view(256, -1)).sum()

    compiled = Compiled(step, always=True)
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):
            compiled(torch.ones(ELEMENTS))
        left = [thing for thing in gc.get_objects() if type(thing) in (ReservedMemory, _Apart)]
    finally:
        gc.enable()
    assert compiled.walked and not left


# --- where there is too little ----------------------------------------------------------------------------------------------------------

SCARCE = 1 << 20  # bytes


def of_a_module():
    model = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 1))
    return model, [*model.parameters()]


@pytest.mark.parametrize("whole", [True, False], ids=["step", "module"])
def test_a_step_whose_plan_has_no_room_runs_as_it_is_written(whole, monkeypatch):
    model, parameters = of_a_module()
    called = Compiled(model, always=True)

    def step(x):
        loss = (model if whole else called)(x).square().mean()
        loss.backward()
        return loss.detach()

    compiled = Compiled(step, always=True) if whole else step
    x = torch.randn(1 << 14, 64)
    expected = step(x) if whole else model(x).square().mean().detach()
    free = iter([1 << 40] if not whole else [])  # the module's forward has a plan
    monkeypatch.setattr(buffers, "available", lambda: next(free, SCARCE))
    for _ in range(5):
        for parameter in parameters:
            parameter.grad = None
        assert compiled(x).item() == pytest.approx(expected.item(), rel=1e-6)
        gradients = torch.autograd.grad(model(x).square().mean(), parameters)
        for parameter, gradient in zip(parameters, gradients):
            torch.testing.assert_close(parameter.grad, gradient)
    report = str((compiled if whole else called).report())
    assert "bytes of memory, of which 1,048,576 are free" in report
    assert whole or "its backward has no plan" in report
