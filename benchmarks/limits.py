"""What the machine can do at best, measured at the start of a run of kernels: bytes a second by working set, and sgemm.

`python -m benchmarks.limits THREADS [realtime]` prints them as a JSON line. Only NumPy is used. Copies run in as many Python threads as asked
for (NumPy lets go of the interpreter's lock while it copies); a working set that fits a core's own caches is copied by one thread, whose rate is
multiplied by the number of threads, because handing over the lock would take as long as the copy.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter

import numpy

from benchmarks import machine
from benchmarks.sides import ROOT, RowFailed, environment

__all__ = ["Limits", "measure_limits"]

KIB, MIB = 2**10, 2**20
WORKING_SETS = (128 * KIB, 1 * MIB, 4 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 512 * MIB)
"""Bytes read and written by a copy, over all threads."""
OWN = 2 * MIB
"""Up to this size a thread, the caches of one core are meant."""
ORDERS = (256, 512, 1024, 2048)
TRY_SECONDS = 0.05
TRIES = 3


@dataclass(frozen=True)
class Limits:
    """`copy` gives bytes a second (read and written) by working set, `sgemm` floating-point operations a second."""

    copy: dict[int, float]
    sgemm: float

    def least_time(self, moved: int, flops: int) -> tuple[float, str]:
        """Seconds for so many bytes and operations, and which of the two it is that takes them."""
        moving = moved / self.rate_for(moved)
        computing = flops / self.sgemm
        return (moving, "bytes") if moving >= computing else (computing, "flops")

    def rate_for(self, moved: int) -> float:
        """The copy rate of the smallest measured working set that holds so many bytes, else of the largest."""
        holding = [size for size in sorted(self.copy) if size >= moved]
        return self.copy[holding[0] if holding else max(self.copy)]

    def describe(self) -> dict[str, str]:
        rates = [f"{size_name(size)} {rate / 1e9:.0f}" for size, rate in self.copy.items()]
        return {"copy, GB/s by working set": ", ".join(rates), "sgemm": f"{self.sgemm / 1e9:.0f} GFLOP/s"}


def measure_limits(threads: int, realtime: bool = False) -> Limits:
    """The limits, measured in a process of its own."""
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.limits", str(threads), *["realtime"] * realtime],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(threads),
    )
    if result.returncode:
        raise RowFailed(result.stderr)
    figures = json.loads(result.stdout)
    return Limits({int(size): rate for size, rate in figures["copy"].items()}, figures["sgemm"])


def size_name(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def copy_rate(working_set: int, threads: int) -> float:
    """Bytes a second, read and written, at best."""
    parts = 1 if working_set <= OWN * threads else threads
    count = working_set // threads // 2 // 4
    pairs = [(numpy.ones(count, numpy.float32), numpy.ones(count, numpy.float32)) for _ in range(parts)]
    moved = parts * 2 * 4 * count
    with ThreadPoolExecutor(parts) as pool:

        def copy(repeats):
            return list(pool.map(lambda pair: [numpy.copyto(*pair) for _ in range(repeats)], pairs))

        return threads / parts * moved / best_time(copy)


def sgemm_rate(order: int) -> float:
    a = numpy.ones((order, order), numpy.float32)
    result = numpy.empty_like(a)

    def multiply(repeats):
        for _ in range(repeats):
            numpy.matmul(a, a, out=result)

    return 2 * order**3 / best_time(multiply)


def best_time(run) -> float:
    """Seconds that one repeat of `run(repeats)` takes, in the best of a few tries."""
    run(1)
    repeats = 1
    best = float("inf")
    tries = 0
    while tries < TRIES:
        start = perf_counter()
        run(repeats)
        taken = perf_counter() - start
        best = min(best, taken / repeats)
        if taken < TRY_SECONDS / 2:
            repeats = max(2 * repeats, int(repeats * TRY_SECONDS / max(taken, 1e-9)))
        else:
            tries += 1
    return best


def main(arguments) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__.partition("\n")[0])
    parser.add_argument("threads", type=int)
    parser.add_argument("priority", nargs="?", choices=["realtime"])
    options = parser.parse_args(arguments)
    if options.threads < 1:
        parser.error(f"argument threads: expected at least 1, got {options.threads}")
    threads = options.threads
    with machine.realtime() if options.priority else contextlib.nullcontext():
        copy = {size: copy_rate(size, int(threads)) for size in WORKING_SETS}
        sgemm = max(map(sgemm_rate, ORDERS))
    print(json.dumps({"copy": copy, "sgemm": sgemm}))


if __name__ == "__main__":
    main(sys.argv[1:])
