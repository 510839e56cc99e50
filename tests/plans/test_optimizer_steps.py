"""Steps of optimizers that are bound to a plan's gradients: whatever is changed between steps, bits are those of the program as it is written."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from dynograd.plans.compiling import Compiled
from dynograd.plans.optimizers.steps import OptimizerStep
from tests.plans.programs import batch, network
from tests.plans.twins import overwritten_between_steps

F, optim = nn.functional, torch.optim
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "AdamW": lambda groups: optim.AdamW(groups, lr=1e-2),
    "Adam": lambda groups: optim.Adam(groups, lr=1e-2, weight_decay=0.1, maximize=True),
    "AMSGrad": lambda groups: optim.AdamW(groups, lr=1e-2, amsgrad=True),
    "SGD": lambda groups: optim.SGD(groups, lr=0.1, weight_decay=0.1),
    "momentum": lambda groups: optim.SGD(groups, lr=0.1, momentum=0.9, dampening=0.2),
    "Nesterov": lambda groups: optim.SGD(groups, lr=0.1, momentum=0.8, nesterov=True),
    "RMSprop": lambda groups: optim.RMSprop(groups, lr=1e-2),
}
BOUND = ("AdamW", "Adam", "AMSGrad", "SGD", "momentum", "Nesterov")


class Training:
    """A model and its optimizer with two groups."""

    def __init__(self, kind: str) -> None:
        torch.manual_seed(0)
        self.model = network(6, 48, 6)
        self.more = nn.Parameter(torch.ones(6))
        first, last = self.model[0], self.model[2]
        self.optimizer = OPTIMIZERS[kind]([{"params": [*first.parameters()]}, {"params": [*last.parameters()]}])
        self.limit = 1e9
        self.schedule: Any = None

    def step(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x) * self.more, y)
        loss.backward()
        if self.limit < 1e8:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.limit)
        self.optimizer.step()
        return loss

    def numbers(self) -> list[Any]:
        state = self.optimizer.state_dict()["state"]
        values = [*self.model.parameters(), self.more, *[value for row in state.values() for value in row.values()]]
        gradients = [parameter.grad for parameter in self.model.parameters()]
        return [value if value is None else numpy.array(value.detach()) for value in (*values, *gradients)]


def first_state(training: Training) -> dict[str, Any]:
    state: dict[str, Any] = training.optimizer.state[training.model[0].weight]
    return state


def option(name: str, value: Any, group: int = 0) -> Callable[[Training], Any]:
    return lambda training: training.optimizer.param_groups[group].__setitem__(name, value)


def of_loaded(training: Training) -> None:
    state = copy.deepcopy(training.optimizer.state_dict())
    for row in state["state"].values():
        for value in row.values():
            value.mul_(2)
    training.optimizer.load_state_dict(state)


def replace_state(training: Training) -> None:
    state = first_state(training)
    for name in list(state):
        state[name] = state[name] * 2


def write_state(training: Training) -> None:
    for value in first_state(training).values():
        value.add_(1)


def step_outside(training: Training) -> None:
    training.optimizer.param_groups[0]["lr"] = 0.5
    training.optimizer.step()
    training.optimizer.param_groups[0]["lr"] = 0.01


def schedule(training: Training) -> None:
    training.schedule = optim.lr_scheduler.ExponentialLR(training.optimizer, 0.5)


def forget_gradients(training: Training) -> None:
    training.model[0].weight.grad = None
    training.optimizer.step()


def add_group(training: Training) -> None:
    training.optimizer.add_param_group({"params": [training.more], "lr": 0.1})


def copied_groups(training: Training) -> None:
    training.optimizer.param_groups = [group | {"lr": 0.5} for group in training.optimizer.param_groups]


def with_hook(training: Training) -> None:
    def before(optimizer: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        training.model[0].bias.data.add_(1)

    training.optimizer.register_step_pre_hook(before)


def with_later_hook(training: Training) -> None:
    def after(optimizer: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        training.model[0].bias.data.add_(1)

    training.optimizer.register_step_post_hook(after)


def other_memory(training: Training) -> None:
    training.model[0].weight.data = training.model[0].weight.data * 0.5


# What changes between steps; whether it changes what an unguarded step would give.
CHANGES: dict[str, tuple[Callable[[Training], Any], bool]] = {
    "nothing": (lambda training: None, False),
    "lr": (option("lr", 0.3), True),
    "lr of one group": (option("lr", 0.3, 1), True),
    "lr as a tensor": (option("lr", torch.tensor(0.3)), True),
    "lr that is not finite": (option("lr", float("nan")), True),
    "weight_decay": (option("weight_decay", 0.4), True),
    "maximize": (lambda training: [group.update(maximize=not group["maximize"]) for group in training.optimizer.param_groups], True),
    "foreach": (option("foreach", True), False),
    "schedule": (schedule, True),
    "loaded": (of_loaded, True),
    "replaced state": (replace_state, True),
    "written state": (write_state, False),
    "forgotten state": (lambda training: training.optimizer.state.clear(), True),
    "a step outside": (step_outside, False),
    "no gradient": (forget_gradients, False),
    "another group": (add_group, False),
    "other groups": (copied_groups, True),
    "a hook": (with_hook, True),
    "a later hook": (with_later_hook, True),
    "memory": (other_memory, False),
    "clipping": (lambda training: setattr(training, "limit", 1e-3), False),
}  # fmt: skip
OWN = {
    "betas": (("AdamW", "Adam", "AMSGrad"), option("betas", (0.5, 0.6))),
    "eps": (("AdamW", "AMSGrad", "RMSprop"), option("eps", 0.1)),
    "other betas of numbers": (("AdamW",), option("betas", [0.5, 0.6])),
    "momentum": (("momentum", "Nesterov"), option("momentum", 0.3)),
    "momentum that ends": (("momentum", "Nesterov"), lambda training: training.optimizer.param_groups[0].update(momentum=0, nesterov=False)),
    "momentum that begins": (("SGD",), option("momentum", 0.9)),
    "dampening": (("momentum",), option("dampening", 0.5)),
    "nesterov": (("Nesterov",), option("nesterov", False)),
}  # fmt: skip
ROWS = [(kind, name, change) for name, (change, _) in CHANGES.items() for kind in OPTIMIZERS]
ROWS += [(kind, name, change) for name, (kinds, change) in OWN.items() for kind in kinds]


def trained(kind: str, change: Any, use: Any) -> tuple[list[Any], Any]:
    """What nine steps give, a change before the last four, which is taken up twice."""
    training = Training(kind)
    step, results = use(training.step), []
    for n in range(9):
        if n in (5, 7):
            change(training)
        loss = step(batch(n, 5, 6), batch(n, 5, classes=6))
        if training.schedule is not None:
            training.schedule.step()
        results.append([numpy.array(loss.detach()), *training.numbers()])
    return results, step


def is_same(results: Any, others: Any) -> bool:
    return [*map(len, results)] == [*map(len, others)] and all(
        [
            (mine is None) is (other is None) and (mine is None or numpy.array_equal(mine, other, equal_nan=True))
            for row, other_row in zip(results, others)
            for mine, other in zip(row, other_row, strict=True)
        ]
    )


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize(("kind", "name", "change"), ROWS)
def test_changes_between_steps(kind: str, name: str, change: Any, replay: bool) -> None:
    if name == "another group":
        change = once(change)
    expected, _ = trained(kind, change, lambda function: function)
    with overwritten_between_steps():
        results, step = trained(
            kind, change, lambda function: Compiled(function, exact=True, always=True, replay=replay)
        )
    assert is_same(expected, results), str(step.report())
    assert step.walked >= 4 and (not replay or step.report().replayed), str(step.report())


def once(change: Any) -> Any:
    times = []

    def changed(training: Any) -> None:
        if id(training) not in times:
            times.append(id(training))
            change(training)

    return changed


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_which_are_bound(kind: str) -> None:
    _, step = trained(kind, lambda training: None, lambda function: Compiled(function, exact=True, always=True))
    (taken,) = step.walk.path.optimizers.values()
    assert (taken.table is not None) == (kind in BOUND)


@pytest.mark.parametrize("name", [name for name, (_, matters) in CHANGES.items() if matters])
def test_what_guards_are_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them each change that an optimizer must see is missed."""
    change = once(CHANGES[name][0])
    expected, _ = trained("AdamW", change, lambda function: function)

    def run(taken: Any) -> bool:
        if taken.table is not None:
            taken.table.run()
        return taken.table is not None

    monkeypatch.setattr(OptimizerStep, "run", run)
    results, _ = trained("AdamW", change, lambda function: Compiled(function, exact=True, always=True))
    assert not is_same(expected, results)


def note_inf(optimizer: Any) -> None:
    optimizer.found_inf = torch.tensor(0.0)


# What makes an optimizer be asked again.
ASKED: dict[str, Callable[[Any], Any]] = {
    "lr": lambda optimizer: optimizer.param_groups[1].update(lr=0.3),
    "a new option": lambda optimizer: optimizer.param_groups[0].update(name="first"),
    "what a scaler has seen": note_inf,
    "a hook": lambda optimizer: optimizer.register_step_pre_hook(print),
    "a later hook": lambda optimizer: optimizer.register_step_post_hook(print),
    "a hook of all": lambda optimizer: register_optimizer_step_pre_hook(print),
    "a later hook of all": lambda optimizer: register_optimizer_step_post_hook(print),
    "other groups": lambda optimizer: setattr(optimizer, "param_groups", [*optimizer.param_groups]),
    "other states": lambda optimizer: setattr(optimizer, "state", copy.copy(optimizer.state)),
    "other plans": lambda optimizer: vars(optimizer).pop("_plans"),
    "plans that begin anew": lambda optimizer: setattr(optimizer._together(), "plans", {}),
    "another plan": lambda optimizer: optimizer._together().plans.update({id(optimizer.param_groups[0]): None}),
}


@pytest.mark.parametrize("name", ASKED)
def test_an_optimizer_is_asked_where_it_has_changed(name: str) -> None:
    training = Training("AdamW")
    step = Compiled(training.step, exact=True, always=True)
    for n in range(6):
        step(batch(n, 5, 6), batch(n, 5, classes=6))
    (taken,) = step.walk.path.optimizers.values()
    assert taken.unchanged.holds()
    handle = ASKED[name](training.optimizer)
    try:
        assert not taken.unchanged.holds()
    finally:
        if hasattr(handle, "remove"):
            handle.remove()
