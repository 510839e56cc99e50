"""Which mutants are tried, and with which tests."""

from __future__ import annotations

import ast
import json
import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.mutations import Mutation, mutations
from tests.mutation.rooms import OF_TABLES, ROOT, files_of

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
        """Whether the line runs while modules are imported or tests collected, too."""
        return "" in self._lines[mutant.file][mutant.mutation.line]

    def tests_of(self, mutant: Mutant, times: float = 1.0) -> tuple[list[str], bool]:
        """The tests to try in order, of so many times the seconds, and whether they are known to run the line."""
        lines = self._lines[mutant.file]
        first, last = statement_around((ROOT / mutant.file).read_text("utf-8"), mutant.mutation.line)
        tests = set().union(*[lines[line] for line in range(first, last + 1) if line in lines]) - {""}
        if tests:
            return self._order(tests, mutant.file, times * SECONDS), True
        first, last = function_around((ROOT / mutant.file).read_text("utf-8"), mutant.mutation.line)
        near = set().union(*[lines[line] for line in range(first, last + 1) if line in lines]) - {""}
        near = near or set().union(*lines.values()) - {""}
        own = {test for test in self.seconds if Path(test.split("::")[0]).stem == f"test_{Path(mutant.file).stem}"}
        chosen = self._order(near | own, mutant.file, times * UNSEEN_SECONDS)
        if self.is_run_by_imports(mutant):
            chosen += [test for test in self.seconds if test.split("::")[0] in OF_TABLES and test not in chosen]
        return chosen, False

    def _order(self, tests: set[str], file: str, seconds: float) -> list[str]:
        """Quick tests of the file's own first, then quick ones of each file of tests in turn."""
        own, by_file = [], defaultdict(list)
        for test in sorted(tests, key=lambda test: (self.seconds[test], test)):
            test_file = test.split("::")[0]
            if Path(test_file).stem == f"test_{Path(file).stem}":
                own.append(test)
            else:
                by_file[test_file].append(test)
        others, rank = [], 0
        groups = sorted(by_file.values(), key=lambda group: self.seconds[group[0]])
        while any([rank < len(group) for group in groups]):
            others += [group[rank] for group in groups if rank < len(group)]
            rank += 1
        chosen, total = [], 0.0
        for test in own + others:
            total += self.seconds[test]
            if chosen and total > seconds:
                break
            chosen.append(test)
        return chosen


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
