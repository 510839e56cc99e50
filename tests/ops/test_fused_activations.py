"""Bias and activation, gates, residual and norm, in one pass: against the same ops one by one, in NumPy."""

import numpy
import pytest
import scipy.special

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate


def np_gelu(x):
    return x * scipy.special.ndtr(x)


def np_gelu_tanh(x):
    return 0.5 * x * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3)))


def np_silu(x):
    return x * scipy.special.expit(x)


def np_relu(x):
    return numpy.maximum(x, 0)


def np_add_layer_norm(input, residual, normalized_shape, weight=None, bias=None, eps=1e-5):
    total = input + residual
    axes = tuple(range(-len(normalized_shape), 0))
    out = (total - total.mean(axes, keepdims=True)) / numpy.sqrt(total.var(axes, keepdims=True) + eps)
    return [out * (1 if weight is None else weight) + (0 if bias is None else bias), total]


def wrong_bias(name):
    x = dynograd.zeros(2, 3)
    return [error(lambda op: op(x, dynograd.zeros(4)), dynograd.errors.ShapeError, name, "(3,)", "(4,)", "(2, 3)")]


def matched(rng, shape):
    return [rng.normal(size=shape), rng.normal(size=shape[-1])]


ROWS = [
    *[
        Row(
            f"nn.functional.{name}",
            lambda input, bias, approximate="none", f=function: f(input + bias),
            args=lambda rng, s=shape: matched(rng, s),
            kwargs=kwargs,
            avoid=(),
            second=name != "bias_relu",
            gradient_tolerance=(1e-3, 1e-5),
            id=f"{'x'.join(map(str, shape))}-{kwargs.get('approximate', 'plain')}",
            covers=["bias_activation"],
            errors=wrong_bias(name),
        )
        for name, function, kwargs in (
            ("bias_gelu", np_gelu, {}),
            ("bias_gelu", np_gelu_tanh, {"approximate": "tanh"}),
            ("bias_silu", np_silu, {}),
            ("bias_relu", np_relu, {}),
        )
        for shape in ((3, 4), (2, 5, 40))
    ],
    *[
        Row(
            "nn.functional.swiglu",
            lambda gate, input: np_silu(gate) * input,
            shapes=[shape, shape],
            gradient_tolerance=(1e-3, 1e-5),
            id="x".join(map(str, shape)),
        )
        for shape in ((3, 4), (12, 40))
    ],
    *[
        Row(
            "nn.functional.add_layer_norm",
            np_add_layer_norm,
            args=lambda rng, s=shape: [
                rng.normal(size=s),
                rng.normal(size=s),
                s[1:],
                rng.normal(size=s[1:]),
                rng.normal(size=s[1:]),
            ],
            result=("same", "same"),
            gradient_tolerance=(1e-3, 1e-4),
            tolerance=3.0,
            id="x".join(map(str, shape)),
            errors=[
                error(
                    lambda op: op(dynograd.zeros(2, 3), dynograd.zeros(3), (3,)),
                    dynograd.errors.ShapeError,
                    "add_layer_norm",
                    "(2, 3)",
                    "(3,)",
                )
            ],
        )
        for shape in ((3, 4), (6, 4, 20))
    ],
]
test_rows = generate(ROWS)


def test_bias_gelu_knows_two_forms():
    with pytest.raises(RuntimeError, match="approximate.*'none' or 'tanh', got 'other'"):
        F.bias_gelu(dynograd.zeros(2, 3), dynograd.zeros(3), "other")


@pytest.mark.parametrize("shape", [(5, 7), (300, 512)])
def test_the_same_as_one_by_one(shape):
    x, r = (dynograd.randn(*shape, requires_grad=True) for _ in range(2))
    b, w = (dynograd.randn(shape[-1], requires_grad=True) for _ in range(2))
    pairs = (
        (F.bias_gelu(x, b), F.gelu(x + b), (x, b)),
        (F.bias_silu(x, b), F.silu(x + b), (x, b)),
        (F.bias_relu(x, b), F.relu(x + b), (x, b)),
        (F.swiglu(x, r), F.silu(x) * r, (x, r)),
        (F.add_layer_norm(x, r, shape[-1:], w, b)[0], F.layer_norm(x + r, shape[-1:], w, b), (x, r, w, b)),
    )
    g = dynograd.randn(*shape)
    for fused, plain, leaves in pairs:
        numpy.testing.assert_allclose(fused.detach().numpy(), plain.detach().numpy(), rtol=1e-5, atol=1e-6)
        for element, other in zip(
            dynograd.autograd.grad(fused, leaves, g), dynograd.autograd.grad(plain, leaves, g), strict=True
        ):
            numpy.testing.assert_allclose(element.numpy(), other.numpy(), rtol=1e-4, atol=2e-4)


def test_nan_and_infinities():
    x = dynograd.tensor([[float("nan"), float("inf"), float("-inf")] + [0.0] * 300])
    b = dynograd.zeros(303)
    for name in ("relu", "gelu", "silu"):
        fused, plain = getattr(F, f"bias_{name}")(x, b), getattr(F, name)(x)
        numpy.testing.assert_array_equal(fused.numpy(), plain.numpy())
