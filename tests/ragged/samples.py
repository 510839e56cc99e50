"""Ragged arguments by name, the same arguments for each row, and the calls of `calls.txt`: what the property tests are made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

import dynograd

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


def arrays_of(lengths: list[int], seed: int) -> dict[str, list[numpy.ndarray]]:
    """For each name the arrays of the rows. Numbers are distinct, between 0.1 and 0.9."""
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
    for length in lengths:
        rows["x"].append(numbers(length, 4))
        rows["y"].append(numbers(length, 4))
        rows["v"].append(numbers(length))
        rows["u"].append(numbers(length))
        rows["i"].append(rng.integers(0, 4, length))
        rows["b"].append(rng.uniform(size=length) < 0.6)
        rows["c"].append(numbers(4, length))
        rows["m"].append(numbers(2, length, length + 1))
        square = numbers(length, length)
        rows["s"].append(square @ square.T + 2 * numpy.eye(length))
        rows["z"].append(numbers(length, 4) + 1j * numbers(length, 4))
        rows["r"].append(numbers(1, 4))
        rows["q"].append(numbers(2, length, 4))
        rows["grid"].append(numbers(length, 2, 2))
    return rows


RAGGED_DIMS = {"c": 2, "m": (2, 3), "s": (1, 2), "q": 2}
DENSE = ("r",)


class Sample:
    """Arguments by name: ragged ones, and those of each row alone."""

    def __init__(self, lengths: list[int], seed: int = 0) -> None:
        self.lengths = lengths
        self.rows = arrays_of(lengths, seed)

    def whole(self, wants: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, rows in self.rows.items():
            tensors = [dynograd.from_numpy(row) for row in rows]
            if name in DENSE:
                found[name] = dynograd.stack(tensors)
            else:
                found[name] = dynograd.ragged_tensor(tensors, ragged_dims=RAGGED_DIMS.get(name, 1))
        return self._finished(found, wants)

    def row(self, number: int, wants: bool = False) -> dict[str, Any]:
        """One row as a batch of one."""
        return self._finished(
            {name: dynograd.from_numpy(rows[number][None]) for name, rows in self.rows.items()}, wants
        )

    def single(self, number: int, wants: bool = False) -> dict[str, Any]:
        """One row without a batch."""
        return self._finished({name: dynograd.from_numpy(rows[number]) for name, rows in self.rows.items()}, wants)

    def together(self, wants: bool = False) -> dict[str, Any]:
        """The elements of all rows as one tensor, rows behind one another."""
        found = {}
        for name, rows in self.rows.items():
            axis = RAGGED_DIMS.get(name, 1)
            found[name] = dynograd.from_numpy(
                numpy.concatenate(
                    [row.reshape(-1) for row in rows] if not isinstance(axis, int) else rows,
                    axis - 1 if isinstance(axis, int) else 0,
                )
            )
        return self._finished(found, wants)

    @staticmethod
    def _finished(found: dict[str, Any], wants: bool) -> dict[str, Any]:
        if wants:
            for name, one in found.items():
                if name not in ("i", "b"):
                    found[name] = one.requires_grad_()
        found |= {name: dynograd.from_numpy(one.copy()) for name, one in SHARED.items()}
        return found


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
    for place in (dynograd, F):
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
