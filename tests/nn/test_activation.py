"""Activations as modules: values, gradients, text. See `rows.py`."""

from __future__ import annotations

import math

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from tests.nn.rows import Row, error, generate

erf = numpy.vectorize(math.erf)


def np_sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def np_softplus(x):
    return numpy.log1p(numpy.exp(x))


def np_softmax(x, dim):
    shifted = numpy.exp(x - x.max(dim, keepdims=True))
    return shifted / shifted.sum(dim, keepdims=True)


def np_elu(x, alpha=1.0):
    return numpy.where(x > 0, x, alpha * numpy.expm1(x))


def np_glu(x, dim):
    element, two = numpy.split(x, 2, dim)
    return element * np_sigmoid(two)


SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772
# name, arguments, reference, text in the parentheses
TABLE = [
    ("ReLU", (), lambda x: numpy.maximum(x, 0), ""),
    ("ReLU6", (), lambda x: numpy.clip(x, 0, 6), ""),
    ("SELU", (), lambda x: SCALE * np_elu(x, ALPHA), ""),
    ("SiLU", (), lambda x: x * np_sigmoid(x), ""),
    ("Mish", (), lambda x: x * numpy.tanh(np_softplus(x)), ""),
    ("Hardswish", (), lambda x: x * numpy.clip(x + 3, 0, 6) / 6, ""),
    ("Hardsigmoid", (), lambda x: numpy.clip(x + 3, 0, 6) / 6, ""),
    ("Sigmoid", (), np_sigmoid, ""),
    ("Tanh", (), numpy.tanh, ""),
    ("Softsign", (), lambda x: x / (1 + abs(x)), ""),
    ("Tanhshrink", (), lambda x: x - numpy.tanh(x), ""),
    ("LogSigmoid", (), lambda x: -np_softplus(-x), ""),
    ("LeakyReLU", (0.2,), lambda x: numpy.where(x > 0, x, 0.2 * x), "negative_slope=0.2"),
    ("ELU", (0.7,), lambda x: np_elu(x, 0.7), "alpha=0.7"),
    ("CELU", (0.7,), lambda x: numpy.where(x > 0, x, 0.7 * numpy.expm1(x / 0.7)), "alpha=0.7"),
    ("Hardtanh", (-0.5, 1.5), lambda x: numpy.clip(x, -0.5, 1.5), "min_val=-0.5, max_val=1.5"),
    ("Threshold", (0.3, -7.0), lambda x: numpy.where(x > 0.3, x, -7.0), "threshold=0.3, value=-7.0"),
    ("GELU", (), lambda x: x * (1 + erf(x / math.sqrt(2))) / 2, "approximate='none'"),
    ("GELU", ("tanh",), lambda x: x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2, "approximate='tanh'"),
    ("Softplus", (2.0, 1.0), lambda x: numpy.where(2 * x > 1, x, np_softplus(2 * x) / 2), "beta=2.0, threshold=1.0"),
    ("Hardshrink", (0.375,), lambda x: numpy.where(abs(x) > 0.375, x, 0), "0.375"),  # a number of half types, too
    ("Softshrink", (0.4,), lambda x: numpy.sign(x) * numpy.maximum(abs(x) - 0.4, 0), "0.4"),
    ("GLU", (1,), lambda x: np_glu(x, 1), "dim=1"),
    ("Softmax", (0,), lambda x: np_softmax(x, 0), "dim=0"),
    ("LogSoftmax", (-1,), lambda x: numpy.log(np_softmax(x, -1)), "dim=-1"),
    ("Softmin", (1,), lambda x: np_softmax(-x, 1), "dim=1"),
]  # fmt: skip

ROWS = [
    Row(name, args, shapes=[(3, 4)], reference=lambda p, x, f=f: f(x), text=f"{name}({text})", id=text)
    for name, args, f, text in TABLE
]
SILENT = ["Hardswish", "Hardsigmoid"]  # PyTorch does not print their inplace
INPLACE = [
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Mish",
    "Hardswish",
    "Hardsigmoid",
    "LeakyReLU",
    "ELU",
    "CELU",
    "Hardtanh",
    "Threshold",
]
ROWS += [
    Row(name, args, {"inplace": True}, [(3, 4)], reference=lambda p, x, f=f: f(x), id="inplace",
        text=None if name in SILENT else f"{name}({text}, inplace=True)" if text else f"{name}(inplace=True)")
    for name, args, f, text in TABLE
    if name in INPLACE
]  # fmt: skip
ROWS += [
    Row("Softmax2d", shapes=[(2, 3, 2, 2)], reference=lambda p, x: np_softmax(x, 1), text="Softmax2d()",
        errors=[error(lambda layer: layer(dg.zeros(2)), ValueError, "Softmax2d", "3D or 4D", "1D")]),
    Row("Softmax2d", shapes=[(3, 2, 2)], reference=lambda p, x: np_softmax(x, 0), id="single"),
    Row("PReLU", shapes=[(3, 4)], reference=lambda p, x: numpy.where(x > 0, x, p.weight * x), text="PReLU(num_parameters=1)",
        parameters={"weight": (1,)}),
    Row("PReLU", (3,), shapes=[(2, 3, 4)], text="PReLU(num_parameters=3)", parameters={"weight": (3,)}, id="channels",
        reference=lambda p, x: numpy.where(x > 0, x, p.weight[:, None] * x),
        errors=[error(lambda layer: layer(dg.zeros(2, 4)), RuntimeError, "prelu", "3", "4")]),
    Row("RReLU", (0.1, 0.3), shapes=[(3, 4)], reference=lambda p, x: numpy.where(x > 0, x, 0.2 * x), random=True,
        text="RReLU(lower=0.1, upper=0.3)"),
    Row("Hardtanh", (0.0, 2.0), shapes=[(3, 4)], reference=lambda p, x: numpy.clip(x, 0, 2), id="errors",
        errors=[error(lambda layer: nn.Hardtanh(1.0, 1.0), ValueError, "max_val", "1.0")]),
]  # fmt: skip

test_rows = generate(ROWS)


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_writes_into_its_input(name):
    args = {"Threshold": (0.1, -1.0)}.get(name, ())
    x = dg.linspace(-2, 2, 9)
    expected = getattr(nn, name)(*args)(x)
    assert getattr(nn, name)(*args, inplace=True)(x) is x
    assert dg.allclose(x, expected)


def test_rrelu_in_training_draws_slopes_between_its_bounds():
    out = nn.RReLU(0.1, 0.3)(dg.full((1000,), -1.0))
    assert -0.3 <= float(out.min()) < -0.28 and -0.12 < float(out.max()) <= -0.1


def test_softmax_without_dim_warns_and_chooses_as_pytorch_does():
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        out = nn.Softmax()(dg.zeros(2, 4))
    assert out.tolist() == [[0.25] * 4] * 2


def test_prelu_starts_at_its_init():
    assert nn.PReLU(2, init=0.1).weight.tolist() == pytest.approx([0.1, 0.1])
