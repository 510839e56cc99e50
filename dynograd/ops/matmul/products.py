"""All products of one tensor's elements with another's: `outer`, `kron`."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.errors import ShapeError
from dynograd.ops.elementwise.arithmetic import mul
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import composed, shortcut

__all__ = ["kron", "outer"]


def _quick_outer(compute: Any, input: Any, vec2: Any) -> object:
    if (
        input.ndim == 1 == vec2.ndim
        and input.dtype is vec2.dtype
        and input.dtype.char in "fdl"
        and input.size * vec2.size <= 65536
    ):
        return compute(input, vec2)
    return None


@composed(method=True, ragged="each")
@shortcut(None, _quick_outer, compute="few.outer", beside="input vec2")
def outer(input: Any, vec2: Any) -> Array:
    """The matrix of `input[i] * vec2[j]`.

    Args:
        input (N,), vec2 (M,): vectors.
    Returns:
        (N, M).
    Raises:
        ShapeError: an argument is not a vector.

    >>> dynograd.outer(tensor([1, 2]), tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    for name, value in (("self", input), ("vec2", vec2)):
        if value.ndim != 1:
            raise ShapeError(
                f"outer: Expected 1-D argument {name}, but got {value.ndim}-D (shape {tuple(value.shape)}). Use ravel()."
            )
    return mul(reshaped(input, (input.shape[0], 1)), vec2)


@composed(method=True, ragged="each")
def ger(input: Any, vec2: Any) -> Array:
    """Another name of `outer`.

    Args:
        input (N,), vec2 (M,): vectors.
    Returns:
        (N, M).
    Raises:
        ShapeError: an argument is not a vector.

    >>> dynograd.ger(tensor([1, 2]), tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    return outer(input, vec2)


@composed(method=True, ragged="each")
def kron(input: Any, other: Any) -> Array:
    """The Kronecker product: every element of `input` times the whole of `other`, laid out as a block tensor.

    Args:
        input, other: tensors; the shape with fewer dims gets ones in front.
    Returns:
        A tensor whose sizes are the products of theirs.

    >>> dynograd.kron(tensor([1, 2]), tensor([1, 10]))
    tensor([ 1, 10,  2, 20])
    """
    rank = max(input.ndim, other.ndim)
    shape = (*(1,) * (rank - input.ndim), *input.shape)
    two = (*(1,) * (rank - other.ndim), *other.shape)
    left = reshaped(input, tuple([side for size in shape for side in (size, 1)]))
    right = reshaped(other, tuple([side for size in two for side in (1, size)]))
    return reshaped(mul(left, right), tuple([a * b for a, b in zip(shape, two, strict=True)]))
