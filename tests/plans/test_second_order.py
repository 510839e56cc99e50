"""Every row of the ops' tables is differentiated twice in a compiled function: with eager's bits, on other values in each call."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

import pytest

import dynograd as torch
from dynograd.tensor.tensor import Tensor
from tests.ops.arguments import Subject, as_tuple
from tests.ops.tables import families, rows_of, title_of
from tests.plans.test_every_op import Case, check_case
from tests.plans.twins import in_python_form


class Twice(Case):
    """A row whose gradients are differentiated."""

    def run(self, *leaves: Any) -> Any:
        results = as_tuple(self.subject.run(self.arguments.with_leaves(leaves)))
        totals = [
            result.sum()
            for result in results
            if isinstance(result, Tensor) and result.requires_grad and not result.is_complex()
        ]
        wanted = [leaf for leaf in leaves if leaf.requires_grad and not leaf.is_complex()]
        if not totals or not wanted:
            return results
        gradients = torch.autograd.grad(totals, wanted, create_graph=True, allow_unused=True)
        squares = [g.pow(2).sum() for g in gradients if g is not None and g.requires_grad]
        if squares:
            sum(squares[1:], squares[0]).backward()
        return [value.detach() for value in (*results, *gradients) if isinstance(value, Tensor)]


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
