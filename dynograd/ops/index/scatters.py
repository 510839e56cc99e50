"""Reading and writing along one dim at an index that has the shape of what is read or written: `gather`, `scatter` and their like."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array, literals
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes, normalize_dim
from dynograd.base.values import has_own_values
from dynograd.errors import DtypeError, ShapeError, refusal
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import divide, floor_divide
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.index.indices import check_range
from dynograd.ops.layout.broadcasting import convert, stretch
from dynograd.ops.layout.conversions import clone
from dynograd.ops.layout.views import ravel, reshaped
from dynograd.ops.op import Gradients, composed, op, shortcut

__all__ = ["gather", "scatter", "scatter_add", "scatter_reduce", "take_along_dim"]


# --- gather ------------------------------------------------------------------------------------------------------------------


@op(name="gather", linear=True, saves="input.shape index", out="exact apart", ragged="places")
def gathered(input: Array, dim: int, index: Array) -> Array:
    """`input` at `index` along `dim` (counted from the front). On the CPU an index outside raises IndexError, elsewhere it has been checked."""
    return kernel("scatters", "gather", input)(input, dim, index)


@gathered.backward
def gathered_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (spread(g, dim, saved.index, saved.input_shape), None)


@op(name="gather_backward", linear=True, saves="index", inner=True)
def spread(g: Array, dim: int, index: Array, shape: tuple[int, ...]) -> Array:
    """Zeros of `shape` with `g` added at `index` along `dim`."""
    return kernel("scatters", "gather_backward", g)(g, dim, index, shape)


@spread.backward
def spread_backward(g: Any, saved: Any, dim: Any, shape: Any) -> Gradients:
    return (gathered(g, dim, saved.index), None)


def _quick_gather(compute: Any, input: Any, dim: Any, index: Any) -> tuple | None:
    if input.ndim == 2 == index.ndim:
        place = dim if dim >= 0 else dim + 2
        return compute(input, place, index), (place,)
    return None


@composed(covers="gather", method=True, ragged="places")
@shortcut(gathered, _quick_gather, compute="scatters.gather_few", misses=(IndexError,))
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Array:
    """`output[i][j][k] = input[i][index[i][j][k]][k]` for `dim=1`: picks along `dim`, in the shape of `index`.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        index: integers from 0; as many dims as `input`, and no larger than it outside `dim`.
        sparse_grad: accepted for PyTorch's sake.
    Returns:
        A tensor of the shape of `index`, in `input`'s dtype.
    Raises:
        IndexRangeError: an index outside `dim`.

    >>> dynograd.gather(tensor([[1, 2], [3, 4]]), 1, tensor([[0], [1]]))
    tensor([[1],
            [4]])
    """
    own = _is_checked_by_kernel(index)
    place = _check_index("gather", input, dim, index, not own)
    if not input.ndim or not index.ndim:
        return reshaped(gathered(ravel(input), 0, ravel(index)), tuple(index.shape))
    try:
        return gathered(input, place, index)
    except IndexError as error:
        raise (own and refusal(_check_index, "gather", input, dim, index)) or error from None


_INT64 = dtypes.int64.num


def _is_checked_by_kernel(index: Any) -> bool:
    """Whether the kernels read the values of `index` themselves, and raise IndexError."""
    array = getattr(index, "array", None)
    return type(array) is arrays.ndarray and array.size >= _LARGE


_LARGE = 1 << 15  # below, a check beforehand costs less than the second call that explains


def _check_index(who: str, input: Any, dim: int, index: Any, values: bool = True) -> int:
    """`dim` counted from the front, when `index` fits `input` along it; its values are looked at if `values` says so."""
    shape = tuple(getattr(input, "array", input).shape)
    array = getattr(index, "array", index)
    place = dim if type(dim) is int and 0 <= dim < len(shape) else normalize_dim(who, dim, len(shape))
    if not hasattr(array, "dtype"):
        raise TypeError(f"{who}: argument 'index' must be Tensor, not {type(index).__name__}.")
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{who}: Expected dtype int32/int64 for index, got {index.dtype}. Convert with .long().")
    if not array.size:
        return place
    if array.ndim != len(shape) and max(array.ndim, len(shape)) > 1:
        raise ShapeError(
            f"{who}: Index tensor must have the same number of dimensions as input tensor, got {array.ndim} (shape {array.shape}) and "
            f"{len(shape)} (shape {shape}). Use unsqueeze, or index_select for one index per slice."
        )
    for axis, (own, size) in enumerate(zip(array.shape, shape, strict=False)):
        if own > size and axis != place:
            raise ShapeError(
                f"{who}: Size does not match at dimension {axis}: expected index {list(array.shape)} to be no larger than self "
                f"{list(shape)} apart from dimension {place}."
            )
    if values:
        check_range(who, array, place, shape, negative=False)
    return place


@composed(method=True, out="apart", ragged="places")
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Array:
    """`gather` whose `indices` broadcast against `input` and may be negative; without `dim`, over the flattened tensor.

    Args:
        input: tensor of any shape.
        indices: integers, with as many dims as `input`.
        dim: which dim; negative counts from the end.
    Returns:
        The broadcast shape, with the size of `indices` in `dim`.
    Raises:
        ShapeError: `indices` has another number of dims.

    >>> x = tensor([[3, 1, 2]])
    >>> dynograd.take_along_dim(x, tensor([[1, 2, 0]]), 1)
    tensor([[1, 2, 3]])
    """
    if dim is None:
        return take_along_dim(ravel(input), ravel(indices), 0)
    array, source = getattr(indices, "array", indices), getattr(input, "array", input)
    if type(array) is arrays.ndarray is type(source) and array.ndim == 2 == source.ndim and dim in (0, 1):
        if array.shape[1 - dim] == source.shape[1 - dim] and array.dtype.num == _INT64:
            try:
                return gathered(input, dim, indices)
            except IndexError:
                pass  # negative, or outside
    place = normalize_dim("take_along_dim", dim, input.ndim)
    if array.ndim != input.ndim:
        raise ShapeError(
            f"take_along_dim: input and indices should have the same number of dimensions, but got {input.ndim} dimensions for input, "
            f"and {array.ndim} dimensions for indices."
        )
    if array.dtype.kind not in "iu":
        raise DtypeError(
            f"take_along_dim: dtype of indices should be Long but got {indices.dtype}. Convert with .long()."
        )
    shape, picks = tuple(input.shape), tuple(array.shape)
    common = broadcast_shapes(
        "take_along_dim", (*shape[:place], 1, *shape[place + 1 :]), (*picks[:place], 1, *picks[place + 1 :])
    )
    check_range("take_along_dim", array, place, shape)
    stretched = stretch(input, (*common[:place], shape[place], *common[place + 1 :]))
    if not has_own_values(indices):
        positive = indices % shape[place]
    else:
        positive = kernel("scatters", "wrapped", array)(array, shape[place])
    return gathered(stretched, place, stretch(positive, (*common[:place], picks[place], *common[place + 1 :])))


# --- scatter -----------------------------------------------------------------------------------------------------------------


@op(name="scatter", inplace=True, linear=True, saves="index", ragged="places")
def written(input: Array, dim: int, index: Array, src: Array | None) -> Array:
    """A copy of `input` with `src` (of index's shape; None: zeros) written at `index` along `dim`."""
    return kernel("scatters", "scatter", input)(input, dim, index, 0 if src is None else src)


@written.backward
def written_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (
        written(g, dim, saved.index, None) if saved.needs(0) else None,
        None,
        gathered(g, dim, saved.index) if saved.needs(2) else None,
    )


@op(name="scatter_add", inplace=True, linear=True, saves="index", cast={"cuda": "widest"}, ragged="places")
def added(input: Array, dim: int, index: Array, src: Array) -> Array:
    """A copy of `input` with `src` (of index's shape) added at `index` along `dim`."""
    return kernel("scatters", "scatter_add", input)(input, dim, index, src)


@added.backward
def added_backward(g: Any, saved: Any, dim: Any) -> Gradients:
    return (g, None, gathered(g, dim, saved.index) if saved.needs(2) else None)


@op(name="scatter_number", saves="index", ragged="places")
def write_number(input: Array, dim: int, index: Array, value: float) -> Array:
    """A copy of `input` with a number written at `index` along `dim`."""
    return kernel("scatters", "scatter", input)(input, dim, index, value)


@write_number.backward
def write_number_backward(g: Any, saved: Any, dim: Any, value: Any) -> Gradients:
    return written(g, dim, saved.index, None), None


@write_number.jvp
def write_number_jvp(tangents: Any, saved: Any, dim: Any, value: Any) -> Array:
    return written(tangents[0], dim, saved.index, None)


def _quick_scatter_by_written(
    compute: Any, input: Any, dim: Any, index: Any, src: Any, value: Any, reduce: Any
) -> tuple | None:
    if input.size < 4096 and index.ndim == input.ndim and reduce is None and value is None:
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place, index, src), (place,)
    return None


def _quick_scatter_by_write_number(
    compute: Any, input: Any, dim: Any, index: Any, number: Any, value: Any, reduce: Any
) -> tuple | None:
    if (
        input.size < 4096
        and index.ndim == input.ndim
        and reduce is None
        and value is None
        and type(number) in (int, float)
    ):
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place, index, number), (place, number)
    return None


@composed(covers="scatter", method=True, ragged="places")
@shortcut(written, _quick_scatter_by_written, compute="writes.scattered", misses=(IndexError,))
@shortcut(write_number, _quick_scatter_by_write_number, compute="writes.scattered", misses=(IndexError,), number="src")
def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Array:
    """A copy of `input` with `output[i][index[i][j]] = src[i][j]` (for `dim=1`): the inverse of `gather`.

    Where several elements go to one place, the last one stays.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        index: integers from 0; as many dims as `input`.
        src: a tensor at least as large as `index`, or a number; `value` is another name for the number.
        value: number, instead of `src`.
        reduce: "add" or "multiply" combines with what is there instead.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        IndexRangeError: an index outside `dim`.
        DtypeError: `src` has another dtype.

    >>> dynograd.scatter(dynograd.zeros(2, 3), 1, tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError(
            f"scatter: reduce argument must be either add or multiply, got {reduce!r}. Use scatter_reduce."
        )
    if reduce is not None:
        combine = scatter_add if reduce == "add" else _scatter_multiply
        return combine(input, dim, index, _source("scatter", input, index, src, value))
    operands = value if src is None else src
    if type(operands) in (int, float, bool) and input.ndim:
        operands = literals.fitting(operands, dtypes.of_array(getattr(input, "array", input)))
        return write_number(input, _check_index("scatter", input, dim, index), index, operands)
    return _scattered("scatter", written, input, dim, index, _source("scatter", input, index, src, value))


def _scatter_multiply(input: Any, dim: int, index: Any, src: Any) -> Array:
    return scatter_reduce(input, dim, index, src, "prod")


def _source(who: str, input: Any, index: Any, src: Any, value: Any) -> Array:
    """`src` as a tensor: numbers are stretched to the shape of `index`."""
    operands = value if src is None else src
    if operands is None:
        raise TypeError(f"{who}: expected src (a Tensor) or value (a number), got neither.")
    if not hasattr(operands, "dtype"):
        operands = arrays.from_python(operands, input.dtype if hasattr(input, "array") else None)
        operands = arrays.to_device(operands, arrays.place_of(getattr(input, "array", input)))
    elif operands.ndim == 0 and len(index.shape):
        pass
    else:
        return operands
    return stretch(operands, tuple(index.shape))


def _scattered(who: str, function: Any, input: Any, dim: int, index: Any, src: Any, *options: Any) -> Array:
    """Checks what every scatter checks, and calls the op on matching shapes."""
    own = _is_checked_by_kernel(index)
    place = _check_index(who, input, dim, index, not own)
    kinds = [getattr(operand, "array", operand).dtype for operand in (input, src)]
    if kinds[0] != kinds[1]:
        raise DtypeError(
            f"{who}(): Expected self.dtype to be equal to src.dtype, got {kinds[0]} and {kinds[1]}. Convert src with .to()."
        )
    index_shape, source_shape = tuple(index.shape), tuple(src.shape)
    if 0 in index_shape and input.ndim:  # of whatever number of dims
        nowhere = reshaped(index, (0,) * input.ndim)
        return function(input, place, nowhere, convert(nowhere, input.dtype), *options)
    if index_shape != source_shape:
        if len(index_shape) != len(source_shape) or any(
            [own > size for own, size in zip(index_shape, source_shape, strict=True)]
        ):
            raise ShapeError(
                f"{who}: Expected index {list(index_shape)} to be no larger than self {list(input.shape)} apart from dimension {place} and to "
                f"be no larger size than src {list(source_shape)}."
            )
        src = get_basic(src, tuple([slice(size) for size in index_shape]))
    if not index_shape:
        index, src = ravel(index), ravel(src)
    if not input.ndim:
        return reshaped(function(clone(reshaped(input, (1,))), 0, ravel(index), ravel(src), *options), ())
    try:
        return function(input, place, index, src, *options)
    except IndexError as error:
        raise (own and refusal(_check_index, who, input, dim, index)) or error from None


def _quick_scatter_add(compute: Any, input: Any, dim: Any, index: Any, src: Any) -> tuple | None:
    if input.size < 4096 and index.ndim == input.ndim:
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place, index, src), (place,)
    return None


@composed(covers="scatter_add", method=True, ragged="places")
@shortcut(added, _quick_scatter_add, compute="writes.scatter_added", misses=(IndexError,))
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Array:
    """A copy of `input` with `output[i][index[i][j]] += src[i][j]` (for `dim=1`).

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        index: integers from 0; as many dims as `input`.
        src: tensor of `input`'s dtype, at least as large as `index`.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        IndexRangeError: an index outside `dim`.

    >>> dynograd.scatter_add(dynograd.zeros(2), 0, tensor([0, 0, 1]), tensor([1.0, 2.0, 3.0]))
    tensor([3., 3.])
    """
    return _scattered("scatter_add", added, input, dim, index, src)


@op(name="scatter_reduce", inplace=True, saves="input index src output", ragged="places")
def reduced(input: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool) -> Array:
    """A copy of `input` with the `prod`, `amax` or `amin` of what `src` (of index's shape) puts at each place."""
    return kernel("scatters", "scatter_reduce", input)(input, dim, index, src, reduce, include_self)


@reduced.backward
def reduced_backward(g: Any, saved: Any, dim: Any, reduce: Any, include_self: Any) -> Gradients:
    x, index, src = saved.input, saved.index, saved.src
    alone = written(ones_of(x), dim, index, None)  # 1 where nothing is scattered
    if reduce == "prod":
        return _product_backward(g, x, dim, index, src, include_self, alone)
    ours = ties(src, gathered(saved.output, dim, index))
    own = ties(x, saved.output) if include_self else alone
    share = divide(g, added(own, dim, index, ours))
    return share * own, None, gathered(share, dim, index) * ours


def _product_backward(
    g: Any, x: Any, dim: int, index: Any, src: Any, include_self: bool, alone: Any
) -> tuple[Array, None, Array]:
    """Each factor gets the product of the others: of the nonzero ones, where no other one is zero."""
    zero_src, zero_x = ties(src, src * 0), ties(x, x * 0)
    if not include_self:
        zero_x = zero_x * alone
        x = x * alone + (1 - alone)
    zeros = added(zero_x, dim, index, zero_src)
    full_src, full_x = src + zero_src, x + zero_x
    product = g * reduced(full_x, dim, index, full_src, "prod", True)
    others_src, others_x = gathered(zeros, dim, index) - zero_src, zeros - zero_x
    g_src = divide(gathered(product, dim, index), full_src) * ties(others_src, others_src * 0)
    g_x = divide(product, full_x) * ties(others_x, others_x * 0)
    return (g_x if include_self else g_x * alone), None, g_src


@op(differentiable=False)
def ties(input: Array, other: Array) -> Array:
    """1 where the two are equal, else 0, in the dtype of `input`."""
    return kernel("scatters", "ties", input)(input, other)


@op(differentiable=False, ragged="packed")
def ones_of(input: Array) -> Array:
    """Ones in the shape and dtype of `input`."""
    return arrays.ones_like(input)


def _quick_scatter_reduce_by_reduced(
    compute: Any, input: Any, dim: Any, index: Any, src: Any, reduce: Any, include_self: Any
) -> tuple | None:
    if input.size < 4096 and index.ndim == input.ndim and include_self is True and reduce in ("prod", "amax", "amin"):
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place, index, src, reduce), (place, reduce, True)
    return None


def _quick_scatter_reduce_by_added(
    compute: Any, input: Any, dim: Any, index: Any, src: Any, reduce: Any, include_self: Any
) -> tuple | None:
    if input.size < 4096 and index.ndim == input.ndim and include_self is True and reduce == "sum":
        place = dim if dim >= 0 else dim + input.ndim
        return compute(input, place, index, src, reduce), (place,)
    return None


@composed(covers="scatter_reduce", method=True, ragged="places")
@shortcut(reduced, _quick_scatter_reduce_by_reduced, compute="writes.scatter_reduced", misses=(IndexError,))
@shortcut(added, _quick_scatter_reduce_by_added, compute="writes.scatter_reduced", misses=(IndexError,))
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Array:
    """A copy of `input` in which each place named by `index` holds the reduction of the elements of `src` that go there.

    A maximum or minimum shared by several elements shares its gradient equally. Second derivatives of `prod` are exact where no
    factor is zero.

    Args:
        input: tensor of any shape.
        dim: which dim; negative counts from the end.
        index: integers from 0; as many dims as `input`.
        src: tensor of `input`'s dtype, at least as large as `index`.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether the value of `input` at the place takes part.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        IndexRangeError: an index outside `dim`.

    >>> dynograd.scatter_reduce(dynograd.zeros(2), 0, tensor([0, 0, 1]), tensor([1.0, 3.0, 2.0]), "amax")
    tensor([3., 2.])
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"scatter_reduce: reduce argument must be either sum, prod, mean, amax or amin, got {reduce}."
        )
    if reduce in ("prod", "amax", "amin"):
        return _scattered("scatter_reduce", reduced, input, dim, index, src, reduce, bool(include_self))
    return _scattered("scatter_reduce", _sum_or_mean, input, dim, index, src, reduce, include_self)


def _sum_or_mean(input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> Array:
    if not include_self:
        input = written(input, dim, index, None)
    total = added(input, dim, index, src)
    if reduce == "sum":
        return total
    alone = ones_of(input)
    if include_self:
        counts = added(alone, dim, index, ones_of(src))
    else:
        counts = added(written(alone, dim, index, None), dim, index, ones_of(src))
        counts = counts + ties(counts, counts * 0)
    whole = getattr(total, "array", total).dtype.kind in "iu"
    return floor_divide(total, counts) if whole else divide(total, counts)
