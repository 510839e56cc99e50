"""Devices by name: `device("cpu")`, `device("cuda:0")`. A name can be built anywhere; memory only where the machine has the device."""

from __future__ import annotations

from typing import Any

__all__ = ["device"]

_KINDS = ("cpu", "cuda", "meta")


class device:
    """Where a tensor lives.

    >>> dynograd.device("cuda:1").index
    1
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
        if type not in _KINDS:
            raise RuntimeError(f"device: expected one of {', '.join(_KINDS)} with an optional index, got {type!r}.")
        self.type: str = type
        self.index: int | None = index

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


def as_device(value: Any) -> device:
    """The device meant by a device, a name, an index or None (the CPU)."""
    if value is None:
        return cpu
    return value if type(value) is device else device(value)
