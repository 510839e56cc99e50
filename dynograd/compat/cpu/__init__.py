"""`torch.cpu`: the CPU as if it were a device that one could wait for."""

from __future__ import annotations

from typing import Any

from dynograd.compat.cpu import amp

__all__ = ["amp", "current_device", "device_count", "is_available", "synchronize"]


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """Its name.

    >>> dynograd.cpu.current_device()
    'cpu'
    """
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Does nothing: results on the CPU are there when a call returns."""
