"""Streams, events, and what is current in this thread: the device, and on each device the stream."""

from __future__ import annotations

import threading

__all__ = ["current_device", "current_handle", "set_current_device"]


class _Current(threading.local):
    device = 0

    def __init__(self) -> None:
        self.streams: dict[int, int] = {}


_current = _Current()


def current_device() -> int:
    return _current.device


def set_current_device(device: int) -> None:
    _current.device = device


def current_handle(device: int) -> int:
    """The raw stream on which work for `device` is put; 0 is the default stream."""
    return _current.streams.get(device, 0)
