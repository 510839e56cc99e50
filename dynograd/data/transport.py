"""How a batch gets from a worker to the loader: small things through the pipe, arrays through slots of shared memory.

A worker owns a ring of slots, as many as it may have batches under way, each used again when its batch was taken. A slot is an
anonymous memory file whose descriptor goes through the pipe once: it has no name that could be left behind, and /dev/shm may be
small. Where the system has no such files, arrays go through the pipe as well.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
from multiprocessing import reduction
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

import numpy

__all__ = ["BatchReceiver", "BatchSender"]

_SMALLEST = 1 << 13  # bytes of an array; below, the pipe is as quick as the slot
_ALIGNMENT = 64
_HEADER_LIMIT = 1 << 15  # a longer pickle goes to the slot, so that a worker never waits for room in the pipe
_PLACE = pickle.PickleBuffer(bytearray())
"""Stands for an array in the pickle; the array itself is beside it."""

# A slot's message: (kind, pickle or its size, slot number or None, slot capacity, is the slot new, [(offset, dtype, shape)]).


class BatchSender:
    """The worker's end of the pipe."""

    def __init__(self, connection: Connection, slots: int) -> None:
        self.connection = connection
        self.lock = Lock()
        self._slots: list[mmap.mmap | None] = [None] * slots
        self._next = 0
        self._has_memory = hasattr(os, "memfd_create")

    def send(self, kind: str, value: Any) -> None:
        """Sends `value`; it is pickled before anything is written, so an error leaves the pipe in order."""
        file = io.BytesIO()
        pickler = _Pickler(file, self._has_memory)
        pickler.dump(value)
        header: bytes = file.getvalue()
        arrays = pickler.arrays
        if self._has_memory and len(header) > _HEADER_LIMIT:
            arrays.append(numpy.frombuffer(header, numpy.uint8))
        number, self._next = self._next, (self._next + 1) % len(self._slots)
        with self.lock:
            if not arrays:
                self._send_message((kind, header, None, 0, False, []))
            elif not self._send_through_slot(kind, header, number, arrays):
                self._has_memory = False
                self._send_message((kind, _pickled(value), None, 0, False, []))

    def say(self, kind: str, value: Any) -> None:
        """Sends something small from another thread, out of the order of batches."""
        with self.lock:
            self._send_message((kind, pickle.dumps(value), None, 0, False, []))

    def _send_message(self, message: tuple) -> None:
        self.connection.send_bytes(pickle.dumps(message, 5))

    def _send_through_slot(self, kind: str, header: bytes, number: int, arrays: list) -> bool:
        places, size = [], 0
        for array in arrays:
            places.append((size, array.dtype, array.shape))
            size += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        try:
            slot, descriptor = self._slot(number, size)
        except OSError:  # the system has no memory files, or no more of them
            return False
        for (offset, dtype, shape), array in zip(places, arrays):
            numpy.copyto(_view(slot, offset, dtype, shape), array)
        first: Any = header if len(header) <= _HEADER_LIMIT else None
        self._send_message((kind, first, number, len(slot), descriptor is not None, places))
        if descriptor is not None:
            reduction.send_handle(self.connection, descriptor, os.getppid())
            os.close(descriptor)
        return True

    def _slot(self, number: int, size: int) -> tuple[mmap.mmap, int | None]:
        slot = self._slots[number]
        if slot is not None:
            if len(slot) < size:
                slot.resize(_capacity(size))
            return slot, None
        descriptor = os.memfd_create("dynograd-loader")
        try:
            os.ftruncate(descriptor, _capacity(size))
            self._slots[number] = slot = mmap.mmap(descriptor, _capacity(size))
        except OSError:
            os.close(descriptor)
            raise
        return slot, descriptor


class BatchReceiver:
    """The loader's end of the pipe. Arrays are copied out of their slot, so a batch belongs to whoever gets it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._slots: dict[int, mmap.mmap] = {}

    def receive(self, wanted: bool = True) -> tuple[str, Any]:
        """The next (kind, value); with `wanted=False` the value is None and nothing is copied."""
        kind, header, number, capacity, is_new, places = pickle.loads(self.connection.recv_bytes())
        arrays = []
        if number is not None:
            slot = self._slot(number, capacity, is_new)
            if wanted:
                arrays = [numpy.array(_view(slot, *place)) for place in places]
                if header is None:
                    header = arrays.pop()
        return kind, pickle.loads(header, buffers=arrays) if wanted else None

    def _slot(self, number: int, capacity: int, is_new: bool) -> mmap.mmap:
        if is_new:
            descriptor = reduction.recv_handle(self.connection)
            try:
                self._slots[number] = mmap.mmap(descriptor, capacity)
            finally:
                os.close(descriptor)
        slot = self._slots[number]
        if len(slot) < capacity:
            slot.resize(capacity)
        return slot

    def close(self) -> None:
        """Closes the pipe and lets go of the slots."""
        self.connection.close()
        for slot in self._slots.values():
            slot.close()
        self._slots.clear()


class _Pickler(pickle.Pickler):
    """Puts arrays of some size aside, in the order in which they are met."""

    def __init__(self, file: io.BytesIO, aside: bool) -> None:
        self.arrays: list = []
        super().__init__(file, 5, buffer_callback=self._is_in_band)
        self._aside = aside

    def reducer_override(self, value: Any) -> Any:
        if self._aside and type(value) is numpy.ndarray and value.nbytes >= _SMALLEST and not value.dtype.hasobject:
            self.arrays.append(value)
            return _itself, (_PLACE,)
        return NotImplemented

    @staticmethod
    def _is_in_band(buffer: pickle.PickleBuffer) -> bool:
        return buffer is not _PLACE


def _itself(array: Any) -> Any:
    return array


def _pickled(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, aside=False).dump(value)
    return file.getvalue()


def _view(slot: mmap.mmap, offset: int, dtype: Any, shape: tuple) -> Any:
    return numpy.ndarray(shape, dtype, slot, offset)


def _capacity(size: int) -> int:
    """The next power of two: memory that is not written costs nothing, growing does."""
    return max(mmap.PAGESIZE, 1 << (size - 1).bit_length())
