"""The machine's CUDA driver through cuda-bindings: `CudaDriver`, and `connect()`, which finds out whether it can be used.

Nothing of CUDA is imported before `connect()`. Each device is used through its primary context, which Triton, numba-cuda and
other libraries share. Device memory comes from a pool of dynograd's own that keeps what it has (its release threshold is
infinite), so that the allocator above can give blocks back and take others without the operating system's work.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from dynograd.cuda import faults, thread_state
from dynograd.errors import DeviceError

__all__ = ["MINIMUM_DRIVER", "CudaDriver", "connect"]

MINIMUM_DRIVER = 12000  # cubins of Triton's ptxas 12.x load on every driver of CUDA 12 (minor-version compatibility)
_INSTALL = "pip install 'dynograd[gpu]'"
_current = thread_state.current

_OUT_OF_MEMORY = 2
_NOT_READY = 600
_RELAXED = 2
_CAPTURE_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
_MAX_SHARED = 8
_FUNCTION_ATTRIBUTES = {
    "max_threads_per_block": 0, "shared_size_bytes": 1, "const_size_bytes": 2, "local_size_bytes": 3, "num_regs": 4,
    "ptx_version": 5, "binary_version": 6, "max_dynamic_shared_size_bytes": _MAX_SHARED,
}  # fmt: skip


def connect() -> tuple[Any, str]:
    """(the driver, "") or (None, why there is none)."""
    if sys.platform != "linux":
        return None, f"dynograd uses CUDA on Linux only, and this is {sys.platform}"
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "no NVIDIA driver was found: libcuda.so.1 cannot be loaded"
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    if version.value < MINIMUM_DRIVER:
        return None, (
            f"the NVIDIA driver is too old: it offers CUDA {_version(version.value)}, dynograd needs {_version(MINIMUM_DRIVER)} "
            f"or newer. Update the driver"
        )
    try:
        from cuda.bindings import driver as api
    except ImportError as error:
        return None, f"there is a CUDA driver, but not the packages to use it ({error}). {_INSTALL}"
    try:
        code = int(api.cuInit(0)[0])
        if not code:
            code, count = api.cuDeviceGetCount()
            if not code:
                return (CudaDriver(api, int(count)), "") if count else (None, _no_device())
    except RuntimeError as error:  # a function that this driver does not have
        return (
            None,
            f"the NVIDIA driver (CUDA {_version(version.value)}) does not fit cuda-bindings: {error}. Update the driver",
        )
    if code == 100:
        return None, _no_device()
    return None, str(faults.describe(code, "cuInit")).rstrip(".")


def _no_device() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hidden = "" if visible is None else f"; CUDA_VISIBLE_DEVICES is {visible!r}"
    return f"the NVIDIA driver sees no CUDA device{hidden}"


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


class _Handles(dict):
    """Raw handles as the binding's objects: it makes a new one of each int it is given, which costs more than looking here."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __missing__(self, handle: int) -> Any:
        converted = self[handle] = self.kind(handle)
        return converted


class CudaDriver:
    """The calls that dynograd makes; see `EmulatedDriver` for what each means."""

    emulated = False
    launch: Any
    copy_to_device: Any
    copy_to_host: Any
    copy_within: Any

    def __init__(self, api: Any, count: int) -> None:
        self.api, self._count = api, count
        self.waits = 0
        self.last = 0
        self._lock = threading.RLock()
        self._contexts: list[Any] = [None] * count
        self._pools: list[Any] = [None] * count
        self._has_pools: list[bool] = [False] * count
        self._attributes: dict[tuple[int, str], int] = {}
        self._names: dict[int, str] = {}
        self._devices_of: dict[int, int] = {}
        self._peers: set[tuple[int, int]] = set()
        self._mine = threading.local()
        self.synchronous = any([os.environ.get(f"{name}", "0") not in ("", "0") for name in
                                ("DYNOGRAD_CUDA_SYNC", "CUDA_LAUNCH_BLOCKING")])  # fmt: skip
        self._bind()

    def _bind(self) -> None:
        """The calls of every step, with nothing between them and the binding but the check of what came back."""
        start, fail = self.api.cuLaunchKernel, self._fail
        functions, handles = _Handles(self.api.CUfunction), _Handles(self.api.CUstream)

        def launch(
            function: int,
            grid: tuple[int, int, int],
            block: tuple[int, int, int],
            shared: int,
            stream: int,
            parameters: int,
        ) -> None:
            """Starts a kernel. `parameters` is the address of an array with the addresses of its arguments."""
            gx, gy, gz = grid
            bx, by, bz = block
            (code,) = start(functions[function], gx, gy, gz, bx, by, bz, shared, handles[stream], parameters, 0)
            self.last = function
            if code:
                self._launch_failed(code, function, grid, block, shared)

        def checked(name: str, call: Any) -> Any:
            def copy(target: int, source: int, nbytes: int, stream: int) -> None:
                (code,) = call(target, source, nbytes, stream)
                if code:
                    raise fail(code, name)

            return copy

        def launch_and_wait(
            function: int,
            grid: tuple[int, int, int],
            block: tuple[int, int, int],
            shared: int,
            stream: int,
            parameters: int,
        ) -> None:
            launch(function, grid, block, shared, stream, parameters)
            if not self.is_capturing(stream):
                (code,) = self.api.cuStreamSynchronize(stream)
                if code:
                    raise faults.describe(
                        int(code),
                        f"kernel {self.function_name(function)!r}, launched by {faults.users_line()}",
                        exact=True,
                    )

        self.launch = launch_and_wait if self.synchronous else launch
        self.copy_to_device = checked("copy to device", self.api.cuMemcpyHtoDAsync)
        self.copy_to_host = checked("copy to host", self.api.cuMemcpyDtoHAsync)
        self.copy_within = checked("copy", self.api.cuMemcpyDtoDAsync)

    # --- errors ---------------------------------------------------------------------------------------------------------

    def _fail(self, code: Any, who: str) -> faults.CudaError:
        name = getattr(code, "name", "")
        return faults.describe(int(code), who, name, self.function_name(self.last) if self.last else "")

    def _launch_failed(self, code: Any, function: int, grid: Any, block: Any, shared: int) -> None:
        name = self.function_name(function)
        if faults.is_sticky(int(code)):
            raise self._fail(code, f"kernel {name!r}")
        raise self._fail(code, f"kernel {name!r} with grid {grid}, block {block} and {shared:,} bytes of shared memory")

    def _done(self, result: Any, who: str) -> Any:
        code = result[0]
        if code:
            raise self._fail(code, who)
        return result[1] if len(result) == 2 else result[1:]

    # --- devices --------------------------------------------------------------------------------------------------------

    def use(self, device: int) -> None:
        """Makes the device's primary context current in this thread."""
        if _current.context == device:
            return
        if not 0 <= device < self._count:
            raise DeviceError(f"device 'cuda:{device}' was asked for, but there are {self._count} CUDA devices.")
        context = self._contexts[device] or self._open(device)
        self._done(self.api.cuCtxSetCurrent(context), f"cuda:{device}")
        _current.active.clear()
        _current.context = device

    def _open(self, device: int) -> Any:
        with self._lock:
            if self._contexts[device] is None:
                api, who = self.api, f"cuda:{device}"
                handle = self._done(api.cuDeviceGet(device), who)
                context = self._done(api.cuDevicePrimaryCtxRetain(handle), who)
                self._done(api.cuCtxSetCurrent(context), who)
                if self.attribute(device, "memory_pools_supported"):
                    self._has_pools[device] = True
                    self._pools[device] = self._make_pool(device)
                self._contexts[device] = context
            return self._contexts[device]

    def _make_pool(self, device: int) -> Any:
        api, who = self.api, f"memory pool of cuda:{device}"
        properties = api.CUmemPoolProps()
        properties.allocType = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = device
        pool = self._done(api.cuMemPoolCreate(properties), who)
        threshold = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self._done(api.cuMemPoolSetAttribute(pool, threshold, api.cuuint64_t((1 << 64) - 1)), who)
        return pool

    def opened(self) -> list[int]:
        """The devices that have been used in this process."""
        return [device for device in range(self._count) if self._contexts[device] is not None]

    def count(self) -> int:
        return self._count

    def version(self) -> int:
        return int(self._done(self.api.cuDriverGetVersion(), "driver version"))

    def name(self, device: int) -> str:
        raw = self._done(self.api.cuDeviceGetName(256, self._device(device)), "get_device_name")
        return raw.split(b"\0")[0].decode()

    def _device(self, device: int) -> Any:
        return self._done(self.api.cuDeviceGet(device), f"cuda:{device}")

    def capability(self, device: int) -> tuple[int, int]:
        return (
            self.attribute(device, "compute_capability_major"),
            self.attribute(device, "compute_capability_minor"),
        )

    def uuid(self, device: int) -> str:
        raw = bytes(self._done(self.api.cuDeviceGetUuid(self._device(device)), f"cuda:{device}").bytes)
        text = raw.hex()
        return "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]])

    def memory_info(self, device: int) -> tuple[int, int]:
        self.use(device)
        free, total = self._done(self.api.cuMemGetInfo(), "mem_get_info")
        return int(free), int(total)

    def total_memory(self, device: int) -> int:
        return int(self._done(self.api.cuDeviceTotalMem(self._device(device)), f"cuda:{device}"))

    def attribute(self, device: int, name: str) -> int:
        attribute = self._attributes.get((device, name))
        if attribute is None:
            which = getattr(self.api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name.upper()}")
            value = self._done(self.api.cuDeviceGetAttribute(which, self._device(device)), f"cuda:{device}")
            attribute = self._attributes[device, name] = int(value)
        return attribute

    def can_access_peer(self, device: int, peer: int) -> bool:
        return bool(self._done(self.api.cuDeviceCanAccessPeer(self._device(device), self._device(peer)), "peer access"))

    # --- memory ---------------------------------------------------------------------------------------------------------

    def allocate(self, device: int, nbytes: int, stream: int) -> int:
        self.use(device)
        if self._has_pools[device]:
            code, pointer = self.api.cuMemAllocFromPoolAsync(nbytes, self._pools[device], stream)
        else:
            code, pointer = self.api.cuMemAlloc(nbytes)
        if code == _OUT_OF_MEMORY:
            return 0
        return int(self._done((code, pointer), f"cuda:{device}: allocation of {nbytes:,} bytes"))

    def free(self, device: int, pointer: int, stream: int) -> None:
        self.use(device)
        free = self.api.cuMemFreeAsync(pointer, stream) if self._has_pools[device] else self.api.cuMemFree(pointer)
        self._done(free, f"cuda:{device}: release of memory")

    def allocate_fixed(self, device: int, nbytes: int) -> int:
        """Memory that belongs to no stream, also in the middle of a capture."""
        self.use(device)
        with self._relaxed():
            code, pointer = self.api.cuMemAlloc(nbytes)
        if code == _OUT_OF_MEMORY:
            return 0
        return int(self._done((code, pointer), f"cuda:{device}: allocation of {nbytes:,} bytes"))

    def free_fixed(self, device: int, pointer: int) -> None:
        self.use(device)
        with self._relaxed():
            self._done(self.api.cuMemFree(pointer), f"cuda:{device}: release of memory")

    @contextlib.contextmanager
    def _relaxed(self) -> Iterator[None]:
        """What a capture would refuse is allowed in this thread."""
        mode = self.api.CUstreamCaptureMode(_RELAXED)
        before = self._done(self.api.cuThreadExchangeStreamCaptureMode(mode), "capture mode")
        try:
            yield
        finally:
            self.api.cuThreadExchangeStreamCaptureMode(before)

    def trim(self, device: int) -> None:
        self.use(device)
        if self._has_pools[device]:
            self._done(self.api.cuMemPoolTrimTo(self._pools[device], 0), f"cuda:{device}: empty_cache")

    def allocate_pinned(self, nbytes: int) -> int:
        if _current.context < 0:
            self.use(_current.device)
        with self._relaxed():
            code, pointer = self.api.cuMemHostAlloc(
                nbytes, 3
            )  # portable: for every context; mapped: kernels can use it
        return 0 if code == _OUT_OF_MEMORY else int(self._done((code, pointer), "pinned memory"))

    def free_pinned(self, pointer: int) -> None:
        if _current.context < 0:
            self.use(_current.device)
        with self._relaxed():
            self._done(self.api.cuMemFreeHost(pointer), "pinned memory")

    def copy_peer(self, target: int, to: int, source: int, of: int, nbytes: int, stream: int) -> None:
        if (to, of) not in self._peers:
            self._open_peers(to, of)
        self.use(of)
        contexts = self._contexts
        copied = self.api.cuMemcpyPeerAsync(target, contexts[to], source, contexts[of], nbytes, stream)
        self._done(copied, f"copy from cuda:{of} to cuda:{to}")

    def _open_peers(self, to: int, of: int) -> None:
        """Lets the two devices reach each other's pools where the machine can do that; else copies go through host memory."""
        for device in (to, of):
            self.use(device)
        for owner, reader in ((to, of), (of, to)):
            if self._has_pools[owner] and self.can_access_peer(reader, owner):
                access = self.api.CUmemAccessDesc()
                access.location.type = self.api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
                access.location.id = reader
                access.flags = self.api.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                self._done(self.api.cuMemPoolSetAccess(self._pools[owner], [access], 1), f"peer access to cuda:{owner}")
            self._peers.add((owner, reader))

    def fill_bytes(self, target: int, value: int, nbytes: int, stream: int) -> None:
        self._done(self.api.cuMemsetD8Async(target, value, nbytes, stream), "fill")

    # --- streams and events ---------------------------------------------------------------------------------------------

    def create_stream(self, device: int, priority: int) -> int:
        self.use(device)
        return int(self._done(self.api.cuStreamCreateWithPriority(1, priority), "Stream"))  # 1: not blocked by stream 0

    def priority_range(self, device: int) -> tuple[int, int]:
        """(least, greatest): a lower number goes first."""
        self.use(device)
        least, greatest = self._done(self.api.cuCtxGetStreamPriorityRange(), "Stream.priority_range")
        return int(least), int(greatest)

    def destroy_stream(self, device: int, stream: int) -> None:
        self.use(device)
        self._done(self.api.cuStreamDestroy(stream), "Stream")

    def synchronize_stream(self, device: int, stream: int) -> None:
        self.use(device)
        self.waits += 1
        self._done(self.api.cuStreamSynchronize(stream), "Stream.synchronize")
        self._look()

    def _look(self) -> None:
        """After waiting: kernels may have reported something."""
        for look in faults.after_waiting:
            look()

    def stream_is_idle(self, device: int, stream: int) -> bool:
        self.use(device)
        return self._is_ready(self.api.cuStreamQuery(stream), "Stream.query")

    def _is_ready(self, result: Any, who: str) -> bool:
        if result[0] == _NOT_READY:
            return False
        self._done(result, who)
        return True

    def stream_wait_event(self, device: int, stream: int, event: Any) -> None:
        self.use(device)
        self._done(self.api.cuStreamWaitEvent(stream, event, 0), "Stream.wait_event")

    def synchronize(self, device: int) -> None:
        self.use(device)
        self.waits += 1
        self._done(self.api.cuCtxSynchronize(), "synchronize")
        self._look()

    def create_event(self, device: int, timing: bool, blocking: bool) -> Any:
        self.use(device)
        return self._done(self.api.cuEventCreate(int(blocking) | (0 if timing else 2)), "Event")

    def destroy_event(self, device: int, event: Any) -> None:
        self.use(device)
        self._done(self.api.cuEventDestroy(event), "Event")

    def record_event(self, device: int, event: Any, stream: int) -> None:
        self.use(device)
        self._done(self.api.cuEventRecord(event, stream), "Event.record")

    def event_is_done(self, device: int, event: Any) -> bool:
        self.use(device)
        return self._is_ready(self.api.cuEventQuery(event), "Event.query")

    def synchronize_event(self, device: int, event: Any) -> None:
        self.use(device)
        self.waits += 1
        self._done(self.api.cuEventSynchronize(event), "Event.synchronize")
        self._look()

    def elapsed(self, start: Any, end: Any) -> float:
        return float(self._done(self.api.cuEventElapsedTime(start, end), "Event.elapsed_time"))

    # --- kernels --------------------------------------------------------------------------------------------------------

    def load_module(self, device: int, cubin: bytes) -> int:
        self.use(device)
        with self._relaxed():
            return int(self._done(self.api.cuModuleLoadData(cubin), f"cuda:{device}: loading a kernel"))

    def unload_module(self, device: int, module: int) -> None:
        self.use(device)
        self._done(self.api.cuModuleUnload(module), f"cuda:{device}: unloading a kernel")

    def get_function(self, module: int, name: str) -> int:
        function = int(self._done(self.api.cuModuleGetFunction(module, name.encode()), f"kernel {name!r}"))
        self._names[function] = name
        return function

    def function_name(self, function: int) -> str:
        return self._names.get(function, "?")

    def function_attribute(self, function: int, name: str) -> int:
        which = self.api.CUfunction_attribute(_FUNCTION_ATTRIBUTES[name])
        return int(self._done(self.api.cuFuncGetAttribute(which, function), f"kernel {self.function_name(function)!r}"))

    def set_max_shared(self, function: int, nbytes: int) -> None:
        """Lets blocks of the function have up to `nbytes` of dynamic shared memory."""
        which = self.api.CUfunction_attribute(_MAX_SHARED)
        self._done(
            self.api.cuFuncSetAttribute(function, which, nbytes),
            f"kernel {self.function_name(function)!r} with {nbytes:,} bytes of shared memory",
        )

    def blocks_per_multiprocessor(self, function: int, threads: int, shared: int) -> int:
        result = self.api.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared)
        return int(self._done(result, f"kernel {self.function_name(function)!r}"))

    # --- graphs ---------------------------------------------------------------------------------------------------------

    def begin_capture(self, device: int, stream: int, mode: str) -> None:
        self.use(device)
        self._done(
            self.api.cuStreamBeginCapture(stream, self.api.CUstreamCaptureMode(_CAPTURE_MODES[mode])), "CUDAGraph"
        )

    def end_capture(self, device: int, stream: int) -> int:
        """The captured graph; 0 where an error ended the capture."""
        self.use(device)
        return int(self._done(self.api.cuStreamEndCapture(stream), "CUDAGraph") or 0)

    def is_capturing(self, stream: int) -> bool:
        return int(self._done(self.api.cuStreamIsCapturing(stream), "is_current_stream_capturing")) == 1

    def instantiate(self, device: int, graph: int) -> int:
        self.use(device)
        return int(self._done(self.api.cuGraphInstantiate(graph, 0), "CUDAGraph"))

    def launch_graph(self, device: int, executable: int, stream: int) -> None:
        self.use(device)
        self._done(self.api.cuGraphLaunch(executable, stream), "CUDAGraph.replay")

    def destroy_graph(self, device: int, graph: int, executable: int) -> None:
        self.use(device)
        if executable:
            self._done(self.api.cuGraphExecDestroy(executable), "CUDAGraph")
        if graph:
            self._done(self.api.cuGraphDestroy(graph), "CUDAGraph")
