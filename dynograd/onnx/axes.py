"""Axes whose size may differ from call to call: their names, the sizes at which the program is recorded, and numbers as formulas of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.errors import OnnxError, ProgramError
from dynograd.export.derived_dims import DerivedSize, derived
from dynograd.export.dynamic_shapes import Bounds, checked_axes, named_axes, sizes_to_record
from dynograd.export.size_expressions import SizeExpression
from dynograd.onnx.picking import Pick
from dynograd.tensor.tensor import Tensor

__all__ = ["Axes", "axes_of", "resized"]

# The sizes of the first, second, ... name in further records, in multiples.
_MORE_VALUES = 6  # for each row, so that what cuts off a few values does so
_TIMES = ((2, 3), (3, 5), (4, 7), (5, 4), (7, 6), (6, 2), (3, 7), (7, 5))


@dataclass
class Axes:
    """The dynamic axes of a program.

    Args:
        places: the name of each, by (number of the input, axis).
        sizes: of each name, as in the example.
        bounds: of each name; any size without.
        lengths: inputs whose values are lengths along an axis, and its name.
        rows: inputs that are offsets of rows, and those with the values of these.
        picks: sizes that follow from values.
        expressions: numbers that the program computes from sizes.
    """

    places: dict[tuple[int, int], str]
    sizes: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, Bounds] = field(default_factory=dict)
    lengths: dict[int, str] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    picks: list[Pick] = field(default_factory=list)
    expressions: list[SizeExpression] = field(default_factory=list)

    def samples(self, kind: str) -> list[dict[str, int]]:
        """Sizes at which the program is recorded.

        Args:
            kind: "far": by small steps, and at twice the example's sizes; "near": by small steps; "multiples": of the example's sizes.
        """
        if not self.sizes:
            return [{}]
        if kind != "multiples":
            first = {name: self.within(name, max(size, 2)) for name, size in self.sizes.items()}
            bounds = {name: self.bounds.get(name, Bounds()) for name in first}
            first, *others = sizes_to_record(first, bounds, far=kind == "far")
            more = _MORE_VALUES if kind == "far" else 0
            return [self._with_enough(first), *[self._with_enough(sample, more) for sample in others]]
        pairs = list(zip(self.sizes.items(), _TIMES * len(self.sizes)))
        others = [
            {name: self._other(name, size, size * times[which], which) for (name, size), times in pairs}
            for which in (0, 1)
        ]
        return [dict(self.sizes), *others]

    def _with_enough(self, sample: dict[str, int], more: int = 0) -> dict[str, int]:
        """The sizes, with at least a value for each row, and so many more."""
        for offsets, values in self.rows.items():
            count, name = self.first_size(offsets, sample), self.places[values, 0]
            sample[name] += count * ((sample[name] < count) + more)
        return sample

    def take_rows(self, rows: dict[int, int], names: Sequence[str], tensors: Sequence[Tensor]) -> None:
        """Axes of ragged tensors: of the values, and of the offsets, of which there is one more than there are rows.

        Args:
            rows, names, tensors: of the program.
        """
        self.rows = rows
        for offsets, values in rows.items():  # first the offsets, which grow less than the values in further records
            count = self.places.pop((values, 0), None)
            for number in (offsets, values):
                self.places[number, 0] = f"{names[number]}_rows"
            if count is None:
                self.sizes[f"{names[offsets]}_rows"] = tensors[offsets].shape[0]
            else:
                form = derived(count) or DerivedSize(count)
                self.places[offsets, 0] = str(DerivedSize(form.root, form.times, form.plus + 1))
            self.sizes[f"{names[values]}_rows"] = tensors[values].shape[0]

    def roots_of_rows(self) -> list[str]:
        """The sizes that say how many values and rows ragged tensors have."""
        return [self._form(place).root for pair in self.rows.items() for place in pair]

    def first_size(self, number: int, sizes: dict[str, int]) -> int:
        """How long the first axis of an input is at these sizes."""
        return self._form(number).at(sizes)

    def sizes_where(self, number: int, size: int) -> Iterator[tuple[str, int]]:
        """The size by which the first axis of an input is as long as that, if there is one."""
        form = self._form(number)
        root = form.root_of(size)
        if root is not None:
            yield form.root, root

    def _form(self, number: int) -> DerivedSize:
        name = self.places[number, 0]
        return derived(name) or DerivedSize(name)

    def within(self, name: str, size: int) -> int:
        """The size, or the nearest one that the name may have."""
        bounds = self.bounds.get(name, Bounds())
        return max(bounds.least, size if bounds.most is None else min(size, bounds.most))

    def _other(self, name: str, size: int, larger: int, which: int) -> int:
        """A larger size, or if that is out of bounds one that is a little smaller."""
        if larger == self.within(name, larger):
            return larger
        return self.within(name, size - 1 - which)

    def has(self, sizes: dict[str, int]) -> bool:
        """Whether the names may have these sizes."""
        return all([self.bounds.get(name, Bounds()).has(size) for name, size in sizes.items()])

    def place_of(self, name: str) -> tuple[tuple[int, int], DerivedSize]:
        """The first axis of that name, or one whose size follows from it, and how."""
        forms = [(place, derived(other) or DerivedSize(other)) for place, other in self.places.items()]
        plain = [pair for pair in forms if pair[1] == DerivedSize(name)]
        return next(pair for pair in (*plain, *forms) if pair[1].root == name)

    def shape(self, number: int, tensor: Tensor) -> list[int | str]:
        """The shape of an input, with names for dynamic axes."""
        return [self.places.get((number, axis), size) for axis, size in enumerate(tensor.shape)]


def axes_of(
    shapes: Sequence[Sequence[int] | int | None],
    names: Sequence[str],
    paths: Sequence[str],
    arguments: Sequence[str],
    outputs: Sequence[str],
    dynamic_axes: Any,
    dynamic_shapes: Any,
) -> Axes:
    """The dynamic axes that `export` was asked for, in either form.

    Args:
        shapes: of the inputs; of ragged ones the number of rows, and None of their offsets.
        names, paths: of the inputs in the model, and where they are among the arguments: "x[0]".
        arguments: names of all arguments in order.
    Raises:
        OnnxError: both forms, an unknown input, an axis that is not there, or one name for two sizes.
    """
    if dynamic_axes and dynamic_shapes:
        raise OnnxError("onnx.export: expected dynamic_axes or dynamic_shapes, got both. Leave one of them out.")
    try:
        if dynamic_shapes:
            if isinstance(dynamic_shapes, dict):
                dynamic_shapes = {dict(zip(names, paths)).get(key, key): spec for key, spec in dynamic_shapes.items()}
            places, bounds = named_axes(paths, shapes, arguments, dynamic_shapes)
        else:
            places, bounds = checked_axes(names, shapes, list(_named(names, outputs, dynamic_axes or {})))
    except ProgramError as error:
        raise OnnxError(f"onnx.{error}") from None
    sizes: dict[str, int] = {}
    for (number, axis), name in places.items():
        form = derived(name) or DerivedSize(name)
        shape = shapes[number]
        sizes[form.root] = form.root_of(shape if isinstance(shape, int) else (shape or ())[axis]) or 0
    return Axes(places, {name: sizes[name] for name in bounds}, bounds)


def _named(
    names: Sequence[str], outputs: Sequence[str], dynamic_axes: dict[str, Any]
) -> Iterator[tuple[int, Any, str, Bounds]]:
    """(number of an input, axis, its name, any size) of `dynamic_axes`. Axes of outputs follow from the inputs'."""
    for key, entry in dynamic_axes.items():
        if key in outputs or (not outputs and re.fullmatch(r"output(_\d+)?", key)):
            continue
        if key not in names:
            raise OnnxError(
                f"onnx.export: dynamic axes of {key!r}, but the inputs are {', '.join(names)}. Use one of these names."
            )
        pairs = entry.items() if isinstance(entry, dict) else [(axis, "") for axis in entry or ()]
        yield from [(names.index(key), axis, name, Bounds()) for axis, name in pairs if name is not None]


def resized(tensor: Tensor, number: int, axes: Axes, sample: dict[str, int]) -> Tensor:
    """The example's tensor, repeated or cut to the sizes of a sample. It is always another tensor."""
    array = tensor.detach().cpu().array
    for axis, size in enumerate(tensor.shape):
        name = axes.places.get((number, axis))
        if name is not None:
            form = derived(name) or DerivedSize(name)
            array = numpy.take(array, numpy.arange(form.at(sample)) % size, axis=axis)
    if number in axes.rows and len(array) != tensor.shape[0]:
        return Tensor.wrap(_offsets(len(array) - 1, sample[axes.places[axes.rows[number], 0]]))
    if number in axes.lengths:
        name = axes.lengths[number]
        is_sorted = bool((numpy.diff(tensor.detach().cpu().array) <= 0).all())
        array = numpy.maximum(array * sample[name] // axes.sizes[name], 1)
        array = numpy.sort(array)[::-1] if is_sorted else array
    return Tensor.wrap(array.copy())


def _offsets(rows: int, count: int) -> ndarray:
    """Offsets of rows of different lengths, each at least 1 if there are enough values, and one of that if there are others: parts of them then
    have different lengths, too. Which row is the longest follows from how many there are."""
    shares = (numpy.arange(rows) * 7 + rows) % 5
    ends = numpy.round(numpy.cumsum(shares) / shares.sum() * max(count - rows, 0)).astype(numpy.int64)
    least = numpy.minimum(numpy.arange(1, rows + 1), count)
    return numpy.concatenate([[0], ends + least])
