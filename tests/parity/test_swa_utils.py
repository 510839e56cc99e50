"""`optim.swa_utils` beside PyTorch's: averages while training, keys, batch statistics, rates and their state."""

import inspect

import numpy
import pytest
import torch

import dynograd

KINDS = {
    "default": lambda swa: {},
    "swa": lambda swa: {"multi_avg_fn": swa.get_swa_multi_avg_fn()},
    "swa one by one": lambda swa: {"avg_fn": swa.get_swa_avg_fn()},
    "ema": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9)},
    "ema one by one": lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.9)},
}


def model_of(library):
    nn = library.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).double()
    random = numpy.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data = library.from_numpy(random.normal(size=tuple(parameter.shape)))
    return model


def train(library, kind, use_buffers):
    swa, random = library.optim.swa_utils, numpy.random.default_rng(1)
    model = model_of(library)
    averaged = swa.AveragedModel(model, use_buffers=use_buffers, **KINDS[kind](swa))
    optimizer = library.optim.SGD(model.parameters(), lr=0.2)
    scheduler = swa.SWALR(optimizer, swa_lr=0.05, anneal_epochs=4)
    batches = [library.from_numpy(random.normal(size=(6, 3))) for _ in range(8)]
    rates = []
    for x in batches:
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()
        averaged.update_parameters(model)
        scheduler.step()
        rates.append(scheduler.get_last_lr()[0])
    before = {name: element.numpy().copy() for name, element in averaged.state_dict().items()}
    swa.update_bn(batches, averaged)
    after = {f"{name} after": element.numpy().copy() for name, element in averaged.state_dict().items()}
    state = {name: value for name, value in scheduler.state_dict().items() if not name.startswith(("_get", "_is"))}
    return before | after, rates, state


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_averages_while_training(kind, use_buffers):
    if kind == "swa" and use_buffers:
        pytest.skip("torch's addcdiv refuses the integer buffer")
    (results, rates, state), (expected, other_rates, other_state) = (
        train(each, kind, use_buffers) for each in (dynograd, torch)
    )
    assert list(results) == list(expected) and rates == pytest.approx(other_rates, abs=1e-12)
    for name, element in results.items():
        assert element.dtype == expected[name].dtype
        numpy.testing.assert_allclose(element, expected[name], atol=1e-12, err_msg=name)
    assert set(state) == set(other_state)
    for name, value in state.items():
        assert value == (value if isinstance(value, str) else pytest.approx(other_state[name])), name


@pytest.mark.parametrize("name", torch.optim.swa_utils.__all__)
def test_the_same_names_and_arguments(name):
    ours, theirs = getattr(dynograd.optim.swa_utils, name), getattr(torch.optim.swa_utils, name)
    mine, other = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    assert [(element, value.default) for element, value in mine.items()] == [
        (element, value.default) for element, value in other.items()
    ]


@pytest.mark.parametrize("options", [{"anneal_strategy": "linear"}, {"anneal_epochs": 0}, {"swa_lr": 0.5}])
def test_rates_and_resuming(options):
    rows = []
    for library in (dynograd, torch):
        optimizer = library.optim.SGD([library.zeros(1, requires_grad=True)], lr=0.3)
        scheduler = library.optim.swa_utils.SWALR(optimizer, **{"swa_lr": 0.01, "anneal_epochs": 5, **options})
        rates = []
        for _ in range(9):
            optimizer.step()
            scheduler.step()
            rates.append(scheduler.get_last_lr()[0])
        rows.append(rates)
    assert rows[0] == pytest.approx(rows[1], abs=1e-12)
