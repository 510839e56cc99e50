"""Activation functions made of straight pieces, and the shrinking ones."""

import numpy
import pytest

import dynograd
from dynograd import tensor
from tests.ops.harness import FLOATS, Row, error, generate

NAN = float("nan")
ones = dynograd.ones


def straight(name, reference, avoid, **options):
    return Row(
        f"nn.functional.{name}",
        reference,
        shapes=[(3, 4)],
        domain=options.pop("domain", (-4, 4)),
        avoid=avoid,
        **options,
    )


def hardtanh(x, min_val=-1, max_val=1):
    return numpy.clip(x, min_val, max_val)


def hardshrink(x, lambd=0.5):
    return numpy.where(numpy.abs(x) <= lambd, 0, x)


def softshrink(x, lambd=0.5):
    return numpy.sign(x) * numpy.maximum(numpy.abs(x) - lambd, 0)


ROWS = [
    straight(
        "hardtanh",
        hardtanh,
        [-1.0, 1.0],
        dtypes=FLOATS + ("int64",),
        errors=[error(lambda op: op(ones(1), 2, 1), ValueError, "hardtanh", "min_val", "2", "1")],
    ),
    straight("hardtanh", hardtanh, [-0.5, 2.0], kwargs={"min_val": -0.5, "max_val": 2.0}, id="bounds"),
    straight("relu6", lambda x: numpy.clip(x, 0, 6), [0.0, 6.0], domain=(-3, 9), dtypes=FLOATS + ("int64",)),
    straight("hardsigmoid", lambda x: numpy.clip(x + 3, 0, 6) / 6, [-3.0, 3.0]),
    straight("hardswish", lambda x: x * numpy.clip(x + 3, 0, 6) / 6, [-3.0, 3.0]),
    Row("hardshrink", hardshrink, shapes=[(3, 4)], avoid=[-0.5, 0.5]),
    straight(
        "softshrink",
        softshrink,
        [-0.5, 0.5],
        errors=[error(lambda op: op(ones(1), -1), RuntimeError, "softshrink", "lambd", "-1")],
    ),
    straight("tanhshrink", lambda x: x - numpy.tanh(x), [0.0]),
    straight("softsign", lambda x: x / (1 + numpy.abs(x)), [0.0]),
    Row(
        "threshold",
        lambda x, threshold, value: numpy.where(x <= threshold, value, x),
        shapes=[(3, 4)],
        avoid=[1.0],
        kwargs={"threshold": 1, "value": 9},
        dtypes=FLOATS + ("int64",),
    ),
]
test_rows = generate(ROWS)


@pytest.mark.parametrize(
    ("name", "args"),
    [("relu6", ()), ("hardtanh", ()), ("hardsigmoid", ()), ("hardswish", ()), ("threshold", (0.5, 9.0))],
)
def test_inplace_writes_into_its_tensor(name, args):
    function = getattr(dynograd.nn.functional, name)
    x = tensor([-1.0, 0.25, 8.0], requires_grad=True)
    expected = function(x, *args)
    expected.sum().backward()
    slope, x.grad = x.grad, None
    copied = x * 1
    assert function(copied, *args, inplace=True) is copied and copied.tolist() == expected.tolist()
    copied.sum().backward()
    assert x.grad.tolist() == slope.tolist()


@pytest.mark.parametrize(
    "name", ["hardtanh", "relu6", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "tanhshrink", "softsign"]
)
def test_nan_stays(name):
    assert getattr(dynograd.nn.functional, name)(tensor([NAN])).isnan().all()


def test_gradients_at_the_kinks():
    x = tensor([-1.0, 1.0], requires_grad=True)
    dynograd.nn.functional.hardtanh(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    y = tensor([-3.0, 3.0], requires_grad=True)
    dynograd.nn.functional.hardswish(y).sum().backward()
    assert y.grad.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("kind", [dynograd.bfloat16, dynograd.float16])
def test_hardshrink_compares_with_the_number_in_the_tensors_dtype(kind):
    x = dynograd.tensor([0.3, -0.3, 0.31], dtype=kind, requires_grad=True)
    y = dynograd.hardshrink(x, 0.3)
    assert y.tolist() == [0, 0, x[2].item()]
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 1]
