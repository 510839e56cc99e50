"""The processes that have one run together: what they decide together, so that all save, stop and go back after the same step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynograd.distributed import starting
from dynograd.distributed.object_collectives import all_gather_object
from dynograd.distributed.process_groups import ProcessGroup, world
from dynograd.distributed.reductions import ReduceOp
from dynograd.errors import CheckpointError

__all__ = ["Ranks"]


class Ranks:
    """The processes of the default group, as it is now; without one this process alone."""

    def __init__(self) -> None:
        self.group: ProcessGroup | None = world.get()
        self.rank, self.size = (0, 1) if self.group is None else (self.group.rank(), self.group.size())

    def __bool__(self) -> bool:
        return self.size > 1

    def largest(self, call: str, numbers: Sequence[int]) -> list[int]:
        """The largest of each number, over all processes."""
        if self.size == 1 or self.group is None:
            return list(numbers)
        array = np.array(numbers, np.int64)
        self.group.run(call, lambda communicator: communicator.all_reduce([array], ReduceOp.MAX))
        return array.tolist()

    def gathered(self, call: str, value: Any) -> list[Any]:
        """What each process has."""
        if self.size == 1 or self.group is None:
            return [value]
        self.group.run(call, lambda communicator: communicator.barrier())  # who calls something else is told of `call`
        everyone: list[Any] = [None] * self.size
        all_gather_object(everyone, value, self.group)
        return everyone

    def raise_together(self, call: str, error: BaseException | None) -> None:
        """Raises in all processes what has gone wrong in one."""
        errors = self.gathered(call, None if error is None else str(error))
        if error is not None:
            raise error
        for rank, text in enumerate(errors):
            if text is not None:
                of_all = CheckpointError(f"{call}: rank {rank} has failed: {text}")
                raise starting.told_by(of_all, rank, f"ended with CheckpointError: {text}")

    def note_step(self, step: int) -> None:
        """Tells the launcher in which step this process is."""
        if self.group is not None:
            starting.note_step(step)
