"""Activation functions as modules. Each is its function in `nn.functional` with its options as fields."""

from __future__ import annotations

from typing import Any

from dynograd.creation import full
from dynograd.nn import functional as F
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter

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


class _Activation(Module):
    """Calls `function` with the fields named in `options`, in that order."""

    function: str
    options: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    def forward(self, input: Any) -> Any:
        return getattr(F, self.function)(input, **{name: getattr(self, name) for name in self.options})

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)


class _MaybeInplace(_Activation):
    """An activation whose only option is `inplace`."""

    options = ("inplace",)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_MaybeInplace):
    """max(x, 0)."""

    function = "relu"

    def forward(self, input: Any) -> Any:
        return F.relu(input, inplace=self.inplace) if self.inplace else F.relu(input)


class ReLU6(_MaybeInplace):
    """min(max(x, 0), 6)."""

    function = "relu6"


class SELU(_MaybeInplace):
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), self-normalising."""

    function = "selu"


class SiLU(_MaybeInplace):
    """x * sigmoid(x)."""

    function = "silu"


class Mish(_MaybeInplace):
    """x * tanh(softplus(x))."""

    function = "mish"


class Hardswish(_MaybeInplace):
    """x * relu6(x + 3) / 6."""

    function = "hardswish"


class Hardsigmoid(_MaybeInplace):
    """relu6(x + 3) / 6."""

    function = "hardsigmoid"


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""

    function = "sigmoid"


class Tanh(_Activation):
    """The hyperbolic tangent."""

    function = "tanh"


class Softsign(_Activation):
    """x / (1 + |x|)."""

    function = "softsign"


class Tanhshrink(_Activation):
    """x - tanh(x)."""

    function = "tanhshrink"


class LogSigmoid(_Activation):
    """log(sigmoid(x))."""

    function = "logsigmoid"


class GELU(_Activation):
    """x times the normal distribution function of x; `approximate="tanh"` for the old formula."""

    function, options = "gelu", ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(_Activation):
    """x where positive, else negative_slope * x."""

    function, options = "leaky_relu", ("negative_slope", "inplace")

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class ELU(_Activation):
    """x where positive, else alpha * (exp(x) - 1)."""

    function, options = "elu", ("alpha", "inplace")

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(ELU):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    function = "celu"


class Softplus(_Activation):
    """log(1 + exp(beta * x)) / beta, linear above threshold / beta."""

    function, options, shown = "softplus", ("beta", "threshold"), ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold


class Hardtanh(_Activation):
    """x clamped to [min_val, max_val]."""

    function, options = "hardtanh", ("min_val", "max_val", "inplace")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if not max_val > min_val:
            raise ValueError(f"Hardtanh: max_val ({max_val}) must be larger than min_val ({min_val}).")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class Hardshrink(_Activation):
    """x outside [-lambd, lambd], else 0."""

    function, options = "hardshrink", ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Softshrink(Hardshrink):
    """x moved towards 0 by lambd, 0 inside [-lambd, lambd]."""

    function = "softshrink"


class Threshold(_Activation):
    """x above `threshold`, else `value`."""

    function, options, shown = "threshold", ("threshold", "value", "inplace"), ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace


class GLU(_Activation):
    """The first half of `dim` times the sigmoid of the second half."""

    function, options, shown = "glu", ("dim",), ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim


class Softmax(_Activation):
    """exp(x) over its sum along `dim`.

    >>> dynograd.nn.Softmax(dim=-1)(tensor([[0.0, 0.0]]))
    tensor([[0.5000, 0.5000]])
    """

    function, options, shown = "softmax", ("dim",), ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class LogSoftmax(Softmax):
    """log(softmax(x)) along `dim`."""

    function = "log_softmax"


class Softmin(Softmax):
    """softmax(-x) along `dim`."""

    function = "softmin"


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead.")
        return F.softmax(input, -3)


class PReLU(Module):
    """x where positive, else a learned slope times x, one slope for all or one per channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def forward(self, input: Any) -> Any:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
