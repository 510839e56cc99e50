"""`torch.multiprocessing.spawn`: one function in several processes, whose errors come back with their tracebacks."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable
from typing import Any

from dynograd.distributed import starting

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process of `spawn` failed.

    Args:
        msg: what happened.
        error_index: the process's place.
        pid: its number.
    """

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessExitedException(ProcessException):
    """A process of `spawn` ended with another exit code than 0.

    Args:
        msg, error_index, error_pid: as of `ProcessException`.
        exit_code: the code.
        signal_name: of the signal that ended it, if one did.
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


class ProcessRaisedException(ProcessException):
    """A process of `spawn` raised; the message has its traceback."""


class ProcessContext:
    """The processes that `start_processes` has started.

    Args:
        processes: of `multiprocessing`.
        failures: the ends of pipes that carry their tracebacks.

    >>> dynograd.multiprocessing.ProcessContext([], []).join()
    True
    """

    def __init__(self, processes: list[Any], failures: Any) -> None:
        self.processes, self._failures = processes, failures

    def pids(self) -> list[int]:
        """Numbers of the processes."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Waits for all; one that fails ends the others and raises.

        Args:
            timeout: seconds to wait for the next one; None waits for ever.
        Returns:
            Whether all have ended.
        """
        connection = importlib.import_module("multiprocessing.connection")
        waiting = {process.sentinel: place for place, process in enumerate(self.processes)}
        while waiting:
            ended = connection.wait(list(waiting), timeout)
            if not ended:
                return False
            for sentinel in ended:
                place = waiting.pop(sentinel)
                self.processes[place].join()
                if self.processes[place].exitcode:
                    self._fail(place)
        return True

    def _fail(self, place: int) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()
        try:
            text = self._failures[place].recv()
        except EOFError:  # it ended without a word
            code, pid = self.processes[place].exitcode, self.processes[place].pid
            if code < 0:
                name = signal.Signals(-code).name
                text = f"process {place} terminated with signal {name}"
                raise ProcessExitedException(text, place, pid, code, name) from None
            raise ProcessExitedException(
                f"process {place} terminated with exit code {code}", place, pid, code
            ) from None
        text = f"-- Process {place} terminated with the following error:\n{text}"
        raise ProcessRaisedException(text, place, self.processes[place].pid)


def _run(fn: Any, place: int, args: tuple, failures: Any) -> None:
    try:
        fn(place, *args)
    except Exception:
        failures.send(importlib.import_module("traceback").format_exc())
        raise SystemExit(1) from None


def start_processes(
    fn: Callable[..., Any],
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """As `spawn`, with another start method.

    Args:
        fn: a function that a module has, so that it can be sent.
        args: a tuple of its further arguments.
        nprocs: how many processes.
        join: wait for them.
        daemon: end them with this program.
        start_method: "spawn", "fork" or "forkserver".
    Returns:
        None, or a context with `join()` and `pids()`.

    >>> if __name__ == "__main__":  # doctest: +SKIP
    ...     dynograd.multiprocessing.start_processes(train, args=(settings,), nprocs=4, start_method="fork")
    """
    context = importlib.import_module("multiprocessing").get_context(start_method)
    processes, failures = [], []
    for place in range(nprocs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, place, args, sender), daemon=daemon)
        process.start()
        sender.close()
        processes.append(process)
        failures.append(receiver)
    started = ProcessContext(processes, failures)
    return started.join() and None if join else started


def spawn(
    fn: Callable[..., Any],
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Runs `fn(i, *args)` in `nprocs` processes; None after all have ended, or with `join=False` their context.

    Processes that are to make a group are started by `python -m dynograd.run -n 4 train.py`, which is known to MPI: in them `spawn` of as many
    processes calls `fn` itself, with the rank.

    Args:
        fn: a function that a module has, so that it can be sent.
        args: a tuple of its further arguments.
        nprocs: how many processes.
        join: wait for them.
        daemon: end them with this program.
        start_method: "spawn", "fork" or "forkserver".
    Returns:
        None, or a context with `join()` and `pids()`.
    Raises:
        ProcessRaisedException: one raised; the others are ended.
        ProcessExitedException: one ended otherwise.

    >>> if __name__ == "__main__":  # doctest: +SKIP
    ...     dynograd.multiprocessing.spawn(train, args=(settings,), nprocs=4)
    """
    told = starting.launched() if starting.BOARD in os.environ else None
    if told is not None and told.size == nprocs > 1:
        fn(told.rank, *args)
        return None
    return start_processes(fn, args, nprocs, join, daemon, start_method)
