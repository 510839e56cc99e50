"""Parameter and Buffer: tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dynograd.interpreter.override_protocol import disabled_torch_function
from dynograd.tensor.tensor import Tensor

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A tensor that belongs to a module: listed by `parameters()`, saved in `state_dict()`, and requiring grad.

    >>> dynograd.nn.Parameter(tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    __slots__ = ()
    __torch_function__ = disabled_torch_function

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter: expected a Tensor, got {type(data).__name__}. Make one with dynograd.tensor(...)."
            )
        if getattr(type(data), "__dynograd_rows__", False):
            raise TypeError(
                f"Parameter: a parameter has one size, but this is a ragged tensor of shape {tuple(data.shape)}. Make one of its elements, "
                f"self.values = Parameter(x.values()), and RaggedTensor(self.values, lengths) in forward."
            )
        parameter = Tensor.__new__(cls, data)
        if requires_grad:
            parameter.requires_grad = True
        return parameter

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        pass

    def __deepcopy__(self, memo: dict) -> Parameter:
        """The values in memory of their own, without `.grad` and attributes: a copied module starts without gradients."""
        if id(self) not in memo:
            parameter = memo[id(self)] = Tensor.__new__(type(self), self.detach().clone())
            parameter._requires_grad = self._requires_grad
        return memo[id(self)]

    def __repr__(self, **options: Any) -> str:
        return "Parameter containing:\n" + super().__repr__(**options)


class Buffer(Tensor):
    """A tensor that belongs to a module and is no parameter, such as a running mean.

    Args:
        persistent: whether `state_dict()` holds it.
    """

    __slots__ = ("persistent",)
    persistent: bool
    __torch_function__ = disabled_torch_function

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        buffer = Tensor.__new__(cls, Tensor() if data is None else data)
        buffer.persistent = persistent
        return buffer

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        pass


def __getattr__(name: str) -> Any:
    """PyTorch's other names of this module, which lies above it here."""
    if name in ("UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy"):
        return getattr(import_module("dynograd.nn.uninitialized"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
