"""`torch.utils.benchmark.Timer`: how long a statement takes, with warming up, repeats and waiting for a GPU."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from typing import Any

from dynograd import cuda
from dynograd.base.signatures import show_plainly as _show_plainly

__all__ = ["Measurement", "Timer"]


class Measurement:
    """Times of several runs of a statement, in seconds for one execution.

    Args:
        number_per_run: executions of a run.
        raw_times: seconds of each run.
        title: what was timed.

    >>> from dynograd.utils.benchmark import Measurement
    >>> Measurement(10, [1.0, 2.5, 3.0], "a statement").median
    0.25
    """

    def __init__(self, number_per_run: int, raw_times: list[float], title: str) -> None:
        self.number_per_run, self.raw_times, self.title = number_per_run, raw_times, title

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
        num_threads: how many threads an operation may use.
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
        self._title = ": ".join([part for part in (label, sub_label, description) if part]) or str(stmt)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One run of `number` executions, after a short one.

        Args:
            number: how many executions.
        Returns:
            A `Measurement` of one run.
        """
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], self._title)

    def blocked_autorange(self, callback: object = None, min_run_time: float = 0.2) -> Measurement:
        """Runs of at least a hundredth of `min_run_time` each, until that time is over.

        Args:
            callback: kept for compatibility.
            min_run_time: seconds.
        Returns:
            A `Measurement`.
        """
        number = 1
        while self._timer.timeit(number) < min_run_time / 100:
            number *= 2
        times = [self._timer.timeit(number)]
        while sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._title)

    adaptive_autorange = blocked_autorange


def _waiting(timer: Callable[[], float]) -> Callable[[], float]:
    def now() -> float:
        if cuda.is_available() and cuda.is_initialized():
            cuda.synchronize()
        return timer()

    return now


_show_plainly(globals())
