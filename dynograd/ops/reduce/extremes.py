"""Largest and smallest elements: `max`, `argmax`, `amax` and their like.

NaN wins everywhere. Where several elements are extreme, indices name the first; `amax`, `amin` and the forms over all elements share
the gradient evenly among them, and `max(dim)`, `min(dim)` send it to the index that they give.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from dynograd.arrays import Array
from dynograd.base.dtypes import refuse_complex
from dynograd.base.shapes import reduced_dims
from dynograd.base.shown_names import show_in_lines
from dynograd.errors import DimError, DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.argument_kinds import Axis, Dim, Dims, Keepdims
from dynograd.ops.elementwise.arithmetic import maximum, minimum
from dynograd.ops.index.scatters import gathered, spread
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.reduce.reductions import REAL, kept

__all__ = ["amax", "amin", "aminmax", "argmax", "argmin", "max", "min"]


# --- over any dims -------------------------------------------------------------------------------------------------------


@op(method=True, saves="input output", out="exact", few="extremes.amax", few_dtypes=REAL, uneven=True)
def amax(input: Array, dim: Dims = (), keepdim: bool = False, *, axis: Axis = None, keepdims: Keepdims = None) -> Array:
    """The largest element over `dim` (an int or several; () for all). Elements that tie share the gradient evenly.

    Args:
        input: tensor of real numbers.
        dim: an int or several; () for all.
        keepdim: keep the reduced dims, with size 1.
    Returns:
        `input`'s shape without `dim`, in its dtype.
    Raises:
        DimError: nothing to choose from.

    >>> dynograd.amax(tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([5., 3.])
    """
    refuse_complex("amax", input)
    _refuse_nothing("amax", input.shape, dim)
    return kernel("extremes", "amax", input)(input, dim, keepdim)


@op(method=True, saves="input output", out="exact", few="extremes.amin", few_dtypes=REAL, uneven=True)
def amin(input: Array, dim: Dims = (), keepdim: bool = False, *, axis: Axis = None, keepdims: Keepdims = None) -> Array:
    """The smallest element over `dim` (an int or several; () for all). Elements that tie share the gradient evenly.

    Args:
        input: tensor of real numbers.
        dim: an int or several; () for all.
        keepdim: keep the reduced dims, with size 1.
    Returns:
        `input`'s shape without `dim`, in its dtype.
    Raises:
        DimError: nothing to choose from.

    >>> dynograd.amin(tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([1., 2.])
    """
    refuse_complex("amin", input)
    _refuse_nothing("amin", input.shape, dim)
    return kernel("extremes", "amin", input)(input, dim, keepdim)


@amax.backward
@amin.backward
def amax_backward(g: Any, saved: Any, dim: Any, keepdim: Any) -> Gradients:
    x = saved.input
    return (kept(g, tuple(x.shape), dim, keepdim) * tie_shares(x, saved.output, dim, keepdim),)


@op(differentiable=False, inner=True)
def tie_shares(input: Array, output: Array, dim: Any, keepdim: bool) -> Array:
    """What part of the gradient of the extreme `output` each element of `input` gets."""
    return kernel("extremes", "tie_shares", input)(input, output, dim, keepdim)


aminmax_result = namedtuple("aminmax", "min max")  # type: ignore[name-match]
show_in_lines(aminmax_result)


@composed(method=True, out="exact")
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> aminmax_result:
    """The smallest and the largest element, of all or over one `dim`, as (min, max).

    Args:
        input: tensor of real numbers.
        dim: an int; None for all.
        keepdim: keep the reduced dims, with size 1.
    Returns:
        A named tuple of two tensors, `min` and `max`.

    >>> dynograd.aminmax(tensor([3.0, 1.0, 2.0]))
    dynograd.return_types.aminmax(
    min=tensor(1.),
    max=tensor(3.))
    """
    dims = _nonempty_dims("aminmax", input, dim)
    return aminmax_result(amin(input, dims, keepdim), amax(input, dims, keepdim))


def _nonempty_dims(who: str, input: Any, dim: Any) -> int | tuple[int, ...] | None:
    """The dims of a reduction that has no result for an empty row: None for all of them, else an int or a tuple."""
    shape = tuple(input.shape)
    dims = reduced_dims(who, dim, len(shape))
    _refuse_nothing(who, shape, dims)
    return dims


def _refuse_nothing(who: str, shape: tuple[int, ...], dim: Any) -> None:
    if dim is None and 0 in shape:
        raise ShapeError(
            f"{who}: Expected reduction dim to be specified for input.numel() == 0 (shape {shape}). Specify the reduction dim "
            f"with the 'dim' argument, or leave empty inputs out."
        )
    for place in () if dim is None else (dim,) if type(dim) is int else dim:
        if shape[place] == 0:
            raise DimError(
                f"{who}: Expected reduction dim {place} to have non-zero size, got shape {shape}. There is nothing to choose from."
            )


# --- over one dim, with the index ----------------------------------------------------------------------------------------


def picked(input: Any, index: Any, shape: tuple[int, ...], dim: int, keepdim: bool) -> Array:
    """The element of each row along `dim` at `index`, which a reduction over `dim` of `shape` gave."""
    if not shape:
        return input * 1
    result = gathered(input, dim, kept(index, shape, dim, keepdim))
    return result if keepdim else reshaped(result, (*shape[:dim], *shape[dim + 1 :]))


def put_back(g: Any, index: Any, shape: tuple[int, ...], dim: int, keepdim: bool) -> Array:
    """The transpose of `picked`: the gradient of each result at the element that it came from."""
    if not shape:
        return g
    return spread(kept(g, shape, dim, keepdim), dim, kept(index, shape, dim, keepdim), shape)


@op(name="max", outputs="values indices", saves="input.shape output.indices", out="exact", tensors="input", uneven=True)
def max_along(input: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The largest along `dim`, and where the first such is."""
    return kernel("extremes", "max_along", input)(input, dim, keepdim)


@op(name="min", outputs="values indices", saves="input.shape output.indices", out="exact", tensors="input", uneven=True)
def min_along(input: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The smallest along `dim`, and where the first such is."""
    return kernel("extremes", "min_along", input)(input, dim, keepdim)


@max_along.backward
@min_along.backward
def max_backward(g: Any, saved: Any, dim: Any, keepdim: Any) -> Gradients:
    return (put_back(g[0], saved.output[1], saved.input_shape, dim, keepdim),)


@max_along.jvp
@min_along.jvp
def max_jvp(tangents: Any, saved: Any, dim: Any, keepdim: Any) -> tuple[Array, None]:
    return picked(tangents[0], saved.output[1], saved.input_shape, dim, keepdim), None


def _quick_max_by_max_along(
    compute: Any, input: Any, dim: Any, keepdim: Any, other: Any, axis: Any, keepdims: Any
) -> tuple | None:
    if (
        axis is None
        and keepdims is None
        and type(keepdim) is bool
        and input.dtype.num < 256
        and other is None
        and input.size
        and input.dtype.kind in "fiub"
        and type(dim) is int
        and -input.ndim <= dim < input.ndim
    ):
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place, keepdim), (place, keepdim)
    return None


def _quick_max_by_amax(
    compute: Any, input: Any, dim: Any, keepdim: Any, other: Any, axis: Any, keepdims: Any
) -> tuple | None:
    if (
        axis is None
        and keepdims is None
        and type(keepdim) is bool
        and input.dtype.num < 256
        and other is None
        and input.size
        and input.dtype.kind in "fiub"
        and dim is None
    ):
        place = dim if dim is None or dim >= 0 else dim + input.ndim
        return compute(input, place, keepdim), (place, keepdim)
    return None


@composed(covers="max", method=True)
@shortcut(max_along, _quick_max_by_max_along, compute="extremes.max_along")
@shortcut(amax, _quick_max_by_amax, compute="extremes.amax")
def max(
    input: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    other: Any = None,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Array | tuple[Array, Array]:
    """The largest element; with `dim`, (values, indices) along it; with a tensor `other`, the larger of each pair.

    NaN wins. The index is that of the first of several equals, and gets the gradient; the form over all elements shares it evenly.

    Args:
        input: tensor of real numbers.
        dim: an int; None for all.
        keepdim: keep the reduced dims, with size 1.
        other: tensor, broadcast with `input`; also in the place of `dim`.
    Returns:
        A tensor in `input`'s dtype; with `dim` a named tuple of `values` and `indices` (int64).
    Raises:
        ShapeError: no elements and no `dim`.
        DimError: the size of `dim` is 0.

    >>> x = tensor([[1.0, 5.0], [3.0, 2.0]])
    >>> dynograd.max(x)
    tensor(5.)
    >>> dynograd.max(x, dim=1)
    dynograd.return_types.max(
    values=tensor([5., 3.]),
    indices=tensor([1, 0]))
    """
    return _max_or_min("max", (max_along, amax, maximum), input, dim, keepdim, other, axis, keepdims)


@composed(covers="min", method=True)
@shortcut(min_along, _quick_max_by_max_along, compute="extremes.min_along")
@shortcut(amin, _quick_max_by_amax, compute="extremes.amin")
def min(
    input: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    other: Any = None,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Array | tuple[Array, Array]:
    """The smallest element; with `dim`, (values, indices) along it; with a tensor `other`, the smaller of each pair.

    As `max`, with NaN winning too.

    Args:
        input: tensor of real numbers.
        dim: an int; None for all.
        keepdim: keep the reduced dims, with size 1.
        other: tensor, broadcast with `input`; also in the place of `dim`.
    Returns:
        A tensor in `input`'s dtype; with `dim` a named tuple of `values` and `indices` (int64).
    Raises:
        ShapeError: no elements and no `dim`.
        DimError: the size of `dim` is 0.

    >>> dynograd.min(tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    dynograd.return_types.min(
    values=tensor([1., 2.]),
    indices=tensor([0, 1]))
    """
    return _max_or_min("min", (min_along, amin, minimum), input, dim, keepdim, other, axis, keepdims)


def _max_or_min(
    who: str, forms: Any, input: Any, dim: Any, keepdim: bool, other: Any, axis: Any, keepdims: Any
) -> Array | tuple[Array, Array]:
    dim, keepdim = dim if axis is None else axis, keepdim if keepdims is None else keepdims
    along, over_all, pairwise = forms
    if hasattr(dim, "shape") and not isinstance(dim, int):
        dim, other = None, dim
    if other is not None:
        return pairwise(input, other)
    refuse_complex(who, getattr(input, "array", input))
    if dim is None:
        return over_all(input, _nonempty_dims(who, input, None), bool(keepdim))
    if not hasattr(dim, "__index__"):
        raise TypeError(
            f"{who}: dim must be an int or a Tensor to compare with, got {dim!r}. Use a{who} for several dims."
        )
    return along(input, _nonempty_dims(who, input, int(dim)) or 0, keepdim)


# --- the index alone -----------------------------------------------------------------------------------------------------


@op(method=True, differentiable=False, few="extremes.argmax", few_dtypes=REAL, uneven=True)
def argmax(
    input: Array, dim: Dim | None = None, keepdim: bool = False, *, axis: Axis = None, keepdims: Keepdims = None
) -> Array:
    """The index of the largest element along `dim`, or in the flattened tensor; of several equals the first, NaN before all.

    Args:
        input: tensor of real numbers.
        dim: an int; None for the flattened tensor.
        keepdim: keep the dim, with size 1.
    Returns:
        `input`'s shape without `dim`, int64.
    Raises:
        DimError: nothing to choose from.

    >>> dynograd.argmax(tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([1, 0])
    """
    _check_choice("argmax", input, dim)
    return kernel("extremes", "argmax", input)(input, dim, keepdim)


@op(method=True, differentiable=False, few="extremes.argmin", few_dtypes=REAL, uneven=True)
def argmin(
    input: Array, dim: Dim | None = None, keepdim: bool = False, *, axis: Axis = None, keepdims: Keepdims = None
) -> Array:
    """The index of the smallest element along `dim`, or in the flattened tensor; of several equals the first, NaN before all.

    Args:
        input: tensor of real numbers.
        dim: an int; None for the flattened tensor.
        keepdim: keep the dim, with size 1.
    Returns:
        `input`'s shape without `dim`, int64.
    Raises:
        DimError: nothing to choose from.

    >>> dynograd.argmin(tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([0, 1])
    """
    _check_choice("argmin", input, dim)
    return kernel("extremes", "argmin", input)(input, dim, keepdim)


def _check_choice(who: str, array: Any, dim: int | None) -> None:
    if dim is None and not array.size:
        raise DimError(
            f"{who}: Expected reduction dim to be specified for input.numel() == 0 (shape {array.shape}). Specify the "
            f"reduction dim with the 'dim' argument."
        )
    _refuse_nothing(who, array.shape, dim)
    if array.dtype.kind == "c":
        raise DtypeError(f"{who}: complex numbers have no order. Use input.abs().{who}().")
