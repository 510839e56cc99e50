"""Python's `multiprocessing` under PyTorch's name, with `spawn` of several processes and sharing strategies that are accepted.

Tensors are sent to other processes as copies; forked processes share those of `share_memory_()`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from dynograd.base import stubs
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.distributed import starting

_python = importlib.import_module("multiprocessing")
globals().update({name: getattr(_python, name) for name in _python.__all__})

__all__ = [
    *_python.__all__,
    "ProcessExitedException",
    "ProcessRaisedException",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_strategy = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes.

    Returns:
        A set.

    >>> sorted(dynograd.multiprocessing.get_all_sharing_strategies())
    ['file_descriptor', 'file_system']
    """
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """What was last set.

    Returns:
        A text.

    >>> dynograd.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Remembers the name and warns, once: tensors are copied whatever it is.

    Args:
        new_strategy: one of `get_all_sharing_strategies()`.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     dynograd.multiprocessing.set_sharing_strategy("file_system")
    """
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(
            f"set_sharing_strategy: expected one of {sorted(get_all_sharing_strategies())}, got {new_strategy!r}."
        )
    _strategy[0] = new_strategy
    stubs.warn_once("multiprocessing.set_sharing_strategy")


class ProcessExitedException(Exception):
    """A process of `spawn` ended with another exit code than 0."""


class ProcessRaisedException(Exception):
    """A process of `spawn` raised; the message has its traceback."""


class _Context:
    def __init__(self, processes: list[Any], failures: Any) -> None:
        self.processes, self._failures = processes, failures

    def pids(self) -> list[int]:
        """Numbers of the processes."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Waits for all; one that fails ends the others and raises. False when time is up first."""
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
            code = self.processes[place].exitcode
            raise ProcessExitedException(f"process {place} terminated with exit code {code}") from None
        raise ProcessRaisedException(f"-- Process {place} terminated with the following error:\n{text}")


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
    context = _python.get_context(start_method)
    processes, failures = [], []
    for place in range(nprocs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, place, args, sender), daemon=daemon)
        process.start()
        sender.close()
        processes.append(process)
        failures.append(receiver)
    started = _Context(processes, failures)
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


_show_plainly(globals())
