"""How the elements along a packed dim are divided into rows: offsets, kept on the host, with copies on devices made once.

Tensors derived from one another share the object, so that comparing two partitions is usually comparing two references.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.base import dtypes
from dynograd.errors import DtypeError, IndexRangeError, RaggedSizeError, ShapeError
from dynograd.tensor.assertions import SymInt
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Partition", "RaggedSize", "Shapes", "checked_lengths", "checked_offsets"]

_TOO_MANY = 1 << 62


class Partition:
    """Rows of `lengths`, one behind the other: row i is elements `offsets[i]` to `offsets[i + 1]` of the packed dim."""

    __slots__ = ("_held", "count", "lengths", "longest", "offsets", "total")

    def __init__(self, lengths: np.ndarray, offsets: np.ndarray | None = None) -> None:
        self.lengths = lengths
        if offsets is None:
            offsets = np.zeros(len(lengths) + 1, np.int64)
            np.cumsum(lengths, out=offsets[1:])
        self.offsets, self.count, self.total = offsets, len(lengths), int(offsets[-1])
        self.longest = int(lengths.max(initial=0))
        self._held: dict[Any, Any] = {}

    @property
    def uniform(self) -> int:
        """The length of all rows where they have one in common, else 0."""
        return self.longest if self.total == self.longest * self.count else 0

    def same(self, other: Partition) -> bool:
        return self is other or (
            type(other) is Partition and self.count == other.count and np.array_equal(self.offsets, other.offsets)
        )

    def check_same(self, who: str, other: Partition, names: tuple[str, str] = ("the first", "the second")) -> None:
        """Raises where rows differ, naming the first one that does."""
        if self.same(other):
            return
        first, second = names
        if self.count != other.count:
            raise ShapeError(
                f"{who}: {first} ragged operand has {self.count} rows and {second} {other.count}. Both need the same rows."
            )
        if isinstance(other, Shapes):
            raise ShapeError(
                f"{who}: {first} and {second} ragged operand have different ragged dims: {self} and {other}."
            )
        row = int(np.flatnonzero(self.lengths != other.lengths)[0])
        raise ShapeError(
            f"{who}: row {row} has {self.lengths[row]} elements in {first} ragged operand and {other.lengths[row]} in {second} (lengths "
            f"{shown(self.lengths)} and {shown(other.lengths)}). Rows must have equal lengths; cut them with x[:, a:b] or pad() one of them."
        )

    # --- tensors, made once for each device ------------------------------------------------------------------------------

    def tensor(self, name: str, device: Any = None) -> Any:
        """One of "offsets", "lengths", "starts", "ends", "rows" (the row of each element) and "places" (where it is in its row)."""
        key = (name, "cpu", None) if device is None else (name, device.type, device.index)
        values = self._held.get(key)
        if values is None:
            place = arrays.check_device("ragged", device)
            values = self._held[key] = wrap(arrays.to_device(self.array(name), place))
        return values

    def array(self, name: str) -> np.ndarray:
        if name in ("offsets", "lengths"):
            return getattr(self, name)
        if name == "starts":
            return self.offsets[:-1]
        if name == "ends":
            return self.offsets[1:]
        values = self._held.get(name)
        if values is None:
            if name == "rows":
                values = np.repeat(np.arange(self.count, dtype=np.int64), self.lengths)
            else:
                values = np.arange(self.total, dtype=np.int64) - np.repeat(self.offsets[:-1], self.lengths)
            self._held[name] = values
        return values

    def kept(self, key: Any, make: Any) -> Any:
        """What `make()` gives, made once."""
        value = self._held.get(key)
        if value is None:
            value = self._held[key] = make()
        return value

    def by_length(self) -> list[tuple[int, np.ndarray]]:
        """(length, numbers of the rows that have it), shortest first."""
        return self.kept("by_length", self._by_length)

    def _by_length(self) -> list[tuple[int, np.ndarray]]:
        order = np.argsort(self.lengths, kind="stable")
        lengths, starts = np.unique(self.lengths[order], return_index=True)
        return (
            [(int(length), rows) for length, rows in zip(lengths, np.split(order, starts[1:]), strict=True)]
            if self.count
            else []
        )

    def of_rows(self, rows: np.ndarray) -> tuple[Partition, np.ndarray]:
        """The partition of these rows, in this order, and the places of their elements in the packed dim."""
        part = Partition(self.lengths[rows])
        return part, self.places_from(self.offsets[:-1][rows], part)

    @staticmethod
    def places_from(starts: np.ndarray, part: Partition) -> np.ndarray:
        """The places of rows that begin at `starts` and have the lengths of `part`."""
        return np.repeat(starts - part.offsets[:-1], part.lengths) + np.arange(part.total, dtype=np.int64)

    def times(self, factor: int) -> Partition:
        """Every element is `factor` elements."""
        return self if factor == 1 else self.kept(("times", factor), lambda: Partition(self.lengths * factor))

    def __repr__(self) -> str:
        return f"Partition({shown(self.lengths)})"

    def __reduce__(self) -> Any:
        return Partition, (self.lengths, self.offsets)


class Shapes(Partition):
    """Rows with several ragged dims, such as images: row i is `sizes[i]` (k dims) of elements, all rows flat behind one another.

    `fixed` has, for each of the k dims, its size where that is the same in every row, and None where it is ragged.
    """

    __slots__ = ("fixed", "sizes")

    def __init__(self, sizes: np.ndarray, fixed: tuple[int | None, ...]) -> None:
        super().__init__(sizes.prod(1, dtype=np.int64))
        self.sizes, self.fixed = sizes, fixed

    def same(self, other: Partition) -> bool:
        return self is other or (
            isinstance(other, Shapes)
            and self.sizes.shape == other.sizes.shape
            and np.array_equal(self.sizes, other.sizes)
        )

    def check_same(self, who: str, other: Partition, names: tuple[str, str] = ("the first", "the second")) -> None:
        if self.same(other):
            return
        if isinstance(other, Shapes) and self.sizes.shape == other.sizes.shape:
            row = int(np.flatnonzero((self.sizes != other.sizes).any(1))[0])
            raise ShapeError(
                f"{who}: row {row} has shape {tuple(self.sizes[row].tolist())} in {names[0]} ragged operand and "
                f"{tuple(other.sizes[row].tolist())} in {names[1]}. Rows must have equal shapes."
            )
        raise ShapeError(
            f"{who}: {names[0]} and {names[1]} ragged operand have different ragged dims: {self} and {other}."
        )

    def sizes_of(self, dim: int) -> Partition:
        """The sizes of one dim (1 to k) as lengths."""
        return self.kept(("sizes", dim), lambda: Partition(np.ascontiguousarray(self.sizes[:, dim - 1])))

    def _by_length(self) -> list[tuple[Any, np.ndarray]]:
        if not self.count:
            return []
        shapes, number = np.unique(self.sizes, axis=0, return_inverse=True)
        number = number.reshape(-1)
        order = np.argsort(number, kind="stable")
        starts = np.searchsorted(number[order], np.arange(1, len(shapes)))
        return [(tuple(size), rows) for size, rows in zip(shapes.tolist(), np.split(order, starts), strict=True)]

    def of_rows(self, rows: np.ndarray) -> tuple[Partition, np.ndarray]:
        part = Shapes(self.sizes[rows], self.fixed)
        return part, self.places_from(self.offsets[:-1][rows], part)

    def __repr__(self) -> str:
        return f"Shapes({shown_sizes(self.sizes)})"

    def __reduce__(self) -> Any:
        return Shapes, (self.sizes, self.fixed)


def shown_sizes(sizes: np.ndarray) -> str:
    listed = [tuple(size) for size in sizes[:8].tolist()]
    return str(listed) if len(sizes) <= 8 else f"[{', '.join(map(str, listed))}, ...]"


def shown(lengths: np.ndarray) -> str:
    """The lengths for a message, the first ones only when there are many."""
    listed = [int(length) for length in lengths[:8]]
    return str(listed) if len(lengths) <= 8 else f"[{', '.join(map(str, listed))}, ...]"


class RaggedSize(SymInt):
    """The size of a ragged dim, in shapes: another one for each row. No number: what asks for one is told so."""

    __slots__ = ("dim", "partition")

    def __init__(self, partition: Any, dim: int) -> None:
        self.partition, self.dim = partition, dim

    def __repr__(self) -> str:
        return f"j{self.dim}"

    def __eq__(self, other: Any) -> Any:
        return isinstance(other, RaggedSize) and self.partition.same(other.partition)

    def __hash__(self) -> int:
        return hash(("j", self.partition.count, self.partition.total))

    def __mul__(self, other: Any) -> Any:
        """Rows times this size is the number of elements, so that `x.view(B * T, -1)` reads as on a padded batch; two ragged sizes multiply
        row by row, so that `x.view(B, C, H * W)` does."""
        if isinstance(other, RaggedSize) and other.partition.count == self.partition.count:
            return RaggedSize(Partition(self.partition.lengths * other.partition.lengths), min(self.dim, other.dim))
        if isinstance(other, int) and other == self.partition.count:
            return self.partition.total
        raise self.refusal(f"{other} * {self!r}")

    __rmul__ = __mul__

    def refusal(self, what: str) -> RaggedSizeError:
        lengths = self.partition.lengths
        return RaggedSizeError(
            f"{what}: dim {self.dim} is ragged: its size differs from row to row (lengths {shown(lengths)}), so it is no number. Use "
            f"x.lengths(), max(x.lengths()) or x.values().shape, or loop over x.unbind()."
        )

    def __index__(self) -> int:
        raise self.refusal("a size")

    def _refuse(self, *_: Any) -> Any:
        raise self.refusal("arithmetic with a size")

    __add__ = __radd__ = __sub__ = __rsub__ = __floordiv__ = __truediv__ = __mod__ = __neg__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = _refuse


# --- what users give -------------------------------------------------------------------------------------------------------------


def checked_offsets(who: str, values: Any, total: int) -> Partition:
    """The partition of `offsets` over `total` elements.

    Raises:
        ShapeError: no vector, or none at all; they do not begin with 0 and end with `total`.
        IndexRangeError: negative, falling, or past the values; the message names the row and the numbers.
    """
    offsets = _whole(who, "offsets", values)
    if not len(offsets):
        raise ShapeError(
            f"{who}: offsets needs one number at least, where the last row ends, got none. Of no rows they are [0]."
        )
    if offsets[0] != 0:
        raise IndexRangeError(f"{who}: offsets must begin with 0, got offsets[0] = {offsets[0]}.")
    lengths = np.diff(offsets)
    for wrong, why in (
        (offsets < 0, "is negative"),
        (offsets > total, f"is past the values, of which there are {total}"),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise IndexRangeError(f"{who}: offsets[{row}] = {offsets[row]} {why} (row {max(row - 1, 0)} ends there).")
    if (offsets[1:] < offsets[:-1]).any():
        row = int(np.flatnonzero(offsets[1:] < offsets[:-1])[0])
        raise IndexRangeError(
            f"{who}: offsets must not fall, but row {row} goes from offsets[{row}] = {offsets[row]} to offsets[{row + 1}] = "
            f"{offsets[row + 1]}."
        )
    if offsets[-1] != total:
        raise ShapeError(
            f"{who}: offsets end with {offsets[-1]}, but there are {total} values: those behind belong to no row. Append {total}, or cut "
            f"the values."
        )
    return Partition(lengths, offsets)


def checked_lengths(who: str, values: Any, total: int | None = None) -> Partition:
    """The partition of rows of these lengths, over `total` elements when that is known.

    Raises:
        IndexRangeError: a negative length, or more elements than 64 bits can count.
        ShapeError: they do not sum to `total`.
    """
    lengths = _whole(who, "lengths", values)
    if (lengths < 0).any():
        row = int(np.flatnonzero(lengths < 0)[0])
        raise IndexRangeError(
            f"{who}: lengths must not be negative, but row {row} has lengths[{row}] = {lengths[row]}."
        )
    if len(lengths) and float(lengths.sum(dtype=np.float64)) >= _TOO_MANY:
        sums = np.cumsum(lengths.astype(np.float64))
        row = int(np.flatnonzero(sums >= _TOO_MANY)[0])
        raise IndexRangeError(
            f"{who}: the sum of lengths overflows at row {row} (lengths[{row}] = {lengths[row]}): no tensor has that many elements."
        )
    part = Partition(lengths)
    if total is not None and part.total != total:
        row = int(np.searchsorted(part.offsets[1:], total, side="right"))
        where = f"; row {row} goes from {part.offsets[row]} to {part.offsets[row + 1]}" if row < part.count else ""
        raise ShapeError(f"{who}: lengths {shown(lengths)} sum to {part.total}, but there are {total} values{where}.")
    return part


def _whole(who: str, name: str, values: Any) -> np.ndarray:
    """A vector of int64 on the host."""
    if isinstance(values, Sequence):
        values = [value.item() if isinstance(value, Tensor) else value for value in values]
        if any([isinstance(value, bool) or not hasattr(value, "__index__") for value in values]):
            row = next(
                place
                for place, value in enumerate(values)
                if isinstance(value, bool) or not hasattr(value, "__index__")
            )
            raise DtypeError(f"{who}: expected {name} to be integers, got {name}[{row}] = {values[row]!r}.")
        try:
            return np.array(values, np.int64).reshape(-1)
        except OverflowError:
            row = next(place for place, value in enumerate(values) if not -(1 << 63) <= int(value) < 1 << 63)
            raise IndexRangeError(f"{who}: {name}[{row}] = {values[row]} does not fit into 64 bits.") from None
    raw = getattr(values, "array", values)
    if not hasattr(raw, "dtype"):
        raise TypeError(f"{who}: expected {name} to be a tensor or a list of integers, got {type(values).__name__}.")
    numbers = np.asarray(arrays.to_numpy(raw))
    if numbers.dtype.kind not in "iu":
        raise DtypeError(f"{who}: expected {name} of an integer dtype, got {dtypes.of_array(raw)}. Use .long().")
    if numbers.ndim != 1:
        raise ShapeError(f"{who}: expected {name} to be a vector, got shape {numbers.shape}.")
    if numbers.dtype == np.uint64 and (numbers >= 1 << 63).any():
        row = int(np.flatnonzero(numbers >= 1 << 63)[0])
        raise IndexRangeError(f"{who}: {name}[{row}] = {numbers[row]} does not fit into 64 bits.")
    return numbers.astype(np.int64)  # a copy: whoever made it may write into it
