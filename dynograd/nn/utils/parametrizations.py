"""Ready parametrizations: `weight_norm`, `spectral_norm`, `orthogonal`. Their state_dict keys are PyTorch's."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.nn import functional as F
from dynograd.nn.layers.conv import _ConvTransposeNd
from dynograd.nn.module import Module
from dynograd.nn.utils.parametrize import register_parametrization
from dynograd.nn.utils.weight_norm import _norm
from dynograd.tensor.creation import eye
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Tensor:
        return weight_v * (weight_g / _norm(weight_v, None if self.dim == -1 else self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Any, Any]:
        return _norm(weight, None if self.dim == -1 else self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrizes `name` by its length (`original0`) and direction (`original1`). Files of the older `nn.utils.weight_norm` load.

    Args:
        module: changed in place.
        name: of its parameter.
        dim: one length for each index of this dim; None: one for the whole weight.
    Returns:
        `module`.
    Raises:
        ValueError: there is no such parameter.
    Source: Salimans and Kingma, Weight normalization, 2016 (arXiv:1602.07868).

    >>> layer = dynograd.nn.utils.parametrizations.weight_norm(dynograd.nn.Linear(3, 2))
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename_old_keys(state_dict: Any, prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for number, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{number}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename_old_keys)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = weight.dim()
        if not -rank <= dim < rank:
            raise IndexError(
                f"spectral_norm: Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got {dim})."
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"spectral_norm: Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}."
            )
        self.dim, self.eps = dim % rank, eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = self._matrix(weight.detach())
                for key, size in zip(("_u", "_v"), matrix.shape):
                    self.register_buffer(key, F.normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps))
                self._iterate(matrix, 15)

    def _matrix(self, weight: Any) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix: Any, times: int) -> None:
        with no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.mT.conj() @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # what backward needs must outlive the next forward
        return weight / (u.conj() * (matrix @ v)).sum()

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Parametrizes `name` as itself divided by its largest singular value, which power iteration follows in training.

    Args:
        module: changed in place.
        name: of its parameter; dims but `dim` are flattened.
        n_power_iterations: steps of power iteration whenever the weight is read in training, at least 1.
        eps: the least norm that is divided by.
        dim: of the outputs; 1 for transposed convolutions, else 0.
    Returns:
        `module`.
    Raises:
        ValueError: there is no such parameter, or n_power_iterations below 1.
        IndexError: `dim` is out of range.
    Source: Miyato et al., Spectral normalization for generative adversarial networks, 2018 (arXiv:1802.05957).

    >>> layer = dynograd.nn.utils.parametrizations.spectral_norm(dynograd.nn.Linear(3, 2))
    >>> list(layer.state_dict())[1:]
    ['parametrizations.weight.original', 'parametrizations.weight.0._u', 'parametrizations.weight.0._v']
    """
    weight = _tensor_of("spectral_norm", module, name)
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


class _Orthogonal(Module):
    """Maps a matrix to one with orthonormal columns (rows where it is wide), by one of three maps."""

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("orthogonal: The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Any) -> Tensor:
        ops = public_functions()
        transposed = x.shape[-2] < x.shape[-1]
        x = x.mT if transposed else x
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            below = x.tril(-1)
            scales = 2.0 / (1.0 + (below * below).sum(-2))
            q = ops["linalg_householder_product"](below, scales)
            q = q * x.detach().diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        else:
            x = x.tril()
            if n != k:
                x = ops["cat"]([x, x.new_zeros(*x.shape[:-1], n - k)], -1)
            skew = x - x.mT.conj()
            if self.orthogonal_map == "matrix_exp":
                q = ops["matrix_exp"](skew)
            else:
                identity = eye(n, dtype=x.dtype, device=x.device)
                q = ops["linalg_solve"](identity - skew / 2, identity + skew / 2)
            q = q[..., :k]
        if "base" in self._buffers:
            q = self.base @ q
        return q.mT if transposed else q

    def right_inverse(self, value: Tensor) -> Any:
        if value.shape != self.shape:
            raise ValueError(
                f"orthogonal: Expected a matrix or batch of matrices of shape {tuple(self.shape)}. Got a tensor of shape "
                f"{tuple(value.shape)}."
            )
        with no_grad():
            transposed = value.shape[-2] < value.shape[-1]
            tall = value.mT if transposed else value
            if "base" in self._buffers:
                return self._trivialize(value, tall)
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "orthogonal: It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            reflectors, scales = public_functions()["geqrf"](tall)
            diagonal = reflectors.diagonal(dim1=-2, dim2=-1).sign() * (1 - 2 * (scales == 0).to(reflectors.dtype))
            reflectors = reflectors.clone()
            reflectors.diagonal(dim1=-2, dim2=-1).copy_(diagonal)
            return reflectors.mT if transposed else reflectors

    def _trivialize(self, value: Any, tall: Any) -> Tensor:
        """Keeps the value, completed to a square, as `base`; the map starts from the identity."""
        n, k = tall.shape[-2:]
        if n != k:
            tall = public_functions()["cat"]([tall, tall.new_empty(*tall.shape[:-1], n - k).normal_(0, 1)], -1)
        self.base = tall.clone() if n == k and _is_orthogonal(tall) else _orthonormal(tall)
        signs = value.new_zeros(value.shape)
        signs.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return signs


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Parametrizes a matrix (or batch of matrices) so that its columns, or its rows where it is wide, stay orthonormal.

    Args:
        module: changed in place.
        name: of its parameter (*, M, N).
        orthogonal_map: "matrix_exp", "cayley" or "householder"; None is the first for square and complex ones, the
            last for others.
        use_trivialization: keep today's value as `base` and map from the identity: any value can be assigned, and it trains well.
    Returns:
        `module`.
    Raises:
        ValueError: there is no such parameter, fewer than 2 dims, another map, "householder" of complex numbers.
    Source: Lezcano-Casado, Trivializations for gradient-based optimization on manifolds, 2019 (arXiv:1909.09501).

    >>> layer = dynograd.nn.utils.parametrizations.orthogonal(dynograd.nn.Linear(2, 3))
    >>> dynograd.allclose(layer.weight.mT @ layer.weight, dynograd.eye(2), atol=1e-5)
    True
    """
    weight = _tensor_of("orthogonal", module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"orthogonal: Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1] or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal: orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)


def _tensor_of(who: str, module: Any, name: str) -> Tensor:
    tensor = getattr(module, name, None)
    if tensor is None or not hasattr(tensor, "dim"):
        raise ValueError(
            f"{who}: Module '{module}' has no parameter or buffer with name '{name}'. It has {', '.join(module._parameters) or 'none'}."
        )
    return tensor


def _is_orthogonal(q: Any) -> bool:
    k = q.shape[-1]
    identity = eye(k, dtype=q.dtype, device=q.device)
    eps = 10 * k * {2: 1e-3, 4: 1.2e-7, 8: 2.3e-16}[q.real.element_size()]
    return bool(((q.mT.conj() @ q - identity).abs() <= eps).all())


def _orthonormal(a: Any) -> Tensor:
    """Q of a = QR, with R's diagonal real and not negative."""
    q, r = public_functions()["linalg_qr"](a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


_show_plainly(globals())
