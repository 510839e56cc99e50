"""Weights divided by their largest singular value, which power iteration follows."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.nn.layers.conv import _ConvTransposeNd
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor import creation
from dynograd.tensor.tensor import Tensor

__all__ = ["remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """A forward pre-hook that computes `name` from `name_orig`; `spectral_norm` makes it.

    Args:
        name: of the parameter.
        n_power_iterations: steps of power iteration at each forward in training.
        dim: of the outputs.
        eps: the least norm that is divided by.

    >>> layer = dynograd.nn.utils.spectral_norm(dynograd.nn.Linear(3, 2))
    >>> [type(hook).__name__ for hook in layer._forward_pre_hooks.values()]
    ['SpectralNorm']
    """

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def matrix(self, weight: Tensor) -> Tensor:
        """The weight as a matrix, with `dim` in front.

        Args:
            weight: of any rank.
        Returns:
            (size of `dim`, product of the others).

        >>> from dynograd.nn.utils.spectral_norm import SpectralNorm
        >>> SpectralNorm("weight", 1, 1, 1e-12).matrix(dynograd.ones(2, 3, 4)).shape
        dynograd.Size([3, 8])
        """
        return weight.transpose(0, self.dim).reshape(weight.shape[self.dim], -1)

    def compute_weight(self, module: Module, iterate: bool) -> Tensor:
        """The weight divided by its spectral norm.

        Args:
            module: whose weight it is.
            iterate: update the estimate first.
        Returns:
            of the weight's shape.

        >>> layer = dynograd.nn.utils.spectral_norm(dynograd.nn.Linear(3, 2))
        >>> [hook] = layer._forward_pre_hooks.values()
        >>> hook.compute_weight(layer, iterate=False).shape
        dynograd.Size([2, 3])
        """
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.matrix(weight)
        if iterate:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(self._unit(matrix.t() @ u))
                    u.copy_(self._unit(matrix @ v))
            u, v = u.clone(), v.clone()  # what backward needs must outlive the next forward
        return weight / (u * (matrix @ v)).sum()

    def _unit(self, x: Any) -> Tensor:
        return x / (x * x).sum().sqrt().clamp(self.eps)

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divides parameter `name` of `module` by its spectral norm before each forward; training updates the estimate.

    Args:
        module: changed in place.
        name: of its parameter.
        n_power_iterations: steps of power iteration at each forward in training, at least 1.
        eps: the least norm that is divided by.
        dim: of the outputs; 1 for transposed convolutions, else 0.
    Returns:
        `module`.
    Raises:
        RuntimeError: it has such a hook already.
        ValueError: n_power_iterations below 1.
    Source: Miyato et al., Spectral normalization for generative adversarial networks, 2018 (arXiv:1802.05957).

    >>> layer = dynograd.nn.utils.spectral_norm(dynograd.nn.Linear(3, 2))
    >>> sorted(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if _hook_of(module, name) is not None:
        raise RuntimeError(
            f"spectral_norm: {type(module).__name__} has a spectral_norm hook on the parameter {name!r} already."
        )
    if n_power_iterations <= 0:
        raise ValueError(f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}.")
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters.pop(name)
    with no_grad():
        matrix = hook.matrix(weight)
        u, v = (hook._unit(creation.empty(size, dtype=weight.dtype).normal_(0, 1)) for size in matrix.shape)
        for _ in range(15):
            v = hook._unit(matrix.t() @ u)
            u = hook._unit(matrix @ v)
    module.register_parameter(f"{name}_orig", Parameter(weight.detach()))
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Makes `name` one parameter again, divided by its last norm.

    Args:
        module: changed in place.
        name: of its parameter.
    Returns:
        `module`.
    Raises:
        ValueError: `module` has no spectral_norm of that name.

    >>> layer = dynograd.nn.utils.spectral_norm(dynograd.nn.Linear(3, 2))
    >>> sorted(dynograd.nn.utils.remove_spectral_norm(layer).state_dict())
    ['bias', 'weight']
    """
    key = _hook_of(module, name)
    if key is None:
        raise ValueError(f"remove_spectral_norm: spectral_norm of {name!r} not found in {type(module).__name__}.")
    hook = module._forward_pre_hooks.pop(key)
    weight = hook.compute_weight(module, False).detach()
    delattr(module, name)
    del module._parameters[f"{name}_orig"], module._buffers[f"{name}_u"], module._buffers[f"{name}_v"]
    module.register_parameter(name, Parameter(weight))
    return module


def _hook_of(module: Any, name: str) -> int | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            return key
    return None
