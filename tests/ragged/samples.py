"""Ragged arguments by name, the same arguments for each row, and the calls of `calls.txt`: what the property tests are made of."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy

import dynograd
from dynograd.tensor import native_forms

F = dynograd.nn.functional
PAGE = Path(__file__).parent / "calls.txt"
SHARED = {
    "w": numpy.array([0.3, 0.7, 0.2, 0.9]),
    "bias": numpy.array([0.1, 0.2, 0.3, 0.4, 0.5]),
    "W": numpy.linspace(-0.5, 0.6, 20).reshape(5, 4),
    "L": numpy.linspace(-0.5, 0.6, 64).reshape(16, 4),
    "G": numpy.linspace(-0.5, 0.6, 48).reshape(12, 4),
    "Q": numpy.linspace(-0.5, 0.6, 16).reshape(4, 4),
    "Bil": numpy.linspace(-0.5, 0.6, 48).reshape(3, 4, 4),
    "taps": numpy.linspace(-0.5, 0.6, 24).reshape(3, 4, 2),
}


MADE = {
    "ones": lambda *sizes: dynograd.ones(*sizes, dtype=dynograd.float64),
    "zeros": lambda *sizes: dynograd.zeros(*sizes, dtype=dynograd.float64),
}


class Values(dict):
    """Values by name, each built when somebody first asks for it."""

    def __init__(self, build: Callable[[str], Any], **others: Any) -> None:
        super().__init__(others)
        self.build = build

    def __missing__(self, name: str) -> Any:
        value = self[name] = self.build(name)
        return value


class Numbers:
    """The arrays of one row; `lead` are the dims in front. Numbers are distinct, between 0.1 and 0.9."""

    def __init__(self, rng: numpy.random.Generator, lead: tuple[int, ...]) -> None:
        self.rng, self.lead = rng, lead

    def __call__(self, *shape: int) -> numpy.ndarray:
        shape = *self.lead, *shape
        count = int(numpy.prod(shape))
        spread = self.rng.permutation(count).reshape(shape) / max(count, 1)
        return 0.1 + 0.8 * spread + self.rng.uniform(0, 0.5 / max(count, 1), shape)

    def definite(self, length: int) -> numpy.ndarray:
        square = self(length, length)
        return square @ square.swapaxes(-1, -2) + 2 * numpy.eye(length)


ROWS: dict[str, Callable[[Numbers, int], numpy.ndarray]] = {
    "x": lambda numbers, length: numbers(length, 4),
    "y": lambda numbers, length: numbers(length, 4),
    "v": lambda numbers, length: numbers(length),
    "u": lambda numbers, length: numbers(length),
    "i": lambda numbers, length: numbers.rng.integers(0, 4, (*numbers.lead, length)),
    "b": lambda numbers, length: numbers.rng.uniform(size=(*numbers.lead, length)) < 0.6,
    "c": lambda numbers, length: numbers(4, length),
    "m": lambda numbers, length: numbers(2, length, length + 1),
    "s": lambda numbers, length: numbers.definite(length),
    "z": lambda numbers, length: numbers(length, 4) + 1j * numbers(length, 4),
    "r": lambda numbers, length: numbers(1, 4),
    "q": lambda numbers, length: numbers(2, length, 4),
    "grid": lambda numbers, length: numbers(length, 2, 2),
}
NAMES = frozenset([*ROWS, *SHARED, "d1", "d2", "d3", "B"])


def arrays_of(
    name: str, lengths: list[int], seed: int, leads: list[tuple[int, ...]] | None = None
) -> list[numpy.ndarray]:
    """The arrays of the rows of one argument, with dims `leads[i]` in front."""
    rng = numpy.random.default_rng([seed, list(ROWS).index(name)])
    return [
        ROWS[name](Numbers(rng, lead), length)
        for length, lead in zip(lengths, leads or [()] * len(lengths), strict=True)
    ]


RAGGED_DIMS = {"c": (2,), "m": (2, 3), "s": (1, 2), "q": (2,), "r": ()}
DENSE = ("r",)


class Sample:
    """Arguments by name: ragged ones, and those of each row alone."""

    above = 0  # how many levels lie above the rows
    dims = 1  # ragged ones of a row

    def __init__(self, lengths: list[int], seed: int = 0) -> None:
        self.lengths, self.seed = lengths, seed
        self.rows = Values(lambda name: arrays_of(name, lengths, seed))

    @property
    def places(self) -> list[Any]:
        """Where each row is found in a ragged tensor."""
        return [(number,) for number in range(len(self.lengths))]

    def without(self, numbers: set[int]) -> Sample:
        """The same without some rows."""
        created = object.__new__(type(self))
        created.__dict__ |= self.__dict__
        created.lengths = [length for number, length in enumerate(self.lengths) if number not in numbers]
        created.rows = Values(lambda name: [row for number, row in enumerate(self.rows[name]) if number not in numbers])
        return created

    def whole(self, wants: bool = False) -> Values:
        return self._values(
            lambda name: self.together_as(name, [dynograd.from_numpy(row) for row in self.rows[name]]),
            wants,
            self.above,
        )

    def together_as(self, name: str, tensors: list[Any]) -> Any:
        """The rows of one argument as one tensor."""
        if name in DENSE:
            return dynograd.stack(tensors) if tensors else dynograd.zeros(0, 1, 4, dtype=dynograd.float64)
        return ragged_of(name, tensors, RAGGED_DIMS.get(name, (1,)))

    def row(self, number: int, wants: bool = False) -> Values:
        """One row as a batch of one."""
        return self._values(
            lambda name: dynograd.from_numpy(self.rows[name][number][None].copy()), wants, self.dims - 1
        )

    def single(self, number: int, wants: bool = False) -> Values:
        """One row without a batch."""
        return self._values(lambda name: dynograd.from_numpy(self.rows[name][number].copy()), wants, 0)

    def no_rows(self) -> Values:
        """A dense batch of rows that has none."""
        usual = type(self).usual().rows
        return self._values(lambda name: dynograd.from_numpy(usual[name][0][None])[:0], False, self.dims - 1)

    @classmethod
    def usual(cls) -> Sample:
        return cls([3])

    def together(self, wants: bool = False) -> Values:
        """The elements of all rows as one tensor, rows behind one another."""

        def build(name: str) -> Any:
            dims = RAGGED_DIMS.get(name, (1,))
            rows = self.rows[name]
            if len(dims) == 1 and self.dims == 1:
                return dynograd.from_numpy(numpy.concatenate(rows, dims[0] - 1))
            return dynograd.from_numpy(numpy.concatenate([row.reshape(-1) for row in rows]))

        return self._values(build, wants, 0)

    def _values(self, build: Callable[[str], Any], wants: bool, above: int) -> Values:
        def finished(name: str) -> Any:
            if name in SHARED:
                return dynograd.from_numpy(SHARED[name].copy())
            tensor = build(name)
            return tensor.requires_grad_() if wants and name not in ("i", "b") else tensor

        return Values(finished, **counted(above))

    def __len__(self) -> int:
        """The size of dim 0."""
        return len(self.lengths)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lengths}, seed={self.seed})"


def counted(above: int) -> dict[str, Any]:
    """Dims 1 2 3 of rows under so many levels, and the letters in front of a row's own."""
    return {f"d{dim}": dim + above for dim in (1, 2, 3)} | {"B": "ab"[1 - above :]}


def ragged_of(name: str, tensors: list[Any], dims: tuple[int, ...]) -> Any:
    """Rows as a ragged tensor; of no rows, one of the dims that the name has."""
    if tensors:
        return dynograd.ragged_tensor(tensors, ragged_dims=dims)
    empty = ragged_of(name, [dynograd.from_numpy(arrays_of(name, [1], 0)[0])], dims)
    return empty[:0]


class Documents(Sample):
    """Rows of rows: row k of the sample is sentence `places[k]` of documents of `counts` sentences."""

    above = 1

    def __init__(self, documents: list[list[int]], seed: int = 0) -> None:
        super().__init__([length for document in documents for length in document], seed)
        self.documents = [len(document) for document in documents]

    @property
    def places(self) -> list[Any]:
        return [(number, place) for number, count in enumerate(self.documents) for place in range(count)]

    def without(self, numbers: set[int]) -> Sample:
        created: Any = super().without(numbers)
        kept = [place for number, place in enumerate(self.places) if number not in numbers]
        created.documents = [sum(element == number for element, _ in kept) for number in range(len(self.documents))]
        return created

    @classmethod
    def usual(cls) -> Sample:
        return cls([[3]])

    def together_as(self, name: str, tensors: list[Any]) -> Any:
        result = super().together_as(name, tensors)
        return dynograd.RaggedTensor(result, lengths=self.documents)

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        return f"Documents({self.lengths} in {self.documents}, seed={self.seed})"


class Images(Sample):
    """Rows with two ragged dims: (B, j, j, 4) for (B, j, 4), and so on."""

    above = 1
    dims = 2

    def __init__(self, sizes: list[tuple[int, int]], seed: int = 0) -> None:
        self.lengths = [width for _, width in sizes]
        self.heights, self.seed = [height for height, _ in sizes], seed
        leads = [(height,) for height in self.heights]
        self.rows = Values(lambda name: arrays_of(name, self.lengths, seed, leads))

    def without(self, numbers: set[int]) -> Sample:
        created: Any = super().without(numbers)
        created.heights = [element for number, element in enumerate(self.heights) if number not in numbers]
        return created

    def together_as(self, name: str, tensors: list[Any]) -> Any:
        if not tensors:
            tensors = [dynograd.from_numpy(arrays_of(name, [1], 0, [(1,)])[0])]
        result = dynograd.ragged_tensor(tensors, ragged_dims=(1, *[dim + 1 for dim in RAGGED_DIMS.get(name, (1,))]))
        return result if self.lengths else result[:0]

    @classmethod
    def usual(cls) -> Sample:
        return cls([(3, 3)])

    def __repr__(self) -> str:
        return f"Images({list(zip(self.heights, self.lengths, strict=True))}, seed={self.seed})"


class Item:
    """One line's call of one op."""

    def __init__(self, name: str, text: str, number: int) -> None:
        self.name, self.number = name, number
        word, _, rest = text.partition(" ")
        self.mode = word if word in ("all", "each") else "rows"
        self.text = rest if self.mode != "rows" else text
        self.code = compile(self.text, f"<calls.txt {name}>", "eval")
        words = {node.id for node in ast.walk(ast.parse(self.text, mode="eval")) if isinstance(node, ast.Name)}
        self.names = sorted(words & NAMES)

    def run(self, values: dict[str, Any]) -> Any:
        arguments = {name: values[name] for name in self.names}
        return eval(
            self.code, {"op": function_of(self.name), "torch": dynograd, "F": F, "name": self.name, **MADE, **arguments}
        )

    def __repr__(self) -> str:
        return f"{self.name}-{self.number}"


def function_of(name: str) -> Any:
    for place in (F, dynograd) if name in native_forms.__all__ else (dynograd, F):  # the former's arguments
        if callable(getattr(place, name, None)):
            return getattr(place, name)
    entry = dynograd.ops.op.registry.get(f"{name}.public", dynograd.ops.op.registry.get(name))
    return entry.function


def lines() -> Iterator[tuple[list[str], list[str]]]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            names, _, calls = line.partition(": ")
            yield names.split(), [call.strip() for call in calls.split(" ; ")]


def items() -> list[Item]:
    """All calls of the page, and those of elementwise ops, which follow from their operands."""
    results = [
        Item(name, text, number) for names, texts in lines() for name in names for number, text in enumerate(texts)
    ]
    listed = {result.name for result in results}
    for key, entry in dynograd.ops.op.registry.items():
        if entry.kind == "elementwise" and key not in listed and f"{key}.public" not in dynograd.ops.op.registry:
            results.append(Item(key, elementwise_text(entry), 0))
    return results


_WHOLE = set("bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift gcd lcm".split())
_STATIC = {"int": "1", "float": "0.5", "float|None": "0.5", "str": "'none'", "int|None": "1"}


def elementwise_text(entry: Any) -> str:
    operands = ["i", "i", "i"] if entry.name in _WHOLE else ["x", "y", "r"]
    if entry.promote == "select":
        operands = ["x > 0.5", "x", "y"]
    argument = []
    used = iter(operands)
    for name, parameter in entry.signature.parameters.items():
        argument.append(
            next(used) if name in entry.array_names else _STATIC.get(str(parameter.annotation).replace(" ", ""), "0.5")
        )
    return f"op({', '.join(argument)})"
