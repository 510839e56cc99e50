"""Weights as a direction and a length, learned apart."""

from __future__ import annotations

from typing import Any

from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor.tensor import Tensor

__all__ = ["remove_weight_norm", "weight_norm"]


class WeightNorm:
    """A forward pre-hook that computes `name` from `name_g` and `name_v`; `weight_norm` makes it.

    Args:
        name: of the parameter.
        dim: one length for each index of this dim; None: one for the whole weight.

    >>> layer = dynograd.nn.utils.weight_norm(dynograd.nn.Linear(3, 2))
    >>> [type(hook).__name__ for hook in layer._forward_pre_hooks.values()]
    ['WeightNorm']
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, dim

    def compute_weight(self, module: Module) -> Tensor:
        """The direction times the length.

        Args:
            module: whose weight it is.
        Returns:
            of the weight's shape.

        >>> layer = dynograd.nn.utils.weight_norm(dynograd.nn.Linear(3, 2))
        >>> [hook] = layer._forward_pre_hooks.values()
        >>> hook.compute_weight(layer).shape
        dynograd.Size([2, 3])
        """
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / _norm(v, self.dim))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def _norm(v: Any, dim: int | None) -> Tensor:
    """The norm over all dims but `dim`, which is kept."""
    others = tuple(place for place in range(v.dim()) if dim is None or place != dim % v.dim())
    return (v * v).sum(others, dim is not None).sqrt() if others else v.abs()


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replaces parameter `name` of `module` by its length `name_g` and direction `name_v`; it is computed before each forward.

    Args:
        module: changed in place.
        name: of its parameter.
        dim: one length for each index of this dim; None: one for the whole weight.
    Returns:
        `module`.
    Raises:
        RuntimeError: it has such a hook already.
    Source: Salimans and Kingma, Weight normalization, 2016 (arXiv:1602.07868).

    >>> layer = dynograd.nn.utils.weight_norm(dynograd.nn.Linear(3, 2))
    >>> layer.weight_g.shape, layer.weight_v.shape
    (dynograd.Size([2, 1]), dynograd.Size([2, 3]))
    """
    if _hook_of(module, name) is not None:
        raise RuntimeError(
            f"weight_norm: {type(module).__name__} has a weight_norm hook on the parameter {name!r} already."
        )
    hook = WeightNorm(name, None if dim == -1 else dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(f"{name}_g", Parameter(_norm(weight, hook.dim).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Makes `name` one parameter again.

    Args:
        module: changed in place.
        name: of its parameter.
    Returns:
        `module`.
    Raises:
        ValueError: `module` has no weight_norm of that name.

    >>> layer = dynograd.nn.utils.weight_norm(dynograd.nn.Linear(3, 2))
    >>> sorted(dynograd.nn.utils.remove_weight_norm(layer).state_dict())
    ['bias', 'weight']
    """
    key = _hook_of(module, name)
    if key is None:
        raise ValueError(f"remove_weight_norm: weight_norm of {name!r} not found in {type(module).__name__}.")
    hook = module._forward_pre_hooks.pop(key)
    weight = hook.compute_weight(module).detach()
    delattr(module, name)
    del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
    module.register_parameter(name, Parameter(weight))
    return module


def _hook_of(module: Any, name: str) -> int | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            return key
    return None
