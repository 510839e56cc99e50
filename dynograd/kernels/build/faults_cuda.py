"""Indices outside their range on a GPU: found by the kernels that use them, reported when the host next looks.

Asking the device whether all indices are right would make every embedding wait for it. So kernels leave out what lies outside
(nothing is read or written there, zeros are read) and write which value it was, and whose (its *site*), to a word of host memory
that the device can reach. The host looks at the word, which costs nothing, when it next uses an index and whenever it has waited
for the device (`item`, `numpy`, `cuda.synchronize`). With DYNOGRAD_CUDA_SYNC=1 ops look before they go on, as on the CPU.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

import numpy

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.cuda import driver, faults
from dynograd.errors import IndexRangeError

_INT64 = numpy.dtype(numpy.int64)
_SITES = 1 << 16  # as many fit into the lower bits of the word
_texts: dict[int, str] = {}
_numbers: dict[tuple[Any, ...], int] = {}
_words: dict[int, Any] = {}
_lock = threading.Lock()


class _Announced(threading.local):
    """What ops have said of indices that kernels will use next: the site by the size of the dim."""

    def __init__(self) -> None:
        self.sites: dict[int, int] = {}


_announced = _Announced()


class _Word:
    """Eight bytes of host memory that the device writes to; looks like a block of device memory."""

    def __init__(self, device: int) -> None:
        self.device, self.nbytes = device, 8
        self.pointer = driver.get("faults").allocate_pinned(8)
        self.host = ctypes.c_int64.from_address(self.pointer)
        self.host.value = 0
        self.array = CudaArray(self, self.pointer, (1,), (8,), _INT64)


def word(device: int) -> CudaArray:
    """Where kernels on `device` write `value * 2**16 + site` of an index that is out of range."""
    fault_word = _words.get(device)
    if fault_word is None:
        with _lock:
            fault_word = _words.setdefault(device, _Word(device))
    return fault_word.array


def immediate() -> bool:
    """Whether ops wait for the device to check their indices (DYNOGRAD_CUDA_SYNC=1)."""
    return any([os.environ.get(name, "0") not in ("", "0") for name in ("DYNOGRAD_CUDA_SYNC", "CUDA_LAUNCH_BLOCKING")])


def number_of(who: str, low: int, high: int) -> int:
    """The site of an index of `who` that must lie in low <= index < high."""
    key = (who, low, high)
    number = _numbers.get(key)
    if number is None:
        with _lock:
            number = 1 + len(_numbers) % (_SITES - 1)
            valid = f"valid are {low} to {high - 1}" if high > low else "there is nothing to index"
            _texts[number] = f"is out of bounds for a dimension of size {high}: {valid}"
            _texts[number] = f"{who}: index {{}} {_texts[number]}."
            _numbers[key] = number
    return number


def announce(who: str, low: int, high: int) -> None:
    """Names the op that will hand an index to a kernel next, into a dim of size `high`."""
    sites = _announced.sites
    if len(sites) > 8:  # of ops that failed before their kernel
        sites.clear()
    sites[high] = number_of(who, low, high)


def site(who: str, index: Any, low: int, high: int) -> int:
    """The site for a kernel that uses `index`: what was announced for it, else `who`. Reports what has been found before."""
    fault_word = _words.get(index.device_index)
    if fault_word is not None and fault_word.host.value:
        check(index.device_index)
    return _announced.sites.pop(high, 0) or number_of(who, low, high)


def check(device: int | None = None) -> None:
    """Raises IndexRangeError when a kernel that has run on `device` (None: any) met an index outside its range."""
    for number, fault_word in list(_words.items()):
        if device is None or number == device:
            packed = fault_word.host.value
            if packed:
                fault_word.host.value = 0
                text = _texts.get(packed & (_SITES - 1), "index {} is out of bounds.")
                raise IndexRangeError(
                    f"{text.format(packed >> 16)} Found on cuda:{number}, after the call; DYNOGRAD_CUDA_SYNC=1 raises in it."
                )


faults.after_waiting.append(check)
