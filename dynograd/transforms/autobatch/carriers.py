"""What carries the examples of `batched`: threads that take turns, or greenlets where the package `greenlet` is installed.

Both do the same: of all examples only one runs at a time; where it parks, the next one goes on. A greenlet's turn costs 1.5 us, a
thread's 5 us on one core and 15 to 80 us where the next thread wakes on another one. Both are kept for the next call, and one thread
runs example after example as long as none of them parks.
"""

from __future__ import annotations

import contextvars
import functools
import importlib
import os
import sys
import threading
from typing import Any

try:
    import greenlet
except ImportError:  # the threads do the same
    greenlet = None


_KEPT = 512  # idle threads, or greenlets of a thread
_LOOK = 0.5  # seconds after which the caller looks whether a signal has come just before it began to wait
_PATIENCE = 2.0  # seconds that an interrupted call waits for the running example to reach its next decision


class Stopped(BaseException):
    """Raised in a parked example whose call has been given up, so that its `finally` clauses run."""


def carrier_for(run: Any) -> Any:
    return Threads(run) if greenlet is None else Greenlets(run)


# --- what a thread has of its own ----------------------------------------------------------------------------------------------------

# Modes and stacks of scopes that belong to a thread: every example has its own.
_STATES = (
    ("dynograd.autograd.modes", "MODES"),
    ("dynograd.autograd.nodes", "asked"),
    ("dynograd.base.devices", "_local"),
    ("dynograd.base.random_streams", "_places"),
    ("dynograd.tensor.graphs", "_state"),
    ("dynograd.amp.autocasting", "STATE"),
    ("dynograd.kernels.build.batch_invariance", "_of_thread"),
    ("dynograd.kernels.build.kernel_cache", "_of_thread"),
    ("dynograd.interpreter.override_protocol", "STATE"),
    ("dynograd.transforms.batching.batched", "_active"),
    ("dynograd.transforms.duals", "_active"),
    ("dynograd.transforms.forward_ad", "_levels"),
)


@functools.cache
def _owners() -> list[Any]:
    return [getattr(importlib.import_module(module), name) for module, name in _STATES]


def states_of_thread() -> list[dict[str, Any]]:
    """The calling thread's own states, in which the modes are looked up."""
    return [vars(owner) for owner in _owners()]


def copied(states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Such states as they are now."""
    result = [state.copy() for state in states]
    for setting in result:
        for name, value in setting.items():
            if type(value) is list or type(value) is dict:
                setting[name] = value.copy()
    return result


def put(live: list[dict[str, Any]], states: list[dict[str, Any]]) -> None:
    """Makes a thread's own states those."""
    for setting, state in zip(live, states, strict=True):
        setting.clear()
        setting.update(state)


# --- greenlets -----------------------------------------------------------------------------------------------------------------------


class Greenlets:
    """Every example has a stack of its own, all on the caller's thread."""

    def __init__(self, run: Any) -> None:
        self.run, self.hub = run, greenlet.getcurrent()
        self.live = states_of_thread()
        self.entry = copied(self.live)
        self.context = contextvars.copy_context()

    def turn(self, tasks: list[Any]) -> None:
        """Lets each of `tasks` run until it is parked or done."""
        begin, end, live, entry = self.run.begin, self.run.end, self.live, self.entry
        idle = _of_thread.idle
        for task in tasks:
            carried = task.carried
            if carried is None:
                carried = task.carried = idle.pop() if idle else greenlet.greenlet(_carry, self.hub)
                carried.gr_context = self.context.copy()
                begin(task)
                carried.switch(self, task)
            else:
                if task.states is not None:
                    put(live, task.states)
                    self.run.recorder.check_casting()
                    task.states = None
                begin(task)
                carried.switch()
            end(task)
            if task.finished:
                task.carried = carried.gr_context = None
                if len(idle) < _KEPT:
                    idle.append(carried)
            if live != entry:
                if not task.finished:
                    task.states = [dict(state) for state in live]
                put(live, copied(entry))
                self.run.recorder.check_casting()
            if self.run.fatal is not None and not self.run.unwinding:
                return

    def park(self, task: Any) -> None:
        self.hub.switch()

    def stop(self, tasks: list[Any]) -> None:
        """Unwinds those that are parked."""
        self.turn([task for task in tasks if task.carried is not None])


def _carry(carrier: Greenlets, task: Any) -> None:
    """A kept greenlet: runs the task that it has been given, and is given the next one, perhaps of a later call."""
    while True:
        carrier.run.work(task)
        hub = carrier.hub
        del carrier, task
        carrier, task = hub.switch()


class _Idle(threading.local):
    """Greenlets without a task; they belong to the thread that has made them."""

    def __init__(self) -> None:
        self.idle: list[Any] = []


_of_thread = _Idle()


# --- threads -------------------------------------------------------------------------------------------------------------------------


class _Worker:
    """A kept thread: waits for its turn, runs a task, and others that have not begun, as long as they come without a pause."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.turn.acquire()
        self.job: Any = None
        threading.Thread(target=self.work, name="dynograd.batched", daemon=True).start()

    def work(self) -> None:
        self.kept = True
        while self.kept:
            self.turn.acquire()
            carrier, task = self.job
            self.job = None
            carrier.carry(self, task)
            carrier = task = None


_idle: list[_Worker] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


class Threads:
    """Every example that parks has a thread of its own; the one that runs has the baton, and hands it on where it parks."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.caller = threading.Lock()
        self.caller.acquire()
        self.waiting: list[Any] = []  # who has the baton next, the last one first
        self.running: Any = None
        self.entry = copied(states_of_thread())
        self.context = contextvars.copy_context()

    def turn(self, tasks: list[Any]) -> None:
        """Lets each of `tasks` run until it is parked or done."""
        if not tasks:
            return
        self.run.recorder.report.turns_of_threads += len(tasks)
        self.waiting = tasks[::-1]
        self.hand_on()
        try:
            while not self.caller.acquire(timeout=_LOOK):
                pass
        except BaseException:  # Ctrl-C: the example that runs gets some time to come to a decision or to its end
            self.run.stopping = True
            if not self.caller.acquire(timeout=_PATIENCE):
                self.run.abandoned = True
            raise
        finally:
            self.run.recorder.owner = threading.get_ident()

    def hand_on(self, free: Any = None) -> Any:
        """Gives the baton to the next one. A worker that is `free` is given a task that has not begun, or is kept for later."""
        run = self.run
        if (run.fatal is not None or run.stopping) and not run.unwinding:
            self.waiting.clear()
        task = self.running = self.waiting.pop() if self.waiting else None
        if task is not None and task.carried is None and free is not None:
            return task
        if free is not None:
            free.kept = len(_idle) < _KEPT
            if free.kept:
                _idle.append(free)
        if task is None:
            self.caller.release()
        elif task.carried is not None:
            task.carried.turn.release()
        else:
            worker = _idle.pop() if _idle else _Worker()
            worker.job = self, task
            worker.turn.release()
        return None

    def carry(self, worker: _Worker, task: Any) -> None:
        """On the worker's thread: runs the task, and those after it that have not begun."""
        if threading.gettrace() is not None or sys.gettrace() is not None:
            sys.settrace(threading.gettrace())
        if threading.getprofile() is not None or sys.getprofile() is not None:
            sys.setprofile(threading.getprofile())
        live = states_of_thread()
        before = copied(live)
        while task is not None:
            task.carried = worker
            put(live, copied(self.entry))
            self.run.begin(task)
            self.run.recorder.owner = threading.get_ident()
            self.run.recorder.check_casting()
            self.context.copy().run(self.run.work, task)
            self.run.end(task)
            task.carried = None
            put(live, before)
            task = self.hand_on(worker)

    def park(self, task: Any) -> None:
        if self.run.abandoned:
            raise Stopped
        self.run.end(task)
        worker = task.carried
        self.hand_on()
        worker.turn.acquire()
        self.run.begin(task)
        self.run.recorder.owner = threading.get_ident()
        self.run.recorder.check_casting()

    def stop(self, tasks: list[Any]) -> None:
        """Unwinds those that are parked; when an example has been left behind, it does so when it comes to its next decision."""
        begun = [task for task in tasks if task.carried is not None]
        if self.run.abandoned:
            self.waiting = [task for task in begun if task is not self.running]
        else:
            self.turn(begun)
