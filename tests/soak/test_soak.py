"""Short forms of `python -m tests.soak`: trainings whose memory stays, interrupts and errors of memory that leave nothing on."""

from __future__ import annotations

import signal
import sys
import threading

import numpy
import pytest

import dynograd as torch
from dynograd.autograd import modes
from dynograd.ops import readers
from tests.soak import interrupts, memory_errors, training
from tests.soak.interrupts import INTERRUPTED, Moment, Places, begins_to_exit, interrupt
from tests.soak.memory_errors import Allocations
from tests.soak.models import MODELS, ROUND
from tests.soak.states import Disturbed, status
from tests.soak.together import train_together

SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("trees, autobatch", "compiled LSTM")]


@pytest.mark.parametrize("name", ["perceptron", "loader, 2 workers", *SLOW])
def test_memory_and_work_stay(name, monkeypatch):
    monkeypatch.setattr(training, "COMPARED", 2)  # no time is asked here
    row = training.train(name, 10 * ROUND)
    row.slower = 0.0
    assert row.faults() == []


def test_what_grows_is_seen(monkeypatch):
    kept = []

    def growing():
        model = MODELS["perceptron"]()
        return training.Model(lambda n: [kept.append(numpy.ones(5000)), model.step(n), [len(row) for row in kept]])

    monkeypatch.setitem(MODELS, "growing", growing)
    monkeypatch.setattr(training, "COMPARED", 2)
    row = training.train("growing", 10 * ROUND)
    assert row.objects > 1  # pages that the process had before may take them all
    assert any([fault.startswith("objects grew by") for fault in row.faults()])


@pytest.mark.slow
def test_threads_forks_and_spawned_processes():
    row = train_together(20, forks=2, spawns=1)
    assert (row.told, row.forked, row.spawned) == ([], 2, 1)


@pytest.mark.parametrize("name", INTERRUPTED)
def test_interrupts_leave_nothing_on(name):
    _, interrupted, told = interrupt(name, 4, seed=1)
    assert (interrupted, told) == (4, [])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["autocast", "trees, autobatch", "compiled LSTM"])
def test_interrupts_at_many_places(name):
    _, interrupted, told = interrupt(name, 100, seed=2)
    assert (interrupted, told) == (100, [])


def test_what_an_interrupt_leaves_on_is_seen(monkeypatch):
    """A step that leaves recording off where it is interrupted."""

    def without_history():
        model = MODELS["perceptron"]()

        def step(n):
            modes.MODES.grad = 0
            result = sum([abs(n) for _ in range(5)])
            modes.MODES.grad = 1
            return result

        return training.Model(step, model.things)

    disturbed = Disturbed("without history", without_history)
    places = disturbed.count(Places())
    try:
        assert disturbed.problems(Places(places - 1).run) == ["dynograd.autograd.modes.MODES.grad: 1 became 0"]
    finally:
        modes.MODES.grad = 1


def test_moments_interrupt():
    def wait():
        while True:
            pass

    assert Moment(0.01).run(wait)
    assert not Moment(1.0).run(lambda: None)


def test_moments_at_the_beginning_of_an_exit_are_put_off(monkeypatch):
    """There no library's context comes to its end; elsewhere in `__exit__` it is interrupted."""
    monkeypatch.setattr(interrupts, "_SOON", 0.01)  # behind this test's own profiler
    ended = []

    class Context:
        def __enter__(self):
            pass

        def __exit__(self, *error):
            ended.append(True)

    moment = Moment(1.0)

    def ring_there(frame, event, argument):
        if event == "call" and begins_to_exit(frame):
            sys.setprofile(None)
            moment._ring(signal.SIGALRM, frame)

    def call():
        sys.setprofile(ring_there)
        with Context():
            pass
        while True:
            pass

    assert moment.run(call) and ended


@pytest.mark.parametrize("way", [lambda: Moment(0.01), lambda: Places(4)], ids=["moment", "place"])
def test_interrupts_that_finalizers_drop_are_pressed_again(way):
    """The first one comes while `__del__` runs, where Python drops it."""
    come = []

    class Dying:
        def __del__(self):
            try:
                while way_taken.goes_on if isinstance(way_taken, Moment) else len(come) < 1:
                    come.append(len("finalizer"))
            except KeyboardInterrupt:
                come.append("dropped")
                raise

    def call():
        Dying()
        come.append("after")
        while True:
            len("until it comes")

    way_taken = way()
    assert way_taken.run(call)
    assert "dropped" in come and come[-1] == "after"
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize(
    "name", ["perceptron", "ragged rows", "trees, autobatch", "checkpoints", "compiled perceptron", "compiled LSTM"]
)
def test_each_allocation_may_fail(name):
    count, failed, told = memory_errors.starve(name, most=25)
    assert count >= failed > 20 and told == []


# --- what was found -----------------------------------------------------------------------------------------------------------------


def each_place(call, apart=1):
    """Interrupts the call at each of its places, or every so many of them; gives what is on afterwards, where that differs."""
    call()
    call()
    before = status()
    place, left = 0, {}
    while True:
        place += apart
        way = Places(place)
        if not way.run(call) and way.count < place:
            return left
        after = status()
        if after != before:
            left[place, way.where[-200:]] = {
                name: (before.get(name), now) for name, now in after.items() if before.get(name) != now
            }
            return left


class Seeing(readers.Reader):
    """Sees one function."""

    name = "profiler"

    def __init__(self, function):
        super().__init__()
        self.function = function

    def sees(self, entry):
        return entry.function is self.function

    def call(self, entry, below, args, kwargs):
        return below(*args, **kwargs)


def with_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        return torch.ones(2, 2) @ torch.ones(2, 2)


def with_scope():
    with torch.autobatch(always=True):
        return torch.ones(2).tanh()


def with_hooks_of_saved_tensors():
    w = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        loss = w.exp().sum()
    loss.backward()


def with_vmap():
    return torch.vmap(torch.sin)(torch.ones(3))


def with_jvp():
    return torch.func.jvp(torch.sin, (torch.ones(3),), (torch.ones(3),))


def with_an_optimizer_of_its_own():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SparseAdam([w.detach().requires_grad_()])
    optimizer.step()
    w.sum().backward()


@pytest.mark.parametrize(
    "call", [with_autocast, with_scope, with_hooks_of_saved_tensors, with_vmap, with_jvp, with_an_optimizer_of_its_own]
)
def test_contexts_end_wherever_they_are_interrupted(call):
    assert each_place(call, apart=13) == {}


@pytest.mark.slow
@pytest.mark.parametrize("call", [with_autocast, with_scope])
def test_contexts_end_at_many_places(call):
    assert each_place(call, apart=4) == {}


def test_readers_are_off_or_on_as_a_whole():
    """The code of functions is that of the readers that are on, wherever the exchange was interrupted."""
    reader = Seeing(torch.cumsum)
    holder = readers.Holder()
    x = torch.ones(3)

    def on_and_off():
        try:
            reader.turn_on(holder)
        finally:
            try:
                reader.turn_off(holder)
            except BaseException:
                reader.turn_off(holder)
                raise

    assert each_place(on_and_off) == {}
    assert not holder.is_reading and reader.times == 0
    assert x.cumsum(0).tolist() == [1, 2, 3]


def test_turning_a_reader_off_twice_for_one_holder():
    reader, holders = Seeing(torch.cumsum), [readers.Holder(), readers.Holder()]
    for holder in (*holders, holders[0]):
        reader.turn_on(holder)
    assert reader.times == 2
    for _ in range(2):
        reader.turn_off(holders[0])
    assert reader.times == 1
    reader.turn_off(holders[1])
    assert reader.times == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.nn.functional.linear(x, x),
        lambda x: torch.nn.functional.cross_entropy(x, torch.tensor([0, 1])),
    ],
)
def test_a_memory_error_stays_one(call):
    """It was told as a ValueError of the op's arguments."""
    x = torch.ones(2, 2)
    place = 1
    raised = []
    while True:
        way = Allocations(place)
        ended = way.run(lambda: call(x))
        if way.count < place:
            break
        raised.append(ended)
        place += 1
    assert raised and all(raised)


@pytest.mark.parametrize("again", ["the step alone", "the backward pass, too", "into the same gradients"])
def test_a_scaled_step_that_failed(again):
    """New gradients were taken for unscaled ones; those that are there are unscaled once."""
    w = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer, scaler = torch.optim.SGD([w], lr=0.5), torch.amp.GradScaler("cpu", init_scale=8.0)

    def fail(optimizer, args, kwargs):
        raise MemoryError

    handle = optimizer.register_step_pre_hook(fail)
    scaler.scale(w * 1.0).sum().backward()
    with pytest.raises(MemoryError):
        scaler.step(optimizer)
    handle.remove()
    if again != "the step alone":
        optimizer.zero_grad(set_to_none=again != "into the same gradients")
        scaler.scale(w * 1.0).sum().backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.item() == 0.5


def test_a_compiled_function_is_free_after_an_interrupt_and_in_other_threads():
    step = torch.compile(lambda x: (x * 2).relu().sum())
    x = torch.ones(3)
    for _ in range(3):
        step(x)
    place = 0
    while True:
        place += 1
        way = Places(place)
        if not way.run(lambda: step(x)) and way.count < place:
            break
        assert step.turns == {}
    results = []
    thread = threading.Thread(target=lambda: results.append(step(x).item()))
    thread.start()
    thread.join()
    assert results == [6.0]
