"""Devices by name: `device("cpu")`, `device("cuda:0")`. A name can be built anywhere; memory only where the machine has the device."""

from __future__ import annotations

import threading
from typing import Any

from dynograd.errors import DeviceError

__all__ = ["device", "get_default_device", "set_default_device"]

_KINDS = ("cpu", "cuda", "meta")
ELSEWHERE = ("mps", "xpu", "hpu", "mtia", "xla", "ipu", "vulkan", "privateuseone")  # names that programs compare with


class device:
    """Where a tensor lives. As a context, where tensors are made that name no device.

    Args:
        type: "cpu", "cuda", "meta" (shapes without memory), a text as "cuda:1", a device, or the number of a GPU.
        index: the number of the GPU; None is the current one.
    Raises:
        RuntimeError: there is no such kind of device.

    >>> dynograd.device("cuda:1").index
    1
    >>> with dynograd.device("cpu"):
    ...     dynograd.zeros(1).device
    device(type='cpu')
    """

    __slots__ = ("index", "type")

    def __init__(self, type: Any, index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        elif isinstance(type, int):
            type, index = "cuda", type
        elif isinstance(type, str) and ":" in type:
            type, _, number = type.partition(":")
            if index is not None or not number.isdigit():
                raise RuntimeError(
                    f"device: expected a name such as 'cuda:0', got '{type}:{number}' with index={index}."
                )
            index = int(number)
        if type not in _KINDS and type not in ELSEWHERE:
            raise RuntimeError(f"device: expected one of {', '.join(_KINDS)} with an optional index, got {type!r}.")
        if index is not None and index < 0:
            raise RuntimeError(f"device: expected an index of 0 or more, got {index} for '{type}'.")
        self.type: str = type
        self.index: int | None = index

    def __enter__(self) -> device:
        _local.stack.append(self)
        return self

    def __exit__(self, *problem: Any) -> None:
        _local.stack.pop()

    def __repr__(self) -> str:
        return (
            f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple:
        return device, (self.type, self.index)


cpu = device("cpu")


def refuse_elsewhere(who: str, place: device) -> None:
    """Raises where there is no support for a kind of device.

    Raises:
        DeviceError: there is none.
    """
    if place.type in ELSEWHERE:
        raise DeviceError(
            f"{who}: there is no support for devices of type {place.type!r}. Use 'cpu', 'cuda' or 'meta'."
        )


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[device] = []  # of `with device(...)`


_local = _Local()
_default = cpu


def set_default_device(device: device | str | int | None) -> None:
    """Where tensors are made from now on that name no device; None: the CPU.

    Args:
        device: a device, its name, or None.
    Raises:
        RuntimeError: there is no such kind of device.

    >>> dynograd.set_default_device("cpu")
    """
    global _default
    _default = cpu if device is None else as_device(device)


def get_default_device() -> device:
    """Where tensors are made that name no device.

    Returns:
        A `device`.

    >>> dynograd.get_default_device()
    device(type='cpu')
    """
    return _local.stack[-1] if _local.stack else _default


def as_device(value: Any) -> device:
    """The device meant by a device, a name, an index or None (`get_default_device()`)."""
    if value is None:
        return get_default_device()
    return value if type(value) is device else device(value)
