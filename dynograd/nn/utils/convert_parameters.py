"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from dynograd.errors import ShapeError
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after another.

    Args:
        parameters: tensors.
    Returns:
        (number of all elements,); gradients flow back to the parameters.

    >>> dynograd.nn.utils.parameters_to_vector(dynograd.nn.Linear(2, 1).parameters()).shape
    dynograd.Size([3])
    """
    return public_functions()["cat"]([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Makes the parts of `vec` the parameters' values, in their order.

    Args:
        vec: a vector of as many elements as all parameters have.
        parameters: tensors, whose memory is that of `vec` from now on.
    Raises:
        ShapeError: another number of elements.

    >>> layer = dynograd.nn.Linear(2, 1)
    >>> dynograd.nn.utils.vector_to_parameters(tensor([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.weight.detach(), layer.bias.detach()
    (tensor([[1., 2.]]), tensor([3.]))
    """
    listed = list(parameters)
    total = sum(parameter.numel() for parameter in listed)
    if vec.numel() != total:
        raise ShapeError(f"vector_to_parameters: the vector has {vec.numel()} elements, the parameters {total}.")
    start = 0
    for parameter in listed:
        parameter.data = vec[start : start + parameter.numel()].reshape(parameter.shape).data
        start += parameter.numel()
