"""Sums, means, products and truth over dims. Their arguments: `dim` is an int, several ints, or None for all dims."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import as_shape, reduced_dims, sizes_by_name
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import KernelOfType, kernel
from dynograd.ops.argument_kinds import Axis, Dim, Dims, Dtype, Keepdims, SomeDims
from dynograd.ops.elementwise.choices import where
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.index.indices import FULL
from dynograd.ops.layout.broadcasting import convert, stretch, sum_to
from dynograd.ops.layout.joins import joined
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, composed, op, registry

__all__ = ["all", "any", "count_nonzero", "logsumexp", "mean", "nanmean", "nansum", "prod", "sum"]


def kept(reduced: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Array:
    """A result of a reduction over `shape` with the reduced dims put back as size 1."""
    if keepdim or dim is None:
        return reduced
    dims = dim if type(dim) is tuple else (dim,)
    return reshaped(reduced, tuple([1 if place in dims else size for place, size in enumerate(shape)]))


def floating(input: Any) -> Array:
    """`input`, integers as the default float dtype."""
    return convert(input, dtypes.get_default_dtype()) if getattr(input, "array", input).dtype.kind in "iub" else input


REAL = "?bBhHiIlLqQefd"  # letters of NumPy's own dtypes, which its reductions know
LETTERS = REAL + "FD"


# --- sums ----------------------------------------------------------------------------------------------------------------


@op(
    method=True,
    linear=True,
    saves="input.shape",
    out="exact dtype",
    few="reductions.sum",
    few_dtypes=LETTERS,
    cast={"cuda": "wide"},
    uneven=True,
)
def sum(
    input: Array,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Dtype = None,
    axis: Axis = None,
    keepdims: Keepdims = None,
) -> Array:
    """The sum of all elements, or over `dim` (an int or several). Booleans and integers sum in int64.

    Args:
        input: tensor of any shape.
        dim: an int or several; None or () for all.
        keepdim: keep the reduced dims, with size 1.
        dtype: converts `input` first.
    Returns:
        `input`'s shape without `dim`.

    >>> dynograd.sum(tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    if input.dtype.itemsize == 1:
        dtypes.refuse_float8("sum", input)
    return kernel("reductions", "sum", input)(input, dim, keepdim)


@sum.backward
def sum_backward(g: Any, saved: Any, dim: Any, keepdim: Any) -> Gradients:
    shape = saved.input_shape
    return (stretch(kept(g, shape, dim, keepdim), shape),)


_SPREAD = KernelOfType("reductions", "spread")


@sum.fast_backward
def sum_fast_backward(g: Any, saved: Any, dim: Any, keepdim: Any) -> Gradients:
    return (_SPREAD[type(g)](g, saved.input_shape, dim, keepdim),)


@op(
    method=True,
    linear=True,
    saves="input.shape",
    out="exact dtype",
    few="reductions.mean_forward",
    few_dtypes="efd",
    uneven=True,
)
def mean(
    input: Array,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Dtype = None,
    axis: Axis = None,
    keepdims: Keepdims = None,
) -> Array:
    """The mean of all elements, or over `dim`; NaN where there are none.

    Args:
        input: floating or complex tensor.
        dim: an int or several; None or () for all.
        keepdim: keep the reduced dims, with size 1.
        dtype: converts `input` first.
    Returns:
        `input`'s shape without `dim`, in its dtype.
    Raises:
        DtypeError: an integer input without `dtype`.

    >>> dynograd.mean(tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([1.5000, 3.5000])
    """
    if input.dtype.kind in "iub":
        raise DtypeError(
            f"mean: could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
            f"{dtypes.of_array(input)}. Use input.float() or pass dtype=dynograd.float32."
        )
    if input.dtype.itemsize == 1:
        dtypes.refuse_float8("mean", input)
    return kernel("reductions", "mean_forward", input)(input, dim, keepdim)


@mean.backward
def mean_backward(g: Any, saved: Any, dim: Any, keepdim: Any) -> Gradients:
    shape = saved.input_shape
    return (stretch(kept(g / (count_of(shape, dim) or 1), shape, dim, keepdim), shape),)


@mean.fast_backward
def mean_fast_backward(g: Any, saved: Any, dim: Any, keepdim: Any) -> Gradients:
    shape = saved.input_shape
    return (kernel("reductions", "spread", g)(g / (count_of(shape, dim) or 1), shape, dim, keepdim),)


def count_of(shape: tuple[int, ...], dim: Any) -> int:
    """How many elements each result is made of."""
    count = 1
    for place in range(len(shape)) if dim is None else dim if type(dim) is tuple else (dim,):
        count *= shape[place]
    return count


@op(saves="input", ragged="packed")
def zero_nan(input: Array) -> Array:
    """`input` with 0 in place of NaN."""
    return kernel("reductions", "zero_nan", input)(input)


@zero_nan.backward
def zero_nan_backward(g: Any, saved: Any) -> Gradients:
    return (g * not_nan(saved.input),)


@op(differentiable=False, ragged="packed")
def not_nan(input: Array) -> Array:
    """1 where `input` is a number and 0 where it is NaN, in the dtype of `input`."""
    return kernel("reductions", "not_nan", input)(input)


@composed(method=True, out="exact")
def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The sum, over `dim` or of everything, with NaN counted as 0.

    Args:
        input: tensor of real numbers.
        dim: an int or several; None for all.
        keepdim: keep the reduced dims, with size 1.
        dtype: converts `input` first.
    Returns:
        `input`'s shape without `dim`.

    >>> dynograd.nansum(tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    kind = getattr(input, "array", input).dtype.kind
    if kind == "c":
        raise DtypeError(
            "nansum: nansum does not support complex inputs. Take input.real and input.imag, or view_as_real(input)."
        )
    if kind in "fV":
        input = zero_nan(input)
    return sum(input, dim, keepdim, dtype=dtype)


@composed(method=True)
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The mean of the elements that are not NaN; NaN where there are none.

    Args:
        input: floating tensor.
        dim: an int or several; None for all.
        keepdim: keep the reduced dims, with size 1.
        dtype: converts `input` first.
    Returns:
        `input`'s shape without `dim`, in its dtype.

    >>> dynograd.nanmean(tensor([1.0, float("nan"), 2.0]))
    tensor(1.5000)
    """
    if getattr(input, "array", input).dtype.kind not in "fV":
        raise DtypeError(
            f"nanmean: expected input to have floating point dtype, got {getattr(input, 'dtype', None)}. Use input.float()."
        )
    return nansum(input, dim, keepdim, dtype=dtype) / sum(not_nan(input), dim, keepdim, dtype=dtype)


@composed(method=True, out=None)
def sum_to_size(input: Any, *sizes: Any, size: Any = None) -> Array:
    """`input` summed over the dims that broadcasting from `size` would have stretched.

    Args:
        input: tensor of any shape.
        sizes: the sizes, as numbers.
        size: the same, as a tuple.
    Returns:
        A tensor of that shape.
    Raises:
        ShapeError: `size` does not broadcast to the shape of `input`.

    >>> dynograd.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    sizes = sizes if size is None else sizes_by_name("sum_to_size", sizes, size)
    target, shape = as_shape("sum_to_size", sizes), tuple(input.shape)
    lead = len(shape) - len(target)
    if lead < 0 or [size for size, full in zip(target, shape[lead:], strict=True) if size not in (1, full)]:
        raise ShapeError(
            f"sum_to_size: size {target} is not expandable to size {shape} of input: aligned from the right, each size must be 1 or "
            f"that of input."
        )
    if target and target == shape:
        return input
    return sum_to(convert(input, dtypes.int64) if getattr(input, "array", input).dtype.kind in "biu" else input, target)


@op(name="count_nonzero", differentiable=False)
def nonzeros(input: Array, dim: Any = None) -> Array:
    """How many elements are not zero, over `dim` (an int or several), or altogether (int64)."""
    return kernel("reductions", "count_nonzero", input)(input, dim)


@composed(covers="count_nonzero", method=True, out=None, aliases={"dim": "axis"})
def count_nonzero(input: Any, dim: Any = None, *dims: Any) -> Array:
    """How many elements are not zero, over `dim` or altogether (int64).

    Args:
        input: tensor of any shape.
        dim: an int or several; None for all.
        dims: further ones, as numbers: `x.count_nonzero(0, 1)` is `x.count_nonzero((0, 1))`.
    Returns:
        `input`'s shape without `dim`, int64.

    >>> dynograd.count_nonzero(tensor([[0, 1], [2, 3]]), dim=0)
    tensor([1, 2])
    """
    places = (dim, *dims) if dims else dim
    return nonzeros(input, None if places is None else reduced_dims("count_nonzero", places, input.ndim))


# --- products ------------------------------------------------------------------------------------------------------------


@op(
    method=True,
    saves="input output",
    out="exact dtype",
    few="reductions.prod_forward",
    few_dtypes=LETTERS,
    cast="wide",
)
def prod(
    input: Array,
    dim: Dim | None = None,
    keepdim: bool = False,
    *,
    dtype: Dtype = None,
    axis: Axis = None,
    keepdims: Keepdims = None,
) -> Array:
    """The product of all elements, or over one `dim`; 1 where there are none. Booleans and integers multiply in int64.

    The gradient is right with any number of zeros.

    Args:
        input: tensor of any shape.
        dim: an int; None for all.
        keepdim: keep the reduced dims, with size 1.
        dtype: converts `input` first.
    Returns:
        `input`'s shape without `dim`.

    >>> dynograd.prod(tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
    tensor([ 2., 12.])
    """
    if input.dtype.itemsize == 1:
        dtypes.refuse_float8("prod", input)
    return kernel("reductions", "prod_forward", input)(input, dim, keepdim)


@prod.fast_backward
def prod_fast_backward(g: Any, saved: Any, dim: Any, keepdim: Any) -> Gradients:
    return (kernel("reductions", "prod_backward", saved.input)(g, saved.input, saved.output, dim, keepdim),)


@prod.decomposition
def prod_by_halves(input: Any, dim: Any, keepdim: bool) -> Array:
    """Halves multiplied with each other until one element is left: right at zeros, in derivatives of any order."""
    rows, place = (reshaped(input, (-1,)), 0) if dim is None else (input, dim)
    size = rows.shape[place]
    while size > 1:
        half = size // 2
        before = (FULL,) * place
        first, second = get_basic(rows, (*before, slice(0, half))), get_basic(rows, (*before, slice(half, 2 * half)))
        left = [get_basic(rows, (*before, slice(2 * half, size)))] if size % 2 else []
        rows = joined([first * second, *left], place) if left else first * second
        size = rows.shape[place]
    if not size:
        return sum(input, dim, keepdim) + 1
    shape = tuple(input.shape)
    if dim is None:
        return reshaped(rows, (1,) * len(shape) if keepdim else ())
    return rows if keepdim else reshaped(rows, (*shape[:place], *shape[place + 1 :]))


# --- truth ---------------------------------------------------------------------------------------------------------------


@op(method=True, differentiable=False, few="reductions.any", few_dtypes=LETTERS)
def any(
    input: Array,
    dim: SomeDims = None,
    keepdim: bool = False,
    *,
    axis: Axis = None,
    keepdims: Keepdims = None,
) -> Array:
    """Whether any element, of all or over `dim`, is not zero (NaN is not); False where there are none. uint8 stays uint8.

    With `dim=()` nothing is reduced: that each element is not zero.

    Args:
        input: tensor of any shape.
        dim: an int or several; None for all.
        keepdim: keep the reduced dims, with size 1.
    Returns:
        `input`'s shape without `dim`, bool.

    >>> dynograd.any(tensor([[False, True], [False, False]]), dim=1)
    tensor([ True, False])
    """
    return kernel("reductions", "any", input)(input, dim, keepdim)


@op(method=True, differentiable=False, few="reductions.all", few_dtypes=LETTERS)
def all(
    input: Array,
    dim: SomeDims = None,
    keepdim: bool = False,
    *,
    axis: Axis = None,
    keepdims: Keepdims = None,
) -> Array:
    """Whether all elements, or all over `dim`, are not zero (NaN is not); True where there are none. uint8 stays uint8.

    Args:
        input: tensor of any shape.
        dim: an int or several; None for all.
        keepdim: keep the reduced dims, with size 1.
    Returns:
        `input`'s shape without `dim`, bool.

    >>> dynograd.all(tensor([[True, True], [False, True]]), dim=1)
    tensor([ True, False])
    """
    return kernel("reductions", "all", input)(input, dim, keepdim)


# --- log of a sum of exponentials ----------------------------------------------------------------------------------------


@op(name="logsumexp", saves="input output", uneven=True)
def logsumexp_dims(input: Array, dim: Any, keepdim: bool) -> Array:
    """log(sum(exp(input))) over `dim`."""
    if input.dtype.itemsize == 1:
        dtypes.refuse_float8("logsumexp", input)
    return kernel("softmaxes", "logsumexp_forward", input)(input, dim, keepdim)


@logsumexp_dims.backward
def logsumexp_backward(g: Any, saved: Any, dim: Any, keepdim: Any) -> Gradients:
    x = saved.input
    shape = tuple(x.shape)
    return (kept(g, shape, dim, keepdim) * exp_difference(x, kept(saved.output, shape, dim, keepdim)),)


@logsumexp_dims.fast_backward
def logsumexp_fast_backward(g: Any, saved: Any, dim: Any, keepdim: Any) -> Gradients:
    return (kernel("softmaxes", "logsumexp_backward", saved.input)(g, saved.input, saved.output, dim, keepdim),)


@op(saves="output level.shape")
def exp_difference(input: Array, level: Array) -> Array:
    """exp(input - level), where `level` broadcasts; 0 where `level` is -inf."""
    return kernel("softmaxes", "exp_difference", input)(input, level)


@exp_difference.backward
def exp_difference_backward(g: Any, saved: Any) -> Gradients:
    part = g * saved.output
    return part, sum_to(-part, saved.level_shape) if saved.needs(1) else None


@composed(covers="logsumexp", method=True)
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Array:
    """log(sum(exp(input))) over `dim` (an int or several), without overflow.

    A row that is all -inf gives -inf, and its gradient is 0.

    Args:
        input: tensor of any shape.
        dim: an int or several.
        keepdim: keep the reduced dims, with size 1.
    Returns:
        `input`'s shape without `dim`, floating.

    >>> dynograd.logsumexp(tensor([[1000.0, 1000.0], [0.0, -float("inf")]]), dim=1)
    tensor([1000.6932,    0.0000])
    """
    dims = reduced_dims("logsumexp", dim, len(input.shape))
    if getattr(input, "array", input).dtype.kind == "c":
        return _complex_logsumexp(input, dims, keepdim)
    return logsumexp_dims(floating(input), dims, keepdim)


def _complex_logsumexp(input: Any, dims: Any, keepdim: bool) -> Array:
    """With the largest real part taken out first; the imaginary part of the result lies within pi of 0."""
    if 0 in tuple(input.shape):
        return sum(input.exp(), dims, keepdim).log()
    level = input.real.detach()
    level = registry["amax"].function(level, dims, keepdim=True)
    level = where(level.isfinite(), level, 0.0)
    total = sum((input - level).exp(), dims, True).log() + level
    return total if keepdim else reshaped(total, tuple(sum(level, dims, False).shape))
