"""The driver in use: the machine's own through cuda-bindings, or the emulated one. Chosen when it is first asked for.

`DYNOGRAD_CUDA` decides: unset, the machine's driver where there is one; `emulated` or `emulated:N`, N devices in host memory
(`cuda.emulated`); `off`, none.

Drivers have the methods of `EmulatedDriver`. Streams, modules and functions are ints; events are whatever the driver likes.
Every method that takes a device makes its primary context current in the calling thread first.
"""

from __future__ import annotations

import os
from typing import Any

from dynograd.errors import DeviceError

__all__ = ["get", "is_emulated", "known"]

_driver: Any = None
_reason = ""


def choice() -> str:
    return os.environ.get("DYNOGRAD_CUDA", "").strip().lower()


def is_emulated() -> bool:
    return choice().startswith("emulated")


def known() -> Any:
    """The driver, or None where no device can be used (`reason()` says why)."""
    global _driver, _reason
    if _driver is None and not _reason:
        wanted = choice()
        if wanted in ("off", "0"):
            _reason = "DYNOGRAD_CUDA=off"
        elif wanted.startswith("emulated"):
            from dynograd.cuda.emulated import EmulatedDriver

            _, _, count = wanted.partition(":")
            _driver = EmulatedDriver(int(count or 1))
        else:
            _reason = "no CUDA driver"
    return _driver


def reason() -> str:
    """Why `known()` is None."""
    known()
    return _reason


def get(who: str) -> Any:
    """The driver.

    Raises:
        DeviceError: no device can be used.
    """
    found = known()
    if found is None:
        raise DeviceError(
            f"{who}: no CUDA device is available ({reason()}). Use device='cpu', or choose by dynograd.cuda.is_available()."
        )
    return found


if is_emulated():  # both are read when the compilers are imported
    os.environ["TRITON_INTERPRET"] = os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
