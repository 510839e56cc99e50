"""What went wrong on the device, in words: the driver's error codes with their meaning and the way out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from dynograd.errors import DeviceError

__all__ = ["CudaError", "after_waiting", "describe", "is_sticky", "users_line"]

after_waiting: list[
    Callable[[], None]
] = []  # called each time the host has waited for a device: kernels may have reported


class CudaError(DeviceError):
    """The CUDA driver refused a call, or reports what went wrong in an earlier one.

    Attributes:
        name: the driver's name of the error, such as CUDA_ERROR_ILLEGAL_ADDRESS.
        code: its number.
    """

    def __init__(self, message: str, name: str = "", code: int = 0) -> None:
        super().__init__(message)
        self.name, self.code = name, code


# code: (name, what it means, the way out)
_FAULTS = {
    1: ("INVALID_VALUE", "an argument is outside its range", "This is a bug in dynograd or in a kernel's launch; please report it."),
    2: ("OUT_OF_MEMORY", "the device has no memory left", "Free tensors, use smaller batches, or call dynograd.cuda.empty_cache()."),
    3: ("NOT_INITIALIZED", "CUDA is not usable in this process", "After a fork use multiprocessing's 'spawn' method."),
    4: ("DEINITIALIZED", "the driver is shutting down", "Finish work on the device before the interpreter exits."),
    34: ("STUB_LIBRARY", "libcuda.so is the toolkit's stub", "Take the stub out of LD_LIBRARY_PATH and install the NVIDIA driver."),
    46: ("DEVICE_UNAVAILABLE", "another process has the device for itself", "Look at nvidia-smi; its compute mode may be exclusive."),
    100: ("NO_DEVICE", "no CUDA device is visible", "Look at nvidia-smi and at CUDA_VISIBLE_DEVICES."),
    101: ("INVALID_DEVICE", "there is no such device", "Use an index below dynograd.cuda.device_count()."),
    200: ("INVALID_IMAGE", "the compiled kernel is damaged", "Delete the kernel cache and run again."),
    201: ("INVALID_CONTEXT", "no context is current in this thread", "Use dynograd.cuda.current_stream() before a raw launch."),
    209: ("NO_BINARY_FOR_GPU", "the kernel was compiled for another architecture", "Delete the kernel cache and run again."),
    218: ("INVALID_PTX", "the driver cannot read the kernel", "Update the NVIDIA driver."),
    222: ("UNSUPPORTED_PTX_VERSION", "the kernel is newer than the driver", "Update the NVIDIA driver, or install an older triton."),
    400: ("INVALID_HANDLE", "a stream, event or kernel belongs to another device or is gone", "Use it on the device where it was made."),
    500: ("NOT_FOUND", "the compiled code has no function of that name", "Delete the kernel cache and run again."),
    600: ("NOT_READY", "work is still under way", "Call synchronize() first."),
    700: ("ILLEGAL_ADDRESS", "a kernel read or wrote memory that is not its own", ""),
    701: ("LAUNCH_OUT_OF_RESOURCES", "the kernel needs more registers or shared memory than a block can have", "Use smaller blocks or fewer warps."),
    702: ("LAUNCH_TIMEOUT", "a kernel ran longer than the system allows", "Turn off the display's watchdog, or make the kernel's work smaller."),
    710: ("ASSERT", "an assertion in a kernel failed; its text is on stderr", ""),
    714: ("HARDWARE_STACK_ERROR", "a kernel's stack is damaged", ""),
    715: ("ILLEGAL_INSTRUCTION", "a kernel met an illegal instruction", ""),
    716: ("MISALIGNED_ADDRESS", "a kernel used an address that is not aligned for its type", ""),
    717: ("INVALID_ADDRESS_SPACE", "a kernel used an address of the wrong kind of memory", ""),
    718: ("INVALID_PC", "a kernel jumped to nowhere", ""),
    719: ("LAUNCH_FAILED", "a kernel failed", ""),
    720: ("COOPERATIVE_LAUNCH_TOO_LARGE", "the grid does not fit on the device at once", "Use fewer blocks."),
    800: ("NOT_PERMITTED", "the operation is not permitted", ""),
    801: ("NOT_SUPPORTED", "the device or its driver cannot do this", ""),
    802: ("SYSTEM_NOT_READY", "the system is not ready, for example the fabric manager does not run", "Look at the driver's log."),
    803: ("SYSTEM_DRIVER_MISMATCH", "the driver's library and its kernel module differ", "Restart the machine after the driver's update."),
    804: ("COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility is not for this device", "Update the NVIDIA driver."),
    900: ("STREAM_CAPTURE_UNSUPPORTED", "this cannot be captured in a CUDA graph", "Do it before: reading values, waiting, first uses of a kernel."),
    901: ("STREAM_CAPTURE_INVALIDATED", "an earlier error ended the capture", "Look at the first error inside `with cuda.graph(...)`."),
    904: ("STREAM_CAPTURE_UNJOINED", "a stream that joined the capture was not joined again", "Call `capture_stream.wait_stream(side_stream)` before the end."),
    906: ("STREAM_CAPTURE_IMPLICIT", "the default stream was used during a capture", "Use the streams that take part in the capture."),
    908: ("STREAM_CAPTURE_WRONG_THREAD", "a capture must end in the thread that began it", ""),
    999: ("UNKNOWN", "the driver does not say what went wrong", "Look at the system's log (dmesg) for 'NVRM: Xid'."),
}  # fmt: skip
_STICKY = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719})


def is_sticky(code: int) -> bool:
    """Whether the device's context is lost: every later call in this process fails in the same way."""
    return code in _STICKY


def describe(code: int, who: str, name: str = "", last_kernel: str = "", exact: bool = False) -> CudaError:
    """The error to raise for a driver's `code`. `exact`: the kernel was waited for, so that it is the one at fault."""
    short, meaning, way_out = _FAULTS.get(code, ("", "see the CUDA driver's documentation", ""))
    name = f"CUDA_ERROR_{short}" if short else name or f"CUDA_ERROR_{code}"
    text = f"{who}: CUDA error {name} ({code}): {meaning}."
    if code in _STICKY:
        if not exact:
            text += " It comes from an earlier, asynchronous call"
            text += f"; the kernel launched last was {last_kernel!r}." if last_kernel else "."
            text += " Run again with DYNOGRAD_CUDA_SYNC=1 to learn which kernel and which line."
        text += " CUDA cannot be used any more in this process: restart it; CPU tensors still work."
    elif way_out:
        text += f" {way_out}"
    return CudaError(text, name, int(code))


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def users_line() -> str:
    """The innermost line on the stack that is not dynograd's: `file:line, in function`."""
    frame = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return "an unknown line"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"


def _is_ours(frame: Any) -> bool:
    """Whether a frame runs dynograd's code: a file of the package, or text that it wrote and compiled."""
    name = frame.f_code.co_filename
    module = str(frame.f_globals.get("__name__", "dynograd" if name.startswith("<") else ""))
    if module.partition(".")[0] == "dynograd" or os.path.abspath(name).startswith(_PACKAGE):
        return True
    return name.startswith("<") and module == "builtins"
