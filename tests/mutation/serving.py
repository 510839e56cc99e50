"""A plugin of pytest that tries mutants instead of running the tests it has collected.

Each mutant has a process of its own, forked from this one, where everything is imported and no test has run: functions get their mutated
code, and the covering tests run until one fails. What cannot be swapped (it runs while modules are imported) is tried in a new process
that imports the mutated text. A test that has killed must pass without the mutation, behind the same tests, or it counts no more.

Kernels are kept in the folder of the mutants, each named by a digest of its text: those of a mutant have names of their own. Written
functions are named by the state of the files, so that each mutant has an empty folder for them.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.mutations import mutated, mutations
from tests.mutation.rooms import ROOMS, ROOT, room_of
from tests.mutation.selecting import Covering, Mutant, command, mutants_of
from tests.mutation.swapping import around, functions_by_code, show, swap

FOLDER = Path(os.environ["MUTANTS"])
MEMORY = 6 << 30  # bytes that a mutant may take
MORE_TESTS = 2.0  # times as many for what is tried again
READ = ROOMS["ops"]  # where texts of functions become lines of others
TIMES, MORE = 10, 20.0  # a test has so many times its seconds, and so many more, before it counts as one that hangs
UNKNOWN = 5.0  # seconds of a test that is new


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    options = json.loads(os.environ["MUTANTS_OPTIONS"])
    results = Path(options["results"])
    trial = Trial({item.nodeid: item for item in session.items}, session)
    for mutant in named(options["mutants"]) if "mutants" in options else untried(options, results.parent):
        start = time.perf_counter()
        outcome = trial.of(mutant, options["tests"])
        outcome["seconds"] = round(time.perf_counter() - start, 2)
        with results.open("a") as file:
            file.write(json.dumps(outcome) + "\n")
    return True


def named(keys: list[str]) -> list[Mutant]:
    """The mutants with these keys."""
    files = dict.fromkeys([key.split(":")[0] for key in keys])
    every = [Mutant(file, each) for file in files for each in mutations((ROOT / file).read_text("utf-8"))]
    return [mutant for mutant in every if mutant.key in keys]


def untried(options: dict[str, Any], folder: Path) -> list[Mutant]:
    """This process's part of the mutants of a seed that have no result yet."""
    lines = [line for path in folder.glob("results*.jsonl") for line in path.read_text().splitlines()]
    known = {json.loads(line)["mutant"] for line in lines}
    lists = [mutants_of(room, options["seed"], options["count"]) for room in options["rooms"]]
    in_turn = [mutants[rank] for rank in range(options["count"]) for mutants in lists if rank < len(mutants)]
    return [mutant for mutant in in_turn[options["part"] :: options["of"]] if mutant.key not in known]


class Trial:
    """Tries mutants, one after the other."""

    def __init__(self, items: dict[str, Any], session: Any) -> None:
        self._items, self._session = items, session
        self._covering = Covering(FOLDER / "covering")
        self._functions = functions_by_code({str(path) for path in (ROOT / "dynograd").rglob("*.py")})
        self._sound: dict[tuple[str, ...], bool] = {}
        self._unsound: set[str] = set()

    def of(self, mutant: Mutant, choice: str) -> dict[str, Any]:
        """What became of a mutant: a line of the file of results. The tests are "some" of those that run its line, "more" of them,
        or "all" that are collected; but for "some", in a new process, too, where the library reads texts of functions."""
        (line, _), text = mutant.mutation.start, mutant.mutation.text
        outcome: dict[str, Any] = {
            "mutant": mutant.key,
            "room": room_of(mutant.file),
            "file": mutant.file,
            "line": line,
            "kind": mutant.mutation.kind,
            "text": text.strip(),
        }
        path = str(ROOT / mutant.file)
        plain = Path(path).read_text("utf-8")
        source = mutated(plain, mutant.mutation)
        try:
            before, after = [compile(each, path, "exec", dont_inherit=True) for each in (plain, source)]
        except SyntaxError:
            return outcome | {"result": "no program"}
        if ast.dump(ast.parse(plain)) == ast.dump(ast.parse(source)):
            return outcome | {"result": "same code"}
        tests, seen = self._covering.tests_of(mutant, 1.0 if choice == "some" else MORE_TESTS)
        tests = list(self._items) if choice == "all" else [test for test in tests if test in self._items]
        tests = [test for test in tests if test not in self._unsound]
        outcome |= {"tests": len(tests), "seen": seen}
        if not tests:
            return outcome | {"result": "survived", "way": "no tests"}
        swappable = around(plain, line) is not None and not self._covering.is_run_by_imports(mutant)
        while tests:
            result, by, way = "", "", "swapped"
            if swappable:
                result, by = self._forked(tests, path, source, before, after)
            if not result or (choice != "some" and result == "survived" and mutant.file.startswith(READ)):
                result, by = self._imported(tests, path, source)
                way = "imported"
            if not by or self._are_sound(tests[: tests.index(by) + 1]):
                return outcome | {"result": result, "by": by, "way": way}
            tests.remove(by)
            self._unsound.add(by)
        return outcome | {"result": "survived", "way": way}

    def _are_sound(self, tests: list[str]) -> bool:
        """Whether these tests pass, one after the other, without a mistake."""
        key = tuple(tests)
        if key not in self._sound:
            self._sound[key] = self._forked(tests)[0] == "survived"
        return self._sound[key]

    def _forked(self, tests: list[str], path: str = "", source: str = "", before: Any = None, after: Any = None):
        """(result, test that killed) in a fork of this process; ("", "") where there is no function to swap."""
        reading, writing = os.pipe()
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            child = os.fork()
            if child == 0:
                try:
                    os.close(reading)
                    os.setsid()
                    _limit()
                    _cache_in(Path(folder))
                    if not path:
                        self._run(tests, writing)
                    else:
                        show(path, source)
                        if swap(self._functions, path, before, after):
                            self._run(tests, writing)
                        else:
                            os.write(writing, b"unswapped\n")
                except BaseException as error:
                    os.write(writing, f"broken {type(error).__name__}\n".encode())
                finally:
                    os._exit(0)
            os.close(writing)
            try:
                return self._watched(reading, tests)
            finally:
                os.close(reading)
                _end(child)

    def _run(self, tests: list[str], writing: int) -> None:
        items = [self._items[test] for test in tests]
        for place, (item, following) in enumerate(zip(items, [*items[1:], None])):
            os.write(writing, f"{place}\n".encode())
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._session.testsfailed:
                os.write(writing, b"killed\n")
                return
        os.write(writing, b"survived\n")

    def _watched(self, reading: int, tests: list[str]) -> tuple[str, str]:
        """Reads what the fork says: which test it begins with, and how it ends."""
        test, last, text = tests[0], "", ""
        while True:
            allowed = TIMES * self._covering.seconds.get(test, UNKNOWN) + MORE
            if not select.select([reading], [], [], allowed)[0]:
                return "timeout", test
            data = os.read(reading, 4096).decode()
            if not data:  # it has died
                return "killed", test
            text += data
            *words, text = text.split("\n")
            for last in words:
                if last.isdigit():
                    test = tests[int(last)]
            if last == "unswapped":
                return "", ""
            if last == "survived":
                return "survived", ""
            if last == "killed" or last.startswith("broken"):
                return "killed", test

    def _imported(self, tests: list[str], path: str, source: str) -> tuple[str, str]:
        """(result, test that killed) in a new process that imports the mutated text."""
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            mutant = Path(folder) / "mutant.json"
            mutant.write_text(json.dumps({"path": path, "source": source, "tests": tests}))
            (Path(folder) / "cache").mkdir(0o700)
            environment = os.environ | {
                "MUTANT": str(mutant),
                "DYNOGRAD_CACHE_DIR": _cache_folder(Path(folder) / "cache"),
            }
            files = list(dict.fromkeys([test.split("::")[0] for test in tests]))
            allowed = TIMES * sum([self._covering.seconds.get(test, UNKNOWN) for test in tests]) + 120
            with open(mutant.with_suffix(".log"), "wb") as log:
                process = subprocess.Popen(
                    command(files),
                    cwd=ROOT,
                    env=environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=_limit,
                )
                try:
                    status = process.wait(allowed)
                except subprocess.TimeoutExpired:
                    return "timeout", tests[0]
                finally:
                    _end_group(process.pid)
            killed = Path(f"{mutant}.killed")
            if killed.exists():
                test = killed.read_text()
                return "killed", test if test in tests else ""
            return ("survived" if status == 0 else "killed"), ""


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def _cache_folder(folder: Path) -> str:
    """A folder for what is kept, with the kernels of all mutants and no functions."""
    for kind in ("kernels", "packs"):
        (FOLDER / "cache" / kind).mkdir(0o700, parents=True, exist_ok=True)
        (folder / kind).symlink_to(FOLDER / "cache" / kind)
    return str(folder)


def _cache_in(folder: Path) -> None:
    from dynograd.base import cache_files, generated_sources

    os.environ["DYNOGRAD_CACHE_DIR"] = _cache_folder(folder)
    cache_files._folders.clear()
    generated_sources._folder_of_texts.cache_clear()
    generated_sources._codes.clear()


def _end(child: int) -> None:
    _end_group(child)
    os.waitpid(child, 0)


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
