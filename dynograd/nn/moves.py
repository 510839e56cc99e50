"""Other dtypes, devices and memory layouts for a module and all below it, in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from dynograd.base import devices, dtypes
from dynograd.base.hints import DeviceLike
from dynograd.errors import DtypeError
from dynograd.tensor.creation import empty_like
from dynograd.tensor.tensor import Tensor

__all__ = ["MoveMethods"]


class MoveMethods:
    """The part of Module that converts and moves parameters and buffers.

    >>> isinstance(dynograd.nn.Linear(2, 1), dynograd.nn.moves.MoveMethods)
    True
    """

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    children: Callable[[], Iterator[Any]]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replaces the memory of every parameter (kept as the same object), its gradient, and every buffer by `fn` of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            parameter.take_memory(fn(parameter.detach()))
            if parameter._grad is not None:
                parameter._grad = fn(parameter._grad.detach())
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves or converts in place: `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`. Integers keep their dtype.

        Args:
            args, kwargs: a device, a floating or complex dtype, or a tensor that has both; `non_blocking` is accepted;
                `memory_format=channels_last` reorders the memory of 4-d parameters and buffers (`channels_last_3d` of 5-d ones).
        Returns:
            this module.
        Raises:
            DtypeError: an integer dtype.
            TypeError: neither a device nor a dtype nor a tensor.

        >>> dynograd.nn.Linear(2, 1).to(dynograd.float64).weight.dtype
        dynograd.float64
        """
        format = kwargs.pop("memory_format", None)
        dtype, device = _destination(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise DtypeError(
                f"Module.to: nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}."
            )

        def convert(x: Any) -> Any:
            converts = dtype is not None and (x.is_floating_point() or x.is_complex())
            moved = x.to(device=device, dtype=dtype if converts else None)
            fits = format is not None and moved.dim() in (4, 5) and format.rank in (0, moved.dim())
            return moved.to(memory_format=format) if fits else moved

        return self._apply(convert)

    def type(self, dst_type: dtypes.dtype | str) -> Self:
        """Converts all parameters and buffers, integers too.

        Args:
            dst_type: a dtype, or its name in PyTorch's old way ("torch.DoubleTensor").
        Returns:
            this module.

        >>> dynograd.nn.Linear(2, 1).type(dynograd.float64).weight.dtype
        dynograd.float64
        """
        return self._apply(lambda x: x.type(dst_type))

    def float(self) -> Self:
        """Converts floating parameters and buffers to float32.

        Returns:
            this module.

        >>> dynograd.nn.Linear(2, 1, dtype=dynograd.float64).float().weight.dtype
        dynograd.float32
        """
        return self._apply(lambda x: x.float() if x.is_floating_point() else x)

    def double(self) -> Self:
        """Converts floating parameters and buffers to float64.

        Returns:
            this module.

        >>> dynograd.nn.Linear(2, 1).double().weight.dtype
        dynograd.float64
        """
        return self._apply(lambda x: x.double() if x.is_floating_point() else x)

    def half(self) -> Self:
        """Converts floating parameters and buffers to float16.

        Returns:
            this module.

        >>> dynograd.nn.Linear(2, 1).half().weight.dtype
        dynograd.float16
        """
        return self._apply(lambda x: x.half() if x.is_floating_point() else x)

    def bfloat16(self) -> Self:
        """Converts floating parameters and buffers to bfloat16.

        Returns:
            this module.

        >>> dynograd.nn.Linear(2, 1).bfloat16().weight.dtype
        dynograd.bfloat16
        """
        return self._apply(lambda x: x.bfloat16() if x.is_floating_point() else x)

    def to_empty(self, *, device: DeviceLike, recurse: bool = True) -> Self:
        """Moves parameters and buffers to `device` without their values, as a model built on device "meta" needs it.

        Args:
            device: where to.
            recurse: also those of the modules below.
        Returns:
            this module.

        >>> layer = dynograd.nn.Linear(2, 3, device="meta")
        >>> layer.to_empty(device="cpu").weight.device
        device(type='cpu')
        """
        return self._apply(lambda x: empty_like(x, device=device), recurse)

    def cpu(self) -> Self:
        """Moves parameters and buffers to the CPU.

        Returns:
            this module.

        >>> dynograd.nn.Linear(2, 1).cpu().weight.device
        device(type='cpu')
        """
        return self._apply(lambda x: x.cpu())

    def cuda(self, device: DeviceLike = None) -> Self:
        """Moves parameters and buffers to a GPU.

        Args:
            device: its number or name; the current one when left out.
        Returns:
            this module.
        Raises:
            DeviceError: there is no GPU.

        >>> model = dynograd.nn.Linear(2, 1)
        >>> model = model.cuda() if dynograd.cuda.is_available() else model
        """
        return self._apply(lambda x: x.cuda(device))

    def xpu(self, device: DeviceLike = None) -> Self:
        """Moves parameters and buffers to an XPU. dynograd computes on CPUs and NVIDIA's GPUs only, so this is an error.

        Args:
            device: its number or name.
        Raises:
            DeviceError: always.

        >>> dynograd.nn.Linear(2, 1).xpu()
        Traceback (most recent call last):
            ...
        dynograd.errors.DeviceError: to: there is no support for devices of type 'xpu'. Use 'cpu', 'cuda' or 'meta'.
        """
        return self._apply(lambda x: x.to("xpu" if device is None else device))

    def ipu(self, device: DeviceLike = None) -> Self:
        """Moves parameters and buffers to an IPU. dynograd computes on CPUs and NVIDIA's GPUs only, so this is an error.

        Args:
            device: its number or name.
        Raises:
            DeviceError: always.

        >>> dynograd.nn.Linear(2, 1).ipu()
        Traceback (most recent call last):
            ...
        dynograd.errors.DeviceError: to: there is no support for devices of type 'ipu'. Use 'cpu', 'cuda' or 'meta'.
        """
        return self._apply(lambda x: x.to("ipu" if device is None else device))

    def mtia(self, device: DeviceLike = None) -> Self:
        """Moves parameters and buffers to an MTIA device. dynograd computes on CPUs and NVIDIA's GPUs only, so this is an error.

        Args:
            device: its number or name.
        Raises:
            DeviceError: always.

        >>> dynograd.nn.Linear(2, 1).mtia()
        Traceback (most recent call last):
            ...
        dynograd.errors.DeviceError: to: there is no support for devices of type 'mtia'. Use 'cpu', 'cuda' or 'meta'.
        """
        return self._apply(lambda x: x.to("mtia" if device is None else device))

    def share_memory(self) -> Self:
        """Moves parameters and buffers into memory that forked processes share.

        Returns:
            this module.

        >>> dynograd.nn.Linear(2, 1).share_memory().weight.is_shared()
        True
        """
        return self._apply(lambda x: x.share_memory_())


def _destination(*args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> tuple[Any, Any]:
    """(dtype, device) of the arguments of `to`; None where not named."""
    for argument in (*args, *[kwargs[name] for name in ("tensor", "other") if name in kwargs]):
        if isinstance(argument, Tensor):
            dtype, device = argument.dtype, argument.device
        elif dtypes.means_dtype(argument):
            dtype = argument
        elif isinstance(argument, (str, int, devices.device)) and not isinstance(argument, bool):
            device = argument
        elif argument is not None and not isinstance(argument, bool):
            raise TypeError(f"Module.to: expected a dtype, a device or a Tensor, got {argument!r}.")
    return (None if dtype is None else dtypes.as_dtype(dtype)), device
