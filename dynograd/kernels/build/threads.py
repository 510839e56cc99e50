"""How many threads kernels use. One pool serves everything: compiled kernels, and the matrix products inside them.

A kernel is cut into parts by the size of its work, never by timing, so that the same program gives the same bits. Forked
processes compute serially: GNU OpenMP ends a forked child that starts its threads again.
"""

from __future__ import annotations

import os

# Starting the pool costs about 5 us; so many simple elements (an addition, a copy) are worth a thread of their own.
GRAIN = 1 << 15

_serial = False


def get_num_threads() -> int:
    """The number of threads that one operation may use.

    Returns:
        An int.

    >>> dynograd.get_num_threads() >= 1
    True
    """
    return 1 if _serial else _threads


def set_num_threads(num_threads: int) -> None:
    """Lets one operation use up to `num_threads` threads; 1 computes everything in the calling thread.

    Several Python threads may each run operations, and each operation then uses so many threads. Results depend on the number
    only where a sum is taken in parts.

    Args:
        num_threads: 1 or more.
    Raises:
        TypeError: not an int.
        RuntimeError: below 1.

    >>> threads = dynograd.get_num_threads()
    >>> dynograd.set_num_threads(1)
    >>> dynograd.get_num_threads()
    1
    >>> dynograd.set_num_threads(threads)
    """
    global _threads
    if isinstance(num_threads, bool) or not isinstance(num_threads, int):
        raise TypeError(f"set_num_threads: expected an int, got {type(num_threads).__name__} {num_threads!r}.")
    if num_threads < 1:
        raise RuntimeError(f"set_num_threads: expected a positive number of threads, got {num_threads}.")
    _threads = num_threads


def get_num_interop_threads() -> int:
    """1: operations are not run beside each other unless the program has threads of its own.

    Returns:
        1.

    >>> dynograd.get_num_interop_threads()
    1
    """
    return 1


def set_num_interop_threads(num_threads: int) -> None:
    """Accepted for programs written for PyTorch; see `get_num_interop_threads`.

    Args:
        num_threads: not used.

    >>> dynograd.set_num_interop_threads(4)
    """


def parts(work: int, grain: int = GRAIN) -> int:
    """In how many parts to cut so much work: one for each thread, 1 where starting the pool would not pay."""
    if work < 2 * grain or _serial:
        return 1
    count = work // grain
    return count if count < _threads else _threads


def serial_from_now_on() -> None:
    """This process computes in the calling thread only, whatever was set."""
    global _serial
    _serial = True


def _default_threads() -> int:
    """As many as OMP_NUM_THREADS says, or as the process may use processors."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if first.isdigit() and int(first) > 0:
        return int(first)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_threads = _default_threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=serial_from_now_on)
