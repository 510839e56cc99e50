"""How a batch gets from a worker to the loader: small things through the pipe, large ones through slots of shared memory.

A slot is an anonymous memory file whose descriptor goes through the pipe once: it has no name that could be left behind, and does not
count against /dev/shm. A worker has a handful of slots and uses them again and again. What the loader's own collate functions make is made
in the slot (`Slots.empty`), and the program's tensors of a large batch lie in it too: nothing is copied on the way. The slot comes back when the
last of them is gone (`arrays.buffers.Lent`), its number travels with the next task. A program that keeps many batches gets copies.
"""

from __future__ import annotations

import errno
import functools
import io
import marshal
import mmap
import os
import pickle
import select
import socket
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

import numpy

from dynograd.arrays import Array, buffers
from dynograd.data.memory_files import shared_descriptor
from dynograd.errors import GradientError, user_level
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["BatchReceiver", "BatchSender", "Slots", "wait_for"]

_INLINE = 1 << 14  # bytes of arrays in a message; more go to a slot
_COPIED = 1 << 18  # bytes of a batch; a smaller one is copied out of its slot, which is then free at once
_ALIGNMENT = 64
_HEADER_LIMIT = 1 << 15  # a longer pickle goes to the slot, so that a worker never waits for room in the pipe
_PLACE = pickle.PickleBuffer(bytearray())
"""Stands for an array in the pickle; the array itself is beside it."""

# A message: (kind, pickle or None, arrays' bytes, slot number or None, slot capacity, is the slot new, [(offset, dtype, shape)], extra).


class Slots:
    """The worker's slots. Arrays of one batch are laid one behind the other into one of them."""

    def __init__(self) -> None:
        self.capacity = 0
        self.free: deque[int] = deque()
        self.is_possible = True
        self._memory: dict[int, mmap.mmap] = {}
        self._addresses: dict[int, int] = {}
        self._count = 0
        self._current: int | None = None
        self._end = self._wanted = 0
        self._made: dict[int, int] = {}
        self._new: dict[int, int] = {}

    def take_back(self, freed: list[int], dropped: list[int]) -> None:
        """The loader is done with `freed`; nobody may write into `dropped` any more."""
        for number in dropped:
            del self._memory[number], self._addresses[number]
        self.free.extend([number for number in freed if number in self._memory])

    def empty(self, shape: tuple, dtype: Any) -> Any:
        """A new array in the current slot, while there is room; else in ordinary memory (and the next slot will be larger)."""
        dtype = numpy.dtype(dtype)
        nbytes = dtype.itemsize
        for size in shape:
            nbytes *= size
        self._wanted += _aligned(nbytes)
        if self._wanted > _INLINE and self.is_possible:
            if self._current is None and self.capacity >= self._wanted:
                self._try_to_take()
            number = self._current
            if number is not None and self._end + nbytes <= len(self._memory[number]):
                offset, self._end = self._end, self._end + _aligned(nbytes)
                self._made[offset] = nbytes
                return numpy.ndarray(shape, dtype, self._memory[number], offset)
        return numpy.empty(shape, dtype)

    def lay(self, arrays: list[Any], size: int) -> tuple[int, int | None, list[tuple]]:
        """Slot number, its descriptor if it is new, and the places of the arrays, of which only those that lie elsewhere are copied.

        Raises:
            OSError: the system has no (more) shared memory.
        """
        number = self._current
        places: list[Any] = [self._place_of(array) for array in arrays] if number is not None else [None] * len(arrays)
        missing = sum([_aligned(array.nbytes) for array, place in zip(arrays, places) if place is None])
        if number is None or self._end + missing > len(self._memory[number]):
            if number is not None:
                self.free.append(number)
                places = [None] * len(arrays)
            self._end = 0
            self.capacity = max(self.capacity, _capacity(size))
            self._current = number = self._take()
        memory, end = self._memory[number], self._end
        for at, array in enumerate(arrays):
            if places[at] is None:
                numpy.copyto(numpy.ndarray(array.shape, array.dtype, memory, end), array)
                places[at] = (end, array.dtype, array.shape)
                end += _aligned(array.nbytes)
        return number, self._new.pop(number, None), places

    def _try_to_take(self) -> None:
        try:
            self._current = self._take()
        except OSError:
            self.is_possible = False

    def size_of(self, number: int) -> int:
        """Bytes of a slot."""
        return len(self._memory[number])

    def begin(self) -> None:
        """Forgets what was made for the last batch."""
        if self._current is not None:
            self.free.append(self._current)  # it was not sent
        self._forget()

    def sent(self) -> None:
        """The current slot is the loader's until it comes back."""
        self._forget()

    def _forget(self) -> None:
        self._current, self._end, self._wanted = None, 0, 0
        self._made.clear()

    def _place_of(self, array: Any) -> tuple | None:
        """Where the array lies in the current slot, if it is exactly one of those made there (the first to claim it)."""
        if type(array.base) is not mmap.mmap or not array.flags.c_contiguous:
            return None
        offset = array.ctypes.data - self._addresses[self._current]  # type: ignore[index]
        if self._made.get(offset) != array.nbytes:
            return None
        del self._made[offset]
        return offset, array.dtype, array.shape

    def _take(self) -> int:
        for _ in range(len(self.free)):
            number = self.free.pop()  # the one used last: it may still be in the cache
            if len(self._memory[number]) >= self.capacity:
                return number
            del self._memory[number], self._addresses[number]  # outgrown
        descriptor = shared_descriptor(self.capacity)
        try:
            memory = mmap.mmap(descriptor, self.capacity)
        except (OSError, ValueError):
            os.close(descriptor)
            raise
        number, self._count = self._count, self._count + 1
        self._memory[number] = memory
        self._addresses[number] = numpy.frombuffer(memory, numpy.uint8).ctypes.data
        self._new[number] = descriptor
        return number


class BatchSender:
    """The worker's end of the pipe."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.lock = Lock()
        self.slots = Slots()
        self._notice: str | None = None

    def send(self, kind: str, value: Any, extra: Any = None) -> None:
        """Sends `value`; it is pickled before anything is written, so an error leaves the pipe in order."""
        file = io.BytesIO()
        pickler = _Pickler(file)
        try:
            pickler.dump(value)
        except BaseException:
            self.slots.begin()
            raise
        header: Any = file.getvalue()
        arrays = pickler.arrays
        size = sum([_aligned(array.nbytes) for array in arrays])
        if len(header) > _HEADER_LIMIT:
            arrays.append(numpy.frombuffer(header, numpy.uint8))
            size += _aligned(len(header))
            header = None
        with self.lock:
            if size > _INLINE and self.slots.is_possible:
                try:
                    number, descriptor, places = self.slots.lay(arrays, size)
                except OSError as error:
                    self._give_up(error)
                else:
                    capacity = self.slots.size_of(number)
                    self._send((kind, header, b"", number, capacity, descriptor is not None, _told(places), extra))
                    self.slots.sent()
                    if descriptor is not None:
                        _send_descriptor(self.connection, descriptor)
                        os.close(descriptor)
                    return
            places = []
            inline = io.BytesIO()
            for array in arrays:
                places.append((inline.tell(), array.dtype, array.shape))
                inline.write(array.tobytes())
            notice, self._notice = self._notice, None
            self._send((kind, header, inline.getvalue(), None, 0, notice or False, _told(places), extra))
            self.slots.begin()

    def say(self, kind: str, value: Any) -> None:
        """Sends something small from another thread, out of the order of batches."""
        with self.lock:
            self._send((kind, pickle.dumps(value), b"", None, 0, False, [], None))

    def _send(self, message: tuple) -> None:
        self.connection.send_bytes(marshal.dumps(message))

    def _give_up(self, error: OSError) -> None:
        self.slots.is_possible = False
        self._notice = f"{type(error).__name__}: {error}"


class BatchReceiver:
    """The loader's end of the pipe. Whatever it gives belongs to the program, which may write into it and keep it."""

    MOST_LENT = 4
    """Slots that the program may have at a time of one worker; what it takes beyond that is copied."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.wait = wait_for(connection)
        self.freed: deque[int] = deque()
        self.dropped: deque[int] = deque()
        self._slots: dict[int, buffers.Lent] = {}

    def receive(self, unpack: bool = True) -> tuple[str, Any, Any]:
        """The next (kind, value, extra); with `unpack=False` nothing is copied and the value is None, unless it is a worker's last."""
        message = marshal.loads(self.connection.recv_bytes())
        kind, header, inline, number, capacity, news, places, extra = message
        if number is None:
            slot: Any = inline
            if news:
                _warn_about_memory(news)
        else:
            slot = self._slot(number, capacity, news)
        if not unpack and kind != "fatal":
            if number is not None:
                self.freed.append(number)
            return kind, None, extra
        if header is None:
            header = _view(slot, *places.pop()).tobytes()
        if number is None:
            arrays = [_view(slot, *place).copy() for place in places]
        else:
            arrays = self._taken_out(slot, number, places)
        return kind, pickle.loads(header, buffers=arrays), extra

    def _taken_out(self, slot: buffers.Lent, number: int, places: list) -> list[Any]:
        views = [_view(slot, *place) for place in places]
        size = sum([view.nbytes for view in views])
        if size < _COPIED or sum([lent.is_lent for lent in self._slots.values()]) >= self.MOST_LENT:
            self.freed.append(number)
            return [_copied(view) for view in views]
        return slot.lend([(offset, _dtype(dtype), shape) for offset, dtype, shape in places])

    def _slot(self, number: int, capacity: int, is_new: bool) -> buffers.Lent:
        if is_new:
            descriptor = _received_descriptor(self.connection)
            try:
                slot = buffers.Lent(descriptor, capacity)
            finally:
                os.close(descriptor)
            slot.returned = _Return(self, number)
            self._slots[number] = slot
        return self._slots[number]

    def keep_from_reuse(self) -> None:
        """Before the program forks: what is lent now would be seen in the child, too, so the worker must not write there again."""
        for number, slot in list(self._slots.items()):
            if slot.is_lent:
                slot.returned = None
                del self._slots[number]
                self.dropped.append(number)

    def returned_slots(self) -> tuple[list[int], list[int]]:
        """Numbers for the worker to use again, and to forget, each told once."""
        return _emptied(self.freed), _emptied(self.dropped)

    def close(self) -> None:
        """Closes the pipe and lets go of the slots; those that are lent live on in the program's tensors."""
        self.connection.close()
        for slot in self._slots.values():
            slot.returned = None
        self._slots.clear()


class _Return:
    """What a slot does when the last tensor in it is gone; it may be called in any thread, in the middle of anything."""

    __slots__ = ("_number", "_receiver")

    def __init__(self, receiver: BatchReceiver, number: int) -> None:
        self._receiver = weakref.ref(receiver)
        self._number = number

    def __call__(self) -> None:
        receiver = self._receiver()
        if receiver is not None:
            receiver.freed.append(self._number)


def _send_descriptor(connection: Connection, descriptor: int) -> None:
    """As multiprocessing does it, but without the answer it waits for: a thread of the worker reads what comes the other way."""
    with _socket_of(connection) as pipe:
        socket.send_fds(pipe, [b"."], [descriptor])


def _received_descriptor(connection: Connection) -> int:
    with _socket_of(connection) as pipe:
        content, descriptors, *_ = socket.recv_fds(pipe, 1, 1)
    if descriptors:
        return descriptors[0]
    if not content:
        raise EOFError
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def _socket_of(connection: Connection) -> socket.socket:
    pipe = socket.socket(fileno=os.dup(connection.fileno()))
    pipe.settimeout(None)
    return pipe


def wait_for(connection: Connection, *others: int) -> Callable[[float], bool]:
    """A function that waits some seconds and says whether the connection can be read. It comes back early for `others`, too."""
    if not hasattr(select, "poll"):
        return connection.poll
    poll, own = select.poll(), connection.fileno()
    for descriptor in (own, *others):
        poll.register(descriptor, select.POLLIN)
    return lambda seconds: any([descriptor == own for descriptor, _ in poll.poll(seconds * 1000)])


_has_warned = False


def _warn_about_memory(why: str) -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            f"DataLoader: there is no shared memory for batches ({why}), so they go through pipes, which is slower. Make room in "
            f"/dev/shm (docker run --shm-size=1g) or raise the limit on open files (ulimit -n).",
            stacklevel=user_level(),
        )


class _Pickler(pickle.Pickler):
    """Puts the memory of arrays aside, in the order in which they are met."""

    def __init__(self, file: io.BytesIO) -> None:
        self.arrays: list = []
        super().__init__(file, 5, buffer_callback=self._is_in_band)

    def reducer_override(self, value: Any) -> Any:
        if type(value) is numpy.ndarray:
            return self._array(value)
        return _tensor(value) if isinstance(value, Tensor) else NotImplemented

    def _array(self, array: Any) -> Any:
        if array.dtype.hasobject:
            return array.__reduce_ex__(5)
        self.arrays.append(array)
        return _itself, (_PLACE,)

    @staticmethod
    def _is_in_band(buffer: pickle.PickleBuffer) -> bool:
        return buffer is not _PLACE


def _tensor(tensor: Tensor) -> Any:
    """As `pickle` would, but what has a history is refused, and a plain tensor is little more than its array."""
    if not tensor.is_leaf:
        raise GradientError(
            f"DataLoader: a tensor with a history cannot leave a worker (shape {tuple(tensor.shape)}, grad_fn={tensor.grad_fn!r}): only "
            f"leaf tensors can be pickled, for a gradient does not cross processes. Return tensor.detach()."
        )
    if type(tensor) is not Tensor or tensor.requires_grad or type(tensor.array) is not numpy.ndarray or tensor.__dict__:
        return NotImplemented
    return wrap, (tensor.array,)


def _itself(array: Any) -> Any:
    return array


def _told(places: list[tuple]) -> list[tuple]:
    """The places as `marshal` takes them: common dtypes by name, others pickled."""
    return [
        (offset, dtype.str if dtype.isbuiltin == 1 else pickle.dumps(dtype), shape) for offset, dtype, shape in places
    ]


@functools.lru_cache(256)
def _dtype(told: str | bytes) -> Any:
    return numpy.dtype(told) if isinstance(told, str) else pickle.loads(told)


def _view(memory: Any, offset: int, dtype: str | bytes, shape: tuple) -> Array:
    return numpy.ndarray(shape, _dtype(dtype), memory, offset)


def _copied(view: Any) -> Array:
    copy = buffers.empty(view.shape, view.dtype)
    numpy.copyto(copy, view)
    return copy


def _emptied(numbers: deque[int]) -> list[int]:
    """What is in it, taken out; others may be adding."""
    return [numbers.popleft() for _ in range(len(numbers))]


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _capacity(size: int) -> int:
    """The next power of two: memory that is not written costs nothing, growing does."""
    return max(mmap.PAGESIZE, 1 << (size - 1).bit_length())
