"""Pinned host memory: pages that a device reads and writes by itself, so that copies do not wait. Kept when freed.

A block that a copy uses is marked with `used_on`; it is given to the next who asks only when that copy is done.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from typing import Any

from dynograd.cuda import driver, streams
from dynograd.errors import OutOfMemoryError

__all__ = ["PinnedBlock", "allocate", "empty_cache", "owner_of", "statistics"]

SMALLEST = 1 << 12
MOST_IDLE = 1 << 28

_shelves: dict[int, list[int]] = {}
_leaving: deque[tuple[int, int, list[Any]]] = deque()
_held = 0
_lock = threading.RLock()


class PinnedBlock:
    """A piece of pinned host memory. `numpy.asarray(block)` is an array of bytes over it that keeps it alive."""

    __slots__ = ("__weakref__", "fences", "nbytes", "pointer", "size")

    def __init__(self, pointer: int, nbytes: int, size: int) -> None:
        self.pointer, self.nbytes, self.size = pointer, nbytes, size
        self.fences: list[Any] = []

    def used_on(self, device: int, stream: int) -> None:
        """Work put on the raw stream so far uses the block: keep it until that is done."""
        self.fences.append(streams.fence(device, stream))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.pointer, False), "version": 3}

    def __del__(self) -> None:
        if _leaving is not None and self.size:
            _leaving.append((self.pointer, self.size, self.fences))


def allocate(nbytes: int) -> PinnedBlock:
    """Pinned memory with any contents.

    Raises:
        OutOfMemoryError: the system has not that much.
    """
    global _held
    if nbytes <= 0:
        return PinnedBlock(0, 0, 0)
    size = max(SMALLEST, 1 << (nbytes - 1).bit_length())
    used = driver.get("pin_memory")  # before the lock, which a forked child may have inherited locked
    with _lock:
        shelf = _shelves.setdefault(size, [])
        if not shelf and _leaving:
            _collect()
        if shelf:
            return PinnedBlock(shelf.pop(), nbytes, size)
        pointer = used.allocate_pinned(size)
        if not pointer:
            empty_cache()
            pointer = used.allocate_pinned(size)
        if not pointer:
            raise OutOfMemoryError(
                f"pin_memory: no pinned host memory for {nbytes:,} bytes; {_held:,} are pinned already. "
                f"Pin less: workers need a few batches only."
            )
        _held += size
        return PinnedBlock(pointer, nbytes, size)


def _collect() -> None:
    """Freed blocks come back where the copies that use them are done."""
    if driver.captures:
        return  # asking for events is not allowed in a capture
    waiting = []
    while _leaving:
        pointer, size, fences = _leaving.popleft()
        while fences and streams.has_passed(fences[-1]):
            fences.pop()
        if fences:
            waiting.append((pointer, size, fences))
        else:
            _shelves.setdefault(size, []).append(pointer)
    _leaving.extendleft(reversed(waiting))
    if _held <= MOST_IDLE:
        return
    idle = sum([size * len(shelf) for size, shelf in _shelves.items()])
    for size in sorted(_shelves, reverse=True):
        while idle > MOST_IDLE and _shelves[size]:
            _release(size)
            idle -= size


def _release(size: int) -> None:
    global _held
    driver.get("pin_memory").free_pinned(_shelves[size].pop())
    _held -= size


def empty_cache() -> None:
    """Gives idle pinned memory back to the system."""
    with _lock:
        _collect()
        for size, shelf in _shelves.items():
            while shelf:
                _release(size)


def statistics() -> dict[str, int]:
    """Bytes of pinned memory: held, and of these idle."""
    with _lock:
        return {"held": _held, "idle": sum([size * len(shelf) for size, shelf in _shelves.items()])}


def owner_of(array: Any) -> PinnedBlock | None:
    """The pinned block in which a NumPy array lies, or None."""
    while array is not None:
        if type(array) is PinnedBlock:
            return array
        array = getattr(array, "base", None)
    return None


def move(target: int, source: int, nbytes: int) -> None:
    """Copies between host addresses."""
    ctypes.memmove(target, source, nbytes)
