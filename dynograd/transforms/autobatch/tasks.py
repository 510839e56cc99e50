"""`batched`: a function written for one example, run on many, each of them parked at its own decisions.

Every example is a task: a thread that runs only while it has the baton. A task that asks for a value is parked and hands the baton
on; when all are parked, what they wait for runs in groups, and all go on. So decisions cost one group for all examples.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.random_streams import default_generator
from dynograd.transforms.autobatch.scope import autobatch

__all__ = ["batched"]

_CONCURRENT = 512


def batched(
    function: Callable[..., Any], *, errors: str = "raise", concurrent: int = _CONCURRENT
) -> Callable[[Iterable[Any]], list[Any]]:
    """The function that runs `function(example)` on every example and lists the results, as `[function(x) for x in examples]` does.

    `function` may use `if`, `while`, recursion, `.item()` and early exit on its own values: an example that needs a value waits for
    it together with all others that do, so the work between decisions runs in groups. Random numbers are drawn from a stream of each
    example's own, given by the seed and the example's place: they do not depend on the other examples.

    Args:
        errors: "raise": when all examples are done, raise the error of the first one that failed, with its place; "return":
            give each error in place of its example's result.
        concurrent: how many examples may be under way at a time.

    >>> def halvings(x):
    ...     count = 0
    ...     while x > 1:
    ...         x, count = x / 2, count + 1
    ...     return count
    >>> dynograd.batched(halvings)([tensor(5.0), tensor(1.0), tensor(100.0)])
    [3, 0, 7]
    """
    if not callable(function):
        raise TypeError(f"batched: expected a function of one example, got {type(function).__name__}.")
    if errors not in ("raise", "return"):
        raise ValueError(f"batched: expected errors to be 'raise' or 'return', got {errors!r}.")
    if not isinstance(concurrent, int) or concurrent < 1:
        raise ValueError(f"batched: expected concurrent to be a positive number of examples, got {concurrent!r}.")

    @functools.wraps(function)
    def call(examples: Iterable[Any]) -> list[Any]:
        with autobatch(always=True):
            tasks = _run(function, list(examples), concurrent)
        found: list[Any] = []
        for place, task in enumerate(tasks):
            if task.error is None:
                found.append(task.result)
                continue
            task.error.add_note(f"batched: in example {place}")
            if errors == "raise":
                raise task.error
            found.append(task.error)
        return found

    return call


class Round:
    """Who has the baton next: the tasks of this round in order, then the caller."""

    __slots__ = ("caller", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Task] = []
        self.caller = threading.Lock()
        self.caller.acquire()

    def run(self, tasks: list[Task]) -> None:
        """Lets each task run until it is parked or done."""
        before = default_generator.state()
        self.waiting = tasks[::-1]
        self.hand_on()
        self.caller.acquire()
        default_generator.set_plain_state(before)

    def hand_on(self) -> None:
        """Gives the baton to the next."""
        if self.waiting:
            task = self.waiting.pop()
            default_generator._seed, default_generator._offset = task.state
            task.turn.release()
        else:
            self.caller.release()


class Task:
    """One example under way."""

    __slots__ = ("error", "finished", "result", "round", "state", "target", "turn")

    def __init__(self, state: tuple[int, int], round_: Round) -> None:
        self.state, self.round = state, round_
        self.turn = threading.Lock()
        self.turn.acquire()
        self.finished = False
        self.target = self.result = None
        self.error: BaseException | None = None

    def park(self, target: Any) -> None:
        """On the task's thread: waits until `target` has run."""
        self.target = target
        self.state = default_generator._seed, default_generator._offset
        self.round.hand_on()
        self.turn.acquire()


def _run(function: Any, examples: list[Any], concurrent: int) -> list[Task]:
    recorder = MODES.recorder
    seed, offset = default_generator.state()
    default_generator.key(1)
    rounds = Round()
    tasks = [Task((_mixed(seed, offset, place), 0), rounds) for place in range(len(examples))]
    modes = {name: getattr(MODES, name) for name in ("grad", "inference", "honest", "watchers", "check_nan", "anomaly")}
    started = 0
    parked: list[Task] = []
    outer = recorder.tasks
    recorder.tasks = own = {}
    try:
        while parked or started < len(tasks):
            fresh = tasks[started : started + concurrent - len(parked)]
            if fresh:
                for task in fresh:
                    args = (task, function, examples[started], recorder, own, modes)
                    threading.Thread(target=_work, args=args, daemon=True).start()
                    started += 1
                rounds.run(fresh)
                parked += [task for task in fresh if not task.finished]
                continue  # those that are done already make room for others
            recorder.tasks = outer
            recorder.flush_for([task.target for task in parked])
            recorder.tasks = own
            rounds.run(parked)
            parked = [task for task in parked if not task.finished]
    finally:
        recorder.tasks = outer
    return tasks


def _work(
    task: Task, function: Any, example: Any, recorder: Any, tasks: dict[int, Task], modes: dict[str, Any]
) -> None:
    task.turn.acquire()
    for name, value in modes.items():
        setattr(MODES, name, value)
    MODES.recorder = recorder
    me = threading.get_ident()
    tasks[me] = task
    try:
        task.result = function(example)
    except BaseException as error:
        task.error = error
    finally:
        MODES.recorder = None
        del tasks[me]
        task.finished = True
        task.round.hand_on()


def _mixed(seed: int, offset: int, place: int) -> int:
    """A seed for one example: the mixing steps of splitmix64."""
    mask = (1 << 64) - 1
    mixed = (seed * 0x9E3779B97F4A7C15 + offset * 0xD1B54A32D192ED03 + place + 1) & mask
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = ((mixed ^ (mixed >> shift)) * factor) & mask
    return (mixed ^ (mixed >> 31)) >> 1
