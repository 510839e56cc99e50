"""Several tensors made into one: `cat`, `stack`, and what is built from them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations as _combinations
from itertools import combinations_with_replacement as _combinations_with_replacement
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, Arrays
from dynograd.base import dtypes
from dynograd.base.shapes import normalize_dim
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.index.indexing import get_advanced, get_basic, put_basic
from dynograd.ops.index.indices import FULL
from dynograd.ops.layout.broadcasting import convert, stretch
from dynograd.ops.layout.views import atleast_1d, atleast_2d, atleast_3d, ravel, reshaped
from dynograd.ops.op import Gradients, composed, op, shortcut

__all__ = ["block_diag", "cartesian_prod", "cat", "combinations", "dstack", "hstack", "meshgrid", "stack", "vstack"]


@op(name="cat", linear=True, saves="tensors.shape tensors.dtype", out="apart", cast="widest", uneven=True)
def joined(tensors: Arrays, dim: int) -> Array:
    """The tensors one after the other along `dim`."""
    if dim is None:  # to NumPy: flattened
        normalize_dim("cat", dim, 1)
    kind = tensors[0].dtype if tensors else None
    for array in tensors:
        if array.dtype is not kind:
            tensors = _promoted(tensors)
            break
    try:
        return kernel("joins", "cat", tensors[0])(tensors, dim)
    except (ValueError, IndexError):
        pass
    return _cat_carefully(tensors, dim)


@joined.backward
def joined_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    shapes, kinds = saved.tensors_shape, saved.tensors_dtype
    place = normalize_dim("cat", dim, len(g.shape))
    lead = (FULL,) * place
    parts: list[Any] = []
    start = 0
    for number, (shape, kind) in enumerate(zip(shapes, kinds, strict=True)):
        stop = start + (shape[place] if len(shape) > place and shape != (0,) else 0)
        if saved.needs(number):
            part = get_basic(g, (*lead, slice(start, stop)))
            if len(shape) != len(g.shape):
                part = reshaped(part, shape) if not stop - start else part
            parts.append(_as(part, kind))
        else:
            parts.append(None)
        start = stop
    return (parts,)


def _as(part: Any, kind: Any) -> Array:
    """A gradient in the dtype of the operand that it belongs to."""
    return part if getattr(part, "array", part).dtype == kind else convert(part, dtypes.BY_NUM[kind.num])


def _promoted(tensors: Any) -> list[Any]:
    kind = dtypes.result_dtype(*tensors)
    return [arrays.cast(array, kind) for array in tensors]


def _cat_carefully(tensors: Any, dim: int) -> Array:
    """`cat` where NumPy refused: empty 1-d tensors are skipped, as in PyTorch; everything else is a mistake to explain."""
    if not tensors:
        raise ValueError("cat: expected a non-empty list of Tensors, got an empty one.")
    for position, array in enumerate(tensors):
        if not array.ndim:
            raise ShapeError(
                f"cat: zero-dimensional tensor (at position {position}) cannot be concatenated. Use stack, or unsqueeze it first."
            )
    kept = [array for array in tensors if array.shape != (0,)]
    if not kept:
        normalize_dim("cat", dim, 1)
    first = kept[0]
    place = normalize_dim("cat", dim, first.ndim)
    for position, array in enumerate(tensors):
        if array.shape == (0,):
            continue
        if array.ndim != first.ndim:
            raise ShapeError(
                f"cat: Tensors must have same number of dimensions: got {first.ndim} and {array.ndim} (shapes {first.shape} and "
                f"{array.shape}, number {position} in the list)."
            )
        for axis, (size, two) in enumerate(zip(first.shape, array.shape, strict=True)):
            if size != two and axis != place:
                raise ShapeError(
                    f"cat: Sizes of tensors must match except in dimension {place}. Expected size {size} but got size {two} in dimension "
                    f"{axis} for tensor number {position} in the list (shapes {first.shape} and {array.shape})."
                )
    return kernel("joins", "cat", first)(kept, place)


def _quick_cat(compute: Any, tensors: Any, dim: Any, axis: Any) -> tuple | None:
    if axis is None and type(dim) is int:
        return compute(tensors, dim), (dim,)
    return None


# Of lists that are empty or mixed, and of arrays in the place of tensors: what the functions stand for knows better.
_MISSES = (AttributeError, LookupError, TypeError, ValueError)
_at_once = shortcut(
    joined,
    _quick_cat,
    compute="joins.cat_few",
    misses=_MISSES,
    at_once="joins.joined_few(tensors, fields, dim, tensors[0].array)",
    at_once_when="axis is None and type(dim) is int",
)


@composed(covers="cat")
@_at_once
def cat(tensors: Any, dim: Any = 0, *, axis: Any = None) -> Array:
    """The tensors one after the other along `dim`; their other sizes agree. Mixed dtypes are promoted.

    Args:
        tensors: a sequence of them.
        dim: which dim; negative counts from the end.
    Returns:
        The shape of each, with the sum of their sizes in `dim`.
    Raises:
        ShapeError: sizes differ outside `dim`, or a tensor has no dims.

    >>> dynograd.cat([tensor([1, 2]), tensor([3])])
    tensor([1, 2, 3])
    """
    return joined(tensors, dim if axis is None else axis)


@composed(out="apart")
@_at_once
def concat(tensors: Any, dim: Any = 0, *, axis: Any = None) -> Array:
    """Another name of `cat`.

    Args:
        tensors: a sequence of them.
        dim: which dim; negative counts from the end.
    Returns:
        The shape of each, with the sum of their sizes in `dim`.

    >>> dynograd.concat([tensor([1, 2]), tensor([3])])
    tensor([1, 2, 3])
    """
    return cat(tensors, dim, axis=axis)


@composed(out="apart")
@_at_once
def concatenate(tensors: Any, dim: Any = 0, *, axis: Any = None) -> Array:
    """Another name of `cat`.

    Args:
        tensors: a sequence of them.
        dim: which dim; negative counts from the end.
    Returns:
        The shape of each, with the sum of their sizes in `dim`.

    >>> dynograd.concatenate([tensor([1, 2]), tensor([3])])
    tensor([1, 2, 3])
    """
    return cat(tensors, dim, axis=axis)


@op(name="stack", linear=True, saves="tensors.dtype", cast="widest", uneven=True)
def stacked(tensors: Arrays, dim: int) -> Array:
    """The tensors beside each other along a new dim."""
    if not tensors:
        raise ShapeError("stack: stack expects a non-empty TensorList, got an empty one.")
    first = tensors[0]
    shape, kind = first.shape, first.dtype
    for position, array in enumerate(tensors):
        if array.shape != shape:
            raise ShapeError(
                f"stack: stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and {list(array.shape)} at "
                f"entry {position}. Pad them, e.g. nn.utils.rnn.pad_sequence."
            )
        if array.dtype is not kind:
            tensors = _promoted(tensors)
    return kernel("joins", "stack", first)(tensors, normalize_dim("stack", dim, len(shape) + 1))


@stacked.backward
def stacked_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    lead = (FULL,) * normalize_dim("stack", dim, len(g.shape))
    kinds = saved.tensors_dtype
    return (
        [
            _as(get_basic(g, (*lead, number, Ellipsis)), kind) if saved.needs(number) else None
            for number, kind in enumerate(kinds)
        ],
    )


def _quick_stack(compute: Any, tensors: Any, dim: Any) -> tuple | None:
    if type(dim) is int:
        return compute(tensors, dim), (dim,)
    return None


@composed(covers="stack")
@shortcut(
    stacked,
    _quick_stack,
    compute="joins.stack_few",
    misses=_MISSES,
    at_once="joins.stacked_few(tensors, fields, dim, tensors[0].array)",
    at_once_when="type(dim) is int",
)
def stack(tensors: Any, dim: int = 0) -> Array:
    """Tensors of one shape beside each other along a new dim.

    Args:
        tensors: a sequence of them.
        dim: where the new dim stands; negative counts from the end.
    Returns:
        The shape of each, with len(tensors) at `dim`.
    Raises:
        ShapeError: the shapes differ, or there are none.

    >>> dynograd.stack([tensor([1, 2]), tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    return stacked(tensors, dim)


def _nothing_of_lists(tensors: Any) -> tuple | None:
    """What is recorded of `stacked` is recorded as `cat`, as in PyTorch."""
    return None


def _quick_vstack(compute: Any, tensors: Any) -> tuple | None:
    if tensors[0].ndim > 1:
        return compute(tensors, 0), (0,)
    return None


def _quick_column_stack(compute: Any, tensors: Any) -> tuple | None:
    if tensors[0].ndim > 1:
        return compute(tensors, 1), (1,)
    return None


def _quick_dstack(compute: Any, tensors: Any) -> tuple | None:
    if tensors[0].ndim > 2:
        return compute(tensors, 2), (2,)
    return None


def _joined_at(way: Any, place: int, rank: int) -> Callable[..., Any]:
    """The shortcuts of joining along `place` what has more than `rank` dims, and beside each other, as `stack` does, what has `rank`."""
    joining = shortcut(
        joined,
        way,
        compute="joins.cat_few",
        misses=_MISSES,
        at_once=f"joins.joined_few(tensors, fields, {place}, tensors[0].array)",
        at_once_when=f"tensors[0].array.ndim > {rank}",
    )
    stacking = shortcut(
        stacked,
        _nothing_of_lists,
        misses=_MISSES,
        at_once=f"joins.stacked_few(tensors, fields, {place}, tensors[0].array)",
        at_once_when=f"tensors[0].array.ndim == {rank}",
    )
    return lambda function: joining(stacking(function))


def _quick_hstack(compute: Any, tensors: Any) -> tuple | None:
    place = 0 if tensors[0].ndim == 1 else 1
    return compute(tensors, place), (place,)


@composed(ragged="levels")
@shortcut(
    joined,
    _quick_hstack,
    compute="joins.cat_few",
    misses=_MISSES,
    at_once="joins.joined_few(tensors, fields, 0 if (first := tensors[0].array).ndim == 1 else 1, first)",
)
def hstack(tensors: Any) -> Array:
    """Joined side by side: along the second dim, or the first for 1-d tensors.

    Args:
        tensors: a sequence of them.
    Returns:
        The joined tensor.

    >>> dynograd.hstack([tensor([1, 2]), tensor([3])])
    tensor([1, 2, 3])
    """
    grown = _grown("hstack", tensors, atleast_1d)
    return joined(grown, 0 if grown[0].ndim == 1 else 1)


@composed()
@_joined_at(_quick_vstack, 0, 1)
def vstack(tensors: Any) -> Array:
    """Joined on top of each other: along the first dim; 1-d tensors are rows.

    Args:
        tensors: a sequence of them.
    Returns:
        The joined tensor, with at least two dims.

    >>> dynograd.vstack([tensor([1, 2]), tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return joined(_grown("vstack", tensors, atleast_2d), 0)


@composed()
def row_stack(tensors: Any) -> Array:
    """Another name of `vstack`.

    Args:
        tensors: a sequence of them.
    Returns:
        The joined tensor, with at least two dims.

    >>> dynograd.row_stack([tensor([1, 2]), tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return vstack(tensors)


@composed(ragged="levels")
@_joined_at(_quick_dstack, 2, 2)
def dstack(tensors: Any) -> Array:
    """Joined along the third dim, which 1-d and 2-d tensors get first.

    Args:
        tensors: a sequence of them.
    Returns:
        The joined tensor, with at least three dims.

    >>> dynograd.dstack([tensor([1, 2]), tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    return joined(_grown("dstack", tensors, atleast_3d), 2)


@composed(ragged="levels")
@_joined_at(_quick_column_stack, 1, 1)
def column_stack(tensors: Any) -> Array:
    """Joined side by side, with 0-d and 1-d tensors as columns.

    Args:
        tensors: a sequence of them.
    Returns:
        The joined tensor, with at least two dims.

    >>> dynograd.column_stack([tensor([1, 2]), tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return joined(_grown("column_stack", tensors, lambda x: reshaped(x, (-1, 1)) if x.ndim < 2 else x), 1)


def _grown(who: str, tensors: Any, grow: Any) -> list[Any]:
    if hasattr(tensors, "array"):
        raise TypeError(f"{who}(): argument 'tensors' must be tuple of Tensors, not {type(tensors).__name__}.")
    if not tensors:
        raise ShapeError(f"{who}: {who} expects a non-empty TensorList, got an empty one.")
    return [grow(tensor) for tensor in tensors]


@composed(out=None, ragged="each")
def block_diag(*tensors: Any) -> Array:
    """A matrix with the given ones along its diagonal and zeros elsewhere; 0-d and 1-d tensors are rows.

    Args:
        tensors: matrices, vectors and numbers.
    Returns:
        (sum of their rows, sum of their columns).
    Raises:
        ShapeError: a tensor of more than two dims.

    >>> dynograd.block_diag(tensor([[1, 2]]), tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    for position, tensor in enumerate(tensors):
        if tensor.ndim > 2:
            raise ShapeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Input {position} has {tensor.ndim} dimensions "
                f"(shape {tuple(tensor.shape)})."
            )
    blocks = [atleast_2d(tensor) for tensor in tensors]
    if not blocks:
        raise ShapeError("block_diag: expects at least one tensor, got none.")
    raw = [getattr(block, "array", block) for block in blocks]
    kind = dtypes.result_dtype(*raw)
    shape = (sum([array.shape[0] for array in raw]), sum([array.shape[1] for array in raw]))
    place = arrays.place_of(raw[0])
    result: Any = None
    row = column = 0
    for block in blocks:
        region = (slice(row, row + block.shape[0]), slice(column, column + block.shape[1]))
        result = put_basic(
            arrays.zeros(shape, kind, place) if result is None else result, _as(block, kind.numpy), region
        )
        row, column = row + block.shape[0], column + block.shape[1]
    return result


@composed(out=None, ragged="each")
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Array, ...]:
    """For N vectors the N coordinate grids, each of shape (len(first), len(second), ...); `indexing="xy"` swaps the first two dims.

    Args:
        tensors: N vectors, or one sequence of them.
        indexing: "ij" (rows first) or "xy" (columns first).
    Returns:
        N views.
    Raises:
        ShapeError: a tensor has more than one dim.
        RuntimeError: another `indexing`.

    >>> dynograd.meshgrid(tensor([1, 2]), tensor([3, 4]))[0]
    tensor([[1, 1],
            [2, 2]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if not tensors:
        raise ShapeError("meshgrid: expects a non-empty TensorList, got none.")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing!r}.')
    kind, counts = tensors[0].dtype, []
    for tensor in tensors:
        shape = tuple(tensor.shape)
        if len(shape) > 1:
            raise ShapeError(f"meshgrid: Expected scalar or 1D tensor in the tensor list but got shape {shape}.")
        if tensor.dtype is not kind and tensor.dtype != kind:
            raise DtypeError(
                f"meshgrid expects all tensors to have the same dtype, got {kind} and {tensor.dtype}. Convert one."
            )
        counts.append(shape[0] if shape else 1)
    swapped = indexing == "xy" and len(counts) > 1
    shape = (counts[1], counts[0], *counts[2:]) if swapped else tuple(counts)
    grids = []
    for number, tensor in enumerate(tensors):
        behind = len(counts) - 1 - (1 - number if swapped and number < 2 else number)
        grids.append(stretch(reshaped(tensor, (counts[number], *[1] * behind)) if behind else tensor, shape))
    return tuple(grids)


@composed(out=None, ragged="each")
def cartesian_prod(*tensors: Any) -> Array:
    """Every combination of one element from each vector, as rows; a single vector comes back as it is.

    Args:
        tensors: N vectors.
    Returns:
        (product of their sizes, N).

    >>> dynograd.cartesian_prod(tensor([1, 2]), tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    for tensor in tensors:
        if tensor.ndim != 1:
            raise ShapeError(f"cartesian_prod: Expect a 1D vector, but got shape {tuple(tensor.shape)}. Use ravel().")
    if len(tensors) == 1:
        return tensors[0]
    return stacked([ravel(grid) for grid in meshgrid(*tensors)], 1)


@composed(out=None, ragged="each")
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Array:
    """Every choice of `r` elements of a vector in order, as rows, like `itertools.combinations`.

    Args:
        input (n,): vector.
        r (int): how many are chosen.
        with_replacement: an element may be chosen again.
    Returns:
        (number of choices, r).

    >>> dynograd.combinations(tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1:
        raise ShapeError(f"combinations: Expect a 1D vector, but got shape {tuple(input.shape)}. Use ravel().")
    if r < 0:
        raise ShapeError(f"combinations: Expect a non-negative number, but got r={r}.")
    if r == 0:
        return get_basic(input, (slice(0, 0),))
    choose = _combinations_with_replacement if with_replacement else _combinations
    rows = list(choose(range(input.shape[0]), r))
    index = arrays.cast(arrays.from_python(rows, None).reshape((len(rows), r)), dtypes.int64)
    return get_advanced(input, [index], (0,))
