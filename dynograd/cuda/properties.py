"""What a CUDA device is: its name, capability and size."""

from __future__ import annotations

from typing import NamedTuple

from dynograd.base.hints import DeviceLike
from dynograd.cuda import driver, streams

__all__ = [
    "DeviceProperties",
    "can_device_access_peer",
    "device_count",
    "driver_version",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_bf16_supported",
    "unavailable_reason",
]


def is_available() -> bool:
    """Whether a CUDA device can be used; `unavailable_reason()` says why not.

    Returns:
        True or False.

    >>> device = "cuda" if dynograd.cuda.is_available() else "cpu"
    """
    return driver.known() is not None


def unavailable_reason() -> str:
    """Why `is_available()` is False: no driver, too old a driver, no device, packages that are missing. Empty where it is True.

    Returns:
        A text.

    >>> bool(dynograd.cuda.unavailable_reason()) != dynograd.cuda.is_available()
    True
    """
    return driver.reason()


def device_count() -> int:
    """How many CUDA devices there are; 0 where none can be used.

    Returns:
        An int.

    >>> dynograd.cuda.device_count() >= dynograd.cuda.is_available()
    True
    """
    current = driver.known()
    return 0 if current is None else current.count()


class DeviceProperties(NamedTuple):
    """What `get_device_properties` returns; sizes are in bytes.

    Args:
        name: such as 'NVIDIA H200'.
        major, minor: the compute capability.
        total_memory: of the device.
        multi_processor_count: how many multiprocessors there are.
        warp_size: threads of a warp.
        max_threads_per_multi_processor: threads that one can have at a time.
        shared_memory_per_block, shared_memory_per_block_optin: of a block; that of the second has to be asked for.
        shared_memory_per_multiprocessor, regs_per_multiprocessor: of a multiprocessor; registers have 32 bits.
        L2_cache_size: of the device.
        is_integrated, is_multi_gpu_board: 0 or 1.
        uuid: the name that no other device has.

    >>> if dynograd.cuda.is_available():
    ...     memory = dynograd.cuda.get_device_properties().total_memory
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_multi_processor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    regs_per_multiprocessor: int
    L2_cache_size: int
    is_integrated: int
    is_multi_gpu_board: int
    uuid: str


_properties: dict[int, DeviceProperties] = {}


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Name, capability, memory and sizes of a device.

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Returns:
        `DeviceProperties`.
    Raises:
        DeviceError: there is no such device.

    >>> if dynograd.cuda.is_available():
    ...     properties = dynograd.cuda.get_device_properties(0)
    """
    used = driver.get("get_device_properties")
    index = streams.index_of("get_device_properties", device)
    if index not in _properties:
        sizes = [used.attribute(index, name) for name in _ATTRIBUTES]
        _properties[index] = DeviceProperties._make(
            [used.name(index), *used.capability(index), used.total_memory(index), *sizes, used.uuid(index)]
        )
    return _properties[index]


_ATTRIBUTES = (
    "multiprocessor_count", "warp_size", "max_threads_per_multiprocessor", "max_shared_memory_per_block",
    "max_shared_memory_per_block_optin", "max_shared_memory_per_multiprocessor", "max_registers_per_multiprocessor",
    "l2_cache_size", "integrated", "multi_gpu_board",
)  # fmt: skip


def get_device_name(device: DeviceLike = None) -> str:
    """The device's name, such as 'NVIDIA H200'.

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Returns:
        A text.
    Raises:
        DeviceError: no device can be used.

    >>> if dynograd.cuda.is_available():
    ...     name = dynograd.cuda.get_device_name()
    """
    used = driver.get("get_device_name")
    return used.name(streams.index_of("get_device_name", device))


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """(major, minor) compute capability, such as (9, 0).

    Args:
        device: a CUDA device, its index or name; None is the current one.
    Returns:
        Two ints.
    Raises:
        DeviceError: no device can be used.

    >>> if dynograd.cuda.is_available():
    ...     major, minor = dynograd.cuda.get_device_capability()
    """
    used = driver.get("get_device_capability")
    return used.capability(streams.index_of("get_device_capability", device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 is computed in hardware (capability 8.0); False without a device.

    Args:
        including_emulation: kept for compatibility.
    Returns:
        True or False.

    >>> dynograd.cuda.is_bf16_supported() <= dynograd.cuda.is_available()
    True
    """
    return is_available() and get_device_capability()[0] >= 8


def get_arch_list() -> list[str]:
    """The architectures in this machine. Kernels are compiled for the device at hand, so none are fixed in advance.

    Returns:
        A list such as ['sm_90'].

    >>> dynograd.cuda.get_arch_list() if not dynograd.cuda.is_available() else []
    []
    """
    current = driver.known()
    return [] if current is None else sorted({"sm_{}{}".format(*current.capability(i)) for i in range(current.count())})


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether two devices read each other's memory directly; copies between others go through host memory.

    Args:
        device, peer_device: indices or names.
    Returns:
        True or False.
    Raises:
        DeviceError: there is no such device.

    >>> if dynograd.cuda.is_available():
    ...     direct = dynograd.cuda.can_device_access_peer(0, 0)
    """
    used = driver.get("can_device_access_peer")
    index, peer = (streams.index_of("can_device_access_peer", each) for each in (device, peer_device))
    return index != peer and used.can_access_peer(index, peer)


def driver_version() -> str | None:
    """The CUDA version that the driver offers, such as '12.8'; None without a device.

    Returns:
        A text or None.

    >>> (dynograd.cuda.driver_version() is None) <= (not dynograd.cuda.is_available())
    True
    """
    current = driver.known()
    return None if current is None else f"{current.version() // 1000}.{current.version() % 1000 // 10}"
