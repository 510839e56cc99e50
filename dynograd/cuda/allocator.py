"""Device memory: blocks that come back when they die."""

from __future__ import annotations

from typing import Any

from dynograd.cuda import driver, streams
from dynograd.errors import OutOfMemoryError

__all__ = ["Block", "allocate"]


class Block:
    """A piece of device memory; owned by the arrays that lie in it."""

    __slots__ = ("__weakref__", "device", "nbytes", "pointer")

    def __init__(self, device: int, pointer: int, nbytes: int) -> None:
        self.device, self.pointer, self.nbytes = device, pointer, nbytes

    def __del__(self) -> None:
        if driver is not None and driver._driver is not None and self.nbytes:
            driver._driver.free(self.device, self.pointer, 0)


def allocate(nbytes: int, device: int) -> Block:
    """New memory on `device`, for use on its current stream."""
    if not nbytes:
        return Block(device, 0, 0)
    found = driver.get("allocate").allocate(device, nbytes, streams.current_handle(device))
    if not found:
        raise OutOfMemoryError(f"cuda:{device}: no memory for {nbytes:,} bytes.")
    return Block(device, found, nbytes)
