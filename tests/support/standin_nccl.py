"""A stand-in for nccl4py (`nccl.core`) on emulated devices, whose memory is the host's: ranks are threads, or processes of MPI.

It checks what NCCL demands: arrays on a device and in order, dtypes and counts that fit, a stream with each call, sends that are received.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import importlib.machinery
import sys
import threading
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from dynograd.arrays.cuda_arrays import CudaArray

_DTYPES = "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16".split()


class NcclInvalid(Exception):
    pass


class NcclRedOp(enum.IntEnum):
    SUM, PROD, MAX, MIN, AVG = range(5)


class UniqueId:
    def __init__(self, data: bytes = b"") -> None:
        self._data = data

    def __bytes__(self) -> bytes:
        return self._data

    @staticmethod
    def from_bytes(data: bytes) -> UniqueId:
        return UniqueId(data)


def get_unique_id() -> UniqueId:
    return UniqueId(uuid.uuid4().bytes * 8)


def get_error_string(result: int) -> str:
    return {0: "no error", 6: "remote process exited or there was a network error"}[result]


class _Hall:
    """Where the ranks of a communicator meet."""

    def __init__(self, size: int) -> None:
        self.barrier, self.brought = threading.Barrier(size), [None] * size

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self.brought[rank] = value
        self.barrier.wait(60)
        everything = list(self.brought)
        self.barrier.wait(60)
        return everything


class _Processes:
    def __init__(self, size: int) -> None:
        from mpi4py import MPI

        assert MPI.COMM_WORLD.Get_size() == size, "between processes the stand-in knows the whole world only"
        self.comm = MPI.COMM_WORLD.Dup()

    def exchange(self, rank: int, value: Any) -> list[Any]:
        return self.comm.allgather(value)


_halls: dict[bytes, Any] = {}
_lock = threading.Lock()
_state = threading.local()
calls: list[str] = []  # that were made, for tests


def _memory(buffer: Any) -> np.ndarray:
    """The numbers of a buffer, in place."""
    array = buffer if isinstance(buffer, CudaArray) else buffer.array
    if not isinstance(array, CudaArray):
        raise NcclInvalid(f"not on a device: {array!r}")
    if not array.is_contiguous:
        raise NcclInvalid("not in order")
    name = array.dtype.name
    if name not in _DTYPES:
        raise NcclInvalid(f"no NCCL dtype: {name}")
    if name == "bfloat16":
        assert hasattr(buffer, "__dlpack__") and not isinstance(buffer, CudaArray), (
            "it has no name in the array interface"
        )
    data = (ctypes.c_char * array.nbytes).from_address(array.pointer) if array.nbytes else b""
    return np.frombuffer(data, getattr(ml_dtypes, name, name)).reshape(-1)


class Communicator:
    def __init__(self, hall: Any, nranks: int, rank: int, device: int) -> None:
        self._hall, self.nranks, self.rank, self.device_id = hall, nranks, rank, device
        self.is_valid = True
        self.state = 0  # what an error on the way is told by

    @classmethod
    def init(cls, nranks: int, rank: int, unique_id: UniqueId, config: Any = None) -> Communicator:
        from dynograd import cuda

        with _lock:
            key = bytes(unique_id)
            assert len(key) == 128
            if key not in _halls:
                _halls[key] = (
                    _Hall(nranks) if threading.current_thread().name.startswith("rank") else _Processes(nranks)
                )
            hall = _halls[key]
        result = cls(hall, nranks, rank, cuda.current_device())
        if isinstance(hall, _Hall):
            assert len(set(hall.exchange(rank, result.device_id))) == nranks, "Duplicate GPU detected"
        return result

    def destroy(self) -> None:
        self.is_valid = False

    def abort(self) -> None:
        self.is_valid = False
        calls.append("abort")

    def get_async_error(self) -> int:
        return self.state

    def get_last_error(self) -> str:
        return "" if self.state in (0, 7) else "the cable is out"

    def _do(self, name: str, buffers: list[Any], stream: Any, work: Callable[[], None]) -> None:
        if not self.is_valid:
            raise NcclInvalid("destroyed")
        assert stream is not None and stream.__cuda_stream__()[1] not in (0, 1), "on the engine's own stream"
        for buffer in buffers:
            memory = buffer if isinstance(buffer, CudaArray) else buffer.array
            assert memory.device_index == self.device_id, "Buffer is on another device"
        calls.append(name)
        _state.waiting.append((self, name, work))

    def _collective(
        self, name: str, buffers: list[Any], stream: Any, own: np.ndarray, take: Callable[[list[Any]], None]
    ) -> None:
        def work() -> None:
            everything = self._hall.exchange(self.rank, (name, own.copy()))
            assert {other for other, _ in everything} == {name}, everything
            take([array for _, array in everything])

        self._do(name, buffers, stream, work)

    def allreduce(self, sendbuf: Any, recvbuf: Any, op: NcclRedOp, *, stream: Any = None, config: Any = None) -> None:
        send, receive = _memory(sendbuf), _memory(recvbuf)
        _check(send, receive, send.size <= receive.size)

        def take(arrays: list[Any]) -> None:
            receive[: send.size] = _joined(arrays, op)

        self._collective("allreduce", [sendbuf, recvbuf], stream, send, take)

    def reduce(
        self,
        sendbuf: Any,
        recvbuf: Any,
        op: NcclRedOp,
        root: int | None = None,
        *,
        stream: Any = None,
        config: Any = None,
    ) -> None:
        send, receive = _memory(sendbuf), _memory(recvbuf)

        def take(arrays: list[Any]) -> None:
            if self.rank == root:
                _check(send, receive, send.size <= receive.size)
                receive[: send.size] = _joined(arrays, op)

        self._collective("reduce", [sendbuf, recvbuf], stream, send, take)

    def reduce_scatter(
        self, sendbuf: Any, recvbuf: Any, op: NcclRedOp, *, stream: Any = None, config: Any = None
    ) -> None:
        send, receive = _memory(sendbuf), _memory(recvbuf)
        count = send.size // self.nranks
        _check(send, receive, count >= 1 and receive.size >= count)

        def take(arrays: list[Any]) -> None:
            receive[:count] = _joined(arrays, op)[self.rank * count : (self.rank + 1) * count]

        self._collective("reduce_scatter", [sendbuf, recvbuf], stream, send, take)

    def allgather(self, sendbuf: Any, recvbuf: Any, *, stream: Any = None, config: Any = None) -> None:
        send, receive = _memory(sendbuf), _memory(recvbuf)
        _check(send, receive, receive.size >= send.size * self.nranks)

        def take(arrays: list[Any]) -> None:
            receive[: send.size * self.nranks] = np.concatenate(arrays)

        self._collective("allgather", [sendbuf, recvbuf], stream, send, take)

    def broadcast(self, sendbuf: Any, recvbuf: Any, root: int, *, stream: Any = None, config: Any = None) -> None:
        receive = _memory(recvbuf)
        if self.rank == root:
            _check(_memory(sendbuf), receive, _memory(sendbuf).size == receive.size)

        def take(arrays: list[Any]) -> None:
            assert len({array.size for array in arrays}) == 1, "counts differ"
            receive[...] = arrays[root]

        self._collective("broadcast", [recvbuf], stream, receive, take)

    def send(self, sendbuf: Any, peer: int, *, stream: Any = None) -> None:
        own = _memory(sendbuf)
        self._do("send", [sendbuf], stream, lambda: _state.sent.append((peer, own.copy())))

    def recv(self, recvbuf: Any, peer: int, *, stream: Any = None) -> None:
        receive = _memory(recvbuf)
        self._do("recv", [recvbuf], stream, lambda: _state.received.append((peer, receive)))

    def _messages(self) -> None:
        """All ranks send and receive in groups of calls, and each comes here once in its group."""
        everything = self._hall.exchange(self.rank, _state.sent)
        letters = {place: [array for to, array in sent if to == self.rank] for place, sent in enumerate(everything)}
        for peer, receive in _state.received:
            letter = letters[peer].pop(0)
            assert letter.nbytes == receive.nbytes, "a message of another size"
            receive[...] = letter
        assert not any(letters.values()), "sent, and not received"


def _check(send: np.ndarray, receive: np.ndarray, fits: bool) -> None:
    if send.dtype != receive.dtype:
        raise NcclInvalid(f"Dtype mismatch: sendbuf has dtype {send.dtype}, recvbuf has dtype {receive.dtype}")
    if not fits:
        raise NcclInvalid(f"Buffer count mismatch: {send.size} and {receive.size}")


def _joined(arrays: list[np.ndarray], op: NcclRedOp) -> np.ndarray:
    wide = [array.astype(np.float64 if array.dtype.kind in "fV" else array.dtype) for array in arrays]
    join = {NcclRedOp.PROD: np.multiply, NcclRedOp.MAX: np.maximum, NcclRedOp.MIN: np.minimum}.get(op, np.add)
    total = wide[0]
    for array in wide[1:]:
        total = join(total, array)
    return (total / len(arrays) if op == NcclRedOp.AVG else total).astype(arrays[0].dtype)


@contextlib.contextmanager
def group() -> Iterator[None]:
    _state.waiting, _state.sent, _state.received = [], [], []
    yield
    waiting = _state.waiting
    for _, _, work in waiting:
        work()
    of_messages = [communicator for communicator, name, _ in waiting if name in ("send", "recv")]
    if of_messages:
        of_messages[0]._messages()


def install() -> None:
    """Makes `from nccl import core` give this module."""
    package, core = types.ModuleType("nccl"), sys.modules[__name__]
    package.__spec__ = importlib.machinery.ModuleSpec("nccl", None, is_package=True)
    package.core = core  # type: ignore[attr-defined]
    sys.modules["nccl"], sys.modules["nccl.core"] = package, core


SUM, PROD, MAX, MIN, AVG = NcclRedOp
