"""Running sums, products and extremes along one dim; differences and the trapezoid rule."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import normalize_dim
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.argument_kinds import Axis, Dim, Dtype
from dynograd.ops.elementwise.arithmetic import conjugated
from dynograd.ops.elementwise.exponentials import logaddexp
from dynograd.ops.index.indexing import fill_basic, get_basic
from dynograd.ops.index.indices import FULL
from dynograd.ops.index.scatters import gathered, spread
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.joins import cat
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.reduce.reductions import exp_difference, floating
from dynograd.ops.reduce.reductions import sum as sum_dims

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "diff",
    "logcumsumexp",
    "trapezoid",
    "trapz",
]


def _part(input: Any, dim: int, start: int | None, stop: int | None) -> Array:
    """A slice along `dim`."""
    return get_basic(input, (*(FULL,) * dim, slice(start, stop)))


def _moved(input: Any, dim: int, step: int) -> Array:
    """`input` moved by one place along `dim` (towards the end for step 1, the front for -1), with 0 where nothing arrives."""
    shape = tuple(input.shape)
    if step == 1:
        return fill_basic(_part(input, dim, None, -1), shape, (*(FULL,) * dim, slice(1, None)))
    return fill_basic(_part(input, dim, 1, None), shape, (*(FULL,) * dim, slice(None, -1)))


# --- sums ----------------------------------------------------------------------------------------------------------------


@op(
    method=True,
    linear=True,
    inplace=True,
    out="exact dtype",
    cast={"cuda": "wide"},
    uneven=True,
    few="scans.cumsum",
    few_dtypes="fdl",
)
def cumsum(input: Array, dim: Dim = None, *, dtype: Dtype = None, axis: Axis = None) -> Array:
    """The sum of the elements up to and with each place of `dim`. Booleans and integers sum in int64.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        dtype: converts `input` first.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.cumsum(tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    if input.dtype.itemsize == 1:
        dtypes.refuse_float8("cumsum", input)
    return kernel("scans", "cumsum", input)(wide_integers(input), dim)


@cumsum.backward
def cumsum_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (sum_onwards(g, dim),)


@op(linear=True, cast={"cuda": "wide"}, uneven=True, inner=True)
def sum_onwards(input: Array, dim: int) -> Array:
    """The sum of the elements from each place of `dim` on."""
    return kernel("scans", "cumsum", input)(input, dim, True)


@sum_onwards.backward
def sum_onwards_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (cumsum(g, dim),)


def wide_integers(input: Any) -> Array:
    """The array, booleans and integers as int64."""
    return convert(input, dtypes.int64) if input.dtype.kind in "iub" else input


# --- products ------------------------------------------------------------------------------------------------------------


@op(method=True, inplace=True, saves="input output", out="exact dtype", cast={"cuda": "wide"})
def cumprod(input: Array, dim: Dim = None, *, dtype: Dtype = None, axis: Axis = None) -> Array:
    """The product of the elements up to and with each place of `dim`. Booleans and integers multiply in int64.

    The gradient is right with any number of zeros.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        dtype: converts `input` first.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.cumprod(tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    if input.dtype.itemsize == 1:
        dtypes.refuse_float8("cumprod", input)
    return kernel("scans", "cumprod_forward", input)(wide_integers(input), dim)


@cumprod.fast_backward
def cumprod_fast_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (kernel("scans", "cumprod_backward", g)(g, saved.input, saved.output, dim),)


@cumprod.backward
def cumprod_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    """Element k: the product before it, times r[k] = g[k] + x[k + 1] r[k + 1]. Right with any number of zeros."""
    x = saved.input
    if not len(x.shape):
        return (g,)
    return (conjugated(behind_one(saved.output, dim)) * recurrence(g, conjugated(_moved(x, dim, -1)), dim),)


@op()
def behind_one(input: Array, dim: int) -> Array:
    """1, and behind it all elements along `dim` but the last."""
    return kernel("scans", "behind_one", input)(input, dim)


@behind_one.backward
def behind_one_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (_moved(g, dim, -1),)


@op(saves="decay output", inner=True)
def recurrence(input: Array, decay: Array, dim: int) -> Array:
    """r[k] = input[k] + decay[k] * r[k + 1], with r = 0 behind the end of `dim`."""
    return kernel("scans", "recurrence", input)(input, decay, dim)


@recurrence.backward
def recurrence_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    # The transpose runs the other way: s[k] = g[k] + decay[k - 1] * s[k - 1].
    back = reversed_along(
        recurrence(reversed_along(g, dim), conjugated(reversed_along(_moved(saved.decay, dim, 1), dim)), dim), dim
    )
    return back, back * conjugated(_moved(saved.output, dim, -1)) if saved.needs(1) else None


@op(linear=True)
def reversed_along(input: Array, dim: int) -> Array:
    """The elements along `dim` in reverse order (a copy)."""
    return kernel("scans", "reversed_along", input)(input, dim)


@reversed_along.backward
def reversed_along_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (reversed_along(g, dim),)


# --- extremes ------------------------------------------------------------------------------------------------------------


@op(method=True, outputs="values indices", saves="input.shape output.indices", out="exact")
def cummax(input: Array, dim: Dim) -> tuple[Array, Array]:
    """The largest element up to and with each place of `dim`, as (values, indices). Of equals the last counts; NaN stays.

    Args:
        input: tensor of real numbers.
        dim: which dim; negative counts from the end.
    Returns:
        A named tuple of `values` and `indices` (int64), of the shape of `input`.

    >>> dynograd.cummax(tensor([1.0, 3.0, 2.0]), 0)
    dynograd.return_types.cummax(
    values=tensor([1., 3., 3.]),
    indices=tensor([0, 1, 1]))
    """
    dtypes.refuse_complex("cummax", input)
    return kernel("scans", "cummax", input)(input, dim)


@op(method=True, outputs="values indices", saves="input.shape output.indices", out="exact")
def cummin(input: Array, dim: Dim) -> tuple[Array, Array]:
    """The smallest element up to and with each place of `dim`, as (values, indices). Of equals the last counts; NaN stays.

    Args:
        input: tensor of real numbers.
        dim: which dim; negative counts from the end.
    Returns:
        A named tuple of `values` and `indices` (int64), of the shape of `input`.

    >>> dynograd.cummin(tensor([2.0, 1.0, 3.0]), 0)
    dynograd.return_types.cummin(
    values=tensor([2., 1., 1.]),
    indices=tensor([0, 1, 1]))
    """
    dtypes.refuse_complex("cummin", input)
    return kernel("scans", "cummin", input)(input, dim)


@cummax.backward
@cummin.backward
def cummax_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    shape = saved.input_shape
    return (spread(g[0], dim, saved.output[1], shape) if shape else g[0],)


@cummax.jvp
@cummin.jvp
def cummax_jvp(tangents: Any, saved: Any, dim: Any) -> tuple[Array, None]:
    return gathered(tangents[0], dim, saved.output[1]) if saved.input_shape else tangents[0], None


# --- log of running sums of exponentials ---------------------------------------------------------------------------------


@op(name="logcumsumexp", saves="input output", out="exact")
def logsumexp_so_far(input: Array, dim: int) -> Array:
    """log(cumsum(exp(input)))."""
    return kernel("scans", "logcumsumexp_forward", input)(input, dim)


@logsumexp_so_far.backward
def logsumexp_so_far_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    """exp(x[k] - y[k]) r[k] with r[k] = g[k] + exp(y[k] - y[k + 1]) r[k + 1]: no exponent is above 0."""
    x, y = saved.input, saved.output
    shape = tuple(x.shape)
    if not shape or shape[dim] < 2:
        return (g * exp_difference(x, y),)
    ratios = exp_difference(_part(y, dim, None, -1), _part(y, dim, 1, None))
    decay = fill_basic(ratios, shape, (*(FULL,) * dim, slice(None, -1)))
    return (exp_difference(x, y) * recurrence(g, decay, dim),)


@composed(covers="logcumsumexp", method=True)
def logcumsumexp(input: Any, dim: int) -> Array:
    """log(cumsum(exp(input), dim)), without overflow. Places up to which all is -inf give -inf, with gradient 0.

    Args:
        input: floating or complex tensor.
        dim: which dim; negative counts from the end.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.logcumsumexp(tensor([0.0, 0.0, 1000.0]), 0)
    tensor([0.0000e+00, 6.9315e-01, 1.0000e+03])
    """
    place = normalize_dim("logcumsumexp", dim, len(input.shape))
    if getattr(input, "array", input).dtype.kind == "c":
        return _doubled(logaddexp, input, place)
    return logsumexp_so_far(floating(input), place)


def _doubled(function: Any, input: Any, dim: int) -> Array:
    """The running results of an associative function along `dim`, in log2(n) steps over the whole."""
    step, size = 1, input.shape[dim] if len(input.shape) else 0
    while step < size:
        later = function(_part(input, dim, step, None), _part(input, dim, None, -step))
        input = cat([_part(input, dim, None, step), later], dim)
        step *= 2
    return input


# --- differences and areas -----------------------------------------------------------------------------------------------


@composed(method=True)
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """The difference of neighbours along `dim`, `n` times over. For booleans: whether they differ.

    Args:
        input: tensor of any shape.
        n: how many times, at least 0.
        dim: which dim; negative counts from the end.
        prepend: tensor put in front of `input` along `dim` first.
        append: tensor put behind it.
    Returns:
        `input`'s shape with `n` elements fewer in `dim`.

    >>> dynograd.diff(tensor([1, 4, 9, 16]))
    tensor([3, 5, 7])
    """
    rank = len(input.shape)
    if not rank:
        raise ShapeError("diff: diff expects input to be at least one-dimensional. Unsqueeze it first.")
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}.")
    place = normalize_dim("diff", dim, rank)
    if n and (prepend is not None or append is not None):
        input = cat([part for part in (prepend, input, append) if part is not None], place)
    boolean = getattr(input, "array", input).dtype.kind == "b"
    for _ in range(n):
        later, earlier = _part(input, place, 1, None), _part(input, place, None, -1)
        input = later ^ earlier if boolean else later - earlier
    return input


@composed(out=None)
def trapezoid(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Array:
    """The area below `y` along `dim` by the trapezoid rule.

    Args:
        y (*): values of a function.
        x: where `y` was taken: of its shape, or one dim (that of `dim`); else the places are `dx` (1) apart.
        dx: the distance of neighbours; 1 by default.
        dim: which dim; negative counts from the end.
    Returns:
        y's shape without `dim`.

    >>> dynograd.trapezoid(tensor([1.0, 5.0, 10.0]))
    tensor(10.5000)
    """
    areas, place = _trapezoids("trapezoid", y, x, dx, dim)
    return sum_dims(areas, place, False)


@composed(out=None)
def trapz(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Array:
    """Another name of `trapezoid`.

    Args:
        y (*): values of a function.
        x (*): where `y` was taken: of its shape, or one dim (that of `dim`).
        dx: the distance of neighbours; 1 by default.
        dim: which dim; negative counts from the end.
    Returns:
        y's shape without `dim`.

    >>> dynograd.trapz(tensor([1.0, 3.0, 5.0]))
    tensor(6.)
    """
    return trapezoid(y, x, dx=dx, dim=dim)


@composed(out=None)
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Array:
    """The area below `y` up to each place of `dim` but the first; arguments as in `trapezoid`.

    Args:
        y (*): values of a function.
        x (*): where `y` was taken: of its shape, or one dim (that of `dim`).
        dx: the distance of neighbours; 1 by default.
        dim: which dim; negative counts from the end.
    Returns:
        y's shape with one element fewer in `dim`.

    >>> dynograd.cumulative_trapezoid(tensor([1.0, 5.0, 10.0]))
    tensor([ 3.0000, 10.5000])
    """
    areas, place = _trapezoids("cumulative_trapezoid", y, x, dx, dim)
    return cumsum(areas, place)


def _trapezoids(who: str, y: Any, x: Any, dx: float | None, dim: int) -> tuple[Any, int]:
    """The area between each two neighbours, and the dim."""
    if x is not None and dx is not None:
        raise TypeError(f"{who}: got both x and dx. Give the places or their distance.")
    if getattr(y, "array", y).dtype.kind == "b":
        raise DtypeError(f"{who}: received a bool input for `y`, but bool is not supported. Use y.float().")
    rank = len(y.shape)
    place = normalize_dim(who, dim, rank)
    both = _part(y, place, 1, None) + _part(y, place, None, -1)
    if x is None:
        return both * ((1 if dx is None else dx) / 2), place
    if len(x.shape) == 1 and rank > 1:
        if x.shape[0] != y.shape[place]:
            raise ShapeError(
                f"{who}: There must be one `x` value for each sample point: x has {x.shape[0]} (shape {tuple(x.shape)}), y has "
                f"{y.shape[place]} along dim {place} (shape {tuple(y.shape)})."
            )
        x = reshaped(x, (x.shape[0], *(1,) * (rank - place - 1)))
    elif len(x.shape) > rank:
        raise ShapeError(
            f"{who}: x has more dims than y: shape {tuple(x.shape)} for y of shape {tuple(y.shape)}. Give x the shape of y, or one dim."
        )
    elif len(x.shape) < rank:
        x = reshaped(x, (*(1,) * (rank - len(x.shape)), *x.shape))
    along = place - rank + len(x.shape)
    return both * (_part(x, along, 1, None) - _part(x, along, None, -1)) / 2, place
