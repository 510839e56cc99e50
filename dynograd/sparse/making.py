"""Making sparse tensors: from coordinates, from compressed rows or columns, from dense tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from dynograd.base import dtypes, layouts
from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.base.shapes import check_whole
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.ops.index.indexing import getitem
from dynograd.ops.index.lookups import nonzero
from dynograd.ops.layout.transposes import movedim
from dynograd.sparse.tensor import COO, CSC, CSR, SparseTensor, compressed, form_of, of_coordinates
from dynograd.tensor.creation import as_tensor, empty, tensor
from dynograd.tensor.tensor import Tensor

__all__ = [
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "sparse_mask",
    "to_sparse",
    "to_sparse_coo",
    "to_sparse_csc",
    "to_sparse_csr",
]


def sparse_coo_tensor(
    indices: Tensor | Sequence[Any] | None = None,
    values: Tensor | Sequence[Any] | None = None,
    size: Sequence[int] | None = None,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A sparse tensor with `values` at the coordinates `indices`. Entries of one place add up.

    Args:
        indices (sparse dims, entries): integers; negative ones are not allowed.
        values (entries, *dense dims): part of the graph when they require grad.
        size: the shape; the smallest that has room for all entries unless given. Alone (`sparse_coo_tensor(size)`), an empty tensor.
        dtype, device: of the result; by default those of `values`.
        pin_memory, check_invariants: kept for compatibility; places are always checked.
        requires_grad: whether the entries are a leaf that gets a gradient.
        is_coalesced: a promise that places are sorted and each occurs once.
    Returns:
        A `SparseTensor` of layout sparse_coo.
    Raises:
        ShapeError: indices and values that do not belong together.
        IndexRangeError: an index outside `size`; the message says which.

    >>> dynograd.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    tensor(indices=tensor([[0, 1],
                           [2, 0]]),
           values=tensor([3., 4.]),
           size=(2, 3), nnz=2, layout=dynograd.sparse_coo)
    """
    who = "sparse_coo_tensor"
    if values is None:
        if size is None:
            size, indices = cast(Any, indices), None
        if indices is not None or size is None:
            raise TypeError(f"{who}: expected (indices, values, size) or (size), got indices without values.")
        whole = _shape(who, size)
        places = empty(len(whole), 0, dtype=dtypes.int64, device=device)
        entries = empty(0, dtype=dtype, device=device)
        return _finished(of_coordinates(places, entries, whole, True), requires_grad)
    entries = _entries(who, values, dtype, device)
    places = _whole_numbers(who, "indices", indices, entries)
    if places.ndim != 2:
        raise ShapeError(f"{who}: indices must be a matrix (sparse dims, entries), got shape {tuple(places.shape)}.")
    if not entries.ndim or entries.shape[0] != places.shape[1]:
        raise ShapeError(
            f"{who}: number of entries differ: indices of shape {tuple(places.shape)} have {places.shape[1]}, values of shape "
            f"{tuple(entries.shape)} have {entries.shape[0] if entries.ndim else 'none'}."
        )
    dense = tuple(entries.shape[1:])
    if size is None:
        reach = [int(row.max().item()) + 1 if row.shape[0] else 0 for row in places]
        whole = (*reach, *dense)
    else:
        whole = _shape(who, size)
        if len(whole) != places.shape[0] + len(dense) or whole[places.shape[0] :] != dense:
            raise ShapeError(
                f"{who}: number of dimensions must be sparse_dim ({places.shape[0]}) + dense_dim ({len(dense)}), with dense dims {dense}; "
                f"got size {whole}."
            )
    _check_range(who, places, whole)
    return _finished(of_coordinates(places, entries, whole, bool(is_coalesced)), requires_grad)


def sparse_csr_tensor(
    crow_indices: Tensor | Sequence[int],
    col_indices: Tensor | Sequence[int],
    values: Tensor | Sequence[Any] | None,
    size: Sequence[int] | None = None,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A sparse matrix by compressed rows: those of row r are `values[crow_indices[r]:crow_indices[r + 1]]`.

    Args:
        crow_indices (rows + 1,): where the entries of each row begin, and where the last ones end.
        col_indices (entries,): the column of each.
        values (entries,): the entries; part of the graph when they require grad.
        size: (rows, columns); the smallest that has room unless given.
        dtype, device: of the result; by default those of `values`.
        pin_memory, check_invariants: kept for compatibility; places are always checked.
        requires_grad: whether the entries are a leaf that gets a gradient.
    Returns:
        A `SparseTensor` of layout sparse_csr.
    Raises:
        ShapeError: indices and values that do not belong together.
        IndexRangeError: an index outside `size`.

    >>> x = dynograd.sparse_csr_tensor([0, 1, 3], [2, 0, 1], [5.0, 6.0, 7.0], (2, 3))
    >>> x.to_dense()
    tensor([[0., 0., 5.],
            [6., 7., 0.]])
    """
    return _compressed("sparse_csr_tensor", CSR, crow_indices, col_indices, values, size, dtype, device, requires_grad)


def sparse_csc_tensor(
    ccol_indices: Tensor | Sequence[int],
    row_indices: Tensor | Sequence[int],
    values: Tensor | Sequence[Any] | None,
    size: Sequence[int] | None = None,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A sparse matrix by compressed columns: those of column c are `values[ccol_indices[c]:ccol_indices[c + 1]]`.

    Args:
        ccol_indices (columns + 1,): where the entries of each column begin, and where the last ones end.
        row_indices (entries,): the row of each.
        values (entries,): the entries; part of the graph when they require grad.
        size: (rows, columns); the smallest that has room unless given.
        dtype, device: of the result; by default those of `values`.
        pin_memory, check_invariants: kept for compatibility; places are always checked.
        requires_grad: whether the entries are a leaf that gets a gradient.
    Returns:
        A `SparseTensor` of layout sparse_csc.
    Raises:
        ShapeError: indices and values that do not belong together.
        IndexRangeError: an index outside `size`.

    >>> dynograd.sparse_csc_tensor([0, 1, 2], [1, 0], [5.0, 6.0], (2, 2)).to_dense()
    tensor([[0., 6.],
            [5., 0.]])
    """
    return _compressed("sparse_csc_tensor", CSC, ccol_indices, row_indices, values, size, dtype, device, requires_grad)


def sparse_compressed_tensor(
    compressed_indices: Tensor | Sequence[int],
    plain_indices: Tensor | Sequence[int],
    values: Tensor | Sequence[Any] | None,
    size: Sequence[int] | None = None,
    *,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A sparse matrix of `layout` sparse_csr or sparse_csc.

    Args:
        compressed_indices: where the entries of each row (or column) begin, and where the last ones end.
        plain_indices (entries,): the column (or row) of each.
        values (entries,): the entries; part of the graph when they require grad.
        size: (rows, columns); the smallest that has room unless given.
        layout: sparse_csr or sparse_csc.
        dtype, device: of the result; by default those of `values`.
        pin_memory, check_invariants: kept for compatibility; places are always checked.
        requires_grad: whether the entries are a leaf that gets a gradient.
    Returns:
        A `SparseTensor` of this layout.
    Raises:
        ValueError: another layout.

    >>> layout = dynograd.sparse_csr
    >>> dynograd.sparse_compressed_tensor([0, 1, 2], [1, 0], [5.0, 6.0], (2, 2), layout=layout).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    form = form_of("sparse_compressed_tensor", layout)
    if form == COO:
        raise ValueError("sparse_compressed_tensor: layout sparse_coo is not compressed. Use sparse_coo_tensor.")
    return _compressed(
        "sparse_compressed_tensor", form, compressed_indices, plain_indices, values, size, dtype, device, requires_grad
    )


def _compressed(
    who: str,
    form: str,
    starts: Any,
    places: Any,
    values: Any,
    size: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
) -> SparseTensor:
    entries = _entries(who, values, dtype, device)
    starts = _whole_numbers(who, "compressed indices", starts, entries)
    places = _whole_numbers(who, "plain indices", places, entries)
    if starts.ndim != 1 or places.ndim != 1 or entries.ndim != 1 or not starts.shape[0]:
        raise ShapeError(
            f"{who}: expected vectors (a matrix without batch and dense dims), got shapes {tuple(starts.shape)}, "
            f"{tuple(places.shape)} and {tuple(entries.shape)}. sparse_coo_tensor takes any number of dims."
        )
    if places.shape != entries.shape:
        raise ShapeError(f"{who}: {places.shape[0]} plain indices do not fit {entries.shape[0]} values.")
    groups = starts.shape[0] - 1
    reach = int(places.max().item()) + 1 if places.shape[0] else 0
    if size is None:
        size = (groups, reach) if form == CSR else (reach, groups)
    whole = _shape(who, size)
    if len(whole) != 2 or whole[0 if form == CSR else 1] != groups:
        raise ShapeError(f"{who}: {groups + 1} compressed indices do not fit size {whole}.")
    falls = bool((starts[1:] < starts[:-1]).any().item())
    wrong = falls or starts[0].item() != 0 or starts[-1].item() != places.shape[0]
    if wrong:
        raise ShapeError(
            f"{who}: compressed indices begin with 0, never fall and end with the number of values, {places.shape[0]}."
        )
    _check_range(who, places.reshape(1, -1), (whole[1 if form == CSR else 0],))
    return _finished(compressed(form, starts, places, entries, whole), requires_grad)


def to_sparse(
    input: Any, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None
) -> SparseTensor:
    """The elements that are not zero as a sparse tensor, part of the graph.

    Args:
        input: a dense tensor.
        sparse_dim: so many leading dims are sparse, the others whole; all unless given.
        layout: dynograd.sparse_coo unless given.
        blocksize: None; layouts of blocks are not here.
        dense_dim: so many dims at the end are whole in each entry.
    Returns:
        A `SparseTensor`.

    >>> tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([2.]),
           size=(2, 2), nnz=1, layout=dynograd.sparse_coo)
    """
    if isinstance(input, SparseTensor):
        return input.to_sparse(sparse_dim, layout=layout)
    whole = tuple(input.shape)
    if sparse_dim is not None:
        check_whole("to_sparse", sparse_dim=sparse_dim)
    count = len(whole) if sparse_dim is None else sparse_dim
    if not min(len(whole), 1) <= count <= len(whole):
        raise ShapeError(
            f"to_sparse: sparse_dim must be {min(len(whole), 1)} to {len(whole)} for shape {whole}, got {sparse_dim}."
        )
    if not whole:
        entries = input.reshape(1)[input.reshape(1) != 0]
        places = empty((0, entries.shape[0]), dtype=dtypes.int64, device=input.device)
        return of_coordinates(places, entries, whole, True).to_sparse(layout=layout or COO)
    there = input != 0
    for _ in range(len(whole) - count):
        there = there.any(-1)
    places = movedim(nonzero(there), 0, 1).contiguous()
    coordinates_form = of_coordinates(places, getitem(input, tuple(places)), whole, True)
    return coordinates_form if layout is None else coordinates_form.to_sparse(layout=layout)


def _as(form: str) -> Callable[..., SparseTensor]:
    def method(self: Any, dense_dim: Any = None) -> SparseTensor:
        return to_sparse(self, layout=form)

    method.__name__, method.__doc__ = f"to_{form}", f"The elements that are not zero, in layout {form}."
    return method


to_sparse_coo, to_sparse_csr, to_sparse_csc = (_as(form) for form in (COO, CSR, CSC))


def from_parts(layout: Any, parts: Any) -> SparseTensor:
    """A sparse tensor as checkpoints hold it: its indices, values and size, all of them checked."""
    if layout is layouts.sparse_coo:
        indices, values, size, *coalesced = parts
        sparse = sparse_coo_tensor(indices, values, size, check_invariants=True)
        return sparse.coalesce() if coalesced and coalesced[0] else sparse
    return sparse_compressed_tensor(*parts, layout=layout, check_invariants=True)


def sparse_mask(self: Any, mask: SparseTensor) -> SparseTensor:
    """The elements where the sparse `mask` has entries, whatever those are.

    Args:
        mask: a sparse tensor of the same shape.
    Returns:
        A `SparseTensor` with the places of `mask`.

    >>> tensor([1.0, 2.0]).sparse_mask(tensor([0.0, 5.0]).to_sparse()).to_dense()
    tensor([0., 2.])
    """
    if not isinstance(mask, SparseTensor):
        raise TypeError(
            f"sparse_mask: mask is a sparse tensor, got {type(mask).__name__}. Make one with x.to_sparse()."
        )
    if tuple(self.shape) != tuple(mask.shape):
        raise ShapeError(f"sparse_mask: mask of shape {tuple(mask.shape)} does not fit shape {tuple(self.shape)}.")
    mask = mask.to_sparse_coo().coalesce()
    return of_coordinates(mask.places, mask.picked(self), mask.whole, True)


def _finished(sparse: SparseTensor, requires_grad: bool) -> SparseTensor:
    if requires_grad and not sparse.entries.requires_grad:
        sparse.entries = sparse.entries.detach().requires_grad_()  # the user's own tensor stays as it is
    return sparse


def _shape(who: str, size: Any) -> tuple[int, ...]:
    whole = (size,) if isinstance(size, int) else tuple(int(length) for length in size)
    if any(length < 0 for length in whole):
        raise ShapeError(f"{who}: sizes cannot be negative, got {whole}.")
    return whole


def _entries(who: str, values: Any, dtype: Any, device: Any) -> Tensor:
    if isinstance(values, SparseTensor):
        raise TypeError(f"{who}: values must be a dense tensor, got a sparse one. Use x.values().")
    entries = values if isinstance(values, Tensor) else tensor(values)
    if dtype is not None or device is not None:
        entries = entries.to(device, dtype) if device is not None and dtype is not None else entries.to(dtype or device)
    return entries


def _whole_numbers(who: str, what: str, values: Any, entries: Any) -> Tensor:
    numbers = as_tensor(values)
    if numbers.dtype.is_floating_point and not numbers.numel():
        numbers = numbers.long()
    if numbers.dtype.is_floating_point or numbers.dtype.is_complex or numbers.dtype is dtypes.bool:
        raise DtypeError(f"{who}: {what} must be integers, got {numbers.dtype}. Convert with .long().")
    return numbers.to(entries.device).long()


def _check_range(who: str, places: Any, whole: Sequence[int]) -> None:
    """Raises IndexRangeError for a place outside `whole`; looks at all of them."""
    if not places.shape[1]:
        return
    lowest, highest = places.amin(1).tolist(), places.amax(1).tolist()
    for dim, (low, high) in enumerate(zip(lowest, highest, strict=True)):
        if low < 0:
            raise IndexRangeError(f"{who}: found negative index {low} for dim {dim}; indices count from 0.")
        if high >= whole[dim]:
            raise IndexRangeError(
                f"{who}: size is inconsistent with indices: for dim {dim}, size is {whole[dim]} but found index {high}."
            )
