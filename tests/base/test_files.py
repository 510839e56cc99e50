"""Whatever fails while a file is written, there is the whole old one or the whole new one, and nothing else in the end."""

from __future__ import annotations

import errno
import os
import random
import signal
import stat
import time

import pytest

import dynograd as dg
from dynograd.base import cache_files, files
from dynograd.errors import CheckpointError
from tests.support.system_faults import FaultyOs

FAULTS = [errno.ENOSPC, errno.EIO, errno.EINTR, errno.EACCES]


def value_of(number):
    return {"number": number, "weight": dg.full((5000,), float(number)), "bias": dg.full((3,), number)}


def number_in(path):
    """The number that was saved there; fails when the file is mixed or damaged."""
    result = dg.load(path)
    number = result["number"]
    assert (result["weight"] == number).all() and (result["bias"] == number).all()
    return number


def calls_of_a_save(path):
    counting = FaultyOs(None, None)
    real, files.os = files.os, counting
    try:
        dg.save(value_of(0), path)
    finally:
        files.os = real
    return counting.count


@pytest.mark.parametrize("fault", FAULTS, ids=errno.errorcode.get)
@pytest.mark.parametrize("existed", [True, False])
def test_every_failing_call_leaves_a_whole_file(tmp_path, monkeypatch, fault, existed):
    path = tmp_path / "x"
    count = calls_of_a_save(tmp_path / "counted")
    os.unlink(tmp_path / "counted")
    assert count >= 9
    failed = set()
    for place in range(count):
        path.unlink(missing_ok=True)
        if existed:
            dg.save(value_of(1), path)
        faulty = FaultyOs(place, fault)
        with monkeypatch.context() as patch:
            patch.setattr(files, "os", faulty)
            try:
                dg.save(value_of(2), path)
                told = None
            except CheckpointError as error:
                told = str(error)
        failed.add(faulty.failed)
        result = number_in(path) if path.exists() else None
        if told is None:
            assert result == 2
        else:
            assert os.strerror(fault) in told and str(path) in told
            assert result == (2 if "is written" in told else 1 if existed else None)
            assert ("untouched" in told) == (result == 1)
        if faulty.failed != "unlink":
            assert os.listdir(tmp_path) == ([] if result is None else ["x"])
        for left in tmp_path.glob(".*.tmp"):
            left.unlink()
    assert {"open", "write", "fsync", "replace", "close"} <= failed


def forked(action):
    """The wait status of a child that runs `action`."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    return child


def test_a_process_that_ends_at_any_call_leaves_a_whole_file(tmp_path):
    path = tmp_path / "x"
    count = calls_of_a_save(path)
    seen = set()
    for place in range(count):
        dg.save(value_of(1), path)

        def die_there(place=place):
            files.os = FaultyOs(place, "kill")
            dg.save(value_of(2), path)

        _, status = os.waitpid(forked(die_there), 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        seen.add(number_in(path))
        dg.save(value_of(3), path)
        assert number_in(path) == 3 and os.listdir(tmp_path) == ["x"], "what the killed process left is removed"
    assert seen == {1, 2}


@pytest.mark.slow
def test_saves_killed_at_random_times(tmp_path):
    path = tmp_path / "x"
    dg.save(value_of(0), path)
    chance = random.Random(0)
    replaced = left_over = 0
    for _ in range(150):

        def save_for_ever():
            number = number_in(path)
            while True:
                number += 1
                dg.save(value_of(number), path)

        before = number_in(path)
        child = forked(save_for_ever)
        time.sleep(chance.uniform(0.001, 0.02))  # the moment is what is drawn here
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        replaced += number_in(path) > before
        left_over += len(os.listdir(tmp_path)) > 1
    dg.save(value_of(-1), path)
    assert os.listdir(tmp_path) == ["x"]
    print(f"150 kills: a whole file 150 times, a newer one {replaced} times, {left_over} with a temporary file")
    assert replaced and left_over


def test_temporary_files_of_living_processes_stay(tmp_path):
    living = tmp_path / f".x.{files._machine()}-{os.getppid()}-0.tmp"
    elsewhere = tmp_path / ".x.00000000-1-0.tmp"
    dead = tmp_path / f".x.{files._machine()}-999999999-3.tmp"
    mine_of_before = tmp_path / f".x.{files._machine()}-{os.getpid()}-999999.tmp"
    of_another = tmp_path / f".y.{files._machine()}-999999999-3.tmp"
    everyone = [living, elsewhere, dead, mine_of_before, of_another]
    for element in everyone:
        element.write_bytes(b"")
    dg.save(1, tmp_path / "x")
    assert [each.exists() for each in everyone] == [True, True, False, False, True]


def test_links_are_followed_and_permissions_kept(tmp_path):
    dg.save(1, tmp_path / "real")
    os.chmod(tmp_path / "real", 0o640)
    os.symlink("real", tmp_path / "latest")
    dg.save(2, tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink() and dg.load(tmp_path / "real") == 2
    assert stat.S_IMODE(os.stat(tmp_path / "real").st_mode) == 0o640


def test_a_long_name_and_a_device(tmp_path):
    dg.save(1, tmp_path / ("n" * 250))
    assert dg.load(tmp_path / ("n" * 250)) == 1
    dg.save(1, "/dev/null")


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no folder.*nowhere.*os\.makedirs"):
        dg.save(1, tmp_path / "nowhere" / "x")
    with pytest.raises(CheckpointError, match=r"is no ordinary file.*Give the path of a file"):
        dg.save(1, tmp_path)


def test_a_device_that_refuses():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with pytest.raises(CheckpointError, match="No space left on device"):
        dg.save(1, "/dev/full")


def test_an_interrupted_save_leaves_nothing(tmp_path, monkeypatch):
    dg.save(1, tmp_path / "x")

    def interrupt(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        dg.save(2, tmp_path / "x")
    monkeypatch.undo()
    assert dg.load(tmp_path / "x") == 1 and os.listdir(tmp_path) == ["x"]


def test_files_are_opened_as_binary_where_the_system_tells_them_from_text(tmp_path, monkeypatch):
    seen, real = [], os.open
    monkeypatch.setattr(os, "O_BINARY", os.O_SYNC, raising=False)  # Windows has it, and would write \r\n for \n
    monkeypatch.setattr(os, "open", lambda path, flags, *mode: seen.append(flags) or real(path, flags, *mode))
    dg.save(value_of(1), tmp_path / "file")
    cache_files.replace(tmp_path / "entry", b"\n")
    writing = [flags for flags in seen if flags & os.O_WRONLY]
    assert len(writing) == 2 and all(flags & os.O_SYNC == os.O_SYNC for flags in writing)
