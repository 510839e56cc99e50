"""python -m tests.mutation [COUNT] [SEED]: tries COUNT mutants, evenly from the rooms, with the tests that run their lines.

What has been tried stands in `$MUTANTS` (`build/mutants`), and a run that was stopped goes on there. Steps: `cover` notes which test runs which
line, where that is not there yet; `try` tries the mutants; `again` tries survivors again, with more tests; `table`
shows how many were killed, and `survivors` those that were not and have no reason in `equivalent.txt`. Without a step: cover, try, table.
`python -m tests.mutation.against` tells whether new tests kill a survivor.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.mutation.rooms import OF_TABLES, ROOMS, ROOT, TESTS

KILLED = ("killed", "timeout")
UNTOLD = ("no program", "same code")  # these are no mutants
EQUIVALENT = Path(__file__).with_name("equivalent.txt")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("count", type=int, nargs="?", default=70, help="how many mutants of all rooms together")
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--step", choices=("cover", "try", "again", "table", "survivors"))
    parser.add_argument("--rooms", default=" ".join(ROOMS))
    parser.add_argument("--tests", default=" ".join(TESTS), help="folders of tests/ that mutants are tried with")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    argument = parser.parse_args(arguments)
    folder = folder_of_mutants()
    (folder / "covering").mkdir(0o700, parents=True, exist_ok=True)
    (folder / "cache").mkdir(0o700, exist_ok=True)
    if argument.step in (None, "cover"):
        cover(folder, argument.tests.split(), argument.processes)
    if argument.step in (None, "try", "again"):
        try_mutants(folder, argument, argument.step == "again")
    if argument.step in (None, "table"):
        print(table(results(folder)))
    if argument.step == "survivors":
        for each in alive(results(folder)):
            print(f"{each['mutant']}  [{each['tests']} tests{'' if each['seen'] else ', not run by them'}]")
    return 0


def folder_of_mutants() -> Path:
    """Where the covering and the results stand."""
    return Path(os.environ.setdefault("MUTANTS", str(ROOT / "build" / "mutants")))


def cover(folder: Path, tests: list[str], processes: int) -> None:
    """Runs the tests of each folder that is not noted yet."""
    parts = {"tables": _of_tables(tests)} | {name: [f"tests/{name}"] for name in tests}
    running: list[Any] = []
    for name, files in parts.items():
        if not (folder / "covering" / f"{name}.json").exists():
            while len(running) == processes:
                running.pop(0).wait()
            running.append(_pytest(folder, ["-p", "tests.mutation.covering", *files], name, MUTANTS_PART=name))
    for process in running:
        process.wait()


def _of_tables(folders: list[str]) -> list[str]:
    """The tests of whole tables that are in none of the folders."""
    return [file for file in OF_TABLES if not file.startswith(tuple([f"tests/{folder}/" for folder in folders]))]


def try_mutants(folder: Path, given: argparse.Namespace, again: bool) -> None:
    """Tries the mutants of a seed that have no result yet (`again`: those of any that are alive), in several processes."""
    tests = [*[f"tests/{name}" for name in given.tests.split()], *_of_tables(given.tests.split())]
    survivors = [each["mutant"] for each in alive(results(folder)) if each["room"] in given.rooms.split()]
    running = []
    for part in range(given.processes):
        of_seed = {
            "tests": "some",
            "rooms": given.rooms.split(),
            "seed": given.seed,
            "count": -(-given.count // len(given.rooms.split())),
            "part": part,
            "of": given.processes,
        }
        once_more = {"tests": "more", "mutants": survivors[part :: given.processes]}
        running.append(serve(folder, str(part), tests, once_more if again else of_seed))
    for process in running:
        process.wait()


def serve(folder: Path, name: str, tests: list[str], options: dict[str, Any]) -> Any:
    """A process that tries mutants with tests of these files, and notes what becomes of them in `results-NAME.jsonl`."""
    options = {"results": f"{folder}/results-{name}.jsonl"} | options
    arguments = ["-p", "tests.mutation.serving", *tests]
    return _pytest(folder, arguments, name, MUTANTS_OPTIONS=json.dumps(options))


def _pytest(folder: Path, arguments: list[str], name: str, **environment: str) -> Any:
    environment |= {"DYNOGRAD_CACHE_DIR": f"{folder}/cache", "PYTEST_XDIST_WORKER": "gw0", "NUMBA_NUM_THREADS": "1"}
    with open(folder / f"{name}.log", "wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *arguments],
            cwd=ROOT,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"} | environment,
            stdout=log,
            stderr=log,
        )


def results(folder: Path) -> list[dict[str, Any]]:
    """What became of each mutant at last."""
    last: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("results*.jsonl")):
        for line in path.read_text().splitlines():
            outcome = json.loads(line)
            if outcome["mutant"] not in last or last[outcome["mutant"]]["result"] == "survived":
                last[outcome["mutant"]] = outcome
    return list(last.values())


def alive(outcomes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that no test has killed, and no reason is known why."""
    return [each for each in outcomes if each["result"] == "survived" and reason_of(each) is None]


def reason_of(outcome: dict[str, Any]) -> str | None:
    """Why no test can kill it, where that is known."""
    reasons = _reasons()
    keys = [
        key for key in reasons if key[0] == outcome["file"] and key[2:] == (outcome["kind"], _one_line(outcome["text"]))
    ]
    if not keys:
        return None
    plain = (ROOT / outcome["file"]).read_text("utf-8").split("\n")[outcome["line"] - 1].strip()
    return next((reasons[key] for key in keys if key[1] == plain), None)


@functools.cache
def _reasons() -> dict[tuple[str, ...], str]:
    rows = [line.split("\t") for line in EQUIVALENT.read_text("utf-8").splitlines() if not line.startswith("#")]
    return {tuple(row[:4]): row[4] for row in rows}


def _one_line(text: str) -> str:
    return " ".join(text.split())


def table(outcomes: list[dict[str, Any]]) -> str:
    """For each room how many were killed, of those that a test runs and of all."""
    lines = [
        "| room | mutants | killed | equivalent | alive | no test runs the line | killed, of those that tests run |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    sums = [0] * 5
    for room in [*ROOMS, "together"]:
        of_room = [each for each in outcomes if each["room"] == room and each["result"] not in UNTOLD]
        killed = sum([each["result"] in KILLED for each in of_room])
        seen = [each["seen"] for each in alive(of_room)]
        counts = [len(of_room), killed, len(of_room) - killed - len(seen), sum(seen), len(seen) - sum(seen)]
        sums = [a + b for a, b in zip(sums, counts)]
        _, killed, _, living, _ = counts = sums if room == "together" else counts
        share = f"{100 * killed / (killed + living):.1f} %" if killed + living else "-"
        lines.append(f"| {room} | " + " | ".join([str(count) for count in counts]) + f" | {share} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
