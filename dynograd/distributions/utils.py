"""What the distributions share: parameters of one shape, and the change between probabilities and logits."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from dynograd.autograd import enable_grad
from dynograd.base import dtypes
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.ops.elementwise.activations import sigmoid
from dynograd.ops.layout.broadcasting import broadcast_tensors
from dynograd.ops.linalg.triangles import tril_indices
from dynograd.ops.norm.softmaxes import softmax
from dynograd.tensor.creation import tensor
from dynograd.tensor.randomness import randn
from dynograd.tensor.tensor import Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Standard normal numbers of a shape."""
    return randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dims."""
    return value.reshape(*value.shape[: value.ndim - dim], -1).sum(-1) if dim else value


def broadcast_all(*values: object) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the tensors.

    Args:
        *values: numbers and tensors.
    Returns:
        A tuple of tensors.
    Raises:
        ValueError: something is neither number nor tensor, or the shapes do not broadcast.

    >>> from dynograd.distributions.utils import broadcast_all
    >>> broadcast_all(1.0, tensor([2.0, 3.0]))
    (tensor([1., 1.]), tensor([2., 3.]))
    """
    for value in values:
        if not isinstance(value, (Tensor, Number)):
            raise ValueError(
                f"Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__, "
                f"got {type(value).__name__}."
            )
    tensors = [value for value in values if isinstance(value, Tensor)]
    kind, place = (tensors[0].dtype, tensors[0].device) if tensors else (dtypes.get_default_dtype(), None)
    converted = [value if isinstance(value, Tensor) else tensor(value, dtype=kind, device=place) for value in values]
    return tuple(broadcast_tensors(*converted))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's epsilon, so that their logarithms are finite.

    Args:
        probs: probabilities of a floating dtype, 0 to 1.
    Returns:
        The same shape, from eps to 1 - eps.

    >>> dynograd.distributions.utils.clamp_probs(tensor([0.0, 0.5, 1.0])).log()
    tensor([-1.5942e+01, -6.9315e-01, -1.1921e-07])
    """
    epsilon = float(dtypes.finfo(probs.dtype).eps)
    return probs.clamp(min=epsilon, max=1 - epsilon)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of unnormalised log-probabilities (over the last dim), or of log-odds.

    Args:
        logits (..., K): real numbers.
        is_binary: take the sigmoid of each, instead of the softmax over the last dim.
    Returns:
        The same shape, 0 to 1.

    >>> dynograd.distributions.utils.logits_to_probs(tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    return sigmoid(logits) if is_binary else softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logarithms of probabilities, or log-odds of binary ones; finite also at 0 and 1.

    Args:
        probs (..., K): probabilities, 0 to 1.
        is_binary: log-odds of each, instead of logarithms.
    Returns:
        The same shape.

    >>> dynograd.distributions.utils.probs_to_logits(tensor([0.5, 0.75]), is_binary=True)
    tensor([0.0000, 1.0986])
    """
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of square matrices, up to diagonal `diag`, row by row as vectors.

    Args:
        mat (..., D, D): square matrices.
        diag: the last diagonal to take; 0 is the main one, -1 the one below.
    Returns:
        (..., number of elements up to that diagonal).
    Raises:
        ValueError: `diag` is outside the matrix.

    >>> from dynograd.distributions.utils import tril_matrix_to_vec
    >>> tril_matrix_to_vec(tensor([[1, 2], [3, 4]]))
    tensor([1, 3, 4])
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"tril_matrix_to_vec: diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = tril_indices(size, size, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Square matrices with vectors as their lower triangle, up to diagonal `diag`, row by row, and zeros elsewhere.

    Args:
        vec (..., n): the elements, for `diag` 0 of number D (D + 1) / 2.
        diag: the last diagonal to fill; 0 is the main one, -1 the one below.
    Returns:
        (..., D, D).
    Raises:
        ValueError: no square matrix has a triangle of this size.

    >>> dynograd.distributions.utils.vec_to_tril_matrix(tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    size = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if abs(size - round(size)) > 1e-6:
        raise ValueError(
            f"vec_to_tril_matrix: the size of the last dimension is {vec.shape[-1]}, which is no triangle of a square matrix."
        )
    size = round(size)
    rows, columns = tril_indices(size, size, diag)
    matrix = vec.new_zeros((*vec.shape[:-1], size, size))
    matrix[..., rows, columns] = vec
    return matrix


class lazy_property:
    """A method computed when it is first read, with gradients recorded, and kept from then on as an attribute of the instance.

    Args:
        wrapped: the method.

    >>> class Circle:
    ...     @dynograd.distributions.utils.lazy_property
    ...     def area(self):
    ...         return 3.0
    >>> Circle().area
    3.0
    """

    def __init__(self, wrapped: Callable[..., Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


_show_plainly(globals())
