"""Ragged arguments by name, the same arguments for each row, and the calls of `calls.txt`: what the property tests are made of."""

from __future__ import annotations

from collections.abc import Iterator
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


def arrays_of(
    lengths: list[int], seed: int, leads: list[tuple[int, ...]] | None = None
) -> dict[str, list[numpy.ndarray]]:
    """For each name the arrays of the rows, with dims `leads[i]` in front. Numbers are distinct, between 0.1 and 0.9."""
    rng = numpy.random.default_rng(seed)

    def numbers(*shape: int) -> numpy.ndarray:
        count = int(numpy.prod(shape))
        return (
            0.1
            + 0.8 * rng.permutation(count).reshape(shape) / max(count, 1)
            + rng.uniform(0, 0.5 / max(count, 1), shape)
        )

    rows: dict[str, list[numpy.ndarray]] = {
        name: [] for name in ("x", "y", "v", "u", "i", "b", "c", "m", "s", "z", "r", "q", "grid")
    }
    for length, lead in zip(lengths, leads or [()] * len(lengths), strict=True):
        rows["x"].append(numbers(*lead, length, 4))
        rows["y"].append(numbers(*lead, length, 4))
        rows["v"].append(numbers(*lead, length))
        rows["u"].append(numbers(*lead, length))
        rows["i"].append(rng.integers(0, 4, (*lead, length)))
        rows["b"].append(rng.uniform(size=(*lead, length)) < 0.6)
        rows["c"].append(numbers(*lead, 4, length))
        rows["m"].append(numbers(*lead, 2, length, length + 1))
        square = numbers(*lead, length, length)
        rows["s"].append(square @ square.swapaxes(-1, -2) + 2 * numpy.eye(length))
        rows["z"].append(numbers(*lead, length, 4) + 1j * numbers(*lead, length, 4))
        rows["r"].append(numbers(*lead, 1, 4))
        rows["q"].append(numbers(*lead, 2, length, 4))
        rows["grid"].append(numbers(*lead, length, 2, 2))
    return rows


RAGGED_DIMS = {"c": (2,), "m": (2, 3), "s": (1, 2), "q": (2,), "r": ()}
DENSE = ("r",)


class Sample:
    """Arguments by name: ragged ones, and those of each row alone."""

    above = 0  # how many levels lie above the rows

    def __init__(self, lengths: list[int], seed: int = 0) -> None:
        self.lengths = lengths
        self.rows = arrays_of(lengths, seed)

    @property
    def places(self) -> list[Any]:
        """Where each row is found in a ragged tensor."""
        return [(number,) for number in range(len(self.lengths))]

    def without(self, numbers: set[int]) -> Sample:
        """The same without some rows."""
        made = object.__new__(type(self))
        made.__dict__ |= self.__dict__
        made.lengths = [one for number, one in enumerate(self.lengths) if number not in numbers]
        made.rows = {
            name: [one for number, one in enumerate(rows) if number not in numbers] for name, rows in self.rows.items()
        }
        return made

    def whole(self, wants: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, rows in self.rows.items():
            tensors = [dynograd.from_numpy(row) for row in rows]
            found[name] = self.together_as(name, tensors)
        return self._finished(found, wants)

    def together_as(self, name: str, tensors: list[Any]) -> Any:
        """The rows of one argument as one tensor."""
        if name in DENSE:
            return dynograd.stack(tensors) if tensors else dynograd.zeros(0, 1, 4, dtype=dynograd.float64)
        return ragged_of(name, tensors, RAGGED_DIMS.get(name, (1,)))

    def row(self, number: int, wants: bool = False) -> dict[str, Any]:
        """One row as a batch of one."""
        return self._finished(
            {name: dynograd.from_numpy(rows[number][None]) for name, rows in self.rows.items()}, wants, 0
        )

    def single(self, number: int, wants: bool = False) -> dict[str, Any]:
        """One row without a batch."""
        return self._finished({name: dynograd.from_numpy(rows[number]) for name, rows in self.rows.items()}, wants, 0)

    def no_rows(self) -> dict[str, Any]:
        """A dense batch of rows that has none."""
        usual = type(self).usual().rows
        return self._finished({name: dynograd.from_numpy(rows[0][None])[:0] for name, rows in usual.items()}, False, 0)

    @classmethod
    def usual(cls) -> Sample:
        return cls([3])

    def together(self, wants: bool = False) -> dict[str, Any]:
        """The elements of all rows as one tensor, rows behind one another."""
        found = {}
        for name, rows in self.rows.items():
            dims = RAGGED_DIMS.get(name, (1,))
            one = len(dims) == 1 and not isinstance(self, Images)
            found[name] = dynograd.from_numpy(
                numpy.concatenate(rows if one else [row.reshape(-1) for row in rows], dims[0] - 1 if one else 0)
            )
        return self._finished(found, wants, 0)

    def _finished(self, found: dict[str, Any], wants: bool, above: int | None = None) -> dict[str, Any]:
        if wants:
            for name, one in found.items():
                if name not in ("i", "b"):
                    found[name] = one.requires_grad_()
        found |= {name: dynograd.from_numpy(one.copy()) for name, one in SHARED.items()}
        above = self.above if above is None else above
        return found | counted(above)

    def __len__(self) -> int:
        """The size of dim 0."""
        return len(self.lengths)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lengths})"


def counted(above: int) -> dict[str, Any]:
    """Dims 1 2 3 of rows under so many levels, and the letters in front of a row's own."""
    return {f"d{dim}": dim + above for dim in (1, 2, 3)} | {"B": "ab"[1 - above :]}


def ragged_of(name: str, tensors: list[Any], dims: tuple[int, ...]) -> Any:
    """Rows as a ragged tensor; of no rows, one of the dims that the name has."""
    if tensors:
        return dynograd.ragged_tensor(tensors, ragged_dims=dims)
    empty = ragged_of(name, [dynograd.from_numpy(arrays_of([1], 0)[name][0])], dims)
    return empty[:0]


class Documents(Sample):
    """Rows of rows: row k of the sample is sentence `places[k]` of documents of `counts` sentences."""

    above = 1

    def __init__(self, documents: list[list[int]], seed: int = 0) -> None:
        super().__init__([length for one in documents for length in one], seed)
        self.documents = [len(one) for one in documents]

    @property
    def places(self) -> list[Any]:
        return [(number, place) for number, count in enumerate(self.documents) for place in range(count)]

    def without(self, numbers: set[int]) -> Sample:
        made: Any = super().without(numbers)
        kept = [place for number, place in enumerate(self.places) if number not in numbers]
        made.documents = [sum(one == number for one, _ in kept) for number in range(len(self.documents))]
        return made

    @classmethod
    def usual(cls) -> Sample:
        return cls([[3]])

    def together_as(self, name: str, tensors: list[Any]) -> Any:
        found = super().together_as(name, tensors)
        return dynograd.RaggedTensor(found, lengths=self.documents)

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        return f"Documents({self.lengths} in {self.documents})"


class Images(Sample):
    """Rows with two ragged dims: (B, j, j, 4) for (B, j, 4), and so on."""

    above = 1

    def __init__(self, sizes: list[tuple[int, int]], seed: int = 0) -> None:
        self.lengths = [width for _, width in sizes]
        self.heights = [height for height, _ in sizes]
        self.rows = arrays_of(self.lengths, seed, [(height,) for height in self.heights])

    def without(self, numbers: set[int]) -> Sample:
        made: Any = super().without(numbers)
        made.heights = [one for number, one in enumerate(self.heights) if number not in numbers]
        return made

    def together_as(self, name: str, tensors: list[Any]) -> Any:
        if not tensors:
            tensors = [dynograd.from_numpy(arrays_of([1], 0, [(1,)])[name][0])]
        found = dynograd.ragged_tensor(tensors, ragged_dims=(1, *[dim + 1 for dim in RAGGED_DIMS.get(name, (1,))]))
        return found if self.lengths else found[:0]

    @classmethod
    def usual(cls) -> Sample:
        return cls([(3, 3)])

    def no_rows(self) -> dict[str, Any]:
        return super().no_rows() | counted(1)

    def row(self, number: int, wants: bool = False) -> dict[str, Any]:
        return super().row(number, wants) | counted(1)

    def single(self, number: int, wants: bool = False) -> dict[str, Any]:
        return super().single(number, wants) | counted(0)

    def __repr__(self) -> str:
        return f"Images({list(zip(self.heights, self.lengths, strict=True))})"


class Item:
    """One line's call of one op."""

    def __init__(self, name: str, text: str, number: int) -> None:
        self.name, self.number = name, number
        word, _, rest = text.partition(" ")
        self.mode = word if word in ("all", "each") else "rows"
        self.text = rest if self.mode != "rows" else text
        self.code = compile(self.text, f"<calls.txt {name}>", "eval")

    def run(self, values: dict[str, Any]) -> Any:
        return eval(
            self.code, {"op": function_of(self.name), "torch": dynograd, "F": F, "name": self.name, **MADE, **values}
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
            yield names.split(), [one.strip() for one in calls.split(" ; ")]


def items() -> list[Item]:
    """All calls of the page, and those of elementwise ops, which follow from their operands."""
    found = [
        Item(name, text, number) for names, texts in lines() for name in names for number, text in enumerate(texts)
    ]
    listed = {one.name for one in found}
    for key, entry in dynograd.ops.op.registry.items():
        if entry.kind == "elementwise" and key not in listed and f"{key}.public" not in dynograd.ops.op.registry:
            found.append(Item(key, elementwise_text(entry), 0))
    return found


_WHOLE = set("bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift gcd lcm".split())
_STATIC = {"int": "1", "float": "0.5", "float|None": "0.5", "str": "'none'", "int|None": "1"}


def elementwise_text(entry: Any) -> str:
    operands = ["i", "i", "i"] if entry.name in _WHOLE else ["x", "y", "r"]
    if entry.promote == "select":
        operands = ["x > 0.5", "x", "y"]
    given = []
    used = iter(operands)
    for name, parameter in entry.signature.parameters.items():
        given.append(
            next(used) if name in entry.array_names else _STATIC.get(str(parameter.annotation).replace(" ", ""), "0.5")
        )
    return f"op({', '.join(given)})"
