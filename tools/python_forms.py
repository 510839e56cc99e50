"""Which calls of ops a compiled step computes in Python, and why: `python -m tools.python_forms [families ...]`.

    python -m tools.python_forms --write      the table of docs/compile.md, of all families

Each row of the tests' tables of ops goes through a compiled function, alone and with its backward pass. What is listed is what the reports say.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dynograd.plans.compiling import Compiled
from tests.ops.tables import families, rows_of, title_of
from tests.plans.op_cases import Case

__all__ = ["is_listed", "listed", "main", "python_forms", "table", "table_in"]

PAGE = Path(__file__).parents[1] / "docs" / "compile.md"
BEGIN, END = "<!-- python forms: begin -->\n", "<!-- python forms: end -->\n"
BACKWARD = "backward of "
_CALLS = 3

Form = tuple[str, str]
"""The name of a call, as reports have it, and why Python computes it."""


def python_forms(names: Iterable[str]) -> dict[Form, str]:
    """The calls that Python computes in rows of these families, each with the title of such a row."""
    forms: dict[Form, str] = {}
    for family in names:
        for row in rows_of(family):
            for backward in (False, True):
                if not backward or (row.grad is not False and Case(row, True).subject.differentiable):
                    forms = _forms_of(row, backward) | forms
    return forms


def _forms_of(row: Any, backward: bool) -> dict[Form, str]:
    case = Case(row, backward)
    arrays = case.arguments.leaves()
    compiled = Compiled(case.run, always=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in range(_CALLS * bool(arrays)):
            case.outcome(compiled, arrays, call)
    return dict.fromkeys(listed(compiled), title_of(row))


def listed(compiled: Compiled) -> list[Form]:
    """What the report of a compiled function says."""
    return [(form.name, form.why) for way in compiled.report().ways for form in way.in_python]


def table(forms: Iterable[Form]) -> str:
    """The forms by their reasons, as Markdown."""
    reasons: dict[str, set[str]] = {}
    for name, why in forms:
        reasons.setdefault(why, set()).add(name)
    rows = [f"| {why} | {_names(reasons[why])} |\n" for why in sorted(reasons)]
    return "".join([BEGIN, "| why | calls |\n| --- | --- |\n", *rows, END])


def _names(names: set[str]) -> str:
    """`x` with its backward, or one of them alone."""
    ops = sorted({name.removeprefix(BACKWARD) for name in names})
    return ", ".join([f"`{op}`{_part(op in names, BACKWARD + op in names)}" for op in ops])


def _part(forward: bool, backward: bool) -> str:
    return "" if forward and backward else " (forward)" if forward else " (backward)"


def table_in(page: str) -> str:
    """The table that a page has."""
    return BEGIN + page.partition(BEGIN)[2].partition(END)[0] + END


def is_listed(table: str, name: str, why: str) -> bool:
    """Whether a table has the call of this name for this reason."""
    row = next((line for line in table.splitlines() if line.startswith(f"| {why} |")), "")
    op, is_backward = name.removeprefix(BACKWARD), name.startswith(BACKWARD)
    other = _part(not is_backward, is_backward)
    cells = row.rpartition(f"| {why} |")[2].rstrip(" |").strip().split(", ")
    return f"`{op}`" in cells or f"`{op}`{other}" in cells


def main(names: list[str], write: bool = False) -> int:
    forms = python_forms(names or families())
    for (name, why), title in sorted(forms.items()):
        print(f"{name}: {why} ({title})")
    if write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page.replace(table_in(page), table(forms)), encoding="utf-8")
    return 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="files of tests/ops, without test_; all by default")
    parser.add_argument("--write", action="store_true", help="writes the table into docs/compile.md")
    options = parser.parse_args(arguments)
    if options.write and options.families:
        parser.error("--write is for the table of all families.")
    return options


if __name__ == "__main__":
    options = parse()
    sys.exit(main(options.families, options.write))
