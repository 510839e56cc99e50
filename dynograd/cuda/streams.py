"""Streams, events, and what is current in this thread: the device, and on each device the stream.

Work on one stream is done in order, work on two streams is not ordered unless one waits for an event of the other. The default
stream (0) is current until `with cuda.stream(s):` says otherwise; streams made here are not blocked by it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from dynograd.base import devices
from dynograd.base.hints import DeviceLike
from dynograd.cuda import driver
from dynograd.cuda.thread_state import current
from dynograd.errors import DeviceError

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_device",
    "current_handle",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "set_current_device",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]

_PER_DEVICE = 32  # streams are dealt out in turn and never destroyed: their memory's shelves stay useful


def index_of(who: str, device: DeviceLike) -> int:
    """The index meant by an index, a name, a device or None, the current one.

    Raises:
        DeviceError: there is no such device.
        ValueError: it is no CUDA device.
    """
    if device is None:
        return current.device
    if type(device) is int:
        return driver.check_index(who, device)
    chosen = devices.as_device(device)
    if chosen.type != "cuda":
        raise ValueError(f"{who}: expected a CUDA device, got '{chosen}'. Use for example device='cuda:0' or an index.")
    return current.device if chosen.index is None else driver.check_index(who, chosen.index)


# --- current device and stream ----------------------------------------------------------------------------------------------


def current_device() -> int:
    return current.device


def set_current_device(index: int) -> None:
    current.device = index


def set_device(device: DeviceLike) -> None:
    """Makes a device the current one of this thread. A negative index changes nothing.

    Args:
        device: its index or name.
    Raises:
        DeviceError: there is no such device.

    >>> dynograd.cuda.set_device(-1)
    """
    if isinstance(device, int) and device < 0:
        return
    set_current_device(index_of("set_device", device))


def current_handle(device: int) -> int:
    """The raw stream on which work for `device` is put; 0 is the default stream. Makes the device usable in this thread."""
    try:
        return current.active[device]
    except KeyError:
        return _activate(device)


def _activate(device: int) -> int:
    driver.check_index("cuda", device)
    while driver.at_first_use:
        driver.at_first_use.pop()()
    driver.get("cuda").use(device)
    stream = current.streams.get(device)
    handle = 0 if stream is None else stream.cuda_stream
    current.active[device] = handle
    return handle


def current_stream(device: DeviceLike = None) -> Stream:
    """The stream on which this thread's work for the device is put.

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Returns:
        A `Stream`.
    Raises:
        DeviceError: no device can be used.

    >>> if dynograd.cuda.is_available():
    ...     stream = dynograd.cuda.current_stream()
    """
    index = current.device if device is None else index_of("current_stream", device)
    stream = current.streams.get(index)
    return default_stream(index) if stream is None else stream


def default_stream(device: DeviceLike = None) -> Stream:
    """The device's default stream, number 0.

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Returns:
        A `Stream`.
    Raises:
        DeviceError: no device can be used.

    >>> if dynograd.cuda.is_available():
    ...     stream = dynograd.cuda.default_stream()
    """
    index = current.device if device is None else index_of("default_stream", device)
    stream = _defaults.get(index)
    if stream is None or driver._driver is None:
        driver.check_index("default_stream", index)
        stream = _defaults[index] = ExternalStream(0, index)
    return stream


def set_stream(stream: Stream | None) -> None:
    """Makes `stream` current in this thread, and its device; prefer `with cuda.stream(s):`. None changes nothing.

    Args:
        stream: a `Stream` or None.

    >>> dynograd.cuda.set_stream(None)
    """
    if stream is None:
        return
    index = stream.device_index
    _put_stream(index, stream)
    current.device = index


def _put_stream(index: int, stream: Stream | None) -> None:
    if stream is None or not stream.cuda_stream:
        current.streams.pop(index, None)
    else:
        current.streams[index] = stream
    current.active.pop(index, None)
    current.shelves.pop(index, None)


class StreamContext:
    """`with cuda.stream(s):` work of this thread goes to `s`; None changes nothing.

    Args:
        stream: a `Stream` or None.

    >>> with dynograd.cuda.StreamContext(None):
    ...     x = dynograd.ones(2)
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: list[tuple[int, Stream | None]] = []

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            self._before.append((current.device, current.streams.get(self.stream.device_index)))
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *exception: Any) -> None:
        if self.stream is not None:
            device, before = self._before.pop()
            _put_stream(self.stream.device_index, before)
            current.device = device


def stream(stream: Stream | None) -> StreamContext:
    """Puts this thread's work on `stream` inside the with block.

    Args:
        stream: a `Stream`; None changes nothing.
    Returns:
        A context manager.

    >>> if dynograd.cuda.is_available():
    ...     side = dynograd.cuda.Stream()
    ...     with dynograd.cuda.stream(side):
    ...         x = dynograd.ones(3, device="cuda")
    ...     dynograd.cuda.current_stream().wait_stream(side)
    """
    return StreamContext(stream)


class device:
    """`with cuda.device(1):` makes a device current inside the with block; None or a negative index changes nothing.

    Args:
        device: its index or name, or None.

    >>> with dynograd.cuda.device(-1):
    ...     x = dynograd.ones(2)
    """

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else index_of("device", device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = current.device
        if self.idx >= 0:
            current.device = self.idx

    def __exit__(self, *exception: Any) -> None:
        current.device = self.prev_idx


class device_of(device):
    """Makes the device of a tensor current; a CPU tensor changes nothing.

    Args:
        obj: a tensor.

    >>> with dynograd.cuda.device_of(tensor([1.0])):
    ...     x = dynograd.ones(2)
    """

    def __init__(self, obj: object) -> None:
        device = devices.as_device(obj.device)
        super().__init__(device if device.type == "cuda" else None)


def synchronize(device: DeviceLike = None) -> None:
    """Waits until all work on the device is done; without a device there is nothing to wait for.

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Raises:
        CudaError: a kernel has failed since the last time somebody looked.

    >>> dynograd.cuda.synchronize()
    """
    if driver.known() is None:
        if driver.reason() == driver._FORKED:
            driver.get("synchronize")
        return
    index = index_of("synchronize", device)
    driver.get("synchronize").synchronize(index)


# --- streams ----------------------------------------------------------------------------------------------------------------

_defaults: dict[int, Stream] = {}
_dealt: dict[tuple[int, int], list[Stream]] = {}
_turn: dict[tuple[int, int], int] = {}
_lock = threading.Lock()


class Stream:
    """A queue of work on a device; work on different streams may run side by side.

    32 streams exist for each device and priority, and are dealt out in turn.

    Args:
        device: where; the current device if None.
        priority: lower goes first; 0 is usual, -1 is high.
        options: kept for compatibility.
    Raises:
        DeviceError: no device can be used.

    >>> dynograd.cuda.Stream().query() if dynograd.cuda.is_available() else True
    True
    """

    __slots__ = ("__weakref__", "_context", "cuda_stream", "device_index", "priority")

    def __init__(self, device: DeviceLike = None, priority: int = 0, **options: object) -> None:
        index = index_of("Stream", device)
        used = driver.get("Stream")
        _, greatest = used.priority_range(index)
        self.device_index, self.priority = index, min(max(priority, greatest), 0)
        self._context: list[StreamContext] = []
        key = (index, self.priority)
        with _lock:
            turn = _turn.get(key, 0)
            dealt = _dealt.setdefault(key, [])
            if turn % _PER_DEVICE >= len(dealt):
                dealt.append(ExternalStream(used.create_stream(index, self.priority), index))
            self.cuda_stream: int = dealt[turn % _PER_DEVICE].cuda_stream
            _turn[key] = turn + 1

    @property
    def device(self) -> devices.device:
        """The device of the stream."""
        return devices.device("cuda", self.device_index)

    @property
    def stream_id(self) -> int:
        """The number of the stream."""
        return self.cuda_stream

    def synchronize(self) -> None:
        """Waits until the work put on the stream so far is done."""
        driver.get("Stream.synchronize").synchronize_stream(self.device_index, self.cuda_stream)

    def query(self) -> bool:
        """Whether all work put on the stream is done.

        Returns:
            True or False.
        """
        return driver.get("Stream.query").stream_is_idle(self.device_index, self.cuda_stream)

    def record_event(self, event: Event | None = None) -> Event:
        """Marks the stream's present end; a new event where none is given.

        Args:
            event: an `Event`.
        Returns:
            The event.
        """
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Work put on this stream from now on waits for the event; the host does not.

        Args:
            event: an `Event`.
        """
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Work put on this stream from now on waits for all that is on `stream` now; the host does not.

        Args:
            stream: a `Stream`.
        """
        if stream != self:
            self.wait_event(stream.record_event())

    def __enter__(self) -> Stream:
        self._context.append(StreamContext(self))
        self._context[-1].__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._context.pop().__exit__()

    def __cuda_stream__(self) -> tuple[int, int]:
        """(protocol version, raw stream), as cuda.core asks for it."""
        return (0, self.cuda_stream)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.cuda_stream, self.device_index) == (
            other.cuda_stream,
            other.device_index,
        )

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __repr__(self) -> str:
        return f"<dynograd.cuda.Stream device=cuda:{self.device_index} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A raw stream that another library made and keeps alive.

    Args:
        stream_ptr: the address, as the other library tells it.
        device: where it is; the current device if None.
        options: kept for compatibility.

    >>> if dynograd.cuda.is_available():
    ...     stream = dynograd.cuda.ExternalStream(dynograd.cuda.Stream().cuda_stream)
    """

    __slots__ = ()

    def __init__(self, stream_ptr: int, device: DeviceLike = None, **options: object) -> None:
        self.cuda_stream = int(stream_ptr)
        self.device_index = index_of("ExternalStream", device)
        self.priority = 0
        self._context = []


# --- events -----------------------------------------------------------------------------------------------------------------

_idle_events: dict[tuple[int, bool, bool], deque[Any]] = {}


def _take_event(index: int, timing: bool = False, blocking: bool = False) -> Any:
    """A raw event; those of dead Events are used again, and none is destroyed in a finalizer."""
    try:
        return _idle_events[index, timing, blocking].pop()
    except (KeyError, IndexError):
        _idle_events.setdefault((index, timing, blocking), deque())
        return driver.get("Event").create_event(index, timing, blocking)


def fence(index: int, handle: int) -> tuple[int, Any]:
    """Marks the present end of a raw stream."""
    event = _take_event(index)
    driver.get("Event").record_event(index, event, handle)
    return index, event


def has_passed(mark: tuple[int, Any]) -> bool:
    """Whether the stream has come past a fence; the fence is used up when it has."""
    index, event = mark
    if not driver.get("Event").event_is_done(index, event):
        return False
    _idle_events[index, False, False].append(event)
    return True


def wait_for(mark: tuple[int, Any]) -> None:
    """The host waits for a fence, which is used up."""
    index, event = mark
    driver.get("Event").synchronize_event(index, event)
    _idle_events[index, False, False].append(event)


def order(first: tuple[int, int], then: tuple[int, int]) -> None:
    """Work put on the (device, raw stream) `then` from now on waits for what is on `first`; the host does not."""
    if first == then:
        return
    index, event = fence(*first)
    driver.get("Event").stream_wait_event(then[0], then[1], event)
    _idle_events[index, False, False].append(event)  # the wait keeps the mark that it was given


class Event:
    """A mark on a stream, to wait for or to measure time with.

    Args:
        enable_timing: whether `elapsed_time` can be asked.
        blocking: `synchronize` lets the processor sleep instead of spinning.
        interprocess, external: kept for compatibility.

    >>> event = dynograd.cuda.Event(enable_timing=True)
    >>> event.query()
    True
    """

    __slots__ = ("__weakref__", "_blocking", "_event", "_index", "_timing")

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        self._event: Any = None
        self._index = -1
        if interprocess:
            raise DeviceError(
                "Event: events of several processes are not supported. Leave interprocess=False, or wait on the host."
            )
        self._timing, self._blocking = enable_timing, blocking

    def __del__(self) -> None:
        if self._event is not None and _idle_events is not None:
            _idle_events[self._index, self._timing, self._blocking].append(self._event)

    @property
    def device(self) -> devices.device | None:
        """Where it was recorded; None before that."""
        return None if self._event is None else devices.device("cuda", self._index)

    def record(self, stream: Stream | None = None) -> None:
        """Marks the present end of `stream` (None: the current one).

        Args:
            stream: a `Stream`.
        """
        stream = current_stream() if stream is None else stream
        if self._event is None:
            self._index = stream.device_index
            self._event = _take_event(self._index, self._timing, self._blocking)
        elif self._index != stream.device_index:
            raise DeviceError(
                f"Event.record: the event belongs to cuda:{self._index}, the stream to cuda:{stream.device_index}. "
                f"Make an event for each device."
            )
        driver.get("Event.record").record_event(self._index, self._event, stream.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Work put on `stream` (None: the current one) from now on waits for the mark; the host does not.

        Args:
            stream: a `Stream`.
        """
        if self._event is not None:
            stream = current_stream() if stream is None else stream
            driver.get("Event.wait").stream_wait_event(stream.device_index, stream.cuda_stream, self._event)

    def query(self) -> bool:
        """Whether all work before the mark is done; True where none was recorded."""
        return self._event is None or driver.get("Event.query").event_is_done(self._index, self._event)

    def synchronize(self) -> None:
        """Waits until all work before the mark is done."""
        if self._event is not None:
            driver.get("Event.synchronize").synchronize_event(self._index, self._event)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to the other; both must have passed.

        Args:
            end_event: an event recorded after this one.
        Returns:
            A float.
        """
        for event, name in ((self, "this event"), (end_event, "end_event")):
            if not event._timing:
                raise ValueError(
                    f"Event.elapsed_time: {name} measures no time. Make it with Event(enable_timing=True)."
                )
            if event._event is None:
                raise ValueError(f"Event.elapsed_time: {name} was never recorded. Call record() before.")
            if not event.query():
                raise DeviceError(f"Event.elapsed_time: {name} has not passed yet. Call synchronize() on it before.")
        return driver.get("Event.elapsed_time").elapsed(self._event, end_event._event)

    def __repr__(self) -> str:
        return f"<dynograd.cuda.Event {'on ' + str(self.device) if self._event is not None else 'not recorded'}>"
