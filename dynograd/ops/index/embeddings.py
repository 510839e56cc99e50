"""Rows of a table picked by index: `embedding`, and `embedding_bag`, which reduces them.

`lookup` and `collect` are each other's transpose, except that rows of `padding_idx` get no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, ndarray
from dynograd.base import dtypes
from dynograd.base.shapes import check_whole
from dynograd.base.values import read_values
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.index.indexing import get_advanced
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.reduce.deferred_sums import deferred
from dynograd.ops.row import Row

__all__ = ["embedding", "embedding_bag"]

FAMILY = Row(out=None)

_INT64 = dtypes.int64.num
# Filled from above: `lookup` whose gradient is a sparse tensor.
sparse_lookup: list[Callable] = []
# Filled from above: `lookup` on indices that are checked later; gives None where they are to be checked now.
recorded_lookup: list[Callable] = []


@op(name="embedding", saves="indices weight.shape", functional=True, inner=True)
def lookup(weight: Array, indices: Array, padding_idx: int | None, by_frequency: bool) -> Array:
    """`weight[indices]`; backward leaves row `padding_idx` out and may divide by how often a row was used."""
    return kernel("embeddings", "embedding_forward", weight)(weight, indices)


@lookup.backward
def lookup_backward(g: Any, saved: Any, padding_idx: Any, by_frequency: Any) -> Gradients:
    indices, rows = saved.indices, saved.weight_shape[0]
    if by_frequency:
        array = getattr(indices, "array", indices)
        g = g * kernel("bags", "inverse_frequencies", array)(array, rows, getattr(g, "array", g).dtype)
    if type(g) is ndarray and type(indices) is ndarray and g.dtype.itemsize >= 4 and g.size:
        key = "embedding", rows, padding_idx
        result = deferred(
            saved,
            0,
            g.reshape(-1, g.shape[-1]),
            indices.reshape(-1),
            rows * g.shape[-1],
            key,
            lambda some, where: collect(some, where, rows, padding_idx),
        )
        if result is not None:
            return (result, None)
    return (collect(g, indices, rows, padding_idx), None)


@lookup.jvp
def lookup_jvp(tangents: Any, saved: Any, padding_idx: Any, by_frequency: Any) -> Array:
    return lookup(tangents[0], saved.indices, None, False)


@op(name="embedding_backward", saves="indices", inner=True)
def collect(g: Array, indices: Array, rows: int, padding_idx: int | None) -> Array:
    """A table of `rows` rows, each the sum of the rows of `g` whose index it is; row `padding_idx` stays 0."""
    return kernel("embeddings", "embedding_backward", g)(g, indices, rows, padding_idx)


@collect.backward
def collect_backward(g: Any, saved: Any, rows: Any, padding_idx: Any) -> Gradients:
    indices = saved.indices
    picked = lookup(g, indices, None, False)
    if padding_idx is not None:
        array = getattr(indices, "array", indices)
        picked = picked * kernel("bags", "unlike", array)(array, padding_idx, getattr(g, "array", g).dtype)
    return (picked, None)


@collect.jvp
def collect_jvp(tangents: Any, saved: Any, rows: Any, padding_idx: Any) -> Array:
    return collect(tangents[0], saved.indices, rows, padding_idx)


def _quick_embedding(
    compute: Any, indices: Any, weight: Any, padding_idx: Any, max_norm: Any, scale_grad_by_freq: Any, sparse: Any
) -> tuple | None:
    if (
        indices.dtype.num == _INT64
        and weight.ndim == 2
        and max_norm is None
        and padding_idx is None
        and not (sparse or scale_grad_by_freq)
    ):
        return compute(weight, indices, 0, False), (padding_idx, False)
    return None


@composed(covers="embedding")
@shortcut(lookup, _quick_embedding, compute="scatters.take", misses=(IndexError,), indices="input")
def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    """The rows of `weight` named by the integers in `input`.

    Args:
        input (*): integers from 0 to rows - 1.
        weight (rows, D): the table.
        padding_idx: this row gets no gradient.
        max_norm: rows that are looked up are first shrunk, in place, to at most this norm.
        norm_type: p of that norm.
        scale_grad_by_freq: divide gradients by how often the row occurs in `input`.
        sparse: the gradient of `weight` is a sparse tensor with an entry for each index: quick where the table is much larger than
            `input`. For a leaf; SGD, Adagrad and SparseAdam take such gradients.
    Returns:
        (*, D), dtype of `weight`.
    Raises:
        IndexRangeError: an index outside the table; the message says which, and where it stands.

    >>> dynograd.nn.functional.embedding(tensor([1, 0]), tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if padding_idx is not None:
        padding_idx = _checked_padding("embedding", padding_idx, weight)
    if recorded_lookup and max_norm is None and not sparse:
        result = recorded_lookup[0](weight, input, padding_idx, bool(scale_grad_by_freq))
        if result is not None:
            return result
    indices = _checked_indices("embedding", input, weight)
    if max_norm is not None:
        _shrink(weight, indices, float(max_norm), float(norm_type))
    look_up = sparse_lookup[0] if sparse else lookup
    return look_up(weight, indices, padding_idx, bool(scale_grad_by_freq))


def _only_adds_rows(
    weight: Any, max_norm: Any, mode: Any, sparse: Any, per_sample_weights: Any, padding_idx: Any
) -> bool:
    return (
        weight.ndim == 2
        and mode in ("sum", "mean")
        and max_norm is None
        and per_sample_weights is None
        and not sparse
        and (padding_idx is None or type(padding_idx) is int)
    )


def _quick_rows_as_bags(
    compute: Any,
    input: Any,
    weight: Any,
    offsets: Any,
    max_norm: Any,
    mode: Any,
    sparse: Any,
    per_sample_weights: Any,
    padding_idx: Any,
) -> object:
    if (
        offsets is None
        and input.ndim == 2
        and _only_adds_rows(weight, max_norm, mode, sparse, per_sample_weights, padding_idx)
    ):
        return compute(weight, input, None, False, padding_idx, mode == "mean")
    return None


def _quick_bags_at_offsets(
    compute: Any,
    input: Any,
    weight: Any,
    offsets: Any,
    max_norm: Any,
    mode: Any,
    sparse: Any,
    per_sample_weights: Any,
    include_last_offset: Any,
    padding_idx: Any,
) -> object:
    if (
        input.ndim == 1
        and offsets.ndim == 1
        and _only_adds_rows(weight, max_norm, mode, sparse, per_sample_weights, padding_idx)
    ):
        return compute(weight, input, offsets, include_last_offset, padding_idx, mode == "mean")
    return None


@composed(functional=True)
@read_values
@shortcut(None, _quick_rows_as_bags, compute="bags.bags_at_once", beside="input weight")
@shortcut(None, _quick_bags_at_offsets, compute="bags.bags_at_once", beside="input weight offsets")
def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Array:
    """The sum, mean or maximum of the embeddings of each bag of indices. An empty bag gives 0.

    Args:
        input: (B, N) indices, one bag a row; or (total,) indices of all bags, which start at `offsets`.
        weight (rows, D): the table.
        offsets (B,): where each bag begins in a 1-D `input`.
        max_norm: rows that are used and longer than this are first scaled down to it, in the table itself.
        norm_type: which norm that is.
        scale_grad_by_freq: divide gradients by how often a row occurs.
        mode: "sum", "mean" or "max".
        sparse: the gradient of a leaf `weight` is a sparse tensor, as in `embedding`.
        per_sample_weights: in the shape of `input`: factors of the embeddings; only for "sum".
        include_last_offset: `offsets` ends with the number of indices.
        padding_idx: a row that counts in no bag and gets no gradient.
    Returns:
        (B, D), a row for each bag.
    Raises:
        ValueError: offsets that do not fit `input`, an unknown mode.

    >>> weight = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> dynograd.nn.functional.embedding_bag(tensor([0, 2, 1]), weight, tensor([0, 2]), mode="sum")
    tensor([[6., 8.],
            [3., 4.]])
    """
    who = "embedding_bag"
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{who}: mode has to be one of sum, mean or max, got {mode!r}.")
    if per_sample_weights is not None:
        _check_factors(who, per_sample_weights, input, weight, mode)
    indices = _checked_indices(who, input, weight)
    if padding_idx is not None:
        padding_idx = _checked_padding(who, padding_idx, weight)
    if max_norm is not None:
        _shrink(weight, indices, float(max_norm), float(norm_type))
    index: Array = getattr(indices, "array", indices)
    bags, count = _bags(who, index, offsets, include_last_offset)
    index = index.reshape((-1,))
    if per_sample_weights is not None:
        per_sample_weights = reshaped(per_sample_weights, (-1, 1))
    if padding_idx is not None:
        kept = kernel("bags", "kept_places", index)(index, padding_idx)
        index, bags = index[kept], bags[kept]
        if per_sample_weights is not None:
            per_sample_weights = get_advanced(per_sample_weights, [kept], (0,))
    look_up = sparse_lookup[0] if sparse else lookup
    picked = look_up(weight, index, None, bool(scale_grad_by_freq))
    if mode == "max":
        return _largest(picked, bags, count)
    if per_sample_weights is not None:
        picked = picked * per_sample_weights
    total = collect(picked, bags, count, None)
    if mode == "mean":
        total = total * kernel("bags", "inverse_counts", bags)(bags, count, getattr(total, "array", total).dtype)
    return total


def _largest(picked: Any, bags: Any, count: int) -> Array:
    """The largest entry of each column of each bag; 0 for an empty bag."""
    array = getattr(picked, "array", picked)
    if not len(array):
        return collect(picked, bags, count, None)
    places, columns, result = kernel("bags", "largest_of_bags", array)(array, bags, count)
    return get_advanced(picked, [places, columns], (0, 1)) * result


def _bags(who: str, index: Any, offsets: Any, include_last: bool) -> tuple[Any, int]:
    """For each index the number of its bag, and how many bags there are."""
    if index.ndim == 2:
        if offsets is not None:
            raise ValueError(
                f"{who}: if input is 2D, then offsets has to be None, as input is treated as a mini-batch of fixed length sequences "
                f"(input has shape {index.shape}). Leave offsets out, or flatten input."
            )
        return kernel("bags", "equal_bags", index)(*index.shape, index), index.shape[0]
    if index.ndim != 1:
        raise ValueError(
            f"{who}: input has to be 1D or 2D Tensor, but got Tensor of dimension {index.ndim} (shape {index.shape})."
        )
    if offsets is None:
        raise ValueError(
            f"{who}: offsets has to be a 1D Tensor but got None: with a 1D input, say where the bags begin."
        )
    starts = getattr(offsets, "array", offsets)
    if starts.ndim != 1:
        raise ValueError(f"{who}: offsets has to be a 1D Tensor, got shape {starts.shape}.")
    problem = kernel("bags", "offsets_problem", starts)(starts, len(index), include_last)
    if problem:
        raise ShapeError(f"{who}: {problem}")
    return kernel("bags", "bag_numbers", starts)(starts, len(index), include_last), len(starts) - bool(include_last)


def _check_factors(who: str, factors: Any, input: Any, weight: Any, mode: str) -> None:
    if mode != "sum":
        raise NotImplementedError(
            f"{who}: per_sample_weights was not None, but is only supported for mode='sum' (got mode={mode!r}). Multiply the embeddings."
        )
    if tuple(factors.shape) != tuple(input.shape):
        raise ShapeError(
            f"{who}: expected per_sample_weights to have the shape of input, {tuple(input.shape)}, got {tuple(factors.shape)}."
        )
    if factors.dtype != weight.dtype:
        raise DtypeError(
            f"{who}: expected per_sample_weights of the weight's dtype {weight.dtype}, got {factors.dtype}. Use "
            f"per_sample_weights.to(weight.dtype)."
        )


def _checked_indices(who: str, input: Any, weight: Any) -> Array:
    """`input` as int64 whose values are rows of `weight`."""
    array = getattr(input, "array", input)
    if array.dtype.kind not in "iu":
        raise DtypeError(
            f"{who}: Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{dtypes.of_array(array)}. Convert with input.long() (embedding takes the indices first, then the weight)."
        )
    if len(weight.shape) != 2:
        raise ShapeError(f"{who}: 'weight' must be 2-D (rows, D), got shape {tuple(weight.shape)}.")
    shape = tuple(weight.shape)
    if not arrays.checked_later(array, lambda known: _check_rows(who, known, shape)):
        _check_rows(who, array, shape)
    return input if array.dtype.num == dtypes.int64.num else convert(input, dtypes.int64)


def _check_rows(who: str, array: Any, shape: tuple[int, ...]) -> None:
    """All values are numbers of rows."""
    rows, array = shape[0], arrays.all_values(array)
    wrong = kernel("indexing", "out_of_range", array)(array, 0, rows, who, True)
    if wrong is not None:
        value, position = wrong
        where = f" at position {list(position)} of input" if position else ""
        valid = f"valid are 0 to {rows - 1}" if rows else "it has none"
        raise IndexRangeError(
            f"{who}: index out of range in self: index {value}{where} is outside weight of {rows} rows (shape "
            f"{shape}); {valid}. Enlarge the table, or map unknown values to a row of their own."
        )


def _checked_padding(who: str, padding_idx: int, weight: Any) -> int:
    check_whole(who, padding_idx=padding_idx)
    rows = weight.shape[0]
    if not -rows <= padding_idx < rows:
        raise ValueError(
            f"{who}: Padding_idx must be within num_embeddings, got padding_idx {padding_idx} for {rows} rows."
        )
    return padding_idx % rows if rows else padding_idx


def _shrink(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """Scales the rows that are about to be looked up to at most `max_norm`, in place and unseen by the tape."""
    array, index = getattr(weight, "array", weight), getattr(indices, "array", indices)
    rows, shrunk = kernel("bags", "shrunk_rows", array)(array, index, max_norm, norm_type)
    if len(rows):
        target = weight.detach() if hasattr(weight, "detach") else weight
        target[rows] = shrunk
