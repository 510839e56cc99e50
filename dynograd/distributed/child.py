"""What the launcher starts for each rank: says to the environment which one it is, runs the program, and tells how it ends."""

from __future__ import annotations

import atexit
import faulthandler
import functools
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from dynograd.distributed import starting

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Runs `[-m] program arguments...` as this rank."""
    told = starting.launched()
    rank, size = (told.rank, told.size) if told else (0, 1)
    local = _first("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", default=rank)
    per_host = _first("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE", default=size)
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(size),
        LOCAL_RANK=str(local),
        LOCAL_WORLD_SIZE=str(per_host),
        GROUP_RANK=str(rank // per_host),
    )
    if rank > 0:
        _mark_lines(f"[rank {rank}] ")
    _divide_threads(per_host)
    signal.signal(signal.SIGTERM, _terminated)
    is_module = arguments[0] == "-m"
    arguments = arguments[int(is_module) :]
    sys.argv[:] = arguments
    sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.abspath(arguments[0]))
    code = 0
    try:
        if is_module:
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        if code:
            starting.failed(error)
    except BaseException:
        sys.excepthook = functools.partial(_raised, sys.excepthook)
        raise
    if code:
        _end_all(code)


def _raised(show: Callable[..., object], kind: type, error: BaseException, traceback: TracebackType | None) -> None:
    starting.failed(error)
    error.__traceback__ = _behind(traceback)
    show(kind, error, error.__traceback__)
    _end_all(1)


def _first(*variables: str, default: int) -> int:
    return next((int(os.environ[name]) for name in variables if os.environ.get(name, "").isdigit()), default)


def _divide_threads(processes: int) -> None:
    """Each process of a host gets its part of the cores, unless the program or the user has said how many."""
    from dynograd.kernels.build import threads

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if "OMP_NUM_THREADS" not in os.environ:
        count = max(1, cores // processes)
        os.environ["OMP_NUM_THREADS"] = str(count)
        threads.set_num_threads(count)


def _terminated(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


def _behind(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the program on, without the frames that have started it."""
    at = traceback
    while at is not None and at.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        at = at.tb_next
    return at or traceback


def _end_all(code: int) -> None:
    """Ends the job: the other ranks would wait for this one."""
    sys.stdout.flush()
    sys.stderr.flush()
    _stop_marking()
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(code)
    os._exit(code)


_markers: list[tuple[threading.Thread, int, int]] = []


def _mark_lines(mark: str) -> None:
    """Puts `mark` before each line that this process writes from now on, by whatever means."""
    sys.stdout.flush()
    sys.stderr.flush()
    for target in (1, 2):
        real = os.dup(target)
        reading, writing = os.pipe()
        os.dup2(writing, target)
        os.close(writing)
        if target == 2:
            faulthandler.enable(real)  # it cannot wait for a thread
        thread = threading.Thread(target=_mark, args=(reading, real, mark.encode()), daemon=True)
        thread.start()
        _markers.append((thread, target, real))
    atexit.register(_stop_marking)


def _mark(reading: int, real: int, mark: bytes) -> None:
    rest = b""
    while True:
        data = os.read(reading, 1 << 16)
        *lines, rest = (rest + data).replace(b"\r", b"\n").split(b"\n")
        if not data and rest:
            lines.append(rest)
        text = b"".join([mark + line + b"\n" for line in lines if line.strip()])
        if text:
            os.write(real, text)
        if not data:
            return


def _stop_marking() -> None:
    while _markers:
        thread, target, real = _markers.pop()
        (sys.stdout if target == 1 else sys.stderr).flush()
        os.dup2(real, target)  # closes the pipe, and the thread ends behind the last line
        thread.join(1.0)


if __name__ == "__main__":
    main(sys.argv[1:])
