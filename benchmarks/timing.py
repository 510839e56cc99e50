"""Running a step many times under the clock."""

from __future__ import annotations

from itertools import repeat
from time import perf_counter

from benchmarks.machine import waited_for_cores

__all__ = ["Stopwatch"]

SAMPLES = 5
"""Samples in a turn, as far as one fits: the median of five short ones is steadier than one long mean."""

DISTURBED = 0.05
"""A sample in which threads waited for a core longer than this share of it says more about other programs than about this one."""

PATIENCE = 4
"""A turn lasts at most so many times as long as asked, in search of samples that nobody disturbed."""


class Stopwatch:
    """Times a workload's step in samples of a fixed number of calls, chosen so that `SAMPLES` of them fill a turn.

    Python's garbage collector stays on, as it is in a program.
    """

    def __init__(self, workload, seconds: float):
        self.step = workload.step
        self.seconds = seconds
        self.cycle = workload.cycle
        self.count = self.calibrated()
        self.calm = True
        """Whether the last turn had a sample that nobody disturbed."""

    def calibrated(self) -> int:
        count = self.cycle
        self.run(count)
        while True:
            taken = self.run(count)
            if taken >= self.seconds / SAMPLES / 4:
                enough = count * self.seconds / SAMPLES / taken
                return max(1, round(enough / self.cycle)) * self.cycle
            count *= 4

    def run(self, count: int) -> float:
        """Seconds that `count` steps take together."""
        step = self.step
        start = perf_counter()
        for _ in repeat(None, count):
            step()
        return perf_counter() - start

    def turn(self) -> list[float]:
        """Seconds a step, one figure a sample. One round of batches goes untimed before, to wake threads and caches.

        Disturbed samples are left out and taken again, unless all are.
        """
        self.run(self.cycle)
        calm, disturbed = [], []
        spent = 0.0
        while spent < self.seconds * PATIENCE and sum(calm) * self.count < self.seconds and len(calm) < SAMPLES:
            before = waited_for_cores()
            taken = self.run(self.count)
            spent += taken
            kept = calm if waited_for_cores() - before <= DISTURBED * taken else disturbed
            kept.append(taken / self.count)
        self.calm = bool(calm)
        return calm or disturbed
