"""CUDA graphs: work recorded once and started again with one call.

Inside `with cuda.graph(g):` nothing runs; `g.replay()` runs all of it on the same memory. So results are read from the tensors
made inside, and new inputs are copied into tensors made before. Memory comes from the graph's own `PrivateMemory`; blocks from
outside that die during the capture are kept as long as the graph.
"""

from __future__ import annotations

import gc
from collections import deque
from typing import Any

from dynograd.cuda import allocator, driver, streams
from dynograd.cuda.thread_state import current
from dynograd.errors import DeviceError

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing"]

_dead: deque[tuple[int, int, int, list[Any], Any]] = deque()


class CUDAGraph:
    """Recorded work on a device. Fill it with `with cuda.graph(g):`, run it with `g.replay()`.

    Args:
        keep_graph: kept for compatibility.

    >>> if dynograd.cuda.is_available():
    ...     x = dynograd.zeros(4, device="cuda")
    ...     y = x * 2 + 1  # kernels are compiled and loaded before a capture
    ...     g = dynograd.cuda.CUDAGraph()
    ...     with dynograd.cuda.graph(g):
    ...         y = x * 2 + 1
    ...     _ = x.fill_(3)
    ...     g.replay()  # y is now 7
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph = self._executable = 0
        self._device = -1
        self._stream = 0
        self._memory: Any = None
        self._aside: Any = None
        self._kept: list[Any] = []
        self._capturing = False

    def capture_begin(self, pool: object = None, capture_error_mode: str = "global") -> None:
        """Records what is put on the current stream from now on; not the default stream.

        Args:
            pool: another graph's `pool()`, whose memory is used too: then the two may not run at the same time, and results of the one
                are overwritten by the other. None, memory of its own.
            capture_error_mode: "global", no thread may do what CUDA calls unsafe meanwhile; "thread_local", this one; "relaxed".
        """
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise ValueError(
                f"CUDAGraph: expected capture_error_mode 'global', 'thread_local' or 'relaxed', got {capture_error_mode!r}."
            )
        if self._graph or self._capturing:
            raise DeviceError(
                "CUDAGraph.capture_begin: the graph has been captured already. Call reset(), or make another."
            )
        if current.captured_device >= 0:
            raise DeviceError(
                "CUDAGraph.capture_begin: this thread is capturing a graph already. Captures cannot be nested."
            )
        index = current.device
        used, handle = driver.get("CUDAGraph"), streams.current_handle(index)
        if not handle:
            raise DeviceError(
                "CUDAGraph.capture_begin: the default stream cannot be captured. Use `with cuda.graph(g):`, which takes another."
            )
        release_dead()
        memory = allocator.memory_of(index)
        self._device, self._stream = index, handle
        self._memory = allocator.PrivateMemory(index) if pool is None else pool
        if self._memory.device != index:
            raise DeviceError(f"CUDAGraph: the pool is on cuda:{self._memory.device}, the capture on cuda:{index}.")
        self._aside = memory.begin_capture()
        self._capturing = True
        current.captures[index], current.captured_device = self._memory, index
        current.shelves.pop(index, None)
        try:
            used.begin_capture(index, handle, capture_error_mode)
        except BaseException:
            self._end()
            raise

    def capture_end(self) -> None:
        """Ends the recording and prepares the graph for replay."""
        if not self._capturing:
            raise DeviceError("CUDAGraph.capture_end: no capture was begun. Call capture_begin() before.")
        used = driver.get("CUDAGraph")
        try:
            self._graph = used.end_capture(self._device, self._stream)
        finally:
            self._end()
        if not self._graph:
            raise DeviceError("CUDAGraph: an error during the capture left no graph. Look at the first error in it.")
        self._executable = used.instantiate(self._device, self._graph)

    def _end(self) -> None:
        self._capturing = False
        current.captures.pop(self._device, None)
        current.captured_device = -1
        current.shelves.pop(self._device, None)
        self._kept += allocator.memory_of(self._device).end_capture(self._aside)
        self._aside = None

    def replay(self) -> None:
        """Puts the recorded work on the current stream; does not wait for it."""
        if not self._executable:
            raise DeviceError("CUDAGraph.replay: nothing has been captured. Use `with cuda.graph(g):` before.")
        driver.get("CUDAGraph").launch_graph(self._device, self._executable, streams.current_handle(self._device))

    def reset(self) -> None:
        """Forgets the recorded work; its memory is free when the tensors made in it are gone."""
        self.__del__()
        release_dead()

    def pool(self) -> object:
        """The graph's memory, for other graphs to share.

        Returns:
            A handle.
        """
        return self._memory

    def __del__(self) -> None:
        # A finalizer calls no driver: what is left is destroyed at the next capture or `reset`.
        if _dead is not None and (self._graph or self._kept):
            _dead.append((self._device, self._graph, self._executable, self._kept, self._memory))
        self._graph = self._executable = 0
        self._memory, self._kept = None, []


def release_dead() -> None:
    """Destroys graphs that nobody has any more, and gives their memory back."""
    while _dead:
        device, graph, executable, kept, memory = _dead.popleft()
        driver.get("CUDAGraph").synchronize(device)  # a replay may still be under way
        driver.get("CUDAGraph").destroy_graph(device, graph, executable)
        allocator.restore(kept)
        del memory  # not before the replay was over
    allocator.release_orphans()


class graph:
    """`with cuda.graph(g):` records the work inside into `g`, on a stream of its own.

    Args:
        cuda_graph: the CUDAGraph to fill.
        pool: another graph's `pool()` to share.
        stream: where to record; one for all captures by default.
        capture_error_mode: as in `CUDAGraph.capture_begin`.

    >>> if dynograd.cuda.is_available():
    ...     x = dynograd.zeros(4, device="cuda")
    ...     y = x + 1
    ...     g = dynograd.cuda.CUDAGraph()
    ...     with dynograd.cuda.graph(g):
    ...         y = x + 1
    """

    _streams: dict[int, streams.Stream] = {}

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: object = None,
        stream: streams.Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        if stream is None:
            index = current.device
            stream = self._streams.get(index)
            if stream is None:
                stream = self._streams.setdefault(index, streams.Stream(index))
        self.cuda_graph, self.pool, self.mode = cuda_graph, pool, capture_error_mode
        self.capture_stream = stream
        self._context = streams.StreamContext(stream)

    def __enter__(self) -> None:
        # Idle memory goes back first: the graph's own comes from what the device has left.
        gc.collect()
        if current.captured_device < 0:
            release_dead()
            allocator.empty_cache(self.capture_stream.device_index)
        self._context.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.mode)
        except BaseException:
            self._context.__exit__()
            raise

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            self.cuda_graph.capture_end()
        except DeviceError:
            if error is None:  # else the first error is the one to see
                raise
        finally:
            self._context.__exit__()


def graph_pool_handle() -> object:
    """Memory that several graphs can share: `cuda.graph(g, pool=handle)`.

    Returns:
        A handle.

    >>> if dynograd.cuda.is_available():
    ...     handle = dynograd.cuda.graph_pool_handle()
    """
    return allocator.PrivateMemory(current.device)


def is_current_stream_capturing() -> bool:
    """Whether the work of this thread is being recorded into a graph.

    Returns:
        True or False.

    >>> dynograd.cuda.is_current_stream_capturing()
    False
    """
    return current.captured_device >= 0
