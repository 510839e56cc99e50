"""Normalization over features, the batch, groups and neighbours."""

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from dynograd.ops.norm.batch_normalizations import moved_statistics
from tests.ops.harness import Row, error, generate


def standard(input, axes, eps):
    mean, var = input.mean(axes, keepdims=True), input.var(axes, keepdims=True)
    return (input - mean) / numpy.sqrt(var + eps)


def np_layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    axes = tuple(range(-len(normalized_shape), 0))
    out = standard(input, axes, eps) * (1 if weight is None else weight)
    return out + (0 if bias is None else bias)


def np_rms_norm(input, normalized_shape, weight=None, eps=None):
    axes = tuple(range(-len(normalized_shape), 0))
    eps = numpy.finfo(numpy.float64).eps if eps is None else eps
    return input / numpy.sqrt((input**2).mean(axes, keepdims=True) + eps) * (1 if weight is None else weight)


def along(vector, input, default):
    return default if vector is None else vector.reshape(1, -1, *[1] * (input.ndim - 2))


def np_batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training:
        out = standard(input, (0, *range(2, input.ndim)), eps)
    else:
        out = (input - along(running_mean, input, 0)) / numpy.sqrt(along(running_var, input, 1) + eps)
    return out * along(weight, input, 1) + along(bias, input, 0)


def np_instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, eps=1e-5
):
    if not use_input_stats:
        return np_batch_norm(input, running_mean, running_var, weight, bias)
    return standard(input, tuple(range(2, input.ndim)), eps) * along(weight, input, 1) + along(bias, input, 0)


def np_group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    groups = input.reshape(len(input), num_groups, -1)
    return standard(groups, -1, eps).reshape(input.shape) * along(weight, input, 1) + along(bias, input, 0)


def np_local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    out = numpy.empty_like(input)
    for channel in range(input.shape[1]):
        window = input[:, max(0, channel - size // 2) : channel + (size - 1) // 2 + 1]
        out[:, channel] = input[:, channel] / (k + alpha / size * (window**2).sum(1)) ** beta
    return out


ones, zeros = dynograd.ones, dynograd.zeros
x = zeros(2, 3, 4)


def shape_errors(who):
    return [
        error(lambda op: op(x, (3,)), RuntimeError, who, "normalized_shape=[3]", "[2, 3, 4]"),
        error(lambda op: op(x, (1, 2, 3, 4)), RuntimeError, who, "normalized_shape=[1, 2, 3, 4]"),
        error(lambda op: op(x, ()), RuntimeError, who, "at least one element"),
        error(lambda op: op(x, (4,), zeros(3)), RuntimeError, who, "weight", "[3]", "[4]"),
        error(lambda op: op(x.long(), (4,)), RuntimeError, who, "int64"),
    ]


def running(rng):
    return [
        rng.normal(size=(3, 4, 2)),
        rng.normal(size=4),
        rng.uniform(0.5, 2, 4),
        rng.normal(size=4),
        rng.normal(size=4),
    ]


def training(rng):
    return [rng.normal(size=(3, 4, 2)), None, None, rng.normal(size=4), rng.normal(size=4), True]


ROWS = [
    Row(
        "moved_statistics",
        lambda input, batch, momentum: input * (1 - momentum) + batch * momentum,
        shapes=[(5,), (5,)],
        kwargs={"momentum": 0.25},
        grad=False,
        function=moved_statistics,
    ),
    Row("layer_norm", np_layer_norm, shapes=[(2, 3, 4)], kwargs={"normalized_shape": (4,)}, ones=False, errors=shape_errors("layer_norm")),
    Row(
        "layer_norm",
        np_layer_norm,
        args=lambda rng: [rng.normal(size=(2, 3, 4)), (3, 4), rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), 0.1],
        id="two-dims",
        errors=[error(lambda op: op(x, (4,), None, zeros(5)), RuntimeError, "bias", "[5]", "[4]")],
    ),
    Row(
        "layer_norm",
        np_layer_norm,
        args=lambda rng: [rng.normal(size=(20, 40)), (40,), rng.normal(size=40), None],
        id="compiled",
        second=False,
        gradient_tolerance=(1e-3, 1e-5),
    ),
    Row(
        "nn.functional.rms_norm",
        np_rms_norm,
        args=lambda rng: [rng.normal(size=(2, 3, 4)), (4,), rng.normal(size=4)],
        errors=shape_errors("rms_norm"),
    ),
    Row("nn.functional.rms_norm", np_rms_norm, shapes=[(2, 3, 4)], kwargs={"normalized_shape": (3, 4), "eps": 0.1}, id="two-dims", ones=False),
    Row(
        "nn.functional.rms_norm",
        np_rms_norm,
        args=lambda rng: [rng.normal(size=(20, 40)), (40,), rng.normal(size=40), 1e-5],
        id="compiled",
        second=False,
        gradient_tolerance=(1e-3, 1e-5),
    ),
    Row("nn.functional.batch_norm", np_batch_norm, args=running, grad=[True, False, False, True, True], id="running"),
    Row("nn.functional.batch_norm", np_batch_norm, args=running, id="running-gradient", dtypes=["float64"]),
    Row(
        "nn.functional.batch_norm",
        np_batch_norm,
        args=training,
        tolerance=2,
        id="training",
        errors=[
            error(lambda op: op(zeros(3), None, None, training=True), RuntimeError, "batch_norm", "at least 2 dims", "(3,)"),
            error(lambda op: op(zeros(1, 3), None, None, training=True), ValueError, "more than 1 value per channel", "[1, 3]"),
            error(lambda op: op(x, None, None), RuntimeError, "running_mean and running_var to be defined", "training=False"),
            error(lambda op: op(x, zeros(2), ones(3)), RuntimeError, "running_mean should contain 3 elements not 2"),
            error(lambda op: op(x, zeros(3), ones(3), ones(4)), RuntimeError, "weight should contain 3 elements not 4", "(2, 3, 4)"),
            error(lambda op: op(x.long(), zeros(3), ones(3)), RuntimeError, "batch_norm", "int64"),
        ],
    ),
    Row("nn.functional.batch_norm", np_batch_norm, args=lambda rng: [rng.normal(size=(5, 3)), None, None, None, None, True], id="rows"),
    Row(
        "nn.functional.batch_norm",
        np_batch_norm,
        args=lambda rng: [rng.normal(size=(3, 5, 40)), None, None, rng.normal(size=5), None, True],
        id="compiled",
        tolerance=3,
        second=False,
        gradient_tolerance=(1e-3, 1e-5),
    ),
    Row(
        "nn.functional.instance_norm",
        np_instance_norm,
        args=lambda rng: [rng.normal(size=(3, 4, 5)), None, None, rng.normal(size=4), rng.normal(size=4)],
        tolerance=2,
        errors=[
            error(lambda op: op(zeros(2, 3)), RuntimeError, "instance_norm", "at least 3 dims", "(2, 3)"),
            error(lambda op: op(zeros(2, 3, 1)), ValueError, "more than 1 spatial element", "[2, 3, 1]"),
            error(lambda op: op(x, use_input_stats=False), RuntimeError, "running_mean and running_var", "use_input_stats=False"),
            error(lambda op: op(x, weight=zeros(2)), RuntimeError, "weight should contain 3 elements not 2"),
        ],
    ),
    Row("nn.functional.instance_norm", np_instance_norm, args=lambda rng: [*running(rng), False], grad=[True, False, False, True, True], id="running"),
    Row(
        "nn.functional.group_norm",
        np_group_norm,
        args=lambda rng: [rng.normal(size=(2, 4, 3)), 2, rng.normal(size=4), rng.normal(size=4)],
        tolerance=2,
        errors=[
            error(lambda op: op(x, 2), RuntimeError, "group_norm", "divisible by num_groups", "[2, 3, 4]", "num_groups=2"),
            error(lambda op: op(zeros(1, 2, 1), 2), ValueError, "group_norm", "more than 1 value per channel", "[1, 2, 1]", "num_groups=2"),
            error(lambda op: op(zeros(3), 1), RuntimeError, "at least 2 dimensions", "(3,)"),
            error(lambda op: op(x, 3, zeros(4)), RuntimeError, "weight should contain 3 elements not 4"),
        ],
    ),
    Row("nn.functional.group_norm", np_group_norm, args=lambda rng: [rng.normal(size=(2, 4)), 1], id="flat", tolerance=2),
    Row(
        "nn.functional.local_response_norm",
        np_local_response_norm,
        args=lambda rng: [rng.normal(size=(2, 5, 3)), 3, 2.0, 0.6, 0.4],
        tolerance=2,
        errors=[error(lambda op: op(zeros(2, 3), 2), ValueError, "local_response_norm", "3D or higher", "(2, 3)")],
    ),
    Row("nn.functional.local_response_norm", np_local_response_norm, args=lambda rng: [rng.normal(size=(2, 5, 2, 2)), 2], id="even"),
]  # fmt: skip
test_rows = generate(ROWS)


def test_running_statistics_move_in_place_by_momentum():
    x = dynograd.randn(6, 2, 5) * 3 + 1
    mean, var = zeros(2), ones(2)
    F.batch_norm(x, mean, var, training=True, momentum=0.25)
    values = x.numpy().transpose(1, 0, 2).reshape(2, -1)
    numpy.testing.assert_allclose(mean.numpy(), 0.25 * values.mean(1), rtol=1e-5)
    numpy.testing.assert_allclose(var.numpy(), 0.75 + 0.25 * values.var(1, ddof=1), rtol=1e-5)
    assert not mean.requires_grad


def test_running_statistics_of_instances_are_the_mean_over_examples():
    x = dynograd.randn(3, 2, 5)
    mean, var = zeros(2), ones(2)
    F.instance_norm(x, mean, var, momentum=0.5)
    numpy.testing.assert_allclose(mean.numpy(), 0.5 * x.numpy().mean(2).mean(0), rtol=1e-5, atol=1e-7)
    numpy.testing.assert_allclose(var.numpy(), 0.5 + 0.5 * x.numpy().var(2, ddof=1).mean(0), rtol=1e-5)


def test_training_twice_before_backward_is_allowed():
    x = dynograd.randn(4, 2, requires_grad=True)
    mean, var = zeros(2), ones(2)
    element = F.batch_norm(x, mean, var, training=True)
    two = F.batch_norm(x, mean, var, training=True)
    (element * two).sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("dtype", [dynograd.float16, dynograd.bfloat16])
def test_half_inputs_with_float32_parameters(dtype):
    x = dynograd.randn(4, 3, 5).to(dtype).requires_grad_()
    weight, bias = ones(3, requires_grad=True), zeros(3, requires_grad=True)
    y = F.batch_norm(x, zeros(3), ones(3), weight, bias, training=True)
    y.sum().backward()
    assert y.dtype is dtype
    assert x.grad.dtype is dtype
    assert weight.grad.dtype is dynograd.float32


def test_rms_norm_of_complex_numbers():
    x = numpy.array([[1 + 2j, 3 - 1j]])
    parts = dynograd.tensor(numpy.stack([x.real, x.imag])).requires_grad_()
    numpy.testing.assert_allclose(F.rms_norm(dynograd.tensor(x), (2,), eps=0.5).numpy(), np_rms_norm(x, (2,), eps=0.5))
    assert dynograd.autograd.gradcheck(
        lambda one: dynograd.view_as_real(F.rms_norm(dynograd.complex(*one), (2,), eps=0.5)), [parts]
    )


def test_batch_norm_of_nothing_is_nothing():
    x = dynograd.zeros(0, requires_grad=True)
    created = dynograd.nn.functional.batch_norm(x, dynograd.zeros(0), dynograd.ones(0), training=True)
    created.sum().backward()
    assert created.shape == x.grad.shape == (0,)


@pytest.mark.parametrize("rows", [1, 3000])
@pytest.mark.parametrize("number", [numpy.inf, 1e30])
def test_rows_whose_squares_overflow_are_divided_by_infinity(rows, number):
    """By NumPy and by the compiled kernels."""
    x = dynograd.tensor([[number, 1.0, 2.0, -3.0]] * rows)
    first = numpy.nan if number == numpy.inf else 0.0
    expected = numpy.float32([[first, 0, 0, 0]] * rows)
    numpy.testing.assert_array_equal(dynograd.nn.functional.rms_norm(x, (4,)).numpy(), expected)
    if number != numpy.inf:
        numpy.testing.assert_array_equal(dynograd.nn.functional.layer_norm(x, (4,)).numpy(), expected * 0)


def test_no_groups():
    with pytest.raises(dynograd.errors.ShapeError, match=r"divisible by num_groups, but got .*num_groups=0"):
        F.group_norm(dynograd.ones(2, 4), 0)


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
@pytest.mark.filterwarnings("error")
def test_examples_of_nothing_pass_through_normalizations(shape):
    for norm in (F.instance_norm, lambda x: F.group_norm(x, 1), lambda x: F.layer_norm(x, x.shape[1:])):
        x = zeros(shape, requires_grad=True)
        norm(x).sum().backward()
        assert x.grad.shape == shape
