"""Runs of a program at several sizes as one: the same calls in the same order, with formulas where numbers differ."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy

from dynograd.base.shapes import Size
from dynograd.errors import ProgramError
from dynograd.export.encoding import Formula, Json, Packed, Ref, Tree, encoded
from dynograd.export.formula_search import FormulaSearch
from dynograd.export.size_expressions import AnyFormula, SizeExpression
from dynograd.export.tracing import Call, TracedBody, refusal

__all__ = ["Merger"]


class Merger:
    """Makes one program of several runs.

    Args:
        name: of the function, for messages.
        samples: the sizes of each run.
        inputs: how many inputs there are.
        outside: how many tensors from outside.
        settled, expressions: sizes at which it is run no more, and what it computes from sizes; see `FormulaSearch`.
    Raises:
        AmbiguousFormulas: in calls, where a run at further sizes would tell which formula a number has.
    """

    def __init__(
        self,
        name: str,
        samples: Sequence[dict[str, int]],
        inputs: int,
        outside: int,
        settled: Sequence[dict[str, int]] | None = None,
        expressions: Sequence[SizeExpression] = (),
    ) -> None:
        self.name, self.samples, self.inputs, self.outside = name, samples, inputs, outside
        self.names = list(samples[0])
        self.search = FormulaSearch(samples, settled, expressions)
        self.formulas: list[AnyFormula] = []
        self.line = ""

    def calls(self, runs: Sequence[list[Call]]) -> list[list[Any]]:
        """The JSON values of the calls."""
        counts = [len(calls) for calls in runs]
        if len(set(counts)) > 1:
            longest = runs[counts.index(max(counts))]
            pairs = zip(runs[counts.index(min(counts))], longest)
            apart = next((place for place, (first, other) in enumerate(pairs) if first.name != other.name), min(counts))
            raise refusal(
                f"how many functions {self.name} calls depends on the sizes ({min(counts)} in one call, {max(counts)} in another)",
                longest[apart].line,
                "A Python loop over a dynamic dim is unrolled: leave that dim out of dynamic_shapes, or use a layer (nn.LSTM) that takes it whole.",
            )
        return [self._call(calls) for calls in zip(*runs)]

    def _call(self, calls: Sequence[Call]) -> list[Any]:
        first = calls[0]
        self.line = first.line
        for call in calls:
            if (
                call.name != first.name
                or call.kwargs.keys() != first.kwargs.keys()
                or len(call.args) != len(first.args)
            ):
                raise refusal(
                    f"the functions that {self.name} calls depend on the sizes: {first.name} in one call, {call.name} (at {call.line}) in another",
                    first.line,
                    "Leave that dim out of dynamic_shapes, or write the program so that it is the same at any size.",
                )
        args = [self._argument(values, first.name) for values in zip(*[call.args for call in calls])]
        kwargs = {key: self._argument([call.kwargs[key] for call in calls], first.name) for key in first.kwargs}
        if any([call.result != first.result for call in calls]):
            raise refusal(
                f"how many tensors {first.name} gives depends on the sizes",
                first.line,
                "Leave that dim out of dynamic_shapes.",
            )
        return [first.name, args, kwargs, self._results(first.result), _short(first.line)]

    def _results(self, result: Json) -> Json:
        if type(result) is int:
            return result + self.outside
        return None if result is None else [self._results(part) for part in result]

    def result(self, results: Sequence[Tree]) -> Json:
        """The JSON value of what the function gives."""
        self.line = ""
        return self._argument(results, "the result")

    def _argument(self, values: Sequence[Tree], what: str) -> Json:
        if isinstance(values[0], TracedBody):
            return {"body": self._body(values)}
        merged = self._merged(values, what)
        try:
            return encoded(merged)
        except TypeError as error:
            raise refusal(
                f"{what} is called with an object of type {error}, which a file cannot hold",
                self.line,
                "Call it with tensors, numbers and texts.",
            ) from None

    def _body(self, bodies: Sequence[TracedBody]) -> list[Any]:
        first = bodies[0]
        captured = [self._argument(references, self.name) for references in zip(*[body.captured for body in bodies])]
        if any([len(body.captured) != len(captured) for body in bodies]):
            raise self._differs([f"a function of {len(body.captured)} tensors around it" for body in bodies], self.name)
        within = copy.copy(self)  # formulas are those of the whole program
        within.inputs, within.outside = first.inputs, len(captured)
        calls = within.calls([body.calls for body in bodies])
        return [first.inputs, captured, calls, within._argument([body.result for body in bodies], "the result")]

    def _merged(self, values: Sequence[Tree], what: str) -> Tree:
        first = values[0]
        kind = type(first)
        if any([type(value) is not kind for value in values]):
            raise self._differs(values, what)
        if kind is Ref:
            if any([value.number != first.number for value in values]):
                raise self._differs(["another tensor"] * 2, what)
            number = first.number
            return Ref(
                number
                if 0 <= number < self.inputs
                else number + self.outside
                if number >= 0
                else self.inputs - 1 - number
            )
        if kind is Packed:
            return Packed(self._merged([value.parts for value in values], what))
        if kind is dict:
            if any([value.keys() != first.keys() for value in values]):
                raise self._differs(values, what)
            return {key: self._merged([value[key] for value in values], what) for key in first}
        if isinstance(first, (list, tuple)):
            if any([len(value) != len(first) for value in values]):
                raise self._differs([f"{len(value)} values" for value in values], what)
            parts = [self._merged(parts, what) for parts in zip(*values)]
            return (
                parts
                if kind is list
                else Size(parts)
                if kind is Size and all([type(part) is int for part in parts])
                else tuple(parts)
            )
        if kind is slice:
            ends = [
                self._merged(parts, what) for parts in zip(*[(value.start, value.stop, value.step) for value in values])
            ]
            return slice(*ends)
        if kind is int:
            return self.number(values, what)
        if kind is float:
            return self._real(values, what)
        if isinstance(first, numpy.ndarray):
            if not all([numpy.array_equal(value, first) for value in values]):
                raise self._differs([f"an array of shape {value.shape}" for value in values], what)
            return first
        if any([value is not first and value != first for value in values]):
            raise self._differs(values, what)
        return first

    def number(self, values: Sequence[int], what: str) -> int | Formula:
        """The number that has these values in the runs."""
        if len(set(values)) == 1:
            return values[0]
        formula = self.search.number(values)
        if formula is None:
            raise self._differs(values, what)
        return Formula(self._place(formula))

    def _place(self, formula: AnyFormula) -> int:
        if formula not in self.formulas:
            self.formulas.append(formula)
        return self.formulas.index(formula)

    def _real(self, values: Sequence[float], what: str) -> float | Formula:
        first = values[0]
        if all([value == first or (value != value and first != first) for value in values]):
            return first
        real = self.search.real(values)
        if real is None:
            raise self._differs(values, what)
        return Formula(self._place(real[0]), real[1])

    def _differs(self, values: Sequence[Any], what: str) -> ProgramError:
        if not self.names:
            return refusal(
                f"an argument of {what} is another one in each run: {', '.join(map(repr, values))}",
                self.line,
                "It follows from a counter, a clock or something else that is no input: take it out, or give it as an argument.",
            )
        sizes = ", ".join([f"{value!r} at {sample}" for value, sample in zip(values, self.samples)])
        return refusal(
            f"an argument of {what} depends on the sizes, and is no formula of them: {sizes}",
            self.line,
            "Leave that dim out of dynamic_shapes, or compute the number from sizes by +, -, *, //, %, min and max, and not from a counter or a clock.",
        )


def _short(line: str) -> str:
    """The line without the folders, which are of no use elsewhere."""
    return line.replace("\\", "/").rpartition("/")[2]
