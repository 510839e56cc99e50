"""`torch.xpu`: there is no support for these devices, and programs that ask are told so."""

from __future__ import annotations

from typing import Any

__all__ = ["device_count", "empty_cache", "is_available", "is_initialized", "manual_seed_all", "synchronize"]


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def synchronize(device: Any = None) -> None:
    """Does nothing: there is no such device."""


def empty_cache() -> None:
    """Does nothing: there is no such device."""


def manual_seed_all(seed: int) -> None:
    """Does nothing: there is no such device."""
