"""Every row of the ops' tables goes through a compiled function: alone, and with its backward pass."""

from __future__ import annotations

import re
import sys
import warnings
from functools import partial
from typing import Any

import pytest

import dynograd as torch
from dynograd.plans.compiling import Compiled
from tests.ops.arguments import Subject
from tests.ops.tables import families, rows_of, title_of
from tests.plans.op_cases import Case
from tests.plans.twins import difference, in_python_form
from tests.support.cases import run_all
from tools.python_forms import PAGE, is_listed, listed, table_in

CALLS = 5
# Rows of which no call goes along a record. May only shrink.
UNKNOWN_SHAPES = """index_put-mask backward|index_put-mask-accumulate backward|bincount-weights backward
masked_scatter backward|masked_scatter-stretched backward|repeat_interleave-tensor backward"""
OTHER_NUMBERS = """nll_loss-labelled-mean-weight backward|nll_loss-labelled-none-weight backward|multilabel_margin_loss|multilabel_margin_loss backward
multilabel_margin_loss-single|multilabel_margin_loss-single backward"""  # NumPy arrays among the arguments, others in each call
OTHER_DTYPES = "sum-dtype backward|mean-dtype backward|prod-dtype backward|cumsum-dtype backward"
LEFT = dict.fromkeys(UNKNOWN_SHAPES.replace("\n", "|").split("|"), "values that only a run knows")
LEFT |= dict.fromkeys(OTHER_NUMBERS.replace("\n", "|").split("|"), "came where the record has")
LEFT |= dict.fromkeys(OTHER_DTYPES.split("|"), "to_copy was not recorded")


def check_row(row: Any, backward: bool, tolerance: float, turn: Any = None) -> Compiled | None:
    return check_case(Case(row, backward, turn), tolerance)


def check_case(case: Case, tolerance: float) -> Compiled | None:
    arrays = case.arguments.leaves()
    if not arrays:
        return None
    compiled = Compiled(case.run, always=True)
    kept = []
    for call in range(CALLS):
        others = case.others(arrays, call)
        _, expected = case.outcome(case.run, others, call)
        outcome, argument = case.outcome(compiled, others, call)
        result = difference(expected, argument, tolerance)
        assert not result, f"call {call}{result}\n{compiled.report()}"
        kept.append((outcome, argument[0]))
    for call, (outcome, numbers) in enumerate(kept):
        result = difference(numbers, outcome.seen())
        assert not result, f"kept from call {call}{result}\n{compiled.report()}"
    return compiled


@pytest.mark.parametrize("family", families())
def test_rows(family: str) -> None:
    """With all calls in their Python form: eager's bits."""

    def check(row: Any, backward: bool) -> None:
        with in_python_form(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = check_row(row, backward, 0.0)
        title = f"{title_of(row)}{' backward' if backward else ''}"
        if compiled is not None and compiled.reasons:
            assert bool(compiled.walked) == (title not in LEFT), f"{title}: {compiled.report()}"
            assert LEFT.get(title, "") in str(compiled.report())

    run_all(family, _cases(family, check))


@pytest.mark.parametrize("family", families())
def test_rows_as_compiled_kernels(family: str) -> None:
    documented = table_in(PAGE.read_text(encoding="utf-8"))

    def check(row: Any, backward: bool) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = check_row(row, backward, 2e-5)
        for name, why in [] if compiled is None else listed(compiled):
            assert is_listed(documented, name, why), (
                f"{name} is in Python ({why}): python -m tools.python_forms --write"
            )

    run_all(family, _cases(family, check))


def _cases(family: str, check: Any) -> list[tuple[str, Any]]:
    cases = []
    for row in rows_of(family):
        cases.append((title_of(row), partial(check, row, False)))
        if row.grad is not False and Subject(row).differentiable:
            cases.append((f"{title_of(row)} backward", partial(check, row, True)))
    return cases


def turned(tensor: Any) -> Any:
    """A view of a copy, whose dims lie in memory the other way round."""
    dims = tuple(reversed(range(tensor.ndim)))
    return tensor.permute(dims).clone(memory_format=torch.contiguous_format).permute(dims)


TURNS = {"none": None, "copied": lambda tensor: tensor.clone(), "turned": turned}
# Besides: rows that a view of memory in another order cannot have.
REFUSED_TURNED = set(
    "view_as_complex|view_as_complex_copy|view_copy|view_copy backward|view|view backward|view_as|view_as backward".split(
        "|"
    )
)


@pytest.mark.parametrize("turn", ["copied", "turned"])
@pytest.mark.parametrize("family", families())
def test_rows_of_what_the_step_has_made(family: str, turn: str) -> None:
    """Ops ask their operands for layouts and values; of recorded ones they must hear what they heard when the step was recorded."""

    def check(row: Any, backward: bool) -> None:
        with in_python_form(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = check_row(row, backward, 0.0, TURNS[turn])
        title = f"{title_of(row)}{' backward' if backward else ''}"
        left = title in LEFT or (turn == "turned" and title in REFUSED_TURNED)
        if compiled is not None and compiled.reasons and not left:
            assert compiled.walked or "still to be differentiated" in str(compiled.report()), (
                f"{title}: {compiled.report()}"
            )

    run_all(family, _cases(family, check))


def main(turn: str = "none") -> None:
    """Prints the rows that are not walked, with the reasons, and what fails."""
    counts = {"walked": 0, "left": 0, "failed": 0}
    for family in families():
        for row in rows_of(family):
            for backward in (False, True):
                if backward and (row.grad is False or not Subject(row).differentiable):
                    continue
                title = f"{title_of(row)}{' backward' if backward else ''}"
                try:
                    with in_python_form(), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        compiled = check_row(row, backward, 0.0, TURNS[turn])
                except Exception as error:
                    counts["failed"] += 1
                    print(
                        "FAILED",
                        family,
                        title,
                        f"{type(error).__name__}: {error}"[:600].replace("\n", " | "),
                        flush=True,
                    )
                    continue
                if compiled is None:
                    continue
                counts["walked" if compiled.walked else "left"] += 1
                if not compiled.walked:
                    print("LEFT", family, title, re.sub(r"\n", " | ", str(compiled.report())), flush=True)
    print(counts)


if __name__ == "__main__":
    main(*sys.argv[1:])
