"""relu and its smooth and leaky relatives."""

import numpy
import pytest
from scipy import special

import dynograd
from dynograd import tensor
from dynograd.nn import functional as F
from tests.ops.harness import FLOATS, Row, error, generate

INF, NAN = float("inf"), float("nan")
ones = dynograd.ones


def smooth(name, reference, **options):
    return Row(f"nn.functional.{name}", reference, shapes=[(3, 4)], domain=options.pop("domain", (-3, 3)), **options)


def elu(x, alpha=1.0, scale=1.0, width=1.0):
    return scale * numpy.where(x > 0, x, alpha * numpy.expm1(numpy.minimum(x, 0) / width))


def gelu_tanh(x, approximate):
    return 0.5 * x * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3)))


def silu_backward(g, x):
    s = special.expit(x)
    return g * s * (1 + x * (1 - s))


def gelu_backward(g, x):
    return g * (special.ndtr(x) + x * numpy.exp(-x * x / 2) / numpy.sqrt(2 * numpy.pi))


def gelu_tanh_backward(g, x):
    k = numpy.sqrt(2 / numpy.pi)
    t = numpy.tanh(k * (x + 0.044715 * x**3))
    return g * 0.5 * (1 + t + x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x))


def prelu(x, weight):
    shape = (-1,) + (1,) * (x.ndim - 2) if weight.size > 1 else ()
    return numpy.where(x > 0, x, weight.reshape(shape) * x)


def glu(x, dim=-1):
    first, second = numpy.split(x, 2, dim)
    return first * special.expit(second)


def softplus(x, beta=1.0, threshold=20.0):
    return numpy.where(x * beta > threshold, x, numpy.log1p(numpy.exp(numpy.minimum(x * beta, threshold))) / beta)


ROWS = [
    Row("relu", lambda x: numpy.maximum(x, 0), shapes=[(3, 4)], avoid=[0.0], dtypes=FLOATS + ("int64",)),
    Row("gate", lambda g, x: numpy.where(x <= 0, 0, g), shapes=[(3, 4)] * 2, avoid=[0.0]),
    smooth("leaky_relu", lambda x: numpy.where(x > 0, x, x * 0.01), avoid=[0.0]),
    smooth(
        "leaky_relu",
        lambda x, negative_slope: numpy.where(x > 0, x, x * negative_slope),
        avoid=[0.0],
        kwargs={"negative_slope": -0.5},
        id="-0.5",
    ),
    smooth("elu", elu, avoid=[0.0]),
    smooth("elu", elu, avoid=[0.0], kwargs={"alpha": 0.5}, id="alpha"),
    smooth("selu", lambda x: elu(x, 1.6732632423543772, 1.0507009873554805), avoid=[0.0]),
    smooth(
        "celu",
        lambda x, alpha: elu(x, alpha, 1.0, alpha),
        avoid=[0.0],
        kwargs={"alpha": 2.0},
        errors=[error(lambda op: op(ones(1), 0), RuntimeError, "celu", "alpha cannot be 0")],
    ),
    smooth(
        "gelu",
        lambda x: x * special.ndtr(x),
        errors=[error(lambda op: op(ones(1), approximate="x"), RuntimeError, "gelu", "'none' or 'tanh'", "'x'")],
    ),
    smooth("gelu", gelu_tanh, kwargs={"approximate": "tanh"}, covers=["gelu_tanh"], id="tanh"),
    Row("gelu_backward", gelu_backward, shapes=[(3, 4)] * 2),
    Row("gelu_tanh_backward", gelu_tanh_backward, shapes=[(3, 4)] * 2),
    smooth("silu", lambda x: x * special.expit(x)),
    Row("silu_backward", silu_backward, shapes=[(3, 4)] * 2),
    smooth("mish", lambda x: x * numpy.tanh(numpy.log1p(numpy.exp(x)))),
    smooth("softplus", softplus),
    smooth("softplus", softplus, kwargs={"beta": 2.0, "threshold": 3.0}, avoid=[1.5], id="threshold"),
    smooth("logsigmoid", special.log_expit, domain=(-9, 9)),
    Row(
        "prelu",
        prelu,
        shapes=[(3, 4), (1,)],
        avoid=[0.0],
        ones=False,
        empty=False,
        scalars=False,
        errors=[
            error(lambda op: op(ones(2, 3, 4), ones(2)), RuntimeError, "prelu", "(2,)", "3 channels", "one weight"),
            error(lambda op: op(ones(2).double(), ones(1)), RuntimeError, "prelu", "float64", "float32", "input.to"),
        ],
    ),
    Row("prelu", prelu, shapes=[(2, 3, 4), (3,)], avoid=[0.0], ones=False, empty=False, scalars=False, id="channels"),
    smooth(
        "glu",
        glu,
        errors=[
            error(lambda op: op(ones(2, 3)), RuntimeError, "must be even", "dimension 1", "size 3"),
            error(lambda op: op(tensor(1.0)), RuntimeError, "does not support scalars"),
            error(lambda op: op(ones(2, 2), 5), IndexError, "glu", "5"),
        ],
        ones=False,
    ),
    Row("nn.functional.glu", glu, shapes=[(4, 3)], kwargs={"dim": 0}, ones=False, empty=[[(4, 0)]], id="dim 0"),
]
test_rows = generate(ROWS)


def test_relu_at_zero_and_nan():
    x = tensor([-1.0, 0.0, 2.0, NAN], requires_grad=True)
    result = x.relu()
    result.backward(tensor([INF, INF, 3.0, 4.0]))
    assert result[:3].tolist() == [0.0, 0.0, 2.0] and result[3].isnan().item()
    assert x.grad.tolist() == [0.0, 0.0, 3.0, 4.0]


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "elu", "selu", "celu", "silu", "mish"])
def test_inplace_writes_into_its_tensor(name):
    function = getattr(dynograd.nn.functional, name)
    x = tensor([-1.0, 2.0], requires_grad=True)
    expected = function(x)
    expected.sum().backward()
    slope, x.grad = x.grad, None
    copied = x * 1
    assert function(copied, inplace=True) is copied
    assert copied.tolist() == expected.tolist()
    copied.sum().backward()
    numpy.testing.assert_allclose(x.grad.array, slope.array)


def test_second_gradient_of_elu_is_finite_far_from_zero():
    x = tensor([1e4, -1e4], requires_grad=True)
    (slope,) = dynograd.autograd.grad(dynograd.nn.functional.elu(x).sum(), x, create_graph=True)
    (curvature,) = dynograd.autograd.grad(slope.sum(), x)
    assert slope.tolist() == [1.0, 0.0] and curvature.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["gelu", "silu", "mish", "softplus", "logsigmoid", "elu", "selu"])
@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_far_from_zero_nothing_overflows(name, kind):
    x = tensor([-2e4, -100.0, 100.0, 2e4], dtype=getattr(dynograd, kind), requires_grad=True)
    result = getattr(dynograd.nn.functional, name)(x)
    result.sum().backward()
    assert result.isfinite().all() and x.grad.isfinite().all()
    if name not in ("logsigmoid", "selu"):
        assert result[2:].tolist() == [100.0, 2e4] and x.grad[2:].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["relu", "silu", "gelu"])
def test_gradient_of_a_sum_over_many_elements(name):
    """The incoming gradient is one number seen many times."""
    x = dynograd.linspace(-3, 3, 9000).reshape(90, 100).requires_grad_()
    function = getattr(dynograd.nn.functional, name)
    function(x).sum().backward()
    again = x.detach().clone().requires_grad_()
    function(again).backward(dynograd.ones(90, 100))
    numpy.testing.assert_array_equal(x.grad.array, again.grad.array)


def test_numbers_may_be_tensors_without_dims():
    x, number = dynograd.tensor([-1.0, 2.0]), dynograd.tensor(2.0)
    for function in (F.softplus, F.leaky_relu, F.elu, F.celu, F.hardshrink, F.softshrink):
        assert function(x, number).tolist() == function(x, 2.0).tolist()
    assert F.softplus(x, threshold=number).tolist() == F.softplus(x, threshold=2.0).tolist()


def test_prelu_of_a_tensor_without_dims():
    assert (
        dynograd.prelu(tensor(-1.0), tensor(0.5)).item() == dynograd.prelu(tensor(-1.0), tensor([0.5])).item() == -0.5
    )
