"""Linear maps."""

from __future__ import annotations

import math

from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.interpreter.recorded_methods import recorded_as
from dynograd.nn import functional as F
from dynograd.nn import init
from dynograd.nn.checks import check_sizes
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor.creation import empty
from dynograd.tensor.tensor import Tensor

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Gives its input back; takes and ignores any arguments, so that it can stand in for any layer.

    Args:
        args, kwargs: ignored.
    Shape: input of any shape; gives the same object.

    >>> dynograd.nn.Identity(54, unused=True)(tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """The affine map `input @ weight.T + bias` over the last dim.

    `weight` (out_features, in_features) and `bias` (out_features,) start uniform within 1 / sqrt(in_features).

    Args:
        in_features: the last size of the input, 0 or more.
        out_features: the last size of the output, 0 or more.
        bias: whether to add a bias; without it `bias` is None.
        device, dtype: of the parameters; the defaults of the process when left out.
    Shape: input (*, in_features), also ragged; gives (*, out_features).
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size is negative; in a call, the input's last size is not `in_features`.

    >>> layer = dynograd.nn.Linear(3, 2)
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    >>> layer(dynograd.ones(4, 3)).shape
    dynograd.Size([4, 2])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        super().__init__()
        check_sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial values, uniform within 1 / sqrt(in_features), for weight and bias.

        >>> layer = dynograd.nn.Linear(4, 2)
        >>> layer.reset_parameters()
        >>> bool(layer.weight.abs().max() <= 0.5)
        True
        """
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    @recorded_as("linear", "weight", "bias", through=F)
    def forward(self, input: Tensor) -> Tensor:
        parameters = self._parameters
        try:
            weight, bias = parameters["weight"], parameters["bias"]  # half a microsecond less than by attribute
        except KeyError:  # computed attributes now, as weight_norm makes them
            weight, bias = self.weight, self.bias
        return F.linear(input, weight, bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear`; PyTorch prints the `out_proj` of MultiheadAttention under this name.

    Args: as for `Linear`.
    Shape: input (*, in_features); gives (*, out_features).

    >>> dynograd.nn.MultiheadAttention(4, 2).out_proj
    NonDynamicallyQuantizableLinear(in_features=4, out_features=4, bias=True)
    """


class Bilinear(Module):
    """The form `input1 @ weight[k] @ input2 + bias[k]` for each output feature k.

    `weight` is (out_features, in1_features, in2_features), `bias` (out_features,); both start uniform within 1 /
    sqrt(in1_features).

    Args:
        in1_features: the last size of the first input, at least 1.
        in2_features: the last size of the second input.
        out_features: the last size of the output.
        bias: whether to add a bias.
        device, dtype: of the parameters.
    Shape: input1 (*, in1_features) and input2 (*, in2_features), of equal leading dims; gives (*, out_features).
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size is negative, or in1_features is 0; in a call, inputs that do not fit.

    >>> layer = dynograd.nn.Bilinear(3, 4, 2)
    >>> layer(dynograd.ones(5, 3), dynograd.ones(5, 4)).shape
    dynograd.Size([5, 2])
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        check_sizes("Bilinear", 1, in1_features=in1_features)
        check_sizes("Bilinear", in2_features=in2_features, out_features=out_features)
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial values, uniform within 1 / sqrt(in1_features), for weight and bias.

        >>> layer = dynograd.nn.Bilinear(4, 3, 2)
        >>> layer.reset_parameters()
        >>> bool(layer.weight.abs().max() <= 0.5)
        True
        """
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
