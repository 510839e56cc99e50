"""The loader's side of its workers: who has which task, what came back, who died, and that nobody is left behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import wait
from typing import Any

from dynograd.data.failures import rebuild
from dynograd.data.fetch import Task, shown
from dynograd.data.transport import BatchReceiver, wait_for
from dynograd.data.worker import Setup, worker_loop
from dynograd.errors import LoaderError, WorkerDied, WorkerMemoryError, user_level

__all__ = ["Crew", "Worker", "default_context"]

_LOOK_AROUND = 0.5  # seconds between two looks whether all workers are alive
_SLOW = 60.0  # seconds after which a batch that does not come is worth a warning
_PATIENCE = 5.0  # seconds to end for a worker that was told to


def default_context() -> Any:
    """What the program chose by `set_start_method`; else fork on Linux, and Python's choice elsewhere.

    Python 3.14 says "forkserver" whether it was chosen or a lock of tqdm's was made: then it is fork too. A loader that shall have it is
    told by `multiprocessing_context="forkserver"`.
    """
    chosen = multiprocessing.get_start_method(allow_none=True)
    if sys.platform == "linux" and (chosen is None or (chosen == "forkserver" and sys.version_info >= (3, 14))):
        chosen = "fork"
    return multiprocessing.get_context(chosen)


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Ctrl-C waits until a process has been started: an interrupt in a child that was just forked would run the rest of the program twice."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Worker:
    """One worker process, as the loader sees it."""

    def __init__(self, context: Any, setup: Setup, crew: Crew) -> None:
        self.id = setup.worker_id
        ours, theirs = context.Pipe(duplex=True)
        self.receiver = BatchReceiver(ours)
        crew.workers.append(self)  # known before the fork, so that the child closes the loader's end
        self.wait = self.receiver.wait
        self.pending: deque[Task] = deque()
        self.stale = 0
        name = f"dynograd-loader-{self.id}"
        self.process = context.Process(target=worker_loop, args=(setup, theirs), name=name, daemon=True)
        try:
            with _interrupts_later():
                self.process.start()
        except BaseException as error:
            if self.process.pid is not None:  # interrupted, and it runs
                raise
            self.process = None
            error.add_note(
                f"DataLoader: worker {self.id} could not be started by {context.get_start_method()!r}. Unless workers are forked, the "
                f"dataset, collate_fn and worker_init_fn must be picklable: defined at the top of a module, no lambda."
            )
            raise
        finally:
            theirs.close()

    def __str__(self) -> str:
        return f"DataLoader worker {self.id} (pid {self.process.pid})"

    @property
    def connection(self) -> Any:
        return self.receiver.connection

    def give(self, task: Task) -> None:
        self.pending.append(task)
        self._send(("task", task, *self.receiver.returned_slots()))

    def start_epoch(self, seed: int, epoch: int | None) -> None:
        """What is still under way belongs to the last epoch: its answers will be thrown away."""
        self.stale += len(self.pending)
        self.pending.clear()
        self._send(("epoch", seed, epoch))

    def _send(self, message: tuple) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # dead: whoever waits for its answer finds out
            self.connection.send(message)

    def stack(self) -> str:
        """Where its loop is at this moment, as text."""
        self._send(("stack",))
        if self.connection.poll(1.0):
            kind, text, _ = self.receiver.receive()
            if kind == "stack":
                return text
        return "(it did not answer: it is inside native code, or the whole process is stopped)\n"

    def doing(self) -> str:
        if self.stale or not self.pending:
            return "while it had no batch of this epoch to make"
        number, indices, _ = self.pending[0]
        what = "samples of its stream" if _is_stream(indices) else f"indices {shown(indices)}"
        more = [other for other, _, _ in list(self.pending)[1:]]
        waiting = (
            f" (and had been given {'batches' if more[1:] else 'batch'} {', '.join(map(str, more))})" if more else ""
        )
        return f"while it worked on batch {number} with {what}{waiting}"

    def death(self) -> WorkerDied:
        self.process.join(_PATIENCE)
        if (failure := self._take_what_was_done()) is not None:
            return self.last_words(failure)
        code = self.process.exitcode
        if code is None:
            how = "closed its pipe without ending"
            hint = "Something in the dataset closes file descriptors that are not its own."
        elif code < 0:
            how = f"was killed by signal {-code} ({_signal_name(-code)})"
            hint = {
                "SIGKILL": "Nobody but the system's out-of-memory killer usually sends it: use fewer workers or smaller batches.",
                "SIGBUS": "Shared memory could not be had: use fewer workers or smaller batches.",
            }.get(
                _signal_name(-code),
                "Native code in the dataset or collate_fn crashed: num_workers=0 and faulthandler show where.",
            )
        else:
            how = f"exited with code {code}"
            hint = "Something in the dataset or collate_fn ended the process; num_workers=0 shows where."
        return self.error(f"{self} {how} {self.doing()}. {hint}", WorkerDied)

    def last_words(self, failure: dict) -> WorkerDied:
        """The error for a MemoryError or `sys.exit` in the worker, which then ends."""
        if failure["name"] == "builtins.SystemExit":
            kind, how = WorkerDied, f"exited by SystemExit: {failure['message']}"
            hint = "Something in the dataset or collate_fn calls sys.exit; raise an exception instead."
        else:
            kind, how = WorkerMemoryError, f"ran out of memory (MemoryError: {failure['message']})"
            hint = "Use fewer workers, smaller batches or a smaller prefetch_factor."
        self.process.join(_PATIENCE)
        error = self.error(f"{self} {how} {self.doing()}. {hint}", kind)
        for note in [*failure["notes"], f"{self}, original traceback:\n{failure['traceback'].rstrip()}"]:
            error.add_note(note)
        return error

    def _take_what_was_done(self) -> dict | None:
        """Throws away what is left in the pipe, so that `pending` begins with what was not done; the worker's last words if it had any."""
        with contextlib.suppress(EOFError, OSError):
            while self.connection.poll(0):
                kind, content, _ = self.receiver.receive(unpack=False)
                if kind == "fatal":
                    return content
                if kind == "stack":
                    continue
                if self.stale:
                    self.stale -= 1
                else:
                    self.pending.popleft()
        return None

    def error(self, text: str, kind: Any = LoaderError) -> Any:
        """An error that a program can ask, too: `worker_id`, `pid`, `exitcode`, `signal`, `indices`, `in_flight`."""
        error = kind(text)
        code = self.process.exitcode
        error.worker_id, error.pid, error.exitcode = self.id, self.process.pid, code
        error.signal = _signal_name(-code) if code is not None and code < 0 else None
        error.in_flight = [indices for _, indices, _ in self.pending]
        error.indices = error.in_flight[0] if error.in_flight and not self.stale else None
        return error


class Crew:
    """The workers of one iterator, and the rules by which tasks are given and answers taken."""

    def __init__(self, setups: list[Setup], context: Any, depth: int, timeout: float, in_order: bool) -> None:
        self.workers: list[Worker] = []
        self.owner: int | None = os.getpid()
        self.timeout = timeout
        self.in_order = in_order
        self.depth = depth
        self.tasks: Iterator[Task] = iter(())
        self._tasks_error: BaseException | None = None
        self._queue: deque[Worker] = deque()
        self._warned = False
        self.failed: int | None = None
        self.is_broken = False  # an answer was lost
        self.ended: list[int] = []
        self.epoch = 0
        _crews.add(self)
        try:
            for setup in setups:
                Worker(context, setup, self)
            sentinels = [worker.process.sentinel for worker in self.workers] if os.name == "posix" else []
            for worker in self.workers:
                worker.wait = wait_for(worker.connection, *sentinels)
        except BaseException:
            self.shut_down(0)
            raise

    def start_epoch(self, tasks: Iterator[Task], seed: int, epoch: int | None) -> None:
        self.epoch += 1
        self.tasks, self._tasks_error = tasks, None
        self.ended.clear()
        self._queue.clear()
        try:
            for worker in self.workers:
                worker.start_epoch(seed, epoch)
            for _ in range(self.depth):
                for worker in self.workers:
                    self._give(worker)
        except BaseException:  # nobody knows which answers are to come
            self.shut_down(1.0)
            raise

    def next(self) -> tuple[int, Any, tuple[int, int, int]]:
        """The next batch: its number, itself, and its counts (see `fetch`).

        Raises:
            StopIteration: there are no more.
            WorkerDied: what its name says; the crew is then shut down.
            LoaderError: one took too long; the crew is then shut down.
            Exception: what the dataset, collate_fn, worker_init_fn or the sampler raised; `failed` is then the batch's number.
        """
        while self._queue:
            self.is_broken = True  # an error from here on loses an answer: those behind it would be taken for others
            worker = self._queue.popleft() if self.in_order else self._first_ready()
            kind, content, counts = self._answer(worker)
            if kind == "fatal":
                raise self._fatal(worker.last_words(content))
            number = worker.pending.popleft()[0]
            if kind == "end":
                self.ended.append(number)
                continue  # it gets no more tasks; the others go on with those that they have and get
            self._give(worker)
            self.is_broken = False
            if kind == "error":
                self.failed = number
                raise rebuild(content, str(worker))
            if kind != "skipped":
                return number, content, counts
        self.is_broken = False
        if self._tasks_error is not None:
            error, self._tasks_error = self._tasks_error, None
            raise error
        raise StopIteration

    def _give(self, worker: Worker) -> None:
        try:
            task = next(self.tasks)
        except StopIteration:
            return
        except Exception as error:  # of the sampler: raised when its turn comes, after the batches before it
            self._tasks_error, self.tasks = error, iter(())
            return
        self._queue.append(worker)
        worker.give(task)

    def _first_ready(self) -> Worker:
        asked = time.monotonic()
        deadline = asked + (self.timeout or float("inf"))
        waiting = {worker.connection: worker for worker in self._queue}
        anything = [*waiting, *[worker.process.sentinel for worker in self.workers]]
        while not (ready := [source for source in wait(anything, _until(deadline)) if source in waiting]):
            self._look_around(self._queue[0], asked, deadline)
        worker = waiting[ready[0]]
        self._queue.remove(worker)
        return worker

    def _answer(self, worker: Worker) -> tuple[str, Any, Any]:
        asked = time.monotonic()
        deadline = asked + (self.timeout or float("inf"))
        while True:
            try:
                while not worker.wait(_until(deadline)):
                    self._look_around(worker, asked, deadline)
                kind, content, counts = worker.receiver.receive(unpack=worker.stale == 0)
            except (EOFError, OSError):
                raise self._fatal(worker.death()) from None
            if kind == "stack":
                continue  # an answer that came after nobody waited for it any more
            if not worker.stale:
                return kind, content, counts
            worker.stale -= 1

    def _look_around(self, worker: Worker, asked: float, deadline: float) -> None:
        now = time.monotonic()
        if now >= deadline:
            text = (
                f"DataLoader timed out after {self.timeout} seconds: {worker} did not answer {worker.doing()}. "
                f"Give it more time by timeout=, or look where it is:\n{worker.stack()}"
            )
            raise self._fatal(worker.error(text))
        for other in self.workers:
            if other.process.exitcode is not None:
                raise self._fatal(other.death())
        if now - asked > _SLOW and not self._warned:
            self._warned = True
            warnings.warn(
                f"{worker} has been silent for {now - asked:.0f} s {worker.doing()}. It is at:\n{worker.stack()}"
                f"DataLoader(..., timeout=seconds) would raise an error.",
                stacklevel=user_level(),
            )
        time.sleep(
            0.002
        )  # a descriptor that says a worker ended a moment before the system does would make this loop spin

    def _fatal(self, error: LoaderError) -> LoaderError:
        self.shut_down(0)
        return error

    def shut_down(self, patience: float = _PATIENCE) -> None:
        """Ends all workers and waits for them: first by closing their pipe, then by SIGTERM, then by SIGKILL."""
        if self.owner != os.getpid():
            return
        self.owner = None
        _crews.discard(self)
        for worker in self.workers:
            worker.receiver.close()
        processes = [worker.process for worker in self.workers if worker.process is not None]
        for ask, seconds in ((None, patience), ("terminate", 0.5), ("kill", _PATIENCE)):
            deadline = time.monotonic() + seconds
            for process in processes:
                if ask is not None and process.is_alive():
                    getattr(process, ask)()
            for process in processes:
                process.join(max(0.0, deadline - time.monotonic()))

    def abandon(self) -> None:
        """In a child forked from the loader's process: these workers are not its own, and it must not keep their pipes open."""
        self.owner = None
        for worker in self.workers:
            worker.receiver.close()


_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


def _abandon_all() -> None:
    for crew in list(_crews):
        crew.abandon()
    _crews.clear()


def _keep_lent_slots_from_reuse() -> None:
    for crew in list(_crews):
        for worker in crew.workers:
            worker.receiver.keep_from_reuse()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_keep_lent_slots_from_reuse, after_in_child=_abandon_all)


def _until(deadline: float) -> float:
    """Seconds to wait before the next look around."""
    return max(0.0, min(_LOOK_AROUND, deadline - time.monotonic()))


def _is_stream(indices: Any) -> bool:
    return indices is None or (isinstance(indices, list) and len(indices) > 0 and indices[0] is None)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
