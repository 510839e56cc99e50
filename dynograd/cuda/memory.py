"""Questions about device memory, with PyTorch's names: `dynograd.cuda.memory_allocated()` and its kin."""

from __future__ import annotations

from typing import Any

from dynograd.base.hints import DeviceLike
from dynograd.cuda import allocator, copies, driver, graphs, pinned, streams
from dynograd.cuda.thread_state import current
from dynograd.errors import DeviceError

__all__ = [
    "empty_cache",
    "host_memory_stats",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_reserved",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def _counts(who: str, device: Any) -> allocator.Counts:
    if driver.known() is None:
        return allocator.Counts()
    return allocator.memory_of(streams.index_of(who, device)).counts


def empty_cache() -> None:
    """Gives the idle memory of all devices back to the system, and idle pinned memory; without a device there is none.

    >>> dynograd.cuda.empty_cache()
    """
    if driver.known() is None:
        return
    if current.captured_device < 0:
        graphs.release_dead()
        copies.release()
    for forget in allocator.forgetters:
        forget()
    for index in driver.get("empty_cache").opened():
        allocator.empty_cache(index)
    pinned.empty_cache()


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes of the device's memory in living tensors, rounded up block by block. 0 without a device.

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Returns:
        An int.

    >>> dynograd.cuda.memory_allocated() >= 0
    True
    """
    return _counts("memory_allocated", device).used


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most that `memory_allocated` has been since `reset_peak_memory_stats`.

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Returns:
        An int.

    >>> dynograd.cuda.max_memory_allocated() >= dynograd.cuda.memory_allocated()
    True
    """
    return _counts("max_memory_allocated", device).used_peak


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes taken from the driver: those in tensors, and those that lie idle for the next ones.

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Returns:
        An int.

    >>> dynograd.cuda.memory_reserved() >= dynograd.cuda.memory_allocated()
    True
    """
    return _counts("memory_reserved", device).held


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The most that `memory_reserved` has been since `reset_peak_memory_stats`.

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Returns:
        An int.

    >>> dynograd.cuda.max_memory_reserved() >= dynograd.cuda.memory_reserved()
    True
    """
    return _counts("max_memory_reserved", device).held_peak


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Starts the peaks anew; without a device they are 0 already.

    Args:
        device: a CUDA device, its index or name; None is the current one.

    >>> dynograd.cuda.reset_peak_memory_stats()
    """
    counts = _counts("reset_peak_memory_stats", device)
    counts.used_peak, counts.held_peak = counts.used, counts.held


reset_max_memory_allocated = reset_max_memory_reserved = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Starts the numbers of requests, misses and failures anew.

    Args:
        device: a CUDA device, its index or name; None is the current one.

    >>> dynograd.cuda.reset_accumulated_memory_stats()
    """
    counts = _counts("reset_accumulated_memory_stats", device)
    counts.requests = counts.misses = counts.failures = 0


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """Numbers about the device's memory; PyTorch's keys where it has them.

    `requests.all` counts allocations, `num_device_alloc` those that had to ask the driver, `num_ooms` those that failed.

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Returns:
        A dict of ints.

    >>> dynograd.cuda.memory_stats()["num_ooms"]
    0
    """
    counts = _counts("memory_stats", device)
    return {
        "allocated_bytes.all.current": counts.used,
        "allocated_bytes.all.peak": counts.used_peak,
        "reserved_bytes.all.current": counts.held,
        "reserved_bytes.all.peak": counts.held_peak,
        "inactive_bytes.all.current": counts.held - counts.used,
        "requests.all": counts.requests,
        "requests.hits": counts.requests - min(counts.misses, counts.requests),
        "num_device_alloc": counts.misses,
        "num_ooms": counts.failures,
    }


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """`memory_stats` as a table for people.

    Args:
        device: a CUDA device, its index or name; None is the current one.
        abbreviated: kept for compatibility.
    Returns:
        A text.

    >>> isinstance(dynograd.cuda.memory_summary(), str)
    True
    """
    stats = memory_stats(device)
    index = 0 if driver.known() is None else streams.index_of("memory_summary", device)
    rows = [f"memory of cuda:{index}"]
    rows += [f"  {name:<30} {_shown(name, value):>16}" for name, value in stats.items()]
    rows += [
        f"  {'pinned host bytes, ' + name:<30} {_shown('bytes', n):>16}" for name, n in pinned.statistics().items()
    ]
    return "\n".join(rows)


def _shown(name: str, value: int) -> str:
    return allocator._amount(value) if "bytes" in name else f"{value:,}"


def host_memory_stats() -> dict[str, int]:
    """Bytes of pinned host memory: held, and of these idle.

    Returns:
        A dict of ints.

    >>> [nbytes >= 0 for nbytes in dynograd.cuda.host_memory_stats().values()]
    [True, True]
    """
    return pinned.statistics()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of the device, as the driver sees them: other processes count too.

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Returns:
        Two ints.
    Raises:
        DeviceError: no device can be used.

    >>> if dynograd.cuda.is_available():
    ...     free, total = dynograd.cuda.mem_get_info()
    """
    used = driver.get("mem_get_info")
    return used.memory_info(streams.index_of("mem_get_info", device))


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Limits what this process takes from the device's memory; what goes beyond is an OutOfMemoryError.

    Args:
        fraction: of the device's memory, 0 to 1.
        device: a CUDA device, its index or name; None is the current one.
    Raises:
        ValueError: `fraction` is not between 0 and 1.

    >>> if dynograd.cuda.is_available():
    ...     dynograd.cuda.set_per_process_memory_fraction(0.9)
    """
    if not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
        raise ValueError(f"set_per_process_memory_fraction: expected a fraction from 0 to 1, got {fraction!r}.")
    used = driver.get("set_per_process_memory_fraction")
    index = streams.index_of("set_per_process_memory_fraction", device)
    allocator.set_limit(index, None if fraction == 1 else int(used.total_memory(index) * fraction))


def caching_allocator_alloc(size: int, device: DeviceLike = None, stream: Any = None) -> Any:
    raise DeviceError(
        "caching_allocator_alloc: not supported. Keep a tensor: dynograd.empty(size, dtype=uint8, device='cuda')."
    )
