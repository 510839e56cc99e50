"""Initial values: bounds, moments, structure, fans, errors."""

from __future__ import annotations

import math

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.nn import init

SHAPE = (200, 300)
FAN_IN, FAN_OUT = 300, 200


def moments(tensor):
    values = tensor.detach().double().numpy()
    return values.mean(), values.std(), abs(values).max()


UNIFORM = [
    (lambda t: init.uniform_(t, -3.0, 3.0), 3.0),
    (lambda t: init.xavier_uniform_(t), math.sqrt(6 / (FAN_IN + FAN_OUT))),
    (lambda t: init.xavier_uniform_(t, gain=2.0), 2 * math.sqrt(6 / (FAN_IN + FAN_OUT))),
    (lambda t: init.kaiming_uniform_(t), math.sqrt(6 / FAN_IN)),
    (lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)), 1 / math.sqrt(FAN_IN)),
    (lambda t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="linear"), math.sqrt(3 / FAN_OUT)),
]
NORMAL = [
    (lambda t: init.normal_(t, 0.0, 0.02), 0.02),
    (lambda t: init.xavier_normal_(t), math.sqrt(2 / (FAN_IN + FAN_OUT))),
    (lambda t: init.xavier_normal_(t, gain=0.5), 0.5 * math.sqrt(2 / (FAN_IN + FAN_OUT))),
    (lambda t: init.kaiming_normal_(t), math.sqrt(2 / FAN_IN)),
    (lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / FAN_OUT)),
    (lambda t: init.kaiming_normal_(t, nonlinearity="tanh"), 5 / 3 / math.sqrt(FAN_IN)),
]


@pytest.mark.parametrize("number", range(len(UNIFORM)))
@pytest.mark.parametrize("dtype", [dg.float32, dg.float64])
def test_uniform_bounds(number, dtype):
    fill, bound = UNIFORM[number]
    tensor = dg.empty(*SHAPE, dtype=dtype)
    assert fill(tensor) is tensor
    mean, std, largest = moments(tensor)
    assert 0.999 * bound < largest <= bound * (1 + 1e-6)
    assert abs(mean) < 0.01 * bound and std == pytest.approx(bound / math.sqrt(3), rel=0.01)


@pytest.mark.parametrize("number", range(len(NORMAL)))
def test_normal_moments(number):
    fill, expected = NORMAL[number]
    tensor = dg.empty(*SHAPE)
    assert fill(tensor) is tensor
    mean, std, largest = moments(tensor)
    assert abs(mean) < 0.02 * expected and std == pytest.approx(expected, rel=0.01)
    assert 3.5 * expected < largest < 6 * expected


def test_normal_has_its_mean():
    assert moments(init.normal_(dg.empty(*SHAPE), 4.0, 0.1))[0] == pytest.approx(4.0, abs=0.005)


@pytest.mark.parametrize(
    ("mean", "std", "a", "b"), [(0, 1, -2, 2), (0, 0.02, -2, 2), (1, 1, 0.5, 0.75), (0, 1, 3, 4), (0, 1, -1, 5)]
)
def test_truncated_normal_is_the_normal_between_its_bounds(mean, std, a, b):
    values = init.trunc_normal_(dg.empty(*SHAPE), mean, std, a, b).numpy()
    assert values.min() >= a and values.max() <= b
    grid = numpy.linspace(max(a, mean - 8 * std), min(b, mean + 8 * std), 20001)
    density = numpy.exp(-0.5 * ((grid - mean) / std) ** 2)
    density /= density.sum()
    expected = (grid * density).sum()
    spread = math.sqrt(((grid - expected) ** 2 * density).sum())
    assert values.mean() == pytest.approx(expected, abs=0.02 * spread)
    assert values.std() == pytest.approx(spread, rel=0.02)


def test_constants():
    assert init.constant_(dg.empty(2), 0.3).tolist() == pytest.approx([0.3, 0.3])
    assert init.ones_(dg.empty(2)).tolist() == [1, 1]
    assert init.zeros_(dg.ones(2)).tolist() == [0, 0]
    assert init.eye_(dg.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (4, 2, 3)])
@pytest.mark.parametrize("gain", [1.0, 1.5])
def test_orthogonal_rows_or_columns(shape, gain):
    created = init.orthogonal_(dg.empty(*shape), gain).reshape(shape[0], -1).double().numpy()
    product = created @ created.T if created.shape[0] <= created.shape[1] else created.T @ created
    numpy.testing.assert_allclose(product, gain**2 * numpy.eye(len(product)), atol=1e-5)


def test_orthogonal_has_no_preferred_sign():
    signs = [float(init.orthogonal_(dg.empty(3, 3))[0, 0]) > 0 for _ in range(60)]
    assert 15 < sum(signs) < 45


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_dirac_passes_its_input_through(rank, groups):
    layer = getattr(nn, f"Conv{rank}d")(4, 4, 3, padding=1, groups=groups, bias=False)
    init.dirac_(layer.weight, groups)
    x = dg.randn(2, 4, *[5] * rank)
    out = layer(x)
    assert dg.allclose(out, x)


def test_sparse_has_its_share_of_zeros_in_each_column():
    tensor = init.sparse_(dg.empty(10, 20), 0.25, std=2.0)
    assert (tensor == 0).sum(0).tolist() == [3] * 20
    assert 1.5 < float(tensor[tensor != 0].std()) < 2.5


GAINS = {
    "linear": 1,
    "sigmoid": 1,
    "conv2d": 1,
    "conv_transpose3d": 1,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "selu": 0.75,
}


@pytest.mark.parametrize("name", GAINS)
def test_gains(name):
    assert init.calculate_gain(name) == pytest.approx(GAINS[name])


def test_gain_of_leaky_relu_takes_its_slope():
    assert init.calculate_gain("leaky_relu") == pytest.approx(math.sqrt(2 / (1 + 0.01**2)))
    assert init.calculate_gain("leaky_relu", 3) == pytest.approx(math.sqrt(0.2))


@pytest.mark.parametrize("shape", [(8, 4), (8, 4, 3), (8, 4, 3, 5)])
def test_fans_count_the_receptive_field(shape):
    field = math.prod(shape[2:])
    assert init._calculate_fan_in_and_fan_out(dg.empty(*shape)) == (4 * field, 8 * field)


def test_parameters_are_filled_outside_the_tape():
    weight = nn.Parameter(dg.zeros(3, 3))
    for fill in (init.xavier_normal_, init.orthogonal_, init.eye_, init.ones_, init.trunc_normal_):
        assert fill(weight) is weight and weight.is_leaf and weight.requires_grad
    with dg.enable_grad():
        assert init.uniform_(weight).grad_fn is None


def test_the_same_generator_gives_the_same_numbers():
    for fill in (
        init.uniform_,
        init.normal_,
        init.trunc_normal_,
        init.xavier_uniform_,
        init.kaiming_normal_,
        init.orthogonal_,
    ):
        element = fill(dg.empty(3, 4), generator=dg.Generator().manual_seed(7))
        dg.rand(3)
        two = fill(dg.empty(3, 4), generator=dg.Generator().manual_seed(7))
        assert dg.equal(element, two)


def test_empty_tensors_stay_empty():
    for fill in (init.orthogonal_, init.normal_):
        assert fill(dg.empty(0, 3)).shape == (0, 3)
    for fill in (init.kaiming_uniform_, init.kaiming_normal_):
        with pytest.warns(UserWarning, match="zero-element tensors is a no-op"):
            assert fill(dg.empty(0, 3)).shape == (0, 3)


ERRORS = [
    (lambda: init.xavier_uniform_(dg.empty(3)), ValueError, "fewer than 2 dimensions"),
    (lambda: init.kaiming_normal_(dg.empty(3)), ValueError, r"fewer than 2 dimensions.*\(3,\)"),
    (lambda: init.kaiming_uniform_(dg.empty(3, 3), mode="fan"), ValueError, "Mode fan not supported.*fan_in.*fan_out"),
    (lambda: init.calculate_gain("swish"), ValueError, "Unsupported nonlinearity swish.*leaky_relu"),
    (lambda: init.calculate_gain("leaky_relu", True), ValueError, "negative_slope True not a valid number"),
    (lambda: init.eye_(dg.empty(3)), ValueError, r"2 dimensions.*\(3,\)"),
    (lambda: init.dirac_(dg.empty(3, 3)), ValueError, r"3, 4, or 5.*\(3, 3\)"),
    (lambda: init.dirac_(dg.empty(3, 3, 3), groups=2), ValueError, "divisible by groups.*3.*2"),
    (lambda: init.orthogonal_(dg.empty(3)), ValueError, r"2 or more.*\(3,\)"),
    (lambda: init.sparse_(dg.empty(3), 0.1), ValueError, r"2 dimensions.*\(3,\)"),
    (lambda: init.ones_([1.0]), TypeError, "ones_.*Tensor.*list"),
    (lambda: init.normal_(dg.empty(3), 0.0, -1.0), (RuntimeError, ValueError), "-1.0"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, kind, words = ERRORS[number]
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize(
    "name", "uniform normal xavier_uniform xavier_normal kaiming_uniform kaiming_normal orthogonal eye".split()
)
def test_old_names_say_the_new_ones(name):
    old, new = getattr(init, name), getattr(init, f"{name}_")
    with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`"):
        values = old(dg.empty(3, 3), **({} if name == "eye" else {"generator": dg.Generator().manual_seed(0)}))
    assert dg.equal(
        values, new(dg.empty(3, 3), **({} if name == "eye" else {"generator": dg.Generator().manual_seed(0)}))
    )


def test_old_constant():
    with pytest.warns(FutureWarning, match="constant_"):
        assert init.constant(dg.empty(2), val=3).tolist() == [3, 3]
