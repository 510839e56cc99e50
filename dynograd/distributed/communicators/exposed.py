"""Memory of a process that the others of its group read whenever they want to: the owner does nothing for it.

Nobody writes while others may read: a barrier parts the two.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Exposed", "Mapped", "Remote"]


class Exposed(abc.ABC):
    """This process's memory, and a way to that of the others.

    Args:
        array: this process's, of one dim.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @abc.abstractmethod
    def read(self, rank: int, out: np.ndarray) -> None:
        """Copies the memory of a process into `out`, which has its size and dtype."""

    def publish(self) -> None:
        """Makes what this process has written, and what others have, visible; called on both sides of a barrier."""
        return None


class Mapped(Exposed):
    """Memories that all lie in this process's address space.

    Args:
        arrays: of all processes, by rank.
        rank: of this one.
    """

    def __init__(self, arrays: Sequence[np.ndarray], rank: int) -> None:
        super().__init__(arrays[rank])
        self._arrays = list(arrays)

    def read(self, rank: int, out: np.ndarray) -> None:
        out[...] = self._arrays[rank]


class Remote(Exposed):
    """Memories on several machines, read by MPI.

    Args:
        array: this process's, on which the window is.
        rank: of this process.
        window: of MPI.
    """

    def __init__(self, array: np.ndarray, rank: int, window: Any) -> None:
        super().__init__(array)
        self._rank, self._window = rank, window

    def read(self, rank: int, out: np.ndarray) -> None:
        if rank == self._rank:
            out[...] = self.array
        elif out.size:
            self._window.Get(out.view(np.uint8), rank)
            self._window.Flush(rank)

    def publish(self) -> None:
        self._window.Sync()
