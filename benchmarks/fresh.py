"""What needs a process of its own: import time, the time to a first step, peak memory, growth of memory over many steps.

`python -m benchmarks.fresh KIND LIBRARY ROW STEPS THREADS` measures once and prints a JSON line.

A first step is timed from before the process starts to the end of the step; the import of the benchmark's own rows is taken off. It is cold where
the cache of compiled kernels is empty, else a cold process has filled it. One more process, which is not timed, says what of dynograd's time went where.
An answer is that of a saved program (`benchmarks/answers.py`), timed from before the process starts, the import of the library included.
A first plan is what `compile` adds to the first three steps, behind a step of the same row as it is written: the wait of a program that turns it on.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from benchmarks import answers
from benchmarks.sides import ROOT, environment, output_of

__all__ = ["FRESH", "FreshRow", "costly_imports", "measure", "parts_of"]

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


_STARTS = {
    "mlp": "mlp",
    "convnet": "convnet",
    "sentiment": "sentiment",
    "gpt": "gpt.small",
    "trees": "dynamic.trees_25",
    "gcn": "gcn",
}

_PLANS = ("mlp", "gpt.small", "gpt")

FRESH = {
    row.name: row
    for row in [
        FreshRow("import", "import", "s"),
        *[FreshRow(f"first.{name}.cold", "first", "s", row, cold=True, group="cold") for name, row in _STARTS.items()],
        *[FreshRow(f"first.{name}", "first", "s", row, group="warm") for name, row in _STARTS.items()],
        *[FreshRow(f"answer.{name}", "answer", "s", name) for name in answers.MODELS],
        *[FreshRow(f"plan.{row}.cold", "plan", "s", row, cold=True, group="plans") for row in _PLANS],
        *[FreshRow(f"plan.{row}", "plan", "s", row, group="plans") for row in _PLANS],
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
    if row.kind == "answer":
        return {"value": answers.seconds(row.row, library, threads)}
    if row.kind == "plan":
        return plan_of(row, library, threads, steps)
    if row.kind != "first":
        return reading_of(row.kind, row, library, threads, steps)
    if row.cold:
        with tempfile.TemporaryDirectory() as folder:
            reading = reading_of("first", row, library, threads, steps, DYNOGRAD_CACHE_DIR=folder)
    else:
        fill_cache(row.row, library, threads)
        reading = reading_of("first", row, library, threads, steps, DYNOGRAD_CACHE_DIR=_filled[row.row])
    return {"value": reading["finished"] - reading["start"] - reading["rows"]}


def plan_of(row: FreshRow, library: str, threads: int, steps: int) -> dict[str, float]:
    """A first plan with an empty cache of kernels, without a pack, or in a process that finds the kernels of one before it."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {"DYNOGRAD_CACHE_DIR": folder, "DYNOGRAD_PACK": "0"}
        for _ in range(1 if row.cold else 2):
            reading = reading_of("plan", row, library, threads, steps, **variables)
    return reading


def parts_of(row: FreshRow, library: str, threads: int) -> dict[str, float]:
    """Where the seconds of a first step go, by name; empty for other libraries."""
    if library != "dynograd":
        return {}
    if row.cold:
        return fill_cache(row.row, library, threads)
    fill_cache(row.row, library, threads)
    return named_parts(reading_of("parts", row, library, threads, 1, DYNOGRAD_CACHE_DIR=_filled[row.row]))


_filled: dict[str, str] = {}  # by row, folders that a cold process has filled
_cold_parts: dict[str, dict[str, float]] = {}


def fill_cache(name: str, library: str, threads: int) -> dict[str, float]:
    """Runs a cold process, once, and keeps its folder until the program ends; where its seconds went."""
    if name not in _filled:
        _filled[name] = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, _filled[name], ignore_errors=True)
        row = FreshRow(name, "first", "s", name, cold=True)
        kind = "parts" if library == "dynograd" else "first"
        reading = reading_of(kind, row, library, threads, 1, DYNOGRAD_CACHE_DIR=_filled[name])
        _cold_parts[name] = named_parts(reading)
    return _cold_parts[name]


def named_parts(reading):
    return {"process": reading["begun"] - reading["start"], **reading.get("parts", {})}


def reading_of(kind, row, library, threads, steps, **variables):
    """What the new process says, and when it was started."""
    arguments = ["-m", "benchmarks.fresh", kind, library, row.row, str(steps), str(threads)]
    start = time.time()
    text = output_of(arguments, threads, **variables)
    return {**json.loads(text.splitlines()[-1]), "start": start}


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


# ---------------------------------------------------------------- inside the new process


def main(arguments) -> None:
    begun = time.time()
    import importlib.util

    if len(arguments) != 5 or not all([text.isdigit() for text in arguments[3:]]):
        # argparse would be a part of what is measured
        sys.exit(_usage(f"got {' '.join(arguments) or 'nothing'}"))
    kind, name, row, steps, threads = arguments
    if importlib.util.find_spec(name) is None:
        sys.exit(_usage(f"there is no library {name!r}"))
    clock = PartsClock()
    with clock.part("import"):
        library = importlib.import_module(name)
    if kind == "parts":
        clock.listen()
    start = time.time()
    with clock.part("rows"):
        from benchmarks.machine import forget_peak, memory, use_threads
        from benchmarks.rows import ROWS
        from benchmarks.workload import use_compiler
    rows = time.time() - start

    if row not in ROWS:
        sys.exit(_usage(f"got {' '.join(arguments)}"))
    use_threads(library, int(threads))
    after_import = memory()[0]
    forget_peak()
    workload = ROWS[row].build(library)
    if kind == "plan":
        workload.step()
        use_compiler(library.compile, whole_steps=name == "dynograd")
        print(json.dumps({"value": time_of_plan(ROWS[row].build(library).step)}))
        return
    if kind in ("first", "parts"):
        workload.step()
        reading = {"begun": begun, "rows": rows, "finished": time.time()}
        if kind == "parts":
            reading["parts"] = clock.totals()
    elif kind == "peak":
        run(workload.step, max(PEAK_STEPS, workload.cycle))
        peak = memory()[1]
        reading = {"value": peak - after_import, "after_import": after_import, "peak": peak}
    else:
        reading = growth(workload, int(steps), memory)
    print(json.dumps(reading))


def time_of_plan(step) -> float:
    """What the first three calls of a compiled step take beyond three of the later ones."""
    seconds = []
    for _ in range(8):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return sum(seconds[:3]) - 3 * min(seconds[3:])


class PartsClock:
    """Seconds by the part of a start that they went to; a part within another one is not counted for both."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._stack = ["program"]
        self._mark = time.perf_counter()

    def enter(self, name: str) -> None:
        self._pass_to(self._stack[-1])
        self._stack.append(name)

    def leave(self) -> None:
        self._pass_to(self._stack.pop())

    def _pass_to(self, name: str) -> None:
        now = time.perf_counter()
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._mark
        self._mark = now

    @contextlib.contextmanager
    def part(self, name: str):
        self.enter(name)
        try:
            yield
        finally:
            self.leave()

    def around(self, name: str, function):
        """The function, its time counted for a part."""

        def timed(*args, **kwargs):
            with self.part(name):
                return function(*args, **kwargs)

        return timed

    def totals(self) -> dict[str, float]:
        """Without what the benchmark's own rows cost to import."""
        self._pass_to(self._stack[-1])
        return {name: round(seconds, 4) for name, seconds in self._seconds.items() if name != "rows"}

    def listen(self) -> None:
        """Hears of what dynograd writes, compiles and loads. Loads Numba, which a program does when it first needs it."""
        from dynograd.base import generated_sources

        with self.part("import of Numba"):
            from numba.core import event

            from dynograd.kernels.build import compiling_numba

        for name in ("run_source", "run_written"):
            function = getattr(generated_sources, name)
            timed = self.around("writing functions", function)
            for module in list(sys.modules.values()):
                if module.__name__.startswith("dynograd.") and vars(module).get(name) is function:
                    setattr(module, name, timed)
        cache = compiling_numba._KernelCache
        cache.load_overload = self.around("loading kernels", cache.load_overload)
        clock = self

        class Compiling(event.Listener):
            def on_start(self, event):
                clock.enter("compiling, front end")

            def on_end(self, event):
                clock.leave()

        class InLLVM(event.Listener):
            def on_start(self, event):
                within = clock._stack[-1]
                clock.enter("compiling, LLVM" if within.startswith("compiling") else within)

            def on_end(self, event):
                clock.leave()

        event.register("numba:compile", Compiling())
        event.register("numba:llvm_lock", InLLVM())


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
