"""Reductions over segments of a dim: `segment_reduce`, and the ops on rows that it is made of.

The ops take values (M, D) and, for K segments that do not overlap, the first row of each and the one behind its last. Sums and the
repetition of a row over its segment are each other's gradient; with extremes and sums a softmax or logsumexp of segments is three
lines (subtract the repeated maximum, exponentiate, sum).
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import normalize_dim
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.choices import choose, clamp_numbers
from dynograd.ops.index.indexing import get_advanced, get_basic
from dynograd.ops.index.scatters import ties
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.paddings import pad_constant
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.precisions import check_floating, narrowed, widened
from dynograd.ops.reduce.reductions import exp_difference
from dynograd.ops.reduce.reductions import sum as sum_dims
from dynograd.ops.reduce.scans import cumsum

__all__ = ["segment_reduce"]

_EXTREMES = ("max", "min")


@op(linear=True, saves="values.shape starts ends")
def segment_sum(values: Array, starts: Array, ends: Array) -> Array:
    """(K, D): the sum of the rows of each segment of `values` (M, D)."""
    return kernel("segments", "reduce_segments", values)(values, starts, ends, "sum")


@segment_sum.backward
def segment_sum_backward(g: Any, saved: Any) -> Gradients:
    return (segment_spread(g, saved.starts, saved.ends, saved.values_shape[0]), None, None)


@op(linear=True, saves="starts ends")
def segment_spread(g: Array, starts: Array, ends: Array, rows: int) -> Array:
    """(rows, D): row k of `g` (K, D) in each row of segment k, zeros in rows of no segment."""
    return kernel("segments", "spread_segments", g)(g, starts, ends, rows)


@segment_spread.backward
def segment_spread_backward(g: Any, saved: Any, rows: Any) -> Gradients:
    return (segment_sum(g, saved.starts, saved.ends), None, None)


@op(saves="values starts ends output")
def segment_extreme(values: Array, starts: Array, ends: Array, which: str) -> Array:
    """(K, D): the "max" or "min" of the rows of each segment; rows that tie share the gradient evenly."""
    return kernel("segments", "reduce_segments", values)(values, starts, ends, which)


@segment_extreme.backward
def segment_extreme_backward(g: Any, saved: Any, which: Any) -> Gradients:
    x, starts, ends = saved.values, saved.starts, saved.ends
    mine = choose(
        x == x, ties(x, segment_spread(saved.output, starts, ends, x.shape[0])), 1.0
    )  # every NaN is an extreme
    count = segment_sum(mine, starts, ends)
    share = g / choose(count > 0, count, 1.0)
    return (segment_spread(share, starts, ends, x.shape[0]) * mine, None, None)


@segment_extreme.fast_backward
def segment_extreme_fast_backward(g: Any, saved: Any, which: Any) -> Gradients:
    run = kernel("segments", "segment_gradients", saved.values)
    return (run(g, saved.values, saved.output, saved.starts, saved.ends, which), None, None)


@op()
def segment_product(values: Array, starts: Array, ends: Array) -> Array:
    """(K, D): the product of the rows of each segment."""
    return kernel("segments", "reduce_segments", values)(values, starts, ends, "prod")


@segment_product.fast_backward
def segment_product_fast_backward(g: Any, saved: Any) -> Gradients:
    run = kernel("segments", "segment_gradients", saved.values)
    return (run(g, saved.values, None, saved.starts, saved.ends, "prod"), None, None)


@segment_product.decomposition
def segment_product_by_halves(values: Any, starts: Any, ends: Any) -> Array:
    """Neighbours multiplied with each other until one row of a segment is left: right at zeros, in derivatives of any order."""
    first, last = getattr(starts, "array", starts), getattr(ends, "array", ends)
    longest = 2
    while longest > 1:
        rows = values.shape[0]
        first_half, second_half, first, last, longest = kernel("segments", "halved", first)(first, last, rows)
        values = _with_a_row_of_ones(values)
        values = get_advanced(values, [first_half], (0,)) * get_advanced(values, [second_half], (0,))
    alone = choose(last > first, first, values.shape[0])
    return get_advanced(_with_a_row_of_ones(values), [alone], (0,))


def _with_a_row_of_ones(values: Any) -> Array:
    return pad_constant(values, ((0, 1), (0, 0)), 1.0)


@op(saves="output starts ends")
def segment_softmax(values: Array, starts: Array, ends: Array) -> Array:
    """(M, D): exp(values), scaled to sum to 1 over each segment's rows, which must cover `values`."""
    return kernel("segments", "softmax_segments", values)(values, starts, ends)


@segment_softmax.backward
def segment_softmax_backward(g: Any, saved: Any) -> Gradients:
    return (_without_mean(g, saved), None, None)


@segment_softmax.fast_backward
def segment_softmax_fast_backward(g: Any, saved: Any) -> Gradients:
    run = kernel("segments", "softmax_gradients", saved.output)
    return (run(g, saved.output, saved.starts, saved.ends), None, None)


@segment_softmax.jvp
def segment_softmax_jvp(tangents: Any, saved: Any) -> Array:
    return _without_mean(tangents[0], saved)


def _without_mean(g: Any, saved: Any) -> Array:
    """What the softmax makes of a gradient, and of a tangent."""
    y, starts, ends = saved.output, saved.starts, saved.ends
    weighed = y * g
    return weighed - y * segment_spread(segment_sum(weighed, starts, ends), starts, ends, y.shape[0])


COMBINATIONS = ("add", "mul", "div")


@op(saves="values g starts ends", inner=True)
def segment_combine(values: Array, g: Array, starts: Array, ends: Array, how: str) -> Array:
    """(M, D): each row of segment k of `values` with row k of `g` (K, D) or (K, 1): their sum ("add"), product or quotient ("mul", "div")."""
    return kernel("segments", "combine", values)(values, g, starts, ends, how)


@segment_combine.backward
def segment_combine_backward(grad: Any, saved: Any, how: Any) -> Gradients:
    g, starts, ends = saved.g, saved.starts, saved.ends
    own = each = None
    if saved.needs(0):
        own = grad if how == "add" else segment_combine(grad, g, starts, ends, how)
    if saved.needs(1):
        each = grad if how == "add" else grad * saved.values
        if g.shape[1] != each.shape[1]:
            each = sum_dims(each, 1, True)
        each = segment_sum(each, starts, ends)
        each = -each / g / g if how == "div" else each
    return (own, each, None, None)


@op(saves="values starts ends", inner=True)
def segment_squares(values: Array, starts: Array, ends: Array, centered: bool = False) -> Array:
    """(K, D): the sum of the squares of each segment's rows; of their distances from its mean with `centered`."""
    return kernel("segments", "squares", values)(values, starts, ends, centered)


@segment_squares.backward
def segment_squares_backward(g: Any, saved: Any, centered: Any) -> Gradients:
    return (
        _distances(saved, centered) * segment_spread(2 * g, saved.starts, saved.ends, saved.values.shape[0]),
        None,
        None,
    )


@segment_squares.jvp
def segment_squares_jvp(tangents: Any, saved: Any, centered: Any) -> Array:
    return segment_sum(2 * _distances(saved, centered) * tangents[0], saved.starts, saved.ends)


def _distances(saved: Any, centered: bool) -> Array:
    x, starts, ends = saved.values, saved.starts, saved.ends
    if not centered:
        return x
    lengths = reshaped(clamp_numbers(ends - starts, 1, None), (ends.shape[0], 1))
    means = segment_sum(x, starts, ends) / convert(lengths, dtypes.of_array(getattr(x, "array", x)))
    return x - segment_spread(means, starts, ends, x.shape[0])


@op(saves="values starts ends output", inner=True)
def segment_logsumexp(values: Array, starts: Array, ends: Array) -> Array:
    """(K, D): the logarithm of the sum of exp of each segment's rows; -inf of none."""
    return kernel("segments", "log_sums", values)(values, starts, ends)


@segment_logsumexp.backward
def segment_logsumexp_backward(g: Any, saved: Any) -> Gradients:
    return (_shares(saved) * segment_spread(g, saved.starts, saved.ends, saved.values.shape[0]), None, None)


@segment_logsumexp.fast_backward
def segment_logsumexp_fast_backward(g: Any, saved: Any) -> Gradients:
    run = kernel("segments", "log_sum_gradients", saved.values)
    return (run(g, saved.values, saved.output, saved.starts, saved.ends), None, None)


@segment_logsumexp.jvp
def segment_logsumexp_jvp(tangents: Any, saved: Any) -> Array:
    return segment_sum(_shares(saved) * tangents[0], saved.starts, saved.ends)


def _shares(saved: Any) -> Array:
    """The softmax; 0 in segments that are -inf as a whole."""
    x = saved.values
    return exp_difference(x, segment_spread(saved.output, saved.starts, saved.ends, x.shape[0]))


@composed(out=None)
def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Array:
    """The sum, mean, maximum, minimum or product of each segment of `axis`; segments lie behind one another.

    An empty segment gives 0, NaN, -inf, inf or 1; with `initial`, that number. Elements that tie for an extreme share the gradient.

    Args:
        data: of a floating dtype.
        reduce: "sum", "mean", "max", "min" or "prod".
        lengths (..., S): of the segments; in front the dims of `data` before `axis`, each with segments of its own.
        offsets (..., S + 1): instead of lengths, where segments begin, and where the last one ends.
        indices: not supported, as in PyTorch.
        unsafe: lengths and offsets are not checked.
        initial: takes part in every reduction, once for each segment.
    Returns:
        `data` with S segments instead of `axis`.
    Raises:
        ShapeError: lengths or offsets that do not fit `data`.
        IndexRangeError: segments that do not cover `axis` (lengths), or are not inside it (offsets).

    >>> dynograd.segment_reduce(tensor([1.0, 2.0, 3.0]), "sum", lengths=tensor([2, 0, 1]))
    tensor([3., 0., 3.])
    """
    who = "segment_reduce"
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if reduce not in ("sum", "mean", "max", "min", "prod"):
        raise RuntimeError(f"{who}: reduce argument must be either sum, prod, mean, max or min, got {reduce!r}.")
    if indices is not None:
        raise NotImplementedError(
            f"{who}: indices based reduction is not supported. Use index_reduce or scatter_reduce, or sort and pass lengths."
        )
    if offsets is None and lengths is None:
        raise ShapeError(f"{who}: Either lengths or offsets must be defined, got neither.")
    check_floating(who, data)
    shape = tuple(data.shape)
    if not shape:
        raise ShapeError(f"{who}: expected data with one dim at least, got a 0-dim tensor. Use data.reshape(1).")
    place = normalize_dim(who, axis, len(shape))
    name, operands = ("lengths", lengths) if offsets is None else ("offsets", offsets)
    operands = _checked(who, name, operands, shape, place)
    size = shape[place]
    starts, ends = _bounds(who, name, operands, size, unsafe)
    outer = 1
    for extent in shape[:place]:
        outer *= extent
    count = operands.shape[-1] - (name == "offsets")
    if place:
        if unsafe:
            starts, ends = clamp_numbers(starts, 0, size), clamp_numbers(ends, 0, size)  # not into the next row
        first_rows = arrays.from_python([row * size for row in range(outer)], dtypes.int64).reshape((*shape[:place], 1))
        first_rows = arrays.to_device(first_rows, arrays.place_of(getattr(data, "array", data)))
        starts, ends = starts + first_rows, ends + first_rows
    starts, ends = reshaped(starts, (outer * count,)), reshaped(ends, (outer * count,))
    inner = 1
    for extent in shape[place + 1 :]:
        inner *= extent
    rows = reshaped(widened(data), (outer * size, inner))
    result = _reduced(rows, reduce, starts, ends, initial)
    return narrowed(reshaped(result, (*shape[:place], count, *shape[place + 1 :])), data)


def _reduced(rows: Any, reduce: str, starts: Any, ends: Any, initial: Any) -> Array:
    if reduce in _EXTREMES:
        result = segment_extreme(rows, starts, ends, reduce)
        if initial is None:
            return result
        return choose(result < initial if reduce == "max" else result > initial, float(initial), result)
    if reduce == "prod":
        result = segment_product(rows, starts, ends)
        return result if initial is None else result * initial
    result = segment_sum(rows, starts, ends)
    result = result if initial is None else result + initial
    if reduce == "sum":
        return result
    lengths = reshaped(ends - starts, (ends.shape[0], 1))
    return result / (lengths if initial is None else choose(lengths > 0, lengths, 1))


# --- arguments -----------------------------------------------------------------------------------------------------------------


def _checked(who: str, name: str, bounds: Any, shape: tuple[int, ...], place: int) -> Array:
    """Lengths or offsets as int64, when their shape fits."""
    array = getattr(bounds, "array", bounds)
    if not hasattr(array, "dtype"):
        raise TypeError(
            f"{who}: argument {name!r} must be Tensor, not {type(bounds).__name__}. Use tensor({bounds!r})."
        )
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{who}: expected {name} of an integer dtype, got {dtypes.of_array(array)}. Use .long().")
    if tuple(bounds.shape)[:-1] != shape[:place] or not bounds.shape:
        raise ShapeError(
            f"{who}: Expected axis to be the last dimension of {name}: shape {(*shape[:place], 'S')} for data of shape {shape} and axis "
            f"{place}, got {tuple(bounds.shape)}."
        )
    if name == "offsets" and not bounds.shape[-1]:
        raise ShapeError(f"{who}: offsets needs one number at least, where the last segment ends, got none.")
    return bounds if array.dtype.num == dtypes.int64.num else convert(bounds, dtypes.int64)


_ANY = 2**62  # `unsafe` leaves ends unchecked, but no length may be negative, as in PyTorch


def _bounds(who: str, name: str, bounds: Any, size: int, unsafe: bool) -> tuple[Any, Any]:
    """(starts, ends) of segments within a row of `size` elements."""
    if name == "offsets":
        starts, ends = get_basic(bounds, (..., slice(0, -1))), get_basic(bounds, (..., slice(1, None)))
        if not unsafe:
            _check_values(who, "offsets", bounds, 0, size, f"axis has {size} elements")
        most = size if not unsafe else _ANY
        _check_values(who, "a length, between two offsets,", ends - starts, 0, most, "offsets must not fall")
        return starts, ends
    ends = cumsum(bounds, -1)
    if unsafe:
        _check_values(who, "lengths", bounds, 0, _ANY, "no segment is shorter than that")
    else:
        _check_values(who, "lengths", bounds, 0, size, f"axis has {size} elements")
        if bounds.shape[-1]:
            last = get_basic(ends, (..., -1))
            _check_values(who, "the sum of lengths", last, size, size, "lengths cover axis exactly unless unsafe=True")
    return ends - bounds, ends


def _check_values(who: str, what: str, values: Any, low: int, high: int, why: str) -> None:
    array = arrays.all_values(getattr(values, "array", values))
    if not array.size:
        return
    wrong = kernel("indexing", "out_of_range", array)(array, low, high + 1, f"{who}: {what}")
    if wrong is not None:
        raise IndexRangeError(
            f"{who}: expected {what} to be {low}{f' to {high}' if high > low else ''}, got {wrong[0]} (at position {list(wrong[1])}): {why}."
        )
