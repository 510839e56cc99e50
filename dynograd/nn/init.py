"""Initial values of parameters, in place and outside the tape, with PyTorch's distributions."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.base.listing import lists
from dynograd.base.random_streams import Generator
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.errors import ShapeError
from dynograd.tensor.tensor import Tensor, wrap

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]
__dir__ = lists(__name__, __all__)

# Numbers by the names that PyTorch's `calculate_gain` takes, of which some are ops.
_GAINS = {
    "linear": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
    **{f"conv{transposed}{rank}d": 1.0 for transposed in ("", "_transpose") for rank in (1, 2, 3)},
}


def _outside_tape(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def fill(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{function.__name__}: expected a Tensor, got {type(tensor).__name__}.")
        if tensor.is_meta:  # nothing to fill
            return tensor
        with no_grad():
            return function(tensor, *args, **kwargs)

    return fill


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance of activations through `nonlinearity`.

    Args:
        nonlinearity: "linear", "conv1d" and the like, "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
        param: the slope of "leaky_relu", 0.01 when left out.
    Returns:
        float: 1 for linear ones and sigmoid, 5/3 for tanh, sqrt(2) for relu, sqrt(2 / (1 + slope^2)) for leaky_relu, 3/4 for
            selu.
    Raises:
        ValueError: another name, or a slope that is no number.

    >>> dynograd.nn.init.calculate_gain("leaky_relu", 0.2)
    1.3867504905630728
    """
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"calculate_gain: negative_slope {param} not a valid number.")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(
        f"calculate_gain: Unsupported nonlinearity {nonlinearity}; known are {', '.join([*_GAINS, 'leaky_relu'])}."
    )


@_outside_tape
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills with uniform numbers of [a, b), outside the tape.

    Args:
        tensor: of any shape.
        a, b: the bounds.
        generator: where numbers come from; the global one when left out.
    Returns:
        `tensor`.
    Raises:
        TypeError: no tensor.

    >>> w = dynograd.nn.init.uniform_(dynograd.empty(100), -1.0, 1.0)
    >>> bool((w >= -1).all() and (w < 1).all())
    True
    """
    return tensor.uniform_(a, b, generator=generator)


@_outside_tape
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills with normal numbers, outside the tape.

    Args:
        tensor: of any shape.
        mean, std: of the distribution; std is 0 or more.
        generator: where numbers come from; the global one when left out.
    Returns:
        `tensor`.
    Raises:
        TypeError: no tensor.

    >>> w = dynograd.nn.init.normal_(dynograd.empty(10000), mean=3.0)
    >>> bool((w.mean() - 3).abs() < 0.1)
    True
    """
    return tensor.normal_(mean, std, generator=generator)


@_outside_tape
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fills with normal numbers that lie in [a, b], by the inverse of the distribution function, outside the tape.

    Args:
        tensor: of any shape.
        mean, std: of the distribution before it is cut.
        a, b: the bounds.
        generator: where numbers come from; the global one when left out.
    Returns:
        `tensor`.
    Raises:
        TypeError: no tensor.

    >>> w = dynograd.nn.init.trunc_normal_(dynograd.empty(1000), a=-0.5, b=0.5)
    >>> bool(w.abs().max() <= 0.5)
    True
    """
    below, above = (math.erf((bound - mean) / (std * math.sqrt(2.0))) for bound in (a, b))
    tensor.uniform_(below, above, generator=generator)
    tensor.copy_(tensor.erfinv()).mul_(std * math.sqrt(2.0)).add_(mean)
    return tensor.clamp_(a, b)


@_outside_tape
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills with one value, outside the tape.

    Args:
        tensor: of any shape.
        val: the value.
    Returns:
        `tensor`.
    Raises:
        TypeError: no tensor.

    >>> dynograd.nn.init.constant_(dynograd.empty(2), 0.3)
    tensor([0.3000, 0.3000])
    """
    return tensor.fill_(val)


@_outside_tape
def ones_(tensor: Tensor) -> Tensor:
    """Fills with ones, outside the tape.

    Args:
        tensor: of any shape.
    Returns:
        `tensor`.
    Raises:
        TypeError: no tensor.

    >>> dynograd.nn.init.ones_(dynograd.empty(2))
    tensor([1., 1.])
    """
    return tensor.fill_(1.0)


@_outside_tape
def zeros_(tensor: Tensor) -> Tensor:
    """Fills with zeros, outside the tape.

    Args:
        tensor: of any shape.
    Returns:
        `tensor`.
    Raises:
        TypeError: no tensor.

    >>> dynograd.nn.init.zeros_(dynograd.empty(2))
    tensor([0., 0.])
    """
    return tensor.zero_()


@_outside_tape
def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere: a linear layer that passes its input through.

    Args:
        tensor (N, M): a matrix.
    Returns:
        `tensor`.
    Raises:
        ValueError: it is not 2-d.

    >>> dynograd.nn.init.eye_(dynograd.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndim != 2:
        raise ValueError(f"eye_: only tensors with 2 dimensions are supported, got shape {tuple(tensor.shape)}.")
    tensor.zero_()
    for place in range(min(tensor.shape)):
        tensor[place, place] = 1.0
    return tensor


@_outside_tape
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight that passes its input through (in each group).

    Args:
        tensor (out, in, *): of 3, 4 or 5 dims.
        groups: of the convolution; divides `out`.
    Returns:
        `tensor`.
    Raises:
        ValueError: another rank, or `out` is not a multiple of `groups`.

    >>> dynograd.nn.init.dirac_(dynograd.empty(2, 2, 3))
    tensor([[[0., 1., 0.],
             [0., 0., 0.]],
    <BLANKLINE>
            [[0., 0., 0.],
             [0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(
            f"dirac_: only tensors with 3, 4, or 5 dimensions are supported, got shape {tuple(tensor.shape)}."
        )
    if tensor.shape[0] % groups:
        raise ValueError(f"dirac_: dim 0 must be divisible by groups, got {tensor.shape[0]} and {groups}.")
    per_group = tensor.shape[0] // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    tensor.zero_()
    for group in range(groups):
        for place in range(min(per_group, tensor.shape[1])):
            tensor[(group * per_group + place, place, *centre)] = 1.0
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    shape = tuple(tensor.shape)
    if len(shape) < 2:
        raise ShapeError(
            f"Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, got shape {shape}."
        )
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _is_empty(tensor: Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=4)
    return True


def _fan(tensor: Tensor, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out'].")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


@_outside_tape
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform numbers of variance gain^2 * 2 / (fan_in + fan_out).

    Args:
        tensor (out, in, *): of 2 dims or more; fans are in and out times the product of the rest.
        gain: a factor, see `calculate_gain`.
        generator: where numbers come from; the global one when left out.
    Returns:
        `tensor`.
    Raises:
        ShapeError: fewer than 2 dims.
    Source: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.

    >>> w = dynograd.nn.init.xavier_uniform_(dynograd.empty(4, 2))
    >>> bool(w.abs().max() <= 1)  # sqrt(6 / (4 + 2))
    True
    """
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return tensor.uniform_(-bound, bound, generator=generator)


@_outside_tape
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal numbers of variance gain^2 * 2 / (fan_in + fan_out).

    Args:
        tensor (out, in, *): of 2 dims or more; fans are in and out times the product of the rest.
        gain: a factor, see `calculate_gain`.
        generator: where numbers come from; the global one when left out.
    Returns:
        `tensor`.
    Raises:
        ShapeError: fewer than 2 dims.
    Source: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.

    >>> w = dynograd.nn.init.xavier_normal_(dynograd.empty(100, 100))
    >>> bool((w.std() - 0.1).abs() < 0.01)
    True
    """
    return tensor.normal_(0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator=generator)


@_outside_tape
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform numbers of variance gain^2 / fan.

    Args:
        tensor (out, in, *): of 2 dims or more; fan_in is in times the product of the rest.
        a: the slope of leaky_relu.
        mode: "fan_in" keeps variances in forward, "fan_out" in backward.
        nonlinearity: whose gain, see `calculate_gain`.
        generator: where numbers come from; the global one when left out.
    Returns:
        `tensor`.
    Raises:
        ShapeError: fewer than 2 dims.
        ValueError: another mode or nonlinearity.
    Source: He et al., Delving deep into rectifiers, 2015 (arXiv:1502.01852).

    >>> w = dynograd.nn.init.kaiming_uniform_(dynograd.empty(4, 6), nonlinearity="relu")
    >>> bool(w.abs().max() <= 1)  # sqrt(3 * 2 / 6)
    True
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    return tensor.uniform_(-bound, bound, generator=generator)


@_outside_tape
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal numbers of variance gain^2 / fan.

    Args:
        tensor (out, in, *): of 2 dims or more; fan_in is in times the product of the rest.
        a: the slope of leaky_relu.
        mode: "fan_in" keeps variances in forward, "fan_out" in backward.
        nonlinearity: whose gain, see `calculate_gain`.
        generator: where numbers come from; the global one when left out.
    Returns:
        `tensor`.
    Raises:
        ShapeError: fewer than 2 dims.
        ValueError: another mode or nonlinearity.
    Source: He et al., Delving deep into rectifiers, 2015 (arXiv:1502.01852).

    >>> w = dynograd.nn.init.kaiming_normal_(dynograd.empty(100, 200), nonlinearity="relu")
    >>> bool((w.std() - 0.1).abs() < 0.01)
    True
    """
    if _is_empty(tensor):
        return tensor
    return tensor.normal_(0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)), generator=generator)


@_outside_tape
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A random (semi-)orthogonal matrix, times `gain`; dims after the first are flattened.

    Args:
        tensor (rows, *): of 2 dims or more.
        gain: a factor, see `calculate_gain`.
        generator: where numbers come from; the global one when left out.
    Returns:
        `tensor`; its rows are orthonormal times gain, or its columns where it is tall.
    Raises:
        ValueError: fewer than 2 dims.
    Source: Saxe et al., Exact solutions to the nonlinear dynamics of learning in deep linear neural networks, 2013
        (arXiv:1312.6120).

    >>> w = dynograd.nn.init.orthogonal_(dynograd.empty(2, 3))
    >>> dynograd.allclose(w @ w.T, dynograd.eye(2), atol=1e-5)
    True
    """
    if tensor.ndim < 2:
        raise ValueError(
            f"orthogonal_: only tensors with 2 or more dimensions are supported, got shape {tuple(tensor.shape)}."
        )
    if tensor.numel() == 0:
        return tensor
    from dynograd.kernels import kernel

    rows = tensor.shape[0]
    flat = tensor.detach().clone().reshape(rows, -1).normal_(0.0, 1.0, generator=generator)
    basis = kernel("creation", "orthogonal", flat.array)(flat.array)
    return tensor.copy_(wrap(basis).reshape(tensor.shape)).mul_(gain)


@_outside_tape
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Normal numbers with a fraction `sparsity` of each column set to 0.

    Args:
        tensor (N, M): a matrix.
        sparsity: the fraction, from 0 to 1; counts are rounded up.
        std: of the normal numbers.
        generator: where numbers come from; the global one when left out.
    Returns:
        `tensor`.
    Raises:
        ValueError: it is not 2-d.
    Source: Martens, Deep learning via Hessian-free optimization, 2010.

    >>> w = dynograd.nn.init.sparse_(dynograd.empty(10, 2), sparsity=0.3)
    >>> (w == 0).sum(0)
    tensor([3, 3])
    """
    if tensor.ndim != 2:
        raise ValueError(f"sparse_: only tensors with 2 dimensions are supported, got shape {tuple(tensor.shape)}.")
    from dynograd.tensor.randomness import randperm

    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0.0, std, generator=generator)
    for column in range(columns):
        chosen: Any = randperm(rows, generator=generator)
        tensor[chosen[:zeros], column] = 0.0
    return tensor


# --- the old names, without underscore ----------------------------------------------------------------------------------


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    old = function.__name__.removesuffix("_")

    @functools.wraps(function)
    def fill(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{old}_`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    fill.__name__ = fill.__qualname__ = old
    return fill


uniform, normal, constant = _deprecated(uniform_), _deprecated(normal_), _deprecated(constant_)
xavier_uniform, xavier_normal = _deprecated(xavier_uniform_), _deprecated(xavier_normal_)
kaiming_uniform, kaiming_normal = _deprecated(kaiming_uniform_), _deprecated(kaiming_normal_)
orthogonal, dirac, eye, sparse = (_deprecated(function) for function in (orthogonal_, dirac_, eye_, sparse_))


# --- PyTorch's private names that programs use --------------------------------------------------------------------------


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    return _fan(tensor, mode.lower())


_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_

_show_plainly(globals())
