"""A group of one process: what it sends, it receives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynograd.distributed.communicators.exposed import Exposed, Mapped
from dynograd.distributed.communicators.protocol import Communicator, Message

__all__ = ["Alone"]


class Alone(Communicator):
    """Rank 0 of 1."""

    rank, size = 0, 1

    def all_to_all(self, sends: Sequence[np.ndarray], receives: Sequence[np.ndarray]) -> None:
        receives[0][...] = sends[0]

    def all_gather(self, array: np.ndarray, results: Sequence[np.ndarray]) -> None:
        results[0][...] = array

    def broadcast(self, array: np.ndarray, root: int) -> None:
        pass

    def gather(self, array: np.ndarray, results: Sequence[np.ndarray] | None, root: int) -> None:
        assert results is not None
        results[0][...] = array

    def scatter(self, arrays: Sequence[np.ndarray] | None, result: np.ndarray, root: int) -> None:
        assert arrays is not None
        result[...] = arrays[0]

    def start_send(self, array: np.ndarray, to: int, tag: int) -> Message:
        raise RuntimeError("send: the group has one process, and nobody else to send to. Ask get_world_size() before.")

    def start_receive(self, array: np.ndarray, source: int | None, tag: int) -> Message:
        raise RuntimeError(
            "recv: the group has one process, and nobody else to receive from. Ask get_world_size() before."
        )

    def barrier(self) -> None:
        pass

    def expose(self, count: int, dtype: np.dtype) -> Exposed:
        return Mapped([np.zeros(count, dtype)], 0)

    def split(self, ranks: Sequence[int]) -> Communicator | None:
        return Alone() if list(ranks) == [0] else None

    def close(self) -> None:
        pass
