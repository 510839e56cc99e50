"""What is said where GPUs of several ranks do not come to an end, and how programs go on: nothing waits for ever."""

import re
import subprocess
import sys
import threading

import pytest

import dynograd as dg
from dynograd import distributed
from dynograd.cuda import driver
from dynograd.distributed import board as boards
from dynograd.distributed.board import Board
from dynograd.distributed.communicators.device_watch import DeviceWatch
from dynograd.distributed.watching import Watch
from dynograd.errors import RankError
from tests.support import standin_nccl


class Nccl:
    def __init__(self):
        self.state, self.ends, self.aborted = 0, [], threading.Event()

    def get_async_error(self):
        return self.state

    def get_last_error(self):
        return "the cable is out"

    def abort(self):
        self.ends.append("abort")
        self.aborted.set()

    def destroy(self):
        self.ends.append("destroy")


class Event:
    def __init__(self, is_done):
        self.is_done = is_done

    def query(self):
        return self.is_done


def no_one_failed(seconds):
    pass


def rank_1_died(seconds):
    raise RankError("rank 1 is dead")


def test_a_rank_that_died_behind_the_meeting_ends_the_wait():
    nccl = Nccl()
    watch = DeviceWatch(nccl, rank_1_died, pause=600)
    watch.check()
    watch.note(Event(True))  # done: nobody is asked for it
    watch.look()
    watch.check()
    assert nccl.ends == []
    watch.note(Event(False))
    watch.look()
    with pytest.raises(RankError, match="rank 1 is dead"):
        watch.check()
    watch.close()
    assert nccl.ends == ["abort"]  # and not given back a second time


def test_errors_of_nccl_are_told_while_the_gpu_waits(monkeypatch):
    monkeypatch.setitem(sys.modules, "nccl", None)
    monkeypatch.setitem(sys.modules, "nccl.core", None)
    standin_nccl.install()
    nccl = Nccl()
    watch = DeviceWatch(nccl, no_one_failed, pause=600)
    watch.note(Event(False))
    nccl.state = 7  # in progress
    watch.look()
    watch.check()
    nccl.state = 6
    watch.look()
    assert nccl.ends == ["abort"]
    with pytest.raises(RankError, match="NCCL failed: remote process exited or there was a network error; the cable"):
        watch.check()


def test_its_thread_looks():
    nccl = Nccl()
    watch = DeviceWatch(nccl, rank_1_died, pause=0.01)
    watch.note(Event(False))
    assert nccl.aborted.wait(20)
    watch.close()


def test_a_watch_that_is_closed_gives_back_the_communicator():
    nccl = Nccl()
    watch = DeviceWatch(nccl, rank_1_died, pause=0.01)
    watch.close()
    watch.abort()
    assert nccl.ends == ["destroy"]


@pytest.mark.parametrize("how", ["dead", "failed", "slow", "ended", "well"])
def test_who_is_named_that_has_come_to_the_collective(tmp_path, how):
    board = Board(tmp_path / "board", 2)
    watches = [Watch(board, place, [0, 1], 0, 100.0) for place in range(2) if board.enter(place, place) is not None]
    for watch in watches:
        watch.begin("all_reduce of float32(3,), SUM", "train.py:7")
    record = board.records[1:2]
    record["step"] = 3
    if how == "dead":
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        record["pid"] = child.pid
    if how == "failed":
        record["state"], record["error"] = boards.FAILED, b"ended with ValueError: bad sample"
    if how == "ended":
        record["state"] = boards.ENDED
    call = re.escape("all_reduce of float32(3,), SUM at train.py:7: ")
    words = {
        "dead": rf"{call}rank 1 \(pid \d+\) is dead in step 3; the last collective it called: all_reduce",
        "failed": rf"{call}rank 1 \(pid \d+\) ended with ValueError: bad sample in step 3",
        "slow": f"{call}all ranks have come, and their GPUs are not done in 100 s",
    }
    if how in words:
        with pytest.raises(RankError, match=words[how]):
            watches[0].look_at_all(100.0 if how == "slow" else 1.0)
    else:
        watches[0].look_at_all(1.0)
    board.close()


needs_two = pytest.mark.skipif(
    dg.cuda.device_count() < 2 or not driver.is_emulated(),
    reason="needs two emulated devices: DYNOGRAD_CUDA=emulated:2",
)


@pytest.fixture
def standin(monkeypatch):
    monkeypatch.setitem(sys.modules, "nccl", None)
    monkeypatch.setitem(sys.modules, "nccl.core", None)
    standin_nccl.install()
    standin_nccl.calls.clear()


@needs_two
def test_a_group_that_nccl_has_left_does_nothing_more(standin):
    def program():
        rank = distributed.get_rank()
        x = dg.ones(3, device=f"cuda:{rank}")
        distributed.all_reduce(x)
        distributed.group.WORLD.communicator._nccl.state = 6
        told = []
        for _ in range(2):
            with pytest.raises(RankError) as error:
                distributed.all_reduce(x)
            told.append(str(error.value))
        return x.tolist(), told

    text = "NCCL failed: remote process exited or there was a network error; the cable is out"
    assert distributed.simulate(program, ranks=2) == [([2.0] * 3, [text] * 2)] * 2
    assert standin_nccl.calls.count("abort") == 2
