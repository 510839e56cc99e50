"""Medians, modes and quantiles. Their gradients go to the elements that were chosen."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import Array
from dynograd.base.dtypes import refuse_complex
from dynograd.base.shapes import normalize_dim
from dynograd.errors import DimError, DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.argument_kinds import Dim
from dynograd.ops.elementwise.arithmetic import maximum
from dynograd.ops.index.scatters import gathered
from dynograd.ops.index.sorting import sort
from dynograd.ops.layout.broadcasting import stretch
from dynograd.ops.layout.transposes import movedim
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.reduce.extremes import picked, put_back, tie_shares
from dynograd.ops.reduce.reductions import not_nan
from dynograd.ops.reduce.reductions import sum as sum_dims

__all__ = ["median", "mode", "nanmedian", "nanquantile", "quantile"]


# --- median --------------------------------------------------------------------------------------------------------------


@op(name="median", outputs="values indices", saves="input.shape output.indices", out="exact")
def median_along(input: Array, dim: int, keepdim: bool, ignore_nan: bool) -> tuple[Array, Array]:
    """The lower median along `dim`, and where the first such element is."""
    return kernel("quantiles", "median", input)(input, dim, keepdim, ignore_nan)


@median_along.backward
def median_backward(g: Any, saved: Any, dim: Any, keepdim: Any, ignore_nan: Any) -> Gradients:
    return (put_back(g[0], saved.output[1], saved.input_shape, dim, keepdim),)


@median_along.jvp
def median_jvp(tangents: Any, saved: Any, dim: Any, keepdim: Any, ignore_nan: Any) -> tuple[Array, None]:
    return picked(tangents[0], saved.output[1], saved.input_shape, dim, keepdim), None


@op(saves="input output")
def median_of_all(input: Array, ignore_nan: bool) -> Array:
    """The lower median of all elements, which share the gradient where several equal it."""
    return kernel("quantiles", "median", input)(input.reshape(-1), 0, False, ignore_nan)[0]


@median_of_all.backward
def median_of_all_backward(g: Any, saved: Any, ignore_nan: Any) -> Gradients:
    return (g * tie_shares(saved.input, saved.output, None, False),)


def _quick_median(compute: Any, input: Any, dim: Any, keepdim: Any) -> tuple | None:
    if dim is None and input.size and input.dtype.kind in "fiu" and type(keepdim) is bool:
        return compute(input, False), (False,)
    return None


@composed(covers="median", method=True)
@shortcut(median_of_all, _quick_median, compute="quantiles.median_of_all")
def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Array | tuple[Array, Array]:
    """The median of all elements, or along `dim` as (values, indices). Of two in the middle, the lower; NaN wins.

    Args:
        input: tensor of real numbers.
        dim: an int; None: all elements.
        keepdim: keep the dim, with size 1.
    Returns:
        A tensor without dims; with `dim` a named tuple of `values` and `indices` (int64).

    >>> dynograd.median(tensor([1.0, 5.0, 2.0, 4.0]))
    tensor(2.)
    >>> dynograd.median(tensor([[1.0, 5.0, 2.0]]), dim=1)
    dynograd.return_types.median(
    values=tensor([2.]),
    indices=tensor([2]))
    """
    return _median("median", input, dim, keepdim, False)


@composed(method=True, out="exact")
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Array | tuple[Array, Array]:
    """The median of the elements that are not NaN; NaN where there are none. Otherwise as `median`.

    Args:
        input: tensor of real numbers.
        dim: an int; None: all elements.
        keepdim: keep the dim, with size 1.
    Returns:
        A tensor without dims; with `dim` a named tuple of `values` and `indices` (int64).

    >>> dynograd.nanmedian(tensor([1.0, float("nan"), 3.0, 2.0]))
    tensor(2.)
    """
    return _median("nanmedian", input, dim, keepdim, True)


def _median(who: str, input: Any, dim: int | None, keepdim: bool, ignore_nan: bool) -> Array | tuple[Array, Array]:
    if dim is not None:
        return median_along(input, _nonempty_dim(who, input, dim), bool(keepdim), ignore_nan)
    refuse_complex(who, getattr(input, "array", input))
    if not prod(input.shape):
        return sum_dims(input, None, False) * float("nan")
    return median_of_all(input, ignore_nan)


def _nonempty_dim(who: str, input: Any, dim: Any) -> int:
    shape = tuple(input.shape)
    refuse_complex(who, getattr(input, "array", input))
    place = normalize_dim(who, dim, len(shape))
    if shape and not shape[place]:
        raise DimError(
            f"{who}: Expected reduction dim {place} to have non-zero size, got shape {shape}. There is nothing to choose from."
        )
    return place


# --- mode ----------------------------------------------------------------------------------------------------------------


@op(method=True, outputs="values indices", saves="input.shape output.indices", out="exact")
def mode(input: Array, dim: Dim = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """The most frequent element along `dim`, as (values, indices): of several the smallest, and the last place of it.

    Args:
        input: tensor of real numbers.
        dim: which dim; negative counts from the end.
        keepdim: keep the dim, with size 1.
    Returns:
        A named tuple of `values` and `indices` (int64), of `input`'s shape without `dim`.

    >>> dynograd.mode(tensor([1, 3, 3, 2]))
    dynograd.return_types.mode(
    values=tensor(3),
    indices=tensor(2))
    """
    _nonempty_dim("mode", input, dim)
    return kernel("quantiles", "mode", input)(input, dim, keepdim)


@mode.backward
def mode_backward(g: Any, saved: Any, dim: Any, keepdim: Any) -> Gradients:
    return (put_back(g[0], saved.output[1], saved.input_shape, dim, keepdim),)


@mode.jvp
def mode_jvp(tangents: Any, saved: Any, dim: Any, keepdim: Any) -> tuple[Array, None]:
    return picked(tangents[0], saved.output[1], saved.input_shape, dim, keepdim), None


# --- quantiles -----------------------------------------------------------------------------------------------------------


@composed(method=True, cast={"cpu": "wide"})
def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Array:
    """The `q`-quantiles along `dim`, or of all elements; NaN where there is one.

    Args:
        input: float32 or float64.
        q: number, or tensor of one dim, in [0, 1].
        dim: an int; None: all elements.
        keepdim: keep the dim, with size 1.
        interpolation: what lies between two elements: "linear", "lower", "higher", "midpoint" or "nearest".
    Returns:
        The shape of `input` without `dim`; when `q` has a dim, that comes first.

    >>> dynograd.quantile(tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
    tensor(1.5000)
    >>> dynograd.quantile(tensor([[0.0, 2.0], [4.0, 8.0]]), tensor([0.25, 0.75]), dim=1)
    tensor([[0.5000, 5.0000],
            [1.5000, 7.0000]])
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@composed(method=True, cast={"cpu": "wide"})
def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Array:
    """The `q`-quantiles of the elements that are not NaN; NaN where there are none. Otherwise as `quantile`.

    Args:
        input: float32 or float64.
        q: number, or tensor of one dim, in [0, 1].
        dim: an int; None: all elements.
        keepdim: keep the dim, with size 1.
        interpolation: what lies between two elements: "linear", "lower", "higher", "midpoint" or "nearest".
    Returns:
        The shape of `input` without `dim`; when `q` has a dim, that comes first.

    >>> dynograd.nanquantile(tensor([0.0, float("nan"), 2.0]), 0.5)
    tensor(1.)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(who: str, input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, ignore_nan: bool) -> Array:
    shape = tuple(input.shape)
    rank = len(shape)
    _check_quantile(who, input, q, interpolation)
    if dim is None:
        rows, reduced = reshaped(input, (-1,)), (1,) * rank if keepdim else ()
    else:
        place = normalize_dim(who, dim, rank)
        rows = movedim(input, place, -1) if rank else reshaped(input, (1,))
        reduced = (*shape[:place], *((1,) if keepdim and rank else ()), *shape[place + 1 :])
    ordered = sort(rows, -1)[0]
    last = len(rows.shape) - 1
    numbers = not_nan(ordered)
    if ignore_nan:
        top = maximum(sum_dims(numbers, last, True) - 1, 0)
        rank_of = top * q
    else:
        # A row with NaN ends with it: every quantile is put there.
        clean = numbers[..., -1:]
        top = clean * 0 + (rows.shape[last] - 1)
        rank_of = top * q * clean + top * (1 - clean)
    several = hasattr(q, "shape") and len(q.shape) == 1
    result = _between(ordered, rank_of, last, interpolation)
    if not several:
        return reshaped(result, reduced)
    return reshaped(movedim(result, -1, 0), (q.shape[0], *reduced))


def _between(ordered: Any, rank_of: Any, last: int, interpolation: str) -> Array:
    """What stands at the (broken) places `rank_of` of the ordered rows."""
    rank_of = stretch(rank_of, (*ordered.shape[:-1], rank_of.shape[-1]))
    if interpolation in ("lower", "higher", "nearest"):
        return gathered(ordered, last, whole_places(rank_of, interpolation))
    below, above = whole_places(rank_of, "lower"), whole_places(rank_of, "higher")
    if interpolation == "midpoint":
        rank_of = (below + above) * 0.5
    # From the nearer neighbour on, so that an infinite other one does not make NaN.
    near = whole_places(rank_of + 0.5, "lower")
    apart = gathered(ordered, last, above) - gathered(ordered, last, below)
    return gathered(ordered, last, near) + apart * (rank_of - near)


@op(differentiable=False, ragged="packed")
def whole_places(input: Array, rounding: str) -> Array:
    """Places between elements rounded to whole ones (int64): "lower", "higher" or "nearest", halves to even."""
    return kernel("quantiles", "whole_places", input)(input, rounding)


def _check_quantile(who: str, input: Any, q: Any, interpolation: str) -> None:
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{who}: interpolation must be one of {', '.join(_INTERPOLATIONS)}, but got {interpolation!r}."
        )
    kind = getattr(input, "array", input).dtype
    if kind.kind not in "fV":
        raise DtypeError(
            f"{who}: input tensor must be either float or double dtype, got {input.dtype}. Use input.float()."
        )
    if not prod(input.shape):
        raise ShapeError(f"{who}: input tensor must be non-empty, got shape {tuple(input.shape)}.")
    if not hasattr(q, "shape"):
        values = [q]
    elif len(q.shape) > 1:
        raise ShapeError(f"{who}: q must be a scalar or 1D tensor, got shape {tuple(q.shape)}.")
    elif getattr(q, "array", q).dtype != kind:
        raise DtypeError(
            f"{who}: q tensor must be same dtype as the input tensor, got {q.dtype} and {input.dtype}. Use q.to(input.dtype)."
        )
    else:
        values = getattr(q, "array", q).reshape(-1).tolist()
    for value in values:
        if not 0 <= value <= 1:
            raise ValueError(f"{who}: q must be in the range [0, 1] but got {value}.")
