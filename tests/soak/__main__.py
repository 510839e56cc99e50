"""python -m tests.soak [--steps N] [--models A,B]: trains all models for so many steps in all, each in a process of its own, and prints a table.

python -m tests.soak together [--steps N]: four threads that train at once, while processes are forked and spawned.
python -m tests.soak interrupts [--steps N]: N times Ctrl-C, at random moments and wherever Python looks for it.
python -m tests.soak memory: a MemoryError at each allocation of a step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.soak import interrupts, memory_errors, together, training
from tests.soak.models import MODELS


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.soak")
    parser.add_argument(
        "what", nargs="?", default="train", choices=["train", "model", "together", "interrupts", "memory"]
    )
    parser.add_argument("--steps", type=int, help="of all models together, or how many interrupts")
    parser.add_argument("--models", help="names, with a comma between them, and a semicolon for a comma in them")
    arguments = parser.parse_args()
    argument = [] if arguments.models is None else [name.replace(";", ",") for name in arguments.models.split(",")]
    if arguments.what == "model":
        print(json.dumps(training.train(argument[0], arguments.steps).as_dict()))
        return 0
    if arguments.what == "together":
        return together_for((arguments.steps or 20_000) // len(together.AT_ONCE))
    if arguments.what == "interrupts":
        names = argument or list(interrupts.INTERRUPTED)
        each = -(-(arguments.steps or 200) // len(names))
        return disturb("interrupted", names, lambda name: interrupts.interrupt(name, each))
    if arguments.what == "memory":
        return disturb("failed", argument or list(interrupts.INTERRUPTED), memory_errors.starve)
    return soak(argument or list(MODELS), arguments.steps or 100_000)


def disturb(what: str, names: list[str], way: Callable[[str], tuple[int, int, list[str]]]) -> int:
    """Steps that end with an exception, model by model."""
    print(f"| model | places in a step | {what} | wrong |\n| --- | ---: | ---: | ---: |")
    counted, wrong = 0, []
    for name in names:
        places, count, told = way(name)
        counted += count
        wrong += told
        print(f"| {name} | {places:,} | {count} | {len(told)} |", flush=True)
    print("\n".join([*wrong, f"{counted} times, {len(wrong)} wrong"]))
    return 1 if wrong else 0


def together_for(steps: int) -> int:
    row = together.train_together(steps, forks=20, spawns=3)
    print(
        f"{row.steps:,} steps of {len(together.AT_ONCE)} threads, {row.forked} forked and {row.spawned} spawned processes, "
        f"{row.resident:+.2f} MiB in the second half"
    )
    print("\n".join(row.told))
    return 1 if row.told or row.resident >= 1 else 0


def soak(names: list[str], steps: int) -> int:
    """Trains the models, one process each, and prints what grew."""
    print(
        "| model | steps | ms a step | resident MiB | objects MiB | large arrays MiB | slower | more calls |\n| --- "
        + "| ---: " * 7
        + "|"
    )
    rows = []
    for name in names:
        row = trained_apart(name, -(-steps // len(names)))
        rows.append(row)
        print(
            f"| {name} | {row.steps:,} | {row.milliseconds:.2f} | {row.resident:+.2f} | {row.objects:+.3f} | {row.large:+.2f} "
            f"| {row.slower:+.1f} % | {row.calls:+.2f} % |",
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
