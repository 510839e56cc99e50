"""Between ragged and padded: `to_padded`, and the mask of what is real."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.errors import ShapeError
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes, shown
from dynograd.tensor.creation import full
from dynograd.tensor.tensor import wrap

__all__ = ["mask_of", "padded", "padded_places", "padded_to"]


def padded_places(part: Partition, length: int, device: Any) -> Any:
    """(total,) where each element stands in a flat (B * length) padded batch."""

    def places() -> np.ndarray:
        return Partition.places_from(np.arange(part.count, dtype=np.int64) * length, part)

    place = arrays.check_device("to_padded", device)
    return part.kept(("padded", length, str(place)), lambda: wrap(arrays.to_device(places(), place)))


def padded(x: Any, value: Any, length: int | None = None) -> Any:
    """A dense tensor with `value` behind the end of each row, in every ragged dim."""
    part = x.partition
    if isinstance(part, Shapes):
        return _padded_shapes(x, value)
    packed = x.packed
    if packed.is_nested:
        packed = padded(packed, value)
    if length is not None and length < part.longest:
        row = int(np.flatnonzero(part.lengths > length)[0])
        raise ShapeError(
            f"to_padded: row {row} has {part.lengths[row]} elements, more than length={length} (lengths {shown(part.lengths)})."
        )
    steps = part.longest if length is None else length
    place = x.place
    front = packed if place == 1 else packed.movedim(place - 1, 0)
    rest = tuple(front.shape[1:])
    if part.total == part.count * steps and part.count:
        dense = front.reshape(part.count, steps, *rest)
    else:
        base = full((part.count * steps, *rest), value, dtype=packed.dtype, device=packed.device)
        dense = base.index_copy(0, padded_places(part, steps, packed.device), front)
        dense = dense.reshape(part.count, steps, *rest)
    return dense if place == 1 else dense.movedim(1, place)


def padded_to(x: Any, value: Any, output_size: Any = None) -> Any:
    """`padded`, in the shape `output_size`, which may be larger than the longest row needs."""
    dense = padded(x, value)
    if output_size is None:
        return dense
    sizes = tuple(output_size)
    if len(sizes) != dense.ndim or any([size < have for size, have in zip(sizes, dense.shape, strict=True)]):
        raise ShapeError(f"to_padded_tensor: output_size {sizes} is too small for rows that need {tuple(dense.shape)}.")
    sides = [side for size, have in zip(sizes[::-1], dense.shape[::-1], strict=True) for side in (0, size - have)]
    return run("pad", dense, sides, "constant", value)


def _padded_shapes(x: Any, value: Any) -> Any:
    part = x.partition
    assert isinstance(part, Shapes)
    whole = tuple(part.sizes.max(0, initial=0).tolist()) if part.count else tuple(size or 0 for size in part.fixed)
    dense = full((part.count, *whole), value, dtype=x.dtype, device=x.device)
    if not part.total:
        return dense
    strides = np.cumprod((1, *whole[::-1]))[::-1]
    places = np.concatenate(
        [
            number * strides[0]
            + sum(np.ix_(*[np.arange(size) * step for size, step in zip(sizes, strides[1:], strict=True)])).reshape(-1)  # type: ignore[arg-type]
            for number, sizes in enumerate(part.sizes.tolist())
        ]
    ).astype(np.int64)
    index = wrap(arrays.to_device(places, arrays.check_device("to_padded", x.device)))
    return dense.reshape(-1).index_copy(0, index, x.packed).reshape(part.count, *whole)


def mask_of(x: Any, length: int | None = None) -> Any:
    part = x.partition
    steps = part.longest if length is None else length
    real = np.arange(steps) < part.lengths[:, None]
    return wrap(arrays.to_device(real, arrays.check_device("mask", x.device)))
