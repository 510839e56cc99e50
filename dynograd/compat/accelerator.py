"""`torch.accelerator`: whatever GPU there is, under one name. Here that is CUDA or nothing."""

from __future__ import annotations

from typing import Any, ClassVar

from dynograd import cuda
from dynograd.base import dtypes
from dynograd.base.devices import as_device, device
from dynograd.base.hints import DeviceLike
from dynograd.base.signatures import show_plainly as _show_plainly

__path__: list[str] = []  # PyTorch has modules below it (`compat.import_paths`)
__all__ = [
    "Event",
    "Stream",
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]

# What does nothing, or answers 0, without a GPU does so under this name too.
empty_cache = cuda.empty_cache
memory_allocated, max_memory_allocated = cuda.memory_allocated, cuda.max_memory_allocated
memory_reserved, max_memory_reserved = cuda.memory_reserved, cuda.max_memory_reserved
memory_stats = cuda.memory_stats
reset_peak_memory_stats, reset_accumulated_memory_stats = (
    cuda.reset_peak_memory_stats,
    cuda.reset_accumulated_memory_stats,
)
device_index = cuda.device


def is_available() -> bool:
    """Whether there is a GPU.

    Returns:
        True or False.

    >>> dynograd.accelerator.is_available() == dynograd.cuda.is_available()
    True
    """
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> device | None:
    """The kind of GPU as a device without number, None without one.

    Args:
        check_available: kept for compatibility.
    Returns:
        A device or None.

    >>> dynograd.accelerator.current_accelerator() is None or dynograd.accelerator.is_available()
    True
    """
    return device("cuda") if cuda.is_available() else None


def device_count() -> int:
    """How many GPUs there are.

    Returns:
        An int.

    >>> dynograd.accelerator.device_count() == dynograd.cuda.device_count()
    True
    """
    return cuda.device_count()


def current_device_index() -> int:
    """The number of the current GPU.

    Returns:
        An int.

    >>> if dynograd.accelerator.is_available():
    ...     index = dynograd.accelerator.current_device_index()
    """
    return cuda.current_device()


def set_device_index(device: DeviceLike) -> None:
    """Makes another GPU the current one.

    Args:
        device: its number or name.

    >>> if dynograd.accelerator.is_available():
    ...     dynograd.accelerator.set_device_index(0)
    """
    cuda.set_device(device)


def synchronize(device: DeviceLike = None) -> None:
    """Waits for the GPU; without one there is nothing to wait for.

    Args:
        device: which one; None is the current one.

    >>> dynograd.accelerator.synchronize()
    """
    if cuda.is_available():
        cuda.synchronize(device)


def current_stream(device: DeviceLike = None) -> Any:
    """The GPU's current stream.

    Args:
        device: which one; None is the current one.
    Returns:
        A stream.
    Raises:
        DeviceError: there is no GPU.

    >>> if dynograd.accelerator.is_available():
    ...     stream = dynograd.accelerator.current_stream()
    """
    return cuda.current_stream(device)


def set_stream(stream: Any) -> None:
    """Makes a stream, and its GPU, the current one.

    Args:
        stream: a stream.

    >>> if dynograd.accelerator.is_available():
    ...     dynograd.accelerator.set_stream(dynograd.accelerator.current_stream())
    """
    cuda.set_device(stream.device)
    cuda.set_stream(stream)


def get_memory_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free bytes, bytes in all) of a GPU.

    Args:
        device: which one; None is the current one.
    Returns:
        Two ints.

    >>> if dynograd.accelerator.is_available():
    ...     free, total = dynograd.accelerator.get_memory_info()
    """
    return cuda.mem_get_info(device)


def get_device_capability(device: DeviceLike = None) -> dict[str, Any]:
    """What a GPU can compute with, as `supported_dtypes`.

    Args:
        device: which one; None is the current one.
    Returns:
        A dict with `supported_dtypes`.

    >>> if dynograd.accelerator.is_available():
    ...     dtypes = dynograd.accelerator.get_device_capability()["supported_dtypes"]
    """
    cuda.get_device_capability(device)  # whether there is one
    names = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
    return {"supported_dtypes": {getattr(dtypes, name) for name in names}}


current_device_idx, set_device_idx = current_device_index, set_device_index


class _OfDevice(type):
    """Makes what the kind of device has: one of `dynograd.cuda` for a GPU, itself for the CPU, where nothing is left to wait for."""

    on_gpus: Any

    def __call__(cls, device: DeviceLike = None, *args: Any, **kwargs: Any) -> Any:
        if device is None:
            device = "cuda" if cuda.is_available() else "cpu"
        where = as_device(device)
        if where.type == "cpu":
            return super().__call__()
        return cls.on_gpus(where, *args, **kwargs) if cls.on_gpus is cuda.Stream else cls.on_gpus(*args, **kwargs)

    def __instancecheck__(cls, value: Any) -> bool:
        return type(value) is cls or isinstance(value, cls.on_gpus)


class Stream(metaclass=_OfDevice):
    """`Stream(device=None, priority=0)`: a queue of work of the GPU there is, `cuda.Stream`; on the CPU work is done at once.

    Args:
        device: which one; None is the GPU there is, or the CPU.

    >>> dynograd.Stream("cpu").query()
    True
    """

    on_gpus: ClassVar[Any] = cuda.Stream
    device, device_index, stream_id = device("cpu"), -1, 0

    def synchronize(self) -> None:
        """Nothing is left to wait for."""

    def query(self) -> bool:
        """True: all work is done.

        Returns:
            True or False.
        """
        return True

    def record_event(self, event: object = None) -> object:
        """An event; `event` itself where it is given.

        Args:
            event: an event or None.
        Returns:
            The event.
        """
        return Event("cpu") if event is None else event  # type: ignore[call-arg]

    def wait_event(self, event: object) -> None:
        """Nothing to wait for, unless the event is a GPU's.

        Args:
            event: an event.
        """
        event.synchronize()

    def wait_stream(self, stream: object) -> None:
        """Nothing to wait for, unless the stream is a GPU's.

        Args:
            stream: a stream.
        """
        stream.synchronize()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass


class Event(metaclass=_OfDevice):
    """`Event(device=None, enable_timing=False, ...)`: a mark in the work of the GPU there is, `cuda.Event`; on the CPU always passed.

    Args:
        device: which one; None is the GPU there is, or the CPU.

    >>> dynograd.Event("cpu").query()
    True
    """

    on_gpus: ClassVar[Any] = cuda.Event
    device, event_id = device("cpu"), 0

    def record(self, stream: object = None) -> None:
        """Nothing to mark.

        Args:
            stream: a stream.
        """

    def wait(self, stream: object = None) -> None:
        """Nothing to wait for.

        Args:
            stream: a stream.
        """

    def query(self) -> bool:
        """True.

        Returns:
            True or False.
        """
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""


_show_plainly(globals())
