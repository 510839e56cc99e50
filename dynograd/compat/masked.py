"""Reductions, scans and normalisations that leave elements out (`torch.masked`): where `mask` is False, an element does not count.

`mask` broadcasts to `input`; None leaves nothing out. Rows without any element give what is neutral: 0 for `sum`, -inf for `amax`, NaN for `mean`
and `softmax`. Gradients of what is left out are 0. All are made of other ops, so they work in every order, in `vmap` and on GPUs.

>>> x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
>>> dynograd.masked.mean(x, 1, mask=x < 5)
tensor([2., 4.])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import inf, nan
from math import prod as size_of
from typing import Any

from dynograd.base import dtypes
from dynograd.base.hints import DtypeLike
from dynograd.base.shapes import normalize_dim, normalize_dims
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.compat.refused import others
from dynograd.errors import DtypeError, ShapeError
from dynograd.interpreter.public_forms import explained
from dynograd.ops.elementwise import choices, exponentials
from dynograd.ops.norm import softmaxes
from dynograd.ops.reduce import extremes, norms, quantiles, reductions, scans
from dynograd.tensor.tensor import Tensor

__path__: list[str] = []  # PyTorch has modules below it (`compat.import_paths`)
__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]


# --- sums ----------------------------------------------------------------------------------------------------------------


def sum(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum of the elements that count, over `dim` (an int or several; None: all); 0 when there are none.

    Args:
        input: a tensor of any shape.
        dim: an int or several; None is every dim.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.

    >>> dynograd.masked.sum(tensor([1.0, 2.0, 4.0]), mask=tensor([True, False, True]))
    tensor(5.)
    """
    kind = _summed(input, dtype)
    return reductions.sum(_kept("sum", input, mask, 0), _dims("sum", input, dim), bool(keepdim), dtype=kind)


def prod(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of the elements that count; 1 when there are none.

    Args:
        input: a tensor of any shape.
        dim: an int or several; None is every dim.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.

    >>> dynograd.masked.prod(tensor([3.0, 2.0, 4.0]), mask=tensor([True, False, True]))
    tensor(12.)
    """
    result = _kept("prod", input, mask, 1).to(_summed(input, dtype))
    dims = (
        () if isinstance(dim, list) and not dim else _dims("prod", input, dim)
    )  # PyTorch multiplies over each of a list
    for axis in sorted(dims, reverse=True):
        result = reductions.prod(result, axis, bool(keepdim))
    return result


def cumsum(input: Tensor, dim: int, *, dtype: DtypeLike = None, mask: Tensor | None = None) -> Tensor:
    """The sum so far, along `dim`.

    Args:
        input: a tensor of any shape.
        dim: along which dim; negative counts from the end.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input`.

    >>> dynograd.masked.cumsum(tensor([1.0, 2.0, 4.0]), 0, mask=tensor([True, False, True]))
    tensor([1., 1., 5.])
    """
    kind = _kind(input, dtype)
    return scans.cumsum(_kept("cumsum", input, mask, 0), _dim("cumsum", input, dim), dtype=kind)


def cumprod(input: Tensor, dim: int, *, dtype: DtypeLike = None, mask: Tensor | None = None) -> Tensor:
    """The product so far, along `dim`.

    Args:
        input: a tensor of any shape.
        dim: along which dim; negative counts from the end.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input`.

    >>> dynograd.masked.cumprod(tensor([3.0, 2.0, 4.0]), 0, mask=tensor([True, False, True]))
    tensor([ 3.,  3., 12.])
    """
    kind = _kind(input, dtype)
    return scans.cumprod(_kept("cumprod", input, mask, 1), _dim("cumprod", input, dim), dtype=kind)


# --- extremes ------------------------------------------------------------------------------------------------------------


def amax(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The largest element that counts; the smallest number of the dtype when there is none.

    Args:
        input: a tensor of any shape.
        dim: an int or several; None is every dim.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.

    >>> dynograd.masked.amax(tensor([1.0, 9.0, 4.0]), mask=tensor([True, False, True]))
    tensor(4.)
    """
    largest = extremes.amax(_kept("amax", input, mask, _lowest), _dims("amax", input, dim), bool(keepdim))
    return largest.to(_kind(input, dtype))


def amin(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The smallest element that counts; the largest number of the dtype when there is none.

    Args:
        input: a tensor of any shape.
        dim: an int or several; None is every dim.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.

    >>> dynograd.masked.amin(tensor([1.0, 0.0, 4.0]), mask=tensor([True, False, True]))
    tensor(1.)
    """
    smallest = extremes.amin(_kept("amin", input, mask, _highest), _dims("amin", input, dim), bool(keepdim))
    return smallest.to(_kind(input, dtype))


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: DtypeLike = None, mask: Tensor | None = None
) -> Tensor:
    """Where the largest element that counts stands, in the dtype of `input` (PyTorch's rule) or `dtype`.

    Args:
        input: a tensor of any shape.
        dim: along which dim; None is all elements, as if flattened.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.

    >>> dynograd.masked.argmax(tensor([1, 9, 4]), mask=tensor([True, False, True]))
    tensor(2)
    """
    return _kept("argmax", input, mask, _lowest).argmax(dim, bool(keepdim)).to(_kind(input, dtype))


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: DtypeLike = None, mask: Tensor | None = None
) -> Tensor:
    """Where the smallest element that counts stands, in the dtype of `input` (PyTorch's rule) or `dtype`.

    Args:
        input: a tensor of any shape.
        dim: along which dim; None is all elements, as if flattened.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.

    >>> dynograd.masked.argmin(tensor([1, 0, 4]), mask=tensor([True, False, True]))
    tensor(0)
    """
    return _kept("argmin", input, mask, _highest).argmin(dim, bool(keepdim)).to(_kind(input, dtype))


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DtypeLike = None, mask: Tensor | None = None
) -> Tensor:
    """The median of the elements that count, along `dim` (the lower of the two middle ones).

    Args:
        input: a tensor of any shape.
        dim: along which dim; negative counts from the end.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.
    Raises:
        ValueError: a row of an integer dtype has no element that counts.

    >>> dynograd.masked.median(tensor([1.0, 9.0, 4.0]), 0, mask=tensor([True, False, True]))
    tensor(1.)
    """
    floating = input.dtype.is_floating_point
    values = _kept("median", input if floating else input.to(dtypes.float32), mask, nan)
    medians = quantiles.nanmedian(values, _dim("median", input, dim), bool(keepdim)).values
    if floating:
        return medians
    if medians.isnan().any():
        raise ValueError(
            "masked.median: expects no fully masked out rows if dtype is not floating point. Use input.float()."
        )
    return medians.to(_kind(input, dtype))


# --- means and norms -----------------------------------------------------------------------------------------------------


def mean(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of the elements that count; NaN when there are none.

    Args:
        input: a tensor of any shape.
        dim: an int or several; None is every dim.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.
    Raises:
        ValueError: neither `input` nor `dtype` is floating or complex.

    >>> dynograd.masked.mean(tensor([1.0, 9.0, 4.0]), mask=tensor([True, False, True]))
    tensor(2.5000)
    """
    kind = _kind(input, dtype)
    if not (kind.is_floating_point or kind.is_complex):
        raise ValueError(
            f"masked.mean: dtype must be either a floating point or complex dtype. Got: {kind}. Use dtype=."
        )
    total = sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask)
    return total / _count("mean", input, dim, bool(keepdim), mask)


def var(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the elements that count: squares of distances over their number less `correction` (1; 0 if not `unbiased`).

    Args:
        input: a tensor of any shape.
        dim: an int or several; None is every dim.
        unbiased: the old form of `correction`: True is 1, False is 0.
        correction: what is taken off the number of elements; 1 unless given.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.

    >>> dynograd.masked.var(tensor([1.0, 9.0, 4.0]), mask=tensor([True, False, True]))
    tensor(4.5000)
    """
    if unbiased is not None and correction is not None:
        raise ValueError("masked.var: Only one of unbiased and correction may be given.")
    less = (1.0 if unbiased in (None, True) else 0.0) if correction is None else float(correction)
    kind = _kind(input, dtype)
    if not (kind.is_floating_point or kind.is_complex):
        kind = dtypes.float32
    middle = sum(input, dim, keepdim=True, dtype=kind, mask=mask) / _count("var", input, dim, True, mask)
    apart = input - middle
    squares = apart * apart.conj() if kind.is_complex else apart * apart
    total = sum(squares, dim, keepdim=keepdim, dtype=kind, mask=mask)
    count = _count("var", input, dim, bool(keepdim), mask)
    free = max(count - less, 0.0) if mask is None else (count - less).clamp(min=0)
    return (total / free).to(kind)


def std(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The square root of `var`.

    Args:
        input: a tensor of any shape.
        dim: an int or several; None is every dim.
        unbiased: the old form of `correction`: True is 1, False is 0.
        correction: what is taken off the number of elements; 1 unless given.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.

    >>> dynograd.masked.std(tensor([1.0, 9.0, 3.0]), correction=0, mask=tensor([True, False, True]))
    tensor(1.)
    """
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: int | Sequence[int] | None = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The `ord`-norm of the elements that count; 0 when there are none (inf for the norm of order -inf).

    Args:
        input: a tensor of any shape.
        ord: any number; inf and -inf are the largest and the smallest absolute value.
        dim: an int or several; None is every dim.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.

    >>> dynograd.masked.norm(tensor([3.0, 9.0, 4.0]), mask=tensor([True, False, True]))
    tensor(5.)
    """
    values = _kept("norm", input, mask, inf if ord == -inf else 0)
    if dtype is not None:
        values = values.to(dtypes.as_dtype(dtype))
    return norms.vector_norm(values, ord, _dims("norm", input, dim), bool(keepdim), who="masked.norm")


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: DtypeLike = None, mask: Tensor | None = None
) -> Tensor:
    """The elements that count over their `norm` along `dim` (at least `eps`), 0 elsewhere.

    Args:
        input: a tensor of any shape.
        ord: of the norm.
        dim: along which dim; negative counts from the end.
        eps: the smallest norm to divide by.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input`.

    >>> dynograd.masked.normalize(tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _kept("normalize", input, mask, 0) / size.clamp(min=eps)


# --- exponentials --------------------------------------------------------------------------------------------------------


def softmax(input: Tensor, dim: int, *, dtype: DtypeLike = None, mask: Tensor | None = None) -> Tensor:
    """`softmax` over the elements that count, 0 elsewhere; NaN where none counts.

    Args:
        input: a tensor of any shape.
        dim: along which dim; negative counts from the end.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input`.

    >>> dynograd.masked.softmax(tensor([1.0, 9.0, 1.0]), 0, mask=tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return softmaxes.softmax(_kept("softmax", input, mask, _lowest), _dim("softmax", input, dim), dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: DtypeLike = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `masked.softmax`: -inf for what does not count.

    Args:
        input: a tensor of any shape.
        dim: along which dim; negative counts from the end.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input`.

    >>> dynograd.masked.log_softmax(tensor([1.0, 9.0, 1.0]), 0, mask=tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    values = _kept("log_softmax", input, mask, _lowest)
    return softmaxes.log_softmax(values, _dim("log_softmax", input, dim), dtype=dtype)


def softmin(input: Tensor, dim: int, *, dtype: DtypeLike = None, mask: Tensor | None = None) -> Tensor:
    """`masked.softmax` of `-input`.

    Args:
        input: a tensor of any shape.
        dim: along which dim; negative counts from the end.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input`.

    >>> dynograd.masked.softmin(tensor([1.0, -9.0, 1.0]), 0, mask=tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return softmaxes.softmax(-_kept("softmin", input, mask, _highest), _dim("softmin", input, dim), dtype=dtype)


def logsumexp(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    *,
    keepdim: bool = False,
    dtype: DtypeLike = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of exponentials of the elements that count; -inf when there are none.

    Args:
        input: a tensor of any shape.
        dim: an int or several; None is every dim.
        keepdim: the reduced dims stay, with size 1.
        dtype: compute in this dtype; None is that of `input`.
        mask: bool, broadcast to `input`: True where an element counts; None: all do.
    Returns:
        The shape of `input` without `dim`.

    >>> dynograd.masked.logsumexp(tensor([0.0, 9.0, 0.0]), 0, mask=tensor([True, False, True]))
    tensor(0.6931)
    """
    values = _kept("logsumexp", input, mask, _lowest)
    return reductions.logsumexp(values, _dims("logsumexp", input, dim), bool(keepdim)).to(_kind(input, dtype))


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DtypeLike = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """`log(exp(input) + exp(other))`, where each has its own mask.

    Args:
        input, other: tensors that broadcast.
        dtype: compute in this dtype; None is that of `input`.
        input_mask, other_mask: True where an element counts; None: all do.
    Returns:
        The broadcast shape; -inf where neither counts.

    >>> dynograd.masked.logaddexp(tensor([1.0]), tensor([2.0]), other_mask=tensor([False]))
    tensor([1.])
    """
    if not hasattr(other, "dtype"):
        raise TypeError(f"logaddexp: other must be a Tensor, not {type(other).__name__}. Write tensor({other!r}).")
    left, right = _kept("logaddexp", input, input_mask, _lowest), _kept("logaddexp", other, other_mask, _lowest)
    return exponentials.logaddexp(left, right).to(_kind(input, dtype))


# --- what they share -----------------------------------------------------------------------------------------------------


def _kept(who: str, input: Any, mask: Any, neutral: float | Callable[[str, Any], float]) -> Tensor:
    """`input` with `neutral` in the place of what does not count."""
    if mask is None:
        return input
    value = neutral(who, input.dtype) if callable(neutral) else neutral
    return choices.where(_spread(who, input, mask), input, value)


def _spread(who: str, input: Any, mask: Any) -> Tensor:
    own, shape = tuple(mask.shape), tuple(input.shape)
    if len(own) > len(shape):
        raise ShapeError(
            f"masked.{who}: expected broadcastable mask (got mask dimensionality higher than of the input): mask of shape {own} for "
            f"input of shape {shape}."
        )
    mask = mask.to(dtypes.bool)
    return mask if own == shape else mask.broadcast_to(shape)


def _lowest(who: str, kind: Any) -> float:
    return _end(who, kind, -inf)


def _highest(who: str, kind: Any) -> float:
    return _end(who, kind, inf)


def _end(who: str, kind: Any, end: float) -> float:
    """The first or last number of a dtype."""
    if kind.is_floating_point:
        return end
    if kind.is_complex and who == "logsumexp":
        return end
    if kind.is_complex or kind is dtypes.bool:
        raise DtypeError(f"masked.{who}: no number of {kind} is neutral. Convert the input to a real dtype first.")
    limits = dtypes.iinfo(kind)
    return limits.max if end > 0 else limits.min


def _count(who: str, input: Any, dim: Any, keepdim: bool, mask: Any) -> Any:
    """How many elements count: a tensor, or one number."""
    dims = _dims(who, input, dim)
    if mask is None:
        return size_of([input.shape[axis] for axis in dims])
    return reductions.sum(_spread(who, input, mask), dims, keepdim)


def _kind(input: Any, dtype: Any) -> dtypes.dtype:
    return input.dtype if dtype is None else dtypes.as_dtype(dtype)


def _summed(input: Any, dtype: Any) -> dtypes.dtype:
    kind = _kind(input, dtype)
    if dtype is None and not (kind.is_floating_point or kind.is_complex):
        return dtypes.int64
    return kind


def _dim(who: str, input: Any, dim: int) -> int:
    return normalize_dim(f"masked.{who}", dim, len(input.shape))


def _dims(who: str, input: Any, dim: Any) -> tuple[int, ...]:
    return normalize_dims(f"masked.{who}", dim, len(input.shape))


globals().update({name: explained(globals()[name]) for name in __all__})

# --- PyTorch's own tests look for these -----------------------------------------------------------------------------------


def _input_mask(input: Any, *args: Any, mask: Any, **kwargs: Any) -> Any:
    """The mask in the shape of `input`."""
    return _spread("_input_mask", input, mask)


def _output_mask(
    op: Any, input: Any, *args: Any, mask: Any, dim: Any = None, keepdim: bool = False, **kwargs: Any
) -> Any:
    """Which elements of `op`'s result come from any that counts."""
    spread = _spread(op.__name__, input, mask)
    if "keepdim" not in inspect.signature(op).parameters:  # it gives an element for each of the input
        return spread
    place = 1 if op.__name__ == "norm" else 0
    dim = args[place] if len(args) > place else -1 if op.__name__ == "median" and dim is None else dim
    return reductions.any(spread, _dims(op.__name__, input, dim), bool(keepdim))


__getattr__ = others("masked")
_show_plainly(globals())
