"""Where values are, which there are and how often: `nonzero`, `unique`, `bincount`, `searchsorted`, `one_hot`."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, ndarray
from dynograd.base import dtypes
from dynograd.base.shapes import normalize_dim
from dynograd.base.values import read_values
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.choices import places as _places
from dynograd.ops.index.indexing import get_advanced
from dynograd.ops.layout.paddings import pad_constant
from dynograd.ops.layout.splits import unbind
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op, shortcut

__all__ = [
    "argwhere",
    "bincount",
    "bucketize",
    "isin",
    "nonzero",
    "nonzero_static",
    "searchsorted",
    "unique",
    "unique_consecutive",
    "unravel_index",
]

_INT64 = dtypes.int64.numpy


@op(name="nonzero", differentiable=False, at_once="the shape of its result depends on values")
def positions(input: Array) -> Array:
    """(N, ndim) positions of the nonzero elements."""
    return kernel("lookups", "nonzero", input)(input)


def _quick_nonzero(compute: Any, input: Any, as_tuple: Any) -> object:
    return compute(input, as_tuple)


@composed(covers="nonzero", method=True, out="exact")
@shortcut(None, _quick_nonzero, compute="lookups.nonzero_few", beside="input")
def nonzero(input: Any, *, as_tuple: bool = False) -> Array | tuple[Array, ...]:
    """The positions of the nonzero elements, in row-major order: (N, ndim) int64, or with `as_tuple` one vector per dim.

    Args:
        input: tensor of any shape.
        as_tuple: one vector for each dim, as an index wants them.
    Returns:
        (N, ndim), int64; with `as_tuple` ndim tensors (N,).

    >>> dynograd.nonzero(tensor([0, 5, 0, 7]))
    tensor([[1],
            [3]])
    """
    if not as_tuple:
        return positions(input)
    if getattr(input, "array", input).ndim > 1:
        return unbind(positions(input), 1)
    return (reshaped(positions(reshaped(input, (-1,)) if not input.ndim else input), (-1,)),)


_places.append(nonzero)


def _quick_argwhere(compute: Any, input: Any) -> object:
    return compute(input, False)


@composed(method=True, out=None)
@shortcut(None, _quick_argwhere, compute="lookups.nonzero_few", beside="input")
def argwhere(input: Any) -> Array:
    """The positions of the nonzero elements: (N, ndim) int64.

    Args:
        input: tensor of any shape.
    Returns:
        (N, ndim), int64.

    >>> dynograd.argwhere(tensor([[0, 3], [4, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    return positions(input)


@op(name="one_hot", differentiable=False, out=None, functional=True)
def classes_as_bits(input: Array, num_classes: int) -> Array:
    """A new last dim of `num_classes` with a 1 at the class; checked."""
    return kernel("lookups", "one_hot", input)(input, num_classes)


def _quick_one_hot(compute: Any, tensor: Any, num_classes: Any) -> object:
    return compute(tensor, num_classes)


@composed(covers="one_hot")
@shortcut(None, _quick_one_hot, compute="lookups.one_hot_few", beside="tensor")
def one_hot(tensor: Any, num_classes: int = -1) -> Array:
    """int64 with a new last dim, 1 at the class that `tensor` names and 0 elsewhere.

    Args:
        tensor: int64 of any shape, classes from 0.
        num_classes: size of the new dim; -1 means one more than the largest class.
    Returns:
        (*tensor.shape, num_classes), int64.
    Raises:
        DtypeError: `tensor` does not hold int64.
        ShapeError: a class is negative or not smaller than `num_classes`.

    >>> dynograd.nn.functional.one_hot(dynograd.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    array = getattr(tensor, "array", tensor)
    if array.dtype.num != dtypes.int64.num:
        raise DtypeError(
            f"one_hot: one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype}. Convert with .long()."
        )
    if not array.size:
        if num_classes <= 0:
            raise ShapeError(
                f"one_hot: Can not infer total number of classes from empty tensor (shape {tuple(array.shape)}). Pass num_classes."
            )
        return classes_as_bits(tensor, num_classes)
    if num_classes != -1 and num_classes < 1:
        raise ShapeError(f"one_hot: num_classes should be positive, got {num_classes}.")
    if num_classes == -1:
        num_classes = int(arrays.all_values(array).max()) + 1
    if not arrays.checked_later(array, lambda known: _check_classes(known, num_classes)):
        _check_classes(array, num_classes)
    return classes_as_bits(tensor, num_classes)


def _check_classes(array: Any, num_classes: int) -> None:
    array = arrays.all_values(array)
    if array.min() < 0:
        raise ShapeError(f"one_hot: Class values must be non-negative, got {int(array.min())}.")
    if array.max() >= num_classes:
        raise ShapeError(
            f"one_hot: Class values must be smaller than num_classes, got class {int(array.max())} with num_classes={num_classes}."
        )


@op(name="bincount", saves="input", out=None, at_once="the shape of its result depends on values")
def counted(input: Array, weights: Array | None, minlength: int) -> Array:
    """How often each number occurs, or the sum of its weights; checked."""
    return kernel("lookups", "bincount", input)(input, weights, minlength)


@counted.backward
def counted_backward(g: Any, saved: Any, minlength: Any) -> Gradients:
    return None, get_advanced(g, [saved.input], (0,)) if saved.needs(1) else None


def _quick_bincount(compute: Any, input: Any, weights: Any, minlength: Any) -> object:
    if (
        weights is None
        and type(minlength) is int
        and minlength >= 0
        and input.ndim == 1
        and input.dtype is _INT64
        and input.size < 4096
    ):
        return compute(input, None, minlength)
    return None


@composed(covers="bincount", method=True)
@shortcut(None, _quick_bincount, compute="lookups.bincount", misses=(ValueError,), beside="input")
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Array:
    """How often each of 0, 1, 2, ... occurs in a vector, or the sum of its `weights` (through which gradients flow).

    Args:
        input (N,): integers from 0.
        weights (N,): what each counts; None: 1.
        minlength: smallest length of the result.
    Returns:
        (max(input) + 1,) or more, int64, or of the dtype of `weights`.
    Raises:
        ShapeError: not a vector of integers from 0, or weights of another shape.

    >>> dynograd.bincount(tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    array = getattr(input, "array", input)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ShapeError(
            f"bincount: bincount only supports 1-d non-negative integral inputs, got shape {tuple(array.shape)} of {input.dtype}."
        )
    array = arrays.all_values(array)
    if array.size and array.min() < 0:
        raise ShapeError(f"bincount: bincount only supports 1-d non-negative integral inputs, got {int(array.min())}.")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise ShapeError(
            f"bincount: weights should be 1-d and have the same length as input, got {tuple(weights.shape)} for {tuple(input.shape)}."
        )
    if minlength < 0:
        raise ShapeError(f"bincount: minlength should be >= 0, got {minlength}.")
    return counted(input, weights, minlength)


@composed(method=True)
@read_values
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Array:
    """The first `size` rows of `nonzero(input)`, filled up with rows of `fill_value`: a shape known in advance.

    Args:
        input: tensor of any shape.
        size: number of rows.
        fill_value: int that fills rows without a position.
    Returns:
        (size, ndim), int64.

    >>> dynograd.nonzero_static(tensor([0, 1, 0, 1]), size=3)
    tensor([[ 1],
            [ 3],
            [-1]])
    """
    if size < 0:
        raise ShapeError(f"nonzero_static: size must be an non-negative integer, got {size}.")
    result = nonzero(input)[:size]
    return pad_constant(result, ((0, size - result.shape[0]), (0, 0)), fill_value)


@composed(out=None)
def unravel_index(indices: Any, shape: Any) -> tuple[Array, ...]:
    """The coordinates, one tensor for each dim, of flat row-major indices into `shape`.

    Args:
        indices: integers of any shape.
        shape: ints, the sizes of the dims.
    Returns:
        A tuple of tensors of the shape of `indices`, one for each dim.

    >>> dynograd.unravel_index(tensor([4, 0]), (2, 3))
    (tensor([1, 0]), tensor([1, 0]))
    """
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype == dtypes.bool:
        raise DtypeError(
            f"unravel_index: expected indices to be integers, but got {indices.dtype}. Use indices.long()."
        )
    sizes = shape.tolist() if hasattr(shape, "tolist") else shape
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    if not all(isinstance(size, int) for size in sizes):
        raise DtypeError(f"unravel_index: expected shape to be an int or a sequence of ints, but got {shape}.")
    if min(sizes, default=0) < 0:
        raise ShapeError(f"unravel_index: shape cannot have negative values, but got {tuple(sizes)}.")
    steps = [prod(sizes[place + 1 :]) for place in range(len(sizes))]
    return tuple([(indices // step) % size for step, size in zip(steps, sizes, strict=True)])


@op(
    name="unique",
    outputs="list",
    differentiable="refused",
    out=None,
    at_once="the shape of its result depends on values",
)
def distinct(
    input: Array, dim: int | None, consecutive: bool, wants_inverse: bool = True, wants_counts: bool = True
) -> tuple[Array, ...]:
    """(values, inverse, counts); what is not wanted of the last two may be empty."""
    if consecutive:
        return kernel("lookups", "unique_consecutive", input)(input, dim, wants_inverse, wants_counts)
    return kernel("lookups", "unique", input)(input, dim, wants_inverse)


@distinct.backward
def distinct_backward(g: Any, saved: Any, dim: Any, consecutive: bool, *wants: bool) -> Gradients:
    who = "unique_consecutive" if consecutive else "unique"
    raise NotImplementedError(
        f"{who}: the derivative is not implemented. Use x.detach().{who}() where no gradient is wanted."
    )


def _quick_unique(compute: Any, input: Any, return_inverse: Any, return_counts: Any, dim: Any) -> object:
    if return_inverse is False and return_counts is False and dim is None:
        return compute(input)
    return None


@composed(covers="unique", method=True)
@shortcut(None, _quick_unique, compute="few.distinct", beside="input")
def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Array | tuple[Array, ...]:
    """The distinct elements in ascending order, or the distinct slices along `dim`.

    NaN equals nothing: each one is an element of its own, behind the others.

    Args:
        input: tensor of any shape.
        sorted: accepted; the result is always in order.
        return_inverse: also give where in the result each element went.
        return_counts: also give how often each occurs.
        dim: compare slices along this dim; None: elements.
    Returns:
        The distinct ones; with `return_inverse` or `return_counts` a tuple with these int64 tensors behind.

    >>> dynograd.unique(tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    result = distinct(input, _dim("unique", input, dim), False, bool(return_inverse))
    return _chosen(result, return_inverse, return_counts)


@composed(method=True, out=None, at_once="the shape of its result depends on values")
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Array | tuple[Array, ...]:
    """The elements (or slices along `dim`) without those equal to the one before.

    Args:
        input: tensor of any shape.
        return_inverse: also give where in the result each element went.
        return_counts: also give how many each stands for.
        dim: compare slices along this dim; None: elements of the flattened tensor.
    Returns:
        Those that are left; with `return_inverse` or `return_counts` a tuple with these int64 tensors behind.

    >>> dynograd.unique_consecutive(tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    place = _dim("unique_consecutive", input, dim)
    result = distinct(input, place, True, bool(return_inverse), bool(return_counts))
    return _chosen(result, return_inverse, return_counts)


def _dim(who: str, input: Any, dim: int | None) -> int | None:
    if dim is None or not input.ndim:
        return None
    place = normalize_dim(who, dim, input.ndim)
    if not prod(input.shape) and input.shape[place]:
        raise ShapeError(
            f"{who}: There are 0 sized dimensions, and they aren't selected, so unique cannot be applied (shape {tuple(input.shape)})."
        )
    return place


def _chosen(result: Any, inverse: bool, counts: bool) -> Array | tuple[Array, ...]:
    values = [result[0], *([result[1]] if inverse else []), *([result[2]] if counts else [])]
    return tuple(values) if len(values) > 1 else values[0]


@op(name="searchsorted", differentiable=False)
def inserted_at(sorted_sequence: Array, input: Array, sorter: Array | None, right: bool, out_int32: bool) -> Array:
    """Where values belong in sorted rows; checked."""
    kind = dtypes.int32 if out_int32 else dtypes.int64
    return kernel("lookups", "searchsorted", sorted_sequence if type(input) is ndarray else input)(
        sorted_sequence, input, "right" if right else "left", sorter, kind.numpy
    )


def _quick_searchsorted(
    compute: Any, sorted_sequence: Any, input: Any, out_int32: Any, right: Any, side: Any, sorter: Any
) -> object:
    if out_int32 is False and type(right) is bool and side is None and sorter is None and sorted_sequence.ndim == 1:
        return compute(sorted_sequence, input, "right" if right else "left", None, _INT64)
    return None


@composed(covers="searchsorted")
@shortcut(None, _quick_searchsorted, compute="lookups.searchsorted", beside="sorted_sequence input")
def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Array:
    """Where in the last dim of `sorted_sequence` each value would be inserted to keep it sorted.

    Args:
        sorted_sequence: ascending along its last dim; one row, or as many rows as `input` has.
        input: a tensor, or a number when there is one row.
        out_int32: give int32 instead of int64.
        right: after equal elements instead of before (also `side="right"`).
        side: "left" or "right"; None: as `right` says.
        sorter: an order that sorts `sorted_sequence`.
    Returns:
        Positions in the shape of `input`, int64.
    Raises:
        ShapeError: the leading dims differ.

    >>> dynograd.searchsorted(tensor([1, 3, 5]), tensor([3, 4]))
    tensor([1, 2])
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted: side can only be 'left' or 'right' but got {side}.")
    if side == "left" and right:
        raise RuntimeError(
            "searchsorted: side and right can't be set to opposites, got side of left while right was True."
        )
    if not hasattr(input, "shape"):
        input = _number_beside(sorted_sequence, input)
    rows, values = tuple(sorted_sequence.shape), tuple(input.shape)
    if not rows:
        raise ShapeError("searchsorted: boundaries tensor should have positive dimension, got a 0-d tensor.")
    if len(rows) > 1 and rows[:-1] != values[:-1]:
        raise ShapeError(
            f"searchsorted: boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value "
            f"tensor must match, but we got boundaries tensor {list(rows)} and input value tensor {list(values)}."
        )
    if sorter is not None and tuple(sorter.shape) != rows:
        raise ShapeError(
            f"searchsorted: boundary and sorter must have the same size, but got {list(rows)} and {list(sorter.shape)}."
        )
    return inserted_at(sorted_sequence, input, sorter, bool(right or side == "right"), bool(out_int32))


def _number_beside(operand: Any, number: Any) -> Array:
    """A Python number as a tensor without dims, which is compared with the elements of `operand`: of its dtype, if that is of fractions."""
    array = getattr(operand, "array", operand)
    kind = dtypes.BY_NUM[array.dtype.num]
    whole = kind.category < dtypes.FLOATING
    return arrays.to_device(arrays.from_python(number, None if whole else kind), arrays.place_of(array))


def _quick_bucketize(compute: Any, input: Any, boundaries: Any, out_int32: Any, right: Any) -> object:
    if hasattr(input, "shape") and out_int32 is False and type(right) is bool and boundaries.ndim == 1:
        return compute(boundaries, input, "right" if right else "left", None, _INT64)
    return None


@composed(tensors="")
@shortcut(None, _quick_bucketize, compute="lookups.searchsorted", beside="input boundaries")
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Array:
    """The number of the bucket between ascending `boundaries` that each value falls into.

    Args:
        input: tensor of any shape, or a number.
        boundaries (N,): ascending.
        out_int32: give int32 instead of int64.
        right: whether a value equal to a boundary belongs to the bucket after it.
    Returns:
        Numbers from 0 to N in the shape of `input`, int64.

    >>> dynograd.bucketize(tensor([0, 3, 9]), tensor([1, 3, 5]))
    tensor([0, 1, 3])
    """
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries.ndim}).")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@op(name="isin", differentiable=False, out="exact", aliases={"elements": "element", "test_elements": "test_element"})
def found_in(elements: Array, test_elements: Array, invert: bool) -> Array:
    """bool: whether each element occurs among `test_elements`."""
    return kernel("lookups", "isin", elements)(elements, test_elements, invert)


@composed(covers="isin", method=True)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Array:
    """bool: whether each element occurs among `test_elements`; either may be a number, not both.

    Args:
        elements, test_elements: tensors, or one of them a number.
        assume_unique: accepted.
        invert: whether it does not occur instead.
        element, test_element: PyTorch's other names of them.
    Returns:
        A bool tensor of the shape of `elements`.

    >>> dynograd.isin(tensor([1, 2, 3]), tensor([1, 3]))
    tensor([ True, False,  True])
    """
    first = elements if hasattr(elements, "shape") else _number_beside(test_elements, elements)
    second = test_elements if hasattr(test_elements, "shape") else _number_beside(elements, test_elements)
    return found_in(first, second, bool(invert))
