"""`explain` names the op, the line and the reason of each mistake in `mistakes.py`."""

from __future__ import annotations

import inspect

import pytest

import dynograd as dg
from dynograd import debug
from tests.debug.mistakes import DIM, ROWS


def line_of(program) -> int | None:
    lines, first = inspect.getsourcelines(program)
    return next((first + number for number, line in enumerate(lines) if line.rstrip().endswith("# here")), None)


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize("program, problem, op, words", ROWS, ids=[row[0].__name__ for row in ROWS])
def test_a_mistake_is_explained(program, problem, op, words):
    with debug.provenance():
        asked = program()
    told = dg.explain(asked[0], dim=asked[1]) if problem == DIM else dg.explain(asked)
    assert (told.problem, told.op) == (problem, op), str(told)
    assert words in told.reason, str(told)
    line = line_of(program)
    if line is not None:
        assert told.line is not None and f":{line} in " in told.line, str(told)
    assert str(told) and "<svg" in told.svg() and "<table" in told._repr_html_()


def test_there_are_sixty():
    assert len(ROWS) >= 60
