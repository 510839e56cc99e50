"""`torch.xpu`: there is no support for these devices, and programs that ask are told so."""

from __future__ import annotations

from typing import Any, NoReturn

from dynograd.errors import DeviceError

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "set_device",
    "synchronize",
]


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


def manual_seed(seed: int) -> None:
    """Does nothing: there is no such device."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def memory_allocated(device: Any = None) -> int:
    """0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """0."""
    return 0


def _refuse(who: str) -> NoReturn:
    raise DeviceError(
        f"xpu.{who}: there are no XPU devices here. Ask xpu.is_available(), which is False, before; use device='cuda' or 'cpu'."
    )


def current_device() -> int:
    """Raises DeviceError: there is no such device."""
    _refuse("current_device")


def set_device(device: Any) -> None:
    """Raises DeviceError: there is no such device."""
    _refuse("set_device")


def get_device_name(device: Any = None) -> str:
    """Raises DeviceError: there is no such device."""
    _refuse("get_device_name")


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """Raises DeviceError: there is no such device."""
    _refuse("get_device_capability")


def get_device_properties(device: Any = None) -> Any:
    """Raises DeviceError: there is no such device."""
    _refuse("get_device_properties")
