"""Programs that have gradients as values, and every row of the ops' tables differentiated twice: with eager's bits, in overwritten memory."""

from __future__ import annotations

import re
import sys
import warnings
from functools import partial
from typing import Any

import pytest

import dynograd as torch
from dynograd.plans.compiling import Compiled
from dynograd.tensor.tensor import Tensor
from tests.ops.arguments import Subject, as_tuple
from tests.ops.tables import families, rows_of, title_of
from tests.plans import leaf_programs, transformed_programs  # noqa: F401  (enter their rows)
from tests.plans.op_cases import Case
from tests.plans.second_order_programs import CALLS, PROGRAMS, WALKED
from tests.plans.test_every_op import check_case
from tests.plans.twins import difference, in_python_form, outcome_of, overwritten_between_steps, seen
from tests.support.cases import run_all

# How many rows of a family no call of goes along a record. May only shrink.
LEFT = {
    "chains": 6, "complexes": 1, "conversions": 1, "copies": 1, "ctc": 5, "ffts": 16, "indexing": 3, "linear_systems": 5, "lookups": 1,
    "margin_losses": 2, "picks": 4, "ragged_attentions": 8, "rearrangements": 1, "recurrences": 19, "reductions": 3, "scans": 1, "scatters": 7,
    "segments": 2, "sparse_products": 3, "spectra": 2, "strides": 1,
}  # fmt: skip


def check_program(name: str, tolerance: float, **options: Any) -> Compiled:
    compiled: list[Compiled] = []

    def compile(function: Any) -> Compiled:
        compiled.append(Compiled(function, always=True, **options))
        return compiled[-1]

    twins = []
    for way in (lambda function: function, compile):
        torch.manual_seed(0)
        twins.append(PROGRAMS[name](way))
    kept = []
    for n in range(CALLS):
        outcomes = []
        for step, watched in twins:
            torch.manual_seed(100 + n)
            outcome = outcome_of(partial(step, n))
            outcomes.append([outcome.seen(), seen(watched)])
        kept.append((outcome, outcomes[0][0]))
        told = difference(*outcomes, tolerance)
        assert not told, f"{name}, call {n}{told}\n{compiled[0].report()}"
    for n, (outcome, numbers) in enumerate(kept):
        told = difference(numbers, outcome.seen(), tolerance)
        assert not told, f"{name}, kept from call {n}{told}"
    return compiled[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_have_the_same_bits(name: str) -> None:
    with in_python_form(), overwritten_between_steps():
        compiled = check_program(name, 0.0)
    assert compiled.walked >= WALKED[name], compiled.report()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_in_exact_mode(name: str) -> None:
    with overwritten_between_steps():
        compiled = check_program(name, 0.0, exact=True)
    assert compiled.walked >= WALKED[name], compiled.report()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_as_kernels(name: str) -> None:
    with overwritten_between_steps():
        compiled = check_program(name, 2e-5)
    assert compiled.walked >= WALKED[name], compiled.report()


class Twice(Case):
    """A row whose gradients are differentiated."""

    def run(self, *leaves: Any) -> Any:
        results = as_tuple(self.subject.run(self.arguments.with_leaves(leaves)))
        totals = [
            result.sum()
            for result in results
            if isinstance(result, Tensor) and result.requires_grad and not result.is_complex()
        ]
        expected = [leaf for leaf in leaves if leaf.requires_grad and not leaf.is_complex()]
        if not totals or not expected:
            return results
        gradients = torch.autograd.grad(totals, expected, create_graph=True, allow_unused=True)
        squares = [g.pow(2).sum() for g in gradients if g is not None and g.requires_grad]
        if squares:
            sum(squares[1:], squares[0]).backward()
        return [value.detach() for value in (*results, *gradients) if isinstance(value, Tensor)]


@pytest.mark.parametrize("family", families())
def test_rows(family: str) -> None:
    left = []

    def check(row: Any) -> None:
        with in_python_form(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = check_case(Twice(row, True), 0.0)
        if compiled is not None and not compiled.walked:
            left.append(title_of(row))

    rows = [row for row in rows_of(family) if row.grad is not False and Subject(row).differentiable]
    run_all(family, [(title_of(row), partial(check, row)) for row in rows])
    assert len(left) == LEFT.get(family, 0), left


def test_gradients_of_a_compiled_forward_that_are_asked_for_from_outside():
    """The pass asks for two leaves; a rule within the function's own pass, in its Python form, gives what it gave when it was recorded."""

    def program(x, y):
        rows, columns = (x.detach() > -9).nonzero().unbind(1)
        return torch.index_put(x * 2, (rows, columns), y[: len(rows)]) + 1

    compiled = Compiled(program, always=True)
    for _ in range(6):
        x, y = torch.randn(3, 4, requires_grad=True), torch.randn(12, requires_grad=True)
        expected = torch.autograd.grad(program(x, y).square().sum(), (x, y))
        gradients = torch.autograd.grad(compiled(x, y).square().sum(), (x, y))
        assert [gradient.tolist() for gradient in gradients] == [gradient.tolist() for gradient in expected]
    assert compiled.walked > 2


def main(*chosen: str) -> None:
    """Prints the rows that are not walked, with the reasons, and what fails."""
    counts = {"walked": 0, "left": 0, "failed": 0}
    for family in chosen or families():
        for row in rows_of(family):
            if row.grad is False or not Subject(row).differentiable:
                continue
            try:
                with in_python_form(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    compiled = check_case(Twice(row, True), 0.0)
            except Exception as error:
                counts["failed"] += 1
                told = f"{type(error).__name__}: {error}"[:900].replace("\n", " | ")
                print("FAILED", family, title_of(row), told, flush=True)
                continue
            if compiled is not None:
                counts["walked" if compiled.walked else "left"] += 1
                if not compiled.walked:
                    print("LEFT", family, title_of(row), re.sub(r"\n", " | ", str(compiled.report())), flush=True)
    print(counts)


if __name__ == "__main__":
    main(*sys.argv[1:])
