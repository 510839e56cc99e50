"""Softmax and its logarithm over one dimension, and the logarithm of a sum of exponentials, on NumPy arrays.

float32 goes through row programs (one pass for the maximum, one for the sum, one for the result, all while the row is in cache);
tiny arrays and float64 through NumPy. Half types are computed in float32. A slice that is -inf throughout, or holds NaN or +inf,
gives NaN, as in PyTorch.
"""

from __future__ import annotations

from math import prod

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.build.compiled_kernels import compiled_for
from dynograd.kernels.layout.copies_cpu import contiguous
from dynograd.kernels.reduce.reductions_cpu import widened, with_kept
from dynograd.kernels.rows.folding_cpu import kernels_for, run_along

_WORTH_EXP = 512  # elements whose exp costs more than the call of a compiled kernel


def softmax_forward(x, dim):
    """exp(x) / sum(exp(x)) along `dim`; x's shape and dtype."""
    if x.dtype.char != "d" and (kernels := compiled_for(x.size)) is not None:
        if dim == 1 == x.ndim - 1 and x.dtype.char == "f" and x.flags.c_contiguous:
            return kernels["softmax"](x)
        return run_along(kernels, "softmax", dim, x)
    wide = _wide(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.exp(wide - wide.max(axis=dim, keepdims=True, initial=-np.inf))
        y /= y.sum(axis=dim, keepdims=True)
    return y.astype(x.dtype, copy=False)


def softmax_backward(g, y, dim):
    """Gradient of the input from that of the output `y`: y * (g - sum(y * g))."""
    if (kernels := kernels_for(y)) is not None:
        return run_along(kernels, "softmax_backward", dim, g, y)
    outer, wide = _wide(g), _wide(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = (outer * wide).sum(axis=dim, keepdims=True)
        return (wide * (outer - inner)).astype(y.dtype, copy=False)


def log_softmax_forward(x, dim):
    """x - log(sum(exp(x))) along `dim`, without overflow; x's shape and dtype."""
    if (kernels := kernels_for(x)) is not None:
        return run_along(kernels, "log_softmax", dim, x)
    wide = _wide(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        y = wide - wide.max(axis=dim, keepdims=True, initial=-np.inf)
        y -= np.log(np.exp(y).sum(axis=dim, keepdims=True))
    return y.astype(x.dtype, copy=False)


def log_softmax_backward(g, y, dim):
    """Gradient of the input from that of the output `y`: g - exp(y) * sum(g)."""
    if (kernels := kernels_for(y)) is not None:
        return run_along(kernels, "log_softmax_backward", dim, g, y)
    outer, wide = _wide(g), _wide(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (outer - np.exp(wide) * outer.sum(axis=dim, keepdims=True)).astype(y.dtype, copy=False)


def _wide(x):
    """In float32 at least, and row-major: so are the results, as PyTorch's are."""
    return contiguous(widened(x))


# --- log of a sum of exponentials ----------------------------------------------------------------------------------------


def logsumexp_forward(input, dim, keepdim):
    """The maximum is taken out first; where it is infinite, 0 is."""
    wide = widened(input)
    if type(dim) is int and wide.dtype == np.float32 and _worth_exp(wide.size):
        return _logsumexp(wide, dim, keepdim).astype(input.dtype, copy=False)
    highest = np.maximum.reduce(wide, dim, None, None, True, -np.inf)
    highest = np.where(np.isfinite(highest), highest, wide.dtype.type(0))
    terms = _exp(wide - highest)
    out = np.log(np.add.reduce(terms, dim, None, None, True))
    out += highest
    return contiguous((out if keepdim else out.squeeze(dim)).astype(input.dtype, copy=False))


def _worth_exp(size):
    """Whether a compiled kernel pays; in batch-invariant mode it is one for all sizes."""
    return size >= _WORTH_EXP or (size > 0 and batch_invariant())


def _logsumexp(input, dim, keepdim):
    from dynograd.kernels.reduce import reductions_numba

    shape = input.shape
    out = buffers.empty([1 if place == dim else size for place, size in enumerate(shape)], input.dtype)
    x, level, (outer, n, inner) = contiguous(input).reshape(-1), out.reshape(-1), _in_three(shape, dim)
    if inner == 1:
        bits, unsigned = x.view(np.int32), x.view(np.uint32)
        reductions_numba.logsumexp_rows(x, bits, unsigned, n, level, count=outer, work=4 * x.size)
    else:
        tiles = outer * -(-inner // 256)
        reductions_numba.logsumexp_columns(x, n, inner, level, count=tiles, work=4 * x.size)
    return out if keepdim else out.reshape((*shape[:dim], *shape[dim + 1 :]))


def logsumexp_backward(g, input, output, dim, keepdim):
    """g * exp(input - output)"""
    if type(dim) is not int or input.dtype != np.float32 or not _worth_exp(input.size):
        return with_kept(g, dim, keepdim) * exp_difference(input, with_kept(output, dim, keepdim))
    from dynograd.kernels.reduce import reductions_numba

    outer, n, inner = _in_three(input.shape, dim)
    result = buffers.empty(input.shape, input.dtype)
    operands, x, level = [contiguous(operand, np.float32).reshape(-1) for operand in (g, input, output)]
    reductions_numba.logsumexp_backward(
        operands, x, level, n, inner, result.reshape(-1), count=outer * n, work=2 * input.size
    )
    return result


def _in_three(shape, dim):
    return prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])


def exp_difference(input, output):
    """exp(input - output), and 0 where output is -inf."""
    low = output == -np.inf
    if low.any():
        output = np.where(low, output.dtype.type(0), output)
    return _exp(widened(input) - widened(output)).astype(input.dtype, copy=False)


def _exp(terms):
    """exp in the memory of `terms`, a fresh array (or a number, where there are no dims)."""
    return np.exp(terms, terms if terms.ndim else None)
