"""What the distributions share: parameters of one shape, and the change between probabilities and logits."""

from __future__ import annotations

from numbers import Number
from typing import Any

from dynograd import dtypes
from dynograd.autograd import enable_grad
from dynograd.creation import tensor
from dynograd.ops.activations import sigmoid
from dynograd.ops.broadcasting import broadcast_tensors
from dynograd.ops.softmaxes import softmax
from dynograd.tensor import Tensor

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the tensors.

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
    given = [value for value in values if isinstance(value, Tensor)]
    kind, place = (given[0].dtype, given[0].device) if given else (dtypes.get_default_dtype(), None)
    made = [value if isinstance(value, Tensor) else tensor(value, dtype=kind, device=place) for value in values]
    return tuple(broadcast_tensors(*made))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's epsilon, so that their logarithms are finite."""
    epsilon = float(dtypes.finfo(probs.dtype).eps)
    return probs.clamp(min=epsilon, max=1 - epsilon)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of unnormalised log-probabilities (over the last dim), or of log-odds."""
    return sigmoid(logits) if is_binary else softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logarithms of probabilities, or log-odds of binary ones; finite also at 0 and 1."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """A method computed when it is first read, with gradients recorded, and kept from then on."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
