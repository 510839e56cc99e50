"""Reductions on NumPy arrays. `dim` is None (all), an int or a tuple of ints. Half types are accumulated in float32."""

from __future__ import annotations

from typing import Any

import numpy

_HALF = numpy.dtype(numpy.float16).num
_LANES = 4096
_LARGE = 16 * _LANES  # elements from which it pays to choose the way of summing
_add_reduce = numpy.add.reduce
_multiply_reduce = numpy.multiply.reduce


def is_half(kind: Any) -> bool:
    """float16 or bfloat16."""
    return kind.num == _HALF or kind.kind == "V"


def widened(input: Any) -> Any:
    """Half types as float32; anything else as it is."""
    return input.astype(numpy.float32) if is_half(input.dtype) else input


def count_of(shape: tuple[int, ...], dim: Any) -> int:
    """How many elements each result is made of."""
    count = 1
    if dim is None:
        for size in shape:
            count *= size
        return count
    for place in dim if type(dim) is tuple else (dim,):
        count *= shape[place]
    return count


def with_kept(reduced: Any, dim: Any, keepdim: bool) -> Any:
    """A result of a reduction, so that it broadcasts against what was reduced."""
    return reduced if keepdim or dim is None else numpy.expand_dims(reduced, dim)


# --- sums ----------------------------------------------------------------------------------------------------------------


def sum(input: Any, dim: Any, keepdim: bool) -> Any:
    kind = input.dtype
    if kind.num == _HALF or kind.kind == "V":
        return total(input.astype(numpy.float32), dim, keepdim).astype(kind)
    if kind.kind in "iub":
        return _add_reduce(input, dim, numpy.int64, None, keepdim)
    if input.size < _LARGE:
        return _add_reduce(input, dim, None, None, keepdim)
    return total(input, dim, keepdim)


def total(input: Any, dim: Any, keepdim: bool) -> Any:
    """The sum of floating numbers. NumPy's own is slow along contiguous memory (140 us for 1000 rows of 1000 float32); there a
    product with ones sums rows (25 us), and 4096 sums side by side everything (50 us, and more exact than one running sum)."""
    if input.size < _LARGE or input.dtype.kind != "f" or not input.flags.c_contiguous:
        return _add_reduce(input, dim, None, None, keepdim)
    if dim is None:
        flat = input.reshape(-1)
        whole = flat.size - flat.size % _LARGE
        found = _add_reduce(_add_reduce(_add_reduce(flat[:whole].reshape(-1, _LARGE // _LANES, _LANES), 1), 0))
        found += _add_reduce(flat[whole:])
        return numpy.full((1,) * input.ndim, found) if keepdim else found
    first = input.ndim - (len(dim) if type(dim) is tuple else 1)
    if dim != first and (type(dim) is int or sorted(dim) != list(range(first, input.ndim))):
        return _add_reduce(input, dim, None, None, keepdim)
    lead = input.shape[:first]
    rows = 1
    for size in lead:
        rows *= size
    count = input.size // rows
    if count < 16:
        return _add_reduce(input, dim, None, None, keepdim)
    out = numpy.empty((*lead, *(1,) * (input.ndim - first)) if keepdim else lead, input.dtype)
    numpy.matmul(input.reshape(rows, count), numpy.ones(count, input.dtype), out.reshape(rows))
    return out


def sum_to(input: Any, shape: tuple[int, ...]) -> Any:
    kind = input.dtype
    lead = input.ndim - len(shape)
    dims = (
        *range(lead),
        *[place + lead for place, size in enumerate(shape) if size == 1 and input.shape[place + lead] != 1],
    )
    if not dims:
        return input
    return sum(input, dims, True).astype(kind, copy=False).reshape(shape)


def spread(g: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """`g`, the gradient of a sum, at every element that went into it: a view with stride 0 where it repeats."""
    strides = g.strides
    if dim is None:
        return numpy.ndarray(shape, g.dtype, numpy.asarray(g), 0, (0,) * len(shape))
    dims = dim if type(dim) is tuple else (dim,)
    places = {place % len(shape) for place in dims} if shape else ()
    remaining = iter(strides)
    steps = []
    for place in range(len(shape)):
        if place not in places:
            steps.append(next(remaining))
            continue
        steps.append(0)
        if keepdim:
            next(remaining)
    if g.flags.c_contiguous:
        return numpy.ndarray(shape, g.dtype, numpy.asarray(g), 0, tuple(steps))
    return numpy.lib.stride_tricks.as_strided(g, shape, tuple(steps))


def mean_forward(input: Any, dim: Any, keepdim: bool) -> Any:
    kind = input.dtype
    count = input.size if dim is None else input.shape[dim] if type(dim) is int else count_of(input.shape, dim)
    if kind.num == _HALF or kind.kind == "V":
        found = total(input.astype(numpy.float32), dim, keepdim)
        return (found / count).astype(kind) if count else numpy.full(found.shape, numpy.nan, kind)
    found = _add_reduce(input, dim, None, None, keepdim) if input.size < _LARGE else total(input, dim, keepdim)
    return found / count if count else numpy.full(found.shape, numpy.nan, kind)


def count_nonzero(input: Any, dim: Any) -> Any:
    return numpy.asarray(numpy.count_nonzero(input, dim), numpy.int64)


def zero_nan(input: Any) -> Any:
    """`input` with 0 in place of NaN."""
    return numpy.where(numpy.isnan(input), input.dtype.type(0), input)


def not_nan(input: Any) -> Any:
    """1 where `input` is a number, 0 where it is NaN, in the dtype of `input`."""
    return (input == input).astype(input.dtype)


# --- truth ---------------------------------------------------------------------------------------------------------------


def any(input: Any, dim: Any, keepdim: bool) -> Any:
    return _truth(numpy.logical_or, input, dim, keepdim)


def all(input: Any, dim: Any, keepdim: bool) -> Any:
    return _truth(numpy.logical_and, input, dim, keepdim)


def _truth(function: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    found = function.reduce(input if input.dtype.kind != "V" else input != 0, dim, None, None, keepdim)
    return found.astype(numpy.uint8) if input.dtype.num == 2 else found


# --- products ------------------------------------------------------------------------------------------------------------


def prod_forward(input: Any, dim: Any, keepdim: bool) -> Any:
    kind = input.dtype
    if is_half(kind):
        return _multiply_reduce(input.astype(numpy.float32), dim, None, None, keepdim).astype(kind)
    return _multiply_reduce(input, dim, numpy.int64 if kind.kind in "iub" else None, None, keepdim)


def prod_backward(g: Any, input: Any, output: Any, dim: Any, keepdim: bool) -> Any:
    """g times the product of all the other elements, whatever zeros there are."""
    kind = input.dtype
    g, input, output = (with_kept(widened(numpy.asarray(one)), None, True) for one in (g, input, output))
    factor = with_kept(g.conj(), dim, keepdim)
    if input.all():
        return (factor * with_kept(output, dim, keepdim) / input).conj().astype(kind, copy=False)
    place = 0 if dim is None else dim
    flat = input.reshape(-1) if dim is None else input
    others = numpy.ones(flat.shape, flat.dtype)
    last = flat.ndim - 1
    rows, out = numpy.moveaxis(flat, place, last), numpy.moveaxis(others, place, last)
    numpy.multiply.accumulate(rows[..., :-1], -1, None, out[..., 1:])
    after = numpy.ones(rows.shape, rows.dtype)
    numpy.multiply.accumulate(rows[..., :0:-1], -1, None, after[..., -2::-1] if rows.shape[-1] > 1 else after[..., :0])
    out *= after
    return (factor * others.reshape(input.shape)).conj().astype(kind, copy=False)


# --- log of a sum of exponentials ----------------------------------------------------------------------------------------


def logsumexp_forward(input: Any, dim: Any, keepdim: bool) -> Any:
    """The maximum is taken out first; where it is infinite, 0 is."""
    wide = widened(input)
    highest = numpy.maximum.reduce(wide, dim, None, None, True, -numpy.inf)
    highest = numpy.where(numpy.isfinite(highest), highest, wide.dtype.type(0))
    terms = _exp(wide - highest)
    out = numpy.log(_add_reduce(terms, dim, None, None, True))
    out += highest
    return (out if keepdim else out.squeeze(dim)).astype(input.dtype, copy=False)


def exp_difference(input: Any, output: Any) -> Any:
    """exp(input - output), and 0 where output is -inf."""
    low = output == -numpy.inf
    if low.any():
        output = numpy.where(low, output.dtype.type(0), output)
    return _exp(widened(input) - widened(output)).astype(input.dtype, copy=False)


def _exp(terms: Any) -> Any:
    """exp in the memory of `terms`, a fresh array (or a number, where there are no dims)."""
    return numpy.exp(terms, terms if terms.ndim else None)
