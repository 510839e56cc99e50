"""`optim.adam.adam` and its like: signatures, and steps on lists of parameters, gradients and states, beside PyTorch's."""

import importlib
import inspect

import numpy
import pytest
import torch

import dynograd

MOMENTS, DECAY = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8}, {"weight_decay": 0.1}
ROWS = [  # function, states (a name ending in "?" starts as None), what they start from, options
    ("adam", "zeros zeros empty step", {**MOMENTS, **DECAY, "lr": 0.1, "amsgrad": False, "maximize": False}),
    ("adam", "zeros zeros zeros step", {**MOMENTS, **DECAY, "lr": 0.1, "amsgrad": True, "maximize": True}),
    (
        "adam",
        "zeros zeros empty step",
        {**MOMENTS, **DECAY, "lr": 0.1, "amsgrad": False, "maximize": False, "decoupled_weight_decay": True},
    ),
    ("adamw", "zeros zeros empty step", {**MOMENTS, **DECAY, "lr": 0.1, "amsgrad": False, "maximize": False}),
    ("sgd", "none", {**DECAY, "lr": 0.1, "momentum": 0.9, "dampening": 0.2, "nesterov": False, "maximize": False}),
    ("sgd", "none", {**DECAY, "lr": 0.1, "momentum": 0.9, "dampening": 0.0, "nesterov": True, "maximize": True}),
    ("sgd", "none", {**DECAY, "lr": 0.1, "momentum": 0.0, "dampening": 0.0, "nesterov": False, "maximize": False}),
    ("adagrad", "zeros step", {**DECAY, "lr": 0.1, "lr_decay": 0.1, "eps": 1e-10, "maximize": False}),
    ("adadelta", "zeros zeros step", {**DECAY, "lr": 0.5, "rho": 0.9, "eps": 1e-6, "maximize": False}),
    ("adamax", "zeros zeros step", {**MOMENTS, **DECAY, "lr": 0.1}),
    ("asgd", "zeros one lr step", {**DECAY, "lr": 0.1, "lambd": 1e-2, "t0": 2, "alpha": 0.75}),
    ("nadam", "zeros zeros one step", {**MOMENTS, **DECAY, "lr": 0.1, "momentum_decay": 4e-3}),
    ("radam", "zeros zeros step", {**MOMENTS, **DECAY, "lr": 0.1, "decoupled_weight_decay": True}),
    (
        "rmsprop",
        "zeros empty empty step",
        {**DECAY, "lr": 0.1, "alpha": 0.9, "eps": 1e-8, "momentum": 0.0, "centered": False},
    ),
    (
        "rmsprop",
        "zeros zeros zeros step",
        {**DECAY, "lr": 0.1, "alpha": 0.9, "eps": 1e-8, "momentum": 0.9, "centered": True, "maximize": True},
    ),
    ("rprop", "zeros sizes step", {"step_size_min": 1e-6, "step_size_max": 50.0, "etaminus": 0.5, "etaplus": 1.2}),
    (
        "adafactor",
        "rows columns variances step",
        {**DECAY, "lr": 0.1, "d": 1.0, "beta2_decay": -0.8, "eps1": 1e-7, "eps2": 1e-3, "maximize": False},
    ),
]
IDS = [f"{name} {number}" for number, (name, *_) in enumerate(ROWS)]
SHAPES = [(3, 4), (5,), (20, 30)]


def function(library, name):
    module = "_adafactor" if name == "adafactor" else name
    return getattr(importlib.import_module(f"{library.__name__}.optim.{module}"), name)


@pytest.mark.parametrize("name", list(dict.fromkeys(row[0] for row in ROWS)))
def test_signatures(name):
    ours, theirs = (inspect.signature(function(library, name)).parameters.values() for library in (dynograd, torch))
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]


def start(library, kind, shape, options):
    match kind:
        case "none":
            return None
        case "step":
            return library.tensor(0.0)
        case "one":
            return library.tensor(1.0)
        case "lr":
            return library.tensor(options["lr"])
        case "rows" | "columns":
            of = (*shape[:-1], 1) if kind == "rows" else (*shape[:-2], 1, *shape[-1:])
            return None if len(shape) < 2 else library.zeros(of, dtype=library.float64)
        case "variances" if len(shape) > 1:
            return None
    return library.full(shape, 0.1 if kind == "sizes" else 0.0, dtype=library.float64)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_steps_on_lists(row):
    name, kinds, options = row
    random = numpy.random.default_rng(0)
    values = [random.standard_normal(shape) for shape in SHAPES]
    gradients = [[random.standard_normal(shape) for shape in SHAPES] for _ in range(6)]
    sides = []
    for library in (dynograd, torch):
        params = [library.as_tensor(value.copy()) for value in values]
        states = [
            [] if kind == "empty" else [start(library, kind, shape, options) for shape in SHAPES]
            for kind in kinds.split()
        ]
        for step in gradients:
            function(library, name)(
                params, [library.as_tensor(g.copy()) for g in step], *states, foreach=False, **options
            )
        sides.append([x.numpy() for part in (params, *states) for x in part if x is not None])
    for ours, theirs in zip(*sides, strict=True):
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
