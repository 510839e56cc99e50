"""Rounds of turns, one side after the other (A B A B), and what they come to."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from statistics import median

from benchmarks import fresh
from benchmarks.sides import RowFailed, Side

__all__ = ["Result", "compare_fresh", "compare_steps", "differ", "geometric_mean"]

PAUSE = 0.02
"""Seconds between turns: the threads of an OpenMP pool go on spinning for some milliseconds after their last work."""

TOLERANCE = 1e-3
"""How far checksums may lie apart, as a share of the value's root mean square: float32, summed in another order."""


@dataclass
class Result:
    """A finished line. Times are seconds a step; fresh rows keep their own unit."""

    name: str
    group: str
    unit: str = "s"
    operations: int = 1
    budget: float | None = None
    samples: dict[str, list[float]] = field(default_factory=dict)
    """By side, all samples."""
    ratio: float | None = None
    """Peer over own, the median of the rounds' ratios: above 1 dynograd is faster, or smaller."""
    ratio_range: tuple[float, float] | None = None
    floor: float | None = None
    """Plain NumPy's median for the same arithmetic."""
    over: dict[str, float] = field(default_factory=dict)
    """By side, microseconds an op over NumPy."""
    difference: float | None = None
    """The checksums' largest difference, relative."""
    errors: dict[str, str] = field(default_factory=dict)
    details: dict[str, list[dict]] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        return self.difference is None or self.difference <= TOLERANCE

    def median(self, side: str) -> float | None:
        return median(self.samples[side]) if self.samples.get(side) else None

    def as_dict(self) -> dict:
        return asdict(self) | {"medians": {side: self.median(side) for side in self.samples}, "agrees": self.agrees}


def compare_steps(row, sides: list[Side], rounds: int, seconds: float) -> Result:
    """Times one row. The floor runs in the first side's process, in the same turns."""
    result = Result(row.name, row.group, operations=row.operations, budget=row.budget)
    checksums = {}
    for side in sides:
        try:
            answer = side.ask("build", name=row.name, seconds=seconds, with_floor=side is sides[0])
            checksums[side.label] = answer["checksum"]
            if answer["floor_checksum"]:
                checksums["numpy"] = answer["floor_checksum"]
        except RowFailed as error:
            result.errors[side.label] = str(error)
    working = [side for side in sides if side.label not in result.errors]
    result.difference = largest_difference(list(checksums.values()))
    turns, floors = take_turns(working, rounds, result)
    summarize(result, sides, turns, floors)
    for side in working:
        if side.process is not None:
            side.ask("drop")
    return result


def take_turns(working, rounds, result):
    """Medians of the turns by side, and of the floor's, a figure a round."""
    turns = {side.label: [] for side in working}
    floors = []
    for _ in range(rounds):
        for side in working:
            if side.label in result.errors:
                continue
            time.sleep(PAUSE)
            try:
                answer = side.ask("turn")
            except RowFailed as error:
                result.errors[side.label] = str(error)
                continue
            result.samples.setdefault(side.label, []).extend(answer["samples"])
            turns[side.label].append(median(answer["samples"]))
            if answer["floor"]:
                floors.append(median(answer["floor"]))
    return turns, floors


def summarize(result, sides, turns, floors):
    for label, own in turns.items():
        if floors and own:
            result.over[label] = median(a - b for a, b in zip(own, floors)) * 1e6 / result.operations
    result.floor = median(floors) if floors else None
    set_ratio(result, *[turns.get(side.label, []) for side in sides])


def compare_fresh(row, sides: list[Side], rounds: int, steps: int) -> Result:
    """Measures one row in new processes, one side after the other."""
    result = Result(row.name, row.group, unit=row.unit)
    values = {side.label: [] for side in sides}
    for _ in range(repeats_of(row, rounds)):
        for side in sides:
            if side.label in result.errors:
                continue
            try:
                reading = fresh.measure(row, side.library, side.threads, steps)
            except RowFailed as error:
                result.errors[side.label] = str(error)
                continue
            values[side.label].append(reading["value"])
            result.details.setdefault(side.label, []).append(reading)
    result.samples = {label: numbers for label, numbers in values.items() if numbers}
    if row.kind == "import":
        result.floor = median(fresh.measure(row, "numpy", sides[0].threads, steps)["value"] for _ in range(3))
    if row.kind != "slope":
        set_ratio(result, *values.values())
    return result


def repeats_of(row, rounds):
    """An import every round; what takes long or varies little, less often."""
    if row.cold or row.kind == "slope":
        return 1
    return rounds if row.kind == "import" else min(rounds, 3)


def set_ratio(result, own, peer=()):
    if own and peer:
        ratios = [b / a for a, b in zip(own, peer)]
        result.ratio = median(ratios)
        result.ratio_range = (min(ratios), max(ratios))


def largest_difference(checksums: list[list[float]]) -> float | None:
    """The largest difference between the first checksum and the others."""
    if len(checksums) < 2:
        return None
    return max(differ(checksums[0], other) for other in checksums[1:])


def differ(a: list[float], b: list[float]) -> float:
    """Relative to each tensor's root mean square, the first of its two numbers (see `fingerprint`)."""
    if len(a) != len(b) or not all(map(math.isfinite, [*a, *b])):
        return math.inf
    worst = 0.0
    for position in range(0, len(a), 2):
        scale = max(abs(a[position]), abs(b[position]), 1e-12)
        worst = max(worst, *[abs(a[k] - b[k]) / scale for k in (position, position + 1)])
    return worst


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))
