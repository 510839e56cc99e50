"""What runs in a worker process: a plain loop that takes tasks from a pipe and sends batches back.

A thread beside the loop listens to the pipe. It keeps the loader from ever waiting for a busy worker, answers when the loader
asks where the loop is, and ends the process when the loader or its program is gone, even if a sample hangs.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynograd.base import devices
from dynograd.base.random_streams import default_generator
from dynograd.data.failures import describe
from dynograd.data.seeding import Seeder, make_seedable, seed_all
from dynograd.kernels.build import blas, threads
from dynograd.kernels.small import few_cpu

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from queue import SimpleQueue

__all__ = ["Setup", "WorkerInfo", "get_worker_info", "worker_loop"]

GRACE = 5.0
"""Seconds in which a worker may finish the sample it is at after the loader was closed; none if the program died."""

_PARENT_CHECK = 2.0
_info: WorkerInfo | None = None


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker may want to know; `dataset` is its own copy, `seed` changes with the epoch.

    Args:
        id: the worker's number, from 0.
        num_workers: how many there are.
        seed: of its epoch.
        dataset: its copy of the data set.

    >>> dynograd.data.WorkerInfo(id=0, num_workers=2, seed=1, dataset=[1, 2]).num_workers
    2
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a DataLoader: its id, num_workers, seed and copy of the dataset. Elsewhere None.

    Returns:
        WorkerInfo, or None.

    >>> get_worker_info() is None
    True
    """
    return _info


@dataclass
class Setup:
    """All that a worker is given when it starts."""

    worker_id: int
    num_workers: int
    dataset: Any
    collate_fn: Callable
    batched: bool
    drop_last: bool
    worker_init_fn: Callable | None
    seed: int


def worker_loop(setup: Setup, connection: Connection) -> None:
    """Answers every task with one message, in order, until the pipe is closed. New tensors are on the CPU: a forked process cannot use CUDA.

    It gets ("epoch", seed, epoch of the dataset) and ("task", task, slots that are free again, slots to forget); it sends ("batch", batch),
    ("end", None), ("skipped", None), ("error", what `describe` gave) or ("fatal", the same), after which it ends.
    """
    with devices.cpu:
        _answer_tasks(setup, connection)


def _answer_tasks(setup: Setup, connection: Connection) -> None:
    from queue import SimpleQueue

    from dynograd.data.fetch import END, SKIPPED, Stop, Stopped, make_fetch
    from dynograd.data.transport import BatchSender

    _prepare_process()
    sender = BatchSender(connection)
    inbox: SimpleQueue = SimpleQueue()
    stop = Stop()
    threading.Thread(target=_listen, args=(connection, inbox, sender, stop), daemon=True).start()
    failure = _initialize(setup)
    seeder = Seeder()
    fetch: Any = None
    while (message := inbox.get()) is not None:
        kind, *content = message
        counts = None
        if kind == "epoch":
            options = (setup.collate_fn, setup.batched, setup.drop_last, content[0], setup.worker_id, stop, seeder)
            fetch = make_fetch(setup.dataset, *options, sender.slots.empty)
            failure = failure or _start_epoch(setup, *content)
            continue
        answer: tuple[str, Any]
        try:
            if kind == "broken":
                raise content[0]
            task, freed, dropped = content
            sender.slots.take_back(freed, dropped)
            answer = ("error", failure) if failure else ("batch", fetch(task))
            if answer[1] is END:
                answer = ("end", None)
            elif answer[1] is SKIPPED:
                answer = ("skipped", None)
            counts = fetch.counts
        except Stopped:
            return
        except (MemoryError, SystemExit) as error:
            answer = ("fatal", describe(error))
        except BaseException as error:
            answer = ("error", describe(error))
        if not _sent(sender, answer[0], answer[1], counts) or answer[0] == "fatal":
            return


def _sent(sender: Any, kind: str, value: Any, counts: Any) -> bool:
    """Whether somebody was there to take the answer; one that cannot be pickled is answered by that error."""
    try:
        sender.send(kind, value, counts)
    except (BrokenPipeError, ConnectionResetError):
        return False
    except Exception as error:
        error.add_note("DataLoader: raised by pickling the batch that collate_fn returned, to send it to the program")
        return _sent(sender, "fatal" if isinstance(error, MemoryError) else "error", describe(error), None)
    return True


def _listen(connection: Connection, inbox: SimpleQueue, sender: Any, stop: Any) -> None:
    from dynograd.data.transport import wait_for

    parent, main = os.getppid(), threading.main_thread().ident or 0
    wait = wait_for(connection)
    try:
        while True:
            while not wait(_PARENT_CHECK):
                if os.getppid() != parent:
                    raise EOFError
            try:
                message = connection.recv()
            except (EOFError, OSError):
                raise
            except BaseException as error:
                message = ("broken", error)  # a task that cannot be unpickled here
            if message[0] == "stack":
                sender.say("stack", "".join(traceback.format_stack(sys._current_frames()[main])))
            else:
                inbox.put(message)
    except (EOFError, OSError):
        pass
    stop.requested = True
    inbox.put(None)
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline and os.getppid() == parent:
        time.sleep(0.1)
    os._exit(1)


def _prepare_process() -> None:
    """Leaves interrupts to the program, ends by SIGTERM whatever the program does then, computes in one thread and copies by NumPy."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked while this process was started
    gc.freeze()  # what was inherited is not walked again, so its pages stay shared
    default_generator.__setstate__(("cpu", 0, 0))  # with a lock that no thread of the parent can have been holding
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    if "numba" not in sys.modules:
        os.environ["NUMBA_NUM_THREADS"] = "1"
    threads.serial_from_now_on()
    few_cpu.leave_few_to_numpy()
    blas.set_threads_of_process(1)


def _initialize(setup: Setup) -> dict | None:
    """Seeds, tells `get_worker_info`, and calls worker_init_fn; the failure of that, to be sent instead of batches."""
    global _info
    make_seedable()
    seed_all(setup.seed + setup.worker_id)
    _info = WorkerInfo(setup.worker_id, setup.num_workers, setup.seed + setup.worker_id, setup.dataset)
    try:
        if setup.worker_init_fn is not None:
            setup.worker_init_fn(setup.worker_id)
    except BaseException as error:
        error.add_note("DataLoader: raised by worker_init_fn")
        return describe(error)
    return None


def _start_epoch(setup: Setup, seed: int, epoch: int | None) -> dict | None:
    """A persistent worker sees a new seed, and the epoch that `dataset.set_epoch` was told in the program's process."""
    global _info
    _info = WorkerInfo(setup.worker_id, setup.num_workers, seed + setup.worker_id, setup.dataset)
    try:
        if epoch is not None and setup.dataset.epoch != epoch:
            setup.dataset.set_epoch(epoch)
    except BaseException as error:
        error.add_note("DataLoader: raised by dataset.set_epoch")
        return describe(error)
    return None
