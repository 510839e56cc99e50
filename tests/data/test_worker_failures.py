"""What happens when samples raise, workers die or hang, and programs end: the right error soon, and nothing left behind."""

import gc
import multiprocessing
import os
import pickle
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import dynograd as dg
from dynograd.data import DataLoader, Dataset, IterableDataset, default_collate, get_worker_info, processes
from dynograd.errors import DynogradError, LoaderError, WorkerDied

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="these drills kill forked workers")


ROOT = Path(__file__).parent.parent.parent


class Faulty(Dataset):
    """Index 5 of 12 does `fault`, in workers only unless `everywhere`."""

    def __init__(self, fault, everywhere=False):
        self.fault = fault
        self.everywhere = everywhere

    def __len__(self):
        return 12

    def __getitem__(self, index):
        if index == 5 and (self.everywhere or get_worker_info() is not None):
            self.fault()
        return index


class FaultyStream(IterableDataset):
    def __init__(self, fault):
        self.fault = fault

    def __iter__(self):
        yield from range(3)
        self.fault()


class NeedsTwo(Exception):
    """Cannot be unpickled the usual way: its __init__ wants more than its args."""

    def __init__(self, name, number):
        super().__init__(f"{name} {number}")
        self.number = number
        self.callback = lambda: name  # and this cannot be pickled at all


def raising(error):
    def fault():
        raise error

    return fault


def key_error():
    return {}["missing"]


def exhaust(loader):
    """The batches before the error, and the error."""
    batches = []
    with pytest.raises(BaseException) as caught:
        for batch in loader:
            batches.append(batch)
    return batches, caught.value


def told(error):
    """All that a reader of the traceback sees below it."""
    return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])


@pytest.fixture(autouse=True)
def nobody_left():
    yield
    gc.collect()
    assert multiprocessing.active_children() == []


# --- errors of samples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_an_error_keeps_its_type_and_names_the_index(num_workers):
    batches, error = exhaust(DataLoader(Faulty(key_error, True), 2, num_workers=num_workers))
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3]]
    assert type(error) is KeyError
    assert error.args == ("missing",)
    assert "DataLoader: raised by dataset[5] for batch 2 with indices [4, 5]" in told(error)
    if num_workers:
        assert "original traceback" in told(error)
        assert 'return {}["missing"]' in told(error)
        assert f"DataLoader worker {2 % num_workers} (pid " in told(error)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_iteration_goes_on_after_a_bad_batch(num_workers):
    iterator = iter(DataLoader(Faulty(key_error, True), 2, num_workers=num_workers))
    got = []
    while True:
        try:
            got.append(next(iterator).tolist())
        except KeyError:
            got.append("bad")
        except StopIteration:
            break
    assert got == [[0, 1], [2, 3], "bad", [6, 7], [8, 9], [10, 11]]


def test_errors_that_pickle_cannot_rebuild_keep_their_type_too():
    _, error = exhaust(DataLoader(Faulty(raising(NeedsTwo("disk", 7))), num_workers=1))
    assert (type(error), str(error), error.number) == (NeedsTwo, "disk 7", 7)


def test_errors_of_a_type_that_cannot_be_sent_become_loader_errors():
    class Local(Exception):
        pass

    _, error = exhaust(DataLoader(Faulty(raising(Local("here"))), num_workers=1))
    assert type(error) is LoaderError
    assert isinstance(error, RuntimeError)
    for words in ("Local: here", "dataset[5]", "DataLoader worker 0", "original traceback", "in fault"):
        assert words in str(error)


def test_chained_errors_show_their_cause():
    def fault():
        try:
            key_error()
        except KeyError as error:
            raise ValueError("bad row") from error

    _, error = exhaust(DataLoader(Faulty(fault), num_workers=1))
    assert type(error) is ValueError
    assert "KeyError: 'missing'" in told(error)
    assert "direct cause" in told(error)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_stop_iteration_does_not_end_the_loop_silently(num_workers):
    _, error = exhaust(DataLoader(Faulty(raising(StopIteration()), True), num_workers=num_workers))
    assert type(error) is LoaderError
    assert "dataset[5] raised StopIteration" in str(error)


@pytest.mark.parametrize(
    "error", [BrokenPipeError("s3"), ConnectionResetError("s3"), EOFError("short file"), OSError(2, "no")]
)
def test_errors_of_the_datasets_own_connections_are_not_taken_for_ours(error):
    batches, raised = exhaust(DataLoader(Faulty(raising(error)), num_workers=1))
    assert len(batches) == 5
    assert type(raised) is type(error)
    assert "dataset[5]" in told(raised)


def test_sys_exit_in_a_worker_is_an_error():
    _, error = exhaust(DataLoader(Faulty(lambda: sys.exit(3)), 4, num_workers=1))
    assert type(error) is WorkerDied
    assert "exited by SystemExit: 3 while it worked on batch 1 with indices [4, 5, 6, 7]" in str(error)
    assert "dataset[5]" in told(error)


def test_a_memory_error_in_a_worker_is_both_kinds_of_error():
    _, error = exhaust(DataLoader(Faulty(raising(MemoryError("no more"))), 4, num_workers=2))
    assert isinstance(error, WorkerDied)
    assert isinstance(error, MemoryError)
    assert "ran out of memory (MemoryError: no more) while it worked on batch 1 with indices [4, 5, 6, 7]" in str(error)
    assert "fewer workers" in str(error)
    assert "dataset[5]" in told(error)
    assert (error.worker_id, error.indices) == (1, [4, 5, 6, 7])


@pytest.mark.parametrize("num_workers", [0, 1])
def test_errors_of_collate_fn_name_the_batch(num_workers):
    ragged = [np.zeros(size) for size in (2, 2, 2, 3)]
    _, error = exhaust(DataLoader(ragged, 2, num_workers=num_workers))
    assert isinstance(error, ValueError)
    assert isinstance(error, DynogradError)
    assert "(2,) in number 0, (3,) in number 1" in str(error)
    assert "raised by collate_fn for batch 1 with indices [2, 3]" in told(error)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_errors_of_streams_name_the_sample(num_workers):
    batches, error = exhaust(DataLoader(FaultyStream(key_error), num_workers=num_workers))
    assert len(batches) == 3
    assert type(error) is KeyError
    assert "raised by iterating over the dataset, at sample 3" in told(error)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_errors_of_the_sampler_come_after_the_batches_before(num_workers):
    def sampler():
        yield from range(3)
        raise KeyError("sampler")

    batches, error = exhaust(DataLoader(range(9), sampler=sampler(), num_workers=num_workers))
    assert [batch.tolist() for batch in batches] == [[0], [1], [2]]
    assert error.args == ("sampler",)


def test_errors_of_worker_init_fn():
    def init(worker_id):
        raise OSError(f"no data for {worker_id}")

    _, error = exhaust(DataLoader(range(4), num_workers=2, worker_init_fn=init))
    assert type(error) is OSError
    assert "no data for 0" in told(error)
    assert "raised by worker_init_fn" in told(error)


def test_a_batch_that_cannot_be_pickled():
    _, error = exhaust(DataLoader(range(4), num_workers=1, collate_fn=lambda samples: lambda: samples))
    assert "raised by pickling the batch" in told(error)
    assert "pickle" in str(error)


def test_a_tensor_with_history_cannot_leave_a_worker():
    weight = dg.ones(2, requires_grad=True)
    _, error = exhaust(DataLoader([1.0], collate_fn=lambda samples: weight * samples[0], num_workers=1))
    assert "only leaf tensors can be pickled" in str(error)


def test_what_other_start_methods_cannot_send_is_explained():
    with pytest.raises((AttributeError, pickle.PicklingError)) as caught:
        iter(DataLoader(range(4), num_workers=2, collate_fn=lambda samples: 0, multiprocessing_context="spawn"))
    assert "worker 0 could not be started by 'spawn'" in told(caught.value)


# --- workers that die ------------------------------------------------------------------------------------------------------


def kill_self(number):
    os.kill(os.getpid(), number)
    select.select([], [], [], 30)


@pytest.mark.parametrize(
    "fault, words",
    [
        (lambda: kill_self(signal.SIGKILL), "was killed by signal 9 (SIGKILL) while"),
        (lambda: kill_self(signal.SIGTERM), "was killed by signal 15 (SIGTERM) while"),
        (lambda: os._exit(3), "exited with code 3 while"),
    ],
)
@pytest.mark.parametrize("options", [{"num_workers": 1}, {"num_workers": 2}, {"num_workers": 2, "in_order": False}])
def test_a_worker_that_dies_is_reported_at_once(fault, words, options):
    begin = time.monotonic()
    batches, error = exhaust(DataLoader(Faulty(fault), 2, **options))
    assert time.monotonic() - begin < 5
    assert type(error) is WorkerDied
    assert isinstance(error, LoaderError)
    assert words in str(error)
    assert "it worked on batch 2 with indices [4, 5]" in str(error)
    assert error.in_flight[0] == [4, 5]
    assert error.signal == ({9: "SIGKILL", 15: "SIGTERM"}.get(-error.exitcode))
    assert (error.indices, error.worker_id) == ([4, 5], 2 % options["num_workers"])
    assert f"pid {error.pid}" in str(error)
    assert all(batch.tolist() != [4, 5] for batch in batches)


def test_a_crash_in_native_code_is_reported():
    faulty = Faulty(lambda: (signal.signal(signal.SIGSEGV, signal.SIG_DFL), kill_self(signal.SIGSEGV)))
    _, error = exhaust(DataLoader(faulty, 4, num_workers=1))
    assert "signal 11 (SIGSEGV) while it worked on batch 1 with indices [4, 5, 6, 7]" in str(error)
    assert "faulthandler" in str(error)


def test_the_death_of_a_worker_that_nobody_waits_for_yet_is_reported():
    """Worker 0 hangs in its batch; worker 1 dies. Without looking around, the loader would wait for worker 0."""

    class OneHangs(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            if index == 0:
                time.sleep(60)
            os._exit(7)

    begin = time.monotonic()
    _, error = exhaust(DataLoader(OneHangs(), num_workers=2))
    assert time.monotonic() - begin < 5
    assert "DataLoader worker 1" in str(error)
    assert "exited with code 7 while it worked on batch 1 with indices [1]" in str(error)


def test_a_worker_killed_from_outside_while_idle():
    loader = DataLoader(range(100), num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    victim = iterator._crew.workers[1].process
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    _, error = exhaust(iterator)
    assert f"DataLoader worker 1 (pid {victim.pid}) was killed by signal 9" in str(error)
    with pytest.raises(LoaderError, match=r"ended with WorkerDied.* iter\(loader\)"):
        next(iterator)
    assert len(list(loader)) == 100  # a new iteration starts new workers


def test_a_stream_whose_worker_dies():
    _, error = exhaust(DataLoader(FaultyStream(lambda: os._exit(4)), num_workers=1))
    assert "exited with code 4 while it worked on batch 3 with samples of its stream" in str(error)


@pytest.mark.parametrize("attempt", range(8))
def test_a_kill_at_any_time_is_an_error_or_too_late(attempt):
    iterator = iter(DataLoader([np.full(20000, index) for index in range(64)], 2, num_workers=2))
    for _ in range(attempt):
        next(iterator)
    os.kill(iterator._crew.workers[attempt % 2].process.pid, signal.SIGKILL)
    try:
        rest = list(iterator)
        assert len(rest) + attempt == 32
    except LoaderError as error:
        assert "signal 9" in str(error)


# --- workers that hang -----------------------------------------------------------------------------------------------------


def hang_here():
    time.sleep(60)


@pytest.mark.parametrize("in_order", [True, False])
def test_timeout_names_the_indices_and_shows_where_the_worker_is(in_order):
    begin = time.monotonic()
    _, error = exhaust(DataLoader(Faulty(hang_here), 2, num_workers=1, timeout=0.3, in_order=in_order))
    assert time.monotonic() - begin < 4
    assert type(error) is LoaderError
    for words in (
        "DataLoader timed out after 0.3 seconds",
        "batch 2 with indices [4, 5]",
        "in hang_here",
        "time.sleep(60)",
    ):
        assert words in str(error)


def test_timeout_of_a_worker_that_is_stopped():
    fault = lambda: os.kill(os.getpid(), signal.SIGSTOP)  # noqa: E731
    _, error = exhaust(DataLoader(Faulty(fault), 2, num_workers=1, timeout=0.3))
    assert "timed out" in str(error)
    assert "it did not answer" in str(error)


def test_a_timeout_that_is_not_reached_changes_nothing():
    assert len(list(DataLoader(range(10), num_workers=2, timeout=60))) == 10


def test_a_long_silence_is_worth_a_warning(monkeypatch):
    monkeypatch.setattr(processes, "_SLOW", 0.0)
    monkeypatch.setattr(processes, "_LOOK_AROUND", 0.05)
    slow = Faulty(lambda: time.sleep(0.5))
    with pytest.warns(UserWarning, match=r"(?s)has been silent .* indices \[5\].*in __getitem__.*timeout=seconds"):
        assert len(list(DataLoader(slow, num_workers=1))) == 12


def test_a_hanging_worker_does_not_keep_the_loader_from_closing():
    iterator = iter(DataLoader(Faulty(hang_here), 2, num_workers=1))
    assert [next(iterator).tolist(), next(iterator).tolist()] == [[0, 1], [2, 3]]
    crew = iterator._crew
    while "in hang_here" not in crew.workers[0].stack():
        pass
    begin = time.monotonic()
    crew.shut_down(0.1)
    assert time.monotonic() - begin < 4
    assert crew.workers[0].process.exitcode == -signal.SIGTERM


def test_closing_does_not_wait_for_the_rest_of_a_batch():
    class Slow(Dataset):
        def __len__(self):
            return 1000

        def __getitem__(self, index):
            time.sleep(0.02)
            return index

    iterator = iter(DataLoader(Slow(), 500, num_workers=1))
    begin = time.monotonic()
    iterator._end()
    assert time.monotonic() - begin < 3


# --- programs that end -----------------------------------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys, time
from dynograd.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        if index >= {hang_from}:
            time.sleep(60)
        return index

iterator = iter(DataLoader(Numbers(), 2, num_workers=2, persistent_workers={persistent}))
next(iterator)
print(*[worker.process.pid for worker in iterator._crew.workers], flush=True)
{end}
"""


def start(end, hang_from=1000, persistent=False):
    """The program and the pids of its workers."""
    text = textwrap.dedent(PROGRAM).format(end=end, hang_from=hang_from, persistent=persistent)
    program = subprocess.Popen(
        [sys.executable, "-c", text],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return program, [int(pid) for pid in program.stdout.readline().split()]


def is_running(pid):
    """A zombie has ended: whoever should collect it is gone or about to."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for_end(pids, within):
    deadline = time.monotonic() + within
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, f"still running: {[pid for pid in pids if is_running(pid)]}"
        select.select([], [], [], 0.02)


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")


@needs_proc
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("end, code", [("pass", 0), ("sys.exit(3)", 3), ("raise KeyError('program')", 1)])
def test_workers_end_with_the_program(end, code, persistent):
    program, pids = start(end, persistent=persistent)
    _, said = program.communicate(timeout=20)
    assert program.returncode == code
    assert ("KeyError: 'program'" in said) if code == 1 else said == ""
    wait_for_end(pids, 1)


@needs_proc
@pytest.mark.parametrize("hang_from", [1000, 4])
def test_workers_end_when_the_program_is_killed(hang_from):
    """Also when they hang in a sample: the listener ends the process."""
    program, pids = start("time.sleep(60)", hang_from=hang_from)
    assert len(pids) == 2
    program.kill()
    program.communicate(timeout=20)
    wait_for_end(pids, 5)


FORKED = """
import os, signal, sys
from dynograd.data import DataLoader

def press(frame, event, argument):
    if event == "c_return" and argument is os.fork:
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
loader = DataLoader(range(8), num_workers=2)
try:
    sys.setprofile(press)
    iter(loader)
except KeyboardInterrupt:
    sys.setprofile(None)
    sys.stdout.write("interrupted\\n")
sys.stdout.write(f"{sum(map(len, loader))}\\n")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_an_interrupt_at_the_fork_stays_out_of_the_worker():
    """In the parent and in the child; else the child would go on with the program, too."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\n8\n", "", 0)


@needs_proc
def test_ctrl_c_gives_one_traceback_and_leaves_nobody():
    program, pids = start("for batch in iterator: pass\ntime.sleep(60)", hang_from=20)
    select.select([], [], [], 0.3)  # most likely waiting for the hanging batch by now; any other time is as good
    os.killpg(program.pid, signal.SIGINT)
    _, said = program.communicate(timeout=20)
    assert program.returncode != 0
    assert said.count("Traceback") == 1
    assert said.rstrip().endswith("KeyboardInterrupt")
    wait_for_end(pids, 1)


def test_a_forked_child_of_the_program_leaves_the_workers_alone():
    iterator = iter(DataLoader(range(8), num_workers=2))
    next(iterator)
    child = os.fork()
    if child == 0:
        iterator._end()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(iterator)) == 7


def test_an_interrupt_inside_the_loader_ends_its_workers(monkeypatch):
    iterator = iter(DataLoader(range(8), num_workers=2))
    crew = iterator._crew

    def interrupted(worker):
        raise KeyboardInterrupt

    monkeypatch.setattr(crew, "_answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert not any(worker.process.is_alive() for worker in crew.workers)
    with pytest.raises(LoaderError, match="ended with KeyboardInterrupt"):
        next(iterator)


def test_workers_do_not_run_the_programs_signal_handlers():
    handlers = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        for number, _ in handlers:
            signal.signal(number, lambda *_: os._exit(9))
        collate = lambda samples: [signal.getsignal(number) for number, _ in handlers]  # noqa: E731
        assert list(DataLoader([0], collate_fn=collate, num_workers=1)) == [[signal.SIG_IGN, signal.SIG_DFL]]
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)


def test_default_collate_is_used_in_workers_too():
    assert DataLoader([1], num_workers=1).collate_fn is default_collate


@pytest.mark.parametrize("place", range(6))  # two workers are told of the epoch, then each gets two batches
def test_an_epoch_whose_beginning_was_interrupted_is_begun_anew(place, monkeypatch):
    """The batch that was being given was waited for, and the first one of the next epoch taken for it."""
    loader = DataLoader(range(12), 2, num_workers=2, persistent_workers=True)
    expected = [batch.tolist() for batch in loader]
    send, sent = processes.Worker._send, []

    def interrupted(worker, message):
        sent.append(message)
        if len(sent) == place + 1:
            raise KeyboardInterrupt
        send(worker, message)

    with monkeypatch.context() as patch:
        patch.setattr(processes.Worker, "_send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            iter(loader)
    assert [batch.tolist() for batch in loader] == expected
