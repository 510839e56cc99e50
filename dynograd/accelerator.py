"""`torch.accelerator`: whatever GPU there is, under one name. Here that is CUDA or nothing."""

from __future__ import annotations

from typing import Any

from dynograd import cuda
from dynograd.devices import device

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "is_available",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a GPU."""
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> device | None:
    """The kind of GPU as a device without number, None without one.

    >>> dynograd.accelerator.current_accelerator() is None or dynograd.accelerator.is_available()
    True
    """
    return device("cuda") if cuda.is_available() else None


def device_count() -> int:
    """How many GPUs there are."""
    return cuda.device_count()


def current_device_index() -> int:
    """The number of the current GPU."""
    return cuda.current_device()


def set_device_index(device: Any) -> None:
    """Makes another GPU the current one."""
    cuda.set_device(device)


def synchronize(device: Any = None) -> None:
    """Waits for the GPU; without one there is nothing to wait for."""
    if cuda.is_available():
        cuda.synchronize(device)
