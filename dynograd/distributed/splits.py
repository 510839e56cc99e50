"""Which part of a whole a parameter of this process is: what norms and whole states ask of it.

A parameter that is split in two ways (columns over one group, elements over another) has both splits, in the order in which they were made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynograd.distributed.buffers import Buffer
from dynograd.distributed.communicators.protocol import Communicator, parts_of
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.tensor.creation import empty
from dynograd.tensor.tensor import Tensor

__all__ = ["Split", "along", "add_split", "keep_splits", "part_of_whole", "splits_of", "whole_of"]


_NAME = "_splits"


@dataclass(frozen=True)
class Split:
    """One way of splitting a tensor among the processes of a group.

    Args:
        group: whose processes have a part each.
        shape: of the tensor that is split.
        dim: along which it is cut; None: its elements, as a tensor of one dim.
        parts: of each process.
    """

    group: ProcessGroup
    shape: tuple[int, ...]
    dim: int | None
    parts: tuple[slice, ...]

    @property
    def own(self) -> slice:
        """This process's part."""
        return self.parts[self.group.rank()]

    def cut(self, whole: Tensor) -> Tensor:
        """This process's part of a tensor, in memory of its own."""
        if self.dim is None:
            return whole.detach().reshape(-1)[self.own].clone()
        return whole.detach().narrow(self.dim, self.own.start, self.own.stop - self.own.start).clone()

    def join(self, part: Tensor) -> Tensor:
        """The tensor of all parts, in all processes."""
        dim = self.dim or 0
        rows = (part if self.dim is None else part.movedim(dim, 0)).detach().contiguous()
        source = Buffer(rows, False, may_stay=True)
        rest = [] if self.dim is None else [size for place, size in enumerate(self.shape) if place != dim]
        width = int(np.prod(rest, dtype=np.int64))
        flat = empty(int(np.prod(self.shape, dtype=np.int64)), dtype=part.dtype, device=part.device)
        target = Buffer(flat, True, may_stay=True)

        def task(communicator: Communicator) -> None:
            results = [target.array[part.start * width : part.stop * width] for part in self.parts]
            communicator.all_gather(source.array, results)
            target.finish()

        self.group.run(f"parts of {part.dtype}{self.shape}", task)
        if self.dim is None:
            return flat.view(self.shape)
        return flat.view(self.shape[dim], *rest).movedim(0, dim).contiguous()


def along(group: ProcessGroup, shape: tuple[int, ...], dim: int) -> Split:
    """Equal parts along a dim; they differ by one where it does not divide."""
    return Split(group, tuple(shape), dim, tuple(parts_of(shape[dim], group.size())))


def splits_of(parameter: Tensor) -> tuple[Split, ...]:
    """How a parameter has been split, the first way first; () for a whole one."""
    return getattr(parameter, _NAME, ())


def add_split(parameter: Tensor, before: Tensor, split: Split) -> None:
    """Notes that `parameter` is the part of `before` that `split` says."""
    setattr(parameter, _NAME, (*splits_of(before), split))


def keep_splits(copied: Tensor, parameter: Tensor) -> None:
    """Notes that `copied` is the same part as `parameter`."""
    if splits_of(parameter):
        setattr(copied, _NAME, splits_of(parameter))


def whole_of(part: Tensor, splits: tuple[Split, ...]) -> Tensor:
    """The tensor that was split: all processes of its groups call it."""
    for split in reversed(splits):
        part = split.join(part)
    return part


def part_of_whole(whole: Tensor, splits: tuple[Split, ...]) -> Tensor:
    """This process's part of a tensor."""
    for split in splits:
        whole = split.cut(whole)
    return whole
