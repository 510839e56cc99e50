"""Memory of large results, kept when they die and given to the next: fresh pages cost more than the arithmetic on them.

`empty(shape, dtype)` is `numpy.empty` below `SMALLEST`; above, it is an array over a kept buffer of its size class (eight to a
doubling) or of one up to `SPARE` times as large, else over a new one. A buffer comes back when the last view of it is gone.

Never more is kept than a program has needed at its peak, and a quarter: before new memory is taken beyond that, what lay unused
longest goes back to the system. And at most `limit()` bytes lie unused. `dynograd.memory` is the user's side of this.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import mmap
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.errors import OutOfMemoryError

__all__ = [
    "FEW",
    "Lease",
    "Lent",
    "available",
    "discard",
    "empty",
    "empty_like",
    "is_leased",
    "limit",
    "new_empty",
    "new_zeros",
    "offering",
    "of_sizes",
    "release",
    "reset_peak",
    "set_limit",
    "statistics",
    "zeros",
]

SMALLEST = 1 << 18
HUGE_PAGE = 1 << 21
SPARE = 1.5
ROOM = 1 << 25

_ndarray = numpy.ndarray
new_empty, new_zeros = numpy.empty, numpy.zeros
_new = numpy.ndarray.__new__
_bytes = numpy.dtype(numpy.uint8)


class Lease(numpy.ndarray):
    """The owner that NumPy sees of a buffer: its death gives the buffer back."""

    __slots__ = ()

    def __del__(self) -> None:
        # The names are gone when the interpreter ends; the buffer then goes with the process. A view or copy has no buffer to give.
        base = self.base
        if _give_back is not None and type(base) is mmap.mmap:
            _give_back(base)
        elif type(base) is Lent:
            base.take_back()


class Lent(mmap.mmap):
    """Somebody else's memory, lent in pieces. When the last piece is gone, `returned` is called, in whatever thread that happens."""

    def __init__(self, *file: Any, **options: Any) -> None:
        self.is_lent = False
        self.returned: Callable[[], None] | None = None

    def lend(self, pieces: list[tuple[int, Any, tuple]]) -> list[Any]:
        """Arrays over the (offset, dtype, shape) given. Not to be called again before they have come back."""
        self.is_lent = True
        self._count, self._gone = len(pieces), itertools.count(1)
        lent = []
        for offset, dtype, shape in pieces:
            piece = _new(Lease, math.prod(shape) * dtype.itemsize, _bytes, self, offset)
            lent.append(_ndarray(shape, dtype, piece))
        return lent

    def take_back(self) -> None:
        """A piece is gone."""
        if next(self._gone) == self._count:  # without a lock: a finalizer may run in the middle of anything
            self.is_lent = False
            if self.returned is not None:
                self.returned()


def empty(shape: Any, dtype: Any) -> Any:
    """A new row-major array with any contents."""
    dtype = numpy.dtype(dtype)
    count = 1
    for size in shape:
        count *= size
    nbytes = count * dtype.itemsize
    if nbytes < SMALLEST:
        return numpy.empty(shape, dtype)
    if _offers:
        offered = _taken_of_offer(tuple(shape), dtype)
        if offered is not None:
            return offered
    buffer = _take(nbytes)
    return _ndarray(shape, dtype, _new(Lease, nbytes, _bytes, buffer))


_offers: dict[int, list[Any]] = {}  # by thread


class offering:
    """Inside, on this thread, `empty` gives these arrays, once each, where it is asked for one of their shape and dtype.

    So a function that makes its result computes it where somebody wants it; whether it has done so its result says.
    """

    def __init__(self, offered: list[Any]) -> None:
        self.offered = [array for array in offered if array.nbytes >= SMALLEST and array.flags.carray]

    def __enter__(self) -> None:
        if self.offered:
            _offers[threading.get_ident()] = self.offered

    def __exit__(self, *error: Any) -> None:
        if self.offered or _offers:
            _offers.pop(threading.get_ident(), None)


def _taken_of_offer(shape: tuple[int, ...], dtype: Any) -> Any:
    offered = _offers.get(threading.get_ident(), [])
    for place, array in enumerate(offered):
        if array.shape == shape and array.dtype == dtype:
            return offered.pop(place)
    return None


def of_sizes(make: Callable[..., Any], size: Any, dtype: Any, value: Any = None) -> Any:
    """A small array by `make(shape, dtype)` (NumPy's), filled with `value`, for sizes as users give them: `f(2, 3)`, `f((2, 3))`.

    None where NumPy refuses them, or the result would be large: the caller's general way says what is wrong.
    """
    if len(size) == 1 and type(size[0]) is not int:
        (size,) = size
        if not isinstance(size, (tuple, list)):
            return None
    try:
        if math.prod(size) > FEW:
            return None
        array = make(size, dtype)
        if value is not None:
            if type(value) is not complex and not -65504.0 <= value <= 65504.0 and is_too_large(value, dtype.itemsize):
                return None
            array.fill(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return array


FEW = SMALLEST // 16  # elements


def is_too_large(value: float, itemsize: int) -> bool:
    """Whether a finite number may be more than numbers of this size hold."""
    return itemsize < 8 and value - value == 0 and (itemsize < 4 or not -3.4e38 <= value <= 3.4e38)


def empty_like(array: Any) -> Any:
    """A new row-major array with `array`'s shape and dtype."""
    if array.nbytes < SMALLEST:
        return numpy.empty(array.shape, array.dtype)
    return empty(array.shape, array.dtype)


def zeros(shape: Any, dtype: Any) -> Any:
    """A new row-major array of zeros."""
    array = empty(shape, dtype)
    array.fill(0)
    return array


def is_leased(array: Any) -> bool:
    """Whether the array covers a kept buffer directly, so that it is as good as the owner of its memory."""
    return type(array.base) is Lease


def discard(array: Any) -> None:
    """Nobody needs what an array in one piece holds: whole pages of it go to the system, until somebody writes there.

    Nothing happens where its memory is no buffer's, or the system knows no such thing.
    """
    owner = array
    while owner is not None and type(owner) is not Lease:
        owner = getattr(owner, "base", None)
    if owner is None or type(owner.base) is not mmap.mmap or not hasattr(mmap, "MADV_DONTNEED"):
        return
    first = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    start, stop = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE, (first + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if start < stop:
        owner.base.madvise(mmap.MADV_DONTNEED, start, stop - start)


def limit() -> int:
    """How many bytes of freed large arrays may be kept for the next ones.

    Returns:
        An int.

    >>> dynograd.memory.limit() >= 0
    True
    """
    return _limit


def set_limit(nbytes: int) -> None:
    """Keeps at most so many unused bytes from now on; 0 keeps none.

    Args:
        nbytes: 0 or more.
    Raises:
        ValueError: below 0.

    >>> before = dynograd.memory.limit()
    >>> dynograd.memory.set_limit(64 * 2**20)
    >>> dynograd.memory.limit()
    67108864
    >>> dynograd.memory.set_limit(before)
    """
    global _limit
    if nbytes < 0:
        raise ValueError(f"set_limit: expected 0 or more bytes, got {nbytes}.")
    with _lock:
        _limit = int(nbytes)
        _tidy(_limit)


def release() -> int:
    """Gives all unused memory back to the system.

    Returns:
        How many bytes that was.

    >>> dynograd.memory.release() >= 0
    True
    """
    global _high
    with _lock:
        _tidy()
        freed = _unused
        _tidy(0)
        _high = _in_use
    return freed - _unused


def statistics() -> dict[str, int]:
    """How much memory large arrays have now, and how well it is used again. Arrays below 256 KiB are not counted.

    Returns:
        A dict: bytes `in_use` and kept `unused` now, the `peak` in use, how many arrays got a kept buffer (`hits`) or not (`misses`),
        and the `limit`.

    >>> x = dynograd.zeros(1000, 1000)
    >>> dynograd.memory.statistics()["in_use"] >= x.nbytes
    True
    """
    with _lock:
        _tidy()
    return {"in_use": _in_use, "unused": _unused, "peak": _peak, "hits": _hits, "misses": _misses, "limit": _limit}


def reset_peak() -> None:
    """Counts `peak` from what is in use now.

    >>> dynograd.memory.reset_peak()
    >>> s = dynograd.memory.statistics()
    >>> s["peak"] == s["in_use"]
    True
    """
    global _peak
    _peak = _in_use


# --- buffers by size class ---------------------------------------------------------------------------------------------------

_lock = threading.RLock()
_busy = False  # the thread that has the lock is at work here: a finalizer that calls in the middle of it leaves everything alone
_returned: deque[Any] = (
    deque()
)  # by finalizers, which may run in the middle of anything here: they never wait for the lock
_free: dict[int, list[Any]] = {}  # size class -> buffers, the last used last
_order: dict[int, int] = {}  # id of an unused buffer -> when it came back
_clock = _in_use = _unused = _peak = _high = _hits = _misses = 0


def _renew_lock() -> None:
    """In a forked child: no thread of the parent is at work there."""
    global _lock, _busy
    _lock, _busy = threading.RLock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def _size_class(nbytes: int) -> int:
    """`nbytes` rounded up to one of eight steps of a doubling, in whole pages."""
    step = 1 << max(nbytes.bit_length() - 4, 12)
    return (nbytes + step - 1) // step * step


def _take(nbytes: int) -> Any:
    global _busy, _in_use, _unused, _peak, _high, _hits, _misses
    size = _size_class(nbytes)
    with _lock:
        if _busy:
            _in_use += size
            return _mapped(size)
        _busy = True
        try:
            if _returned:
                _collect()
            kept = _free.get(size)
            if not kept and _unused >= size:
                size, kept = _roomier(size)
            if kept:
                buffer = kept.pop()
                del _order[id(buffer)]
                _unused -= size
                _hits += 1
            else:
                needed = max(_high, _in_use + size)
                _trim(max(needed + needed // 4 + ROOM - _in_use - size, 0))
                buffer = _map(size)
                _misses += 1
            _in_use += size
            if _in_use > _peak:
                _peak = _in_use
            if _in_use > _high:
                _high = _in_use
        finally:
            _busy = False
    return buffer


def _roomier(size: int) -> tuple[int, list[Any] | None]:
    """The next larger size class that has an unused buffer, if it is not much larger."""
    fitting = [other for other, kept in _free.items() if kept and size < other <= size * SPARE]
    return (min(fitting), _free[min(fitting)]) if fitting else (size, None)


def _give_back(buffer: Any) -> None:
    _returned.append(buffer)
    if _lock.acquire(False):  # else whoever has it, or comes next, will see
        try:
            _tidy()
        finally:
            _lock.release()


def _tidy(most: int | None = None) -> None:
    """Sorts in what has come back, and keeps `most` unused bytes; with the lock held."""
    global _busy
    if not _busy:
        _busy = True
        try:
            _collect()
            if most is not None:
                _trim(most)
        finally:
            _busy = False


def _collect() -> None:
    global _in_use, _unused, _clock
    while _returned:
        buffer = _returned.popleft()
        size = len(buffer)
        _in_use -= size
        if size > _limit:
            continue
        _clock += 1
        _order[id(buffer)] = _clock
        _free.setdefault(size, []).append(buffer)
        _unused += size
        if _unused > _limit:
            _trim(_limit)


def _trim(most: int) -> None:
    """Drops the buffers unused longest until `most` bytes are left."""
    global _unused
    while _unused > most:
        sizes = [size for size, kept in _free.items() if kept]
        if not sizes:  # an interrupt came between a buffer and its count
            _unused = 0
            return
        size = min(sizes, key=lambda size: _order[id(_free[size][0])])
        buffer = _free[size].pop(0)
        del _order[id(buffer)]
        _unused -= size


def _map(size: int) -> Any:
    """New memory from the system, in huge pages where it has them; after giving back what lies unused, if need be."""
    try:
        return _mapped(size)
    except (OSError, MemoryError, OverflowError):
        _trim(0)
    try:
        return _mapped(size)
    except (OSError, MemoryError, OverflowError) as error:
        raise OutOfMemoryError(
            f"no memory for a result of {size:,} bytes: {_in_use:,} bytes of large arrays are in use ({error}). "
            f"Make batches smaller, or free tensors that are not needed (del, no_grad)."
        ) from None


def _mapped(size: int) -> Any:
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _default_limit() -> int:
    """A quarter of the memory that the process may use, 1 GiB where that cannot be told."""
    sizes = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            sizes.append(int(file.read()))
    return max(min(sizes) // 4, 1 << 26) if sizes else 1 << 30


def available() -> int | None:
    """How many bytes the process may still have before the system is out of memory, or its group at its limit; None where that cannot be told."""
    sizes = []
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/meminfo") as file:
        sizes.append(1024 * next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:")))
    with contextlib.suppress(OSError, ValueError, StopIteration):
        group = "/sys/fs/cgroup/memory."
        with open(group + "max") as most, open(group + "current") as now, open(group + "stat") as parts:
            cached = next(int(line.split()[1]) for line in parts if line.startswith("inactive_file "))
            sizes.append(int(most.read()) - int(now.read()) + cached)
    return min(sizes) if sizes else None


_limit = _default_limit()


def in_shape(array: Any, shape: tuple[int, ...]) -> Any:
    """A new array that nobody else has, in another shape: still the owner of its memory, where `reshape` gives a view.

    The backward pass takes an owner for `.grad` as it is, and copies a view.
    """
    if array.shape == shape:
        return array
    if array.base is not None:
        return array.reshape(shape) if not is_leased(array) else numpy.ndarray(shape, array.dtype, array.base)
    array.resize(shape, refcheck=False)
    return array
