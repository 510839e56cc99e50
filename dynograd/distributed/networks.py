"""What a program's collectives cost on a cluster that one does not have yet: volumes are counted, times come of latency and bandwidth.

The formulas are those of the algorithms in `communicators`: an all-reduce sends each process's part of the numbers to it, and what it has joined to
all (2 (R - 1) messages, twice (R - 1) / R of the bytes); on one host it is made in shared memory, chunk by chunk, with two meetings for each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dynograd.distributed.communicators.windows import CHUNK

__all__ = ["Network"]


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
