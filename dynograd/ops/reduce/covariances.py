"""How variables vary together: covariance and correlation."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import whole_number
from dynograd.base.values import differs_by_example
from dynograd.errors import DtypeError, ShapeError
from dynograd.ops.elementwise.arithmetic import conj
from dynograd.ops.elementwise.choices import clamp
from dynograd.ops.elementwise.complexes import complex, real
from dynograd.ops.layout.strides import diagonal
from dynograd.ops.layout.transposes import t
from dynograd.ops.layout.views import reshaped
from dynograd.ops.matmul.matmuls import matmul
from dynograd.ops.op import composed
from dynograd.ops.reduce.reductions import floating, mean, sum

__all__ = ["corrcoef", "cov"]


@composed(method=True, out=None, ragged="each")
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Array:
    """The covariance matrix of variables (rows) over observations (columns); of one variable its variance.

    Args:
        input (V, N) or (N,): not bool.
        correction: what is taken from the number of observations: 1 for an unbiased estimate.
        fweights (N,): how often each observation occurred, integers.
        aweights (N,): how much each observation counts.
    Returns:
        (V, V), or without dims.
    Raises:
        ShapeError: more than two dims, or weights that do not fit.
        DtypeError: a bool input, or weights of the wrong kind.

    >>> dynograd.cov(tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    correction = whole_number("cov", "correction", correction)
    shape = tuple(input.shape)
    if len(shape) > 2:
        raise ShapeError(f"cov: expected input to have two or fewer dimensions but got shape {shape}.")
    if input.dtype == dtypes.bool:
        raise DtypeError("cov: bool dtype is not supported for input. Use input.float().")
    x = floating(reshaped(input, (1, -1)) if len(shape) < 2 else input)
    count = x.shape[1]
    weights = _weights(count, fweights, aweights)
    if weights is None:
        total: Any = count
        average = mean(x, 1, True)
    else:
        total = sum(weights)
        average = sum(x * weights, 1, True) / total
    if aweights is not None and correction:
        rest = total - correction * sum(weights * aweights) / total
    else:
        rest = total - correction
    rest = clamp(rest, 0) if hasattr(rest, "shape") else max(rest, 0)
    apart = x - average
    result = matmul(apart, conj(t(apart if weights is None else apart * weights))) / rest
    return reshaped(result, ()) if tuple(result.shape) == (1, 1) else result


def _weights(count: int, fweights: Any, aweights: Any) -> Array | None:
    """The product of the weights given, checked; None when there are none."""
    for name, value, whole in (("fweights", fweights, True), ("aweights", aweights, False)):
        if value is None:
            continue
        if tuple(value.shape) != (count,):
            raise ShapeError(
                f"cov: expected {name} to have one value for each of {count} observations, got shape {tuple(value.shape)}."
            )
        kind = value.dtype
        fits = (
            not (kind.is_floating_point or kind.is_complex or kind == dtypes.bool) if whole else kind.is_floating_point
        )
        if not fits:
            raise DtypeError(
                f"cov: expected {name} to have {'an integral' if whole else 'a floating point'} dtype, got {kind}."
            )
        in_a_batch = differs_by_example(value)  # of vmap: another value for each example
        if count and not in_a_batch and bool((value < 0).any()):
            raise ShapeError(f"cov: {name} cannot be negative, the least is {value.min().item()}.")
    if fweights is None or aweights is None:
        return fweights if aweights is None else aweights
    return fweights * aweights


@composed(method=True, out=None, ragged="each")
def corrcoef(input: Any) -> Array:
    """Pearson's correlation coefficients of variables (rows) over observations (columns), between -1 and 1.

    Args:
        input (V, N) or (N,): not bool.
    Returns:
        (V, V), or without dims.

    >>> dynograd.corrcoef(tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if len(input.shape) > 2:
        raise ShapeError(
            f"corrcoef: expected input to have two or fewer dimensions but got shape {tuple(input.shape)}."
        )
    result = cov(input)
    if not result.shape:
        return result / result
    width = real(diagonal(result)).sqrt()
    result = result / reshaped(width, (-1, 1)) / width
    if not result.dtype.is_complex:
        return clamp(result, -1, 1)
    return complex(clamp(result.real, -1, 1), clamp(result.imag, -1, 1))
