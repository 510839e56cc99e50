"""Averages gradients over a group while backward runs: what `DistributedDataParallel` does, without the module.

Parameters lie in buckets, in the order in which their gradients are ready. A bucket is joined when all of its gradients are there, and all
buckets before it; what is left when backward ends is joined then. A parameter that a process has not used counts as zeros, and one that none
has used keeps what it has: no search through the graph is needed, and trees and branches may differ between processes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynograd.autograd import no_grad
from dynograd.autograd.modes import MODES
from dynograd.distributed.buffers import Buffer
from dynograd.distributed.communicators.protocol import Communicator
from dynograd.distributed.process_groups import ProcessGroup, Work
from dynograd.distributed.reductions import ReduceOp
from dynograd.ops.layout.joins import cat
from dynograd.tensor.creation import zeros_like
from dynograd.tensor.tensor import Tensor

__all__ = ["GradBucket", "Reducer"]

_FIRST = 1 << 20  # bytes of the first bucket: it is ready early, and what comes behind it waits for it


class GradBucket:
    """The gradients of some parameters, one behind the other, for a communication hook.

    Args:
        index: of the bucket.
        buffer: a tensor of one dim.
        parameters: whose gradients lie in it, in order.
        is_last: whether it is the last one of this backward pass.
    """

    def __init__(self, index: int, buffer: Tensor, parameters: Sequence[Tensor], is_last: bool) -> None:
        self._index, self._buffer, self._parameters, self._is_last = index, buffer, list(parameters), is_last

    def index(self) -> int:
        """Its place among the buckets.

        Returns:
            A number from 0.
        """
        return self._index

    def buffer(self) -> Tensor:
        """All gradients, flat.

        Returns:
            A tensor of one dim.
        """
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Other gradients in place of these.

        Args:
            tensor: of the same size.
        """
        self._buffer = tensor

    def gradients(self) -> list[Tensor]:
        """The gradients as they are shaped: views of the buffer.

        Returns:
            A list of tensors.
        """
        sizes = [parameter.numel() for parameter in self._parameters]
        return [part.view(parameter.shape) for part, parameter in zip(self._buffer.split(sizes), self._parameters)]

    def parameters(self) -> list[Tensor]:
        """Whose gradients they are.

        Returns:
            A list.
        """
        return self._parameters

    def is_last(self) -> bool:
        """Whether no other bucket comes behind it in this pass.

        Returns:
            True or False.
        """
        return self._is_last


class _Bucket:
    __slots__ = ("missing", "parameters", "work")

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters = parameters
        self.missing = len(parameters)
        self.work: Work | None = None


class Reducer:
    """Joins the gradients of `parameters` at the end of each backward pass.

    Args:
        parameters: that require gradients, in the order of the module.
        group: whose processes join theirs.
        bytes_of_bucket: how large buckets are.
        overlaps: join buckets while backward runs, by a thread, instead of at its end.
        weight: how much this process's gradients count in the pass that is running, a number; None: as much as the others'.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        group: ProcessGroup,
        bytes_of_bucket: int,
        overlaps: bool,
        weight: Callable[[], float] | None = None,
    ) -> None:
        self.parameters, self.group, self.overlaps, self.weight = list(parameters), group, overlaps, weight
        self.is_on = True
        self.hook: tuple[Any, Callable[..., Any]] | None = None
        self._places = {parameter: place for place, parameter in enumerate(self.parameters)}
        self._bytes = bytes_of_bucket
        self._buckets = self._fill(self.parameters[::-1])
        self._of = {parameter: bucket for bucket in self._buckets for parameter in bucket.parameters}
        self._order: list[int] = []
        self._is_ordered = False
        self._used = np.zeros(len(self.parameters), np.float64)
        self._next = 0
        self._task: Any = None
        self._scale: float | None = None
        self._is_shadow = False  # it takes part in the others' pass
        self.divisor: int | None = None  # by what sums are divided; None: the number of processes
        self._zeros: set[Tensor] = set()  # whose gradient was made here, for the others' sake
        self._handles = [parameter.register_post_accumulate_grad_hook(self._ready) for parameter in self.parameters]

    def __deepcopy__(self, memo: dict) -> Reducer:
        """That of a copied module: of its parameters."""
        parameters = [copy.deepcopy(parameter, memo) for parameter in self.parameters]
        copied = Reducer(parameters, self.group, self._bytes, self.overlaps, copy.deepcopy(self.weight, memo))
        copied.hook = self.hook
        return copied

    def close(self) -> None:
        """Leaves the parameters alone from now on."""
        for handle in self._handles:
            handle.remove()

    def _fill(self, parameters: Sequence[Tensor]) -> list[_Bucket]:
        """Buckets of parameters of one dtype and device each, in this order."""
        buckets: list[_Bucket] = []
        filling: list[Tensor] = []
        size, most = 0, min(_FIRST, self._bytes)
        for parameter in parameters:
            count = parameter.numel() * parameter.element_size()
            if filling and (
                size + count > most or parameter.dtype != filling[0].dtype or parameter.device != filling[0].device
            ):
                buckets.append(_Bucket(filling))
                filling, size, most = [], 0, self._bytes
            filling.append(parameter)
            size += count
        if filling:
            buckets.append(_Bucket(filling))
        return buckets

    # --- in a backward pass -----------------------------------------------------------------------------------------

    def _ready(self, parameter: Tensor) -> None:
        if not self.is_on:
            return
        task = MODES.task
        if task is not self._task:
            self._begin(task)
        place = self._places[parameter]
        if self._used[place]:  # used again in a second pass within this one, by a checkpoint
            return
        self._used[place] = 1
        self._order.append(place)
        self._of[parameter].missing -= 1
        if self.overlaps:
            self._start_ready()

    def _begin(self, task: Any) -> None:
        self._task = task
        self._used[:] = 0
        self._order, self._next, self._scale = [], 0, None
        for bucket in self._buckets:
            bucket.missing, bucket.work = len(bucket.parameters), None
        task.at_end.append(self._end)
        if self.weight is not None:
            self._find_scale(0.0 if self._is_shadow else float(self.weight()))

    def _find_scale(self, own: float) -> None:
        total = np.array([own])
        self.group.run(
            "weights of the ranks' gradients", lambda communicator: communicator.all_reduce([total], ReduceOp.SUM)
        )
        self._scale = own / total[0] if total[0] else 0.0

    def _start_ready(self) -> None:
        buckets = self._buckets
        while self._next < len(buckets) - 1 and not buckets[self._next].missing:  # the last one waits: see `_end`
            self._start(self._next, True)
            self._next += 1

    def _end(self) -> None:
        """Backward has ended: what has not been joined is."""
        self._task = None
        for index in range(self._next, len(self._buckets)):
            self._start(index, self.overlaps)
        used = self._used
        self.group.run("parameters used", lambda communicator: communicator.all_reduce([used], ReduceOp.SUM))
        for bucket in self._buckets:
            if bucket.work is not None:
                bucket.work.wait()
        for place, parameter in enumerate(self.parameters):
            if not used[place] and parameter in self._zeros:
                parameter.grad = None
        self._zeros.clear()
        if not self._is_ordered:
            self._reorder()

    def join_without_gradients(self) -> None:
        """Takes part in a pass of the others, with nothing to give."""
        self._is_shadow = True
        try:
            self._begin(_NoTask())
            self._end()
        finally:
            self._is_shadow = False

    def _start(self, index: int, async_op: bool) -> None:
        bucket = self._buckets[index]
        gradients = []
        for parameter in bucket.parameters:
            if parameter.grad is None or self._is_shadow:
                parameter.grad = zeros_like(parameter)
                self._zeros.add(parameter)
            elif parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()
            gradients.append(parameter.grad)
        if self.hook is not None:
            self._by_hook(*self.hook, index, bucket, gradients)
            return
        op, scale = ReduceOp.AVG, self._scale
        if scale is None and self.divisor is not None:
            scale = 1 / self.divisor
        if scale is not None:
            op = ReduceOp.SUM
            with no_grad():
                for gradient in gradients:
                    gradient *= scale
        buffers = [Buffer(gradient, True, may_stay=True) for gradient in gradients]

        def task(communicator: Communicator) -> None:
            communicator.all_reduce([buffer.array for buffer in buffers], op)
            for buffer in buffers:
                buffer.finish()

        size = sum([gradient.numel() for gradient in gradients])
        call = f"gradients of bucket {index}: {size} of {gradients[0].dtype}"
        work = self.group.run(call, task, async_op=async_op)
        bucket.work = work if async_op else None

    def _by_hook(
        self, state: Any, hook: Callable[..., Any], index: int, bucket: _Bucket, gradients: list[Tensor]
    ) -> None:
        with no_grad():
            flat = cat([gradient.reshape(-1) for gradient in gradients])
            if self._scale is not None:
                flat *= self._scale * self.group.size()
            result = hook(state, GradBucket(index, flat, bucket.parameters, index == len(self._buckets) - 1))
            result = result.wait() if hasattr(result, "wait") else result
            if isinstance(result, (list, tuple)):
                result = result[0]
            for gradient, part in zip(gradients, result.split([g.numel() for g in gradients])):
                gradient.copy_(part.view(gradient.shape))

    def _reorder(self) -> None:
        """From the second pass on buckets follow the order in which the first process's gradients were ready."""
        rest = [place for place in range(len(self.parameters) - 1, -1, -1) if not self._used_here(place)]
        order = np.array([*self._order, *rest], np.int64)
        self.group.run("order of gradients", lambda communicator: communicator.broadcast(order, 0))
        self._buckets = self._fill([self.parameters[place] for place in order])
        self._of = {parameter: bucket for bucket in self._buckets for parameter in bucket.parameters}
        self._is_ordered = True

    def _used_here(self, place: int) -> bool:
        return place in self._order


class _NoTask:
    def __init__(self) -> None:
        self.at_end: list[Any] = []
