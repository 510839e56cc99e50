"""Ops on operands of unusual sizes: compiled they give what they give as they are written, and gradients have their operands' shapes.

`python -m tests.plans.test_unusual_sizes` runs all of the table, and prints what differs; a word (`python`, `bound`, `exact`, `replay`) says in
which way.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import dynograd as torch
from dynograd.plans.compiling import Compiled
from tests.plans.twins import difference, in_python_form, outcome_of, seen
from tests.plans.unusual_sizes import Expression, expressions, leaves_of, operands_of, results_of

EACH = 4  # one in so many is tried here
FEW = [5, 5, 1, 1, 0, 7, 5, 6]
EVERYTHING = list(expressions())
TOGETHER = 60
ONCE_WRONG = """
torch.norm(a) of a[B]
torch.norm(a, 1, -1) of a[B, 0]
torch.fft.rfft(a).abs() of a[B]
a.t()[i, i.sort().values] of a[B, 4], i[B]
"""


def differences(expression: Expression, batches: Sequence[int], tolerance: float, **options: Any) -> Iterator[str]:
    written = results_of(expression, torch)
    compiled = Compiled(written, always=True, **options)
    for call, batch in enumerate(batches):
        arrays = operands_of(expression, batch, call)
        runs = []
        for function in (written, compiled):
            leaves = leaves_of(expression, torch, arrays)
            outcome = outcome_of(lambda function=function, leaves=leaves: function(*leaves))  # type: ignore[misc]
            runs.append([outcome.seen(), seen(leaves)])
            for leaf, array in zip(leaves, arrays):
                if leaf.grad is not None and tuple(leaf.grad.shape) != array.shape:
                    yield f"a gradient of shape {tuple(leaf.grad.shape)} for an operand of {array.shape}"
        result = difference(*runs, tolerance)
        if result:
            yield f"{expression.title}, call {call} with B = {batch}: {result}\n{compiled.report()}"
            return


def check(some: Sequence[tuple[str, Expression]], tolerance: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = [text for _, expression in some for text in differences(expression, FEW, tolerance)]
    assert not result, "\n".join(result)


@pytest.mark.parametrize("first", range(0, len(EVERYTHING), TOGETHER * EACH))
def test_python_forms(first: int) -> None:
    """Eager's bits."""
    with in_python_form():
        check(EVERYTHING[first : first + TOGETHER * EACH : EACH], 0.0)


@pytest.mark.parametrize("first", range(0, len(EVERYTHING), TOGETHER * EACH))
def test_kernels(first: int) -> None:
    check(EVERYTHING[first + 1 : first + TOGETHER * EACH : 4 * EACH], 2e-5)


@pytest.mark.parametrize("title", ONCE_WRONG.strip().splitlines())
@pytest.mark.parametrize("bound", [False, True])
def test_what_was_wrong_once(title: str, bound: bool) -> None:
    (expression,) = [expression for _, expression in EVERYTHING if expression.title == title]
    with contextlib.nullcontext() if bound else in_python_form():
        assert not list(differences(expression, expression.batches, 2e-5 if bound else 0.0))


def main(way: str = "python", *families: str) -> int:
    options: dict[str, Any] = {way: True} if way in ("exact", "replay") else {}
    failed = 0
    warnings.simplefilter("ignore")
    with in_python_form() if way in ("python", "replay") else contextlib.nullcontext():
        for family, expression in EVERYTHING:
            if families and family not in families:
                continue
            for text in differences(expression, expression.batches, 2e-5 if way == "bound" else 0.0, **options):
                failed += 1
                print(f"{family}: {text[:800]}", flush=True)
    print(f"{len(EVERYTHING)} expressions, {failed} differ")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
