"""Activation functions as modules. Each is its function in `nn.functional` with its options as fields."""

from __future__ import annotations

from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.errors import ShapeError
from dynograd.interpreter.recorded_methods import recorded_as
from dynograd.nn import functional as F
from dynograd.nn import init as initial
from dynograd.nn.checks import check_sizes
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor.creation import full
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]

_ops = public_functions()


class Sigmoid(Module):
    """1 / (1 + exp(-x)), elementwise: a number between 0 and 1.

    Shape: input of any shape, also ragged; gives the same shape.

    >>> dynograd.nn.Sigmoid()(tensor([-1.0, 0.0, 1.0]))
    tensor([0.2689, 0.5000, 0.7311])
    """

    @recorded_as("sigmoid", through=F)
    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent, elementwise: a number between -1 and 1.

    Shape: input of any shape, also ragged; gives the same shape.

    >>> dynograd.nn.Tanh()(tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7616,  0.0000,  0.7616])
    """

    @recorded_as("tanh", through=F)
    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Softsign(Module):
    """x / (1 + |x|), elementwise: like tanh, with tails that fall off as 1 / x.

    Shape: input of any shape; gives the same shape.

    >>> dynograd.nn.Softsign()(tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5000,  0.0000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x), elementwise.

    Shape: input of any shape; gives the same shape.

    >>> dynograd.nn.Tanhshrink()(tensor([-2.0, 0.0, 2.0]))
    tensor([-1.0360,  0.0000,  1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class LogSigmoid(Module):
    """log(sigmoid(x)), elementwise, without underflow for very negative x.

    Shape: input of any shape; gives the same shape.

    >>> dynograd.nn.LogSigmoid()(tensor([-1000.0, 0.0]))
    tensor([-1.0000e+03, -6.9315e-01])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class _OnlyInplace(Module):
    """An activation whose only option is `inplace`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_OnlyInplace):
    """max(x, 0), elementwise; the gradient at 0 is 0.

    Args:
        inplace: overwrite the input.
    Shape: input of any shape, also ragged; gives the same shape.

    >>> dynograd.nn.ReLU()(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=True) if self.inplace else F.relu(input)


class SELU(_OnlyInplace):
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), elementwise.

    alpha = 1.6733 and scale = 1.0507 are chosen so that means stay near 0 and variances near 1 through layers of normal weights.

    Args:
        inplace: overwrite the input.
    Shape: input of any shape; gives the same shape.
    Source: Klambauer et al., Self-normalizing neural networks, 2017 (arXiv:1706.02515).

    >>> dynograd.nn.SELU()(tensor([-1.0, 0.0, 1.0]))
    tensor([-1.1113,  0.0000,  1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, inplace=self.inplace)


class SiLU(_OnlyInplace):
    """x * sigmoid(x), elementwise; also called swish.

    Args:
        inplace: overwrite the input.
    Shape: input of any shape, also ragged; gives the same shape.
    Source: Elfwing et al., Sigmoid-weighted linear units, 2017 (arXiv:1702.03118).

    >>> dynograd.nn.SiLU()(tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=self.inplace)


class Mish(_OnlyInplace):
    """x * tanh(softplus(x)), elementwise.

    Args:
        inplace: overwrite the input.
    Shape: input of any shape; gives the same shape.
    Source: Misra, Mish: a self regularized non-monotonic activation function, 2019 (arXiv:1908.08681).

    >>> dynograd.nn.Mish()(tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.0000,  0.8651])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=self.inplace)


class Hardswish(_OnlyInplace):
    """x * relu6(x + 3) / 6, elementwise: `SiLU` of straight pieces; 0 below -3 and x above 3.

    Args:
        inplace: overwrite the input.
    Shape: input of any shape; gives the same shape.
    Source: Howard et al., Searching for MobileNetV3, 2019 (arXiv:1905.02244).

    >>> dynograd.nn.Hardswish()(tensor([-4.0, 1.0, 4.0]))
    tensor([-0.0000, 0.6667, 4.0000])
    """

    extra_repr = Module.extra_repr  # PyTorch shows no inplace here

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, inplace=self.inplace)


class Hardsigmoid(_OnlyInplace):
    """relu6(x + 3) / 6, elementwise: `Sigmoid` of straight pieces; 0 below -3 and 1 above 3.

    Args:
        inplace: overwrite the input.
    Shape: input of any shape; gives the same shape.

    >>> dynograd.nn.Hardsigmoid()(tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    extra_repr = Module.extra_repr  # PyTorch shows no inplace here

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, inplace=self.inplace)


def _with_inplace(text: str, inplace: bool) -> str:
    return f"{text}, inplace=True" if inplace else text


class LeakyReLU(Module):
    """x where positive, else negative_slope * x, elementwise.

    Args:
        negative_slope: the slope below 0.
        inplace: overwrite the input.
    Shape: input of any shape; gives the same shape.

    >>> dynograd.nn.LeakyReLU(0.1)(tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(f"negative_slope={self.negative_slope}", self.inplace)


class RReLU(Module):
    """x where positive, else x times a slope drawn from [lower, upper] in training, their mean in evaluation.

    Args:
        lower, upper: between which the slope of each element is drawn.
        inplace: overwrite the input.
    Shape: input of any shape; gives the same shape.
    Source: Xu et al., Empirical evaluation of rectified activations in convolutional network, 2015 (arXiv:1505.00853).

    >>> dynograd.nn.RReLU(0.1, 0.3).eval()(tensor([-1.0, 2.0]))
    tensor([-0.2000,  2.0000])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(f"lower={self.lower}, upper={self.upper}", self.inplace)


class ELU(Module):
    """x where positive, else alpha * (exp(x) - 1), elementwise.

    Args:
        alpha: minus the limit for very negative x.
        inplace: overwrite the input.
    Shape: input of any shape; gives the same shape.
    Source: Clevert et al., Fast and accurate deep network learning by exponential linear units, 2015 (arXiv:1511.07289).

    >>> dynograd.nn.ELU()(tensor([-1.0, 0.0, 1.0]))
    tensor([-0.6321,  0.0000,  1.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(f"alpha={self.alpha}", self.inplace)


class CELU(Module):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)), elementwise: an `ELU` whose slope is continuous for each alpha.

    Args:
        alpha: minus the limit for very negative x; not 0.
        inplace: overwrite the input.
    Shape: input of any shape; gives the same shape.
    Source: Barron, Continuously differentiable exponential linear units, 2017 (arXiv:1704.07483).

    >>> dynograd.nn.CELU(2.0)(tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7869,  0.0000,  1.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(f"alpha={self.alpha}", self.inplace)


class Hardtanh(Module):
    """x clamped to [min_val, max_val], elementwise.

    Args:
        min_val, max_val: the bounds, min_val < max_val.
        inplace: overwrite the input.
        min_value, max_value: PyTorch's old names of the bounds.
    Shape: input of any shape; gives the same shape.
    Raises:
        ValueError: max_val is not larger than min_val.

    >>> dynograd.nn.Hardtanh()(tensor([-3.0, 0.5, 3.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if not self.max_val > self.min_val:
            raise ValueError(f"Hardtanh: max_val ({self.max_val}) must be larger than min_val ({self.min_val}).")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(f"min_val={self.min_val}, max_val={self.max_val}", self.inplace)


class ReLU6(Hardtanh):
    """min(max(x, 0), 6), elementwise.

    Args:
        inplace: overwrite the input.
    Shape: input of any shape; gives the same shape.

    >>> dynograd.nn.ReLU6()(tensor([-1.0, 2.0, 8.0]))
    tensor([0., 2., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Threshold(Module):
    """x where it is above `threshold`, else `value`, elementwise.

    Args:
        threshold: the largest number that is replaced.
        value: what replaces it.
        inplace: overwrite the input.
    Shape: input of any shape; gives the same shape.

    >>> dynograd.nn.Threshold(1.0, -9.0)(tensor([0.5, 1.0, 2.0]))
    tensor([-9., -9.,  2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return _with_inplace(f"threshold={self.threshold}, value={self.value}", self.inplace)


class GELU(Module):
    """x times the normal distribution function of x, elementwise.

    Args:
        approximate: "none", or "tanh" for the older formula with a tanh.
    Shape: input of any shape, also ragged; gives the same shape.
    Source: Hendrycks and Gimpel, Gaussian error linear units, 2016 (arXiv:1606.08415).

    >>> dynograd.nn.GELU()(tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta, elementwise: a smooth `ReLU`; x itself where beta * x is above `threshold`.

    Args:
        beta: the sharpness of the bend.
        threshold: from where on it is linear.
    Shape: input of any shape; gives the same shape.

    >>> dynograd.nn.Softplus()(tensor([-1.0, 0.0, 50.0]))
    tensor([ 0.3133,  0.6931, 50.0000])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardshrink(Module):
    """x outside [-lambd, lambd], else 0, elementwise.

    Args:
        lambd: the half width of what becomes 0.
    Shape: input of any shape; gives the same shape.

    >>> dynograd.nn.Hardshrink()(tensor([-1.0, 0.3, 2.0]))
    tensor([-1.,  0.,  2.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """x moved towards 0 by lambd, and 0 inside [-lambd, lambd], elementwise.

    Args:
        lambd: how far, 0 or more.
    Shape: input of any shape; gives the same shape.

    >>> dynograd.nn.Softshrink()(tensor([-1.0, 0.3, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class GLU(Module):
    """The first half of `dim` times the sigmoid of the second half.

    Args:
        dim: the dim that is halved; its size is even.
    Shape: input (*, 2 n, *); gives (*, n, *).
    Source: Dauphin et al., Language modeling with gated convolutional networks, 2016 (arXiv:1612.08083).

    >>> dynograd.nn.GLU()(tensor([[1.0, 2.0, 0.0, 100.0]]))
    tensor([[0.5000, 2.0000]])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _Along(Module):
    """An activation over one dim; without it, PyTorch's old choice: 0 for 0-d, 1-d and 3-d inputs, else 1."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_Along):
    """exp(x) over its sum along `dim`: numbers of [0, 1] that sum to 1.

    Args:
        dim: along which dim; None is chosen by rank (0 for 0-d, 1-d and 3-d inputs, else 1), with a warning.
    Shape: input of any shape, also ragged; gives the same shape.

    >>> dynograd.nn.Softmax(dim=-1)(tensor([[0.0, 0.0]]))
    tensor([[0.5000, 0.5000]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return _ops["softmax"](input, self.dim, 5)


class LogSoftmax(_Along):
    """log(softmax(x)) along `dim`, without overflow.

    Args:
        dim: along which dim; None is chosen by rank, as in `Softmax`.
    Shape: input of any shape, also ragged; gives the same shape.

    >>> dynograd.nn.LogSoftmax(dim=-1)(tensor([[0.0, 0.0]]))
    tensor([[-0.6931, -0.6931]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return _ops["log_softmax"](input, self.dim, 5)


class Softmin(_Along):
    """softmax(-x) along `dim`: the smallest number gets the largest share.

    Args:
        dim: along which dim; None is chosen by rank, as in `Softmax`.
    Shape: input of any shape; gives the same shape.

    >>> dynograd.nn.Softmin(dim=-1)(tensor([0.0, 1.0]))
    tensor([0.7311, 0.2689])
    """

    def forward(self, input: Tensor) -> Tensor:
        return _ops["softmin"](input, self.dim, 5)


class Softmax2d(Module):
    """Softmax over the channels at each place of an image.

    Shape: input (N, C, H, W) or (C, H, W); gives the same shape.
    Raises:
        ShapeError: in a call: an input of another rank.

    >>> dynograd.nn.Softmax2d()(dynograd.zeros(4, 1, 2))[:, 0, 0]
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ShapeError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead (shape {tuple(input.shape)}). "
                f"Use Softmax(dim) for other shapes."
            )
        return F.softmax(input, -3)


class PReLU(Module):
    """x where positive, else a learned slope times x: one slope for all, or one per channel (dim 1).

    Args:
        num_parameters: the number of slopes: 1, or that of channels.
        init: where each slope starts.
        device, dtype: of `weight`, which holds the slopes (num_parameters,).
    Shape: input of any shape; gives the same shape.
    Raises:
        TypeError, ShapeError: num_parameters is not an integer of 0 or more.
    Source: He et al., Delving deep into rectifiers, 2015 (arXiv:1502.01852).

    >>> dynograd.nn.PReLU()(tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        super().__init__()
        check_sizes("PReLU", num_parameters=num_parameters)
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Sets each slope to `init` again.

        >>> layer = dynograd.nn.PReLU(init=0.1)
        >>> layer.reset_parameters()
        >>> layer.weight.detach()
        tensor([0.1000])
        """
        initial.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
