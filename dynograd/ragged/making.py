"""Making ragged tensors: from rows, from packed elements, from padded batches, from nested lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.base.shapes import normalize_dim
from dynograd.errors import DeviceError, DtypeError, ShapeError
from dynograd.ops.layout.joins import cat
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes, checked_lengths
from dynograd.ragged.tensor import RaggedTensor, from_values, make
from dynograd.tensor.creation import as_tensor, empty, tensor
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["from_file", "ragged_from_padded", "ragged_like", "ragged_tensor"]


def ragged_tensor(
    rows: Sequence[Any] | Tensor,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    ragged_dims: int | Sequence[int] | None = None,
) -> RaggedTensor:
    """A ragged tensor of rows: tensors, arrays or lists that differ in the size of some dims. Gradients flow to rows that are tensors.

    Rows that are themselves lists of tensors (or lists) of different lengths give several levels: (documents, sentences, words).

    Args:
        rows: a list; may be empty, and so may its rows.
        dtype, device: of the result; by default those of the rows.
        requires_grad: whether it gets a gradient.
        ragged_dims: which dims of the result are ragged (1 is the first of a row). Without it: those in which rows differ, and dim 1
            when they differ in none.
    Returns:
        A `RaggedTensor` (B, j1, *).
    Raises:
        ShapeError: rows with different numbers of dims, or that differ in a dim that is not among `ragged_dims`.

    >>> x = dynograd.ragged_tensor([[1, 2, 3], [], [4]])
    >>> x.shape, x.lengths
    (dynograd.Size([3, j1]), tensor([3, 0, 1]))
    >>> dynograd.ragged_tensor([[[1, 2], [3]], [[4]]]).sum(2)
    ragged_tensor([
      [3, 3],
      [4]])
    """
    who = "ragged_tensor"
    if isinstance(rows, RaggedTensor):
        x = rows if dtype is None and device is None else rows.to(device=device, dtype=dtype)
        return x.detach().requires_grad_() if requires_grad else x  # type: ignore[return-value]
    if isinstance(rows, Tensor) and not rows.ndim:
        raise ShapeError(f"{who}: expected a list of rows, got a 0-dim tensor.")
    listed = list(rows.unbind(0)) if isinstance(rows, Tensor) else list(rows)
    x = _of_rows(who, listed, dtype, device, ragged_dims)
    if requires_grad:
        if not x.is_leaf:
            x = x.detach()
        x.requires_grad = True
    return x


def ragged_like(x: RaggedTensor, values: Tensor) -> RaggedTensor:
    """Other elements in the rows of a ragged tensor.

    Args:
        x: a ragged tensor.
        values (total, *): its packed dim must have as many elements as that of `x`.
    Returns:
        A `RaggedTensor` with the lengths of `x`; it shares `values`.
    Raises:
        ShapeError: another number of elements.

    >>> x = dynograd.ragged_tensor([[1.0, 2.0], [3.0]])
    >>> dynograd.ragged_like(x, dynograd.arange(3))
    ragged_tensor([
      [0, 1],
      [2]])
    """
    total = x.partition.total
    if values.shape[x.place - 1] != total:
        raise ShapeError(f"ragged_like: the rows have {total} elements, but values have shape {tuple(values.shape)}.")
    return x.with_packed(values)


def _of_rows(who: str, rows: list[Any], dtype: Any, device: Any, ragged_dims: Any) -> RaggedTensor:
    if not rows:
        return make(empty(0, dtype=dtype, device=device), Partition(np.zeros(0, np.int64)))
    if dtype is None and device is None and _are_alike(rows):
        tensors = rows
    elif any([isinstance(row, RaggedTensor) or _has_levels(row) for row in rows]):
        return _of_levels(who, rows, dtype, device)
    else:
        tensors = _tensors(who, rows, dtype, device)
    ranks = {row.ndim for row in tensors}
    if len(ranks) > 1 or not tensors[0].ndim:
        number = next((place for place, row in enumerate(tensors) if row.ndim != tensors[0].ndim or not row.ndim))
        raise ShapeError(
            f"{who}: rows need equally many dims, one at least; row 0 has shape {tuple(tensors[0].shape)}, row {number} "
            f"{tuple(tensors[number].shape)}."
        )
    sizes = np.array([tuple(row.shape) for row in tensors], np.int64)
    dims = _ragged_dims(who, sizes, ragged_dims)
    if len(dims) == 1:
        place = dims[0]
        return make(cat(tensors, place - 1), Partition(np.ascontiguousarray(sizes[:, place - 1])), place)
    fixed = tuple(None if dim in dims else int(size) for dim, size in enumerate(sizes[0], 1))
    return make(cat([row.reshape(-1) for row in tensors]), Shapes(sizes, fixed), 0)


def _ragged_dims(who: str, sizes: np.ndarray, asked: Any) -> list[int]:
    differing = [dim for dim, differs in enumerate((sizes != sizes[0]).any(0).tolist(), 1) if differs]
    if asked is None:
        return differing or [1]
    chosen = sorted(
        {normalize_dim(who, dim, sizes.shape[1] + 1) for dim in ([asked] if isinstance(asked, int) else asked)}
    )
    wrong = [dim for dim in differing if dim not in chosen]
    if wrong:
        row = int(np.flatnonzero(sizes[:, wrong[0] - 1] != sizes[0, wrong[0] - 1])[0])
        raise ShapeError(
            f"{who}: dim {wrong[0]} is not among ragged_dims={chosen}, but row 0 has shape {tuple(sizes[0].tolist())} and row {row} "
            f"{tuple(sizes[row].tolist())}."
        )
    if not chosen or 0 in chosen:
        raise ShapeError(f"{who}: ragged_dims must name dims from 1 on (dim 0 counts the rows), got {asked}.")
    return chosen


def _are_alike(rows: list[Any]) -> bool:
    """Whether all rows are tensors of one dtype in host memory, as those of most batches are."""
    first = rows[0]
    if type(first) is not Tensor or type(first.array) is not np.ndarray:
        return False
    number = first.array.dtype.num
    return all(
        [type(row) is Tensor and type(row.array) is np.ndarray and row.array.dtype.num == number for row in rows]
    )


def _has_levels(row: Any) -> bool:
    """Whether a row is a list whose entries have different lengths, or are tensors."""
    if not isinstance(row, (list, tuple)) or not row:
        return False
    if any([isinstance(entry, Tensor) and entry.ndim for entry in row]):
        return True
    return any([isinstance(entry, (list, tuple)) for entry in row])


def _of_levels(who: str, rows: list[Any], dtype: Any, device: Any) -> RaggedTensor:
    """Rows that are lists: all their entries are the rows of the level below."""
    entries: list[Any] = []
    lengths = []
    for number, row in enumerate(rows):
        if isinstance(row, Tensor):
            row = list(row.unbind(0))
        elif not isinstance(row, (list, tuple)):
            raise TypeError(
                f"{who}: rows need equally many levels, but row {number} is {type(row).__name__} ({row!r})."
            )
        entries += row
        lengths.append(len(row))
    return make(_of_rows(who, entries, dtype, device, None), Partition(np.array(lengths, np.int64)))


def _tensors(who: str, rows: list[Any], dtype: Any, device: Any) -> list[Any]:
    """The rows as tensors of one dtype on one device; empty lists take those of the others."""
    filled = [row for row in rows if not (isinstance(row, (list, tuple)) and not row)]
    tensors: list[Any] = [row if isinstance(row, Tensor) else tensor(row) for row in filled]
    if dtype is not None or device is not None:
        tensors = [x.to(device=device, dtype=dtype) for x in tensors]
    for number, x in enumerate(tensors):
        if x.device != tensors[0].device:
            raise DeviceError(
                f"{who}: rows must be on one device, but row 0 is on {tensors[0].device} and row {number} on {x.device}. Move them first, "
                f"or pass device=."
            )
    kinds = {x.dtype for x in tensors}
    if len(kinds) > 1:
        if all([isinstance(row, Tensor) for row in filled]):
            raise DtypeError(
                f"{who}: rows have different dtypes ({', '.join(sorted(str(kind) for kind in kinds))}). Convert them, or pass dtype=."
            )
        kind = tensors[0].dtype
        for x in tensors[1:]:
            kind = run("add.public", empty(0, dtype=kind), empty(0, dtype=x.dtype)).dtype
        tensors = [x.to(kind) for x in tensors]
    if len(tensors) == len(rows):
        return tensors
    like = tensors[0][:0] if tensors else empty(0, dtype=dtype, device=device)
    remaining = iter(tensors)
    return [like if isinstance(row, (list, tuple)) and not row else next(remaining) for row in rows]


def ragged_from_padded(
    x: Tensor,
    lengths: Tensor | Sequence[int] | None = None,
    mask: Tensor | None = None,
    padding: float | None = None,
    dim: int = 1,
) -> RaggedTensor:
    """The real elements of a padded batch.

    Args:
        x (B, T, *): padded behind (`lengths`), or anywhere (`mask`).
        lengths (B,): how many elements of each row are real.
        mask (B, T): instead of lengths, True where an element is real.
        padding: instead of both, the number that stands behind the end of each row; for rows of several dims, in all of an element.
        dim: the padded dim.
    Raises:
        IndexRangeError: a length that is negative. ShapeError: one that is longer than T, or not one for each row.
    Returns:
        A `RaggedTensor` (B, j1, *).

    >>> dynograd.ragged_from_padded(tensor([[1, 2, 0], [3, 0, 0]]), lengths=[2, 1])
    ragged_tensor([
      [1, 2],
      [3]])
    """
    who = "ragged_from_padded"
    if sum([argument is not None for argument in (lengths, mask, padding)]) != 1:
        raise TypeError(f"{who}: give one of lengths, mask and padding.")
    place = normalize_dim(who, dim, x.ndim)
    if x.ndim < 2 or not place:
        raise ShapeError(
            f"{who}: expected a batch (B, T, *) and dim from 1 on, got shape {tuple(x.shape)} and dim={dim}."
        )
    x = x.movedim(place, 1)
    batch, steps = x.shape[0], x.shape[1]
    real: Any
    if padding is not None:
        real = x != padding
        real = real.reshape(batch, steps, -1).any(2)
        behind = real.flip(1).to(dtype=as_tensor(0).dtype).cummax(1).values
        lengths = behind.sum(1)
    if mask is not None:
        if tuple(mask.shape) != (batch, steps) or mask.dtype.name != "bool":
            raise ShapeError(
                f"{who}: expected mask to be bool of shape {(batch, steps)}, got {mask.dtype} {tuple(mask.shape)}."
            )
        real = np.asarray(arrays.to_numpy(mask.array))
        part = Partition(real.sum(1, dtype=np.int64))
        places = np.flatnonzero(real.reshape(-1)).astype(np.int64)
    else:
        part = checked_lengths(who, lengths)
        if part.count != batch:
            raise ShapeError(f"{who}: expected one length for each of {batch} rows, got {part.count}.")
        if part.longest > steps:
            row = int(np.flatnonzero(part.lengths > steps)[0])
            raise ShapeError(
                f"{who}: row {row} has lengths[{row}] = {part.lengths[row]}, but the padded dim has {steps} elements."
            )
        places = Partition.places_from(np.arange(batch, dtype=np.int64) * steps, part)
    flat = x.reshape(batch * steps, *x.shape[2:])
    index = wrap(arrays.to_device(places, arrays.place_of(x.array)))
    elements = flat if part.total == batch * steps else flat.index_select(0, index)
    return make(elements if place == 1 else elements.movedim(0, place - 1), part, place)


def from_file(values: Any, dim: int, offsets: Any, sizes: Any, fixed: Any) -> RaggedTensor:
    """A ragged tensor as it was saved; everything is checked, as of any that a user gives."""
    if sizes is None:
        return from_values("load", values, None, offsets, dim)
    if sizes.ndim != 2 or len(fixed) != sizes.shape[1] or (sizes < 0).any() or values.ndim != 1:
        raise ShapeError(
            f"load: a ragged tensor with rows of shapes {sizes.tolist()[:8]} does not fit fixed sizes {fixed}."
        )
    for place, size in enumerate(fixed):
        if size is not None and (sizes[:, place] != size).any():
            raise ShapeError(f"load: rows of shapes {sizes.tolist()[:8]} do not have size {size} in dim {place + 1}.")
    part = Shapes(sizes.astype(np.int64), tuple(fixed))
    checked_lengths(
        "load", [int(np.prod([int(size) for size in row], dtype=object)) for row in sizes.tolist()], values.shape[0]
    )
    return make(values, part, 0)
