"""The CUDA device layer as seen from a build without a GPU backend: every question has its honest answer, every request a clear error.

Nothing is imported here; `is_available()` is False and seeding, waiting and cache calls are no-ops, so programs that choose their
device with `cuda.is_available()` run unchanged.
"""

from __future__ import annotations

from typing import Any

from dynograd.errors import DeviceError

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Whether a CUDA device can be used: False in this build."""
    return False


def device_count() -> int:
    """How many CUDA devices there are: 0 in this build."""
    return 0


def is_initialized() -> bool:
    return False


def is_bf16_supported() -> bool:
    return False


def init() -> None:
    raise _missing("init")


def _missing(who: str) -> DeviceError:
    return DeviceError(
        f"cuda.{who}: no CUDA device is available to this build of dynograd. Guard the call with dynograd.cuda.is_available()."
    )


def current_device() -> int:
    raise _missing("current_device")


def set_device(device: Any) -> None:
    """Chooses the current device; there is none to choose."""
    raise _missing("set_device")


def get_device_name(device: Any = None) -> str:
    raise _missing("get_device_name")


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator; ignored without a device, as in PyTorch."""


def manual_seed_all(seed: int) -> None:
    """Seeds every device's generator; ignored without a device, as in PyTorch."""


def synchronize(device: Any = None) -> None:
    """Waits for the device; without one there is nothing to wait for."""


def empty_cache() -> None:
    """Gives cached device memory back; without a device there is none."""


def memory_allocated(device: Any = None) -> int:
    return 0


def max_memory_allocated(device: Any = None) -> int:
    return 0


def memory_reserved(device: Any = None) -> int:
    return 0


def max_memory_reserved(device: Any = None) -> int:
    return 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Starts the peak count anew; without a device it is 0 already."""
