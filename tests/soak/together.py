"""Four threads that train at once, while processes are forked and spawned: each gives what it gives alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

import dynograd as torch
from tests.soak.models import MODELS
from tests.soak.states import are_same, plain
from tests.soak.training import counts, resident

AT_ONCE = ("perceptron", "LSTM", "ragged rows", "compiled LSTM")
"""They draw no numbers: those of all threads come from one stream."""
IN_PROCESS = ("perceptron", 10)
PATIENCE = 120  # seconds for a process on a machine that has other work


@dataclass
class Together:
    """What came of it: steps of all threads, processes that ended well, MiB that the second half left, and what was wrong."""

    steps: int
    forked: int
    spawned: int
    resident: float
    told: list[str]


def alone(name: str, steps: int, seed: int = 0) -> list[Any]:
    """What the last steps of a training give."""
    torch.manual_seed(seed)
    return _trained(MODELS[name](), steps)


def _trained(model: Any, steps: int, halfway: Any = None) -> list[Any]:
    results = []
    for n in range(steps):
        if halfway is not None and n == steps // 2:
            halfway.wait()
        results.append(plain(model.step(n)))
        del results[:-5]
    return results


def in_process() -> None:
    """Ends with an exit code that says whether a training in this process gives what it should."""
    name, steps = IN_PROCESS
    results = alone(name, steps)
    model = MODELS[name]  # and once more, in the state in which the process is now
    torch.manual_seed(0)
    os._exit(0 if are_same(results, _trained(model(), steps)) else 3)


def train_together(steps: int, forks: int, spawns: int) -> Together:
    """Each of the threads trains so many steps; meanwhile this one forks and spawns processes that train, too."""
    expected = {name: alone(name, steps) for name in AT_ONCE}
    models = {}
    for name in AT_ONCE:
        torch.manual_seed(0)
        models[name] = MODELS[name]()
    results: dict[str, Any] = {}
    told: list[str] = []
    memory: list[float] = []
    halfway = threading.Barrier(len(AT_ONCE), action=lambda: memory.append(resident()))

    def run(name: str) -> None:
        try:
            results[name] = _trained(models[name], steps, halfway)
        except BaseException as error:
            told.append(f"{name}: {error!r}")
            halfway.abort()

    resource_tracker.ensure_running()  # a process of Python's own, which stays
    before = counts()
    threads = [threading.Thread(target=run, args=[name]) for name in AT_ONCE]
    for thread in threads:
        thread.start()
    forked = sum([_forked(told) for _ in range(forks)])
    spawned = sum([_spawned(told) for _ in range(spawns)])
    for thread in threads:
        thread.join()
    memory.append(resident())
    for name in AT_ONCE:
        if name in results and not are_same(results[name], expected[name]):
            told.append(f"{name} gives something else than alone")
    after = counts()
    told += [
        f"{name}: {before[name]} became {after[name]}"
        for name in ("Python's threads", "shared memory", "children")
        if before[name] != after[name]
    ]
    return Together(len(AT_ONCE) * steps, forked, spawned, memory[-1] - memory[0], told)


def _forked(told: list[str]) -> bool:
    process = os.fork()
    if not process:
        signal.alarm(PATIENCE)  # a process that waits for a lock which nobody gives back
        in_process()
    _, status = os.waitpid(process, 0)
    if status:
        told.append(f"a forked process ended with {status}")
    return not status


def _spawned(told: list[str]) -> bool:
    process = multiprocessing.get_context("spawn").Process(target=in_process)
    process.start()
    process.join(PATIENCE)
    if process.exitcode:
        told.append(f"a spawned process ended with {process.exitcode}")
    done = process.exitcode == 0
    process.close()
    return done
