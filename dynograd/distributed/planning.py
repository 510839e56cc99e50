"""What a program's collectives cost on a cluster that one does not have yet: volumes are counted, times come of latency and bandwidth.

The formulas are those of the algorithms in `communicators`: an all-reduce sends each process's part of the numbers to it, and what it has joined to
all (2 (R - 1) messages, twice (R - 1) / R of the bytes); on one host it is made in shared memory, chunk by chunk, with two meetings for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from dynograd.distributed.communicators.protocol import Communicator, Message
from dynograd.distributed.communicators.windows import CHUNK
from dynograd.distributed.groups import group_of
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.distributed.reductions import ReduceOp

__all__ = ["Network", "Traffic"]


@dataclass(frozen=True)
class Network:
    """How fast hosts reach each other, and processes each other on a host.

    Args:
        latency: seconds for a small message between hosts.
        bandwidth: bytes a second that a host sends, and receives meanwhile.
        per_host: how many processes a host has.
        meeting: seconds until all processes of a host have seen that all are there.
        memory: bytes a second that a host's memory reads and writes.

    >>> network = dynograd.distributed.Network(latency=10e-6, bandwidth=12.5e9)
    >>> f"{1e3 * network.seconds('all_reduce', 500_000_000, ranks=16):.0f} ms"
    '75 ms'
    """

    latency: float = 20e-6
    bandwidth: float = 1.25e9
    per_host: int = 1
    meeting: float = 5e-6
    memory: float = 10e9

    def volume(self, kind: str, count: int, ranks: int) -> float:
        """The bytes that a process sends in a collective.

        Args:
            kind: its name: "all_reduce", "all_gather", ...
            count: the bytes that a process has (of `all_gather` and `reduce_scatter`: of all processes).
            ranks: how many processes there are.
        Returns:
            A number.
        """
        return _COSTS[kind](count, ranks)[1] if ranks > 1 else 0.0

    def seconds(self, kind: str, count: int, ranks: int) -> float:
        """How long a collective takes.

        Args:
            kind, count, ranks: as for `volume`.
        Returns:
            Seconds.
        """
        if ranks == 1:
            return 0.0
        messages, volume = _COSTS[kind](count, ranks)
        if ranks > self.per_host:
            return messages * self.latency + volume * self.per_host / self.bandwidth
        if kind == "all_reduce":  # each process writes its numbers, joins a part of all, and reads what was joined
            return 2 * math.ceil(count / CHUNK) * self.meeting + 4 * count * ranks / self.memory
        return messages * self.meeting + 2 * volume * ranks / self.memory


def _tree(count: int, ranks: int) -> tuple[float, float]:
    return math.ceil(math.log2(ranks)), float(count)


# (messages one behind the other, bytes that a process sends) by the bytes and the number of processes.
_COSTS: dict[str, Any] = {
    "all_reduce": lambda n, r: (2 * (r - 1), 2 * n * (r - 1) / r),
    "reduce": lambda n, r: (2 * (r - 1), n * (r - 1) / r + n / r),
    "reduce_scatter": lambda n, r: (r - 1, n * (r - 1) / r),
    "all_gather": lambda n, r: (r - 1, n * (r - 1) / r),
    "all_to_all": lambda n, r: (r - 1, n * (r - 1) / r),
    "gather": lambda n, r: (r - 1, float(n)),
    "scatter": lambda n, r: (r - 1, float(n)),
    "broadcast": _tree,
    "barrier": lambda n, r: (2 * math.ceil(math.log2(r)), 0.0),
    "send": lambda n, r: (1, float(n)),
}


class Traffic:
    """Counts what a process sends in a `with` block, by a group's collectives.

    Args:
        group: whose; the default one when left out.

    >>> def program():
    ...     model = dynograd.nn.parallel.DistributedDataParallel(dynograd.nn.Linear(1000, 10))
    ...     with dynograd.distributed.Traffic() as traffic:
    ...         model(dynograd.ones(1, 1000)).sum().backward()
    ...     return traffic.volume(ranks=1024), traffic.seconds(dynograd.distributed.Network(), ranks=1024) < 1
    >>> dynograd.distributed.simulate(program, ranks=2)[0]
    (79961.90625, True)
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
