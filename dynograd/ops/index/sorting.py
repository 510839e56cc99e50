"""Sorting and selecting along one dim. Equals keep their order, so results are the same everywhere; NaN counts as the largest."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base.dtypes import refuse_complex
from dynograd.base.shapes import normalize_dim, whole_number
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.index.scatters import gathered, spread
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.reduce.extremes import picked, put_back

__all__ = ["argsort", "kthvalue", "msort", "sort", "topk"]


@op(name="sort", outputs="values indices", saves="input.shape output.indices", out="exact")
def sort_along(input: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    """The elements in order along `dim`, and where they were."""
    order = arrays.order_of(input)
    if order is None:
        return kernel("sorting", "sort", input)(input, dim, descending)
    result = kernel("sorting", "sort", input)(input.transpose(order), order.index(dim), descending)
    return tuple([arrays.turned(array, order) for array in result])


@sort_along.backward
def sort_backward(g: Any, saved: Any, dim: Any, descending: Any) -> Gradients:
    return (_scattered(g[0], saved, dim),)


@sort_along.jvp
def sort_jvp(tangents: Any, saved: Any, dim: Any, descending: Any) -> tuple[Array, None]:
    return _gathered(tangents[0], saved, dim), None


def _scattered(g: Any, saved: Any, dim: int) -> Array:
    shape = saved.input_shape
    if not shape:
        return g
    return spread(g, dim, saved.output[1], shape)


def _gathered(tangent: Any, saved: Any, dim: int) -> Array:
    return gathered(tangent, dim, saved.output[1]) if saved.input_shape else tangent


def _quick_sort(compute: Any, input: Any, dim: Any, descending: Any) -> tuple | None:
    if type(dim) is int and -input.ndim <= dim < input.ndim and input.dtype.kind in "fiub" and input.flags.c_contiguous:
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place, bool(descending)), (place, bool(descending))
    return None


@composed(covers="sort", method=True)
@shortcut(sort_along, _quick_sort, compute="sorting.sort")
def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> tuple[Array, Array]:
    """The elements in order along `dim`, as (values, indices).

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        descending: the largest first.
        stable: kept for compatibility; equals always keep their order.
    Returns:
        Two tensors of the shape of `input`: its values in order, and their positions (int64).

    >>> dynograd.sort(tensor([3.0, 1.0, 2.0]))
    dynograd.return_types.sort(
    values=tensor([1., 2., 3.]),
    indices=tensor([1, 2, 0]))
    """
    _check_ordered("sort", input)
    return sort_along(input, normalize_dim("sort", dim, len(input.shape)), bool(descending))


@op(name="argsort", differentiable=False)
def argsort_along(input: Array, dim: int, descending: bool) -> Array:
    """Where the elements in order along `dim` are."""
    order = arrays.order_of(input)
    if order is None:
        return kernel("sorting", "argsort", input)(input, dim, descending)
    return arrays.turned(
        kernel("sorting", "argsort", input)(input.transpose(order), order.index(dim), descending), order
    )


@composed(covers="argsort", method=True)
@shortcut(argsort_along, _quick_sort, compute="sorting.argsort")
def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Array:
    """The indices that sort `input` along `dim`; equals keep their order.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        descending: the largest first.
        stable: accepted; equals always keep their order.
    Returns:
        A tensor of the shape of `input`, int64.

    >>> dynograd.argsort(tensor([3.0, 1.0, 2.0]), descending=True)
    tensor([0, 2, 1])
    """
    _check_ordered("argsort", input)
    return argsort_along(input, normalize_dim("argsort", dim, len(input.shape)), bool(descending))


@composed(method=True)
def msort(input: Any) -> Array:
    """The elements in order along the first dim.

    Args:
        input: tensor with at least one dim.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.msort(tensor([[3, 1], [2, 5]]))
    tensor([[2, 1],
            [3, 5]])
    """
    return sort(input, 0)[0]


@op(name="topk", outputs="values indices", saves="input.shape output.indices", out="exact")
def topk_along(input: Array, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Array, Array]:
    """The k largest or smallest along `dim`, and where they are."""
    return kernel("sorting", "topk", input)(input, k, dim, largest, sorted)


@topk_along.backward
def topk_backward(g: Any, saved: Any, k: Any, dim: Any, largest: Any, sorted: Any) -> Gradients:
    return (_scattered(g[0], saved, dim),)


@topk_along.jvp
def topk_jvp(tangents: Any, saved: Any, k: Any, dim: Any, largest: Any, sorted: Any) -> tuple[Array, None]:
    return _gathered(tangents[0], saved, dim), None


def _quick_topk(compute: Any, input: Any, k: Any, dim: Any, largest: Any, sorted: Any) -> tuple | None:
    if (
        type(dim) is int
        and -input.ndim <= dim < input.ndim
        and input.dtype.kind in "fiub"
        and input.flags.c_contiguous
        and type(k) is int
        and 0 <= k <= input.shape[dim]
    ):
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, k, place, bool(largest), bool(sorted)), (k, place, bool(largest), bool(sorted))
    return None


@composed(covers="topk", method=True)
@shortcut(topk_along, _quick_topk, compute="sorting.topk")
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    """The `k` largest elements along `dim`, as (values, indices). Of equals those with the lowest index are taken.

    Args:
        input: tensor of any shape.
        k: from 0 to the size of `dim`.
        dim: which dim; negative counts from the end.
        largest: False for the smallest.
        sorted: in order; otherwise as they stand in `input`.
    Returns:
        Two tensors of `input`'s shape with size k in `dim`: values, and positions (int64).
    Raises:
        ShapeError: k is negative or above the size of `dim`.

    >>> dynograd.topk(tensor([1.0, 4.0, 2.0, 3.0]), 2)
    dynograd.return_types.topk(
    values=tensor([4., 3.]),
    indices=tensor([1, 3]))
    """
    _check_ordered("topk", input)
    k = whole_number("topk", "k", k)
    shape = tuple(input.shape)
    place = normalize_dim("topk", dim, len(shape))
    size = shape[place] if shape else 1
    if not 0 <= k <= size:
        raise ShapeError(
            f"topk: selected index k out of range: k={k}, dim {dim} has size {size} (shape {shape}). Use min(k, {size})."
        )
    return topk_along(input, k, place, bool(largest), bool(sorted))


@op(name="kthvalue", outputs="values indices", saves="input.shape output.indices", out="exact apart")
def kthvalue_along(input: Array, k: int, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The k-th smallest along `dim`, and where it is."""
    return kernel("sorting", "kthvalue", input)(input, k, dim, keepdim)


@kthvalue_along.backward
def kthvalue_backward(g: Any, saved: Any, k: Any, dim: Any, keepdim: Any) -> Gradients:
    return (put_back(g[0], saved.output[1], saved.input_shape, dim, keepdim),)


@kthvalue_along.jvp
def kthvalue_jvp(tangents: Any, saved: Any, k: Any, dim: Any, keepdim: Any) -> tuple[Array, None]:
    return picked(tangents[0], saved.output[1], saved.input_shape, dim, keepdim), None


@composed(covers="kthvalue", method=True)
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """The `k`-th smallest element along `dim` (1 is the smallest), as (values, indices); of equals the first.

    Args:
        input: tensor of any shape.
        k: from 1 to the size of `dim`.
        dim: which dim; negative counts from the end.
        keepdim: keep the dim, with size 1.
    Returns:
        Two tensors without `dim`: values, and positions (int64).
    Raises:
        ShapeError: k is not between 1 and the size of `dim`.

    >>> dynograd.kthvalue(tensor([4.0, 1.0, 3.0]), 2)
    dynograd.return_types.kthvalue(
    values=tensor(3.),
    indices=tensor(2))
    """
    _check_ordered("kthvalue", input)
    k = whole_number("kthvalue", "k", k)
    shape = tuple(input.shape)
    place = normalize_dim("kthvalue", dim, len(shape))
    size = shape[place] if shape else 1
    if not 1 <= k <= size:
        raise ShapeError(
            f"kthvalue: selected number k out of range for dimension {dim}: k={k}, valid are 1 to {size} (shape {shape})."
        )
    return kthvalue_along(input, k, place, bool(keepdim))


def _check_ordered(who: str, input: Any) -> None:
    refuse_complex(who, getattr(input, "array", input))
