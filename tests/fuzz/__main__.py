"""python -m tests.fuzz [MINUTES] [FIRST SEED]: random programs run in all ways that must agree, until the time is over; seeds that failed are
added to tests/fuzz/seeds.txt, which the tests read. Programs over rows and programs over tensors take turns.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.fuzz import programs, tensor_programs, tensor_ways, ways

SEEDS = Path(__file__).with_name("seeds.txt")
KINDS = {"rows": (programs.make, ways.problems), "tensors": (tensor_programs.make, tensor_ways.problems)}


def main(minutes: float, first: int) -> int:
    end, seed, failed = time.monotonic() + 60 * minutes, first, 0
    while time.monotonic() < end:
        for kind, (make, problems) in KINDS.items():
            told = problems(seed)
            if told:
                failed += 1
                print(f"{kind}, seed {seed}\n{make(seed).text}" + "\n".join(told), flush=True)
                with SEEDS.open("a") as file:
                    file.write(f"{kind} {seed}\n")
        seed += 1
    print(f"{seed - first} programs each over {' and over '.join(KINDS)}, seeds {first} to {seed - 1}: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(float(arguments[0]) if arguments else 1.0, int(arguments[1]) if len(arguments) > 1 else 0))
