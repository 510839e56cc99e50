"""What needs a process of its own: import time, the time to a first step, peak memory, growth of memory over many steps.

`python -m benchmarks.fresh KIND LIBRARY ROW STEPS THREADS` measures once and prints a JSON line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from benchmarks.sides import ROOT, RowFailed, environment

__all__ = ["FRESH", "FreshRow", "costly_imports", "measure"]

IMPORT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
PEAK_STEPS = 10
READINGS = 10


@dataclass(frozen=True)
class FreshRow:
    """A line of the tables of fresh processes."""

    name: str
    kind: str
    unit: str
    row: str = ""
    cold: bool = False
    """Whether the cache of compiled kernels starts empty."""
    group: str = "fresh"


FRESH = {
    row.name: row
    for row in [
        FreshRow("import", "import", "s"),
        FreshRow("first.mlp", "first", "s", "mlp"),
        FreshRow("first.sentiment", "first", "s", "sentiment"),
        FreshRow("first.mlp.cold", "first", "s", "mlp", cold=True),
        FreshRow("first.sentiment.cold", "first", "s", "sentiment", cold=True),
        FreshRow("memory.mlp", "peak", "MiB", "mlp"),
        FreshRow("memory.sentiment", "peak", "MiB", "sentiment"),
        FreshRow("memory.lenet", "peak", "MiB", "lenet"),
        FreshRow("memory.resnet20", "peak", "MiB", "resnet20"),
        FreshRow("memory.lstm", "peak", "MiB", "lstm.characters"),
        FreshRow("memory.gpt", "peak", "MiB", "gpt"),
        FreshRow("slope.mlp", "slope", "MiB", "mlp"),
        FreshRow("slope.sentiment", "slope", "MiB", "sentiment.batch8"),
    ]
}


def measure(row: FreshRow, library: str, threads: int, steps: int) -> dict[str, float]:
    """One measurement in a new process: `value` in the row's unit, and what else was read."""
    if row.kind == "import":
        return {"value": float(output_of(["-c", IMPORT.format(library)], threads))}
    arguments = ["-m", "benchmarks.fresh", row.kind, library, row.row, str(steps), str(threads)]
    with tempfile.TemporaryDirectory() as folder:
        start = time.time()
        text = output_of(arguments, threads, **({"DYNOGRAD_CACHE_DIR": folder} if row.cold else {}))
    reading = json.loads(text.splitlines()[-1])
    return {"value": reading["finished"] - start} if row.kind == "first" else reading


def costly_imports(library: str, threads: int, count: int = 15) -> list[str]:
    """The lines of `python -X importtime` with the largest cumulative time, in microseconds."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import {library}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(threads),
    )
    lines = [
        line.removeprefix("import time:") for line in result.stderr.splitlines() if line.startswith("import time:")
    ]
    return lines[:1] + sorted(lines[1:], key=lambda line: -int(line.split("|")[1]))[:count]


def output_of(arguments, threads, **more):
    result = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, env=environment(threads, **more)
    )
    if result.returncode:
        raise RowFailed(result.stderr or f"the process ended with status {result.returncode}")
    return result.stdout


# ---------------------------------------------------------------- inside the new process


def main(arguments) -> None:
    import importlib.util

    from benchmarks.machine import forget_peak, memory, use_threads
    from benchmarks.rows import ROWS

    if len(arguments) != 5 or arguments[2] not in ROWS or not all([one.isdigit() for one in arguments[3:]]):
        # argparse would be a part of what is measured
        sys.exit(_usage(f"got {' '.join(arguments) or 'nothing'}"))
    kind, name, row, steps, threads = arguments
    if importlib.util.find_spec(name) is None:
        sys.exit(_usage(f"there is no library {name!r}"))
    library = importlib.import_module(name)
    use_threads(library, int(threads))
    after_import = memory()[0]
    forget_peak()
    workload = ROWS[row].build(library)
    if kind == "first":
        workload.step()
        reading = {"finished": time.time()}
    elif kind == "peak":
        run(workload.step, max(PEAK_STEPS, workload.cycle))
        peak = memory()[1]
        reading = {"value": peak - after_import, "after_import": after_import, "peak": peak}
    else:
        reading = growth(workload, int(steps), memory)
    print(json.dumps(reading))


def _usage(problem) -> int:
    print(f"usage: python -m benchmarks.fresh KIND LIBRARY ROW STEPS THREADS: {problem}", file=sys.stderr)
    return 2


def growth(workload, steps, memory):
    """Resident memory gained over `steps` steps, after a quarter as many (at least one cycle) to warm up."""
    run(workload.step, max(steps // 4, workload.cycle))
    readings = [memory()[0]]
    for part in range(READINGS):
        run(workload.step, steps * (part + 1) // READINGS - steps * part // READINGS)
        readings.append(memory()[0])
    return {"value": readings[-1] - readings[0], "steps": steps, "readings": readings}


def run(step, count):
    for _ in range(count):
        step()


if __name__ == "__main__":
    main(sys.argv[1:])
