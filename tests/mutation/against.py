"""python -m tests.mutation.against WORDS TESTS...: whether these tests kill the survivors whose line has the words ("engine.py:234" or a whole one).

Each is imported with its mistake in a new process; what has killed it is noted beside the other results in `$MUTANTS`. Lines that a
process started by a test imports anew are the plain ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.mutation.__main__ import folder_of_mutants, results
from tests.mutation.mutations import mutated, mutations
from tests.mutation.rooms import ROOT
from tests.mutation.selecting import Mutant, command


def main(words: str, tests: list[str]) -> int:
    """How many of them the tests do not kill."""
    folder = folder_of_mutants()
    alive = 0
    for outcome in results(folder):
        if outcome["result"] == "survived" and words in outcome["mutant"]:
            by = killed_by(outcome, tests)
            print(f"{'killed' if by else 'alive '} {outcome['mutant']} {by}")
            alive += not by
            if by:
                with open(folder / "results-against.jsonl", "a") as file:
                    file.write(json.dumps(outcome | {"result": "killed", "by": by, "way": "imported"}) + "\n")
    return alive


def killed_by(outcome: dict[str, Any], tests: list[str]) -> str:
    """The test that fails with the mistake in its file; empty where all pass."""
    path = ROOT / outcome["file"]
    plain = path.read_text("utf-8")
    mistake = next(each for each in mutations(plain) if Mutant(outcome["file"], each).key == outcome["mutant"])
    with tempfile.TemporaryDirectory() as folder:
        mutant = Path(folder) / "mutant.json"
        mutant.write_text(json.dumps({"path": str(path), "source": mutated(plain, mistake), "tests": []}))
        subprocess.run(
            command(tests),
            cwd=ROOT,
            env=os.environ | {"MUTANT": str(mutant), "DYNOGRAD_CACHE_DIR": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        killed = Path(f"{mutant}.killed")
        return killed.read_text() if killed.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
