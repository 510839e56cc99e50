"""One library's side: times the rows named on the command line and prints a line of JSON for each.

python -m benchmarks.gpu.worker LIBRARY [--compile] [--small] ROW...
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import traceback

from benchmarks.gpu.rows import GPU_ROWS

__all__ = ["main", "timed"]

WARM_STEPS, TURNS, SECONDS = 3, 7, 0.2


def main(arguments=None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    options = {one for one in given if one.startswith("--")}
    library, *names = [one for one in given if not one.startswith("--")]
    torch = importlib.import_module(library)
    if not torch.cuda.is_available():
        print(json.dumps({"error": f"{library} finds no CUDA device"}))
        return 1
    if "--compile" in options:
        torch.benchmark_compile = torch.compile
    for name in names:
        try:
            answer = timed(torch, GPU_ROWS[name], "--small" in options)
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
