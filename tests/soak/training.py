"""One model trained for long in this process: what grows, and whether steps become slower."""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import threading
import time
import tracemalloc
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import dynograd as torch
from tests.soak.models import MODELS, ROUND, Model
from tests.soak.states import Kept

PARTS = 10
TRACED_SHARE = 10  # of the steps, one in so many is repeated while Python's objects are counted, which makes it slow
COMPARED = 60  # rounds of the young and the old process, in turn
MIB = 1 << 20


@dataclass
class Trained:
    """What a training of many steps has shown.

    Attributes:
        resident: MiB that the process has more behind the last tenth of the steps than behind the third: the look at calls and the fork, which
            come behind the second, leave some once.
        objects: the same of Python's and NumPy's objects, counted by tracemalloc over further steps.
        large: MiB of large arrays, by dynograd's own count, that are more at the end than behind the second tenth.
        slower: how much longer steps take in a process that is forked from this one at the end than in one that was forked behind the
            second tenth and has waited since, in percent; of processor time, round by round in turn, the median.
        calls: how many more functions are called in a round at the end than behind the second tenth, in percent: that does not depend on
            what else the machine does.
        milliseconds: processor time of a step.
        counts: threads, descriptors, pieces of shared memory and child processes behind the second tenth, and at the end.
    """

    name: str
    steps: int
    resident: float
    objects: float
    large: float
    slower: float
    calls: float
    milliseconds: float
    counts: tuple[dict[str, int], dict[str, int]]

    def faults(self, most: float = 1.0, slower: float = 3.0) -> list[str]:
        """What is not as promised."""
        grown = {"resident memory": self.resident, "objects": self.objects, "large arrays": self.large}
        told = [f"{what} grew by {mib:.2f} MiB" for what, mib in grown.items() if mib >= most]
        if self.slower > slower:
            told.append(f"steps became slower by {self.slower:.1f} %")
        if self.calls > 1:
            told.append(f"a step calls {self.calls:.1f} % more functions")
        if self.counts[0] != self.counts[1]:
            told.append(f"{self.counts[0]} became {self.counts[1]}")
        return told

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def counts() -> dict[str, int]:
    """What a process may leave behind: threads, descriptors, shared memory, children."""
    tasks = Path("/proc/self/task")
    shared = [
        line for line in Path("/proc/self/maps").read_text().splitlines() if "/memfd:" in line or "/dev/shm" in line
    ]
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
    rounds = max(steps // (PARTS * ROUND), 1)
    memory: list[float] = []
    large: list[float] = []
    seen: list[dict[str, int]] = []
    n, start = 0, 0
    for part in range(PARTS):
        for _ in range(rounds):
            run_round(model, n)
            n += ROUND
        if part == 1:
            start, kept = n, Kept(model)
        gc.collect()
        memory.append(resident())
        large.append(torch.memory.statistics()["in_use"] / MIB)
        seen.append(counts())
        if part == 1:
            calls, young = calls_of_round(model, n, kept), Forked(model, n, kept)
    seconds = min([run_round(model, n + part * ROUND) for part in range(PARTS)])
    n += PARTS * ROUND
    more_calls = calls_of_round(model, start, kept) / calls - 1
    slower = compared(young, Forked(model, start, kept))
    return Trained(
        name,
        n,
        memory[-1] - memory[2],
        _objects(model, n, max(rounds * PARTS // TRACED_SHARE, 4)),
        large[-1] - large[1],
        slower * 100,
        more_calls * 100,
        seconds / ROUND * 1e3,
        (seen[1], seen[-1] | {name: seen[-1][name] - count for name, count in young.added.items()}),
    )


def run_round(model: Model, n: int) -> float:
    """Seconds of processor time, of this process."""
    start = time.process_time()
    for place in range(n, n + ROUND):
        model.step(place)
    return time.process_time() - start


def calls_of_round(model: Model, n: int, kept: Kept) -> int:
    """How many functions a round calls that begins with the weights that were kept: which branches steps take may depend on them.

    The fewest of three, since autobatch looks at times which sequences of ops there are.
    """
    return min([_calls_of_round(model, n, kept) for _ in range(3)])


def _calls_of_round(model: Model, n: int, kept: Kept) -> int:
    kept.bring_back()
    torch.manual_seed(n)
    events: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, argument: events.update([event]))
    try:
        run_round(model, n)
    finally:
        sys.setprofile(None)
    return events["call"] + events["c_call"]


class Forked:
    """A process that was forked from this one and waits, until its steps are compared with those of another.

    Both run on the machine as it is then, and what other programs do on it meanwhile they share. Both are forked, since a forked process has
    none of the threads that kernels of this one use, and begin with the weights that were kept.
    """

    def __init__(self, model: Model, n: int, kept: Kept) -> None:
        kept.bring_back()
        torch.manual_seed(n)
        before = counts()
        to_child, self._requests = os.pipe()
        self._replies, from_child = os.pipe()
        self._process = os.fork()
        if not self._process:
            status = 1
            try:
                os.close(self._requests)
                while os.read(to_child, 1):
                    os.write(from_child, json.dumps(run_round(model, n)).encode())
                    n += ROUND
                status = 0
            finally:
                os._exit(status)
        os.close(to_child)
        os.close(from_child)
        self.added = {name: now - before[name] for name, now in counts().items()}

    def round(self) -> float:
        """Seconds of a round of that process."""
        os.write(self._requests, b"g")
        return float(json.loads(os.read(self._replies, 100)))

    def end(self) -> None:
        os.close(self._requests)
        os.close(self._replies)
        os.waitpid(self._process, 0)


def compared(young: Forked, old: Forked) -> float:
    """By how much a round of the old process takes longer; round by round in turn, the median."""
    ratios = []
    for _ in range(COMPARED):
        seconds = young.round()
        ratios.append(old.round() / seconds)
    for process in (old, young):  # the old one has the young one's pipes, too
        process.end()
    # The first rounds copy pages that processes share.
    return statistics.median(ratios[COMPARED // 6 :]) - 1


def _objects(model: Model, n: int, rounds: int) -> float:
    """MiB of Python's and NumPy's objects that the second half of further rounds leaves."""
    tracemalloc.start()
    try:
        sizes = []
        for place in range(rounds):
            run_round(model, n)
            n += ROUND
            if place in (rounds // 2 - 1, rounds - 1):
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        return (sizes[1] - sizes[0]) / MIB
    finally:
        tracemalloc.stop()
