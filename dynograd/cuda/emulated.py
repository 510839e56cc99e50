"""A driver without a GPU: device memory is host memory, streams run at once, kernels run in their interpreters.

`DYNOGRAD_CUDA=emulated` (or `emulated:2` for two devices) chooses it. Everything above the driver is the code that runs on a
GPU: arrays, allocator, launches. Kernels then step through `print` and pdb; they are about a thousand times slower.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

from dynograd.cuda import faults, thread_state
from dynograd.errors import DeviceError

__all__ = ["EmulatedDriver"]

_TOTAL = 1 << 34
_current = thread_state.current


class EmulatedDriver:
    """The calls that dynograd makes of a driver, and what they mean.

    Attributes:
        waits: how often the host has waited for a device.
        synchronous: every launch is waited for.
    """

    emulated = True
    synchronous = False

    def __init__(self, count: int = 1) -> None:
        self._count = count
        self._memory: dict[int, Any] = {}
        self._used = [0] * count
        self._next_handle = 1
        self._opened: set[int] = set()
        self._graphs: dict[int, list[Callable[[], Any]]] = {}
        self._recording: dict[int, list[Callable[[], Any]]] = {}
        self.waits = 0

    # --- devices --------------------------------------------------------------------------------------------------------

    def use(self, device: int) -> None:
        """Makes the device's primary context current in this thread."""
        if _current.context != device:
            if not 0 <= device < self._count:
                raise DeviceError(f"device 'cuda:{device}' was asked for, but there are {self._count} CUDA devices.")
            _current.active.clear()
            _current.context = device
            self._opened.add(device)

    def opened(self) -> list[int]:
        """The devices that have been used in this process."""
        return sorted(self._opened)

    def count(self) -> int:
        return self._count

    def version(self) -> int:
        """1000 * major + 10 * minor."""
        return 12080

    def name(self, device: int) -> str:
        return "dynograd emulated device"

    def capability(self, device: int) -> tuple[int, int]:
        return (9, 0)

    def uuid(self, device: int) -> str:
        return f"00000000-0000-0000-0000-{device:012}"

    def memory_info(self, device: int) -> tuple[int, int]:
        """(free, total) bytes."""
        return _TOTAL - self._used[device], _TOTAL

    def total_memory(self, device: int) -> int:
        return _TOTAL

    def attribute(self, device: int, name: str) -> int:
        """A number of `CUdevice_attribute`, by its name in small letters."""
        known = {
            "multiprocessor_count": 4, "max_shared_memory_per_block_optin": 232448, "warp_size": 32, "integrated": 0,
            "max_threads_per_multiprocessor": 2048, "max_shared_memory_per_block": 49152, "l2_cache_size": 1 << 20,
            "max_shared_memory_per_multiprocessor": 233472, "max_registers_per_multiprocessor": 65536,
            "multi_gpu_board": 0, "memory_pools_supported": 1,
        }  # fmt: skip
        return known[name]

    def can_access_peer(self, device: int, peer: int) -> bool:
        return device != peer

    # --- memory ---------------------------------------------------------------------------------------------------------

    def allocate(self, device: int, nbytes: int, stream: int) -> int:
        """The address of new memory, in the order of `stream`; 0 where there is none left."""
        self.use(device)
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

    def allocate_fixed(self, device: int, nbytes: int) -> int:
        """Memory that belongs to no stream, also in the middle of a capture; 0 where there is none left."""
        return self.allocate(device, nbytes, 0)

    def free_fixed(self, device: int, pointer: int) -> None:
        self.free(device, pointer, 0)

    def trim(self, device: int) -> None:
        """Gives what was freed back to the system."""

    def allocate_pinned(self, nbytes: int) -> int:
        """Host memory that devices read and write themselves."""
        buffer = ctypes.create_string_buffer(nbytes + 64)
        pointer = (ctypes.addressof(buffer) + 63) // 64 * 64
        self._memory[pointer] = (buffer, 0, 0)
        return pointer

    def free_pinned(self, pointer: int) -> None:
        self._memory.pop(pointer)

    def put(self, work: Callable[[], Any]) -> None:
        """Does work that is put on the current stream: at once, or at each replay of the graph that is being captured."""
        if self._recording and _current.captured_device in self._recording:
            self._recording[_current.captured_device].append(work)
        else:
            work()

    def copy_to_device(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self.put(lambda: ctypes.memmove(target, source, nbytes))

    copy_to_host = copy_within = copy_to_device

    def copy_peer(self, target: int, to: int, source: int, of: int, nbytes: int, stream: int) -> None:
        """From device `of` to device `to`, on a stream of `of`."""
        self.put(lambda: ctypes.memmove(target, source, nbytes))

    def fill_bytes(self, target: int, value: int, nbytes: int, stream: int) -> None:
        self.put(lambda: ctypes.memset(target, value, nbytes))

    # --- streams and events ---------------------------------------------------------------------------------------------

    def _handle(self) -> int:
        self._next_handle += 1
        return self._next_handle

    def create_stream(self, device: int, priority: int) -> int:
        self.use(device)
        return self._handle()

    def priority_range(self, device: int) -> tuple[int, int]:
        """(least, greatest): a lower number goes first."""
        return (0, -5)

    def destroy_stream(self, device: int, stream: int) -> None: ...

    def synchronize_stream(self, device: int, stream: int) -> None:
        self._wait("Stream.synchronize")

    def _wait(self, who: str) -> None:
        if _current.captured_device >= 0:
            raise DeviceError(f"{who}: waiting cannot be captured in a CUDA graph. Do it before or after the capture.")
        self.waits += 1
        for look in faults.after_waiting:
            look()

    def stream_is_idle(self, device: int, stream: int) -> bool:
        return True

    def stream_wait_event(self, device: int, stream: int, event: Any) -> None: ...

    def synchronize(self, device: int) -> None:
        self.use(device)
        self._wait("synchronize")

    def create_event(self, device: int, timing: bool, blocking: bool) -> Any:
        return [0.0]

    def destroy_event(self, device: int, event: Any) -> None: ...

    def record_event(self, device: int, event: Any, stream: int) -> None:
        event[0] = time.perf_counter()

    def event_is_done(self, device: int, event: Any) -> bool:
        return True

    def synchronize_event(self, device: int, event: Any) -> None:
        self._wait("Event.synchronize")

    def elapsed(self, start: Any, end: Any) -> float:
        """Milliseconds."""
        return (end[0] - start[0]) * 1e3

    # --- kernels: the interpreters run them, there is nothing to load ------------------------------------------------------

    def function_name(self, function: int) -> str:
        return "?"

    # --- graphs ---------------------------------------------------------------------------------------------------------

    def begin_capture(self, device: int, stream: int, mode: str) -> None:
        self.use(device)
        self._recording[device] = []

    def end_capture(self, device: int, stream: int) -> int:
        """The captured graph; 0 where an error ended the capture."""
        handle = self._handle()
        self._graphs[handle] = self._recording.pop(device)
        return handle

    def is_capturing(self, stream: int) -> bool:
        return bool(self._recording) and _current.captured_device in self._recording

    def instantiate(self, device: int, graph: int) -> int:
        return graph

    def launch_graph(self, device: int, executable: int, stream: int) -> None:
        for work in self._graphs[executable]:
            work()

    def destroy_graph(self, device: int, graph: int, executable: int) -> None:
        self._graphs.pop(graph, None)
