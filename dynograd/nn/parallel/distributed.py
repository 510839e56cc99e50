"""DistributedDataParallel trains one model in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dynograd.autograd import is_grad_enabled
from dynograd.base.devices import device
from dynograd.distributed import ProcessGroup
from dynograd.distributed.groups import group_of
from dynograd.distributed.joins import Join, Joinable, JoinHook
from dynograd.distributed.reducer import Reducer
from dynograd.distributed.reductions import ReduceOp
from dynograd.distributed.synchronizing import broadcast_tensors, count_of, synchronize
from dynograd.nn.module import Module
from dynograd.nn.parallel.device_ids import device_of, moved
from dynograd.tensor.tensor import Tensor

__all__ = ["DistributedDataParallel"]


class _Shadow(JoinHook):
    """What a process without inputs does in the steps of the others."""

    def __init__(self, model: DistributedDataParallel, divides_by_all: bool) -> None:
        self._model, self._divides_by_all = model, divides_by_all
        model._divides_by_all = divides_by_all
        self._gradients: list[tuple[Tensor, Tensor | None]] = []  # its own, before those of the others

    def main_hook(self) -> None:
        if not self._gradients:
            self._gradients = [(parameter, parameter.grad) for parameter in self._model.module.parameters()]
        self._model._shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        self._model._end_join(is_last_joiner)
        for parameter, gradient in self._gradients:
            parameter.grad = gradient


class DistributedDataParallel(Module, Joinable):
    """Calls `module`; each backward pass gives its parameters the gradients' average over the processes of a group.

    Parameters are named `module.*`, as in PyTorch. All processes begin with the parameters of the first one. What a process does not use
    counts as zeros, so that the programs of the processes may differ (trees, branches) without `find_unused_parameters`.

    Args:
        module: what is called.
        process_group: whose processes join their gradients; all when left out.
        broadcast_buffers: each forward pass in training begins with the buffers of the first process.
        init_sync: begin with the first process's parameters.
        bucket_cap_mb: how many MiB of gradients travel at once; 25 unless given.
        average: "ranks": the mean of the processes' gradients. "samples", "tokens": each process's gradients count as much as its loss
            has samples or tokens (rows of ragged and packed input), so that the mean over all tokens comes of means over each process's; or
            a function of the forward's arguments that gives such a number.
        overlap: join gradients while backward goes on, by a thread; None: on a GPU, and where cores are free for it.
        device_ids, output_device: a list of the GPU that the module is on, to which inputs are then moved.
        dim, find_unused_parameters, check_reduction, gradient_as_bucket_view, static_graph, options: accepted.
    Shape: whatever `module` takes and gives.
    Raises:
        ValueError: `dynograd.distributed.init_process_group` has not been called.
        RuntimeError: no parameter of `module` requires grad; or the processes' modules differ.

    >>> def program():
    ...     model = dynograd.nn.parallel.DistributedDataParallel(dynograd.nn.Linear(1, 1, bias=False))
    ...     model(tensor([[dynograd.distributed.get_rank() + 1.0]])).sum().backward()
    ...     return model.module.weight.grad.item()
    >>> dynograd.distributed.simulate(program, ranks=2)
    [1.5, 1.5]
    """

    def __init__(
        self,
        module: Module,
        device_ids: Iterable[object] | None = None,
        output_device: object = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        *,
        average: str | Callable[..., float] = "ranks",
        overlap: bool | None = None,
        **options: object,
    ) -> None:
        super().__init__()
        self.process_group = group_of(process_group)
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise RuntimeError(
                f"DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient "
                f"({type(module).__name__}). Use the module itself."
            )
        if not callable(average) and average not in ("ranks", "samples", "tokens"):
            raise ValueError(
                f"DistributedDataParallel: expected average to be 'ranks', 'samples', 'tokens' or a function, got {average!r}."
            )
        if bucket_cap_mb is not None and bucket_cap_mb <= 0:
            raise ValueError(f"DistributedDataParallel: bucket_cap_mb must be above 0, got {bucket_cap_mb!r}.")
        self.module = module
        self._device = device_of(module, list(device_ids or ()), output_device)
        self.device_ids = None if self._device is None else [self._device.index]
        self.output_device, self.dim = None if self._device is None else self._device.index, dim
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.static_graph, self.gradient_as_bucket_view = static_graph, gradient_as_bucket_view
        self.average = average
        self.require_backward_grad_sync = True
        self._weight = 1.0
        self._join: Join | None = None
        self._active: Any = None
        self._divides_by_all = True
        self._root = 0
        self.reducer: Reducer | None = None
        if self.process_group.size() > 1:
            if init_sync:
                synchronize(module, self.process_group)
            self.reducer = Reducer(
                [parameter for parameter in module.parameters() if parameter.requires_grad],
                self.process_group,
                int((bucket_cap_mb or 25) * 2**20),
                self.join_device.type == "cuda" or self.process_group.has_free_cores() if overlap is None else overlap,
                None if average == "ranks" else self._weight_of_pass,
            )

    def forward(self, *inputs: object, **kwargs: object) -> Any:
        if self._device is not None:
            inputs, kwargs = moved((inputs, kwargs), self._device)
        reducer = self.reducer
        if reducer is not None:
            sends_buffers = self.training and self.broadcast_buffers and self.require_backward_grad_sync
            if self._join is not None:
                Join.notify_join_context(
                    self, 1 + 2 * self.require_backward_grad_sync * is_grad_enabled() + 4 * sends_buffers
                )
                self._note_active()
            if sends_buffers:
                broadcast_tensors([*self.module.buffers()], self.process_group, self._root)
            if self.average != "ranks":
                self._weight = self._count(inputs, kwargs)
            reducer.is_on = self.require_backward_grad_sync
        return self.module(*inputs, **kwargs)

    def _count(self, inputs: tuple[object, ...], kwargs: dict[str, object]) -> float:
        """How many samples or tokens a call has."""
        if callable(self.average):
            return float(self.average(*inputs, **kwargs))
        for value in (*inputs, *kwargs.values()):
            count = count_of(value, self.average)
            if count is not None:
                return float(count)
        raise TypeError(
            f"DistributedDataParallel: average={self.average!r} needs a tensor among the forward's arguments, got "
            f"{', '.join([type(value).__name__ for value in (*inputs, *kwargs.values())])}. Give average=a function of these arguments."
        )

    def _weight_of_pass(self) -> float:
        return self._weight

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context in which gradients are added up without being joined over the group: for all micro-batches of a step but the last one.

        >>> dynograd.distributed.init_process_group("gloo")
        >>> model = dynograd.nn.parallel.DistributedDataParallel(dynograd.nn.Linear(2, 1))
        >>> with model.no_sync():
        ...     model(dynograd.zeros(3, 2)).sum().backward()
        >>> dynograd.distributed.destroy_process_group()
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Iterator[None]:
        """A context in which processes may have different numbers of batches; behind it all have the parameters of one that had the most.

        Args:
            divide_by_initial_world_size: gradients are divided by the number of all processes, also when some have run out.
            enable: False does nothing.
            throw_on_early_termination: as soon as one process has run out, all raise.

        >>> def program():
        ...     model = dynograd.nn.parallel.DistributedDataParallel(dynograd.nn.Linear(1, 1, bias=False))
        ...     with model.join(divide_by_initial_world_size=False):
        ...         for _ in range(1 + dynograd.distributed.get_rank()):
        ...             model(tensor([[1.0]])).sum().backward()
        ...     return model.module.weight.grad.item()
        >>> dynograd.distributed.simulate(program, ranks=2)
        [1.0, 2.0]
        """
        with Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        ):
            yield

    def join_hook(self, **kwargs: object) -> JoinHook:
        """What this module does in the steps of the others when this process has run out of inputs.

        Args:
            kwargs: `divide_by_initial_world_size`.
        Returns:
            A `JoinHook`.
        """
        return _Shadow(self, bool(kwargs.get("divide_by_initial_world_size", True)))

    @property
    def join_device(self) -> device:
        """Where its parameters are."""
        return next(self.module.parameters()).device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group."""
        return self.process_group

    def _note_active(self) -> None:
        """Who takes part in this step: by what gradients are divided, and whose buffers count."""
        active = np.flatnonzero(self._active)
        self._root = int(active[0])
        if self.reducer is not None:
            self.reducer.divisor = None if self._divides_by_all else len(active)

    def _shadow(self) -> None:
        self._note_active()
        step = int(self._active[self._root])
        if step & 4:
            broadcast_tensors([*self.module.buffers()], self.process_group, self._root)
        if step & 2 and self.reducer is not None:
            self.reducer.join_without_gradients()

    def _end_join(self, is_last_joiner: bool) -> None:
        group = self.process_group
        last = np.zeros(group.size(), np.int64)
        last[group.rank()] = is_last_joiner
        group.run("who came last", lambda communicator: communicator.all_reduce([last], ReduceOp.SUM))
        root = int(np.flatnonzero(last)[-1])
        broadcast_tensors([*self.module.parameters(), *self.module.buffers()], group, root)
        self._root = 0
        if self.reducer is not None:
            self.reducer.divisor = None

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Lets `hook(state, bucket)` join gradients: compressed, in another dtype, only now and then.

        Args:
            state: what the hook is given.
            hook: gives the joined gradients, a tensor of the size of `bucket.buffer()`, or what has a `wait()` that gives it.

        >>> def halved(group, bucket):  # bfloat16 on the way
        ...     joined = bucket.buffer().bfloat16()
        ...     dynograd.distributed.all_reduce(joined, dynograd.distributed.ReduceOp.AVG, group)
        ...     return joined.float()
        >>> def program():
        ...     model = dynograd.nn.parallel.DistributedDataParallel(dynograd.nn.Linear(1, 1, bias=False))
        ...     model.register_comm_hook(None, halved)
        ...     model(tensor([[dynograd.distributed.get_rank() + 1.0]])).sum().backward()
        ...     return model.module.weight.grad.item()
        >>> dynograd.distributed.simulate(program, ranks=2)
        [1.5, 1.5]
        """
        if not callable(hook):
            raise TypeError(f"register_comm_hook: Communication hook must be callable, got {hook!r}.")
        if self.reducer is not None:
            if self.reducer.hook is not None:
                raise RuntimeError(
                    "register_comm_hook: register_comm_hook or register_builtin_comm_hook can only be called once."
                )
            self.reducer.hook = (state, hook)
