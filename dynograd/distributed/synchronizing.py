"""One state in all processes: parameters and buffers of the first one, checked to be the same module's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from dynograd.autograd import no_grad
from dynograd.distributed.buffers import Buffer
from dynograd.distributed.communicators.protocol import Communicator
from dynograd.distributed.object_collectives import all_gather_object
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.ops.layout.joins import cat
from dynograd.tensor.tensor import Tensor

__all__ = ["broadcast_tensors", "count_of", "synchronize"]


def synchronize(module: Any, group: ProcessGroup, left_out: Collection[Tensor] = ()) -> None:
    """Gives all processes the parameters and buffers of the first one; raises where their modules differ."""
    state = [(name, t) for name, t in (*module.named_parameters(), *module.named_buffers()) if t not in left_out]
    described = [(name, tuple(tensor.shape), str(tensor.dtype), tensor.requires_grad) for name, tensor in state]
    others: list[Any] = [None] * group.size()
    all_gather_object(others, described, group)
    for rank, other in enumerate(others):
        if other == others[0]:
            continue
        differing = next(
            (pair for pair in zip(others[0], other) if pair[0] != pair[1]),
            (f"{len(others[0])} tensors", f"{len(other)} tensors"),
        )
        raise RuntimeError(
            f"DistributedDataParallel: expects same model across all ranks, but {type(module).__name__} of rank {rank} differs from that of "
            f"rank 0: {differing[1]} there, {differing[0]} in rank 0. Build the same module in each process."
        )
    broadcast_tensors([tensor for _, tensor in state], group)


def broadcast_tensors(tensors: Sequence[Tensor], group: ProcessGroup, root: int = 0) -> None:
    """Overwrites tensors with those of a process: all of them in one message; on a GPU in one of each dtype."""
    if group.size() == 1:
        return
    for dtype in dict.fromkeys([tensor.dtype for tensor in tensors if tensor.is_cuda]):
        _broadcast_on_gpu([tensor for tensor in tensors if tensor.is_cuda and tensor.dtype == dtype], group, root)
    tensors = [tensor for tensor in tensors if not tensor.is_cuda]
    if not tensors:
        return
    buffers = [Buffer(tensor, group.rank() != root) for tensor in tensors]

    def task(communicator: Communicator) -> None:
        flat = np.concatenate([buffer.array.view(np.uint8) for buffer in buffers])
        communicator.broadcast(flat, root)
        if communicator.rank != root:
            start = 0
            for buffer in buffers:
                end = start + buffer.array.nbytes
                buffer.array.view(np.uint8)[...] = flat[start:end]
                buffer.finish()
                start = end

    group.run(f"broadcast of {len(tensors)} tensors from {root}", task)


def _broadcast_on_gpu(tensors: Sequence[Tensor], group: ProcessGroup, root: int) -> None:
    with no_grad():
        flat = cat([tensor.detach().reshape(-1) for tensor in tensors])
        buffer = Buffer(flat, group.rank() != root, may_stay=True)

        def task(communicator: Communicator) -> None:
            communicator.broadcast(buffer.array, root)
            if communicator.rank != root:
                buffer.finish()

        group.run(f"broadcast of {len(tensors)} tensors of {tensors[0].dtype} from {root}", task)
        if group.rank() != root:
            for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
                tensor.copy_(part.view(tensor.shape))


def count_of(value: object, what: str) -> int | None:
    """How many samples or tokens an argument has; None if it is no tensor."""
    data = getattr(value, "data", None)
    sizes = getattr(value, "batch_sizes", None)
    if sizes is not None and isinstance(data, Tensor):  # a packed sequence
        return int(sizes[0]) if what == "samples" else len(data)
    if not isinstance(value, Tensor):
        return None
    if getattr(value, "is_nested", False):
        return int(value.size(0)) if what == "samples" else int(value.values().shape[0])
    if value.ndim == 0:
        return None
    return value.shape[0] if what == "samples" or value.ndim == 1 else value.shape[0] * value.shape[1]
