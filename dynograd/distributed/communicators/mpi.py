"""Processes of one or many machines by MPI (mpi4py): messages as bytes, and within a host shared windows.

Every wait is a loop of tests, so that a process that does not come is seen and named (`watching`).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from dynograd.distributed import objects
from dynograd.distributed.communicators.exposed import Exposed, Mapped, Remote
from dynograd.distributed.communicators.protocol import Communicator, Message
from dynograd.distributed.communicators.windows import Windows
from dynograd.distributed.reductions import ReduceOp
from dynograd.distributed.watching import Watch
from dynograd.errors import RankError

__all__ = ["Mpi"]

_LARGEST = 1 << 30  # bytes of one message: MPI counts in 32 bits


class MpiMessage(Message):
    """A request, and how many bytes are expected."""

    def __init__(self, watch: Watch, request: Any, expected: int | None, source: int) -> None:
        from mpi4py import MPI

        self._watch, self._request, self._expected, self.source = watch, request, expected, source
        self._bytes, self._status, self._error = MPI.BYTE, MPI.Status(), MPI.Exception
        self._is_done = False

    def test(self) -> bool:
        if self._is_done:
            return True
        try:
            if not self._request.Test(self._status):
                return False
        except self._error as error:
            raise RankError(
                f"rank {self.source} sent more than the {self._expected} bytes that are expected of it, or MPI failed: {error}"
            ) from None
        self._is_done = True
        if self._expected is not None and self._status.Get_count(self._bytes) != self._expected:
            raise RankError(
                f"rank {self.source} sent {self._status.Get_count(self._bytes)} bytes where {self._expected} were expected: "
                f"sizes or dtypes of sender and receiver differ"
            )
        return True

    def wait(self) -> None:
        self._watch.wait(self.test)


class _Pieces(Message):
    def __init__(self, pieces: list[MpiMessage]) -> None:
        self._pieces, self.source = pieces, pieces[0].source

    def test(self) -> bool:
        return all([piece.test() for piece in self._pieces])

    def wait(self) -> None:
        for piece in self._pieces:
            piece.wait()


class _FromAny(Message):
    """A message of whichever process sends first."""

    def __init__(self, communicator: Mpi, array: np.ndarray, tag: int) -> None:
        from mpi4py import MPI

        self._communicator, self._array, self._tag = communicator, array, tag
        self._status, self._any = MPI.Status(), MPI.ANY_SOURCE
        self._message: Message | None = None

    def test(self) -> bool:
        if self._message is None:
            if not self._communicator.comm.Iprobe(self._any, self._tag, self._status):
                return False
            self.source = self._status.Get_source()
            self._message = self._communicator.start_receive(self._array, self.source, self._tag - 1)
        return self._message.test()

    def wait(self) -> None:
        self._communicator.watch.wait(self.test)


class Mpi(Communicator):
    """The processes of an MPI communicator.

    Args:
        comm: of mpi4py; it becomes this object's own.
        watch: who is waited for.
    """

    def __init__(self, comm: Any, watch: Watch) -> None:
        self.comm, self.watch = comm, watch
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._windows: Windows | None = None
        self._window: Any = None
        self._exposed: list[Any] = []  # windows
        self._is_one_host = all(place is not None for place in watch.places)

    def begin(self, call: str, line: str) -> None:
        self.watch.begin(call, line)

    def end(self) -> None:
        self.watch.end()

    def look(self, seconds: float) -> None:
        self.watch.look_at_all(seconds)

    def _wait(self, messages: Sequence[MpiMessage]) -> None:
        for message in messages:
            message.wait()

    def all_to_all(self, sends: Sequence[np.ndarray], receives: Sequence[np.ndarray]) -> None:
        requests: list[MpiMessage] = []
        for distance in range(self.size):  # each sends to another one at a time
            source, to = (self.rank - distance) % self.size, (self.rank + distance) % self.size
            if to == self.rank:
                if receives[to] is not sends[to]:
                    receives[to][...] = sends[to]
                continue
            requests += self._messages(receives[source], self.comm.Irecv, source)
            requests += self._messages(sends[to], self.comm.Isend, to)
        self._wait(requests)

    def _messages(self, array: np.ndarray, start: Any, peer: int, tag: int = 0) -> list[MpiMessage]:
        data = array.view(np.uint8)
        pieces = [data[at : at + _LARGEST] for at in range(0, max(data.size, 1), _LARGEST)]
        is_sent = start == self.comm.Isend
        return [
            MpiMessage(self.watch, start(piece, peer, tag), None if is_sent else piece.size, peer) for piece in pieces
        ]

    def all_gather(self, array: np.ndarray, results: Sequence[np.ndarray]) -> None:
        self.all_to_all([array] * self.size, results)

    def broadcast(self, array: np.ndarray, root: int) -> None:
        data = array.view(np.uint8)
        for at in range(0, data.size, _LARGEST):
            self.watch.wait(self.comm.Ibcast(data[at : at + _LARGEST], root).Test)

    def gather(self, array: np.ndarray, results: Sequence[np.ndarray] | None, root: int) -> None:
        if self.rank != root:
            self._wait(self._messages(array, self.comm.Isend, root))
            return
        assert results is not None
        requests: list[MpiMessage] = []
        for place, result in enumerate(results):
            if place == root:
                result[...] = array
            else:
                requests += self._messages(result, self.comm.Irecv, place)
        self._wait(requests)

    def scatter(self, arrays: Sequence[np.ndarray] | None, result: np.ndarray, root: int) -> None:
        if self.rank != root:
            self._wait(self._messages(result, self.comm.Irecv, root))
            return
        assert arrays is not None
        requests: list[MpiMessage] = []
        for place, array in enumerate(arrays):
            if place == root:
                result[...] = array
            else:
                requests += self._messages(array, self.comm.Isend, place)
        self._wait(requests)

    def start_send(self, array: np.ndarray, to: int, tag: int) -> Message:
        return _Pieces(self._messages(array, self.comm.Isend, to, tag + 1))

    def start_receive(self, array: np.ndarray, source: int | None, tag: int) -> Message:
        if source is not None:
            return _Pieces(self._messages(array, self.comm.Irecv, source, tag + 1))
        return _FromAny(self, array, tag + 1)

    def barrier(self) -> None:
        self.watch.wait(self.comm.Ibarrier().Test)

    def monitored_barrier(self, seconds: float) -> None:
        self.watch.wait(self.comm.Ibarrier().Test, seconds)

    def all_reduce(self, arrays: Sequence[np.ndarray], op: ReduceOp) -> None:
        if not self._is_one_host:
            super().all_reduce(arrays, op)
            return
        if self._windows is None:
            self._windows = self._make_windows()
        self._windows.all_reduce(arrays, op)

    def _make_windows(self) -> Windows:
        from mpi4py import MPI

        self._window = window = MPI.Win.Allocate_shared(Windows.bytes_of_one(), 1, comm=self.comm)
        memories = [window.Shared_query(place)[0] for place in range(self.size)]
        np.frombuffer(memories[self.rank], np.int64, 1)[0] = 0
        window.Lock_all()
        window.Sync()
        self.barrier()
        return Windows(memories, self.rank, window.Sync, self.watch.wait)

    def expose(self, count: int, dtype: np.dtype) -> Exposed:
        if self._is_one_host and hasattr(os, "memfd_create"):
            return self._mapped(count, dtype)
        from mpi4py import MPI

        array = np.zeros(count, dtype)
        window = MPI.Win.Create(array.view(np.uint8), 1, comm=self.comm)
        window.Lock_all()
        self._exposed.append(window)
        return Remote(array, self.rank, window)

    def _mapped(self, count: int, dtype: np.dtype) -> Exposed:
        """Memory in files without names, which lives as long as anyone uses it."""
        size = count * dtype.itemsize
        handle = os.memfd_create("parameters")
        os.ftruncate(handle, max(size, 1))
        files = objects.gathered(self, (f"/proc/{os.getpid()}/fd/{handle}", size))
        arrays = []
        for path, size_there in files:
            there = os.open(path, os.O_RDWR)
            arrays.append(np.frombuffer(mmap.mmap(there, max(size_there, 1)), np.uint8)[:size_there].view(dtype))
            os.close(there)
        self.barrier()  # all have opened it
        os.close(handle)
        return Mapped(arrays, self.rank)

    def split(self, ranks: Sequence[int]) -> Communicator | None:
        from mpi4py import MPI

        members = list(ranks)
        color = 0 if self.rank in members else MPI.UNDEFINED
        comm = self.comm.Split(color, members.index(self.rank) if color == 0 else 0)
        if color != 0:
            return None
        return Mpi(comm, self.watch.of_part(members))

    def close(self) -> None:
        if self._window is not None:
            self._windows = None
            self._window.Unlock_all()
            self._window.Free()
            self._window = None
        for window in self._exposed:
            window.Unlock_all()
            window.Free()
        self._exposed.clear()
        self.comm.Free()
