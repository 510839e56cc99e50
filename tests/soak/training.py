"""One model trained for long in this process: what grows, and whether steps become slower."""

from __future__ import annotations

import gc
import os
import statistics
import threading
import time
import tracemalloc
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dynograd as torch
from tests.soak.models import MODELS, ROUND

PARTS = 10
TRACED_SHARE = 10  # of the steps, one in so many is repeated while Python's objects are counted, which makes it slow
MIB = 1 << 20


@dataclass
class Trained:
    """What a training of many steps has shown.

    Attributes:
        resident: MiB that the process has more behind the last tenth of the steps than behind the second.
        objects: the same of Python's and NumPy's objects, counted by tracemalloc over further steps.
        large: the same of dynograd's own count of large arrays.
        slower: how much longer a step takes in the last tenth than in the second, of processor time, in percent.
        milliseconds: processor time of a step.
        counts: threads, descriptors, pieces of shared memory and child processes behind the second tenth, and at the end.
    """

    name: str
    steps: int
    resident: float
    objects: float
    large: float
    slower: float
    milliseconds: float
    counts: tuple[dict[str, int], dict[str, int]]

    def faults(self, most: float = 1.0, slower: float = 3.0) -> list[str]:
        """What is not as promised."""
        grown = {"resident memory": self.resident, "objects": self.objects, "large arrays": self.large}
        told = [f"{what} grew by {mib:.2f} MiB" for what, mib in grown.items() if mib >= most]
        if self.slower > slower:
            told.append(f"steps became slower by {self.slower:.1f} %")
        if self.counts[0] != self.counts[1]:
            told.append(f"{self.counts[0]} became {self.counts[1]}")
        return told

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def counts() -> dict[str, int]:
    """What a process may leave behind: threads, descriptors, shared memory, children."""
    tasks = Path("/proc/self/task")
    shared = [line for line in Path("/proc/self/maps").read_text().splitlines() if "/memfd:" in line or "/dev/shm" in line]
    children = [child for task in tasks.iterdir() for child in (task / "children").read_text().split()]
    return {
        "threads": len(list(tasks.iterdir())),
        "Python's threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "shared memory": len(shared),
        "children": len(children),
    }


def resident() -> float:
    """MiB of this process in memory, without pages that files share with others."""
    pages = [int(number) for number in Path("/proc/self/statm").read_text().split()]
    return (pages[1] - pages[2]) * os.sysconf("SC_PAGE_SIZE") / MIB


def train(name: str, steps: int) -> Trained:
    """Trains for so many steps, rounded to whole rounds in each tenth."""
    torch.manual_seed(0)
    model = MODELS[name]()
    rounds = max(steps // (PARTS * ROUND), 2)
    times: list[list[float]] = []
    memory: list[float] = []
    large: list[float] = []
    seen: list[dict[str, int]] = []
    n = 0
    for _ in range(PARTS):
        times.append([])
        for _ in range(rounds):
            start = time.process_time()
            for _ in range(ROUND):
                model.step(n)
                n += 1
            times[-1].append(time.process_time() - start)
        gc.collect()
        memory.append(resident())
        large.append(torch.memory.statistics()["in_use"] / MIB)
        seen.append(counts())
    first, last = (quick(times[place]) for place in (1, -1))
    return Trained(
        name,
        n,
        memory[-1] - memory[1],
        _objects(model, n, max(rounds * PARTS // TRACED_SHARE, 4)),
        large[-1] - large[1],
        (last / first - 1) * 100,
        last / ROUND * 1e3,
        (seen[1], seen[-1]),
    )


def quick(rounds: list[float]) -> float:
    """Seconds of a round: the fastest tenth of them, since what other programs do on the machine only adds."""
    return statistics.median(sorted(rounds)[: max(len(rounds) // 10, 3)])


def _objects(model: Any, n: int, rounds: int) -> float:
    """MiB of Python's and NumPy's objects that the second half of further rounds leaves."""
    tracemalloc.start()
    try:
        sizes = []
        for place in range(rounds):
            for _ in range(ROUND):
                model.step(n)
                n += 1
            if place in (rounds // 2 - 1, rounds - 1):
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        return (sizes[1] - sizes[0]) / MIB
    finally:
        tracemalloc.stop()
