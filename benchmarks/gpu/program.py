"""`python -m benchmarks gpu [rows...]`: the rows on this machine's GPU, beside torch where it has one too."""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import os
import subprocess
import sys
from datetime import UTC, datetime

from benchmarks.gpu.rows import GPU_ROWS
from dynograd.utils import programs

__all__ = ["main", "table"]


def main(arguments=None) -> int:
    """Returns 1 where there is no GPU, or a row of dynograd failed."""
    options = parser().parse_args(arguments)
    return programs.run(lambda: measured(options), "benchmarks gpu")


def measured(options) -> int:
    names = [
        name
        for name in GPU_ROWS
        if not options.rows or any(fnmatch.fnmatchcase(name, pattern) for pattern in options.rows)
    ]
    if options.list:
        print("\n".join(names))
        return 0
    if not names:
        parser().error(f"no row is called {options.rows}; --list shows them")
    from dynograd import cuda
    from dynograd.cuda import driver

    if not cuda.is_available() or (driver.is_emulated() and not options.small):
        why = "DYNOGRAD_CUDA=emulated has no speed of its own" if driver.is_emulated() else driver.reason()
        print(f"No GPU to time on: {why}. Nothing was measured.", file=sys.stderr)
        return 1
    sides = chosen_sides(options)
    answered = {label: answers(command, names, options.small) for label, command in sides.items()}
    if options.small:  # such times say nothing
        print("\n".join(f"{name:32} {answered['dynograd'].get(name, {}).get('error', 'ran')}" for name in names))
    else:
        print(table(describe(cuda), names, answered))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(answered, file, indent=1)
    return int(any("error" in answer for answer in answered["dynograd"].values()))


def parser():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu", description="Times dynograd on a GPU, beside torch."
    )
    parser.add_argument("rows", nargs="*", help="names or patterns (matmul*); all when none is given")
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    parser.add_argument("--small", action="store_true", help="tiny sizes, one step each: shows that the rows run")
    parser.add_argument("--peer", default="torch", help="what it is compared with, or none")
    parser.add_argument("--no-compile", action="store_true", help="leave both libraries' compile out")
    parser.add_argument("--json", metavar="FILE", type=programs.file_to_write, help="write all figures there too")
    return parser


def chosen_sides(options):
    """The words that start each side's process."""
    sides = {"dynograd": ["dynograd"]}
    if not options.no_compile:
        sides["dynograd.compile"] = ["dynograd", "--compile"]
    if options.peer == "none":
        return sides
    if importlib.util.find_spec(options.peer) is None:
        print(f"{options.peer} cannot be imported: timing dynograd alone", file=sys.stderr)
        return sides
    sides[options.peer] = [options.peer]
    if not options.no_compile:
        sides[f"{options.peer}.compile"] = [options.peer, "--compile"]
    return sides


def answers(words, names, small):
    """What a side's process said of each row."""
    chosen = [name for name in names if "--compile" not in words or GPU_ROWS[name].compiles]
    command = [sys.executable, "-m", "benchmarks.gpu.worker", *words, *(["--small"] if small else []), *chosen]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ.copy(), check=False)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for answer in said:
        if "row" not in answer:
            print(f"{words[0]}: {answer['error']}", file=sys.stderr)
    return {answer["row"]: answer for answer in said if "row" in answer}


def describe(cuda):
    """What the figures were taken with."""
    import triton

    import dynograd

    name = cuda.get_device_name(0)
    major, minor = cuda.get_device_capability(0)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "card": f"{name} (compute capability {major}.{minor})",
        "dynograd": dynograd.__version__,
        "triton": triton.__version__,
        "python": sys.version.split()[0],
    }


def table(description, names, answered):
    """Markdown: times, ratios (above 1: dynograd is faster), and what share of the copy's bandwidth or how many TFLOP/s that is."""
    lines = ["|  |  |", "| --- | --- |", *[f"| {key} | {value} |" for key, value in description.items()], ""]
    labels = [*answered]
    heads = ["row", *labels, *[f"{label} / dynograd" for label in labels[1:]], "dynograd reaches"]
    lines += [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    copied = answered["dynograd"].get("copy", {})
    rate = copied["moved"] / copied["seconds"] if copied.get("seconds") else 0.0
    for name in names:
        sides = [answered[label].get(name, {}) for label in labels]
        ours = sides[0].get("seconds")
        cells = [duration(answer) for answer in sides]
        cells += [f"{answer['seconds'] / ours:.2f}" if ours and answer.get("seconds") else "-" for answer in sides[1:]]
        lines.append(f"| {name} | {' | '.join(cells)} | {reached(sides[0], rate)} |")
    return "\n".join(lines)


def duration(answer):
    if "error" in answer:
        return f"failed: {answer['error'][:80]}".replace("|", "/").replace("\n", " ")
    if "seconds" not in answer:
        return "-"
    seconds = answer["seconds"]
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3f} ms"


def reached(answer, rate):
    if not answer.get("seconds"):
        return "-"
    if answer["flops"]:
        return f"{answer['flops'] / answer['seconds'] / 1e12:.1f} TFLOP/s"
    if answer["moved"]:
        share = f" ({answer['moved'] / answer['seconds'] / rate:.0%} of copy)" if rate else ""
        return f"{answer['moved'] / answer['seconds'] / 1e9:.0f} GB/s{share}"
    return "-"
