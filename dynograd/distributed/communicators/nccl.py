"""GPUs by NCCL (nccl4py): arrays on a device go from GPU to GPU, all else as the engine of the host has it.

The host's engine (MPI, or threads) finds the processes, names who does not come, and moves what NCCL cannot: such arrays go through the
memory of the host, as all do where nccl4py is not installed. The hosts meet before each call of NCCL, so that who does not come is named; the GPUs
work on meanwhile. Calls are put on a stream of the engine's own, behind what the caller's has; the caller's stream waits for them, the host does not.
"""

from __future__ import annotations

import contextlib
import platform
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.arrays.cuda_arrays import empty as empty_array
from dynograd.cuda import driver, nccl, streams
from dynograd.distributed import objects
from dynograd.distributed.communicators.device_watch import DeviceWatch
from dynograd.distributed.communicators.exposed import Exposed
from dynograd.distributed.communicators.protocol import Communicator, Message, parts_of
from dynograd.distributed.reductions import ReduceOp
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Gpus"]

_OPS = {ReduceOp.SUM: "SUM", ReduceOp.AVG: "AVG", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN", ReduceOp.MAX: "MAX"}
_NUMBERS = "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16".split()  # that NCCL adds


class Gpus(Communicator):
    """The processes of another engine, each with a GPU.

    Args:
        host: the engine that moves what lies in the memory of the host; it becomes this object's own.
    """

    takes_gpus = True

    def __init__(self, host: Communicator) -> None:
        self.host = host
        self.rank, self.size = host.rank, host.size
        self._nccl: Any = None  # a communicator of nccl4py, from the first array of a GPU on
        self._watch: DeviceWatch | None = None  # of that
        self._device = -1
        self._stream: Any = None  # likewise
        self._is_marked = False  # the call that has its turn comes behind what the caller's stream had
        self.reason = ""  # why there is no NCCL for these GPUs

    # --- streams --------------------------------------------------------------------------------------------------------

    def mark(self) -> streams.Event | None:
        if self._stream is None:
            return None
        event = streams.Event()
        event.record(streams.current_stream(self._device))
        return event

    @contextlib.contextmanager
    def turn(self, mark: streams.Event | None) -> Iterator[None]:
        self._is_marked = self._stream is not None
        if not self._is_marked:
            yield
            if self._stream is not None:  # it has come with this call
                streams.synchronize(self._device)
            return
        if mark is None:
            streams.synchronize(self._device)
        else:
            mark.wait(self._stream)
        if self._watch is not None:
            self._watch.check()
        with streams.device(self._device), streams.stream(self._stream):
            yield

    def done(self) -> streams.Event | None:
        if self._stream is None:
            return None
        event = streams.Event()
        event.record(self._stream)
        if self._watch is not None:
            self._watch.note(event)
        return event

    def join(self, done: streams.Event | None) -> None:
        if done is not None:
            done.wait(streams.current_stream(self._device))
            if self._watch is not None and self._watch.error is not None:
                raise self._watch.error

    # --- NCCL's communicator --------------------------------------------------------------------------------------------

    def _ask(self, device: int) -> None:
        """All processes come here with their first arrays of GPUs."""
        self._device = device
        streams.synchronize(device)  # what the caller's stream has was not marked
        with streams.device(device):
            self._stream = streams.Stream(device)
        place = (platform.node(), str(driver.get("distributed").uuid(device)), nccl.is_available())
        places = objects.gathered(self.host, place)
        shared = sorted([rank for rank, other in enumerate(places) if places.count(other) > 1])
        without = [rank for rank, other in enumerate(places) if not other[2]]
        if without:
            self.reason = (
                f"nccl4py is not installed in the ranks {without} (pip install 'dynograd[nccl]')"
                if len(without) < self.size
                else "nccl4py is not installed (pip install 'dynograd[nccl]')"
            )
        elif shared:
            self.reason = (
                f"the ranks {shared} share a GPU, and NCCL wants one for each: call cuda.set_device(LOCAL_RANK)"
            )
        if self.reason:
            if self.rank == 0:
                warnings.warn(
                    f"distributed: arrays of GPUs go through the memory of the host, which is slow, since {self.reason}.",
                    stacklevel=2,
                )
            return
        from nccl import core

        own = [bytes(core.get_unique_id())] if self.rank == 0 else None
        unique_id = core.UniqueId.from_bytes(objects.sent(self.host, own, 0)[0])
        with streams.device(device):
            self._nccl = core.Communicator.init(self.size, self.rank, unique_id)
        self._watch = DeviceWatch(self._nccl, self.host.look)

    @contextlib.contextmanager
    def _calls(self, used: Sequence[CudaArray]) -> Iterator[Any]:
        """NCCL's communicator for calls with arrays of this process's GPU, which it begins together when the context ends."""
        from nccl import core

        self.host.barrier()
        for array in used:
            if array.size:
                arrays.record_stream(array, self._stream)
        with self._on_stream():
            with core.group():
                yield self._nccl
            if not self._is_marked:  # what comes behind it is on the caller's stream
                self._stream.synchronize()

    @contextlib.contextmanager
    def _on_stream(self) -> Iterator[None]:
        with streams.device(self._device), streams.stream(self._stream):
            yield

    def _goes(self, used: Sequence[Any]) -> bool:
        """Whether NCCL moves these; all processes come to the same answer, which is by dtypes and by what was asked once."""
        if self._stream is None:
            self._ask(used[0].device_index)
        for array in used:
            if array.device_index != self._device:
                raise RuntimeError(
                    f"distributed: rank {self.rank} uses cuda:{self._device} for its group, got an array on cuda:{array.device_index}. "
                    f"A process has one GPU in a group: move it with .to('cuda:{self._device}')."
                )
        return self._nccl is not None

    def _sent(self, array: CudaArray) -> Tensor:
        """What NCCL is given of an array whose bytes are moved as they are."""
        return _lent(array.view(np.dtype(np.uint8)) if array.size else array)

    # --- arrays of the host, and what NCCL cannot do --------------------------------------------------------------------

    def begin(self, call: str, line: str) -> None:
        self.host.begin(call, line)

    def end(self) -> None:
        self.host.end()

    def barrier(self) -> None:
        self.host.barrier()

    def monitored_barrier(self, seconds: float) -> None:
        self.host.monitored_barrier(seconds)

    def expose(self, count: int, dtype: np.dtype) -> Exposed:
        return self.host.expose(count, dtype)

    def start_send(self, array: np.ndarray, to: int, tag: int) -> Message:
        return self.host.start_send(array, to, tag)

    def start_receive(self, array: np.ndarray, source: int | None, tag: int) -> Message:
        return self.host.start_receive(array, source, tag)

    def split(self, ranks: Sequence[int]) -> Communicator | None:
        part = self.host.split(ranks)
        return None if part is None else Gpus(part)

    def look(self, seconds: float) -> None:
        self.host.look(seconds)

    def abort(self) -> None:
        if self._watch is not None:
            self._watch.abort()
        self.host.abort()

    def close(self) -> None:
        if self._watch is not None:
            self._stream.synchronize()
            self._watch.close()
            self._nccl = self._watch = None
        self.host.close()

    @staticmethod
    def _by_host(move: Any, sources: Sequence[Any], targets: Sequence[Any]) -> None:
        """Calls `move` with copies in the host's memory of all arrays, and copies the targets back."""
        theirs = [arrays.to_numpy(array) for array in targets]
        move([arrays.to_numpy(array) for array in sources], theirs)
        for array, copied in zip(targets, theirs):
            array[...] = copied

    # --- collectives ----------------------------------------------------------------------------------------------------

    def all_to_all(self, sends: Sequence[Any], receives: Sequence[Any]) -> None:
        if not _on_gpu(sends, receives):
            self.host.all_to_all(sends, receives)
        elif not self._goes([*sends, *receives]):
            self._by_host(self.host.all_to_all, sends, receives)
        else:
            with self._calls([*sends, *receives]) as group:
                for place, (send, receive) in enumerate(zip(sends, receives)):
                    if place == self.rank:
                        receive[...] = send
                        continue
                    if send.size:
                        group.send(self._sent(send), place, stream=self._stream)
                    if receive.size:
                        group.recv(self._sent(receive), place, stream=self._stream)

    def all_gather(self, array: Any, results: Sequence[Any]) -> None:
        if not _on_gpu([array], results):
            self.host.all_gather(array, results)
        elif not self._goes([array, *results]):
            self._by_host(lambda own, theirs: self.host.all_gather(own[0], theirs), [array], results)
        else:
            if _of_one_size(results):
                self._all_gather(array, results)
                return
            with self._calls([array, *results]) as group:
                if results[self.rank].pointer != array.pointer:
                    results[self.rank][...] = array
                for place, result in enumerate(results):
                    if result.size:
                        group.broadcast(self._sent(result), self._sent(result), place, stream=self._stream)

    def _all_gather(self, array: CudaArray, results: Sequence[CudaArray]) -> None:
        """Whether a process's results lie behind each other is its own matter: NCCL is called alike in all."""
        whole = _joined(results)
        with self._on_stream():
            memory = self._memory_for(results) if whole is None else whole
        with self._calls([array, *results]) as group:
            group.allgather(self._sent(array), self._sent(memory), stream=self._stream)
        if whole is None:
            with self._on_stream():
                for result, part in zip(results, _parts(memory, len(results))):
                    result[...] = part

    def _memory_for(self, parts: Sequence[CudaArray]) -> CudaArray:
        return empty_array((len(parts) * parts[0].size,), parts[0].dtype, self._device)

    def broadcast(self, array: Any, root: int) -> None:
        if not _on_gpu([array]):
            self.host.broadcast(array, root)
        elif not self._goes([array]):
            self._by_host(lambda _, copies: self.host.broadcast(copies[0], root), [], [array])
        elif array.size:
            with self._calls([array]) as group:
                group.broadcast(self._sent(array), self._sent(array), root, stream=self._stream)

    def gather(self, array: Any, results: Sequence[Any] | None, root: int) -> None:
        theirs = list(results or ())
        if not _on_gpu([array], theirs):
            self.host.gather(array, results, root)
        elif not self._goes([array, *theirs]):
            self._by_host(
                lambda own, copies: self.host.gather(own[0], copies if self.rank == root else None, root),
                [array],
                theirs,
            )
        else:
            with self._calls([array, *theirs]) as group:
                if self.rank != root:
                    if array.size:
                        group.send(self._sent(array), root, stream=self._stream)
                    return
                for place, result in enumerate(theirs):
                    if place == root:
                        result[...] = array
                    elif result.size:
                        group.recv(self._sent(result), place, stream=self._stream)

    def scatter(self, arrays: Sequence[Any] | None, result: Any, root: int) -> None:
        parts = list(arrays or ())
        if not _on_gpu(parts, [result]):
            self.host.scatter(arrays, result, root)
        elif not self._goes([*parts, result]):
            self._by_host(
                lambda copies, own: self.host.scatter(copies if self.rank == root else None, own[0], root),
                parts,
                [result],
            )
        else:
            with self._calls([*parts, result]) as group:
                if self.rank != root:
                    if result.size:
                        group.recv(self._sent(result), root, stream=self._stream)
                    return
                for place, part in enumerate(parts):
                    if place == root:
                        result[...] = part
                    elif part.size:
                        group.send(self._sent(part), place, stream=self._stream)

    def all_reduce(self, arrays: Sequence[Any], op: ReduceOp) -> None:
        if not _on_gpu(arrays):
            self.host.all_reduce(arrays, op)
            return
        numbers = [number for array in arrays if (number := _as_numbers(array, op)) is not None]
        if not self._goes(arrays) or len(numbers) < len(arrays):
            self._by_host(lambda _, copies: self.host.all_reduce(copies, op), [], arrays)
            return
        with self._calls(arrays) as group:
            for array in numbers:
                if array.size:
                    group.allreduce(_lent(array), _lent(array), _operation(op), stream=self._stream)

    def reduce(self, array: Any, op: ReduceOp, root: int) -> None:
        if not _on_gpu([array]):
            self.host.reduce(array, op, root)
            return
        numbers = _as_numbers(array, op)
        if not self._goes([array]) or numbers is None:
            self._by_host(lambda _, copies: self.host.reduce(copies[0], op, root), [], [array])
        elif array.size:
            with self._calls([array]) as group:
                group.reduce(_lent(numbers), _lent(numbers), _operation(op), root, stream=self._stream)

    def reduce_scatter(self, arrays: Sequence[Any], result: Any, op: ReduceOp) -> None:
        if not _on_gpu(arrays, [result]):
            self.host.reduce_scatter(arrays, result, op)
            return
        numbers = [number for array in arrays if (number := _as_numbers(array, op)) is not None]
        target = _as_numbers(result, op)
        if not self._goes([*arrays, result]) or target is None:
            self._by_host(lambda sends, own: self.host.reduce_scatter(sends, own[0], op), arrays, [result])
            return
        if _of_one_size(numbers):
            with self._on_stream():
                whole = _joined(numbers)
                if whole is None:
                    whole = self._memory_for(numbers)
                    for memory, part in zip(_parts(whole, len(numbers)), numbers):
                        memory[...] = part
            with self._calls([*arrays, result]) as group:
                group.reduce_scatter(_lent(whole), _lent(target), _operation(op), stream=self._stream)
            return
        with self._calls([*arrays, result]) as group:
            for place, part in enumerate(numbers):
                if part.size:
                    own = target if place == self.rank else part
                    group.reduce(_lent(part), _lent(own), _operation(op), place, stream=self._stream)


def _on_gpu(*groups: Sequence[Any]) -> bool:
    """Whether arrays are a GPU's: all, or none."""
    kinds = {type(array) is CudaArray for group in groups for array in group}
    if len(kinds) > 1:
        raise RuntimeError(
            "distributed: a call has tensors on the CPU and on a GPU; move them to one device with .to(device)."
        )
    return kinds == {True}


def _operation(op: ReduceOp) -> object:
    from nccl import core

    return getattr(core, _OPS[op])


def _as_numbers(array: CudaArray, op: ReduceOp) -> CudaArray | None:
    """The array as numbers that NCCL joins; None where it does not."""
    if op not in _OPS:
        return None
    if array.dtype.kind == "c" and op in (ReduceOp.SUM, ReduceOp.AVG):
        return array.view(np.dtype(f"f{array.itemsize // 2}"))
    if array.dtype.kind == "b" and op in (ReduceOp.MIN, ReduceOp.MAX):
        return array.view(np.dtype(np.uint8))
    return array if array.dtype.name in _NUMBERS else None


def _lent(array: CudaArray) -> Tensor:
    """What nccl4py is given of an array: DLPack has a name for bfloat16, the array interface has none."""
    return wrap(array)


def _of_one_size(parts: Sequence[CudaArray]) -> bool:
    return parts[0].size > 0 and all(part.size == parts[0].size for part in parts)


def _parts(whole: CudaArray, count: int) -> list[CudaArray]:
    return [whole[part] for part in parts_of(whole.size, count)]


def _joined(parts: Sequence[CudaArray]) -> CudaArray | None:
    """The one array that parts of one size are which lie behind each other; else None."""
    first = parts[0]
    if any(part.pointer != first.pointer + place * first.nbytes for place, part in enumerate(parts)):
        return None
    return CudaArray(first.storage, first.pointer, (first.size * len(parts),), (first.itemsize,), first.dtype)
