"""How near two vectors are: cosine, distance; and vectors brought to length 1."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes, normalize_dim
from dynograd.errors import DtypeError
from dynograd.ops.elementwise.arithmetic import is_whole
from dynograd.ops.elementwise.choices import clamp_min
from dynograd.ops.layout.broadcasting import convert, stretch
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import composed
from dynograd.ops.reduce.norms import vector_norm
from dynograd.ops.reduce.reductions import sum as sum_dims
from dynograd.ops.row import Row

__all__ = ["cosine_similarity", "normalize", "pairwise_distance"]

FAMILY = Row(out=None, functional=True)


@composed(cast={"cuda": "wide"})
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Array:
    """The cosine of the angle between vectors along `dim`: x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)).

    Args:
        x1, x2: broadcast.
        dim: along which the vectors lie.
        eps: the least length; a zero vector gives 0.
    Returns:
        the common shape without `dim`.

    >>> dynograd.nn.functional.cosine_similarity(tensor([[3.0, 4.0]]), tensor([[4.0, 3.0]]))
    tensor([0.9600])
    """
    who = "cosine_similarity"
    shape = broadcast_shapes(who, tuple(x1.shape), tuple(x2.shape))
    place = normalize_dim(who, dim, len(shape))
    if is_whole(x1) or is_whole(x2):
        kind = dtypes.result_dtype(*[getattr(operand, "array", operand) for operand in (x1, x2)])
        if kind.category < dtypes.FLOATING:
            raise DtypeError(
                f"{who}: expected common dtype to be floating point, yet common dtype is {kind}. Use x.float()."
            )
        x1, x2 = convert(x1, kind), convert(x2, kind)
    if not shape:
        return reshaped(cosine_similarity(reshaped(x1, (1,)), reshaped(x2, (1,)), 0, eps), ())
    x1, x2 = (operand if tuple(operand.shape) == shape else stretch(operand, shape) for operand in (x1, x2))
    lengths = [clamp_min(vector_norm(operand, 2, place, True, None, who), eps) for operand in (x1, x2)]
    return sum_dims((x1 / lengths[0]) * (x2 / lengths[1]), (place,), False)


@composed(cast={"cuda": "wide"})
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Array:
    """The p-norm of x1 - x2 + eps over the last dim.

    Args:
        x1, x2: (N, D) or (D,), broadcast.
        p: of the norm.
        eps: added to each difference, so that gradients exist where x1 = x2.
        keepdim: keep the last dim, with size 1.
    Returns:
        (N,), or without dims.

    >>> dynograd.nn.functional.pairwise_distance(tensor([[3.0, 4.0]]), tensor([[0.0, 0.0]]))
    tensor([5.0000])
    """
    broadcast_shapes("pairwise_distance", tuple(x1.shape), tuple(x2.shape))
    return vector_norm(x1 - x2 + eps, p, -1, keepdim, None, "pairwise_distance")


@composed(out="cast")
def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Array:
    """`input` divided by its p-norm along `dim`, so that vectors there have length 1; those shorter than `eps` stay short.

    Args:
        input: tensor of any shape.
        p: of the norm.
        dim: an int, or several taken as one vector.
        eps: the shortest length that is divided by.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.nn.functional.normalize(tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    if not prod(input.shape):
        return input * 1
    return input / clamp_min(vector_norm(input, p, dim, True, None, "normalize"), eps)
