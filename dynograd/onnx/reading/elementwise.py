"""Operators on each element."""

from __future__ import annotations

from functools import reduce

from dynograd.nn import functional
from dynograd.onnx.reading.registry import DIRECT, operator
from dynograd.onnx.reading.values import Numbers, Results, cast, dtype_of, dynograd, number
from dynograd.tensor.tensor import Tensor

DIRECT |= {
    name: f"dynograd.{name.lower()}"
    for name in (
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Greater Less Log MatMul Mul Neg "
        "Or Reciprocal Relu Round Sigmoid Sign Sin Sinh Sqrt Sub Tan Tanh Xor Det"
    ).split()
}
DIRECT |= {name: f"dynograd.logical_{name.lower()}" for name in ("And", "Or", "Xor", "Not")}
DIRECT |= {f"Bitwise{name}": f"dynograd.bitwise_{name.lower()}" for name in ("And", "Or", "Xor", "Not")}
DIRECT |= {"GreaterOrEqual": "dynograd.ge", "LessOrEqual": "dynograd.le", "IsNaN": "dynograd.isnan"}
DIRECT |= {name: f"dynograd.nn.functional.{name.lower()}" for name in "Softplus Softsign HardSwish".split()}


@operator("Pow")
def power(x: Tensor, exponent: Tensor) -> Tensor:
    if x.dtype.is_floating_point or not exponent.dtype.is_floating_point:
        return dynograd.pow(x, exponent).to(x.dtype)
    return dynograd.pow(x.double(), exponent).to(x.dtype)


@operator("Where")
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return dynograd.where(condition, x, y)


@operator("Equal")
def equal(x: Tensor, y: Tensor) -> Tensor:
    if not isinstance(x, Tensor):  # strings
        return dynograd.tensor((x == y).astype(bool))
    return dynograd.eq(x, y)


@operator("Div")
def divide(x: Tensor, y: Tensor) -> Tensor:
    if x.dtype.is_floating_point:
        return x / y
    return dynograd.div(x, y, rounding_mode="trunc")


@operator("Mod")
def modulo(x: Tensor, y: Tensor, *, fmod: int = 0) -> Tensor:
    return dynograd.fmod(x, y) if fmod else dynograd.remainder(x, y)


@operator("BitShift")
def bit_shift(x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    return dynograd.bitwise_left_shift(x, y) if direction == "LEFT" else dynograd.bitwise_right_shift(x, y)


@operator("Max")
def maximum(*xs: Tensor) -> Tensor:
    return reduce(dynograd.maximum, xs)


@operator("Min")
def minimum(*xs: Tensor) -> Tensor:
    return reduce(dynograd.minimum, xs)


@operator("Sum")
def sum_of(*xs: Tensor) -> Tensor:
    return reduce(dynograd.add, xs)


@operator("Mean")
def mean_of(*xs: Tensor) -> Tensor:
    return reduce(dynograd.add, xs) / len(xs)


@operator("Clip", since=11)
def clip(x: Tensor, low: Numbers | None = None, high: Numbers | None = None) -> Tensor:
    for bound, function, place in ((low, dynograd.maximum, "min"), (high, dynograd.minimum, "max")):
        if isinstance(bound, Tensor):
            x = function(x, bound)
        elif bound is not None:
            x = dynograd.clamp(x, **{place: number(bound)})
    return x


@operator("Clip", since=6)
def clip_by_numbers(x: Tensor, *, min: float | None = None, max: float | None = None) -> Tensor:
    return x if min is None and max is None else dynograd.clamp(x, min, max)


@operator("Cast")
def cast_to(x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return cast(x, dtype_of(to), bool(saturate))


@operator("CastLike")
def cast_like(x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return cast(x, like.dtype, bool(saturate))


@operator("BitCast")
def bit_cast(x: Tensor, *, to: int) -> Tensor:
    return dynograd.Tensor.view(x, dtype_of(to))


@operator("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    result = dynograd.isinf(x)
    if not detect_negative:
        result = result & (x > 0)
    return result if detect_positive else result & (x < 0)


@operator("Identity")
def identity(x: Tensor) -> Tensor:
    return x


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return functional.elu(x, alpha)


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return functional.celu(x, alpha)


@operator("Selu")
def selu(x: Tensor, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Tensor:
    return gamma * functional.elu(x, alpha)


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return functional.leaky_relu(x, alpha)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    return dynograd.where(x < 0, x * slope, x)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return dynograd.where(x > alpha, x, dynograd.zeros_like(x))


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return dynograd.clamp(alpha * x + beta, 0, 1)


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return functional.gelu(x, approximate=approximate)


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x * dynograd.sigmoid(alpha * x)


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    zero = dynograd.zeros_like(x)
    return dynograd.where(x < -lambd, x + bias, dynograd.where(x > lambd, x - bias, zero)).to(x.dtype)


@operator("Dropout", since=12, outputs=0)
def dropout(
    x: Tensor, ratio: Numbers | None = None, training: Numbers | None = None, *, seed: int = 0, n_outputs: int = 1
) -> Results:
    rate = 0.5 if ratio is None else float(number(ratio))
    if training is not None and number(training) and rate > 0:
        mask = dynograd.rand_like(x) >= rate
        y = x * mask / (1 - rate)
    else:
        y, mask = x, dynograd.ones_like(x, dtype=dynograd.bool)
    return y if n_outputs == 1 else (y, mask)


@operator("Dropout", since=7, outputs=0)
def dropout_in_inference(x: Tensor, *, ratio: float = 0.5, n_outputs: int = 1) -> Results:
    return x if n_outputs == 1 else (x, dynograd.ones_like(x, dtype=dynograd.bool))
