"""Changed files of every format that dynograd reads: each is refused with the error of its format, or read; nothing runs, crashes or hangs.

python -m tests.fuzz.files --count 10000                         so many of each format
python -m tests.fuzz.files --count 500 --seed 3 --format pt,npz  of some

The files are read in processes with an audit hook (no code, no process, no socket, no file outside the folder), a limit of memory, and a
time for each file. A file that ends otherwise is told with its number, and kept in --keep.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.fuzz.files.formats import FORMATS
from tests.fuzz.files.trying import SECONDS

PART = 2500  # files of one process


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.fuzz.files", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=5000, help="files of each format (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", default=",".join(FORMATS), help=f"some of {', '.join(FORMATS)}")
    parser.add_argument(
        "--keep", type=Path, default=Path("build/fuzz-files"), help="a folder for what failed (%(default)s)"
    )
    options = parser.parse_args(arguments)
    names = options.format.split(",")
    if not set(names) <= set(FORMATS):
        parser.error(f"--format: expected some of {', '.join(FORMATS)}, got {options.format}")
    total: Counter[str] = Counter()
    print("| format | files | refused | read | faults |\n| --- | ---: | ---: | ---: | ---: |", flush=True)
    for name in names:
        counts = _all_of(name, options.count, options.seed, options.keep)
        print(
            f"| {name} | {options.count:,} | {counts['refused']:,} | {counts['read']:,} | {counts['fault']} |",
            flush=True,
        )
        total += counts
    print(f"| all | {total.total():,} | {total['refused']:,} | {total['read']:,} | {total['fault']} |")
    return int(total["fault"] > 0)


def _all_of(name: str, count: int, seed: int, keep: Path) -> Counter[str]:
    """What became of the files of a format; a process that dies is followed by one that goes on behind the file."""
    counts: Counter[str] = Counter()
    first = 0
    environment = os.environ if FORMATS[name].runs else {**os.environ, "DYNOGRAD_CACHE": "0"}  # nothing is written
    while first < count:
        most = min(PART, count - first)
        words = [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "tests.fuzz.files.trying",
            name,
            str(seed),
            str(first),
            str(most),
        ]
        done = subprocess.run([*words, str(keep)], capture_output=True, text=True, env=environment)
        if not done.stdout.startswith("ready"):
            raise SystemExit(f"{name}: good files cannot be read\n{done.stderr[-3000:]}")
        lines = [line.split(" ", 2) for line in done.stdout.splitlines() if line != "ready"]
        counts.update([line[0] for line in lines])
        for _, number, text in [line for line in lines if line[0] == "fault"]:
            print(f"{name}, seed {seed}, number {number}: {text}", file=sys.stderr, flush=True)
        first += len(lines)
        if len(lines) < most:
            counts["fault"] += 1
            why = f"the process ended with {done.returncode} (more than {SECONDS} seconds, or a crash)"
            print(f"{name}, seed {seed}, number {first}: {why}\n{done.stderr[-3000:]}", file=sys.stderr, flush=True)
            first += 1
    return counts


if __name__ == "__main__":
    sys.exit(main())
