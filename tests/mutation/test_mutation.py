"""The tool that tries mutants, on a small module."""

from __future__ import annotations

import json
import sys

import pytest

from tests.mutation.__main__ import table
from tests.mutation.mutations import mutated, mutations
from tests.mutation.selecting import Covering, function_around, mutants_of, statement_around
from tests.mutation.swapping import around, functions_by_code, swap

TOY = '''"""A toy."""

import math

__all__ = ["clipped"]
LIMIT = 3


def clipped(x: int, least: int = 0, dim: int = 1) -> int:
    """x, at least `least`, and at most LIMIT - 1."""
    if x < least and not math.isnan(x):
        raise ValueError(f"{x + 1}")
    total = max(x, least)
    total += 1
    return min(
        total,
        LIMIT - 1,
    )
'''

# The line, the kind, and what stands there then.
ROWS = [
    (6, "constant", "LIMIT = 4"),
    (6, "constant", "LIMIT = (2)"),
    (9, "constant", "def clipped(x: int, least: int = 1, dim: int = 1) -> int:"),
    (11, "comparison", "    if (x <= least) and not math.isnan(x):"),
    (11, "and, or", "    if (x < least or not math.isnan(x)):"),
    (11, "condition negated", "    if (not (x < least and (not math.isnan(x)))):"),
    (11, "not dropped", "    if x < least and (math.isnan(x)):"),
    (12, "statement dropped", "        pass"),
    (13, "arguments swapped", "    total = (max(least, x))"),
    (13, "argument dropped", "    total = (max(x))"),
    (14, "statement dropped", "    pass"),
    (14, "arithmetic", "    total -= 1"),
    (15, "value not returned", "    return None"),
    (15, "argument dropped", "    return (min(total)"),
    (17, "arithmetic", "        (LIMIT + 1),"),
]


@pytest.mark.parametrize("line, kind, text", ROWS)
def test_a_mutation_is_made(line, kind, text):
    sources = [mutated(TOY, mutation) for mutation in mutations(TOY) if (mutation.line, mutation.kind) == (line, kind)]
    assert text.rstrip() in [source.split("\n")[line - 1].rstrip() for source in sources]


def test_texts_keep_their_lines_and_errors_their_words():
    for mutation in mutations(TOY):
        source = mutated(TOY, mutation)
        compile(source, "toy", "exec")
        assert source.count("\n") == TOY.count("\n") and source != TOY
        assert mutation.line not in (1, 3, 5, 10) and (mutation.line != 12 or mutation.kind == "statement dropped")


LEFT_ALONE = {
    "overload": "@overload\ndef f(x: int = 1) -> int: ...",
    "strict": "pairs = zip(strict=True)",
    "cast": "value = cast(int, 1 + 2)",
    "types": "if TYPE_CHECKING:\n    a = 1 + 2",
    "docstring": '"""text"""',
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_no_mistake_that_tests_see(name):
    assert mutations(LEFT_ALONE[name]) == []


@pytest.fixture
def toy(tmp_path, monkeypatch):
    path = tmp_path / "toy_of_mutations.py"
    path.write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("toy_of_mutations")
    del sys.modules["toy_of_mutations"]


def passes(clipped) -> bool:
    """A test of the toy that does not look at negative numbers."""
    try:
        return [clipped(x) for x in (0, 1, 5)] == [1, 2, 2]
    except Exception:
        return False


def test_functions_that_are_there_take_a_mistake_and_a_test_sees_it_or_not(toy):
    def result(mutation):
        before, after = [compile(text, toy.__file__, "exec") for text in (TOY, mutated(TOY, mutation))]
        table, plain = functions_by_code({toy.__file__}), toy.clipped.__code__
        assert swap(table, toy.__file__, before, after) == 1
        try:
            return passes(toy.clipped)
        finally:
            toy.clipped.__code__ = plain

    survivors = {
        (mutation.line, mutation.kind)
        for mutation in mutations(TOY)
        if around(TOY, mutation.line) is not None and result(mutation)
    }
    assert survivors == {
        (11, "not dropped"),  # NaN
        (12, "statement dropped"),  # the error
        (13, "arguments swapped"),  # equal whatever the test
        (15, "arguments swapped"),
    }


def test_where_a_line_stands():
    assert around(TOY, 6) is None and around(TOY, 9) is None and around(TOY, 17) == (9, 18)
    assert statement_around(TOY, 17) == (15, 18) and statement_around(TOY, 11) == (11, 11)
    assert function_around(TOY, 9) == (9, 18) and function_around(TOY, 6)[0] == 1


def test_a_seed_gives_the_same_mutants_and_more_of_them():
    few, many = [[mutant.key for mutant in mutants_of("autograd", 5, count)] for count in (4, 9)]
    assert many[:4] == few and len(set(many)) == 9
    assert few != [mutant.key for mutant in mutants_of("autograd", 6, 4)]


def test_the_table_counts():
    def outcome(result, seen=True):
        return {"room": "optim", "result": result, "seen": seen, "file": "a.py", "kind": "constant", "text": "2"}

    outcomes = [
        outcome("killed"),
        outcome("timeout"),
        outcome("survived"),
        outcome("survived", False),
        outcome("same code"),
    ]
    assert "| optim | 4 | 2 | 0 | 1 | 1 | 66.7 % |" in table(outcomes)


def test_tests_are_chosen_that_differ_and_then_those_of_a_file_with_the_name(tmp_path):
    mutant = mutants_of("optim", 0, 1)[0]
    line, own = mutant.mutation.line, f"tests/optim/test_my_{mutant.file.rsplit('/', 1)[1]}::test_it"
    tests = [
        "tests/a.py::test_quick",
        "tests/a.py::test_elsewhere",
        own,
        "tests/b.py::test_slow",
        "tests/b.py::test_failing",
    ]
    (tmp_path / "all.json").write_text(
        json.dumps(
            {
                "tests": tests,
                "seconds": [1.0, 2.0, 3.0, 100.0, 0.1],
                "failed": tests[4:],
                "lines": {mutant.file: {str(line): [0, 1, 2, 3, 4], "100000": [1, 3]}},
            }
        )
    )
    assert Covering(tmp_path).tests_of(mutant)[0] == [tests[0], tests[1], own]
    assert Covering(tmp_path).tests_of(mutant, 20.0) == ([tests[0], tests[1], own, tests[3]], True)
