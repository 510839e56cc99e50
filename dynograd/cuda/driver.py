"""The driver in use: the machine's own through cuda-bindings, or the emulated one. Chosen when it is first asked for.

`DYNOGRAD_CUDA` decides: unset, the machine's driver where there is one; `emulated` or `emulated:N`, N devices in host memory
(`cuda.emulated`); `off`, none. With `DYNOGRAD_CUDA_SYNC=1` each launch is waited for, so that errors name kernel and line.

Drivers have the methods of `EmulatedDriver`. Streams, modules, functions and graphs are ints; events are whatever the driver
likes. Methods that take a device make its primary context current in the calling thread first. The others (launch, copies)
rely on `streams.current_handle(device)`, which does the same and is how their caller got the stream.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

from dynograd.cuda import thread_state
from dynograd.errors import DeviceError, user_level

__all__ = ["check_index", "get", "is_emulated", "known", "reason", "synchronizations"]

at_first_use: list[Callable[[], None]] = []  # what higher layers want done before a device is first used

_driver: Any = None
_reason = ""
_lock = threading.RLock()

_FORKED = (
    "this process was forked after its parent had used CUDA, which CUDA does not survive. Start it with the 'spawn' method "
    "(multiprocessing.get_context('spawn'), DataLoader(multiprocessing_context='spawn')), or use CPU tensors only in workers"
)


def choice() -> str:
    return os.environ.get("DYNOGRAD_CUDA", "").strip().lower()


def is_emulated() -> bool:
    return choice().startswith("emulated")


def known() -> Any:
    """The driver, or None where no device can be used (`reason()` says why)."""
    if _driver is None and not _reason:
        with _lock:
            if _driver is None and not _reason:
                _choose()
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
    driver = _driver if _driver is not None else known()
    if driver is None:
        raise DeviceError(
            f"{who}: no CUDA device is available ({reason()}). Use device='cpu', or choose by dynograd.cuda.is_available()."
        )
    return driver


def check_index(who: str, device: int) -> int:
    """`device`, where there is such a device.

    Raises:
        DeviceError: there is none.
    """
    count = get(who).count()
    if not 0 <= device < count:
        have = "only cuda:0 exists" if count == 1 else f"cuda:0 to cuda:{count - 1} exist"
        raise DeviceError(
            f"{who}: device 'cuda:{device}' was asked for, but {have} (dynograd.cuda.device_count() is {count}). "
            f"Use one of these; CUDA_VISIBLE_DEVICES may hide others."
        )
    return device


def synchronizations() -> int:
    """How often this process has waited for a device: each `synchronize`, and each read of values."""
    return 0 if _driver is None else _driver.waits


captures = 0  # graphs that are being captured in this process: meanwhile no thread may ask whether an event has passed


_read_mode = 0  # what reading a value does beside waiting: 0 nothing, 1 a warning, 2 an error


def about_to_wait(who: str) -> None:
    """Says that the host will wait because somebody reads values; see `set_sync_debug_mode`."""
    if _read_mode == 1:
        warnings.warn(f"{who}: called a synchronizing CUDA operation", UserWarning, stacklevel=user_level())
    elif _read_mode == 2:
        raise DeviceError(
            f"{who}: called a synchronizing CUDA operation, and set_sync_debug_mode('error') forbids that. Keep the value on the "
            f"device, or read it outside of the loop."
        )


def get_sync_debug_mode() -> int:
    """0, 1 or 2: see `set_sync_debug_mode`.

    Returns:
        An int.

    >>> dynograd.cuda.get_sync_debug_mode()
    0
    """
    return _read_mode


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What reading values from a device (`item`, `numpy`, `cpu`) does, beside waiting for it: finds what slows a training step.

    Args:
        debug_mode: "default" or 0, nothing; "warn" or 1; "error" or 2.

    >>> dynograd.cuda.set_sync_debug_mode("default")
    """
    global _read_mode
    modes = {"default": 0, "warn": 1, "error": 2}
    number = modes.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if number not in (0, 1, 2):
        raise ValueError(f"set_sync_debug_mode: expected 'default', 'warn', 'error' or 0, 1, 2, got {debug_mode!r}.")
    _read_mode = number


def _choose() -> None:
    global _driver, _reason
    chosen = choice()
    if chosen in ("off", "0", "none"):
        _reason = f"DYNOGRAD_CUDA={chosen}"
    elif chosen.startswith("emulated"):
        from dynograd.cuda.emulated import EmulatedDriver

        _, _, count = chosen.partition(":")
        _driver = EmulatedDriver(int(count or 1))
    else:
        from dynograd.cuda import bindings

        _driver, _reason = bindings.connect()


def is_forked() -> bool:
    """Whether this process was forked after its parent had used CUDA."""
    return _reason is _FORKED


def _after_fork() -> None:
    """In the child: no handle of the parent's is good any more."""
    global _driver, _reason, _lock
    _lock = threading.RLock()
    if _driver is not None:
        _driver, _reason = None, _FORKED
        thread_state.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
if is_emulated():  # both are read when the compilers are imported
    os.environ["TRITON_INTERPRET"] = os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
