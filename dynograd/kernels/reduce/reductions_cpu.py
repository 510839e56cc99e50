"""Reductions on NumPy arrays. `dim` is None (all), an int or a tuple of ints. Half types are accumulated in float32."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.batch_invariance import USES, batch_invariant
from dynograd.kernels.build.sizes import REDUCTIONS
from dynograd.kernels.layout.casts_cpu import to_float
from dynograd.kernels.layout.copies_cpu import contiguous
from dynograd.kernels.reduce.blocks_cpu import reduced, suits
from dynograd.kernels.small import few_cpu

_HALF = numpy.dtype(numpy.float16).num
_FLOAT32 = numpy.dtype(numpy.float32)
_INT64 = numpy.dtype(numpy.int64)
_add_reduce = numpy.add.reduce
_multiply_reduce = numpy.multiply.reduce


def is_half(kind: Any) -> bool:
    """float16, bfloat16 or float8."""
    return kind.num == _HALF or kind.num > 255


def widened(input: Any) -> Any:
    """Half types as float32; anything else as it is."""
    if not is_half(input.dtype):
        return input
    result = to_float(input, _FLOAT32)
    return input.astype(_FLOAT32) if result is None else result


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


def by_numpy(reduce: Any, input: Any, dim: Any, keepdim: bool, dtype: Any = None) -> Any:
    """A reduction of NumPy's, in row-major memory as in PyTorch; NumPy keeps the order of the input's dims."""
    result = reduce(input, dim, dtype, None, keepdim)
    return result if dim is None or input.flags.c_contiguous else contiguous(result)


# --- sums ----------------------------------------------------------------------------------------------------------------


def sum(input: Any, dim: Any, keepdim: bool) -> Any:
    result = few_cpu.sum(input, dim, keepdim)
    if result is not None:
        return result
    kind = input.dtype
    if (
        input.size < REDUCTIONS
        and kind.kind == "f"
        and kind.num != _HALF
        and not (USES.batch_invariant and batch_invariant())
    ):
        result = _add_reduce(input, dim, None, None, keepdim)
        return result if dim is None or input.flags.c_contiguous else contiguous(result)
    if kind.num == _HALF or kind.kind == "V":
        return total(input.astype(numpy.float32), dim, keepdim).astype(kind)
    if kind.kind in "iub":
        if kind.kind == "u" or not suits(input, dim):
            return by_numpy(_add_reduce, input, dim, keepdim, numpy.int64)
        return reduced("sum", "same", input.view(numpy.uint8) if kind.kind == "b" else input, dim, keepdim, _INT64)
    return total(input, dim, keepdim)


def total(input: Any, dim: Any, keepdim: bool) -> Any:
    """The sum of floating numbers. NumPy's own is slow along contiguous memory, and down few columns."""
    if input.dtype.kind != "f" or not suits(input, dim):
        return by_numpy(_add_reduce, input, dim, keepdim)
    return reduced("sum", "same", input, dim, keepdim, input.dtype)


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
        result = total(input.astype(numpy.float32), dim, keepdim)
        return (result / count).astype(kind) if count else numpy.full(result.shape, numpy.nan, kind)
    if input.size < REDUCTIONS and not batch_invariant():
        result = by_numpy(_add_reduce, input, dim, keepdim)
    else:
        result = total(input, dim, keepdim)
    return result / count if count else numpy.full(result.shape, numpy.nan, kind)


def count_nonzero(input: Any, dim: Any) -> Any:
    if input.dtype.kind in "fi" and input.itemsize in (4, 8) and suits(input, dim):
        return reduced("sum", "nonzero", input, dim, False, _INT64)
    return contiguous(numpy.asarray(numpy.count_nonzero(input, dim), numpy.int64))


def zero_nan(input: Any) -> Any:
    """`input` with 0 in place of NaN."""
    return numpy.where(numpy.isnan(input), input.dtype.type(0), input)


def not_nan(input: Any) -> Any:
    """1 where `input` is a number, 0 where it is NaN, in the dtype of `input`."""
    return (input == input).astype(input.dtype)


# --- truth ---------------------------------------------------------------------------------------------------------------


def any(input: Any, dim: Any, keepdim: bool) -> Any:
    if dim is None and input.dtype.num == 0 and not keepdim:
        result = few_cpu.any_of(input, True)
        if result is not None:
            return numpy.array(result)
    return _truth(numpy.logical_or, input, dim, keepdim)


def all(input: Any, dim: Any, keepdim: bool) -> Any:
    if dim is None and input.dtype.num == 0 and not keepdim:
        result = few_cpu.any_of(input, False)
        if result is not None:
            return numpy.array(not result)
    return _truth(numpy.logical_and, input, dim, keepdim)


def _truth(function: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    result = by_numpy(function.reduce, input if input.dtype.kind != "V" else input != 0, dim, keepdim)
    return result.astype(numpy.uint8) if input.dtype.num == 2 else result


# --- products ------------------------------------------------------------------------------------------------------------


def prod_forward(input: Any, dim: Any, keepdim: bool) -> Any:
    kind = input.dtype
    result = few_cpu.prod(input, dim, keepdim)
    if result is not None:
        return result
    if is_half(kind):
        return by_numpy(_multiply_reduce, input.astype(numpy.float32), dim, keepdim).astype(kind)
    if kind.kind == "f" and suits(input, dim):
        return reduced("prod", "same", input, dim, keepdim, kind)
    return by_numpy(_multiply_reduce, input, dim, keepdim, numpy.int64 if kind.kind in "iub" else None)


def prod_backward(g: Any, input: Any, output: Any, dim: Any, keepdim: bool) -> Any:
    """g times the product of all the other elements, whatever zeros there are."""
    kind = input.dtype
    g, input, output = (with_kept(widened(numpy.asarray(operand)), None, True) for operand in (g, input, output))
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
