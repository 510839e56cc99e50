"""A process that has loaded one library and does what it is told, a JSON line in and a JSON line out, until its input ends.

`python -m benchmarks.worker LIBRARY THREADS [realtime] [compile] [everywhere] [mode=MODE] [dynamic=yes|no]`. Answers go through a copy of the
standard output, and what a library prints there goes to standard error, so that it cannot get between them.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
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
from benchmarks.workload import begin_row, rest_compiled, use_compiler

__all__ = ["DYNAMIC", "Worker", "main"]

DYNAMIC = {"yes": True, "no": False}
"""What `dynamic=` of a compiler may be told to be."""


class Worker:
    """One library, and the row that is being timed.

    Args:
        foremost: the priority at which it is timed.
        compiles: whether models or steps go through the library's compiler.
        everywhere: whether those of rows that usually do not go through it do, too.
        settings: of the compiler.
    """

    def __init__(self, library, foremost=contextlib.nullcontext, compiles=False, everywhere=False, **settings):
        self.library = library
        self.foremost = foremost
        self.compiles = compiles
        if compiles:
            compiler = functools.partial(library.compile, **settings) if settings else library.compile
            use_compiler(compiler, library.__name__ == "dynograd", everywhere)
        self.watch = None
        self.floor = None

    def describe(self):
        return machine.describe_library(self.library)

    def build(self, name, seconds, with_floor):
        """Prepares a row, calibrates it, and returns its checksum (and the floor's), and what it must move and compute."""
        self.drop()
        row = ROWS[name]
        begin_row()
        workload = row.build(self.library)
        workload = dataclasses.replace(workload, step=rest_compiled(workload.step))
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
    parser.add_argument("more", nargs="*", metavar="realtime|compile|everywhere|mode=MODE|dynamic=yes|no")
    options = parser.parse_args(arguments)
    if options.threads < 1:
        parser.error(f"argument threads: expected at least 1, got {options.threads}")
    name, threads, more = options.library, options.threads, options.more
    settings: dict[str, object] = {}
    for wish in more:
        name_of, is_setting, value = wish.partition("=")
        if not is_setting and wish in ("realtime", "compile", "everywhere"):
            continue
        if name_of == "mode":
            settings["mode"] = value
        elif name_of == "dynamic" and value in DYNAMIC:
            settings["dynamic"] = DYNAMIC[value]
        else:
            parser.error(f"expected realtime, compile, everywhere, mode=MODE, dynamic=yes or dynamic=no, got {wish!r}")
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
                worker = Worker(library, foremost, "compile" in more, "everywhere" in more, **settings)
            answer = {"answer": getattr(worker, request.pop("do"))(**request)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
