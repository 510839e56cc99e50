"""Tasks and their turns: examples that are parked at their own decisions, and the groups that run while all of them wait.

`tasks.batched` runs a list of examples to its end; a `pools.Pool` lets new ones in at every turn.
"""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.base.random_streams import default_generator
from dynograd.transforms.autobatch.carriers import Stopped, carrier_for
from dynograd.transforms.autobatch.record.pending import Lazy

__all__ = ["Run", "Task", "error_in", "mixed"]


class Task:
    """One example under way."""

    __slots__ = (
        "carried",
        "error",
        "example",
        "finished",
        "place",
        "result",
        "run",
        "states",
        "stopped",
        "stream",
        "targets",
    )

    def __init__(self, run: Any, place: int, example: Any, stream: tuple[int, int]) -> None:
        self.run, self.place, self.example = run, place, example
        self.stream = stream  # its place in its random numbers
        self.finished = self.stopped = False
        self.targets: Any = ()
        self.carried = self.states = self.result = None
        self.error: BaseException | None = None

    def park(self, targets: Any) -> None:
        """Waits until the buckets `targets` have run, while other examples go on."""
        self.targets = targets
        self.run.carrier.park(self)
        if self.stopped or self.run.stopping:
            raise Stopped


class Run:
    """The examples of one call."""

    def __init__(self, function: Any, examples: list[Any], concurrent: int) -> None:
        self.function, self.concurrent = function, concurrent
        self.recorder: Any = MODES.recorder
        self.outer: Task | None = self.recorder.task
        seed, offset = default_generator.key(1)
        self.stream = default_generator.state()
        self.tasks = [
            Task(self, place, example, (mixed(seed, offset, place), 0)) for place, example in enumerate(examples)
        ]
        self.fatal: BaseException | None = None  # what no example's error is: Ctrl-C, an exit
        self.stopping = self.unwinding = self.abandoned = False
        self.turns = 0
        self.carrier = carrier_for(self)

    def all(self) -> list[Task]:
        """Runs them all, each from decision to decision."""
        tasks, parked, started = self.tasks, [], 0
        try:
            while parked or started < len(tasks):
                fresh = tasks[started : started + self.concurrent - len(parked)]
                if fresh:  # those that are done already make room for others
                    started += len(fresh)
                    parked += self.turn(fresh)
                    continue
                self.settle(parked)
                parked = self.turn(parked)
        except BaseException:
            self.stopping = self.unwinding = True
            self.carrier.stop([task for task in tasks[:started] if not task.finished])
            raise
        return tasks

    def turn(self, tasks: list[Task]) -> list[Task]:
        """Those that are parked after their turn."""
        self.turns += len(tasks)
        self.carrier.turn(tasks)
        if self.fatal is not None and not self.unwinding:
            raise self.fatal
        return [task for task in tasks if not task.finished]

    def settle(self, parked: list[Task]) -> None:
        """Runs what they wait for, in groups; examples of examples wait with those around them."""
        targets = [bucket for task in parked for bucket in task.targets]
        if self.outer is not None:
            self.outer.park(targets)
        else:
            self.recorder.flush_for(targets)

    def finish(self) -> None:
        """Runs what nobody has waited for; what failed there is the error of the examples that have given it."""
        recorder = self.recorder
        recorder.flush(None, "the end of the examples")
        if recorder.failed:
            for task in self.tasks:
                if task.error is None:
                    task.error = error_in(task.result)
            told = [task.error for task in self.tasks]
            recorder.failed = [failure for failure in recorder.failed if not any([failure is error for error in told])]

    def begin(self, task: Task) -> None:
        """From now on `task` is the one that runs."""
        if self.abandoned:
            return
        default_generator.exchange(task.stream)
        self.recorder.task = task

    def end(self, task: Task) -> None:
        """Its turn is over."""
        if self.abandoned:
            return
        task.stream = default_generator.exchange(self.stream)
        self.recorder.task = self.outer

    def work(self, task: Task) -> None:
        """Runs the example to its end."""
        try:
            task.result = self.function(task.example)
        except Stopped:
            pass
        except Exception as error:
            task.error = error
        except BaseException as error:
            error.add_note(f"batched: in example {task.place}")
            self.fatal = self.fatal or error
        task.finished = True
        task.example = None


def error_in(result: Any) -> Any:
    """The error of the first tensor in `result` (in tuples, lists, dicts) whose call failed; None."""
    if type(result) is Lazy:
        errors = result.pending.whole.bucket.errors
        return None if errors is None else errors.get(result.row)
    if isinstance(result, (tuple, list)):
        return next((result for result in map(error_in, result) if result is not None), None)
    return error_in(list(result.values())) if isinstance(result, dict) else None


def mixed(seed: int, offset: int, place: int) -> int:
    """A seed for one example: the mixing steps of splitmix64."""
    mask = (1 << 64) - 1
    mixed = (seed * 0x9E3779B97F4A7C15 + offset * 0xD1B54A32D192ED03 + place + 1) & mask
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = ((mixed ^ (mixed >> shift)) * factor) & mask
    return (mixed ^ (mixed >> 31)) >> 1
