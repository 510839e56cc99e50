"""Names of `torch.cuda` that programs ask for in passing: the runtime library, and which features there are."""

from __future__ import annotations

from typing import Any

from dynograd.cuda import driver
from dynograd.cuda.memory import mem_get_info
from dynograd.cuda.streams import synchronize

__all__ = ["cudart", "has_half", "has_magma"]

has_half = True  # products of half types work on every device that is supported
has_magma = False  # no such library is used


class _Status(int):
    """0, a success, of the runtime library's error numbers."""

    success: _Status


_Status.success = _Status(0)


class _Runtime:
    """What programs call of CUDA's runtime library; there is none: the same is done through the driver."""

    cudaError = _Status

    def cudaMemGetInfo(self, device: int) -> tuple[int, int]:
        """(free bytes, bytes in all) of a device."""
        return mem_get_info(device)

    def cudaDeviceSynchronize(self) -> _Status:
        """Waits for the current device."""
        synchronize()
        return _Status.success

    def cudaProfilerStart(self) -> _Status:
        """Does nothing: profilers that want a range can be told one by `cuda.nvtx`."""
        return _Status.success

    def cudaProfilerStop(self) -> _Status:
        """Does nothing."""
        return _Status.success

    def cudaGetErrorString(self, error: int) -> str:
        """What an error number means."""
        return "no error" if not int(error) else f"CUDA error {int(error)}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"cuda.cudart: {name} is not there, as dynograd uses CUDA's driver and not its runtime library. "
            f"There are cudaMemGetInfo, cudaDeviceSynchronize, cudaProfilerStart, cudaProfilerStop and cudaGetErrorString; "
            f"for more install cuda-bindings and use cuda.bindings.runtime."
        )


_runtime = _Runtime()


def cudart() -> Any:
    """The few functions of CUDA's runtime library that programs call, as one object.

    Raises:
        DeviceError: no device can be used.
    Returns:
        The object.

    >>> if dynograd.cuda.is_available():
    ...     free, total = dynograd.cuda.cudart().cudaMemGetInfo(0)
    """
    driver.get("cudart")
    return _runtime
