"""`explain` names the op, the line and the reason of each mistake in `mistakes.py`."""

from __future__ import annotations

import inspect

import pytest

import dynograd as dg
from dynograd import debug
from tests.debug import user_mistakes
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


@pytest.mark.filterwarnings("ignore:mse_loss. Using a target size")
@pytest.mark.parametrize(
    "program, problem, op, words", user_mistakes.ROWS, ids=[row[0].__name__ for row in user_mistakes.ROWS]
)
def test_a_mistake_of_a_user_is_explained(program, problem, op, words):
    line = line_of(program)
    assert line is not None
    if isinstance(problem, type):
        with pytest.raises(problem) as raised, debug.provenance():
            program()
        assert words in str(raised.value)
        lines = [entry.lineno + 1 for entry in raised.traceback if str(entry.path).endswith("user_mistakes.py")]
        assert line in lines or f":{line} in " in str(raised.value)
        return
    with debug.provenance():
        asked = program()
    told = dg.explain(asked[0])
    assert (told.problem, told.op) == (problem, op), str(told)
    assert words in told.reason, str(told)
    assert told.line is not None and f":{line} in " in told.line, str(told)
    assert f"user_mistakes.py:{line}" in told.reason


@pytest.mark.parametrize("program", user_mistakes.HEALTHY, ids=[program.__name__ for program in user_mistakes.HEALTHY])
def test_a_sound_program_is_not_suspected(program):
    with debug.provenance():
        asked = program()
    assert dg.explain(asked[0]).problem == "", str(dg.explain(asked[0]))


def test_a_number_that_has_a_gradient_and_a_leaf_without_one_are_no_mistakes():
    with debug.provenance():
        data = dg.ones(3)
        total = (data * 2).sum()
    assert dg.explain(data).problem == dg.explain(total).problem == ""
