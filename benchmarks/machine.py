"""Where and with what the figures were taken: processor, versions, thread settings, memory of this process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import sys
import tempfile
from datetime import datetime
from importlib import metadata
from pathlib import Path

__all__ = [
    "describe_library",
    "describe_machine",
    "forget_peak",
    "load_average",
    "memory",
    "realtime",
    "thread_settings",
    "use_threads",
    "waited_for_cores",
]

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
STATUS = Path("/proc/self/status")
TURNSTILE = Path(tempfile.gettempdir(), "dynograd-benchmarks-turn")


def thread_settings(threads: int) -> dict[str, str]:
    """The environment of a worker: every pool gets the same number of threads."""
    return {name: str(threads) for name in THREAD_VARIABLES}


def use_threads(library, threads: int) -> None:
    """Asks the library itself too, as a program would."""
    if hasattr(library, "set_num_threads"):
        library.set_num_threads(threads)


@contextlib.contextmanager
def realtime():
    """Runs this process's threads before all ordinary ones (Linux, and only with the right to do so), then lets go again.

    Two runs on one machine take turns: threads at the same real-time priority would shut each other out.
    """
    import fcntl

    with open(TURNSTILE, "w") as turnstile:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        set_scheduler(os.SCHED_FIFO, 1)
        try:
            yield
        finally:
            set_scheduler(os.SCHED_OTHER, 0)


def waited_for_cores() -> float:
    """Seconds that this process's threads, those alive, were ready to run and had to wait so far (Linux; elsewhere 0)."""
    nanoseconds = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            nanoseconds += int(task.read_text().split()[1])
    return nanoseconds / 1e9


def set_scheduler(policy: int, priority: int) -> None:
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setscheduler(int(thread), policy, os.sched_param(priority))


def describe_machine(threads: int) -> dict[str, str]:
    """What is known without starting a library."""
    blas = {name: value for name, value in sorted(os.environ.items()) if name.startswith("OPENBLAS_")}
    blas.setdefault("OPENBLAS_CORETYPE", "not set")
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "processor": processor_name(),
        "cores": f"{usable} usable of {os.cpu_count()}",
        "threads": str(threads),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "environment": ", ".join(f"{name}={value}" for name, value in blas.items()),
        "transparent huge pages": huge_pages(),
        "load average at the start": load_average(),
    }


def describe_library(library) -> dict[str, str]:
    """Versions, and the kernels NumPy's OpenBLAS chose; asked inside a worker."""
    versions = {library.__name__: str(getattr(library, "__version__", "no version"))}
    for name in ("numpy", "numba"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    core = openblas_core()
    return versions | ({"OpenBLAS kernels": core} if core else {})


def processor_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        fields = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", cpuinfo.read_text(), re.MULTILINE))
        if "model name" in fields:
            numbers = [f"{name} {fields[name]}" for name in ("cpu family", "model") if name in fields]
            return f"{fields['model name']} ({', '.join(numbers)})" if numbers else fields["model name"]
    return platform.processor() or platform.machine()


def huge_pages() -> str:
    """The kernel's choice, which decides what fresh memory costs (Linux)."""
    file = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", file.read_text()) if file.exists() else None
    return chosen[1] if chosen else "unknown"


def load_average() -> str:
    return " ".join(f"{load:.2f}" for load in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"


def openblas_core() -> str | None:
    """The name OpenBLAS gives to the kernels in use, asked of the library that NumPy has loaded."""
    import numpy  # noqa: F401

    maps = Path("/proc/self/maps")
    if not maps.exists():
        return None
    for path in sorted(set(re.findall(r"\S*openblas\S*\.so\S*", maps.read_text()))):
        loaded = ctypes.CDLL(path)
        for name in ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename", "openblas_get_corename"):
            if hasattr(loaded, name):
                ask = getattr(loaded, name)
                ask.restype = ctypes.c_char_p
                return ask().decode()
    return None


def memory() -> tuple[float, float]:
    """This process's resident memory and its peak, in MiB. Without /proc only the peak is known, and given twice."""
    if STATUS.exists():
        fields = dict(re.findall(r"^(VmRSS|VmHWM):\s*(\d+) kB$", STATUS.read_text(), re.MULTILINE))
        return int(fields["VmRSS"]) / 1024, int(fields["VmHWM"]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mebibytes = peak / 2**20 if sys.platform == "darwin" else peak / 1024
    return mebibytes, mebibytes


def forget_peak() -> None:
    """Lets the peak start again from what is resident now (Linux; elsewhere the import's own peak stays in)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
