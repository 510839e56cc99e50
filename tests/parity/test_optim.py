"""Optimizers, schedules and clipping step by step beside PyTorch's, and states that go from one to the other."""

import itertools
import warnings

import numpy as np
import pytest
import torch

import dynograd
from tests.parity.optimizer_states import as_numpy, as_tensors, assert_same, row_id

SHAPES = [(3,), (), (5, 4), (50, 60), (7,), (2, 3, 2)]
STEPS = 6
SGD_GRID = [
    dict(lr=0.1, momentum=momentum, dampening=dampening, nesterov=nesterov, weight_decay=decay, maximize=maximize)
    for (momentum, dampening, nesterov), decay, maximize in itertools.product(
        [(0, 0, False), (0.9, 0, False), (0.9, 0.3, False), (0.9, 0, True)], [0, 0.1], [False, True]
    )
]
ADAM_GRID = [
    dict(lr=0.1, amsgrad=amsgrad, weight_decay=decay, maximize=maximize, betas=betas)
    for amsgrad, decay, maximize, betas in itertools.product(
        [False, True], [0, 0.2], [False, True], [(0.9, 0.999), (0.5, 0.8)]
    )
]
ROWS = [("SGD", options) for options in SGD_GRID] + [
    (name, options) for name in ("Adam", "AdamW") for options in ADAM_GRID
]
TOLERANCES = {"float64": 1e-12, "float32": 2e-5}


class Pair:
    """The same parameters, optimizers and gradients on both sides."""

    def __init__(self, name, options, dtype="float64", shapes=SHAPES):
        random = np.random.default_rng(0)
        self.values = [random.normal(size=shape) for shape in shapes]
        self.gradients = [[random.normal(size=shape) for _ in range(STEPS)] for shape in shapes]
        self.gradients[-1][2] = None
        self.libraries = (dynograd, torch)
        self.parameters = [
            [lib.tensor(value, dtype=getattr(lib, dtype), requires_grad=True) for value in self.values]
            for lib in self.libraries
        ]
        self.optimizers = [
            getattr(lib.optim, name)(parameters, **options) for lib, parameters in zip(self.libraries, self.parameters)
        ]

    def step(self, number):
        for lib, parameters, optimizer in zip(self.libraries, self.parameters, self.optimizers):
            for p, mine in zip(parameters, self.gradients):
                p.grad = None if mine[number] is None else lib.tensor(mine[number], dtype=p.dtype)
            optimizer.step()

    def check(self, tolerance):
        for element, other in zip(*self.parameters):
            np.testing.assert_allclose(element.detach().numpy(), other.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_steps_and_states(row, dtype):
    pair = Pair(*row, dtype)
    for number in range(STEPS):
        pair.step(number)
        pair.check(TOLERANCES[dtype])
    ours, theirs = (as_numpy(optimizer.state_dict()) for optimizer in pair.optimizers)
    if row[0] == "SGD" and not row[1]["momentum"]:
        ours["state"] = {}
    ours["state"], theirs["state"] = dict(sorted(ours["state"].items())), dict(sorted(theirs["state"].items()))
    assert_same(ours, theirs, TOLERANCES[dtype])


@pytest.mark.parametrize("row", [ROWS[4], ROWS[10], ROWS[20], ROWS[-1]], ids=row_id)
def test_states_go_both_ways(row):
    """Three steps, then each goes on from the other's state."""
    pair = Pair(*row)
    for number in range(3):
        pair.step(number)
    saved = [as_numpy(optimizer.state_dict()) for optimizer in pair.optimizers]
    fresh = [
        getattr(lib.optim, row[0])(parameters, lr=123.0) for lib, parameters in zip(pair.libraries, pair.parameters)
    ]
    for optimizer, lib, state in zip(fresh, pair.libraries, reversed(saved)):
        optimizer.load_state_dict(as_tensors(state, lib))
    pair.optimizers = fresh
    for number in range(3, STEPS):
        pair.step(number)
        pair.check(1e-12)


@pytest.mark.parametrize("name, options", [("SGD", dict(lr=0.1, momentum=0.9)), ("Adam", {}), ("AdamW", {})])
def test_complex_parameters(name, options):
    random = np.random.default_rng(0)
    values = random.normal(size=(4, 3, 2)).view(np.complex128)[..., 0]
    result = []
    for lib in (dynograd, torch):
        p = lib.tensor(values[0], requires_grad=True)
        optimizer = getattr(lib.optim, name)([p], **options)
        for gradient in values[1:]:
            p.grad = lib.tensor(gradient)
            optimizer.step()
        result.append(p.detach().numpy())
    np.testing.assert_allclose(*result, rtol=1e-12)


@pytest.mark.parametrize("row", [ROWS[14], ROWS[20], ROWS[-1]], ids=row_id)
def test_repr_and_groups(row):
    ours, theirs = Pair(*row).optimizers
    assert repr(ours) == repr(theirs)
    assert list(ours.defaults) == list(theirs.defaults)
    assert list(ours.param_groups[0]) == list(theirs.param_groups[0])


# --- schedules ---------------------------------------------------------------------------------------------------------------

SCHEDULES = [
    ("LambdaLR", dict(lr_lambda=lambda step: 1 / (1 + step))),
    ("MultiplicativeLR", dict(lr_lambda=lambda step: 0.95)),
    ("StepLR", dict(step_size=5, gamma=0.5)),
    ("MultiStepLR", dict(milestones=[9, 3, 9], gamma=0.5)),
    ("ConstantLR", dict(factor=0.25, total_iters=4)),
    ("LinearLR", dict(start_factor=0.2, end_factor=0.8, total_iters=6)),
    ("ExponentialLR", dict(gamma=0.9)),
    ("PolynomialLR", dict(total_iters=7, power=2.0)),
    ("CosineAnnealingLR", dict(T_max=6, eta_min=0.1)),
    ("CosineAnnealingWarmRestarts", dict(T_0=4)),
    ("CosineAnnealingWarmRestarts", dict(T_0=3, T_mult=2, eta_min=0.5)),
    ("CyclicLR", dict(base_lr=1.0, max_lr=3.0, step_size_up=3, step_size_down=5)),
    ("CyclicLR", dict(base_lr=1.0, max_lr=3.0, step_size_up=4, mode="triangular2", cycle_momentum=False)),
    ("CyclicLR", dict(base_lr=1.0, max_lr=3.0, step_size_up=4, mode="exp_range", gamma=0.9)),
    ("OneCycleLR", dict(max_lr=5.0, total_steps=51)),
    ("CyclicLR", dict(base_lr=0.5, max_lr=2.0, step_size_up=7, scale_fn=lambda x: 0.9**x, scale_mode="iterations")),
    ("MultiStepLR", dict(milestones=[30, 40])),
    (
        "OneCycleLR",
        dict(max_lr=5.0, total_steps=51, pct_start=0.6, base_momentum=0.5, div_factor=4.0, final_div_factor=9.0),
    ),
    ("OneCycleLR", dict(max_lr=5.0, epochs=6, steps_per_epoch=9, anneal_strategy="linear", three_phase=True)),
]


def scheduled(name, options, kind="SGD", rates=(1.0, 2.0)):
    """(optimizer, schedule) of both libraries."""
    created = []
    for lib in (dynograd, torch):
        groups = [{"params": [lib.zeros(1, requires_grad=True)], "lr": lr} for lr in rates]
        optimizer = getattr(lib.optim, kind)(groups)
        created.append((optimizer, getattr(lib.optim.lr_scheduler, name)(optimizer, **options)))
    return created


def groups_of(optimizer):
    return [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name, options", SCHEDULES, ids=[f"{row[0]}-{number}" for number, row in enumerate(SCHEDULES)])
def test_schedules(name, options, kind):
    both = scheduled(name, options, kind)
    for _ in range(50):
        for optimizer, schedule in both:
            optimizer.step()
            schedule.step()
        assert_same(groups_of(both[0][0]), groups_of(both[1][0]), 0)
        assert both[0][1].get_last_lr() == pytest.approx(both[1][1].get_last_lr(), rel=1e-13)
    saved = [schedule.state_dict() for _, schedule in both]
    assert_same(*[dict(sorted(state.items())) for state in saved], 0)


@pytest.mark.parametrize("name, options", SCHEDULES, ids=[f"{row[0]}-{number}" for number, row in enumerate(SCHEDULES)])
def test_schedule_states_go_both_ways(name, options):
    both, fresh = scheduled(name, options), scheduled(name, options)
    for _ in range(7):
        for optimizer, schedule in both:
            optimizer.step()
            schedule.step()
    for (optimizer, schedule), (from_optimizer, from_schedule) in zip(fresh, reversed(both)):
        schedule.load_state_dict(dict(from_schedule.state_dict()))
        for group, other in zip(optimizer.param_groups, from_optimizer.param_groups):
            group.update({key: value for key, value in other.items() if key != "params"})
    for _ in range(7):
        for optimizer, schedule in fresh:
            optimizer.step()
            schedule.step()
        assert_same(groups_of(fresh[0][0]), groups_of(fresh[1][0]), 0)


@pytest.mark.parametrize("epochs", [[0.0, 0.3, 1.7, 2.0, 5.5, 9.25, 20.0, 3.0]])
@pytest.mark.parametrize("options", [dict(T_0=2), dict(T_0=2, T_mult=3)])
def test_warm_restarts_at_fractions(options, epochs):
    both = scheduled("CosineAnnealingWarmRestarts", options)
    for epoch in epochs:
        for _, schedule in both:
            schedule.step(epoch)
        assert both[0][1].get_last_lr() == pytest.approx(both[1][1].get_last_lr(), rel=1e-12)


@pytest.mark.parametrize("name, options", SCHEDULES[:9], ids=[row[0] for row in SCHEDULES[:9]])
@pytest.mark.parametrize("last_epoch", [3, 4])
def test_resuming_by_last_epoch(name, options, last_epoch):
    result = []
    for lib in (dynograd, torch):
        optimizer = lib.optim.SGD([lib.zeros(1, requires_grad=True)], lr=0.7)
        optimizer.param_groups[0]["initial_lr"] = 1.0
        schedule = getattr(lib.optim.lr_scheduler, name)(optimizer, **options, last_epoch=last_epoch)
        rates = schedule.get_last_lr()[:]
        for _ in range(6):
            optimizer.step()
            schedule.step()
            rates += schedule.get_last_lr()
        result.append(rates)
    assert result[0] == pytest.approx(result[1], rel=1e-13)


@pytest.mark.parametrize(
    "options",
    [
        dict(patience=1, factor=0.5),
        dict(mode="max", patience=0, threshold_mode="abs", threshold=0.5),
        dict(patience=0, cooldown=2, min_lr=[0.1, 0.3]),
        dict(mode="max", factor=0.2, patience=3, threshold=0.01, eps=1e-3),
    ],
)
def test_plateaus(options):
    both = scheduled("ReduceLROnPlateau", options)
    for loss in np.random.default_rng(0).normal(size=50):
        for _, schedule in both:
            schedule.step(loss)
        assert both[0][1].get_last_lr() == both[1][1].get_last_lr()
    assert both[0][1].state_dict() == both[1][1].state_dict()


@pytest.mark.parametrize("name", ["SequentialLR", "ChainedScheduler"])
def test_combinations(name):
    both = []
    for lib in (dynograd, torch):
        schedules = lib.optim.lr_scheduler
        optimizer = lib.optim.SGD([lib.zeros(1, requires_grad=True)], lr=1.0)
        parts = [
            schedules.LinearLR(optimizer, 0.2, total_iters=4),
            schedules.CosineAnnealingLR(optimizer, T_max=8),
            schedules.StepLR(optimizer, 2, 0.5),
        ]
        more = dict(milestones=[4, 10]) if name == "SequentialLR" else {}
        both.append((optimizer, getattr(schedules, name)(optimizer=optimizer, schedulers=parts, **more)))
    for _ in range(20):
        for optimizer, schedule in both:
            optimizer.step()
            schedule.step()
        assert both[0][1].get_last_lr() == pytest.approx(both[1][1].get_last_lr(), rel=1e-13)
    ours, theirs = (schedule.state_dict() for _, schedule in both)
    assert set(ours) - {"last_epoch"} == set(theirs) - {"last_epoch"}
    assert_same(
        ours["_schedulers"],
        [{key: element[key] for key in mine} for element, mine in zip(theirs["_schedulers"], ours["_schedulers"])],
        0,
    )


# --- clipping ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype, tolerance", [("float64", 1e-12), ("float32", 1e-5), ("float16", 5e-3), ("bfloat16", 3e-2)]
)
@pytest.mark.parametrize("norm_type", [2, 1, 0, 3.5, float("inf"), -1, float("-inf")])
@pytest.mark.parametrize("max_norm", [0.5, 1e4])
def test_clip_grad_norm(max_norm, norm_type, dtype, tolerance):
    random = np.random.default_rng(0)
    values = [random.normal(size=shape) for shape in SHAPES]
    results = []
    for lib in (dynograd, torch):
        parameters = [lib.zeros(value.shape, dtype=getattr(lib, dtype), requires_grad=True) for value in values]
        for p, value in zip(parameters, values):
            p.grad = lib.tensor(value).to(p.dtype)
        norm = lib.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)
        assert norm.dtype == getattr(lib, dtype)
        results.append([norm.double().numpy()] + [p.grad.double().numpy() for p in parameters])
    for element, other in zip(*results):
        np.testing.assert_allclose(element, other, rtol=tolerance, atol=tolerance)


def test_clip_grad_value_and_non_finite_norms():
    for value in ([3.0, -2.0, 0.1], [np.inf, 1.0, -1.0], [np.nan, 1.0, 5.0]):
        results = []
        for lib in (dynograd, torch):
            p = lib.zeros(3, requires_grad=True)
            p.grad = lib.tensor(value)
            lib.nn.utils.clip_grad_value_([p], 0.5)
            first = p.grad.numpy().copy()
            p.grad = lib.tensor(value)
            norm = lib.nn.utils.clip_grad_norm_([p], 0.5)
            results.append([first, norm.numpy(), p.grad.numpy()])
            if not np.isfinite(value).all():
                with pytest.raises(RuntimeError, match="non-finite"):
                    lib.nn.utils.clip_grad_norm_([p], 0.5, error_if_nonfinite=True)
        for element, other in zip(*results):
            np.testing.assert_allclose(element, other, rtol=1e-6)


# --- differentiable ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, options",
    [
        ("SGD", dict(lr=0.1, weight_decay=0.1)),
        ("Adam", dict(lr=0.1, weight_decay=0.1)),
        ("Adam", dict(lr=0.1, amsgrad=True, maximize=True)),
        ("AdamW", dict(lr=0.1)),
    ],
)
def test_gradients_through_the_step(name, options):
    results = []
    for lib in (dynograd, torch):
        start = lib.tensor([1.0, -2.0, 0.5], dtype=lib.float64, requires_grad=True)
        scale = lib.tensor([0.5, 2.0, -0.4], dtype=lib.float64, requires_grad=True)
        p = start.clone()
        optimizer = getattr(lib.optim, name)([p], differentiable=True, **options)
        p.grad = scale + scale * scale
        optimizer.step()
        (p**2).sum().backward()
        results.append([p.detach().numpy(), start.grad.numpy(), scale.grad.numpy()])
    for element, other in zip(*results):  # PyTorch keeps Adam's bias corrections in float32 here
        np.testing.assert_allclose(element, other, rtol=1e-5 if name != "SGD" else 1e-12, atol=1e-7)


# --- errors ------------------------------------------------------------------------------------------------------------------


def leaf(lib):
    return lib.ones(2, requires_grad=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda lib: lib.optim.SGD([]),
        lambda lib: lib.optim.SGD(leaf(lib)),
        lambda lib: lib.optim.SGD([3]),
        lambda lib: lib.optim.SGD([leaf(lib) * 2]),
        lambda lib: lib.optim.SGD([leaf(lib)], lr=-1),
        lambda lib: lib.optim.SGD([leaf(lib)], nesterov=True),
        lambda lib: lib.optim.SGD([leaf(lib)], fused=True, foreach=True),
        lambda lib: lib.optim.Adam([leaf(lib)], betas=(1.0, 0.9)),
        lambda lib: lib.optim.Adam([leaf(lib)], eps=-1),
        lambda lib: lib.optim.SGD([leaf(lib)]).add_param_group(3),
        lambda lib: lib.optim.SGD([{"params": {leaf(lib)}}]),
        lambda lib: lib.optim.SGD([("a", leaf(lib)), leaf(lib)]),
        lambda lib: lib.optim.SGD([leaf(lib)]).load_state_dict({"state": {}, "param_groups": []}),
        lambda lib: lib.optim.lr_scheduler.StepLR(None, 1),
        lambda lib: lib.optim.lr_scheduler.StepLR(lib.optim.SGD([leaf(lib)]), 1, last_epoch=3),
        lambda lib: lib.optim.lr_scheduler.OneCycleLR(lib.optim.SGD([leaf(lib)]), 1.0),
        lambda lib: lib.optim.lr_scheduler.LinearLR(lib.optim.SGD([leaf(lib)]), 2.0),
    ],
)
def test_errors_are_of_the_same_type(make):
    with pytest.raises(Exception) as theirs:
        make(torch)
    with pytest.raises(theirs.type):
        make(dynograd)


def test_shared_warnings():
    for lib in (dynograd, torch):
        w = leaf(lib)
        with pytest.warns(UserWarning, match="duplicate parameters"):
            lib.optim.SGD([w, w])
        schedule = lib.optim.lr_scheduler.StepLR(lib.optim.SGD([w]), 1)
        with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
            schedule.step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schedule.step()
