"""`torch.nested`'s names for ragged tensors.

>>> x = dynograd.nested.nested_tensor([tensor([1.0, 2.0]), tensor([3.0])], layout=dynograd.jagged)
>>> dynograd.nested.to_padded_tensor(x, 0.0)
tensor([[1., 2.],
        [3., 0.]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.errors import IndexRangeError, ShapeError
from dynograd.ops.op import registry
from dynograd.ragged import RaggedTensor, ragged_tensor
from dynograd.ragged.families.groups import index_of
from dynograd.ragged.families.selecting import gathered
from dynograd.ragged.partitions import Partition, checked_lengths, checked_offsets
from dynograd.ragged.tensor import make
from dynograd.tensor.creation import tensor
from dynograd.tensor.tensor import Tensor

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> RaggedTensor:
    """A ragged tensor with copies of the rows; a leaf, as in PyTorch.

    Args:
        tensor_list: tensors, arrays or lists, which may differ in the size of some dims.
        dtype, device: of the result; by default those of the rows.
        layout: accepted for PyTorch's sake; all ragged tensors are of layout `dynograd.jagged`.
        requires_grad: whether it gets a gradient.
        pin_memory: in page-locked memory, for copies to a GPU.
    Returns:
        A `RaggedTensor`. Rows given as lists are tensors where they are rectangles; others are rows of rows.

    >>> dynograd.nested.nested_tensor([[1.0], [2.0, 3.0]])
    ragged_tensor([
      [1.],
      [2., 3.]])
    """
    ragged: Any = ragged_tensor(_rows_of(tensor_list, dtype, device), dtype=dtype, device=device)
    ragged = ragged.detach() if not ragged.is_leaf or ragged.requires_grad else ragged
    if len(tensor_list) == 1:  # the packed elements of one row are that row
        ragged = ragged.clone()
    ragged = ragged.pin_memory() if pin_memory else ragged
    return ragged.requires_grad_() if requires_grad else ragged


def as_nested_tensor(
    ts: Tensor | Sequence[Any], dtype: DtypeLike = None, device: DeviceLike = None, layout: object = None
) -> RaggedTensor:
    """A ragged tensor of these rows, or of those of a tensor (B, T, *); gradients flow to them.

    Args:
        ts: a list of tensors, or a tensor.
        dtype, device: of the result; by default those of the rows.
        layout: accepted for PyTorch's sake.
    Returns:
        A `RaggedTensor`.

    >>> dynograd.nested.as_nested_tensor([tensor([1]), tensor([2, 3])]).lengths
    tensor([1, 2])
    """
    if isinstance(ts, Tensor) and not isinstance(ts, RaggedTensor):
        if ts.ndim < 2:
            raise ShapeError(f"as_nested_tensor: expected rows (B, T, *), got shape {tuple(ts.shape)}.")
        ts = ts if dtype is None and device is None else ts.to(device=device, dtype=dtype)
        part = Partition(np.full(ts.shape[0], ts.shape[1], np.int64))
        return make(ts.reshape(part.total, *ts.shape[2:]), part)
    return ragged_tensor(_rows_of(ts, dtype, device), dtype=dtype, device=device)


def _rows_of(rows: Tensor | Sequence[Any], dtype: Any, device: Any) -> Tensor | Sequence[Any]:
    """Lists that are rectangles are rows as tensors are, as in PyTorch; where one is none, or is empty, they are rows of rows."""
    if isinstance(rows, Tensor) or not all([isinstance(row, (list, tuple)) and _is_of_numbers(row) for row in rows]):
        return rows
    ranks = {len(sizes) if (sizes := _sizes_of(row)) else 0 for row in rows}
    return [tensor(row, dtype=dtype, device=device) for row in rows] if len(ranks) == 1 and ranks != {0} else rows


def _is_of_numbers(row: Any) -> bool:
    return not isinstance(row, Tensor) and (
        not isinstance(row, (list, tuple)) or all([_is_of_numbers(entry) for entry in row])
    )


def _sizes_of(row: Any) -> tuple[int, ...] | None:
    """The shape of nested lists of one length on each level; None of others."""
    if not isinstance(row, (list, tuple)):
        return ()
    below = {_sizes_of(entry) for entry in row}
    inner = below.pop() if len(below) == 1 else None
    return None if inner is None else (len(row), *inner)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> RaggedTensor:
    """A ragged tensor of packed elements. With offsets and lengths, row i is the first `lengths[i]` elements from `offsets[i]` on.

    Args:
        values (total, *): the elements of all rows, one row behind the other.
        offsets (B + 1,): where each row begins, and where the last one ends.
        lengths (B,): of each row; alone, or beside offsets for rows with gaps between them.
        jagged_dim: which dim of the result is ragged; 1 unless given.
        min_seqlen, max_seqlen: accepted for PyTorch's sake; they are found when they are needed.
    Returns:
        A `RaggedTensor`, which shares `values`.
    Raises:
        IndexRangeError: offsets that fall, are negative or past the values, or a length that reaches into the next row.

    >>> dynograd.nested.nested_tensor_from_jagged(tensor([1, 2, 3]), offsets=tensor([0, 1, 3]))
    ragged_tensor([
      [1],
      [2, 3]])
    """
    who = "nested_tensor_from_jagged"
    dim = 1 if jagged_dim is None else jagged_dim
    if offsets is None:
        if lengths is None:
            raise RuntimeError(f"{who}: At least one of offsets or lengths is required.")
        return RaggedTensor(values, lengths=lengths, dim=dim)
    if lengths is None:
        return RaggedTensor(values, offsets=offsets, dim=dim)
    total = values.shape[dim - 1]
    whole = checked_offsets(who, [*_listed(offsets)[:-1], total] if len(_listed(offsets)) else offsets, total)
    part = checked_lengths(who, lengths)
    if part.count != whole.count:
        raise ShapeError(f"{who}: {whole.count} rows by offsets, but {part.count} lengths.")
    if (part.lengths > whole.lengths).any():
        row = int(np.flatnonzero(part.lengths > whole.lengths)[0])
        raise IndexRangeError(
            f"{who}: row {row} has lengths[{row}] = {part.lengths[row]}, but its offsets leave room for {whole.lengths[row]}."
        )
    kept = make(values, whole, dim)
    return make(gathered(kept, Partition.places_from(whole.offsets[:-1], part)), part, dim)


def _listed(offsets: Any) -> list[int]:
    return offsets.tolist() if isinstance(offsets, Tensor) else list(offsets)


def to_padded_tensor(
    input: Any, padding: float, output_size: Sequence[int] | None = None, out: Tensor | None = None
) -> Tensor:
    """A dense tensor with `padding` behind the ends of the rows; see `RaggedTensor.to_padded`.

    Args:
        input: a ragged tensor.
        padding: the number.
        output_size: the shape of the result, when it is to be larger than the longest row.
    Returns:
        (B, longest, *).

    >>> dynograd.nested.to_padded_tensor(dynograd.ragged_tensor([[1, 2], [3]]), 0)
    tensor([[1, 2],
            [3, 0]])
    """
    if not isinstance(input, RaggedTensor):
        raise TypeError(f"to_padded_tensor: expected a ragged tensor, got {type(input).__name__}.")
    return input.to_padded_tensor(padding, output_size)


def narrow(tensor: Tensor, dim: int, start: Tensor | int, length: Tensor | int, layout: object = None) -> RaggedTensor:
    """From each row of a dense tensor (B, T, *) the `length[i]` elements from `start[i]` on, as a ragged tensor.

    Args:
        tensor (B, T, *): a dense tensor.
        dim: 1.
        start, length: ints, or tensors of B.
        layout: accepted for PyTorch's sake.
    Returns:
        A `RaggedTensor` (B, j, *).

    >>> dynograd.nested.narrow(tensor([[1, 2, 3], [4, 5, 6]]), 1, 0, tensor([1, 3])).tolist()
    [[1], [4, 5, 6]]
    """
    if dim != 1:
        raise ShapeError(f"nested.narrow: rows are narrowed along dim 1, got dim={dim}. Use movedim first.")
    batch, steps = tensor.shape[0], tensor.shape[1]
    firsts, counts = [
        np.broadcast_to(
            np.asarray(arrays.to_numpy(bound.array) if isinstance(bound, Tensor) else bound, np.int64), (batch,)
        )
        for bound in (start, length)
    ]
    part = checked_lengths("nested.narrow", np.ascontiguousarray(counts))
    wrong = (firsts < 0) | (firsts + counts > steps)
    if wrong.any():
        row = int(wrong.argmax())
        raise IndexRangeError(
            f"nested.narrow: row {row} would go from {firsts[row]} to {firsts[row] + counts[row]}, but dim 1 has {steps} elements."
        )
    flat = tensor.reshape(batch * steps, *tensor.shape[2:])
    places = Partition.places_from(np.arange(batch, dtype=np.int64) * steps + firsts, part)
    return make(flat.index_select(0, index_of(places, flat)), part)


def masked_select(tensor: Tensor, mask: Tensor) -> RaggedTensor:
    """From each row along the last dim of `tensor` the elements where `mask` is true.

    Args:
        tensor (*, T): a dense tensor.
        mask: bool; it is expanded to the shape of `tensor`.
    Returns:
        A `RaggedTensor` (B, j), of as many rows as `tensor` has along its last dim.

    >>> dynograd.nested.masked_select(tensor([[1, 2], [3, 4]]), tensor([[True, False], [True, True]])).tolist()
    [[1], [3, 4]]
    """
    if isinstance(tensor, RaggedTensor) or isinstance(mask, RaggedTensor):
        return registry["masked_select"].function(tensor, mask)
    mask = mask.expand(tuple(tensor.shape))
    counts = np.asarray(arrays.to_numpy(mask.sum(-1).reshape(-1).array), np.int64)
    return make(registry["masked_select"].function(tensor, mask), Partition(counts))


_show_plainly(globals())
