"""weight_norm and spectral_norm; DataParallel; PyTorch's import paths."""

from __future__ import annotations

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.nn.utils import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm


@pytest.mark.parametrize(("dim", "shape"), [(0, (4, 1, 1)), (1, (1, 3, 1)), (-2, (1, 3, 1)), (None, ()), (-1, ())])
def test_weight_norm_keeps_the_weight_and_takes_it_apart(dim, shape):
    layer = nn.Conv1d(3, 4, 2)
    weight, x = layer.weight.detach().clone(), dg.randn(2, 3, 5)
    expected = layer(x)
    assert weight_norm(layer, dim=dim) is layer
    assert list(layer.state_dict()) == ["bias", "weight_g", "weight_v"] and tuple(layer.weight_g.shape) == shape
    assert dg.allclose(layer(x), expected, atol=1e-6)
    layer.weight_g.data.mul_(3.0)
    assert dg.allclose(layer(x) - layer.bias[:, None], 3 * (expected - layer.bias[:, None]), atol=1e-5)
    layer(x).sum().backward()
    assert layer.weight_g.grad is not None and layer.weight_v.grad is not None
    assert remove_weight_norm(layer) is layer
    assert sorted(layer.state_dict()) == ["bias", "weight"] and dg.allclose(layer.weight, 3 * weight, atol=1e-6)
    assert isinstance(layer.weight, nn.Parameter) and not layer._hooked


def test_weight_norm_serves_recurrent_weights_too():
    layer = nn.LSTM(3, 4)
    x = dg.randn(5, 2, 3)
    expected = layer(x)[0]
    weight_norm(layer, "weight_hh_l0")
    assert dg.allclose(layer(x)[0], expected, atol=1e-6)
    layer(x)[0].sum().backward()
    assert layer.weight_hh_l0_g.grad.shape == (16, 1)


@pytest.mark.parametrize(
    "layer", [nn.Linear(5, 4), nn.Conv2d(2, 3, 2), nn.ConvTranspose2d(2, 3, 2)], ids=lambda one: type(one).__name__
)
def test_spectral_norm_divides_by_the_largest_singular_value(layer):
    weight = layer.weight.detach().clone()
    spectral_norm(layer, n_power_iterations=30)
    x = dg.randn(4, 5) if isinstance(layer, nn.Linear) else dg.randn(1, 2, 4, 4)
    layer(x).sum().backward()
    dim = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
    matrix = numpy.moveaxis(weight.numpy(), dim, 0).reshape(weight.shape[dim], -1)
    numpy.testing.assert_allclose(
        layer.weight.detach().numpy(), weight.numpy() / numpy.linalg.svd(matrix)[1][0], rtol=1e-3, atol=1e-4
    )
    assert sorted(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    assert layer.weight_orig.grad is not None
    remove_spectral_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


def test_spectral_norm_iterates_in_training_only():
    layer = spectral_norm(nn.Linear(5, 4))
    x = dg.randn(2, 5)
    before = layer.weight_u.clone()
    layer.eval()(x)
    assert dg.equal(layer.weight_u, before)
    layer.train()(x)
    element = layer(x)
    two = layer(x)
    (element.sum() + two.sum()).backward()


ERRORS = [
    (lambda: remove_weight_norm(nn.Linear(2, 2)), ValueError, "'weight' not found in Linear"),
    (lambda: remove_spectral_norm(nn.Linear(2, 2)), ValueError, "'weight' not found in Linear"),
    (lambda: weight_norm(weight_norm(nn.Linear(2, 2))), RuntimeError, "Linear has a weight_norm hook.*'weight'"),
    (lambda: spectral_norm(spectral_norm(nn.Linear(2, 2))), RuntimeError, "Linear has a spectral_norm hook.*'weight'"),
    (lambda: spectral_norm(nn.Linear(2, 2), n_power_iterations=0), ValueError, "positive, got 0"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, kind, words = ERRORS[number]
    with pytest.raises(kind, match=words):
        call()


def test_data_parallel_names_and_results():
    model = nn.Linear(2, 3)
    wrapped = nn.DataParallel(model, device_ids=[0])
    x = dg.randn(4, 2)
    assert dg.equal(wrapped(x), model(x)) and wrapped.module is model
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    assert nn.parallel.DataParallel is nn.DataParallel


def test_import_paths_of_pytorch():
    from dynograd.nn.modules.batchnorm import _BatchNorm
    from dynograd.nn.modules.container import Sequential
    from dynograd.nn.modules.conv import _ConvNd
    from dynograd.nn.modules.loss import _Loss, _WeightedLoss
    from dynograd.nn.modules.module import Module
    from dynograd.nn.modules.pooling import _MaxPoolNd
    from dynograd.nn.modules.utils import _ntuple, _pair

    assert isinstance(nn.BatchNorm2d(1), _BatchNorm) and isinstance(nn.Conv2d(1, 1, 1), _ConvNd)
    assert isinstance(nn.CrossEntropyLoss(), _WeightedLoss) and isinstance(nn.MSELoss(), _Loss)
    assert isinstance(nn.MaxPool2d(2), _MaxPoolNd)
    assert Sequential is nn.Sequential and Module is nn.Module and nn.modules.Linear is nn.Linear
    assert _pair(2) == (2, 2) and _pair([1, 2]) == (1, 2) and _ntuple(5)(0) == (0,) * 5


def test_functional_names_what_is_close():
    with pytest.raises(AttributeError, match=r"no 'relux'.* It has .*relu"):
        _ = nn.functional.relux
