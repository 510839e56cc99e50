"""Parametrizations: registering, assigning, stacking, caching, copying, removing; weight_norm, spectral_norm, orthogonal."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.nn.utils import parametrizations, parametrize
from dynograd.nn.utils.parametrize import is_parametrized, register_parametrization, remove_parametrizations


class Times(nn.Module):
    def __init__(self, factor=2.0, calls=None):
        super().__init__()
        self.factor, self.calls = factor, [] if calls is None else calls

    def forward(self, x):
        self.calls.append(1)
        return x * self.factor

    def right_inverse(self, x):
        return x / self.factor


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT


class Sum(nn.Module):
    def forward(self, a, b):
        return a + b

    def right_inverse(self, x):
        return x / 4, x * 3 / 4


def test_the_weight_is_computed_and_the_original_learns():
    layer = nn.Linear(3, 3)
    weight, before = layer.weight, layer.weight.detach().clone()
    assert register_parametrization(layer, "weight", Times()) is layer
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert layer.parametrizations.weight.original is weight and dg.allclose(layer.weight, before)
    layer(dg.ones(1, 3)).sum().backward()
    assert dg.equal(weight.grad, dg.full((3, 3), 2.0)) and type(layer).__name__ == "ParametrizedLinear"
    layer.weight = dg.ones(3, 3)
    assert dg.equal(weight.detach(), dg.full((3, 3), 0.5)) and dg.equal(layer.weight, dg.ones(3, 3))
    register_parametrization(layer, "weight", Symmetric())
    register_parametrization(layer, "bias", Times(4.0))
    assert len(layer.parametrizations.weight) == 2 and is_parametrized(layer) and is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is nn.Linear and isinstance(layer, nn.Linear)
    remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight is weight and is_parametrized(layer, "bias") and not is_parametrized(layer, "weight")
    remove_parametrizations(layer, "bias")
    assert type(layer) is nn.Linear and list(layer.state_dict()) == ["weight", "bias"] and not is_parametrized(layer)


def test_several_originals_buffers_and_removal():
    layer = nn.Linear(2, 3)
    before = layer.weight.detach().clone()
    register_parametrization(layer, "weight", Sum())
    assert list(layer.state_dict()) == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    assert dg.allclose(layer.weight, before) and dg.allclose(layer.parametrizations.weight.original0, before / 4)
    layer.weight = dg.ones(3, 2)
    assert dg.equal(layer.parametrizations.weight.original1.detach(), dg.full((3, 2), 0.75))
    with pytest.raises(ValueError, match=r"leave_parametrized=False.*sequence of tensors \(2\)"):
        remove_parametrizations(layer, "weight", leave_parametrized=False)
    remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and dg.equal(layer.weight.detach(), dg.ones(3, 2))
    norm = nn.BatchNorm1d(2)
    register_parametrization(norm, "running_mean", Times())
    assert "parametrizations.running_mean.original" in norm.state_dict() and len(list(norm.parameters())) == 2
    remove_parametrizations(norm, "running_mean")
    assert "running_mean" in norm._buffers


def test_cached_computes_once():
    calls = []
    layer = register_parametrization(nn.Linear(2, 2), "weight", Times(calls=calls))
    calls.clear()
    with parametrize.cached():
        for _ in range(3):
            layer(dg.ones(1, 2))
        with parametrize.cached():
            assert layer.weight is layer.weight
    assert len(calls) == 1
    assert layer.weight is not layer.weight


def test_copies_are_independent_and_pickle_says_what_to_do():
    layer = register_parametrization(nn.Linear(2, 2), "weight", Times())
    other = copy.deepcopy(layer)
    with dg.no_grad():
        other.parametrizations.weight.original.zero_()
    assert not dg.equal(layer.weight, other.weight)
    remove_parametrizations(other, "weight")
    assert type(other) is nn.Linear and is_parametrized(layer) and layer(dg.ones(1, 2)).shape == (1, 2)
    with pytest.raises(RuntimeError, match="only supported through state_dict.*ParametrizedLinear"):
        pickle.dumps(layer)


class Written(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(dg.ones(2))


def test_modules_of_a_program_are_copied():
    layer = register_parametrization(Written(), "weight", Times())
    other = copy.deepcopy(layer)
    assert type(other) is type(layer) and other is not layer
    assert other.weight.tolist() == layer.weight.tolist()
    with pytest.raises(RuntimeError, match="only supported through state_dict.*ParametrizedWritten"):
        pickle.dumps(layer)


def test_transfer():
    source = register_parametrization(nn.Linear(2, 2), "weight", Times(3.0))
    target = nn.Linear(2, 2)
    assert parametrize.transfer_parametrizations_and_params(source, target) is target
    assert dg.equal(target.weight, source.weight) and is_parametrized(target, "weight")
    assert target.parametrizations.weight.original is source.parametrizations.weight.original


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim):
    layer = nn.Conv1d(3, 4, 2)
    weight = layer.weight.detach().clone()
    parametrizations.weight_norm(layer, dim=dim)
    assert dg.allclose(layer.weight, weight, atol=1e-6)
    with dg.no_grad():
        layer.parametrizations.weight.original0.mul_(3.0)
    assert dg.allclose(layer.weight, 3 * weight, atol=1e-5)
    other = parametrizations.weight_norm(nn.Conv1d(3, 4, 2), dim=dim)
    other.load_state_dict(nn.utils.weight_norm(nn.Conv1d(3, 4, 2), dim=dim).state_dict())


@pytest.mark.parametrize("layer", [nn.Linear(5, 4), nn.Conv2d(2, 3, 2), nn.ConvTranspose2d(2, 3, 2), nn.PReLU(3)])
def test_spectral_norm(layer):
    weight = layer.weight.detach().numpy().copy()
    parametrizations.spectral_norm(layer, n_power_iterations=30)
    dim = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
    size = numpy.linalg.norm(numpy.moveaxis(weight, dim, 0).reshape(weight.shape[dim], -1), 2)
    numpy.testing.assert_allclose(layer.weight.detach().numpy(), weight / size, rtol=1e-3, atol=1e-4)
    (layer.weight.sum() + layer.weight.sum()).backward()
    if weight.ndim > 1:
        before = layer.eval().parametrizations.weight[0]._u.clone()
        _ = layer.weight
        assert dg.equal(layer.parametrizations.weight[0]._u, before)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
@pytest.mark.parametrize("trivialized", [True, False])
@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder", None])
def test_orthogonal(name, trivialized, shape):
    layer = nn.Module()
    layer.weight = nn.Parameter(dg.randn(shape, dtype=dg.float64))
    parametrizations.orthogonal(layer, orthogonal_map=name, use_trivialization=trivialized)

    def off():
        q = layer.weight.detach().numpy()
        q = q if q.shape[-2] >= q.shape[-1] else numpy.swapaxes(q, -1, -2)
        return numpy.abs(numpy.swapaxes(q, -1, -2) @ q - numpy.eye(q.shape[-1])).max()

    assert off() < 1e-10
    before = layer.weight.detach().clone()
    (layer.weight * dg.randn(shape, dtype=dg.float64)).sum().backward()
    original = layer.parametrizations.weight.original
    with dg.no_grad():
        original.sub_(0.1 * original.grad)
    assert off() < 1e-10 and float((layer.weight - before).abs().max()) > 1e-3
    if trivialized or layer.parametrizations.weight[0].orthogonal_map == "householder":
        layer.weight = before
        assert dg.allclose(layer.weight, before, atol=1e-9)


class Half(nn.Module):
    def forward(self, x):
        return x[:1]


class Other(Times):
    def right_inverse(self, x):
        return "text"


linear = lambda: nn.Linear(2, 2)  # noqa: E731
ERRORS = [
    (lambda: register_parametrization(linear(), "w", Times()), ValueError, "name 'w'. It has weight, bias"),
    (lambda: remove_parametrizations(linear(), "weight"), ValueError, "does not have a parametrization on weight"),
    (lambda: register_parametrization(linear(), "weight", Half()), ValueError, "may not change the shape"),
    (
        lambda: register_parametrization(register_parametrization(linear(), "weight", Times()), "weight", Half()),
        ValueError,
        "may not change the shape",
    ),
    (lambda: register_parametrization(linear(), "weight", Other()), ValueError, "'right_inverse' must return a Tensor"),
    (
        lambda: setattr(register_parametrization(linear(), "weight", Symmetric()), "weight", dg.ones(2, 2)),
        RuntimeError,
        "Symmetric does not implement right_inverse",
    ),
    (lambda: parametrize.ParametrizationList([], dg.ones(1)), ValueError, "one or more modules"),
    (lambda: parametrizations.orthogonal(nn.PReLU(3)), ValueError, "Expected a matrix .* 1 dim"),
    (lambda: parametrizations.orthogonal(linear(), orthogonal_map="qr"), ValueError, "has to be one of .* Got: qr"),
    (lambda: parametrizations.orthogonal(linear(), "w"), ValueError, "no parameter or buffer with name 'w'"),
    (lambda: parametrizations.spectral_norm(linear(), dim=3), IndexError, r"\[-2, 1\] but got 3"),
    (lambda: parametrizations.spectral_norm(linear(), n_power_iterations=0), ValueError, "n_power_iterations=0"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, kind, words = ERRORS[number]
    with pytest.raises(kind, match=words):
        call()


def test_cached_keeps_its_modules():
    """What is kept under their place in memory must not outlive them there."""
    layer = nn.Linear(2, 2)
    register_parametrization(layer, "weight", Times())
    living = weakref.ref(layer)
    with parametrize.cached():
        layer.weight  # noqa: B018
        del layer
        gc.collect()
        assert living() is not None
    gc.collect()
    assert living() is None
