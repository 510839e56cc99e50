"""What a ragged tensor shows: as its array dtype and dims, and no values; as text its rows."""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd import arrays
from dynograd.base.shapes import Size
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.tensor import printing

__all__ = ["Example", "Shown", "refusal", "shown_array", "sizes_text", "text_of"]

_LINES = 40


def refusal(what: str) -> TypeError:
    return TypeError(
        f"{what}: rows of a ragged tensor have different lengths, so it is no rectangle of numbers. x.to_padded() is one; x.values() are "
        f"the elements of all rows; x.unbind() are the rows."
    )


class Shown(numpy.ndarray):
    """What a RaggedTensor shows as its array: dtype and dims, and no values."""

    owner: Any
    everything: Any  # of an example: the elements of all rows
    shape = property(lambda self: self.owner.shape)  # type: ignore[assignment]
    ndim = property(lambda self: self.owner.ndim)  # type: ignore[assignment]
    size = property(lambda self: self.owner.numel())  # type: ignore[assignment]

    @staticmethod
    def __dynograd_kernel__(family: str, name: str) -> Any:
        if name in ("attends_in_tiles", "attends_ragged"):  # asked in a vmap over rows
            return lambda *_: False
        raise refusal(f"{name}()")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise refusal(f"numpy.{ufunc.__name__}")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise refusal(f"numpy.{function.__name__}")

    def item(self, *args: Any) -> Any:
        return self.owner.item()

    def tolist(self) -> Any:
        return self.owner.tolist()

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        raise refusal("astype()")


class Example:
    """The shape of one row, without values."""

    def __init__(self, shape: Size, ndim: int) -> None:
        self.shape, self.ndim = shape, ndim

    def __getattr__(self, name: str) -> Any:
        raise refusal(f"vmap: {name}")


def shown_array(owner: Any, dtype: Any) -> Any:
    """An array without values, whose dims are those of `owner`."""
    shown = numpy.empty(0, dtype).view(Shown)
    shown.owner = owner
    return shown


def text_of(x: Any) -> tuple[str, bool]:
    """The rows as text, and whether some of them, or of their items, are left out.

    All are shown if there are no more elements than the options' `threshold` and no more than 40 lines. Else the edges: of the rows and
    of each row as many items as fit into 40 lines, and at most `edgeitems`. With an infinite threshold all are shown.
    """
    options = printing.get_printoptions()
    count, edge, threshold = x.partition.count, options["edgeitems"], options["threshold"]
    if threshold == math.inf or (x.numel() <= threshold and count <= _LINES):
        text = _joined(x, None, None)
        if threshold == math.inf or text.count("\n") < _LINES:
            return text, False
    items = [(edge, items) for items in range(edge, 0, -1)]
    for rows, columns in [*items, *[(rows, 1) for rows in range(edge - 1, 0, -1)], (edge, 0)]:
        text = _joined(x, rows, columns)
        if text.count("\n") < _LINES:
            break
    return text, True


def sizes_text(partition: Partition) -> dict[str, str]:
    """How long the rows are, or their shapes where several dims are ragged: those of the first and the last ones."""
    edge = printing.get_printoptions()["edgeitems"]
    sizes = partition.sizes if isinstance(partition, Shapes) else partition.lengths
    parts = [sizes[:edge], sizes[len(sizes) - edge :]] if len(sizes) > max(2 * edge, 10) else [sizes]
    ends = [[str(tuple(size) if isinstance(size, list) else size) for size in part.tolist()] for part in parts]
    texts = ends[0] if len(ends) == 1 else [*ends[0], "...", *ends[1]]
    return {"shapes" if isinstance(partition, Shapes) else "lengths": f"[{', '.join(texts)}]"}


def _joined(x: Any, rows: int | None, items: int | None) -> str:
    return ",\n".join([f"  {text}" for text in _rows_text(x, "  ", rows, items)])


def _rows_text(x: Any, indent: str, rows: int | None, items: int | None) -> list[str]:
    """A text for each row that is shown: the first and the last `rows`, with `items` of each edge; None: all."""
    count = x.partition.count
    shown: list[int | None] = list(range(count))
    if rows is not None and count > 2 * rows:
        shown = [*range(rows), None, *range(count - rows, count)]
    texts = []
    for number in shown:
        if number is None:
            texts.append("...")
            continue
        row = x.detach()[number]
        if row.is_nested:
            inner = indent + " "
            parts = _rows_text(row, inner, rows, items)
            texts.append("[" + f",\n{inner}".join(parts) + "]")
            continue
        text = printing.format_tensor(arrays.to_numpy(row.array), prefix=" " * len(indent), edge=items)
        text = text.strip()[:-1] if text.strip().endswith(")") else text.strip()
        texts.append(text if row.numel() else "[]")
    return texts
