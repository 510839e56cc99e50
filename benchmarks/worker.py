"""A process that has loaded one library and does what it is told, a JSON line in and a JSON line out, until its input ends.

`python -m benchmarks.worker LIBRARY THREADS [realtime] [compile] [mode=MODE]`. Answers go through a copy of the standard output, and what a
library prints there goes to standard error, so that it cannot get between them.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import importlib
import json
import os
import sys
import traceback

from benchmarks import machine
from benchmarks.rows import ROWS
from benchmarks.timing import Stopwatch
from benchmarks.workload import use_compiler

__all__ = ["Worker", "main"]


class Worker:
    """One library, and the row that is being timed."""

    def __init__(self, library, foremost=contextlib.nullcontext, compiles=False, mode=""):
        self.library = library
        self.foremost = foremost
        self.compiles = compiles
        if compiles:
            compiler = functools.partial(library.compile, mode=mode) if mode else library.compile
            use_compiler(compiler, whole_steps=library.__name__ == "dynograd")
        self.watch = None
        self.floor = None

    def describe(self):
        return machine.describe_library(self.library)

    def build(self, name, seconds, with_floor):
        """Prepares a row, calibrates it, and returns its checksum (and the floor's), and what it must move and compute."""
        self.drop()
        row = ROWS[name]
        workload = row.build(self.library)
        checksum = workload.checksum()
        for _ in range(workload.cycle):
            workload.step()
        floor = row.floor() if with_floor and row.floor else None
        floor_checksum = floor.checksum() if floor else None
        with self.foremost():
            self.watch = Stopwatch(workload, seconds)
            self.floor = Stopwatch(floor, seconds / 2) if floor else None
        return {
            "checksum": checksum,
            "floor_checksum": floor_checksum,
            "moved": workload.moved,
            "flops": workload.flops,
        }

    def turn(self):
        """Times the row; a floor is timed right beside it, half before and half after, so that both see the same load."""
        with self.foremost():
            before = self.floor.turn() if self.floor else []
            samples = self.watch.turn()
            after = self.floor.turn() if self.floor else []
        return {"samples": samples, "floor": before + after, "calm": self.watch.calm}

    def drop(self):
        self.watch = None
        self.floor = None
        if self.compiles:
            self.library.compiler.reset()
        gc.collect()


def main(arguments) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker", description=__doc__.partition("\n")[0])
    parser.add_argument("library")
    parser.add_argument("threads", type=int)
    parser.add_argument("more", nargs="*", metavar="realtime|compile|mode=MODE")
    options = parser.parse_args(arguments)
    if options.threads < 1:
        parser.error(f"argument threads: expected at least 1, got {options.threads}")
    name, threads, more = options.library, options.threads, options.more
    mode = next((wish.removeprefix("mode=") for wish in more if wish.startswith("mode=")), "")
    if not {"realtime", "compile", f"mode={mode}"}.issuperset(more):
        parser.error(f"expected realtime, compile or mode=MODE, got {more}")
    foremost = machine.realtime if "realtime" in more else contextlib.nullcontext
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if worker is None:
                library = importlib.import_module(name)
                machine.use_threads(library, int(threads))
                worker = Worker(library, foremost, "compile" in more, mode)
            answer = {"answer": getattr(worker, request.pop("do"))(**request)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
