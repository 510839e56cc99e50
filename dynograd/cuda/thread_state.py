"""What is current in this thread: the device, on each device the stream, and what follows from them for the hot paths."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["current", "forget"]


class _Current(threading.local):
    """One per thread.

    Attributes:
        device: index of the current device.
        streams: device index -> current Stream, where it is not the default stream.
        context: index of the device whose primary context the driver has in this thread; -1, none.
        active: {context: raw current stream}, or empty. Who finds a device here may launch on it without asking further.
        shelves: device index -> the allocator's {bytes: shelf} for the current stream.
        captures: device index -> the private memory of the graph that this thread captures.
        captured_device: the device on which this thread captures a graph, or -1.
    """

    def __init__(self) -> None:
        self.device = 0
        self.streams: dict[int, Any] = {}
        self.context = -1
        self.active: dict[int, int] = {}
        self.shelves: dict[int, dict[int, Any]] = {}
        self.captures: dict[int, Any] = {}
        self.captured_device = -1


current = _Current()


def forget() -> None:
    """As in a new thread."""
    current.__init__()  # type: ignore[misc]
