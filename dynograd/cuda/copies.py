"""Copies between host and devices on the current stream, without waiting where that can be.

The driver copies pageable memory in its own time, and may make the host wait for all that is on the stream. So what is pageable
goes through pinned memory first (`STAGED` bytes at a time), and the host goes on as soon as it has been read.
"""

from __future__ import annotations

import threading
from typing import Any

from dynograd.cuda import driver, pinned, streams
from dynograd.cuda.thread_state import current
from dynograd.errors import DeviceError

__all__ = ["between", "fill", "from_host", "to_host", "within"]

STAGED = 1 << 24  # a quarter of a millisecond on a PCIe 5 link: long enough to hide the next piece's reading
IN_FLIGHT = 4
SMALL = 1 << 14
RING = 1 << 18


def from_host(
    target: int,
    source: int,
    nbytes: int,
    device: int,
    block: pinned.PinnedBlock | None = None,
    constant: bool = False,
) -> None:
    """Copies host memory to `device`; the source may be changed when this returns, unless it is the pinned `block`.

    Does not wait for the device up to 64 MiB of pageable memory. In a capture, what is `constant` is kept with the graph, and each
    replay copies it as it was; else only pinned memory can be copied.
    """
    if not nbytes:
        return
    stream, used = streams.current_handle(device), driver.get("to")
    if block is not None:
        used.copy_to_device(target, source, nbytes, stream)
        if device not in current.captures:
            block.used_on(device, stream)
        return
    if device in current.captures:
        if constant:
            kept = pinned.allocate(nbytes)
            pinned.move(kept.pointer, source, nbytes)
            used.copy_to_device(target, kept.pointer, nbytes, stream)
            current.captures[device].hosts.append(kept)
            return
        raise DeviceError(
            "to: a copy from host memory cannot be captured in a CUDA graph, which would read it again at each replay. "
            "Copy into a tensor on the device before the capture, or use pin_memory() and change its values between replays."
        )
    if nbytes <= SMALL:
        _from_ring(target, source, nbytes, device, stream)
        return
    flying: list[Any] = []
    for start in range(0, nbytes, STAGED):
        size = min(STAGED, nbytes - start)
        if len(flying) == IN_FLIGHT:
            driver.get("to").synchronize_event(*flying[0].fences[-1])
            flying.pop(0)
        staged = pinned.allocate(size)
        pinned.move(staged.pointer, source + start, size)
        stream = streams.current_handle(device)  # asking after another device's events makes that one current
        used.copy_to_device(target + start, staged.pointer, size, stream)
        staged.used_on(device, stream)
        flying.append(staged)


def to_host(
    target: int, source: int, nbytes: int, device: int, block: pinned.PinnedBlock | None = None, wait: bool = True
) -> None:
    """Copies device memory to the host and waits for it. With `wait=False` into a pinned `block`, the caller waits."""
    if not nbytes:
        return
    if device in current.captures and (block is None or wait):
        raise DeviceError(
            "cpu: reading values cannot be captured in a CUDA graph, because the host would have to wait. "
            "Read them after the replay."
        )
    stream, used = streams.current_handle(device), driver.get("cpu")
    if wait and driver._read_mode:
        driver.about_to_wait("cpu")
    if block is not None:
        used.copy_to_host(target, source, nbytes, stream)
        if device not in current.captures:
            block.used_on(device, stream)
        if wait:
            used.synchronize_stream(device, stream)
    elif nbytes <= STAGED:
        staged = _scratch.block if nbytes <= SMALL else pinned.allocate(nbytes)
        if staged is None:
            staged = _scratch.block = pinned.allocate(SMALL)
        stream = streams.current_handle(device)  # as in from_host
        used.copy_to_host(staged.pointer, source, nbytes, stream)
        used.synchronize_stream(device, stream)
        pinned.move(target, staged.pointer, nbytes)
    else:
        used.copy_to_host(target, source, nbytes, stream)
        used.synchronize_stream(device, stream)


class _Ring:
    """Pinned memory that small copies on one stream fill from its start to its end; one event then guards all of them."""

    __slots__ = ("block", "place")

    def __init__(self) -> None:
        self.block, self.place = pinned.allocate(RING), 0


class _Scratch(threading.local):
    """This thread's pinned memory for small reads, each of which is over before the next."""

    block: pinned.PinnedBlock | None = None


_rings: dict[tuple[int, int], _Ring] = {}
_scratch = _Scratch()
_lock = threading.Lock()


def _from_ring(target: int, source: int, nbytes: int, device: int, stream: int) -> None:
    with _lock:
        ring = _rings.get((device, stream))
        if ring is None or ring.place + nbytes > RING:
            fresh = _Ring()
            if ring is not None:
                ring.block.used_on(device, stream)
            ring = _rings[device, stream] = fresh
        staged = ring.block.pointer + ring.place
        ring.place += (nbytes + 63) & ~63
        pinned.move(staged, source, nbytes)
        driver.get("to").copy_to_device(target, staged, nbytes, streams.current_handle(device))  # as in from_host


def release() -> None:
    """Gives up the pinned memory that is kept for small copies; it is free when these are done."""
    with _lock:
        while _rings:
            (device, stream), ring = _rings.popitem()
            ring.block.used_on(device, stream)
    _scratch.block = None


def between(target: int, to: int, source: int, of: int, nbytes: int) -> None:
    """Copies from device `of` to device `to`, in the order of the current streams of both; the host does not wait."""
    if to == of:
        within(target, source, nbytes, of)
    elif nbytes:
        there, here = streams.current_handle(to), streams.current_handle(of)
        streams.order((to, there), (of, here))  # the target's memory may still be in use there
        driver.get("to").copy_peer(target, to, source, of, nbytes, here)
        streams.order((of, here), (to, there))


def within(target: int, source: int, nbytes: int, device: int) -> None:
    """Copies on the device."""
    if nbytes:
        driver.get("copy").copy_within(target, source, nbytes, streams.current_handle(device))


def fill(target: int, value: int, nbytes: int, device: int) -> None:
    """Sets bytes."""
    if nbytes:
        driver.get("fill").fill_bytes(target, value, nbytes, streams.current_handle(device))
