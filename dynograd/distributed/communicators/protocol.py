"""What every engine does: a few moves of flat arrays between the processes of a group. All calls wait until they are done.

Arrays are contiguous and of one dim. The processes of a group make the same calls in the same order.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from dynograd.cuda.streams import Event
from dynograd.distributed.communicators.exposed import Exposed
from dynograd.distributed.reductions import ReduceOp, join

__all__ = ["Communicator", "Message", "parts_of"]


def parts_of(count: int, size: int) -> list[slice]:
    """`count` elements cut into `size` slices that differ by one element at most."""
    return [slice(count * place // size, count * (place + 1) // size) for place in range(size)]


class Message(abc.ABC):
    """What is being sent to one process, or received from it."""

    source: int

    @abc.abstractmethod
    def test(self) -> bool:
        """Whether it is done."""

    @abc.abstractmethod
    def wait(self) -> None:
        """Waits until it is done; raises `RankError` where that cannot be."""


class Communicator(abc.ABC):
    """Moves arrays between `size` processes, of which this is number `rank`."""

    rank: int
    size: int
    takes_gpus = False  # whether arrays of GPUs may be given as they are

    def mark(self) -> Event | None:
        """Where the caller's stream is when it calls: the engine works behind that. None: it has no streams."""
        return None

    def turn(self, mark: Event | None) -> AbstractContextManager[None]:
        """A context in which a call is done that was marked."""
        return nullcontext()

    def done(self) -> Event | None:
        """Where the engine's stream is behind that; None if it has none."""
        return None

    def join(self, done: Event | None) -> None:
        """What the caller's stream gets from now on waits for that."""
        return None

    @abc.abstractmethod
    def all_to_all(self, sends: Sequence[np.ndarray], receives: Sequence[np.ndarray]) -> None:
        """Sends `sends[k]` to process k, and receives `receives[k]` from it."""

    @abc.abstractmethod
    def all_gather(self, array: np.ndarray, results: Sequence[np.ndarray]) -> None:
        """Receives the array of each process k into `results[k]`; sizes may differ."""

    @abc.abstractmethod
    def broadcast(self, array: np.ndarray, root: int) -> None:
        """Overwrites `array` with that of the process `root`."""

    @abc.abstractmethod
    def gather(self, array: np.ndarray, results: Sequence[np.ndarray] | None, root: int) -> None:
        """Receives the array of each process k into `results[k]` of the process `root`; others give None."""

    @abc.abstractmethod
    def scatter(self, arrays: Sequence[np.ndarray] | None, result: np.ndarray, root: int) -> None:
        """Receives `arrays[k]` of the process `root` in each process k."""

    @abc.abstractmethod
    def start_send(self, array: np.ndarray, to: int, tag: int) -> Message:
        """Begins to send to one process, which receives with the same tag; `array` stays as it is until that is done."""

    @abc.abstractmethod
    def start_receive(self, array: np.ndarray, source: int | None, tag: int) -> Message:
        """Begins to receive what one process sends, or any where `source` is None."""

    @abc.abstractmethod
    def barrier(self) -> None:
        """Waits until all processes are here."""

    @abc.abstractmethod
    def split(self, ranks: Sequence[int]) -> Communicator | None:
        """A communicator of these processes, None for the others. All processes of this one call it with the same `ranks`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Gives back what the engine holds."""

    def expose(self, count: int, dtype: np.dtype) -> Exposed:
        """Memory for `count` numbers that the other processes can read; all processes call it, each with a count of its own."""
        raise NotImplementedError(
            f"{type(self).__name__}: this engine has no memory that others can read, which fully_shard needs. Use the MPI engine."
        )

    def monitored_barrier(self, seconds: float) -> None:
        """Waits until all processes are here, `seconds` at most."""
        self.barrier()

    def begin(self, call: str, line: str) -> None:
        """Called before a collective, by the same text in all processes; `line` is where the program calls it."""
        return None

    def look(self, seconds: float) -> None:
        """Raises `RankError` where another process is dead, or what all have begun `seconds` ago takes longer than is waited for."""
        return None

    def abort(self) -> None:
        """Gives up what GPUs do for the group: it has failed, and they would wait for ever."""
        return None

    def end(self) -> None:
        """Called behind a collective; raises if another process called something else."""
        return None

    def all_reduce(self, arrays: Sequence[np.ndarray], op: ReduceOp) -> None:
        """Joins arrays of one dtype, in place, with the same bits in each process: each joins a slice of all of them."""
        if self.size == 1:
            return
        array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        parts = [array[part] for part in parts_of(array.size, self.size)]
        terms = [np.empty_like(parts[self.rank]) for _ in parts]
        self.all_to_all(parts, terms)
        joined = terms[self.rank]
        join(op, terms, joined)
        self.all_gather(joined, parts)
        if len(arrays) > 1:
            start = 0
            for result in arrays:
                result[...] = array[start : start + result.size]
                start += result.size

    def reduce_scatter(self, arrays: Sequence[np.ndarray], result: np.ndarray, op: ReduceOp) -> None:
        """Joins `arrays[rank]` of all processes into `result`."""
        terms = [np.empty_like(result) for _ in arrays]
        self.all_to_all(arrays, terms)
        join(op, terms, result)

    def reduce(self, array: np.ndarray, op: ReduceOp, root: int) -> None:
        """Joins the arrays of all processes into that of `root`; the others keep theirs."""
        if self.size == 1:
            return
        parts = [array[part] for part in parts_of(array.size, self.size)]
        terms = [np.empty_like(parts[self.rank]) for _ in parts]
        self.all_to_all(parts, terms)
        joined = terms[self.rank]
        join(op, terms, joined)
        self.gather(joined, parts if self.rank == root else None, root)
