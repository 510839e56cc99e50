"""The step of an optimizer in the graph that computes its gradients: parameters and states are those of eager steps, whatever changes between."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dynograd as torch
from dynograd import nn
from dynograd.cuda import driver
from dynograd.kernels.optim.bound_steps_cuda import BoundStep
from dynograd.nn import functional as F
from dynograd.plans.compiling import Compiled
from dynograd.plans.gpu.endings import BoundClipping, BoundEnding
from tests.gpu.compiled_twins import batch, check_same, compiling, mlp, plain, run_twins

OPTIMIZERS: dict[str, Callable[[nn.Module], Any]] = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1),
    "nesterov": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "dampened": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.3),
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.1),
    "amsgrad": lambda model: torch.optim.Adam(model.parameters(), lr=0.1, amsgrad=True, fused=True),
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=0.1),
    "fused": lambda model: torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.1), betas=(0.0, 0.9), fused=True),
    "groups": lambda model: torch.optim.AdamW(
        [
            {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.3},
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0, "lr": 0.02},
        ],
        lr=0.1,
    ),
}


def _scheduled(n: int, model: Any, optimizer: Any) -> None:
    for group in optimizer.param_groups:
        group["lr"] = 0.2 / (n + 1)
        group["weight_decay"] = 0.1 * n
        if "betas" in group:
            group["betas"] = 0.9 - 0.05 * n, 0.99 - 0.01 * n


def _forget(p: Any) -> None:
    p.grad.zero_()


def _with_hook(n: int, model: Any, optimizer: Any) -> None:
    if n == 3:
        optimizer.handle = optimizer.register_step_pre_hook(lambda own, args, kwargs: _forget(model[0].bias))
    elif n == 4:
        optimizer.handle.remove()


def _reloaded(n: int, model: Any, optimizer: Any) -> None:
    if n == 3:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def _frozen(n: int, model: Any, optimizer: Any) -> None:
    if n == 3:
        optimizer.param_groups[0]["momentum"] = 0.0


def _replaced(n: int, model: Any, optimizer: Any) -> None:
    if n == 3:
        model[0].weight.data = model[0].weight.data * 2


def _stepped_outside(n: int, model: Any, optimizer: Any) -> None:
    if n == 3:
        optimizer.step()


# The optimizer, what is done after each step, and which of steps 2 to 6 graphs take.
ROWS: dict[str, tuple[str, Any, int]] = {
    **{name: (name, None, 5) for name in OPTIMIZERS},
    **{f"{name}_scheduled": (name, _scheduled, 5) for name in ("dampened", "adam", "fused", "groups")},
    "with_hook": ("adamw", _with_hook, 4),
    "state_loaded": ("adam", _reloaded, 2),
    "without_momentum": ("dampened", _frozen, 2),
    "data_replaced": ("adamw", _replaced, 4),  # the step that finds it out runs anew, and the next is another way
    "stepped_outside": ("fused", _stepped_outside, 5),
}


@pytest.fixture
def in_graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Steps that graphs have taken."""
    steps: list[Any] = []
    stamp = BoundEnding.stamp
    monkeypatch.setattr(BoundEnding, "stamp", lambda self: (steps.append(self), stamp(self))[1])
    yield steps


def trained(optimizer_of: Any, change: Any, *more: nn.Module) -> Callable[[Any], Any]:
    def make(compile: Any) -> Any:
        model = mlp(*more)
        optimizer = optimizer_of(model)

        @compile
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach(), model[0].bias.detach() * 2

        def run(n: int) -> Any:
            result = step(batch(n, 4, 6), batch(n, 4, classes=3))
            if change is not None:
                change(n, model, optimizer)
            return result

        return run, lambda: [
            *model.parameters(),
            *[p.grad for p in model.parameters()],
            [[*state.values()] for state in optimizer.state.values()],
        ]

    return make


@pytest.mark.parametrize("name", ROWS)
def test_steps_are_those_of_eager_mode(name: str, in_graphs: list[Any]) -> None:
    optimizer, change, count = ROWS[name]
    report = run_twins(trained(OPTIMIZERS[optimizer], change), name)
    assert len(in_graphs) == count, str(report)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["dampened", "fused"])
def test_parameters_of_other_dtypes(name: str, dtype: Any, in_graphs: list[Any]) -> None:
    def make(compile: Any) -> Any:
        model = nn.Linear(6, 5).to("cuda", dtype)
        optimizer = OPTIMIZERS[name](model)

        @compile
        def step(x: Any) -> None:
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

        return lambda n: step(batch(n, 4, 6).to(dtype)), lambda: [p.detach().float() for p in model.parameters()]

    run_twins(make, name)
    assert len(in_graphs) == 5


def test_two_optimizers_in_a_step(in_graphs: list[Any]) -> None:
    """What the second one's gradients are computed of, the first one has written."""

    def make(compile: Any) -> Any:
        one, other = nn.Linear(6, 4).to("cuda"), nn.Linear(4, 6).to("cuda")
        first = torch.optim.AdamW(one.parameters(), lr=0.1)
        second = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)

        @compile
        def step(x: Any) -> Any:
            first.zero_grad()
            second.zero_grad()
            other(one(x)).square().mean().backward()
            first.step()
            first.zero_grad()
            second.zero_grad()
            loss = (other(one(x)) - x).square().mean()
            loss.backward()
            second.step()
            return loss.detach()

        return lambda n: step(batch(n, 4, 6)), lambda: [*one.parameters(), *other.parameters()]

    report = run_twins(make, "two optimizers")
    assert len(in_graphs) == 10 and report.ways[0].launches == 2, str(report)


@pytest.mark.skipif(not driver.is_emulated(), reason="counts graphs of the emulated device")
def test_another_learning_rate_needs_no_other_graph() -> None:
    used: Any = driver.get("a test")
    compiled: list[Compiled] = []
    step, _ = trained(OPTIMIZERS["fused"], _scheduled)(compiling(compiled))
    counts = []
    for n in range(6):
        step(n)
        counts.append(len(used._graphs))
    assert counts[2] == counts[-1], counts


def test_a_step_that_gives_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch, in_graphs: list[Any]) -> None:
    """It is taken behind the graph, and has been counted once."""
    monkeypatch.setattr(BoundStep, "launch", lambda self: None)
    report = run_twins(trained(OPTIMIZERS["adam"], _scheduled), "spoiled")
    assert not in_graphs and report.walked == 5 and report.ways[0].launches == 2, str(report)
    assert "no graph has the step of Adam" in str(report)


def test_a_gradient_that_is_kept_is_copied_before_the_next_step() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def body(x: Any, y: Any) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    step: Any = Compiled(body, always=True)
    kept = []
    for n in range(5):
        step(batch(n, 4, 6), batch(n, 4, classes=3))
        kept.append((model[0].weight.grad, plain(model[0].weight.grad)))
    for number, (gradient, numbers) in enumerate(kept):
        check_same(plain(gradient), numbers, f"step {number}")


CLIPPED: dict[str, Callable[[nn.Module, int], Any]] = {
    "always": lambda model, n: nn.utils.clip_grad_norm_(model.parameters(), 0.1),
    "seldom": lambda model, n: nn.utils.clip_grad_norm_(model.parameters(), 100.0),
    "other_limits": lambda model, n: nn.utils.clip_grad_norm_(model.parameters(), 0.1 * (n + 1)),
    "of_some": lambda model, n: nn.utils.clip_grad_norm_(model[0].parameters(), 0.1),
    "read": lambda model, n: nn.utils.clip_grad_norm_(model.parameters(), 0.1).item(),
    "twice": lambda model, n: [nn.utils.clip_grad_norm_(part.parameters(), 0.1) for part in (model[0], model[2])],
    "then_read": lambda model, n: (
        nn.utils.clip_grad_norm_(model.parameters(), 0.1),
        model[0].bias.grad.tolist(),
    ),
    "then_another_way": lambda model, n: (
        nn.utils.clip_grad_norm_(model.parameters(), 0.1),
        model[0].bias.detach().exp() if n == 4 else model[0].bias.detach().sin(),
    ),
    "elements": lambda model, n: nn.utils.clip_grad_value_(model.parameters(), 0.01),
    "largest": lambda model, n: nn.utils.clip_grad_norm_(model.parameters(), 0.1, float("inf")),
}
# Steps 2 to 6 in which graphs clip, where it is not all.
GRAPHS_THAT_CLIP = {"elements": 0, "largest": 0}


@pytest.mark.parametrize("name", CLIPPED)
def test_clipped_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clipped: list[Any] = []
    stamp = BoundClipping.stamp
    monkeypatch.setattr(BoundClipping, "stamp", lambda self: (clipped.append(self), stamp(self))[1])

    def make(compile: Any) -> Any:
        model = mlp()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

        @compile
        def step(x: Any, y: Any, n: int) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            told = CLIPPED[name](model, n)
            optimizer.step()
            return loss.detach(), told

        return lambda n: step(batch(n, 4, 6), batch(n, 4, classes=3), n), lambda: [
            *model.parameters(),
            *[p.grad for p in model.parameters()],
        ]

    report = run_twins(make, name)
    assert len(clipped) == GRAPHS_THAT_CLIP.get(name, 5), str(report)
