"""DataParallel and DistributedDataParallel, so that programs which wrap their model run and their state_dicts load.

There is one device to run on, and one process in a group (`dynograd.distributed`): the wrapped model runs as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from dynograd.distributed import ProcessGroup
from dynograd.distributed.groups import group_of
from dynograd.nn.module import Module

__path__: list[str] = []  # PyTorch has modules below it (`compat.faces`)
__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls `module` with all of its input at once. Parameters are named `module.*`, as in PyTorch.

    Args:
        module: what is called.
        device_ids, output_device, dim: accepted; nothing is split.
    Shape: whatever `module` takes and gives.

    >>> model = dynograd.nn.DataParallel(dynograd.nn.Linear(2, 1))
    >>> list(model.state_dict()), model(dynograd.zeros(3, 2)).shape
    (['module.weight', 'module.bias'], dynograd.Size([3, 1]))
    """

    def __init__(
        self, module: Module, device_ids: Iterable[object] | None = None, output_device: object = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids, self.output_device, self.dim = list(device_ids or ()), output_device, dim

    def forward(self, *inputs: object, **kwargs: object) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: object,
    device_ids: Iterable[object] | None = None,
    output_device: object = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Calls `module` with `inputs`, all at once.

    Args:
        module: what is called.
        inputs: a tuple of arguments, or the only one.
        device_ids, output_device, dim: accepted; nothing is split.
        module_kwargs: keyword arguments, a dict.
    Returns:
        what `module` gives.

    >>> dynograd.nn.parallel.data_parallel(dynograd.nn.Linear(2, 1), dynograd.zeros(3, 2)).shape
    dynograd.Size([3, 1])
    """
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """Calls `module`; its gradients are joined over the group's processes, of which there is one.

    Parameters are named `module.*`, as in PyTorch. The options say how numbers travel between processes, and change nothing.

    Args:
        module: what is called.
        process_group: whose processes join their gradients; all when left out.
        device_ids, output_device, dim, broadcast_buffers, init_sync, bucket_cap_mb: accepted.
        find_unused_parameters, check_reduction, gradient_as_bucket_view, static_graph, options: accepted.
    Shape: whatever `module` takes and gives.
    Raises:
        ValueError: `dynograd.distributed.init_process_group` has not been called.
        RuntimeError: no parameter of `module` requires grad.

    >>> dynograd.distributed.init_process_group("gloo")
    >>> model = dynograd.nn.parallel.DistributedDataParallel(dynograd.nn.Linear(2, 1))
    >>> list(model.state_dict()), model(dynograd.zeros(3, 2)).shape
    (['module.weight', 'module.bias'], dynograd.Size([3, 1]))
    >>> dynograd.distributed.destroy_process_group()
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
        **options: object,
    ) -> None:
        super().__init__()
        self.process_group = group_of(process_group)
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise RuntimeError(
                f"DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient "
                f"({type(module).__name__}). Use the module itself."
            )
        self.module = module
        self.device_ids, self.output_device, self.dim = list(device_ids or ()), output_device, dim
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.static_graph, self.gradient_as_bucket_view = static_graph, gradient_as_bucket_view
        self.require_backward_grad_sync = True

    def forward(self, *inputs: object, **kwargs: object) -> Any:
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context in which gradients are added up without being joined over the group.

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
        """A context in which processes may have different numbers of batches.

        Args:
            divide_by_initial_world_size, enable, throw_on_early_termination: accepted; there is one process.

        >>> dynograd.distributed.init_process_group("gloo")
        >>> model = dynograd.nn.parallel.DistributedDataParallel(dynograd.nn.Linear(2, 1))
        >>> with model.join():
        ...     model(dynograd.zeros(3, 2)).sum().backward()
        >>> dynograd.distributed.destroy_process_group()
        """
        yield

    def register_comm_hook(self, state: object, hook: object) -> None:
        """Accepted: what a hook does to numbers on their way between processes is never asked for.

        Args:
            state, hook: ignored.

        >>> dynograd.distributed.init_process_group("gloo")
        >>> model = dynograd.nn.parallel.DistributedDataParallel(dynograd.nn.Linear(2, 1))
        >>> model.register_comm_hook(None, lambda state, bucket: bucket)
        >>> dynograd.distributed.destroy_process_group()
        """
