"""Running a step many times under the clock."""

from __future__ import annotations

from itertools import repeat
from time import perf_counter

__all__ = ["Stopwatch"]

SAMPLES = 5
"""Samples in a turn, as far as one fits: the median of five short ones is steadier than one long mean."""


class Stopwatch:
    """Times a workload's step in samples of a fixed number of calls, chosen so that `SAMPLES` of them fill a turn.

    Python's garbage collector stays on, as it is in a program.
    """

    def __init__(self, workload, seconds: float):
        self.step = workload.step
        self.seconds = seconds
        self.cycle = workload.cycle
        self.count = self.calibrated()

    def calibrated(self) -> int:
        count = self.cycle
        self.run(count)
        while True:
            taken = self.run(count)
            if taken >= self.seconds / SAMPLES / 4:
                wanted = count * self.seconds / SAMPLES / taken
                return max(1, round(wanted / self.cycle)) * self.cycle
            count *= 4

    def run(self, count: int) -> float:
        """Seconds that `count` steps take together."""
        step = self.step
        start = perf_counter()
        for _ in repeat(None, count):
            step()
        return perf_counter() - start

    def turn(self) -> list[float]:
        """Seconds a step, one figure a sample. One round of batches goes untimed before, to wake threads and caches."""
        self.run(self.cycle)
        samples = []
        spent = 0.0
        while not samples or (spent < self.seconds and len(samples) < SAMPLES):
            taken = self.run(self.count)
            spent += taken
            samples.append(taken / self.count)
        return samples
