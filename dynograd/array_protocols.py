"""What other array libraries ask of a tensor: its namespace in the array API standard, and a move to a device in the standard's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.tensor import Tensor

__all__ = ["install_protocols"]

_namespace: list[Callable[[], Any]] = []
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def array_namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """`dynograd.array_api`, the array API standard's functions over tensors.

    Raises:
        ValueError: a version of the standard that it does not have.
    """
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(
            f"__array_namespace__: array API version {api_version!r} is not supported; expected one of {', '.join(VERSIONS)}."
        )
    return _namespace[0]()


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor in the memory of `device`; itself when it lies there.

    Raises:
        ValueError: a `stream`, which dynograd takes from `dynograd.cuda.stream` instead.
    """
    if stream is not None:
        raise ValueError(f"to_device: got stream={stream!r}. Use `with dynograd.cuda.stream(...)` around the call.")
    return self.to(device)  # type: ignore[attr-defined]


def install_protocols(namespace: Callable[[], Any]) -> None:
    """Puts `__array_namespace__` and `to_device` on Tensor. `namespace` gives the module, which is a higher layer and loaded when asked for."""
    _namespace[:] = [namespace]
    Tensor.__array_namespace__ = array_namespace  # type: ignore[attr-defined]
    Tensor.to_device = to_device  # type: ignore[attr-defined]
