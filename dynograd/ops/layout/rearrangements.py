"""The same elements in another order, or several times: `flip`, `roll`, `rot90`, `repeat`, `repeat_interleave`."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import as_shape, check_sizes, check_whole, normalize_dim, normalize_dims, whole_number
from dynograd.errors import DimError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.layout.conversions import copied
from dynograd.ops.layout.views import ravel, reshaped, transpose
from dynograd.ops.op import Gradients, composed, op, shortcut
from dynograd.ops.row import Row

__all__ = ["flip", "fliplr", "flipud", "repeat_interleave", "roll", "rot90", "tile"]

FAMILY = Row(out=None)


@op(name="flip", linear=True)
def flipped(input: Array, dims: tuple[int, ...]) -> Array:
    """A copy with the order along `dims` (counted from the front) reversed."""
    return kernel("rearrangements", "flip", input)(input, dims)


@flipped.backward
def flipped_backward(g: Any, saved: Any, dims: Any) -> Gradients:
    return (flipped(g, dims),)


def _quick_flip(compute: Any, input: Any, order: Any, dims: Any) -> tuple | None:
    if len(order) == 1 and type(order[0]) is int and -input.ndim <= order[0] < input.ndim and dims is None:
        (dim,) = order
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place), ((place,),)
    return None


@composed(covers="flip", method=True, ragged="levels")
@shortcut(flipped, _quick_flip, compute="rearrangements.flip_few")
def flip(input: Any, *order: Any, dims: Any = None) -> Array:
    """A copy with the order of the elements along `dims` reversed.

    Args:
        input: tensor of any shape.
        order: the dims, as numbers.
        dims: the same, as a tuple.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: a dim appears twice.

    >>> dynograd.flip(tensor([1, 2, 3]), (0,))
    tensor([3, 2, 1])
    """
    if dims is None and not order:
        raise TypeError(
            "flip: missing 1 required argument: 'dims'. Write flip(0), or flip(tuple(range(x.ndim))) for all dims."
        )
    named = as_shape("flip", order if dims is None else (tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)))
    places = normalize_dims("flip", named, input.ndim) if named else ()
    return flipped(input, places if input.ndim else ())


@composed(method=True, ragged="levels")
def fliplr(input: Any) -> Array:
    """A copy with the columns (second dim) in reverse order.

    Args:
        input: tensor of at least two dims.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.fliplr(tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    _check_rank("fliplr", input, 2)
    return flipped(input, (1,))


@composed(method=True)
def flipud(input: Any) -> Array:
    """A copy with the rows (first dim) in reverse order.

    Args:
        input: tensor of at least one dim.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.flipud(tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    _check_rank("flipud", input, 1)
    return flipped(input, (0,))


def _check_rank(who: str, input: Any, rank: int) -> None:
    if input.ndim < rank:
        raise ShapeError(f"{who}: Input must be >= {rank}-d, got shape {tuple(input.shape)}.")


@op(name="roll", linear=True)
def rolled(input: Array, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Array:
    """A copy moved by `shifts` along `dims` (counted from the front)."""
    return kernel("rearrangements", "roll", input)(input, shifts, dims)


@rolled.backward
def rolled_backward(g: Any, saved: Any, shifts: Any, dims: Any) -> Gradients:
    return (rolled(g, tuple([-shift for shift in shifts]), dims),)


def _quick_roll(compute: Any, input: Any, shifts: Any, dims: Any) -> tuple | None:
    if type(shifts) is int and type(dims) is int and -input.ndim <= dims < input.ndim:
        place = dims if dims >= 0 else dims + input.ndim
        return compute(input, shifts, place), ((shifts,), (place,))
    return None


@composed(covers="roll", method=True)
@shortcut(rolled, _quick_roll, compute="rearrangements.roll_few")
def roll(input: Any, shifts: Any, dims: Any = None) -> Array:
    """A copy moved by `shifts` along `dims`; what falls off one end comes back at the other. Without `dims`, over all elements.

    Args:
        input: tensor of any shape.
        shifts: an int, or one for each dim; negative ones move to the front.
        dims: an int or several; None: over all elements.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: not one shift for each dim.

    >>> dynograd.roll(tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    moves = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
    named = () if dims is None else tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if not moves:
        raise ShapeError("roll: `shifts` required, got none.")
    for move in moves:
        check_whole("roll", shifts=move)
    if not named and len(moves) == 1:
        return reshaped(rolled(ravel(input), moves, (0,)), tuple(input.shape))
    if len(moves) != len(named):
        raise ShapeError(f"roll: shifts and dimensions must align. shifts: {len(moves)}, dims: {len(named)}.")
    if not input.ndim:
        raise DimError(f"roll: dimension specified as {named[0]} but tensor has no dimensions. Leave `dims` out.")
    return rolled(input, moves, tuple([normalize_dim("roll", dim, input.ndim) for dim in named]))


@composed(method=True)
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Array:
    """A copy rotated `k` times by 90 degrees, from the first of `dims` towards the second.

    Args:
        input: tensor of at least two dims.
        k: an int; negative ones turn the other way.
        dims: two dims.
    Returns:
        `input`'s shape, with these dims exchanged for odd `k`.

    >>> dynograd.rot90(tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise ShapeError(f"rot90: expected total rotation dims == 2, but got dims = {len(dims)}.")
    _check_rank("rot90", input, 2)
    first, second = [normalize_dim("rot90", dim, input.ndim) for dim in dims]
    if first == second:
        raise ShapeError(
            f"rot90: expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}."
        )
    turns = whole_number("rot90", "k", k) % 4
    if turns == 1:
        return transpose(flipped(input, (second,)), first, second)
    if turns == 3:
        return flipped(transpose(input, first, second), (second,))
    return flipped(input, (first, second)) if turns else copied(input)


@op(name="repeat", linear=True, saves="input.shape")
def repeated(input: Array, repeats: tuple[int, ...]) -> Array:
    """Copies of `input` side by side; as many dims as `repeats`."""
    return kernel("rearrangements", "repeat", input)(input, repeats)


@repeated.backward
def repeated_backward(g: Any, saved: Any, repeats: Any) -> Gradients:
    return (sum_repeats(g, saved.input_shape, repeats),)


@op(name="repeat_backward", linear=True, inner=True)
def sum_repeats(g: Array, shape: tuple[int, ...], repeats: tuple[int, ...]) -> Array:
    """The sum of the copies that `repeat` made of an array of `shape`."""
    return kernel("rearrangements", "repeat_backward", g)(g, shape, repeats)


@sum_repeats.backward
def sum_repeats_backward(g: Any, saved: Any, shape: Any, repeats: Any) -> Gradients:
    return (repeated(g, repeats),)


@composed(covers="repeat", method=True)
def repeat(input: Any, *sizes: Any, repeats: Any = None) -> Array:
    """A copy with the whole tensor repeated `repeats[i]` times along each dim; more repeats than dims add dims in front.

    Args:
        input: tensor of any shape.
        sizes: the repeats, as numbers.
        repeats: the same, as a tuple.
    Returns:
        `input`'s shape, each size times its repeat.
    Raises:
        ShapeError: fewer repeats than dims, or a negative one.

    >>> tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    counts = as_shape("repeat", sizes if repeats is None else (tuple(repeats),))
    lead = len(counts) - input.ndim
    if lead < 0:
        raise ShapeError(
            f"repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: got {counts} for "
            f"shape {tuple(input.shape)}. Use tile, or name every dim."
        )
    if min(counts, default=0) < 0:
        raise ShapeError(f"repeat: repeats must not be negative, got {counts}.")
    padded = (*(1,) * lead, *input.shape)
    check_sizes("repeat", tuple([size * count for size, count in zip(padded, counts)]))
    return repeated(reshaped(input, padded) if lead else input, counts)


@composed(method=True)
def tile(input: Any, *sizes: Any, dims: Any = None) -> Array:
    """A copy with the whole tensor repeated along its last dims; missing repeats in front are 1.

    Args:
        input: tensor of any shape.
        sizes: the repeats, as numbers.
        dims: the same, as a tuple.
    Returns:
        `input`'s shape, each size times its repeat.

    >>> dynograd.tile(tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
    """
    counts = as_shape("tile", sizes if dims is None else (tuple(dims),))
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


@op(name="repeat_interleave", linear=True, saves="input.shape", inner=True)
def interleaved(input: Array, repeats: int, dim: int) -> Array:
    """Each slice of `input` along `dim` `repeats` times in a row."""
    return kernel("rearrangements", "repeat_rows", input)(input, repeats, dim)


@interleaved.backward
def interleaved_backward(g: Any, saved: Any, repeats: Any, dim: Any) -> Gradients:
    return (sum_interleaved(g, repeats, dim, saved.input_shape[dim]),)


@op(name="repeat_interleave_backward", linear=True, inner=True)
def sum_interleaved(g: Array, repeats: int, dim: int, size: int) -> Array:
    """The sum of each run of `repeats` slices along `dim`, `size` in all."""
    return kernel("rearrangements", "sum_equal_runs", g)(g, repeats, dim, size)


@sum_interleaved.backward
def sum_interleaved_backward(g: Any, saved: Any, repeats: Any, dim: Any, size: Any) -> Gradients:
    return (interleaved(g, repeats, dim),)


@op(name="repeat_rows", linear=True, saves="repeats", at_once="the shape of its result depends on values")
def repeated_rows(input: Array, repeats: Array, dim: int) -> Array:
    """Slice i of `input` along `dim` `repeats[i]` times in a row."""
    return kernel("rearrangements", "repeat_rows", input)(input, repeats, dim)


@repeated_rows.backward
def repeated_rows_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (sum_runs(g, saved.repeats, dim), None)


@op(linear=True, saves="repeats", inner=True)
def sum_runs(g: Array, repeats: Array, dim: int) -> Array:
    """The sum of each run of `repeats[i]` slices along `dim`: the transpose of `repeat_rows`."""
    return kernel("rearrangements", "sum_runs", g)(g, repeats, dim)


@sum_runs.backward
def sum_runs_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (repeated_rows(g, saved.repeats, dim), None)


@composed(covers="repeat_interleave", method=True)
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Array:
    """Each slice along `dim` repeated in place; without `dim`, each element of the flattened tensor.

    Args:
        input: tensor of any shape.
        repeats: a number, or an integer tensor with one number per slice. When it is left out, `input` itself holds the numbers and
            the result is i repeated input[i] times.
        dim: which dim; None: the flattened tensor.
        output_size: the sum of the repeats, when it is known.
    Returns:
        `input`'s shape, with the sum of the repeats in `dim`.
    Raises:
        ShapeError: not one repeat per slice, or a negative one; `output_size` is not the sum.

    >>> dynograd.repeat_interleave(tensor([1, 2]), tensor([1, 3]))
    tensor([1, 2, 2, 2])
    """
    if repeats is None:
        positions = kernel("creation", "arange", 0)(0, 1, input.shape[0], dtypes.int64.numpy)
        result = repeated_rows(positions, _checked_repeats(input, input.shape[0]), 0)
        return result if output_size is None else _of_size(result, output_size, 0)
    if dim is None:
        input, dim = ravel(input), 0
    elif not input.ndim:
        input = reshaped(input, (1,))
    place = normalize_dim("repeat_interleave", dim, input.ndim)
    result = _interleaved(input, repeats, place)
    return result if output_size is None else _of_size(result, output_size, place)


def _interleaved(input: Any, repeats: Any, place: int) -> Array:
    if hasattr(repeats, "shape"):
        size = input.shape[place]
        checked = _checked_repeats(repeats, size)
        if checked.shape[0] == size:
            return repeated_rows(input, checked, place)
        repeats = int(checked)
    if isinstance(repeats, (tuple, list)):
        counts = arrays.from_python(list(repeats), None)
        counts = arrays.to_device(counts, arrays.place_of(getattr(input, "array", input)))
        return repeated_rows(input, _checked_repeats(counts, input.shape[place]), place)
    if repeats < 0:
        raise ShapeError(f"repeat_interleave: repeats can not be negative, got {repeats}.")
    return interleaved(input, repeats.__index__(), place)


def _of_size(result: Any, output_size: Any, place: int) -> Array:
    """`result`, whose size the caller has foretold."""
    check_whole("repeat_interleave", output_size=output_size)
    if result.shape[place] != output_size:
        raise ShapeError(
            f"repeat_interleave: allocated size does not match required size: output_size={output_size}, but the repeats sum to "
            f"{result.shape[place]}. Leave output_size away."
        )
    return result


def _checked_repeats(repeats: Any, size: int) -> Array:
    array = getattr(repeats, "array", repeats)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise ShapeError(
            f"repeat_interleave: repeats has to be a 0-dim or 1-dim integer tensor, got shape {tuple(array.shape)} of {array.dtype}."
        )
    if not array.ndim:
        repeats = reshaped(repeats, (1,))
    if array.size not in (1, size):
        raise ShapeError(
            f"repeat_interleave: repeats must have the same size as input along dim, but got repeats.size(0) = {array.size} and "
            f"input.size(0) = {size}."
        )
    if array.size and array.min() < 0:
        raise ShapeError(f"repeat_interleave: repeats can not be negative, got {int(array.min())}.")
    return repeats
