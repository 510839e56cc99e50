"""The table of ONNX operators: which function stands for an operator from which version of the opset on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["DIRECT", "OPERATORS", "Operator", "operator", "operator_at"]


class Operator(NamedTuple):
    """A function of the values and attributes of a node.

    `outputs` is the number of results that it returns; 0 for those that are told `n_outputs`.
    """

    since: int
    function: Callable[..., Any]
    outputs: int


OPERATORS: dict[tuple[str, str], list[Operator]] = {}
DIRECT: dict[
    str, str
] = {}  # operators without attributes that are a function of dynograd: the text before the parenthesis


def operator(name: str, since: int = 1, domain: str = "", outputs: int = 1) -> Callable[[Any], Any]:
    """Enters a function for an operator of ONNX models, under the operator's name.

    Args:
        name: of the operator.
        since: the first version of the opset that means this; functions for later versions may stand beside it.
        domain: of the opset; "" is ONNX's own.
        outputs: how many results there are; 0 for a function that is told so by its argument `n_outputs`.
    Returns:
        A decorator. The function's positional arguments are the operator's inputs, its keyword arguments are the attributes.

    >>> @dynograd.onnx.operator("Scaled", domain="mine")
    ... def scaled(x, *, factor=1.0):
    ...     return factor * x
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        versions = OPERATORS.setdefault((domain, name), [])
        versions.append(Operator(since, function, outputs))
        versions.sort(key=lambda version: version.since)
        return function

    return enter


def operator_at(domain: str, name: str, version: int) -> Operator | None:
    """The operator as this version of the opset means it; None where there is none."""
    entry = None
    for candidate in OPERATORS.get((domain, name), ()):
        if candidate.since <= version:
            entry = candidate
    return entry
