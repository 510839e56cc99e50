"""Drills: workers and programs are killed, interrupted and left alone at random moments, many times over.

A few of each run by default. `DYNOGRAD_DRILLS=1` runs as many as docs/reliability.md counts and, with `pytest -s`, prints its rows.
"""

import gc
import multiprocessing
import os
import random
import select
import signal
import sys
import time

import numpy as np
import pytest

import dynograd as dg
from dynograd.data import DataLoader, Dataset, collate_pad, get_worker_info
from dynograd.errors import LoaderError, WorkerDied

pytestmark = [
    pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks at /proc"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

FULL = "DYNOGRAD_DRILLS" in os.environ


def times(few, many):
    return many if FULL else few


def report(what, times_run, **figures):
    if FULL:
        told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items())
        print(f"\n| {what} | {times_run} | {told} |")


class Endless(Dataset):
    """Samples of some size; in a worker, index `fatal` does `fault`."""

    def __init__(self, fault=None, fatal=-1, size=500):
        self.fault, self.fatal, self.size = fault, fatal, size

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if index == self.fatal and get_worker_info() is not None:
            self.fault()
        return np.full(self.size, float(index)), index


class Unpicklable(Exception):
    def __init__(self, name, number):
        super().__init__(f"{name} {number}")
        self.callback = lambda: name


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def own_memory(pid="self"):
    """Bytes of a process that no other shares."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))


def slots_mapped(pid="self"):
    with open(f"/proc/{pid}/maps") as file:
        return sum("dynograd-loader" in line for line in file)


def memory_files():
    """Semaphores have a name for a moment only; those that are seen belong to tests beside this one."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


@pytest.fixture(autouse=True)
def nothing_left():
    gc.collect()
    before = descriptors(), memory_files()
    yield
    gc.collect()
    assert multiprocessing.active_children() == []
    assert slots_mapped() == 0
    assert (descriptors(), memory_files()) == before


# --- workers that die ---------------------------------------------------------------------------------------------------------

FROM_OUTSIDE = {"SIGKILL": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV}
FROM_INSIDE = {
    "os._exit": lambda: os._exit(3),
    "sys.exit": lambda: sys.exit(4),
    "MemoryError": lambda: bytearray(1 << 62),
}


@pytest.mark.parametrize("how", [*FROM_OUTSIDE, *FROM_INSIDE])
def test_a_worker_that_dies_anywhere_is_a_worker_died(how):
    rng = random.Random(how)
    count, slowest = times(3, 100), 0.0
    for _ in range(count):
        num_workers, size = rng.randint(1, 3), rng.choice([10, 500, 20_000])
        dataset = Endless(FROM_INSIDE.get(how), rng.randrange(60) if how in FROM_INSIDE else -1, size)
        loader = DataLoader(dataset, 4, num_workers=num_workers, in_order=rng.random() < 0.7)
        iterator = iter(loader)
        victim = None
        begin = time.monotonic()
        if how in FROM_OUTSIDE:
            for _ in range(rng.randrange(10)):
                next(iterator)
            victim = rng.choice(iterator._crew.workers).process.pid
            select.select([], [], [], rng.random() * 0.003)
            os.kill(victim, FROM_OUTSIDE[how])
            begin = time.monotonic()
        with pytest.raises(WorkerDied) as caught:
            for _ in iterator:
                begin = begin if victim else time.monotonic()
        slowest = max(slowest, time.monotonic() - begin)
        error = caught.value
        assert error.pid == (victim or error.pid)
        assert f"DataLoader worker {error.worker_id} (pid {error.pid})" in str(error)
        assert 0 <= error.worker_id < num_workers
        if victim:
            assert error.signal == how
            assert f"({how})" in str(error)
        else:
            assert error.in_flight[0] == error.indices
            assert dataset.fatal in error.indices
            assert isinstance(error, MemoryError) == (how == "MemoryError")
        assert all(isinstance(indices, list) for indices in error.in_flight)
        assert error.indices is None or str(error.indices) in str(error)
    report(f"worker ended by {how}", count, worst=f"{slowest:.2f} s")


def test_errors_anywhere_keep_type_and_name_the_index():
    rng = random.Random(1)
    count = times(5, 100)
    for turn in range(count):
        error = KeyError("x") if turn % 2 else Unpicklable("disk", 7)

        def fault(error=error):
            raise error

        index = rng.randrange(50)
        iterator = iter(DataLoader(Endless(fault, index), 4, num_workers=rng.randint(1, 3)))
        with pytest.raises(type(error)) as caught:
            for _ in iterator:
                pass
        told = "\n".join(caught.value.__notes__)
        assert f"raised by dataset[{index}] for batch {index // 4}" in told
        assert "in fault" in told
        del iterator
    report("exception in a worker, every second one unpicklable", count, wrong_type_or_index=0)


# --- programs that end --------------------------------------------------------------------------------------------------------


def in_a_program(run):
    """Runs `run(ready)` in a forked process with a session of its own: (pid, what it says after ready(), its standard error)."""
    ready, tell = os.pipe()
    said, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setsid()
            os.dup2(say, 2)
            os.closerange(3, tell)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            run(lambda text: os.write(tell, text.encode() + b"\n"))
            code = 0
        except KeyboardInterrupt:
            code = 130
        finally:
            os._exit(code)
    os.close(tell)
    os.close(say)
    return pid, ready, said


def session_of(leader):
    """Processes of its session that are alive."""
    alive = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] not in "ZX":
                alive.append(int(name))
    return alive


def gone(leader, within):
    begin = time.monotonic()
    while alive := session_of(leader):
        assert time.monotonic() - begin < within, alive
        select.select([], [], [], 0.01)
    return time.monotonic() - begin


def loop(ready):
    loader = DataLoader(Endless(), 4, num_workers=2)
    for number, _ in enumerate(loader):
        if number == 2:
            ready("at work")


def test_ctrl_c_at_any_time():
    rng = random.Random(2)
    count, slowest = times(2, 50), 0.0
    for _ in range(count):
        pid, ready, said = in_a_program(loop)
        assert os.read(ready, 100)
        select.select([], [], [], rng.random() * 0.05)
        begin = time.monotonic()
        os.killpg(pid, signal.SIGINT)
        _, status = os.waitpid(pid, 0)
        gone(pid, 5)
        slowest = max(slowest, time.monotonic() - begin)
        with open(said, "rb") as file:
            noise = file.read()
        os.close(ready)
        assert (os.waitstatus_to_exitcode(status), noise) == (130, b"")
    report("Ctrl-C", count, worst=f"{slowest:.2f} s", processes_left=0, lines_of_noise=0)


def test_a_killed_program_takes_its_workers_along():
    rng = random.Random(3)
    count, slowest = times(2, 50), 0.0
    for _ in range(count):
        pid, ready, said = in_a_program(loop)
        assert os.read(ready, 100)
        select.select([], [], [], rng.random() * 0.05)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        slowest = max(slowest, gone(pid, 10))
        os.close(ready)
        os.close(said)
    report("program killed by SIGKILL", count, workers_gone_after_at_most=f"{slowest:.2f} s")


# --- long runs ----------------------------------------------------------------------------------------------------------------


class UsesOps(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        x = dg.full((64, 64), float(index % 5)) @ dg.eye(64)
        return dg.softmax(x, 1).sum()


def test_workers_use_ops_after_the_program_ran_parallel_kernels():
    dg.set_num_threads(2)
    x = dg.ones(600, 600, requires_grad=True)
    count = times(2, 50)
    for epoch in range(count):
        dg.softmax(x @ x * 1e-3 + epoch, 1).exp().sum().backward()
        total = sum(batch.sum().item() for batch in DataLoader(UsesOps(), 4, num_workers=4))
        assert total == pytest.approx(32 * 64, rel=1e-5)
    report("epoch with 4 forked workers after parallel kernels", count, failed=0)


def test_leaving_the_loop_leaves_nothing():
    rng = random.Random(4)
    loader = DataLoader(Endless(size=20_000), 4, num_workers=2)
    count = times(10, 1000)
    for turn in range(count + 2):
        if turn == 2:
            gc.collect()
            before, memory = descriptors(), own_memory()
        last = rng.randrange(4)
        for number, _ in enumerate(loader):
            if number == last:
                break
    gc.collect()
    assert multiprocessing.active_children() == []
    assert descriptors() == before
    assert own_memory() - memory < 8e6
    report("`break`", count, children=0, descriptors=0, growth=f"{(own_memory() - memory) / 1e6:.2f} MB")


class Sentences(Dataset):
    def __len__(self):
        return 8_000

    def __getitem__(self, index):
        return dg.full(((index * 7919) % 97 + 1, 16), float(index)), index


@pytest.mark.parametrize("kept", [0, 3])
def test_memory_stays_flat(kept):
    """Batches of changing sizes, with none or some of the last ones kept by the program."""
    loader = DataLoader(
        Sentences(),
        16,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        collate_fn=collate_pad(),
        prefetch_factor=3,
    )
    epochs = times(2, 21)
    stored, marks = [], []
    for _ in range(epochs):
        for batch in loader:
            stored = [*stored, batch][-kept:] if kept else []
        pids = [worker.process.pid for worker in loader._hired.crew.workers]
        gc.collect()
        marks.append([own_memory(), *map(own_memory, pids), descriptors(), slots_mapped()])
    del batch
    stored.clear()
    first, last = marks[len(marks) // 5], marks[-1]
    growth = [(after - before) / 1e6 for before, after in zip(first[:3], last[:3])]
    assert max(growth) < (1 if FULL else 8)
    assert last[3] == first[3]
    assert last[4] <= 2 * (3 + 4)
    told = ", ".join(f"{element:+.2f}" for element in growth)
    report(f"batches, {kept} kept", 500 * epochs, growth_of_program_and_workers=f"{told} MB", slots=last[4])
    del loader


def test_a_kept_batch_is_not_overwritten():
    """What the program holds keeps its values, whether it lies in a slot or was copied, also across a fork."""
    rng = random.Random(5)
    kept = {}
    loader = DataLoader(Endless(size=20_000), 4, num_workers=2)
    for number, (values, indices) in enumerate(loader):
        kept[number] = values, indices
        if len(kept) > 12:
            del kept[rng.choice(list(kept))]
        if number % 10 == 9:
            child = os.fork()
            if child == 0:
                os._exit(0 if all((each[:, -1] == at).all().item() for each, at in kept.values()) else 1)
            assert os.waitpid(child, 0)[1] == 0
        for element, at in kept.values():
            assert (element[:, 0] == at).all() and (element[:, -1] == at).all()
        if number == times(40, 400):
            break
    kept.clear()
    del values, indices, element, at, loader


def test_no_error_is_left_unnamed():
    assert issubclass(WorkerDied, LoaderError)
    assert issubclass(WorkerDied, RuntimeError)
