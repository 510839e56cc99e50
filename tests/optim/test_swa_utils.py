"""Averages of weights against NumPy; batch statistics measured anew; the rates of SWALR."""

from __future__ import annotations

import copy
import math

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.optim import SGD
from dynograd.optim.swa_utils import (
    SWALR,
    AveragedModel,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    get_swa_avg_fn,
    get_swa_multi_avg_fn,
    update_bn,
)


def ema(values, decay=0.75):
    average = values[0]
    for value in values[1:]:
        average = decay * average + (1 - decay) * value
    return average


def mean(values):
    return sum(values) / len(values)


CHOICES = [
    ({}, mean),
    ({"avg_fn": get_swa_avg_fn()}, mean),
    ({"multi_avg_fn": get_swa_multi_avg_fn()}, mean),
    ({"avg_fn": get_ema_avg_fn(0.75)}, ema),
    ({"multi_avg_fn": get_ema_multi_avg_fn(0.75)}, ema),
    (
        {"avg_fn": lambda average, current, n: average + current * n},
        lambda values: values[0] + values[1] + 2 * values[2],
    ),
]


def model_of():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2).double(), nn.Identity())


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize(("options", "reference"), CHOICES)
def test_the_average_of_three_models(options, reference, use_buffers):
    model = model_of()
    averaged = AveragedModel(model, use_buffers=use_buffers, **options)
    seen = []
    for number in range(3):
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        model[1].running_mean.fill_(float(number))
        model[1].num_batches_tracked.fill_(4 * number)
        seen.append({name: element.numpy().astype("float64").copy() for name, element in model.state_dict().items()})
        averaged.update_parameters(model)
    for name, result in averaged.module.state_dict().items():
        is_buffer = name.startswith("1.") and name[2:] not in ("weight", "bias")
        values = [element[name] for element in seen]
        expected = values[-1] if is_buffer and not use_buffers else reference(values)
        if name.endswith("tracked") and use_buffers and options:
            continue  # integers round at each step
        numpy.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6, err_msg=name)
    assert int(averaged.n_averaged) == 3 and averaged.module[1].num_batches_tracked.dtype is dg.int64
    assert list(averaged.state_dict()) == ["n_averaged", *[f"module.{name}" for name in seen[0]]]


def test_the_copy_is_its_own_and_the_count_is_saved():
    model = model_of()
    averaged = AveragedModel(model)
    averaged.update_parameters(model)
    with dg.no_grad():
        model[0].weight.zero_()
    assert float(averaged.module[0].weight.abs().sum()) > 0 and averaged.module[0].weight.requires_grad
    other = AveragedModel(model_of())
    other.load_state_dict(averaged.state_dict())
    assert int(other.n_averaged) == 1 and dg.equal(other.module[0].weight, averaged.module[0].weight)
    x = dg.randn(5, 3)
    assert dg.equal(nn.Sequential(*averaged.module[:2])(x), nn.Sequential(*copy.deepcopy(averaged).module[:2])(x))


@pytest.mark.parametrize("wrapped", [lambda x: x, lambda x: (x, None), lambda x: [x]])
def test_update_bn_measures_the_data(wrapped):
    model = nn.Sequential(nn.BatchNorm1d(3, momentum=0.3), nn.Sequential(nn.BatchNorm1d(3)), nn.Dropout(0.5)).eval()
    model[0].running_mean.fill_(9.0)
    batches = [dg.randn(6, 3) * 2 + 1 for _ in range(4)]
    update_bn([wrapped(batch) for batch in batches], model, device="cpu")
    expected = numpy.mean([batch.numpy().mean(0) for batch in batches], 0)
    numpy.testing.assert_allclose(model[0].running_mean.numpy(), expected, rtol=1e-5)
    variances = numpy.mean([batch.numpy().var(0, ddof=1) for batch in batches], 0)
    numpy.testing.assert_allclose(model[0].running_var.numpy(), variances, rtol=1e-5)
    assert model[0].momentum == 0.3 and not model.training and int(model[0].num_batches_tracked) == 4


def test_update_bn_of_a_model_without_batch_norm_reads_nothing():
    update_bn(iter(()), nn.Linear(2, 2))


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_rates_go_to_swa_lr(strategy, epochs):
    weights = [dg.zeros(1, requires_grad=True) for _ in range(2)]
    optimizer = SGD([{"params": [weights[0]]}, {"params": [weights[1]], "lr": 0.5}], lr=1.0)
    scheduler = SWALR(optimizer, swa_lr=[0.1, 0.2], anneal_epochs=epochs, anneal_strategy=strategy)
    for step in range(7):
        t = min(1.0, max(step, 1 if epochs == 0 else 0) / max(1, epochs))
        share = t if strategy == "linear" else (1 - math.cos(math.pi * t)) / 2
        expected = [0.1 * share + 1.0 * (1 - share), 0.2 * share + 0.5 * (1 - share)]
        assert scheduler.get_last_lr() == pytest.approx(expected, abs=1e-12)
        optimizer.step()
        if step == 2:
            saved = scheduler.state_dict()
            scheduler = SWALR(optimizer, swa_lr=[0.1, 0.2], anneal_epochs=9)
            for group, rate in zip(optimizer.param_groups, expected):
                group["lr"] = rate
            scheduler.load_state_dict(saved)
        scheduler.step()


def optimizer_of():
    return SGD([dg.zeros(1)], lr=0.1)


ERRORS = [
    (lambda: get_ema_avg_fn(1.5), ValueError, r"Invalid decay value 1.5 .*\[0,1\]"),
    (lambda: get_ema_multi_avg_fn(-0.5), ValueError, r"Invalid decay value -0.5 .*\[0,1\]"),
    (
        lambda: AveragedModel(nn.Linear(1, 1), None, get_swa_avg_fn(), get_swa_multi_avg_fn()),
        AssertionError,
        "Only one",
    ),
    (lambda: SWALR(optimizer_of(), 0.1, anneal_strategy="exp"), ValueError, "'cos' or 'linear', instead got 'exp'"),
    (lambda: SWALR(optimizer_of(), 0.1, anneal_epochs=-1), ValueError, "anneal_epochs .* got -1"),
    (lambda: SWALR(optimizer_of(), 0.1, anneal_epochs=1.5), ValueError, "anneal_epochs .* got 1.5"),
    (lambda: SWALR(optimizer_of(), [0.1, 0.2]), ValueError, "swa_lr must have the same length.* 2 .* 1"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, kind, words = ERRORS[number]
    with pytest.raises(kind, match=words):
        call()
