"""The BLAS library that NumPy has loaded: its C functions and its number of threads.

Matrix products of any size run in parts in our own pool, each part in one thread of BLAS: two pools on the same processors cost
up to 16 times the time. The library's own number of threads is set to 1 while such a kernel runs, and is the user's otherwise.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from typing import Any

import numpy

# Prefix and suffix of the C functions, and whether their integers have 64 bits.
_SPELLINGS = (("scipy_", "64_", True), ("scipy_", "", False), ("", "64_", True), ("", "", False))


class Library:
    """A loaded BLAS: `symbol("cblas_sgemm")` is its exported name, `path` its file."""

    def __init__(self, path: str, prefix: str, suffix: str, long: bool) -> None:
        self.path, self.prefix, self.suffix, self.long = path, prefix, suffix, long
        handle = ctypes.PyDLL(path)
        self.get_threads: Any = getattr(handle, f"{prefix}openblas_get_num_threads{suffix}", None)
        self.set_threads: Any = getattr(handle, f"{prefix}openblas_set_num_threads{suffix}", None)
        try:
            self.count: Any = ctypes.c_int.in_dll(handle, "blas_cpu_number")
        except ValueError:
            self.count = None

    def symbol(self, name: str) -> str:
        return f"{self.prefix}{name}{self.suffix}"


_found: list[Library | None] = []


def library() -> Library | None:
    """NumPy's BLAS, where its C functions can be called; None where they cannot (our own loops then compute)."""
    if not _found:
        _found.append(_find())
    return _found[0]


def spelling() -> str:
    """What machine code that calls the library depends on."""
    known = library()
    return "no blas" if known is None else f"{known.symbol('cblas')} {known.long}"


def set_threads_of_process(count: int) -> None:
    """The library's own number of threads, for processes that compute in one thread.

    In a forked process its function would first start all threads anew, and those spin for a tenth of a second; so the number
    that it keeps is lowered directly where that is what it seems to be.
    """
    known = library()
    if known is None or known.set_threads is None:
        return
    if known.count is not None and known.count.value == known.get_threads() >= count:
        known.count.value = count
    else:
        known.set_threads(count)


class _OneThread:
    """While somebody is inside, the library computes in the calling thread; its number of threads is put back by the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 1

    def __enter__(self) -> None:
        known = library()
        if known is None or known.set_threads is None:
            return
        with self._lock:
            if not self._inside:
                self._before = known.get_threads()
                if self._before != 1:
                    known.set_threads(1)
            self._inside += 1

    def __exit__(self, *failure: Any) -> None:
        known = library()
        if known is None or known.set_threads is None:
            return
        with self._lock:
            self._inside -= 1
            if not self._inside and self._before != 1:
                known.set_threads(self._before)

    def forget(self) -> None:
        """In a forked child: whoever was inside is not there."""
        self._lock = threading.Lock()
        self._inside = 0


one_thread = _OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_thread.forget)


def _find() -> Library | None:
    for path in _candidates():
        try:
            handle = ctypes.CDLL(path)
        except OSError:
            continue
        for prefix, suffix, long in _SPELLINGS:
            if hasattr(handle, f"{prefix}cblas_sgemm{suffix}"):
                return Library(path, prefix, suffix, long)
    return None


def _candidates() -> list[str]:
    """Files of BLAS libraries: those in NumPy's wheel, then those this process has mapped."""
    around = os.path.dirname(numpy.__file__)
    libraries = []
    for folder in (os.path.join(around, os.pardir, "numpy.libs"), os.path.join(around, ".dylibs")):
        with contextlib.suppress(OSError):
            libraries += [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if "openblas" in name]
    if sys.platform == "linux":
        with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
            mapped = {line.split()[-1] for line in maps if "/" in line}
        libraries += sorted(path for path in mapped if "blas" in os.path.basename(path).lower())
    return libraries
