"""What an optimizer or a schedule does when nothing is said: PyTorch's defaults."""

import importlib
import inspect

import pytest

from dynograd import optim

ADAM = dict(
    betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, maximize=False, capturable=False, differentiable=False
)
PLAIN = dict(foreach=None, maximize=False, differentiable=False)
DEFAULTS = {
    "Adadelta": dict(PLAIN, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, capturable=False),
    "Adafactor": dict(lr=0.01, beta2_decay=-0.8, eps=(None, 0.001), d=1.0, weight_decay=0.0, foreach=None, maximize=False),
    "Adagrad": dict(PLAIN, lr=0.01, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, fused=None),
    "Adam": dict(ADAM, lr=0.001, amsgrad=False, fused=None, decoupled_weight_decay=False),
    "AdamW": dict(ADAM, lr=0.001, weight_decay=0.01, amsgrad=False, fused=None),
    "Adamax": dict(ADAM, lr=0.002),
    "ASGD": dict(PLAIN, lr=0.01, lambd=0.0001, alpha=0.75, t0=1000000.0, weight_decay=0, capturable=False),
    "LBFGS": dict(
        lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100, line_search_fn=None
    ),
    "Muon": dict(
        lr=0.001, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7,
        ns_steps=5, adjust_lr_fn=None,
    ),
    "NAdam": dict(ADAM, lr=0.002, momentum_decay=0.004, decoupled_weight_decay=False),
    "RAdam": dict(ADAM, lr=0.001, decoupled_weight_decay=False),
    "RMSprop": dict(PLAIN, lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False),
    "Rprop": dict(PLAIN, lr=0.01, etas=(0.5, 1.2), step_sizes=(1e-6, 50), capturable=False),
    "SGD": dict(PLAIN, lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=False, fused=None),
    "SparseAdam": dict(lr=0.001, betas=(0.9, 0.999), eps=1e-8, maximize=False),
    "lr_scheduler.ConstantLR": dict(factor=1 / 3, total_iters=5, last_epoch=-1),
    "lr_scheduler.CosineAnnealingLR": dict(eta_min=0.0, last_epoch=-1),
    "lr_scheduler.CosineAnnealingWarmRestarts": dict(T_mult=1, eta_min=0.0, last_epoch=-1),
    "lr_scheduler.CyclicLR": dict(
        step_size_up=2000, step_size_down=None, mode="triangular", gamma=1.0, scale_fn=None, scale_mode="cycle",
        cycle_momentum=True, base_momentum=0.8, max_momentum=0.9, last_epoch=-1,
    ),
    "lr_scheduler.ExponentialLR": dict(last_epoch=-1),
    "lr_scheduler.LambdaLR": dict(last_epoch=-1),
    "lr_scheduler.LinearLR": dict(start_factor=1 / 3, end_factor=1.0, total_iters=5, last_epoch=-1),
    "lr_scheduler.MultiStepLR": dict(gamma=0.1, last_epoch=-1),
    "lr_scheduler.MultiplicativeLR": dict(last_epoch=-1),
    "lr_scheduler.OneCycleLR": dict(
        total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3, anneal_strategy="cos", cycle_momentum=True,
        base_momentum=0.85, max_momentum=0.95, div_factor=25.0, final_div_factor=10000.0, three_phase=False, last_epoch=-1,
    ),
    "lr_scheduler.PolynomialLR": dict(total_iters=5, power=1.0, last_epoch=-1),
    "lr_scheduler.ReduceLROnPlateau": dict(
        mode="min", factor=0.1, patience=10, threshold=0.0001, threshold_mode="rel", cooldown=0, min_lr=0, eps=1e-8
    ),
    "lr_scheduler.SequentialLR": dict(last_epoch=-1),
    "lr_scheduler.StepLR": dict(gamma=0.1, last_epoch=-1),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults(name):
    kind = optim
    for part in name.split("."):
        kind = getattr(kind, part)
    parameters = inspect.signature(kind).parameters.values()
    defaults = {
        parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty
    }
    assert defaults == DEFAULTS[name]
    assert {key: type(value) for key, value in defaults.items() if value in (True, False)} == {
        key: type(value) for key, value in DEFAULTS[name].items() if value in (True, False)
    }


STEPS = "adadelta adafactor adagrad adam adamax adamw asgd nadam radam rmsprop rprop sgd".split()


@pytest.mark.parametrize("name", STEPS)
def test_options_of_a_step_on_lists_are_off(name):
    step = getattr(importlib.import_module(f"dynograd.optim.{name}"), name)
    defaults = [
        parameter.default
        for parameter in inspect.signature(step).parameters.values()
        if parameter.default is not parameter.empty
    ]
    assert defaults and all(default is None or default is False for default in defaults)
