"""Memory of large results, kept when they die and given to the next: fresh pages cost more than the arithmetic on them.

`empty(shape, dtype)` is `numpy.empty` below `SMALLEST`; above, it is an array over a kept buffer of its size class (eight to a
doubling) or of one up to `SPARE` times as large, else over a new one. A buffer comes back when the last view of it is gone. At
most `limit()` bytes lie unused; the buffer that was unused longest goes first.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
from typing import Any

import numpy

from dynograd.errors import OutOfMemoryError

__all__ = ["Lease", "empty", "empty_like", "is_leased", "limit", "release", "set_limit", "statistics", "zeros"]

SMALLEST = 1 << 18
HUGE_PAGE = 1 << 21
SPARE = 1.5
_DEFAULT_LIMIT = 1 << 30

_ndarray = numpy.ndarray
_new = numpy.ndarray.__new__
_bytes = numpy.dtype(numpy.uint8)


class Lease(numpy.ndarray):
    """The owner that NumPy sees of a buffer: its death gives the buffer back."""

    __slots__ = ()

    def __del__(self) -> None:
        # The names are gone when the interpreter ends; the buffer then goes with the process.
        if _give_back is not None:
            _give_back(self.base)


def empty(shape: Any, dtype: Any) -> Any:
    """A new row-major array with any contents."""
    dtype = numpy.dtype(dtype)
    count = 1
    for size in shape:
        count *= size
    nbytes = count * dtype.itemsize
    if nbytes < SMALLEST:
        return numpy.empty(shape, dtype)
    buffer = _take(nbytes)
    return _ndarray(shape, dtype, _new(Lease, nbytes, _bytes, buffer))


def empty_like(array: Any) -> Any:
    """A new row-major array with `array`'s shape and dtype."""
    if array.nbytes < SMALLEST:
        return numpy.empty(array.shape, array.dtype)
    return empty(array.shape, array.dtype)


def zeros(shape: Any, dtype: Any) -> Any:
    """A new row-major array of zeros."""
    made = empty(shape, dtype)
    made.fill(0)
    return made


def is_leased(array: Any) -> bool:
    """Whether the array covers a kept buffer directly, so that it is as good as the owner of its memory."""
    return type(array.base) is Lease


def limit() -> int:
    """How many bytes may lie unused."""
    return _limit


def set_limit(nbytes: int) -> None:
    """Keeps at most so many unused bytes from now on; 0 keeps none.

    Raises:
        ValueError: below 0.
    """
    global _limit
    if nbytes < 0:
        raise ValueError(f"set_limit: expected 0 or more bytes, got {nbytes}.")
    _limit = int(nbytes)
    with _lock:
        _trim(_limit)


def release() -> int:
    """Gives all unused memory back to the system; how many bytes that was."""
    with _lock:
        freed = _unused
        _trim(0)
    return freed


def statistics() -> dict[str, int]:
    """Bytes `in_use` and `unused` now, the `peak` in use, and how many results found a kept buffer (`hits`) or not (`misses`)."""
    return {"in_use": _in_use, "unused": _unused, "peak": _peak, "hits": _hits, "misses": _misses, "limit": _limit}


def reset_peak() -> None:
    """Counts `peak` from what is in use now."""
    global _peak
    _peak = _in_use


# --- buffers by size class ---------------------------------------------------------------------------------------------------

_lock = threading.RLock()  # a finalizer may run inside `_take`
_free: dict[int, list[Any]] = {}  # size class -> buffers, the last used last
_order: dict[int, int] = {}  # id of an unused buffer -> when it came back
_clock = _in_use = _unused = _peak = _hits = _misses = 0
_limit = _DEFAULT_LIMIT


def _renew_lock() -> None:
    """In a forked child: no thread of the parent holds it there."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def _size_class(nbytes: int) -> int:
    """`nbytes` rounded up to one of eight steps of a doubling, in whole pages."""
    step = 1 << max(nbytes.bit_length() - 4, 12)
    return (nbytes + step - 1) // step * step


def _take(nbytes: int) -> Any:
    global _in_use, _unused, _peak, _hits, _misses
    size = _size_class(nbytes)
    with _lock:
        kept = _free.get(size)
        if not kept and _unused >= size:
            size, kept = _roomier(size)
        if kept:
            buffer = kept.pop()
            del _order[id(buffer)]
            _unused -= size
            _hits += 1
        else:
            buffer = _map(size)
            _misses += 1
        _in_use += size
        if _in_use > _peak:
            _peak = _in_use
    return buffer


def _roomier(size: int) -> tuple[int, list[Any] | None]:
    """The next larger size class that has an unused buffer, if it is not much larger."""
    fitting = [other for other, kept in _free.items() if kept and size < other <= size * SPARE]
    return (min(fitting), _free[min(fitting)]) if fitting else (size, None)


def _give_back(buffer: Any) -> None:
    global _in_use, _unused, _clock
    size = len(buffer)
    with _lock:
        _in_use -= size
        if size > _limit:
            return
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
        size = min((size for size, kept in _free.items() if kept), key=lambda size: _order[id(_free[size][0])])
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
    made = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system without huge pages
            made.madvise(mmap.MADV_HUGEPAGE)
    return made
