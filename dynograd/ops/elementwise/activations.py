"""Activation functions: relu and its smooth and leaky relatives. The piecewise linear ones are in `hard_activations.py`.

The `inplace` argument is PyTorch's: the result is written into `input`, which is returned.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import normalize_dim
from dynograd.errors import DtypeError, ShapeError
from dynograd.ops.argument_kinds import Inplace, Real
from dynograd.ops.elementwise.exponentials import sigmoid
from dynograd.ops.layout.splits import narrow
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import composed, elementwise
from dynograd.ops.row import Row

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "selu",
    "silu",
    "softplus",
]

FAMILY = Row(out=None)

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


@elementwise(
    formula="max(input, 0)", derivative="gate(g, output)", method=True, inplace="function", functional="inplace"
)
def relu(input: Array, inplace: Inplace = False) -> Array:
    """`input` where it is above 0, 0 elsewhere; NaN stays. The gradient at 0 is 0.

    Args:
        input: tensor of any shape and dtype.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.relu(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """


@elementwise(formula="other <= 0 ? 0 : input", derivative=("gate(g, other)", None))
def gate(input: Array, other: Array) -> Array:
    """`input` where `other` is above 0 or NaN, 0 elsewhere: the backward of relu."""


@elementwise(
    formula="input > 0 ? input : input * negative_slope",
    derivative="where(input > 0, g, g * negative_slope)",
    promote="float",
    inplace=True,
    functional="inplace",
)
def leaky_relu(input: Array, negative_slope: Real = 0.01, inplace: Inplace = False) -> Array:
    """`input` where it is above 0, `input * negative_slope` elsewhere.

    Args:
        input: tensor of any shape; integers become the default dtype.
        negative_slope: the slope below 0.
        inplace: write the result into `input`.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.nn.functional.leaky_relu(tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """


@elementwise(
    name="elu",
    formula="input > 0 ? input * scale : expm1(input * input_scale) * (alpha * scale)",
    derivative="where(input > 0, g * scale, g * (alpha * scale * input_scale) * exp(clamp_max(input, 0.0) * input_scale))",
    promote="float",
    inplace=True,
    functional=True,
)
def elu_scaled(input: Array, alpha: float, scale: float, input_scale: float) -> Array:
    """`elu` with the three factors that `elu`, `selu` and `celu` set."""


@composed(covers="elu", functional="inplace")
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Array:
    """`input` above 0, `alpha * (exp(input) - 1)` below.

    Args:
        input: tensor of any shape.
        alpha: minus the limit far below 0.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.
    Source: Clevert, Unterthiner and Hochreiter, Fast and Accurate Deep Network Learning by Exponential Linear Units, 2015
    (arXiv:1511.07289).

    >>> dynograd.nn.functional.elu(tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return input.elu_(alpha) if inplace else elu_scaled(input, alpha, 1.0, 1.0)


@composed(inplace="function", functional="inplace")
def selu(input: Any, inplace: bool = False) -> Array:
    """`elu` with the two factors that keep the variance of normalised inputs at 1.

    Args:
        input: tensor of any shape.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.
    Source: Klambauer, Unterthiner, Mayr and Hochreiter, Self-Normalizing Neural Networks, 2017 (arXiv:1706.02515).

    >>> dynograd.selu(tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return input.selu_() if inplace else elu_scaled(input, _SELU_ALPHA, _SELU_SCALE, 1.0)


@composed(inplace="function", functional="inplace")
def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Array:
    """`input` above 0, `alpha * (exp(input / alpha) - 1)` below: an `elu` whose slope is continuous for every alpha.

    Args:
        input: tensor of any shape.
        alpha: minus the limit far below 0; not 0.
        inplace: write the result into `input`.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        RuntimeError: `alpha` is 0.

    >>> dynograd.celu(tensor([-1.0, 2.0]), 2.0)
    tensor([-0.7869,  2.0000])
    """
    if alpha == 0:
        raise RuntimeError("celu: ZeroDivisionError: alpha cannot be 0. Use relu, its limit.")
    return input.celu_(alpha) if inplace else elu_scaled(input, alpha, 1.0, 1.0 / alpha)


@elementwise(
    name="gelu",
    formula="normal_gate(input)",
    derivative="gelu_backward(g, input)",
    promote="float",
    out="cast",
    functional=True,
)
def gelu_exact(input: Array) -> Array:
    """`input` times the probability that a standard normal number is below it."""


@elementwise(
    formula="input * normal_gate_slope(other)",
    derivative=(
        "gelu_backward(g, other)",
        "g * input * (2.0 - other * other) * 0.3989422804014327 * exp(other * other * -0.5)",
    ),
)
def gelu_backward(input: Array, other: Array) -> Array:
    """`input` times the slope of gelu at `other`."""


# (1 + tanh(u)) / 2 is sigmoid(2 u), whose digits last where tanh is near -1.
@elementwise(
    formula="input * sigmoid(1.5957691216057308 * (input + 0.044715 * input * input * input))",
    derivative="gelu_tanh_backward(g, input)",
    promote="float",
)
def gelu_tanh(input: Array) -> Array:
    """gelu with its error function approximated by a tanh."""


_REST = "sigmoid(-abs((other + other * other * other * 0.044715) * 1.5957691216057308))"  # that of the smaller side: 1 - s has few digits
_SLOPE = "(other * other * 0.2140644488178 + 1.5957691216057308)"


@elementwise(
    formula=f"input * ((other > 0 ? 1 - {_REST} : {_REST}) + other * {_REST} * (1 - {_REST}) * {_SLOPE})",
    derivative=(
        "gelu_tanh_backward(g, other)",
        # With s = sigmoid(v(x)): (x s)'' is s (1 - s) (2 v' + x v'' + x (1 - 2 s) v'^2).
        f"g * input * {_REST} * (1 - {_REST}) * (2 * {_SLOPE} + other * other * 0.4281288976356"
        f" - abs(other) * (1 - 2 * {_REST}) * square({_SLOPE}))",
    ),
)
def gelu_tanh_backward(input: Array, other: Array) -> Array:
    """`input` times the slope of `gelu_tanh` at `other`."""


@composed(covers="gelu")
def gelu(input: Any, approximate: str = "none") -> Array:
    """`input` times the probability that a standard normal number is below it.

    Args:
        input: floating tensor of any shape.
        approximate: "none", or "tanh" for `0.5 * input * (1 + tanh(sqrt(2 / pi) * (input + 0.044715 * input**3)))`.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        RuntimeError: another `approximate`.
    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016 (arXiv:1606.08415).

    >>> dynograd.nn.functional.gelu(tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """
    if approximate == "none":
        return gelu_exact(input)
    if approximate == "tanh":
        return gelu_tanh(input)
    raise RuntimeError(f"gelu: approximate argument must be either 'none' or 'tanh', got {approximate!r}.")


@elementwise(
    name="silu",
    formula="input * sigmoid(input)",
    derivative="silu_backward(g, input)",
    promote="float",
    inplace=True,
    functional=True,
)
def silu(input: Array, inplace: Inplace = False) -> Array:
    """`input * sigmoid(input)`, also called swish.

    Args:
        input: tensor of any shape; integers become the default dtype.
        inplace: write the result into `input`.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.nn.functional.silu(tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """


@elementwise(
    formula="input * sigmoid(other) * (1 + other * (1 - sigmoid(other)))",
    derivative=(
        "silu_backward(g, other)",
        "g * input * sigmoid(other) * sigmoid(-other) * (other * (1.0 - 2.0 * sigmoid(other)) + 2.0)",
    ),
)
def silu_backward(input: Array, other: Array) -> Array:
    """`input` times the slope of silu at `other`."""


@elementwise(
    formula=(  # tanh(log(1 + e)) is 1 - 2 / (n + 2) with n = e e + 2 e, and e - e e (e + 1) / (n + 2): the first keeps more digits above -0.5
        "where(input > 20, input, where(input == 0, input, where(input > -0.5, 1, input) * (where(input > -0.5, input, exp(input)) - "
        "where(input > -0.5, 2 * input, exp(input) * exp(input) * (exp(input) + 1)) / (exp(input) * exp(input) + 2 * exp(input) + 2))))"
    ),
    derivative="g * (tanh(softplus(input, 1.0, 20.0)) "
    "+ input * sigmoid(input) * (1.0 - square(tanh(softplus(input, 1.0, 20.0)))))",
    promote="float",
    inplace=True,
    functional=True,
)
def mish(input: Array, inplace: Inplace = False) -> Array:
    """`input * tanh(softplus(input))`.

    Args:
        input: tensor of any shape; integers become the default dtype.
        inplace: write the result into `input`.
    Returns:
        A floating tensor of the shape of `input`.
    Source: Misra, Mish: A Self Regularized Non-Monotonic Activation Function, 2019 (arXiv:1908.08681).

    >>> dynograd.nn.functional.mish(tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """


@elementwise(
    formula="input * beta > threshold ? input : log1pexp(input * beta) / beta",
    derivative="where(input * beta > threshold, g, g * sigmoid(input * beta))",
    promote="float",
    out="cast",
    functional=True,
    cast={"cuda": "wide"},
)
def softplus(input: Array, beta: Real = 1.0, threshold: Real = 20.0) -> Array:
    """`log(1 + exp(beta * input)) / beta`, a smooth relu; `input` itself where `beta * input > threshold`.

    Args:
        input: tensor of any shape.
        beta: how sharp the bend at 0 is.
        threshold: beyond it the function is a straight line.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.nn.functional.softplus(tensor([-1.0, 2.0, 30.0]))
    tensor([ 0.3133,  2.1269, 30.0000])
    """


@elementwise(
    formula="0 - log1pexp(-input)", derivative="g * sigmoid(-input)", promote="float", out="cast", functional=True
)
def logsigmoid(input: Array) -> Array:
    """`log(sigmoid(input))`, exact for large inputs of both signs.

    Args:
        input: tensor of any shape; integers become the default dtype.
    Returns:
        A floating tensor of the shape of `input`.

    >>> dynograd.nn.functional.logsigmoid(tensor([-100.0, 0.0]))
    tensor([-100.0000,   -0.6931])
    """


@elementwise(
    name="prelu",
    formula="input > 0 ? input : weight * input",
    derivative=("where(input > 0, g, g * weight)", "where(input > 0, 0.0, g * input)"),
    promote="float",
    functional=True,
    cast={"cuda": "lower"},
)
def prelu_part(input: Array, weight: Array) -> Array:
    """`input` above 0, `weight * input` elsewhere."""


@composed(covers="prelu", method=True)
def prelu(input: Any, weight: Any) -> Array:
    """`input` above 0, `weight * input` elsewhere, with a weight that is learned.

    Args:
        input (B, C, ...): any shape.
        weight (1) or (C): one slope, or one for each channel (dim 1).
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: the number of weights is neither 1 nor the number of channels.
        DtypeError: the dtypes differ.

    >>> dynograd.prelu(tensor([-1.0, 2.0]), tensor([0.5]))
    tensor([-0.5000,  2.0000])
    """
    kinds = [dtypes.of_array(getattr(operand, "array", operand)) for operand in (input, weight)]
    if kinds[0] is not kinds[1]:
        raise DtypeError(
            f"prelu: input is {kinds[0]} but weight is {kinds[1]}. Convert one, e.g. input.to({kinds[1]})."
        )
    shape = tuple(input.shape)
    count = weight.shape[0] if len(weight.shape) == 1 else 1
    channels = shape[1] if len(shape) > 1 else 1
    if len(weight.shape) > 1 or count not in (1, channels):
        raise ShapeError(
            f"prelu: weight has shape {tuple(weight.shape)}, but input of shape {shape} has {channels} channels (dim 1). "
            f"Give one weight, or one for each channel."
        )
    if count == 1:
        return prelu_part(input, reshaped(weight, ()))
    return prelu_part(input, reshaped(weight, (count,) + (1,) * (len(shape) - 2)))


@composed(functional=True)
def glu(input: Any, dim: int = -1) -> Array:
    """The first half of `input` along `dim`, times the sigmoid of the second half.

    Args:
        input: tensor of which `dim` has an even size.
        dim: which dim; negative counts from the end.
    Returns:
        `input`'s shape, with half the size in `dim`.
    Raises:
        ShapeError: `dim` has an odd size, or the tensor has no dims.
    Source: Dauphin, Fan, Auli and Grangier, Language Modeling with Gated Convolutional Networks, 2016 (arXiv:1612.08083).

    >>> dynograd.nn.functional.glu(tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """
    shape = tuple(input.shape)
    if not shape:
        raise ShapeError(
            "glu: glu does not support scalars because the halved size must be even. Give a tensor with dims."
        )
    place = normalize_dim("glu", dim, len(shape))
    half, odd = divmod(shape[place], 2)
    if odd:
        raise ShapeError(
            f"glu: the halved dimension must be even, but dimension {place} of {shape} has size {shape[place]}."
        )
    return narrow(input, place, 0, half) * sigmoid(narrow(input, place, half, half))
