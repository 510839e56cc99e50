"""Which mutants are tried, and with which tests."""

from __future__ import annotations

import ast
import itertools
import json
import random
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.mutations import Mutation, mutations
from tests.mutation.rooms import OF_TABLES, ROOMS, ROOT, files_of, room_of
from tests.mutation.swapping import around

__all__ = ["Covering", "Mutant", "mutants_of"]

SECONDS = 10.0  # of tests that a mutant may take: a line that thousands of tests run has a choice of them
UNSEEN_SECONDS = 5.0  # where no test is known to run the line: of tests that run other lines of its function or file


@dataclass(frozen=True)
class Mutant:
    """A mutation of a file, given as a path below the root."""

    file: str
    mutation: Mutation

    @property
    def key(self) -> str:
        (line, column), (_, end) = self.mutation.start, self.mutation.end
        return f"{self.file}:{line}:{column}-{end} {self.mutation.kind}: {' '.join(self.mutation.text.split())}"


def mutants_of(room: str, seed: int, count: int) -> list[Mutant]:
    """The first `count` of the room's mutants in the order of the seed: more of them are the same ones and others."""
    every = [
        Mutant(file, mutation) for file in files_of(room) for mutation in mutations((ROOT / file).read_text("utf-8"))
    ]
    random.Random(f"{seed} {room}").shuffle(every)
    return every[:count]


class Covering:
    """What the plugin `covering` has noted: which tests run a line, and how long each takes."""

    def __init__(self, folder: Path) -> None:
        self.seconds: dict[str, float] = {}
        self._lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for path in sorted(folder.glob("*.json")):
            part = json.loads(path.read_text())
            failed = set(part["failed"])
            tests = [None if test in failed else test for test in part["tests"]]
            self.seconds.update({test: seconds for test, seconds in zip(tests, part["seconds"]) if test is not None})
            for file, lines in part["lines"].items():
                for line, places in lines.items():
                    names = {"" if place == -1 else tests[place] for place in places}
                    self._lines[file][int(line)] |= names - {None}

    def is_run_by_imports(self, mutant: Mutant) -> bool:
        """Whether the line runs while modules are imported, by a test that needs them or before, too."""
        line = mutant.mutation.line
        return "" in self._lines[mutant.file][line] or around((ROOT / mutant.file).read_text("utf-8"), line) is None

    def tests_of(self, mutant: Mutant, times: float = 1.0) -> tuple[list[str], bool]:
        """The tests to try in order, of so many times the seconds, and whether they are known to run the line."""
        tests, seen = self._running(mutant)
        chosen = self._order(tests, mutant, times * (SECONDS if seen else UNSEEN_SECONDS))
        if not seen or self.is_run_by_imports(
            mutant
        ):  # it may run in a process that a test starts, or be read when it does not run
            folder = f"tests/{ROOMS[room_of(mutant.file)].removeprefix('dynograd/')}/"
            of_room = {test for test in self.seconds if test.startswith(folder)}
            users = set().union(*self._lines[mutant.file].values()) - {""}
            chosen += self._order((of_room | users) - set(chosen), mutant, times * UNSEEN_SECONDS)
        if self.is_run_by_imports(mutant):
            chosen += [test for test in self.seconds if test.split("::")[0] in OF_TABLES and test not in chosen]
        return chosen, seen

    def _running(self, mutant: Mutant) -> tuple[set[str], bool]:
        """The tests that run the statement, and True; else those of its function or file, with those named like it."""
        source = (ROOT / mutant.file).read_text("utf-8")
        tests = self._between(mutant.file, *statement_around(source, mutant.mutation.line))
        if tests:
            return tests, True
        near = self._between(mutant.file, *function_around(source, mutant.mutation.line))
        near = near or set().union(*self._lines[mutant.file].values()) - {""}
        return near | {test for test in self.seconds if _is_own(test, mutant.file)}, False

    def _between(self, file: str, first: int, last: int) -> set[str]:
        lines = self._lines[file]
        return set().union(*[lines[line] for line in range(first, last + 1) if line in lines]) - {""}

    def _order(self, tests: set[str], mutant: Mutant, seconds: float) -> list[str]:
        """The quickest test of each line of the function and of the file, so that they differ; for half of the time those of files that
        are named like the mutant's; then quick ones of each file in turn."""
        quick = sorted(tests, key=lambda test: (self.seconds[test], test))
        first, last = function_around((ROOT / mutant.file).read_text("utf-8"), mutant.mutation.line)
        lines = self._lines[mutant.file]
        near = sorted(lines, key=lambda line: (not first <= line <= last, line))
        differing = [next((test for test in quick if test in lines[line]), None) for line in near]
        own = [test for test in quick if _is_own(test, mutant.file)]
        by_file = defaultdict(list)
        for test in quick:
            by_file[test.split("::")[0]].append(test)
        in_turn = [test for rank in itertools.zip_longest(*by_file.values()) for test in rank]
        chosen = self._within(differing, [], seconds)
        chosen = self._within(own, chosen, self._seconds_of(chosen) / 2 + seconds / 2)
        return self._within(in_turn, chosen, seconds) or quick[:1]

    def _within(self, tests: list[str | None], chosen: list[str], seconds: float) -> list[str]:
        """`chosen`, and those of the tests for which there is time."""
        result = dict.fromkeys(chosen)
        total = self._seconds_of(chosen)
        for test in tests:
            if test is not None and test not in result and total + self.seconds[test] <= seconds:
                total += self.seconds[test]
                result[test] = None
        return list(result)

    def _seconds_of(self, tests: list[str]) -> float:
        return sum([self.seconds[test] for test in tests])


def _is_own(test: str, file: str) -> bool:
    """Whether the test stands in a file that is named like this one: test_uneven.py or test_autobatch_uneven.py for uneven.py."""
    return test.split("::")[0].endswith(f"_{Path(file).name}")


def statement_around(source: str, line: int) -> tuple[int, int]:
    """The lines of the innermost statement that begins at or before the line; of a compound one those of its head."""
    best = (line, line)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            last = max(body[0].lineno - 1, node.lineno) if body else node.end_lineno or 0
            if node.lineno >= best[0] or best == (line, line):
                best = (node.lineno, last)
    return best


def function_around(source: str, line: int) -> tuple[int, int]:
    """The lines of the innermost function that holds the line, decorators with it; of the module where none does."""
    best = (1, source.count("\n") + 1)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *[each.lineno for each in node.decorator_list]])
            if first <= line <= (node.end_lineno or 0) and first >= best[0]:
                best = (first, node.end_lineno or 0)
    return best


def command(tests: list[str]) -> list[str]:
    """Runs these tests, until one fails, with the mistake in its file."""
    plugins = ["-p", "no:cacheprovider", "-p", "tests.mutation.importing"]
    return [sys.executable, "-m", "pytest", "-x", "-q", *plugins, *tests]
