"""python -m tests.soak [--steps N] [--models A,B]: trains all models for so many steps in all, each in a process of its own, and prints a table.

python -m tests.soak together [N]: four threads that train at once, forked and spawned processes in between.
python -m tests.soak interrupts [N]: Ctrl-C at random moments, and wherever Python looks for it.
python -m tests.soak memory: a MemoryError at each allocation of a step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from tests.soak import training
from tests.soak.models import MODELS


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.soak")
    parser.add_argument("what", nargs="?", default="train", choices=["train", "model"])
    parser.add_argument("--steps", type=int, default=100_000, help="of all models together")
    parser.add_argument("--models", default=",".join(name.replace(",", ";") for name in MODELS))
    arguments = parser.parse_args()
    names = [name.replace(";", ",") for name in arguments.models.split(",")]
    if arguments.what == "model":
        print(json.dumps(training.train(names[0], arguments.steps).as_dict()))
        return 0
    return soak(names, arguments.steps)


def soak(names: list[str], steps: int) -> int:
    """Trains the models, one process each, and prints what grew."""
    print("| model | steps | ms a step | resident MiB | objects MiB | large arrays MiB | slower |\n| --- " + "| ---: " * 6 + "|")
    rows = []
    for name in names:
        row = trained_apart(name, -(-steps // len(names)))
        rows.append(row)
        print(
            f"| {name} | {row.steps:,} | {row.milliseconds:.2f} | {row.resident:+.2f} | {row.objects:+.3f} | {row.large:+.2f} "
            f"| {row.slower:+.1f} % |",
            flush=True,
        )
        for fault in row.faults():
            print(f"  {name}: {fault}", flush=True)
    wrong = sum([bool(row.faults()) for row in rows])
    print(f"{len(rows)} models, {sum([row.steps for row in rows]):,} steps, {wrong} models not as promised")
    return 1 if wrong else 0


def trained_apart(name: str, steps: int) -> training.Trained:
    command = [sys.executable, "-m", "tests.soak", "model", "--steps", str(steps), "--models", name.replace(",", ";")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"soak: {name} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return training.Trained(**told | {"counts": tuple(told["counts"])})


if __name__ == "__main__":
    sys.exit(main())
