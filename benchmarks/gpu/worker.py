"""One library's side: times the rows named on the command line and prints a line of JSON for each.

python -m benchmarks.gpu.worker LIBRARY [--compile] [--small] ROW...
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import traceback

from benchmarks.gpu.rows import GPU_ROWS

__all__ = ["main", "timed"]

WARM_STEPS, TURNS, SECONDS = 3, 7, 0.2


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.worker", description=__doc__.partition("\n")[0])
    parser.add_argument("library", choices=["dynograd", "torch"])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--compile", action="store_true", help="rows that can be compiled are")
    parser.add_argument("--small", action="store_true", help="tiny sizes, one step each")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.rows if name not in GPU_ROWS]
    if unknown:
        parser.error(f"no row is called {unknown[0]!r}")
    torch = importlib.import_module(options.library)
    if not torch.cuda.is_available():
        print(json.dumps({"error": f"{options.library} finds no CUDA device"}))
        return 1
    if options.compile:
        torch.benchmark_compile = torch.compile
        torch.benchmark_compiles_steps = options.library == "dynograd"
    for name in options.rows:
        try:
            answer = timed(torch, GPU_ROWS[name], options.small)
        except Exception as error:
            answer = {"error": "".join(traceback.format_exception_only(error)).strip()[:300]}
        print(json.dumps({"row": name, **answer}), flush=True)
        if hasattr(torch, "_dynamo"):
            torch._dynamo.reset()
        torch.cuda.empty_cache()
    return 0


def timed(torch, row, small=False) -> dict:
    """Seconds of a step, the median of several turns, by events on the device."""
    step = row.build(torch, small)
    for _ in range(1 if small else WARM_STEPS):
        step.run()
    torch.cuda.synchronize()
    count = 1
    while True:
        took = turn(torch, step.run, count)
        if took >= SECONDS / 4 or small:
            break
        count *= 2
    turns = [turn(torch, step.run, count) / count for _ in range(1 if small else TURNS)]
    return {"seconds": statistics.median(turns), "least": min(turns), "moved": step.moved, "flops": step.flops}


def turn(torch, run, count) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000


if __name__ == "__main__":
    sys.exit(main())
