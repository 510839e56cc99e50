"""python -m tests.mutation.against WORDS TESTS...: whether these tests kill the survivors whose line has the words ("engine.py:234" or a whole one).

Each has a process of its own, as when mutants are tried; what has killed it is noted beside the other results in `$MUTANTS`.
"""

from __future__ import annotations

import sys

from tests.mutation.__main__ import folder_of_mutants, results, serve


def main(words: str, tests: list[str]) -> int:
    """How many of them the tests do not kill."""
    folder = folder_of_mutants()
    survivors = [each["mutant"] for each in results(folder) if each["result"] == "survived" and words in each["mutant"]]
    process = serve(folder, "against", tests, {"tests": "all", "mutants": survivors})
    if process.wait():
        print((folder / "against.log").read_text(), end="")
        return len(survivors)
    alive = 0
    for outcome in results(folder):
        if outcome["mutant"] in survivors:
            is_alive = outcome["result"] == "survived"
            print(f"{'alive ' if is_alive else 'killed'} {outcome['mutant']} {outcome.get('by', '')}")
            alive += is_alive
    return alive


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
