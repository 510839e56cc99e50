"""Rows of the ops' tables as functions that are run as they are written and compiled."""

from __future__ import annotations

from typing import Any

import numpy

import dynograd as torch
from dynograd.tensor.tensor import Tensor, wrap
from tests.ops.arguments import Subject, as_tuple, converted, draw, floating, wants_of
from tests.plans.twins import outcome_of, seen


def values_of(array: Any, call: int, rng: Any) -> Any:
    """Other values that stay in the op's domain."""
    if not call or not array.size:
        return array.copy(order="K")
    if array.dtype.kind == "f":
        return numpy.asarray(array * (1 - 0.03 * rng.random(array.shape)), array.dtype)
    if array.dtype.kind in "iu" and array.ndim:
        return numpy.roll(array, call, 0)
    return array.copy(order="K")


class Case:
    """A row as a function of its tensors, which runs as it is written and compiled."""

    def __init__(self, row: Any, backward: bool, turn: Any = None) -> None:
        self.row, self.backward, self.subject = row, backward, Subject(row)
        self.turn = turn  # makes of a tensor from outside one that the step has made
        name = next((name for name in ("float32", "float64") if name in row.dtypes), row.dtypes[0])
        self.arguments = draw(row).map(lambda array: converted(array, name))
        self.rng = numpy.random.default_rng(3)

    def leaves(self, arrays: list[Any]) -> list[Any]:
        wants = iter(wants_of(self.row, self.arguments))
        leaves = []
        for array in arrays:
            tensor = wrap(array.copy(order="K"))
            if floating(tensor) and next(wants) and self.backward:
                tensor._requires_grad = True
            leaves.append(tensor)
        return leaves

    def run(self, *leaves: Any) -> Any:
        operands = leaves if self.turn is None else [self.turn(leaf) for leaf in leaves]
        results = as_tuple(self.subject.run(self.arguments.with_leaves(operands)))
        if self.backward:
            totals = [
                result.sum()
                for result in results
                if isinstance(result, Tensor) and result.requires_grad and not result.is_complex()
            ]
            if totals:
                sum(totals[1:], totals[0]).backward()
        return results

    def others(self, arrays: list[Any], call: int) -> list[Any]:
        """What the call gets: other values, unless the op refuses them."""
        others = [values_of(array, call, self.rng) for array in arrays]
        refused = outcome_of(lambda: self.run(*self.leaves(others))).error is not None
        return [array.copy(order="K") for array in arrays] if refused else others

    def outcome(self, function: Any, arrays: list[Any], call: int) -> tuple[Any, Any]:
        torch.manual_seed(call)
        leaves = self.leaves(arrays)
        outcome = outcome_of(lambda: function(*leaves))
        return outcome, [outcome.seen(), seen(leaves), seen(torch.get_rng_state())]
