"""Rounds of turns, one side after the other (A B A B), and what they come to."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import asdict, dataclass, field
from statistics import median

from benchmarks import fresh, machine
from benchmarks.limits import Limits
from benchmarks.sides import RowFailed, Side
from benchmarks.workload import TOLERANCE

__all__ = ["Result", "compare_fresh", "compare_steps", "differ", "geometric_mean"]

PAUSE = 0.02
"""Seconds between turns: the threads of an OpenMP pool go on spinning for some milliseconds after their last work."""


PAUSE_WHEN_DISTURBED = 0.5
CHANCES = 4
"""Rounds that may be tried for each that is wanted."""


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
    ratios: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    """By peer, peer over own: median, least and greatest of the rounds' ratios. Above 1 dynograd is faster, or smaller."""
    compiled_ratios: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    """The same over the library's compiled side."""
    floor: float | None = None
    """Plain NumPy's median for the same arithmetic."""
    over: dict[str, float] = field(default_factory=dict)
    """By side, microseconds an op over NumPy."""
    difference: float | None = None
    """The checksums' largest difference, relative."""
    tolerance: float = TOLERANCE
    moved: int = 0
    flops: int = 0
    limit: float | None = None
    """Seconds that this machine needs at least to move the bytes or do the arithmetic."""
    limited_by: str = ""
    disturbed: int = 0
    """Rounds in which threads of a side had to wait for a core in every sample."""
    errors: dict[str, str] = field(default_factory=dict)
    details: dict[str, list[dict]] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        return self.difference is None or self.difference <= self.tolerance

    def median(self, side: str) -> float | None:
        return median(self.samples[side]) if self.samples.get(side) else None

    def as_dict(self) -> dict:
        return asdict(self) | {"medians": {side: self.median(side) for side in self.samples}, "agrees": self.agrees}


def compare_steps(row, sides: list[Side], rounds: int, seconds: float, limits: Limits | None = None) -> Result:
    """Times one row. The floor runs in the first side's process, in the same turns."""
    result = Result(row.name, row.group, operations=row.operations, budget=row.budget, tolerance=row.tolerance)
    sides = [side for side in sides if row.takes(side.library, side.compiles, side.everywhere)]
    checksums = {}
    for side in sides:
        try:
            answer = side.ask("build", name=row.name, seconds=seconds, with_floor=side is sides[0])
            checksums[side.label] = answer["checksum"]
            result.moved, result.flops = answer["moved"], answer["flops"]
            if answer["floor_checksum"]:
                checksums["numpy"] = answer["floor_checksum"]
        except RowFailed as error:
            result.errors[side.label] = str(error)
    working = [side for side in sides if side.label not in result.errors]
    result.difference = largest_difference(list(checksums.values()))
    turns, floors = take_turns(working, rounds, result)
    summarize(result, sides, turns, floors)
    if limits and (result.moved or result.flops):
        result.limit, result.limited_by = limits.least_time(result.moved, result.flops)
    for side in working:
        if side.process is not None:
            side.ask("drop")
    return result


def take_turns(working, rounds, result):
    """Medians of the turns by side, and of the floor's, a figure a round.

    A round in which a side found no calm moment is taken again a little later, but not for ever.
    """
    turns = {side.label: [] for side in working}
    floors = []
    chances = rounds * CHANCES
    while rounds and working:
        chances -= 1
        answers = {}
        for side in working:
            time.sleep(PAUSE)
            try:
                answers[side.label] = side.ask("turn")
            except RowFailed as error:
                result.errors[side.label] = str(error)
        working = [side for side in working if side.label in answers]
        calm = all(answer["calm"] for answer in answers.values())
        if not calm and chances >= rounds:
            time.sleep(PAUSE_WHEN_DISTURBED)
            continue
        rounds -= 1
        result.disturbed += not calm
        for label, answer in answers.items():
            result.samples.setdefault(label, []).extend(answer["samples"])
            turns[label].append(median(answer["samples"]))
            if answer["floor"]:
                floors.append(median(answer["floor"]))
    return turns, floors


def summarize(result, sides, turns, floors):
    for label, own in turns.items():
        if floors and own:
            result.over[label] = median(a - b for a, b in zip(own, floors)) * 1e6 / result.operations
    result.floor = median(floors) if floors else None
    set_ratios(result, sides, turns)


def compare_fresh(row, sides: list[Side], rounds: int, steps: int) -> Result:
    """Measures one row in new processes, one side after the other."""
    result = Result(row.name, row.group, unit=row.unit)
    sides = [side for side in sides if not side.compiles]
    values = {side.label: [] for side in sides}
    for _ in range(repeats_of(row, rounds)):
        for side in sides:
            if side.label in result.errors:
                continue
            try:
                with machine.realtime() if side.realtime else contextlib.nullcontext():
                    reading = fresh.measure(row, side.library, side.threads, steps)
            except RowFailed as error:
                result.errors[side.label] = str(error)
                continue
            values[side.label].append(reading["value"])
            result.details.setdefault(side.label, []).append(reading)
    result.samples = {label: numbers for label, numbers in values.items() if numbers}
    if row.kind == "first":
        for side in sides:
            if side.label in result.samples and (parts := fresh.parts_of(row, side.library, side.threads)):
                result.details[side.label].append({"parts": parts})
    if row.kind == "import":
        result.floor = median(fresh.measure(row, "numpy", sides[0].threads, steps)["value"] for _ in range(3))
    if row.kind != "slope":
        set_ratios(result, sides, values)
    return result


def repeats_of(row, rounds):
    """Starts and imports every round; what takes long or varies little, less often."""
    if row.kind == "slope":
        return 1
    return rounds if row.kind in ("first", "import", "answer") else min(rounds, 3)


def set_ratios(result, sides, turns):
    first, *peers = sides
    result.ratios |= ratios_over(first, peers, turns)
    compiled = next((side for side in sides if side.label == compiled_label(first.library)), None)
    if compiled is not None:
        result.compiled_ratios |= ratios_over(compiled, [peer for peer in peers if peer is not compiled], turns)


def compiled_label(library: str) -> str:
    """Of the side on which a library's models or steps are compiled."""
    return f"{library}.compile"


def ratios_over(own, peers, turns):
    """By peer, median, least and greatest of the rounds' ratios."""
    ratios_by_peer = {}
    for peer in peers:
        ratios = [b / a for a, b in zip(turns.get(own.label, []), turns.get(peer.label, []))]
        if ratios:
            ratios_by_peer[peer.label] = (median(ratios), min(ratios), max(ratios))
    return ratios_by_peer


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
