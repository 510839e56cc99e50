"""A board that the processes of one host share: who is alive, in which collective, and which came before.

It is a file that all map into memory: a record of fixed size for each process. A process writes its own record only. The launcher reads
the board when a process has died and cannot speak any more.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

__all__ = ["ABSENT", "ENDED", "FAILED", "RUNNING", "WIDTH", "Board", "is_alive", "pipe_of", "shared_files", "shortened"]

ABSENT, RUNNING, ENDED, FAILED = range(4)
WIDTH = 64  # how many collectives are remembered

_RECORD = np.dtype(
    [
        ("pid", np.int64),
        ("began", np.int64),  # by the system's clock, in ticks: a process number is given out again
        ("rank", np.int64),  # in the world
        ("state", np.int64),
        ("step", np.int64),
        (
            "since",
            np.float64,
        ),  # when it entered or left a collective, or last looked at the others while it waits; of time.time()
        ("waits", np.int64),  # 1 while it is in a collective
        ("numbers", np.int64, WIDTH),
        ("groups", np.int64, WIDTH),
        ("digests", np.int64, WIDTH),
        ("call", "S512"),
        ("line", "S512"),
        ("error", "S2048"),
        ("blamed", np.int64),  # the rank on the board that this one could not wait for, or -1
        ("files", "S2048"),  # in shared memory, by their names: what is left of them when the job has ended is deleted
    ]
)


class Board:
    """The records of `size` processes in the file `path`.

    Args:
        path: of the file, which is made where there is none.
        size: how many processes the host has.
    """

    def __init__(self, path: str | os.PathLike[str], size: int) -> None:
        self.path, self.size = Path(path), size
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            length = size * _RECORD.itemsize
            if os.fstat(handle).st_size < length:
                os.ftruncate(handle, length)
            self._memory = mmap.mmap(handle, length)
        finally:
            os.close(handle)
        self.records = np.frombuffer(self._memory, _RECORD, size)

    def enter(self, place: int, rank: int) -> np.ndarray:
        """Takes the record `place` for this process."""
        record = self.records[place : place + 1]
        record["numbers"], record["groups"], record["digests"] = -1, -1, 0
        record["pid"], record["began"], record["rank"] = os.getpid(), _began(os.getpid()), rank
        record["step"], record["waits"], record["blamed"] = -1, 0, -1
        record["call"], record["line"], record["error"], record["files"] = b"", b"", b"", b""
        record["state"] = RUNNING
        self._open_pipe(place)
        return record

    def _open_pipe(self, place: int) -> None:
        """What the launcher reads at the other end of tells when this process has ended; children that it forks do not keep it open."""
        path = pipe_of(self.path, place)
        if os.path.exists(path):
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            os.register_at_fork(after_in_child=lambda: os.close(handle))

    def is_alive(self, place: int) -> bool:
        """Whether the process of a record still runs."""
        record = self.records[place]
        return is_alive(int(record["pid"]), int(record["began"]))

    def text(self, place: int, name: str) -> str:
        """A text of a record."""
        return bytes(self.records[place][name]).decode(errors="replace")

    def close(self) -> None:
        """Forgets the memory; the file stays."""
        self.records = self.records[:0].copy()


def pipe_of(path: str | os.PathLike[str], place: int) -> str:
    """The name of a pipe that the process `place` holds open to its end, if the launcher has made it."""
    return f"{os.fspath(path)}.{place}"


def shared_files() -> list[str]:
    """The files in shared memory that this process has mapped."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as file:
            paths = [line.split(maxsplit=5)[5].strip() for line in file if "/dev/shm/" in line]
    except OSError:
        return []
    return sorted({path for path in paths if path.startswith("/dev/shm/") and not path.endswith("(deleted)")})


def shortened(text: str, name: str) -> bytes:
    """A text as a record keeps it: its end is cut off, never a letter."""
    room = _RECORD[name].itemsize
    return text.encode()[:room].decode(errors="ignore").encode()


def is_alive(pid: int, began: int) -> bool:
    """Whether the process `pid` runs, and is the one that began then: neither ended, nor a zombie, nor another one."""
    try:
        return _began(pid) == began and _state(pid) not in "ZX"
    except OSError:
        return False


def _began(pid: int) -> int:
    fields = _fields(pid)
    return int(fields[19]) if fields else 0


def _state(pid: int) -> str:
    fields = _fields(pid)
    return fields[0] if fields else "R"


def _fields(pid: int) -> list[str]:
    """The fields of a process behind its name, as Linux lists them; elsewhere there are none, and it is only asked whether it is there."""
    if not os.path.isdir("/proc/self"):
        os.kill(pid, 0)
        return []
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()
