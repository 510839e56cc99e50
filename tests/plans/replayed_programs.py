"""Steps that do nothing but tensors, and what may change between two calls of one: each gives (step, change, arguments of call n)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy

import dynograd as torch
from dynograd import nn
from tests.plans.programs import batch, network, watching

F = nn.functional
PURE: dict[str, Callable[[Any], Any]] = {}
FACTOR = 2.0
SETTINGS = {"scale": 2.0}


def pure(function: Any) -> Any:
    """Enters a program that is to be replayed."""
    PURE[function.__name__] = function
    return function


@pure
def perceptron_with_schedule(compile: Any) -> Any:
    model = network(12, 16, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach(), "size": len(x)}

    def run(n: int) -> Any:
        result = step(batch(n, 8, 12), batch(n, 8, classes=5))
        schedule.step()
        return result

    return run, watching(model, optimizer)


@pure
def images(compile: Any) -> Any:
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(36, 3),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, nesterov=True)

    @compile
    def step(x: Any, y: Any) -> Any:
        noisy = x + 0.1 * torch.randn_like(x)
        loss = F.cross_entropy(model(noisy), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def run(n: int) -> Any:
        return step(batch(n, 4, 2, 8, 8), batch(n, 4, classes=3)), torch.rand(2)

    return run, watching(model, optimizer)


@pure
def recurrent(compile: Any) -> Any:
    embedding, lstm, head = nn.Embedding(11, 6), nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 11)
    model = nn.ModuleList([embedding, lstm, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def step(tokens: Any) -> Any:
        start = torch.zeros(1, tokens.shape[0], 8)
        out, (h, _) = lstm(embedding(tokens[:, :-1]), (start, start))
        loss = F.cross_entropy(head(out).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, h.detach()

    return lambda n: step(batch(n, 3, 6, classes=11)), watching(model, optimizer)


@pure
def transformer(compile: Any) -> Any:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)

    @compile
    def step(x: Any) -> Any:
        before = torch.tril(torch.ones(5, 5)) @ x
        loss = F.mse_loss(model(before), x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss, norm

    return lambda n: step(batch(n, 3, 5, 8)), watching(model, optimizer)


@pure
def inference(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.4), nn.Linear(8, 3)).eval()

    @compile
    def classify(x: Any, others: Any = None) -> Any:
        out = model(x)
        return [out.softmax(-1), (out.argmax(-1), others["more"] * 2)]

    def run(n: int) -> Any:
        with torch.no_grad():
            return classify(batch(n, 5, 6), others={"more": batch(n, 2)})

    return run, watching(model)


@pure
def module_differentiated(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3))
    compiled = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run(n: int) -> Any:
        optimizer.zero_grad()
        out = compiled(batch(n, 5, 6))
        out.square().mean().backward()
        optimizer.step()
        return out

    return run, watching(model)


@pure
def averages_and_targets(compile: Any) -> Any:
    model, target = network(4, 6, 2), network(4, 6, 2).requires_grad_(False)
    mean, count = torch.zeros(2), torch.tensor(0)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)

    @compile
    def step(x: Any) -> Any:
        out = model(x)
        loss = F.smooth_l1_loss(out, target(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            mean.mul_(0.9).add_(0.1 * out.mean(0))
            count.add_(1)
            for own, other in zip(model.parameters(), target.parameters()):
                other.data.lerp_(own.data, 0.1)
        return loss

    return lambda n: step(batch(n, 5, 4)), watching(model, target, optimizer, mean, count)


# --- what may change between calls -----------------------------------------------------------------------------------------------


class Scaled(nn.Module):
    offset = 0.0  # of the class

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.drop = nn.Linear(4, 3), nn.Dropout(0.5)
        self.scale, self.layers = 1.0, [1.0, 2.0]
        self.settings = SimpleNamespace(power=1)
        self.register_buffer("shift", torch.zeros(3))
        self.drop.eval()

    def forward(self, x: Any) -> Any:
        out = self.drop(self.inner(x)) * self.scale * self.layers[1] + self.offset + self.shift
        return out**self.settings.power if self.training else -out


@dataclass
class World:
    """What a step under test reaches."""

    model: Any
    optimizer: Any
    extra: Any
    array: Any
    function: Any = None
    options: dict[str, Any] = field(default_factory=lambda: {"weight": 1.0})


def world() -> World:
    torch.manual_seed(0)
    model = Scaled()
    return World(
        model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5), torch.ones(3), numpy.ones(3, "float32")
    )


def helper(value: Any, factor: float = 1.0) -> Any:
    return value * factor * FACTOR * SETTINGS["scale"]


def step_of(w: World) -> Any:
    weight = [1.5]
    power = 1.0

    def inner(value: Any) -> Any:
        return value * power

    def step(x: Any, y: Any, number: Any = 1.0, flags: Any = ()) -> Any:
        out = helper(w.model(x)) * w.options["weight"] * number * weight[0] + w.extra * float(w.array[0])
        out = inner(out) + len(flags) + torch.zeros(3)
        loss = F.cross_entropy(out, y)
        for parameter in w.model.parameters():
            parameter.grad = None
        loss.backward()
        w.optimizer.step()
        return loss, out.detach(), x + 0 if torch.is_grad_enabled() else x

    def set_cells(one: Any, other: Any) -> None:
        nonlocal weight, power
        weight, power = one, other

    w.function = set_cells
    return step


def arguments(n: int, **changed: Any) -> tuple[tuple, dict[str, Any]]:
    return (batch(n, 5, 4), batch(n, 5, classes=3)), changed


def _replace(w: World, name: str, value: Any) -> None:
    setattr(w.model, name, value)


def _hook(w: World) -> None:
    w.model.inner.register_forward_hook(lambda module, args, out: out * 2)


def _defaults(w: World) -> None:
    helper.__defaults__ = (2.0,)


def _global(w: World) -> None:
    global FACTOR
    FACTOR = 3.0


# What is changed, and what the report calls it.
CHANGES: dict[str, tuple[Callable[[World], Any], str]] = {
    "attribute of a module": (lambda w: _replace(w, "scale", 3.0), "scale"),
    "type of an attribute": (lambda w: _replace(w, "scale", torch.tensor(2.0)), "scale"),
    "attribute that hides the class's": (lambda w: _replace(w, "offset", 1.0), "model"),
    "attribute of the class": (lambda w: setattr(Scaled, "offset", 2.0), "offset"),
    "method of the class": (lambda w: setattr(Scaled, "forward", lambda self, x: 3 * self.inner(x)), "forward"),
    "attribute of an attribute": (lambda w: setattr(w.model.settings, "power", 2), "power"),
    "element of a list": (lambda w: w.model.layers.__setitem__(1, 5.0), "layers[1]"),
    "list": (lambda w: _replace(w, "layers", [1.0, 4.0]), "layers"),
    "training": (lambda w: w.model.eval(), "training"),
    "training of a layer": (lambda w: w.model.drop.train(), "training"),
    "parameter": (lambda w: w.model.inner.register_parameter("weight", nn.Parameter(torch.ones(3, 4))), "inner"),
    "memory of a parameter": (lambda w: setattr(w.model.inner.weight, "data", torch.ones(3, 4)), "parameter"),
    "requires_grad": (lambda w: w.model.inner.weight.requires_grad_(False), "parameter"),
    "buffer": (lambda w: _replace(w, "shift", torch.ones(3)), "shift"),
    "forward hook": (_hook, "_forward_hooks"),
    "tensor of an object": (lambda w: setattr(w, "extra", 2 * torch.ones(3)), "extra"),
    "array": (lambda w: w.array.__setitem__(0, 4.0), "array"),
    "element of a dict": (lambda w: w.options.__setitem__("weight", 3.0), "weight"),
    "cell of a closure": (lambda w: w.function([2.5], 1.0), "weight"),
    "cell of an inner function": (lambda w: w.function([1.5], 2.0), "power"),
    "defaults": (_defaults, "defaults"),
    "global": (_global, "FACTOR"),
    "global dict": (lambda w: SETTINGS.__setitem__("scale", 3.0), "scale"),
    "gradient hook": (lambda w: w.model.inner.weight.register_hook(lambda g: 2 * g), "parameter"),
    "default dtype": (lambda w: torch.set_default_dtype(torch.float64), "mode"),
}
