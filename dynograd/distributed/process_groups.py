"""A group of processes: its engine, its members' ranks in the world, and the order in which it does what it is asked.

Collectives of a group run one after another in the order of the calls. One called with `async_op=True` is done by a thread of the group; a
call that waits is done at once where nothing is before it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

from dynograd.autograd.nodes import user_line
from dynograd.distributed.communicators.protocol import Communicator, Message
from dynograd.errors import RankError

__all__ = ["ProcessGroup", "Work", "as_rank", "seconds_of", "world"]


def seconds_of(timeout: timedelta | float | None, default: float) -> float:
    """A time to wait, in seconds."""
    if timeout is None:
        return default
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


class Work:
    """The handle of a collective called with `async_op=True`.

    Args:
        future: of what it gives, and of where that is ready on a GPU.
        join: makes the caller's stream wait for that.
        call, line: what it is, and where it was called.
        results: the tensors that it writes.

    >>> dynograd.distributed.init_process_group()
    >>> work = dynograd.distributed.barrier(async_op=True)
    >>> work.wait()
    True
    >>> dynograd.distributed.destroy_process_group()
    """

    def __init__(
        self,
        future: Future[tuple[Any, Any]],
        join: Callable[[Any], None],
        call: str,
        line: str,
        results: Sequence[Any] = (),
    ) -> None:
        self._future, self._join, self._call, self._line, self._results = future, join, call, line, results

    def is_completed(self) -> bool:
        """Whether it is done, well or not.

        Returns:
            True or False.
        """
        return self._future.done() and (self._future.exception() is not None or self._is_there())

    def _is_there(self) -> bool:
        done = self._future.result()[1]
        return done is None or bool(done.query())

    def is_success(self) -> bool:
        """Whether it is done, and went well.

        Returns:
            True or False.
        """
        return self._future.done() and self._future.exception() is None

    def exception(self) -> BaseException | None:
        """What went wrong, or None.

        Returns:
            An error.
        """
        return self._future.exception() if self._future.done() else None

    def source_rank(self) -> int:
        """From whom a receive got what it got.

        Returns:
            A rank in the group.
        """
        return int(self._future.result()[0])

    def result(self) -> list[Any]:
        """The tensors that it writes, when it is done.

        Returns:
            A list.
        """
        self.wait()
        return list(self._results)

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Waits until it is done, and raises what went wrong. On a GPU the caller's stream waits, and the host does not.

        Args:
            timeout: in seconds, or a `timedelta`; None is that of the group.
        Returns:
            True.
        Raises:
            RankError: another process ended, does not come, or called something else.
            TimeoutError: it took longer than `timeout`.
        """
        limit = None if timeout is None else seconds_of(timeout, 0.0)
        if not futures.wait([self._future], limit).done:
            raise TimeoutError(f"wait: {self._call} at {self._line} is not done after {limit:g} s.")
        self._join(self._future.result()[1])
        return True


class ProcessGroup:
    """Processes that do things together.

    Args:
        communicator: moves arrays between them.
        ranks: their ranks in the world, in order.
        backend: the name that it was made with.
        timeout: how long they wait for each other, in seconds.

    >>> dynograd.distributed.init_process_group()
    >>> group = dynograd.distributed.group.WORLD
    >>> dynograd.distributed.destroy_process_group()
    >>> group.rank(), group.size()
    (0, 1)
    """

    def __init__(self, communicator: Communicator, ranks: Sequence[int], backend: str, timeout: float) -> None:
        self.communicator: Communicator | None = communicator
        self.ranks, self.backend, self.timeout = list(ranks), backend, timeout
        self._rank, self._size = communicator.rank, communicator.size
        self._executor: futures.ThreadPoolExecutor | None = None
        self._last: Work | None = None
        self._failure: RankError | None = None  # what comes behind it would wait for nobody
        self.outbox: list[Message] = []  # copies that are on their way

    def rank(self) -> int:
        """The place of this process.

        Returns:
            A number from 0.
        """
        return self._rank

    def size(self) -> int:
        """How many processes there are.

        Returns:
            A number.
        """
        return self._size

    def name(self) -> str:
        """The name of the backend.

        Returns:
            A text.
        """
        return self.backend

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.backend}: rank {self._rank} of {self._size}>"

    def __deepcopy__(self, memo: object) -> ProcessGroup:
        return self  # copies of a module are of the same processes

    def __reduce__(self) -> tuple:
        raise TypeError(
            "pickle: a ProcessGroup, and a module that has one, belong to running processes and cannot be pickled. Save states: "
            "model.module.state_dict() of a DistributedDataParallel, get_model_state_dict(model) of a module that is divided."
        )

    def has_free_cores(self) -> bool:
        """Whether the host has more cores than its processes use: a thread can then move numbers while they compute."""
        from dynograd.kernels.build import threads

        if not hasattr(os, "sched_getaffinity"):
            return False
        here = int(os.environ.get("LOCAL_WORLD_SIZE", self._size))
        return len(os.sched_getaffinity(0)) > here * threads.get_num_threads()

    def run(
        self,
        call: str,
        task: Callable[[Communicator], Any],
        *,
        async_op: bool = False,
        is_collective: bool = True,
        results: Sequence[Any] = (),
    ) -> Any:
        """Does something together with the others, in its turn.

        Args:
            call: what it is; the same text in all processes, or they are told that they differ.
            task: a function of the engine.
            async_op: whether it is done by a thread of the group.
            is_collective: whether all processes take part.
            results: the tensors that it writes.
        Returns:
            What `task` gives; a `Work` with `async_op`.
        Raises:
            RankError: another process ended, does not come, or called something else.
        """
        communicator = self.communicator
        if communicator is None:
            raise RuntimeError(
                f"{call}: the group was destroyed. Make another one with init_process_group or new_group."
            )
        line = user_line()
        mark = communicator.mark()

        def turn() -> tuple[Any, Any]:
            if not is_collective:
                return task(communicator), None
            if self._failure is not None:
                raise self._failure
            try:
                communicator.begin(call, line)
                with communicator.turn(mark):
                    value = task(communicator)
                communicator.end()
            except RankError as error:  # the traceback of the user's call says enough
                self._failure = error
                communicator.abort()
                raise error.with_traceback(None) from None
            return value, communicator.done()

        waiting = self._last is not None and not self._last.is_completed()
        if not async_op and not waiting:
            value, done = turn()
            communicator.join(done)
            return value
        if self._executor is None:
            self._executor = futures.ThreadPoolExecutor(1, f"collectives of {self!r}")
        self._last = Work(self._executor.submit(turn), communicator.join, call, line, results)
        if async_op:
            return self._last
        self._last.wait()
        return self._last._future.result()[0]

    def close(self) -> None:
        """Waits for what is under way, and gives back what the group holds."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
        for message in self.outbox:
            message.wait()
        self.outbox.clear()
        communicator, self.communicator = self.communicator, None
        if communicator is not None:
            communicator.close()


class _World(threading.local):
    """The default group: one of the program, another one for a thread that stands for a process."""

    is_simulated = False
    group: ProcessGroup | None = None


class _Worlds:
    def __init__(self) -> None:
        self._of_program: ProcessGroup | None = None
        self._of_thread = _World()

    def get(self) -> ProcessGroup | None:
        """The default group, or None."""
        return self._of_thread.group if self._of_thread.is_simulated else self._of_program

    @property
    def is_simulated(self) -> bool:
        """Whether this thread is a process of its own."""
        return self._of_thread.is_simulated

    def set(self, group: ProcessGroup | None) -> None:
        """Makes a group the default one."""
        if self._of_thread.is_simulated:
            self._of_thread.group = group
        else:
            self._of_program = group

    @contextlib.contextmanager
    def simulated(self, group: ProcessGroup) -> Iterator[None]:
        """A context in which this thread is a process of its own."""
        before = self._of_thread.is_simulated, self._of_thread.group
        self._of_thread.is_simulated, self._of_thread.group = True, group
        try:
            yield
        finally:
            self._of_thread.is_simulated, self._of_thread.group = before


world = _Worlds()


def as_rank(who: str, name: str, rank: Any, size: int) -> int:
    """A rank of a group, checked."""
    if isinstance(rank, bool) or not hasattr(rank, "__index__"):
        raise TypeError(f"{who}: expected {name} to be a rank (0 to {size - 1}), got {rank!r}.")
    place = rank.__index__()
    if not 0 <= place < size:
        last = "which has rank 0 alone" if size == 1 else f"which has the ranks 0 to {size - 1}"
        raise ValueError(f"{who}: {name}={place} is not part of the group, {last}.")
    return int(place)
