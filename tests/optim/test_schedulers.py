"""Learning rate schedules against closed forms, their states, combinations and warnings."""

import copy
import math
import pickle
import warnings

import pytest

import dynograd
from dynograd import optim
from dynograd.optim import lr_scheduler as schedules

STEPS = 24


def optimizer_with(*rates, **options):
    groups = [{"params": [dynograd.zeros(1, requires_grad=True)], "lr": lr} for lr in rates]
    return optim.SGD(groups, momentum=0.9, **options)


def rates_of(scheduler, steps=STEPS, group=0):
    result = [scheduler.get_last_lr()[group]]
    for _ in range(steps):
        scheduler.optimizer.step()
        scheduler.step()
        result.append(scheduler.get_last_lr()[group])
        assert scheduler.optimizer.param_groups[group]["lr"] == result[-1]
    return result


def triangle(step, up, down):
    place = step % (up + down)
    return place / up if place <= up else 1 - (place - up) / down


def restarts(step, first, factor):
    length = first
    while step >= length:
        step, length = step - length, length * factor
    return (1 + math.cos(math.pi * step / length)) / 2


def one_cycle(step, total, part, top, start, end, shape):
    rise = part * total - 1
    a, b, done = (start, top, step / rise) if step <= rise else (top, end, (step - rise) / (total - 1 - rise))
    return a + (b - a) * ((1 - math.cos(math.pi * done)) / 2 if shape == "cos" else done)


ROWS = [
    ("LambdaLR", dict(lr_lambda=lambda step: 1 / (1 + step)), lambda t: 1 / (1 + t)),
    ("MultiplicativeLR", dict(lr_lambda=lambda step: 0.9 if step < 5 else 1), lambda t: 0.9 ** min(t, 4)),
    ("StepLR", dict(step_size=5, gamma=0.5), lambda t: 0.5 ** (t // 5)),
    ("MultiStepLR", dict(milestones=[9, 3, 9], gamma=0.5), lambda t: 0.5 ** ((t >= 3) + 2 * (t >= 9))),
    ("ConstantLR", dict(factor=0.25, total_iters=4), lambda t: 0.25 if t < 4 else 1),
    ("LinearLR", dict(start_factor=0.2, end_factor=0.8, total_iters=6), lambda t: 0.2 + 0.6 * min(t, 6) / 6),
    ("ExponentialLR", dict(gamma=0.9), lambda t: 0.9**t),
    ("PolynomialLR", dict(total_iters=7, power=2.0), lambda t: (1 - min(t, 7) / 7) ** 2),
    ("CosineAnnealingLR", dict(T_max=6, eta_min=0.1), lambda t: 0.1 + 0.9 * (1 + math.cos(math.pi * t / 6)) / 2),
    ("CosineAnnealingWarmRestarts", dict(T_0=4), lambda t: restarts(t, 4, 1)),
    ("CosineAnnealingWarmRestarts", dict(T_0=3, T_mult=2, eta_min=0.5), lambda t: 0.5 + 0.5 * restarts(t, 3, 2)),
    ("CyclicLR", dict(base_lr=1.0, max_lr=3.0, step_size_up=3, step_size_down=5), lambda t: 1 + 2 * triangle(t, 3, 5)),
    (
        "CyclicLR",
        dict(base_lr=1.0, max_lr=3.0, step_size_up=4, mode="triangular2"),
        lambda t: 1 + 2 * triangle(t, 4, 4) / 2 ** (t // 8),
    ),
    (
        "CyclicLR",
        dict(base_lr=1.0, max_lr=3.0, step_size_up=4, mode="exp_range", gamma=0.9),
        lambda t: 1 + 2 * triangle(t, 4, 4) * 0.9**t,
    ),
    (
        "CyclicLR",
        dict(base_lr=1.0, max_lr=3.0, step_size_up=4, scale_fn=lambda x: 1 / x, scale_mode="cycle"),
        lambda t: 1 + 2 * triangle(t, 4, 4) / (1 + t // 8),
    ),
    ("OneCycleLR", dict(max_lr=5.0, total_steps=30), lambda t: one_cycle(t, 30, 0.3, 5, 0.2, 0.2e-4, "cos")),
    (
        "OneCycleLR",
        dict(
            max_lr=5.0,
            epochs=5,
            steps_per_epoch=6,
            anneal_strategy="linear",
            pct_start=0.5,
            div_factor=5,
            final_div_factor=10,
        ),
        lambda t: one_cycle(t, 30, 0.5, 5, 1, 0.1, "linear"),
    ),
]


def row_id(row):
    return row[0] + "-" + ",".join(name for name in row[1])


def make(row, optimizer, **more):
    return getattr(schedules, row[0])(optimizer, **row[1], **more)


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_closed_form(row):
    assert rates_of(make(row, optimizer_with(1.0))) == pytest.approx([row[2](t) for t in range(STEPS + 1)], abs=1e-12)


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] not in ("CyclicLR", "OneCycleLR")], ids=row_id)
def test_groups_keep_their_own_rates(row):
    scheduler = make(row, optimizer_with(1.0, 1.0, weight_decay=0))
    for group, lr in zip(scheduler.optimizer.param_groups, (1.0, 1.0)):
        assert group["initial_lr"] == lr
    if "eta_min" not in row[1]:
        assert rates_of(make(row, optimizer_with(1.0, 4.0)), group=1) == pytest.approx(
            [4 * row[2](t) for t in range(STEPS + 1)]
        )


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_a_tensor_rate_is_written_in_place(row):
    lr = dynograd.tensor(1.0, dtype=dynograd.float64)
    optimizer = optimizer_with(lr)
    scheduler = make(row, optimizer)
    for t in range(1, 12):
        optimizer.step()
        scheduler.step()
        assert optimizer.param_groups[0]["lr"] is lr
        assert lr.item() == pytest.approx(row[2](t))


@pytest.mark.parametrize(
    "row, way",
    [(row, "state_dict") for row in ROWS]
    + [(row, "pickle") for row in ROWS if not any(callable(value) for value in row[1].values())],
    ids=lambda part: part if isinstance(part, str) else row_id(part),
)
def test_going_on_from_a_saved_state(row, way):
    optimizer = optimizer_with(1.0)
    scheduler = make(row, optimizer)
    rates_of(scheduler, 7)
    if way == "pickle":
        other = pickle.loads(pickle.dumps(scheduler))
    else:
        again = optimizer_with(1.0)
        other = make(row, again)
        other.load_state_dict(pickle.loads(pickle.dumps(scheduler.state_dict())))
        again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert "optimizer" not in scheduler.state_dict()
    assert rates_of(other, 8) == rates_of(scheduler, 8)
    assert other.optimizer.param_groups[0]["momentum"] == optimizer.param_groups[0]["momentum"]


# CosineAnnealingWarmRestarts and the cycles need their state_dict.
RESUMABLE = (
    "MultiplicativeLR",
    "StepLR",
    "MultiStepLR",
    "LinearLR",
    "ExponentialLR",
    "PolynomialLR",
    "CosineAnnealingLR",
)


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] in RESUMABLE], ids=row_id)
def test_resuming_by_last_epoch(row):
    optimizer = optimizer_with(1.0)
    scheduler = make(row, optimizer)
    expected = rates_of(scheduler, 10)
    again = optimizer_with(1.0)
    again.param_groups[0].update(lr=expected[4], initial_lr=1.0)
    resumed = make(row, again, last_epoch=3)
    assert resumed.last_epoch == 4
    assert rates_of(resumed, 6) == pytest.approx(expected[4:], abs=1e-12)


@pytest.mark.parametrize("epoch", [1, 5, 11])
@pytest.mark.parametrize(
    "row", [row for row in ROWS if hasattr(getattr(schedules, row[0]), "_get_closed_form_lr")], ids=row_id
)
def test_going_to_an_epoch_warns_and_uses_the_closed_form(row, epoch):
    scheduler = make(row, optimizer_with(1.0))
    scheduler.optimizer.step()
    with pytest.warns(UserWarning, match="epoch parameter"):
        scheduler.step(epoch)
    assert scheduler.get_last_lr() == pytest.approx([row[2](epoch)])


def test_chainable_schedules_multiply():
    optimizer = optimizer_with(1.0)
    chained = schedules.ChainedScheduler(
        [schedules.ConstantLR(optimizer, 0.1, total_iters=2), schedules.ExponentialLR(optimizer, 0.9)], optimizer
    )
    assert rates_of(chained, 5) == pytest.approx([(0.1 if t < 2 else 1) * 0.9**t for t in range(6)])
    assert chained.get_last_lr() == [optimizer.param_groups[0]["lr"]]


def sequence(optimizer):
    return schedules.SequentialLR(
        optimizer,
        [
            schedules.LinearLR(optimizer, 0.2, total_iters=4),
            schedules.CosineAnnealingLR(optimizer, T_max=8),
            schedules.StepLR(optimizer, 2, 0.5),
        ],
        milestones=[4, 10],
    )


def test_sequence():
    def wanted(t):
        if t < 4:
            return 0.2 + 0.8 * t / 4
        return (1 + math.cos(math.pi * (t - 4) / 8)) / 2 if t < 10 else 0.5 ** ((t - 10) // 2)

    assert rates_of(sequence(optimizer_with(1.0)), 16) == pytest.approx([wanted(t) for t in range(17)])


@pytest.mark.parametrize("steps", [2, 4, 12])
def test_a_sequence_goes_on_from_its_saved_state(steps):
    optimizer, again = optimizer_with(1.0), optimizer_with(1.0)
    scheduler, other = sequence(optimizer), sequence(again)
    rates_of(scheduler, steps)
    saved = copy.deepcopy(scheduler.state_dict())
    keys = set(saved)
    other.load_state_dict(saved)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert set(saved) == keys and saved["_schedulers"][0]["start_factor"] == 0.2
    assert rates_of(other, 6) == rates_of(scheduler, 6)


def test_sequence_of_one():
    optimizer = optimizer_with(1.0)
    scheduler = schedules.SequentialLR(optimizer, [schedules.ExponentialLR(optimizer, 0.5)], milestones=[])
    assert rates_of(scheduler, 3) == [1.0, 0.5, 0.25, 0.125]


@pytest.mark.parametrize("inner", ["sequence", "chain"])
@pytest.mark.parametrize("first", [False, True])
def test_combinations_in_a_sequence(inner, first):
    """A part that is itself made of parts runs as it would alone, at the beginning and later."""

    def part(optimizer):
        if inner == "sequence":
            return sequence(optimizer)
        return schedules.ChainedScheduler(
            [schedules.ConstantLR(optimizer, 0.5, total_iters=3), schedules.ExponentialLR(optimizer, 0.9)]
        )

    alone = rates_of(part(optimizer_with(1.0)), 12)
    optimizer = optimizer_with(1.0)
    constant = schedules.ConstantLR(optimizer, 0.5, total_iters=100)
    parts = [part(optimizer), constant] if first else [constant, part(optimizer)]
    scheduler = schedules.SequentialLR(optimizer, parts, milestones=[6])
    expected = [*alone[:6], *[0.5] * 7] if first else [*[0.5] * 6, *alone[:7]]
    assert rates_of(scheduler, 12) == pytest.approx(expected)


# --- plateaus ----------------------------------------------------------------------------------------------------------------

PLATEAUS = [
    ("min rel", dict(patience=1, factor=0.5), [5, 4, 4, 4, 4, 4, 1, 1], [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25]),
    ("max rel", dict(mode="max", patience=0, factor=0.5, threshold=0.1), [1, 1.05, 1.2, 1.2], [1, 0.5, 0.5, 0.25]),
    ("min abs", dict(threshold_mode="abs", threshold=1, patience=0, factor=0.5), [5, 4.5, 3.9], [1, 0.5, 0.5]),
    (
        "max abs",
        dict(mode="max", threshold_mode="abs", threshold=1, patience=0, factor=0.5),
        [0, 0.5, 2],
        [1, 0.5, 0.5],
    ),
    ("cooldown", dict(patience=0, factor=0.5, cooldown=2), [1, 1, 1, 1, 1, 1], [1, 0.5, 0.5, 0.5, 0.25, 0.25]),
    ("min_lr", dict(patience=0, factor=0.5, min_lr=0.4), [1, 1, 1, 1], [1, 0.5, 0.4, 0.4]),
    ("eps", dict(patience=0, factor=0.5, eps=0.3), [1, 1, 1, 1], [1, 0.5, 0.5, 0.5]),
]


@pytest.mark.parametrize("name, options, losses, wanted", PLATEAUS, ids=[row[0] for row in PLATEAUS])
def test_plateau(name, options, losses, wanted):
    scheduler = schedules.ReduceLROnPlateau(optimizer_with(1.0), **options)
    result = []
    for loss in losses:
        scheduler.step(dynograd.tensor(float(loss)))
        result += scheduler.get_last_lr()
    assert result == pytest.approx(wanted)


def test_a_program_may_reduce_the_rate_itself():
    optimizer = optim.SGD([dynograd.zeros(1)], lr=1.0)
    scheduler, epochs = schedules.ReduceLROnPlateau(optimizer, patience=0), []
    scheduler._reduce_lr = epochs.append
    for loss in (1.0, 2.0, 3.0):
        scheduler.step(loss)
    assert epochs == [2, 3] and optimizer.param_groups[0]["lr"] == 1.0


def test_plateau_state_and_groups():
    optimizer = optimizer_with(1.0, 2.0)
    scheduler = schedules.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, min_lr=[0.1, 1.5])
    other = schedules.ReduceLROnPlateau(optimizer_with(1.0, 2.0), mode="max")
    scheduler.step(1.0)
    other.load_state_dict(scheduler.state_dict())
    for element in (scheduler, other):
        element.step(1.0)
        assert element.get_last_lr() == [0.5, 1.5]
    optimizer.add_param_group({"params": [dynograd.zeros(1, requires_grad=True)], "lr": 1.0})
    with pytest.raises(RuntimeError, match=r"number of param groups in the `optimizer` \(3\) differs.*\(2\).*min_lrs"):
        scheduler.step(1.0)
    one_for_all = schedules.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, min_lr=0.3)
    optimizer.add_param_group({"params": [dynograd.zeros(1, requires_grad=True)], "lr": 1.0})
    one_for_all.step(1.0)
    one_for_all.step(1.0)
    assert one_for_all.get_last_lr() == [0.3, 0.75, 0.5, 0.5]


# --- momentum ----------------------------------------------------------------------------------------------------------------


def momentum_of(optimizer):
    group = optimizer.param_groups[0]
    return group["betas"][0] if "betas" in group else group["momentum"]


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam])
def test_cycles_move_momentum(kind):
    optimizer = kind([dynograd.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = schedules.CyclicLR(optimizer, 1.0, 2.0, step_size_up=4, base_momentum=0.5, max_momentum=0.9)
    result = [momentum_of(optimizer)]
    for _ in range(8):
        optimizer.step()
        scheduler.step()
        result.append(momentum_of(optimizer))
    assert result == pytest.approx([0.9 - 0.4 * triangle(t, 4, 4) for t in range(9)])
    optimizer = kind([dynograd.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = schedules.OneCycleLR(optimizer, 1.0, total_steps=11, pct_start=0.5, three_phase=True)
    result = []
    for _ in range(10):
        result.append(momentum_of(optimizer))
        optimizer.step()
        scheduler.step()
    assert result[0] == 0.95 and min(result) == pytest.approx(0.85, abs=0.01) and result[-1] == pytest.approx(0.95)
    assert scheduler.get_last_lr() == pytest.approx([1 / 25e4])
    without = schedules.OneCycleLR(
        kind([dynograd.zeros(1, requires_grad=True)]), 1.0, total_steps=5, cycle_momentum=False
    )
    assert "max_momentum" not in without.optimizer.param_groups[0]


# --- callables and warnings ------------------------------------------------------------------------------------------


class Decay:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, step):
        return self.factor**step


@pytest.mark.parametrize("name", ["LambdaLR", "MultiplicativeLR"])
def test_callable_objects_are_saved(name):
    kind = getattr(schedules, name)
    scheduler = kind(optimizer_with(1.0, 2.0), [Decay(0.5), lambda step: 1.0])
    other = kind(optimizer_with(1.0, 2.0), [Decay(0.1), lambda step: 0.5])
    saved = scheduler.state_dict()
    assert saved["lr_lambdas"] == [{"factor": 0.5}, None]
    other.load_state_dict(saved)
    assert other.lr_lambdas[0].factor == 0.5 and saved["lr_lambdas"] == [{"factor": 0.5}, None]


def test_scale_functions_are_saved():
    rows = dict(base_lr=1.0, max_lr=2.0)
    scheduler = schedules.CyclicLR(optimizer_with(1.0), **rows, scale_fn=Decay(0.5))
    other = schedules.CyclicLR(optimizer_with(1.0), **rows, scale_fn=Decay(0.1))
    other.load_state_dict(scheduler.state_dict())
    assert other.scale_fn(2) == 0.25


def test_the_wrong_order_of_steps_warns():
    scheduler = schedules.StepLR(optimizer_with(1.0), 3)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()
        right = schedules.StepLR(optimizer_with(1.0), 3)
        right.optimizer.step()
        right.step()
        patched = optimizer_with(1.0)
        patched.step = lambda: None
        schedules.StepLR(patched, 3).step()


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_get_lr_points_to_get_last_lr(row):
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        make(row, optimizer_with(1.0)).get_lr()


def test_subclass():
    class Own(schedules._LRScheduler):
        def get_lr(self):
            return [lr / (1 + self.last_epoch) for lr in self.base_lrs]

    assert rates_of(Own(optimizer_with(1.0)), 3) == [1, 1 / 2, 1 / 3, 1 / 4]
    with pytest.raises(NotImplementedError, match="LRScheduler: a schedule needs get_lr"):
        schedules.LRScheduler(optimizer_with(1.0))


def test_cyclic_begins_at_its_base_and_goes_on_where_it_was():
    optimizer = optimizer_with(5.0)
    schedules.CyclicLR(optimizer, 1.0, 3.0, step_size_up=4, cycle_momentum=False)
    (group,) = optimizer.param_groups
    assert (group["lr"], group["initial_lr"]) == (1.0, 1.0)
    resumed = optimizer_with(2.0)
    resumed.param_groups[0]["initial_lr"] = 7.0
    schedules.CyclicLR(resumed, 1.0, 3.0, step_size_up=4, cycle_momentum=False, last_epoch=1)
    assert resumed.param_groups[0]["initial_lr"] == 7.0
