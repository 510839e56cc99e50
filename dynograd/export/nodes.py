"""The calls of a program, and the functions that it hands to others: the branches of `cond`, the steps of loops, what `vmap` maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dynograd.errors import ProgramError
from dynograd.export.encoding import Reader, Tree, reader, tensors_in
from dynograd.export.vocabulary import function_of

__all__ = ["Body", "Node", "damaged", "nodes_of"]


class Node:
    """One call of a program.

    Args:
        spec: its JSON value.
        number: of the call.
        known: how many values there are before it.
        formulas: how many formulas there are.
    """

    __slots__ = ("args", "function", "kwargs", "line", "name", "released", "result", "spec", "used")

    def __init__(self, spec: Any, known: int, formulas: int) -> None:
        if type(spec) is not list or len(spec) != 5 or type(spec[1]) is not list or type(spec[2]) is not dict:
            raise damaged(f"expected a call, got {str(spec)[:80]}")
        self.spec = spec
        self.name, args, kwargs, self.result, self.line = spec
        if type(self.line) is not str:
            raise damaged(f"expected a line, got {str(self.line)[:80]}")
        self.function = function_of(self.name)
        self.used: set[int] = set()
        self.args = [_argument(value, known, formulas, self.used) for value in args]
        self.kwargs = {key: _argument(value, known, formulas, self.used) for key, value in kwargs.items()}
        self.released: tuple[int, ...] = ()

    def results(self) -> Iterator[int]:
        """The numbers of the values that it makes."""
        yield from _numbers_in(self.result)

    def run(self, values: list[Any], numbers: list[int]) -> None:
        """Calls the function, and puts what it makes in its places."""
        arguments = [read(values, numbers) for read in self.args]
        if self.kwargs:
            result = self.function(*arguments, **{key: read(values, numbers) for key, read in self.kwargs.items()})
        else:
            result = self.function(*arguments)
        if type(self.result) is int:
            values[self.result] = result
        elif self.result is not None:
            _put(result, self.result, values)
        for number in self.released:
            values[number] = None


def _numbers_in(result: Any) -> Iterator[int]:
    if type(result) is int:
        yield result
    elif type(result) is list:
        for part in result:
            yield from _numbers_in(part)
    elif result is not None:
        raise damaged(f"expected the numbers of results, got {str(result)[:80]}")


def _put(result: Any, numbers: Any, values: list[Any]) -> None:
    if type(numbers) is int:
        values[numbers] = result
    elif numbers is not None:
        for part, inner in zip(result.values() if isinstance(result, dict) else result, numbers, strict=True):
            _put(part, inner, values)


def nodes_of(values: list[Any], known: int, formulas: int) -> tuple[list[Node], int]:
    """The calls of these JSON values, and how many values there are behind them.

    Args:
        values: of the calls.
        known: how many values there are before them.
        formulas: how many formulas there are.
    Raises:
        ProgramError: they are no calls.
    """
    nodes = []
    for value in values:
        node = Node(value, known, formulas)
        results = list(node.results())
        if results != list(range(known, known + len(results))):
            raise damaged(f"expected results from {known} on, got {results[:5]}")
        known += len(results)
        nodes.append(node)
    return nodes, known


class Body:
    """A function among the arguments of a call: its values are its own inputs, then what it takes from around it, then its results.

    Args:
        spec: its JSON value: [how many inputs, what it takes from around it, its calls, its result].
        known: how many values there are around it.
        formulas: how many formulas there are.
        used: gets the numbers of the values that it takes from around it.
    """

    def __init__(self, spec: Any, known: int, formulas: int, used: set[int]) -> None:
        if type(spec) is not list or [type(part) for part in spec[:3]] != [int, list, list] or len(spec) != 4:
            raise damaged(f"expected a function, got {str(spec)[:80]}")
        self.inputs, captured, calls, result = spec
        if self.inputs < 0:
            raise damaged(f"expected a number of inputs, got {self.inputs}")
        self.captured = [reader(value, known, formulas, used) for value in captured]
        self.nodes, self.count = nodes_of(calls, self.inputs + len(captured), formulas)
        self.result = reader(result, self.count, formulas)

    def bound(self, values: list[Any], numbers: list[int]) -> Callable[..., Tree]:
        """The function, with what it takes from around it."""
        captured = [read(values, numbers) for read in self.captured]

        def function(*args: Any, **kwargs: Any) -> Tree:
            tensors = list(tensors_in((args, kwargs)))
            if len(tensors) != self.inputs:
                raise ProgramError(f"expected a call with {self.inputs} tensors, got {len(tensors)}")
            own = [*tensors, *captured, *[None] * (self.count - len(tensors) - len(captured))]
            for node in self.nodes:
                node.run(own, numbers)
            return self.result(own, numbers)

        return function


def _argument(value: Any, known: int, formulas: int, used: set[int]) -> Reader:
    if type(value) is dict and value.keys() == {"body"}:
        return Body(value["body"], known, formulas, used).bound
    return reader(value, known, formulas, used)


def damaged(what: str) -> ProgramError:
    """The error of a file that holds something else."""
    return ProgramError(f"load_program: {what}. The file is damaged, or of another dynograd: export it anew.")
