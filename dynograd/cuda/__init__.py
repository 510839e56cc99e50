"""CUDA devices, with PyTorch's names: what there is, what is current, memory, streams, events and graphs.

Nothing of CUDA is loaded before a device is asked for. On a machine without one `is_available()` is False, `unavailable_reason()`
says why, and seeding, waiting and cache calls do nothing, so programs that choose their device with `is_available()` run unchanged.

Streams are ordered queues (`Stream`, `stream`, `Event`), memory comes back for the next tensor of its size and stream
(`memory_stats`, `empty_cache`), and a step that is always the same can be recorded once and replayed (`CUDAGraph`, `graph`).
"""

from __future__ import annotations

from dynograd.base.listing import lists
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.cuda import amp, driver, nccl, nvtx, random
from dynograd.cuda.compatibility import cudart, has_half, has_magma
from dynograd.cuda.driver import get_sync_debug_mode, set_sync_debug_mode
from dynograd.cuda.faults import CudaError
from dynograd.cuda.graphs import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing
from dynograd.cuda.memory import (
    empty_cache,
    host_memory_stats,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_reserved,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from dynograd.cuda.properties import (
    DeviceProperties,
    can_device_access_peer,
    device_count,
    driver_version,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    is_bf16_supported,
    unavailable_reason,
)
from dynograd.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from dynograd.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    device,
    device_of,
    set_device,
    set_stream,
    stream,
    synchronize,
)
from dynograd.cuda.thread_state import current as _current
from dynograd.errors import OutOfMemoryError

__all__ = [
    "CUDAGraph",
    "CudaError",
    "DeviceProperties",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "cudart",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "driver_version",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "has_half",
    "has_magma",
    "host_memory_stats",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "nccl",
    "nvtx",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_reserved",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "synchronize",
    "unavailable_reason",
]
__dir__ = lists(__name__, __all__)


def init() -> None:
    """Makes the current device usable now; otherwise that is done when it is first used.

    Raises:
        DeviceError: no device can be used.

    >>> if dynograd.cuda.is_available():
    ...     dynograd.cuda.init()
    """
    driver.get("init").use(_current.device)


def is_initialized() -> bool:
    """Whether a device has been used in this process.

    Returns:
        True or False.

    >>> dynograd.cuda.is_initialized() <= dynograd.cuda.is_available()
    True
    """
    return driver._driver is not None and bool(driver._driver.opened())


def _is_in_bad_fork() -> bool:
    """Whether this process was forked after its parent had used a GPU: programs that seed everything ask."""
    return driver.is_forked()


def __getattr__(name: str) -> bool:
    if name == "_initialized":  # programs that keep and set back a GPU's generator read it
        return is_initialized()
    raise AttributeError(f"module 'dynograd.cuda' has no attribute {name!r}")


def current_device() -> int:
    """The index of this thread's current device.

    Raises:
        DeviceError: no device can be used.
    Returns:
        An int.

    >>> if dynograd.cuda.is_available():
    ...     index = dynograd.cuda.current_device()
    """
    driver.get("current_device")
    return _current.device


def ipc_collect() -> None:
    """Nothing to collect: device memory is not shared between processes.

    >>> dynograd.cuda.ipc_collect()
    """


_show_plainly(globals())
