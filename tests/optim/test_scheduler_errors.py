"""What schedules refuse, and what they say."""

import pytest

import dynograd
from dynograd import optim
from dynograd.optim import lr_scheduler as schedules
from tests.optim.test_schedulers import optimizer_with, rates_of


def cyclic(**options):
    return schedules.CyclicLR(optimizer_with(1.0), **dict(base_lr=1.0, max_lr=2.0) | options)


def once(**options):
    return schedules.OneCycleLR(optimizer_with(1.0), **dict(max_lr=1.0, total_steps=10) | options)


def combined(kind, *others, **options):
    optimizer = optimizer_with(1.0)
    return kind([schedules.StepLR(optimizer, 3), *others], optimizer, **options)


def stepped_after_a_new_group():
    scheduler = schedules.ExponentialLR(optimizer_with(1.0), 0.5)
    scheduler = schedules.LambdaLR(scheduler.optimizer, lambda step: 1.0)
    scheduler.optimizer.step()
    scheduler.lr_lambdas.append(lambda step: 1.0)
    scheduler.base_lrs.append(1.0)
    scheduler.step()


def too_often():
    scheduler = once(total_steps=3)
    rates_of(scheduler, 4)


ERRORS = [
    (lambda: schedules.StepLR(None, 3), TypeError, "StepLR: NoneType is not an Optimizer"),
    (lambda: schedules.ReduceLROnPlateau(3), TypeError, "int is not an Optimizer"),
    (
        lambda: schedules.StepLR(optimizer_with(1.0), 3, last_epoch=4),
        KeyError,
        r"'initial_lr' is not specified in param_groups\[0\]",
    ),
    (stepped_after_a_new_group, ValueError, "gives 2 learning rates, but the optimizer has 1 param groups"),
    (lambda: schedules.LambdaLR(optimizer_with(1.0), [len, len]), ValueError, "Expected 1 lr_lambdas, but got 2"),
    (
        lambda: schedules.MultiplicativeLR(optimizer_with(1.0), 3),
        TypeError,
        "lr_lambda should be a function, but got int",
    ),
    (lambda: schedules.ConstantLR(optimizer_with(1.0), 2), ValueError, "Constant multiplicative factor.*got 2"),
    (lambda: schedules.ConstantLR(optimizer_with(1.0), -0.5), ValueError, "Constant multiplicative factor.*got -0.5"),
    (lambda: schedules.LinearLR(optimizer_with(1.0), 0), ValueError, "Starting multiplicative factor.*got 0"),
    (lambda: schedules.LinearLR(optimizer_with(1.0), 0.5, 2), ValueError, "Ending multiplicative factor.*got 2"),
    (
        lambda: schedules.CosineAnnealingWarmRestarts(optimizer_with(1.0), 0),
        ValueError,
        "Expected positive integer T_0, but got 0",
    ),
    (
        lambda: schedules.CosineAnnealingWarmRestarts(optimizer_with(1.0), 2, 0.5),
        ValueError,
        "T_mult >= 1, but got 0.5",
    ),
    (
        lambda: schedules.CosineAnnealingWarmRestarts(optimizer_with(1.0), 2, eta_min="a"),
        ValueError,
        "float or int eta_min",
    ),
    (
        lambda: schedules.CosineAnnealingWarmRestarts(optimizer_with(1.0), 2).step(-1),
        ValueError,
        "non-negative epoch, but got -1",
    ),
    (lambda: schedules.ReduceLROnPlateau(optimizer_with(1.0), factor=1), ValueError, r"Factor should be < 1\.0, got 1"),
    (lambda: schedules.ReduceLROnPlateau(optimizer_with(1.0), "up"), ValueError, "mode up is unknown"),
    (
        lambda: schedules.ReduceLROnPlateau(optimizer_with(1.0), threshold_mode="x"),
        ValueError,
        "threshold mode x is unknown",
    ),
    (lambda: schedules.ReduceLROnPlateau(optimizer_with(1.0), min_lr=[1, 2]), ValueError, "expected 1 min_lrs, got 2"),
    (lambda: cyclic(mode="square"), ValueError, "mode is invalid and scale_fn is None: got 'square'"),
    (
        lambda: cyclic(max_lr=[1, 2]),
        ValueError,
        "max_lr must have the same length as optimizer.param_groups. max_lr has 2 values",
    ),
    (lambda: once(total_steps=None), ValueError, "either total_steps OR"),
    (lambda: once(total_steps=-3), ValueError, "Expected positive integer total_steps, but got -3"),
    (
        lambda: once(total_steps=None, epochs=2, steps_per_epoch=0.5),
        ValueError,
        "positive integer steps_per_epoch, but got 0.5",
    ),
    (lambda: once(pct_start=2.0), ValueError, "between 0 and 1 pct_start, but got 2.0"),
    (lambda: once(anneal_strategy="x"), ValueError, "must be one of 'cos' or 'linear', instead got x"),
    (too_often, ValueError, "Tried to step 4 times. The specified number of total steps is 3"),
    (
        lambda: combined(schedules.ChainedScheduler, 3),
        TypeError,
        "3 at index 1 should have `optimizer` as its attribute",
    ),
    (lambda: schedules.ChainedScheduler([]), ValueError, "at least one scheduler to be chained"),
    (
        lambda: combined(schedules.ChainedScheduler, schedules.StepLR(optimizer_with(1.0), 3)),
        ValueError,
        "belong to the same optimizer, but got scheduler StepLR at index 1",
    ),
    (
        lambda: combined(schedules.ChainedScheduler, schedules.ReduceLROnPlateau(optimizer_with(1.0))),
        ValueError,
        "does not support `ReduceLROnPlateau`.*index 1",
    ),
    (lambda: schedules.SequentialLR(optimizer_with(1.0), [], []), ValueError, "at least one scheduler"),
    (
        lambda: (lambda o: schedules.SequentialLR(o, [schedules.StepLR(o, 3)], [2]))(optimizer_with(1.0)),
        ValueError,
        "number of schedulers 1 and the number of milestones to be equal to 1",
    ),
]


@pytest.mark.parametrize("make, error, text", ERRORS, ids=[row[2][:40] for row in ERRORS])
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_momentum_is_needed_for_cycling_it():
    class Bare(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, dict(lr=1.0))

    bare = Bare([dynograd.zeros(1, requires_grad=True)])
    for kind, options in (
        (schedules.CyclicLR, dict(base_lr=1, max_lr=2)),
        (schedules.OneCycleLR, dict(max_lr=1, total_steps=5)),
    ):
        with pytest.raises(ValueError, match=r"must support momentum or beta1.*Bare has neither.*cycle_momentum=False"):
            kind(bare, **options)
        kind(bare, **options, cycle_momentum=False)
