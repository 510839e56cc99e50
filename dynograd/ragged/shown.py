"""What a ragged tensor shows: as its array dtype and dims, and no values; as text its rows."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd import arrays
from dynograd.base.shapes import Size
from dynograd.tensor import printing

__all__ = ["Example", "Shown", "refusal", "rows_text", "shown_array"]


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


def rows_text(x: Any, indent: str) -> list[str]:
    """A text for each row that is shown."""
    options = printing.get_printoptions()
    count, edge = x.partition.count, options["edgeitems"]
    shown: list[int | None] = list(range(count))
    if x.numel() > options["threshold"] and count > 2 * edge:
        shown = [*range(edge), None, *range(count - edge, count)]
    texts = []
    for number in shown:
        if number is None:
            texts.append("...")
            continue
        row = x.detach()[number]
        if row.is_nested:
            inner = indent + " "
            parts = rows_text(row, inner)
            texts.append("[" + f",\n{inner}".join(parts) + "]")
            continue
        text = printing.format_tensor(arrays.to_numpy(row.array), prefix=" " * len(indent))
        text = text.strip()[:-1] if text.strip().endswith(")") else text.strip()
        texts.append(text if row.numel() else "[]")
    return texts
