"""Counts what a program's collectives move: for planning (`networks`)."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import numpy as np

from dynograd.distributed.communicators.protocol import Communicator, Message
from dynograd.distributed.groups import group_of
from dynograd.distributed.networks import Network
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.distributed.reductions import ReduceOp

__all__ = ["Traffic"]


class Traffic:
    """Counts what a process sends in a `with` block, by a group's collectives.

    Args:
        group: whose; the default one when left out.

    >>> def program():
    ...     model = dynograd.nn.parallel.DistributedDataParallel(dynograd.nn.Linear(1000, 10))
    ...     with dynograd.distributed.Traffic() as traffic:
    ...         model(dynograd.ones(1, 1000)).sum().backward()
    ...     return traffic.volume(ranks=1024) > 2 * 39_000, traffic.seconds(dynograd.distributed.Network(), ranks=1024) < 1
    >>> dynograd.distributed.simulate(program, ranks=2)[0]
    (True, True)
    """

    def __init__(self, group: ProcessGroup | None = None) -> None:
        self.group = group_of(group)
        self.calls: list[tuple[str, int]] = []
        self._before: Communicator | None = None

    def __enter__(self) -> Traffic:
        if self.group.communicator is None:
            raise RuntimeError("Traffic: the group was destroyed.")
        self._before = self.group.communicator
        self.group.communicator = _Counting(self._before, self.calls)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.group.communicator = self._before

    def volume(self, ranks: int | None = None) -> float:
        """The bytes that a process sends, here or with another number of processes.

        Args:
            ranks: how many; None: as here.
        Returns:
            A number.
        """
        network, ranks = Network(), self.group.size() if ranks is None else ranks
        return sum([network.volume(kind, count, ranks) for kind, count in self.calls])

    def seconds(self, network: Network, ranks: int | None = None) -> float:
        """How long the collectives take one after the other, without what they overlap with.

        Args:
            network: of the cluster.
            ranks: how many processes; None: as here.
        Returns:
            Seconds.
        """
        ranks = self.group.size() if ranks is None else ranks
        return sum([network.seconds(kind, count, ranks) for kind, count in self.calls])


class _Counting(Communicator):
    """Another communicator, with a list of what it is asked."""

    def __init__(self, inner: Communicator, calls: list[tuple[str, int]]) -> None:
        self.inner, self.calls = inner, calls
        self.rank, self.size = inner.rank, inner.size

    def _note(self, kind: str, arrays: Sequence[np.ndarray] | None) -> None:
        self.calls.append((kind, sum([array.nbytes for array in arrays or ()])))

    def begin(self, call: str, line: str) -> None:
        self.inner.begin(call, line)

    def end(self) -> None:
        self.inner.end()

    def all_to_all(self, sends: Sequence[np.ndarray], receives: Sequence[np.ndarray]) -> None:
        self._note("all_to_all", sends)
        self.inner.all_to_all(sends, receives)

    def all_gather(self, array: np.ndarray, results: Sequence[np.ndarray]) -> None:
        self._note("all_gather", results)
        self.inner.all_gather(array, results)

    def broadcast(self, array: np.ndarray, root: int) -> None:
        self._note("broadcast", [array])
        self.inner.broadcast(array, root)

    def gather(self, array: np.ndarray, results: Sequence[np.ndarray] | None, root: int) -> None:
        self._note("gather", [array])
        self.inner.gather(array, results, root)

    def scatter(self, arrays: Sequence[np.ndarray] | None, result: np.ndarray, root: int) -> None:
        self._note("scatter", arrays)
        self.inner.scatter(arrays, result, root)

    def start_send(self, array: np.ndarray, to: int, tag: int) -> Message:
        self._note("send", [array])
        return self.inner.start_send(array, to, tag)

    def start_receive(self, array: np.ndarray, source: int | None, tag: int) -> Message:
        return self.inner.start_receive(array, source, tag)

    def barrier(self) -> None:
        self._note("barrier", [])
        self.inner.barrier()

    def monitored_barrier(self, seconds: float) -> None:
        self._note("barrier", [])
        self.inner.monitored_barrier(seconds)

    def split(self, ranks: Sequence[int]) -> Communicator | None:
        return self.inner.split(ranks)

    def close(self) -> None:
        self.inner.close()

    def all_reduce(self, arrays: Sequence[np.ndarray], op: ReduceOp) -> None:
        self._note("all_reduce", arrays)
        self.inner.all_reduce(arrays, op)

    def reduce_scatter(self, arrays: Sequence[np.ndarray], result: np.ndarray, op: ReduceOp) -> None:
        self._note("reduce_scatter", arrays)
        self.inner.reduce_scatter(arrays, result, op)

    def reduce(self, array: np.ndarray, op: ReduceOp, root: int) -> None:
        self._note("reduce", [array])
        self.inner.reduce(array, op, root)
