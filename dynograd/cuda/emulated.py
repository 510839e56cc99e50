"""A driver without a GPU: device memory is host memory, streams run at once, kernels run in their interpreters.

`DYNOGRAD_CUDA=emulated` (or `emulated:2` for two devices) chooses it. Everything above the driver is the code that runs on a
GPU: arrays, allocator, launches. Kernels then step through `print` and pdb; they are about a thousand times slower.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

__all__ = ["EmulatedDriver"]

_TOTAL = 1 << 34


class EmulatedDriver:
    """What `cuda.driver` asks of a driver; see there for the meaning of each method."""

    emulated = True

    def __init__(self, count: int = 1) -> None:
        self._count = count
        self._memory: dict[int, Any] = {}
        self._used = [0] * count
        self._next_handle = 1

    def count(self) -> int:
        return self._count

    def name(self, device: int) -> str:
        return "dynograd emulated device"

    def capability(self, device: int) -> tuple[int, int]:
        return (9, 0)

    def memory_info(self, device: int) -> tuple[int, int]:
        """(free, total) bytes."""
        return _TOTAL - self._used[device], _TOTAL

    def attribute(self, device: int, name: str) -> int:
        return {"multiprocessor_count": 4, "max_shared_memory_per_block_optin": 232448}[name]

    # --- memory ---------------------------------------------------------------------------------------------------------

    def allocate(self, device: int, nbytes: int, stream: int) -> int:
        """The address of new memory, or 0 where there is none left."""
        if self._used[device] + nbytes > _TOTAL:
            return 0
        buffer = ctypes.create_string_buffer(nbytes + 512)
        pointer = (ctypes.addressof(buffer) + 511) // 512 * 512
        self._memory[pointer] = (buffer, device, nbytes)
        self._used[device] += nbytes
        return pointer

    def free(self, device: int, pointer: int, stream: int) -> None:
        _, device, nbytes = self._memory.pop(pointer)
        self._used[device] -= nbytes

    def allocate_pinned(self, nbytes: int) -> int:
        buffer = ctypes.create_string_buffer(nbytes)
        self._memory[ctypes.addressof(buffer)] = (buffer, 0, 0)
        return ctypes.addressof(buffer)

    def free_pinned(self, pointer: int) -> None:
        self._memory.pop(pointer)

    def copy_to_device(self, target: int, source: int, nbytes: int, stream: int) -> None:
        ctypes.memmove(target, source, nbytes)

    copy_to_host = copy_within = copy_to_device

    def copy_peer(self, target: int, to: int, source: int, of: int, nbytes: int, stream: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def fill_bytes(self, target: int, value: int, nbytes: int, stream: int) -> None:
        ctypes.memset(target, value, nbytes)

    # --- streams and events ---------------------------------------------------------------------------------------------

    def _handle(self) -> int:
        self._next_handle += 1
        return self._next_handle

    def create_stream(self, device: int, priority: int) -> int:
        return self._handle()

    def destroy_stream(self, device: int, stream: int) -> None: ...

    def synchronize_stream(self, device: int, stream: int) -> None: ...

    def stream_is_idle(self, device: int, stream: int) -> bool:
        return True

    def stream_wait_event(self, device: int, stream: int, event: Any) -> None: ...

    def synchronize(self, device: int) -> None: ...

    def create_event(self, device: int, timing: bool, blocking: bool) -> Any:
        return [None]

    def destroy_event(self, device: int, event: Any) -> None: ...

    def record_event(self, device: int, event: Any, stream: int) -> None:
        event[0] = time.perf_counter()

    def event_is_done(self, device: int, event: Any) -> bool:
        return True

    def synchronize_event(self, device: int, event: Any) -> None: ...

    def elapsed(self, start: Any, end: Any) -> float:
        """Milliseconds."""
        return (end[0] - start[0]) * 1e3
