"""Objects of Python between processes: pickled, with their length before them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from dynograd.distributed.communicators.protocol import Communicator

__all__ = ["gathered", "packed", "sent", "unpacked"]


def packed(value: object) -> np.ndarray:
    """An object as bytes."""
    return np.frombuffer(pickle.dumps(value, protocol=5), np.uint8)


def unpacked(data: np.ndarray) -> Any:
    """The object that was packed."""
    return pickle.loads(data.tobytes())  # of a process of the same program


def gathered(communicator: Communicator, value: object) -> list[Any]:
    """The objects of all processes."""
    data = packed(value)
    lengths = [np.empty(1, np.int64) for _ in range(communicator.size)]
    communicator.all_gather(np.array([data.size], np.int64), lengths)
    texts = [np.empty(int(length[0]), np.uint8) for length in lengths]
    communicator.all_gather(data, texts)
    return [value if place == communicator.rank else unpacked(text) for place, text in enumerate(texts)]


def sent(communicator: Communicator, value: list[Any] | None, root: int) -> list[Any]:
    """The object of the process `root`."""
    is_root = communicator.rank == root
    data = packed(value) if is_root else np.empty(0, np.uint8)
    length = np.array([data.size], np.int64)
    communicator.broadcast(length, root)
    if not is_root:
        data = np.empty(int(length[0]), np.uint8)
    communicator.broadcast(data, root)
    return unpacked(data) if value is None else value
