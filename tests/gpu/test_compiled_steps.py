"""Compiled steps on a GPU give what they give as they are written: results, parameters, statistics, random numbers, what a caller keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dynograd as torch
from dynograd import nn
from dynograd.cuda import driver
from dynograd.nn import functional as F
from dynograd.plans.compiling import Compiled
from dynograd.plans.gpu import pieces

STEPS = 7
PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Enters a program: given what compiles, a function of the step's number, and what is watched."""
    PROGRAMS[make.__name__] = make
    return make


def batch(n: int, *shape: int, classes: int = 0) -> Any:
    generator = torch.Generator().manual_seed(1000 * n + len(shape))
    if classes:
        return torch.randint(classes, shape, generator=generator).to("cuda")
    return torch.randn(*shape, generator=generator).to("cuda")


def mlp(*more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), *more, nn.ReLU(), nn.Linear(8, 3)).to("cuda")


def trained(model: nn.Module, optimizer: Any, compile: Any, read: bool = False, after: Any = None) -> Any:
    """A program that trains."""

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        told = loss.item() if read else 0.0
        loss.backward()
        optimizer.step()
        return loss, told

    def run(n: int) -> Any:
        result = step(batch(n, 4, 6), batch(n, 4, classes=3))
        if after is not None:
            after(n)
        return result

    return run, lambda: [*model.state_dict().values(), optimizer.state_dict()["state"]]


@program
def gradient_descent(compile: Any) -> Any:
    model = mlp()
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), compile)


@program
def value_read_before_backward(compile: Any) -> Any:
    model = mlp()
    return trained(model, torch.optim.AdamW(model.parameters(), lr=0.1), compile, read=True)


@program
def steps_counted_on_the_device(compile: Any) -> Any:
    model = mlp()
    return trained(model, torch.optim.Adam(model.parameters(), lr=0.1, fused=True), compile)


@program
def learning_rate_of_a_scheduler(compile: Any) -> Any:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
    return trained(model, optimizer, compile, after=lambda n: scheduler.step())


@program
def dropout(compile: Any) -> Any:
    model = mlp(nn.Dropout(0.4))
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.1), compile)


@program
def dropout_of_whole_features(compile: Any) -> Any:
    model = nn.Sequential(nn.Conv1d(2, 3, 2), nn.Dropout1d(0.5), nn.Flatten(), nn.Linear(6, 3)).to("cuda")
    run, watched = trained(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda step: step)

    @compile
    def forward(x: Any) -> Any:
        return model(x)

    def step(n: int) -> Any:
        loss = forward(batch(n, 4, 2, 3)).square().sum()
        model.zero_grad()
        loss.backward()
        return loss.detach()

    return step, watched


@program
def running_statistics(compile: Any) -> Any:
    model = mlp(nn.BatchNorm1d(8))
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.1), compile)


@program
def clipped_gradients(compile: Any) -> Any:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return norm

    return lambda n: step(batch(n, 4, 6), batch(n, 4, classes=3)), lambda: list(model.parameters())


@program
def gradients_of_two_batches(compile: Any) -> Any:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def add(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

    def step(n: int) -> Any:
        optimizer.zero_grad()
        losses = [add(batch(2 * n + k, 4, 6), batch(2 * n + k, 4, classes=3)) for k in range(2)]
        optimizer.step()
        return losses

    return step, lambda: [p.grad for p in model.parameters()] + list(model.parameters())


@program
def attention(compile: Any) -> Any:
    embed, layer = nn.Embedding(11, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    model = nn.Sequential(embed, layer, nn.Linear(8, 11)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    @compile
    def step(tokens: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return lambda n: step(batch(n, 2, 5, classes=11)), lambda: list(model.parameters())


@program
def module_differentiated_outside(compile: Any) -> Any:
    model = mlp(nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward = compile(lambda x: model(x))

    def step(n: int) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(batch(n, 4, 6)), batch(n, 4, classes=3))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda: [p.grad for p in model.parameters()] + list(model.parameters())


@program
def lengths_that_change(compile: Any) -> Any:
    model = mlp()

    @compile
    def forward(x: Any) -> Any:
        with torch.no_grad():
            return model(x).softmax(-1).sum(0)

    return lambda n: forward(batch(n, 3 + n % 2, 6)), lambda: []


@program
def views_that_are_kept(compile: Any) -> Any:
    weight = batch(0, 4, 6)

    @compile
    def step(x: Any) -> Any:
        y = torch.tanh(x * weight)
        return y, y[1:], y.T, x.view(-1), weight[0], y.sum()

    return lambda n: step(batch(n, 4, 6)), lambda: weight


@program
def written_in_place(compile: Any) -> Any:
    counter = torch.zeros(3, device="cuda")

    @compile
    def step(x: Any) -> Any:
        y = x * 2
        y += 1
        y[:, 0] = 0.5
        y.relu_()
        counter.add_(y.sum(0)[:3])
        return y * counter.sum()

    return lambda n: step(batch(n, 4, 6)), lambda: counter


@program
def decisions(compile: Any) -> Any:
    @compile
    def step(x: Any) -> Any:
        y = x.exp() if x.sum() > 0 else x.sin()
        return y.mean() if y.max() > 2 else y.sum()

    return lambda n: step(batch(n, 4, 6)), lambda: []


@program
def data_from_the_host(compile: Any) -> Any:
    model = mlp()

    @compile
    def step(x: Any) -> Any:
        scaled = (x * 2 + 1).to("cuda")
        y = model(scaled).detach()
        return y, y.cpu() + 1, y.sum().cpu().numpy()

    return lambda n: step(batch(n, 4, 6).cpu()), lambda: []


@program
def draws(compile: Any) -> Any:
    @compile
    def step(x: Any) -> Any:
        return F.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(6, device="cuda")

    return lambda n: step(batch(n, 4, 6)), lambda: []


@program
def what_cannot_be_captured(compile: Any) -> Any:
    @compile
    def step(x: Any) -> Any:
        square = x[:, :4] + 4 * torch.eye(4, device="cuda")
        return torch.linalg.inv(square * 2).sin()

    return lambda n: step(batch(n, 4, 6)), lambda: []


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return str(value.device), value.stride(), value.detach().cpu().numpy().copy()
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    return value


def check_same(one: Any, other: Any, where: str) -> None:
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other), where
        for place, (first, second) in enumerate(zip(one, other)):
            check_same(first, second, f"{where}[{place}]")
    elif hasattr(one, "tobytes"):
        torch.testing.assert_close(torch.from_numpy(other), torch.from_numpy(one), rtol=1e-5, atol=1e-6, msg=where)
    else:
        assert one == other, where


# Programs that compute other graphs than one in a step of the latest way, or have calls between graphs.
PIECES = {"value_read_before_backward": 2, "decisions": 3, "what_cannot_be_captured": 3, "attention": 5}


@pytest.mark.filterwarnings("ignore:inverse. has no kernel for GPUs")
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_give_what_they_give_as_they_are_written(name: str) -> None:
    compiled: list[Compiled] = []

    def compile(function: Any) -> Compiled:
        compiled.append(Compiled(function, always=True))
        return compiled[-1]

    twins = []
    for one in (lambda function: function, compile):
        torch.manual_seed(0)
        twins.append(PROGRAMS[name](one))
    kept = []
    for n in range(STEPS):
        seen = []
        for step, watched in twins:
            torch.manual_seed(100 + n)
            result = step(n)
            seen.append([plain(result), plain(watched()), torch.get_rng_state().tolist()])
        check_same(*seen, f"{name}, step {n}")
        kept.append((result, seen[1][0]))
    for result, numbers in kept:
        check_same(plain(result), numbers, f"{name}, kept")
    report = compiled[0].report()
    assert report.walked >= 3, str(report)
    print(name, report)
