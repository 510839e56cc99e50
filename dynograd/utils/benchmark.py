"""`torch.utils.benchmark`: how long a statement takes, with warming up, repeats and waiting for a GPU; and tables of such times."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import timeit
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dynograd import cuda
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.kernels.build.threads import get_num_threads, set_num_threads

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer"]


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """What is timed, and under which titles.

    Args:
        stmt, setup, global_setup: the statement and what is run before; "function" for a function.
        label, sub_label, description, env: titles.
        num_threads: how many threads an operation may use.

    >>> from dynograd.utils.benchmark import TaskSpec
    >>> TaskSpec("x + 1", label="adding", sub_label="of one").title
    'adding: of one'
    """

    stmt: str
    setup: str = "pass"
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The titles in one line; the statement if there are none."""
        return ": ".join([part for part in (self.label, self.sub_label, self.description) if part]) or self.stmt


class Measurement:
    """Times of several runs of a statement, in seconds for one execution.

    Args:
        number_per_run: executions of a run.
        raw_times: seconds of each run.
        task_spec: what was timed.
        metadata: anything; it is kept.

    >>> from dynograd.utils.benchmark import Measurement, TaskSpec
    >>> Measurement(10, [1.0, 2.5, 3.0], TaskSpec("a statement")).median
    0.25
    """

    def __init__(
        self, number_per_run: int, raw_times: list[float], task_spec: TaskSpec, metadata: dict[Any, Any] | None = None
    ) -> None:
        self.number_per_run, self.raw_times, self.task_spec, self.metadata = (
            number_per_run,
            raw_times,
            task_spec,
            metadata,
        )

    @property
    def title(self) -> str:
        """The titles of what was timed."""
        return self.task_spec.title

    @property
    def times(self) -> list[float]:
        """Seconds for one execution, of each run."""
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def median(self) -> float:
        """The middle one of `times`."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The average of `times`."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """How far the upper quarter of `times` lies from the lower one."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4)
        return high - low

    def __repr__(self) -> str:
        return (
            f"{self.title}\n  median {self.median * 1e6:.2f} us, IQR {self.iqr * 1e6:.2f} us, "
            f"{len(self.times)} runs of {self.number_per_run}"
        )


class Timer:
    """Times a statement, a text or a function of no arguments.

    Args:
        stmt: what is timed, a text or a function of no arguments.
        setup, global_setup: run before.
        timer: gives seconds that only grow; on a GPU its work is waited for.
        globals: the names that texts see.
        label, sub_label, description, env: titles.
        num_threads: how many threads an operation may use meanwhile.
        language: kept for compatibility; Python.

    >>> from dynograd.utils.benchmark import Timer
    >>> Timer("x + 1", globals={"x": tensor([1.0])}).timeit(10).median > 0
    True
    """

    def __init__(
        self,
        stmt: str | Callable[[], Any] = "pass",
        setup: str | Callable[[], Any] = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timeit.default_timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: object = None,
    ) -> None:
        self._timer = timeit.Timer(stmt, setup, _waiting(timer), globals)
        statement, before = (text if isinstance(text, str) else "function" for text in (stmt, setup))
        self._task = TaskSpec(statement, before, global_setup, label, sub_label, description, env, num_threads)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One run of `number` executions, after a short one.

        Args:
            number: how many executions.
        Returns:
            A `Measurement` of one run.
        """
        with _threads(self._task.num_threads):
            self._timer.timeit(max(number // 100, 2))
            return Measurement(number, [self._timer.timeit(number)], self._task)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Runs of at least a hundredth of `min_run_time` each, until that time is over.

        Args:
            callback: called with the number of executions and the seconds of each run.
            min_run_time: seconds.
        Returns:
            A `Measurement`.
        """
        with _threads(self._task.num_threads):
            number = 1
            self._timer.timeit(2)
            while self._timer.timeit(number) < min_run_time / 100:
                number *= 2
            times = [self._timer.timeit(number)]
            while sum(times) < min_run_time:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
        return Measurement(number, times, self._task)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """As `blocked_autorange`, until the times agree.

        Args:
            threshold: of the interquartile range, as a share of the median.
            min_run_time: seconds, at least.
            max_run_time: seconds after which it ends anyhow.
            callback: called with the number of executions and the seconds of each run.
        Returns:
            A `Measurement`.
        """
        result = self.blocked_autorange(callback, min_run_time)
        while sum(result.raw_times) < max_run_time and (
            len(result.raw_times) < 4 or result.iqr > threshold * result.median
        ):
            more = self.timeit(result.number_per_run)
            result.raw_times += more.raw_times
            if callback is not None:
                callback(more.number_per_run, more.raw_times[-1])
        return result


class Compare:
    """A table of measurements: for each label one, with a row for each sub-label and number of threads, a column for each description.

    Args:
        results: Measurements.

    >>> from dynograd.utils.benchmark import Compare, Measurement, TaskSpec
    >>> print(Compare([Measurement(1, [2e-6], TaskSpec("x + 1", label="adding", sub_label="of one", description="eager"))]))
    adding (medians in us)
             threads  eager
    of one         1   2.00
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements.

        Args:
            results: Measurements.
        """
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Kept for compatibility: all times have two decimals."""

    def colorize(self, rowwise: bool = False) -> None:
        """Kept for compatibility: tables have no colours.

        Args:
            rowwise: accepted.
        """

    def highlight_warnings(self) -> None:
        """Kept for compatibility: tables have no colours."""

    def print(self) -> None:
        """Prints the tables."""
        print(self)

    def __str__(self) -> str:
        by_label: dict[str, list[Measurement]] = {}
        for result in self._results:
            by_label.setdefault(result.task_spec.label or "", []).append(result)
        return "\n\n".join([_table(label, results) for label, results in by_label.items()])


def _table(label: str, results: list[Measurement]) -> str:
    columns = list(dict.fromkeys([result.task_spec.description or "" for result in results]))
    cells: dict[tuple[str, int], dict[str, str]] = {}
    for result in results:
        task = result.task_spec
        row = cells.setdefault((task.sub_label or task.stmt, task.num_threads), {})
        row[task.description or ""] = f"{result.median * 1e6:.2f}"
    rows = [["", "threads", *columns]]
    rows += [
        [name, str(threads), *[row.get(column, "") for column in columns]] for (name, threads), row in cells.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]])
        for row in rows
    ]
    return "\n".join([f"{label} (medians in us)".lstrip(), *lines])


@contextlib.contextmanager
def _threads(number: int) -> Iterator[None]:
    before = get_num_threads()
    set_num_threads(number)
    try:
        yield
    finally:
        set_num_threads(before)


def _waiting(timer: Callable[[], float]) -> Callable[[], float]:
    def now() -> float:
        if cuda.is_available() and cuda.is_initialized():
            cuda.synchronize()
        return timer()

    return now


_show_plainly(globals())
