"""python -m tests.fuzz [MINUTES] [FIRST SEED]: random programs run in all ways that must agree, until the time is over; seeds that failed are
added to tests/fuzz/seeds.txt, which the tests read.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.fuzz.programs import make
from tests.fuzz.ways import EQUAL_ROWS, WAYS, problems

SEEDS = Path(__file__).with_name("seeds.txt")


def main(minutes: float, first: int) -> int:
    end, seed, failed = time.monotonic() + 60 * minutes, first, 0
    while time.monotonic() < end:
        told = problems(seed)
        if told:
            failed += 1
            print(f"seed {seed}\n{make(seed).text}" + "\n".join(told), flush=True)
            with SEEDS.open("a") as file:
                file.write(f"{seed}\n")
        seed += 1
    ways = ", ".join([*WAYS, *EQUAL_ROWS])
    print(f"{seed - first} programs, seeds {first} to {seed - 1}, each row by row and by {ways}: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(float(arguments[0]) if arguments else 1.0, int(arguments[1]) if len(arguments) > 1 else 0))
