"""DataParallel: each GPU of this process computes a part of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd import cuda
from dynograd.base.devices import device
from dynograd.errors import DeviceError
from dynograd.nn.module import Module
from dynograd.nn.parallel.parallel_apply import parallel_apply
from dynograd.nn.parallel.replicate import replicate
from dynograd.nn.parallel.scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls `module` with a part of the batch on each GPU, in threads, and joins what it gives on one of them.

    Each call copies the parameters from the first GPU to the others; gradients come back to the parameters of `module`. What the copy on the
    first GPU writes into its buffers stays (the statistics of BatchNorm: those of its part of the batch), what the others write is lost.
    With one GPU, or none, it is a call of `module`. Parameters are named `module.*`. `DistributedDataParallel` with a process for each GPU
    is faster.

    Args:
        module: what is called; it lies on the first GPU.
        device_ids: GPUs or their numbers; all of them unless given.
        output_device: where results lie; the first of `device_ids` unless given.
        dim: along which tensors are cut. Ragged tensors are cut by rows; what is no tensor goes to all GPUs.
    Shape: whatever `module` takes and gives.
    Raises:
        RuntimeError: parameters or buffers do not lie on the first GPU.
        DeviceError: a device that is no GPU, or that there is not.

    >>> model = dynograd.nn.DataParallel(dynograd.nn.Linear(2, 1))
    >>> list(model.state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids = _indices(device_ids)
        self.output_device: int | None = None
        if self.device_ids:
            self.output_device = self.device_ids[0] if output_device is None else _index(output_device)
            self.src_device_obj = device("cuda", self.device_ids[0])
        if len(self.device_ids) == 1:
            module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        _check_place(self.module, self.src_device_obj)
        arguments, named = self.scatter(inputs, kwargs, self.device_ids)
        if not arguments and not named:
            arguments, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*arguments[0], **named[0])
        replicas = self.replicate(self.module, self.device_ids[: len(arguments)])
        return self.gather(self.parallel_apply(replicas, arguments, named), self.output_device)

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Module]:
        """The module on each of these devices: what a subclass may do otherwise.

        Args:
            module: that is called.
            device_ids: of the GPUs.
        Returns:
            A list of modules.
        """
        return replicate(module, device_ids)

    def scatter(
        self, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, device_ids: Sequence[Any]
    ) -> tuple[tuple, tuple]:
        """The arguments of a call for each of these devices.

        Args:
            inputs, kwargs: of the call.
            device_ids: of the GPUs.
        Returns:
            Tuples of arguments, and dicts of keyword arguments.
        """
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def parallel_apply(self, replicas: Sequence[Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """What each replica gives for its arguments.

        Args:
            replicas: of the module.
            inputs, kwargs: of each one.
        Returns:
            A list.
        """
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Sequence[Any], output_device: Any) -> object:
        """The results on one device.

        Args:
            outputs: of each replica.
            output_device: where they are to be.
        Returns:
            What the module alone would give.
        """
        return gather(outputs, output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any = None,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Calls `module` with a part of `inputs` on each GPU, as `DataParallel` does.

    Args:
        module: what is called; it lies on the first GPU.
        inputs: a tuple of arguments, the only one, or None.
        device_ids, output_device, dim: as of `DataParallel`.
        module_kwargs: keyword arguments, a dict.
    Returns:
        what `module` gives, on `output_device`.
    Raises:
        RuntimeError, DeviceError: as `DataParallel`.

    >>> layer = dynograd.nn.Linear(2, 1).to("cuda" if dynograd.cuda.is_available() else "cpu")
    >>> dynograd.nn.parallel.data_parallel(layer, dynograd.zeros(3, 2)).shape
    dynograd.Size([3, 1])
    """
    gpus = _indices(device_ids)
    if gpus:
        _check_place(module, device("cuda", gpus[0]))
    arguments = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return DataParallel(module, gpus, output_device, dim)(*arguments, **(module_kwargs or {}))


def _check_place(module: Module, place: device) -> None:
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.device != place:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {place} (device_ids[0]) but found one of them on device: "
                f"{tensor.device}. Call .to('{place}') of it first."
            )


def _indices(devices: Sequence[Any] | None) -> list[int]:
    """The numbers of GPUs; of all that there are unless given, none where there are none."""
    if not cuda.is_available():
        return []
    return [_index(place) for place in (range(cuda.device_count()) if devices is None else devices)]


def _index(place: Any) -> int:
    """The number of a GPU."""
    gpu = device(place)
    if gpu.type != "cuda":
        raise DeviceError(f"DataParallel: Expected a cuda device, but got: {gpu}. Call the module itself on the CPU.")
    number = cuda.current_device() if gpu.index is None else gpu.index
    if not 0 <= number < cuda.device_count():
        raise DeviceError(
            f"DataParallel: device 'cuda:{number}' was asked for, but there are {cuda.device_count()} CUDA devices."
        )
    return number
