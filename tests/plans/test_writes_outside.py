"""Writes in place into tensors from outside (parameters, averages, states by hand): steps give what they give as they are written."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from tests.plans.twins import difference, overwritten_between_steps, seen

F = nn.functional
STEPS = 10
NO_GRAD = "with torch.no_grad():"


class State:
    """What the lines of a step may write: `e` are copies of the parameters, `v` zeros of their shapes."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.m = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
        self.e = [p.detach().clone() for p in self.m.parameters()]
        self.v = [torch.zeros_like(p) for p in self.e]
        self.b, self.w = torch.zeros(3), torch.ones(3, dtype=torch.float64)
        self.count = torch.zeros(1, dtype=torch.int64)
        self.flat = torch.zeros(8)
        self.halves = self.flat[:4], self.flat[4:]
        self.seen = self.b.numpy()
        self.kept: list[Any] = []

    def names(self) -> dict[str, Any]:
        return {**vars(self), "ps": list(self.m.parameters())}


def step_of(state: State, text: str) -> Callable[..., Any]:
    """A step whose lines run behind the backward pass, and may set `r`, which is given with the loss."""
    body = "\n".join([f"    {line}" for line in text.split("\n")])
    source = (
        "def step(x, y, n):\n    h = m(x)\n    loss = F.cross_entropy(h, y)\n    loss.backward()\n    r = None\n"
        f"{body}\n    return loss.detach(), r\n"
    )
    space = dict(torch=torch, nn=nn, F=F, **state.names())
    exec(compile(source, "<lines>", "exec"), space)
    return space["step"]


SGD = f"{NO_GRAD}\n    for p in ps: p -= 0.1 * p.grad; p.grad = None"
# The lines, and how many stores the record has.
STORED = {
    SGD: 4,
    f"{NO_GRAD}\n    for p in ps: p.sub_(p.grad, alpha=0.1); p.grad = None": 4,
    f"{NO_GRAD}\n    for p, s in zip(ps, v): s.mul_(0.9).add_(p.grad); p.sub_(0.1 * s); p.grad = None": 8,
    f"{NO_GRAD}\n    for p, s, q in zip(ps, v, e):\n        s.lerp_(p.grad, 0.1); q.mul_(0.9).addcmul_(p.grad, p.grad, value=0.1); p.addcdiv_(s, q.abs().sqrt() + 1, value=-0.1); p.grad = None": 12,
    f"b.mul_(0.9).add_(0.1 * h.detach().mean(0)); r = b * 2\n{SGD}": 5,
    f"b.copy_(h.detach()[1]); r = b.sum().item(), b.tolist()\n{SGD}": 5,
    f"k = (ps[0] * 1).detach(); g = ps[0].grad\n{SGD}\nr = k, (ps[0] * 1).detach(), g": 4,
    f"{SGD}\n{NO_GRAD}\n    for p, q in zip(ps, e): q.mul_(0.5).add_(p, alpha=0.5)": 4,
    f"s = h.detach().sum(0); b.add_(s); b.sub_(s * 0.5); kept.append(s); del kept[:-2]; r = torch.from_numpy(seen).clone()\n{SGD}": 6,
    f"b.add_(h.detach().sum(0).double()); b.copy_(h.detach()[0].double())\n{SGD}": 6,
    f"w.mul_(0.9).add_(h.detach().mean(0).double())\n{SGD}": 5,
    f"count.add_(1); count.add_(y[:1]); count.add_((h.detach()[0, :1] > 0).long())\n{SGD}": 6,
    f"halves[0].add_(x[0]); halves[1].add_(h.detach()[0, 0])\n{SGD}\nr = flat * 1": 4,
    f"{SGD}\nF.mse_loss(m(x), h.detach()).backward()\n{SGD}": 8,
    f"b.mul_(h.detach().max(0)[0]).clamp_(-1, 1)\n{SGD}\nr = F.dropout(b, 0.5)": 5,
}
# In some of the steps, or beside what the record has.
OTHERS = [
    f"k = ps[0] * 1; g = ps[0].grad\n{SGD}\nr = k, ps[0] * 1, g",
    f"t = ps[0].detach().view(-1)\n{SGD}\nr = t * 1",
    f"if n % 4 != 3: b.add_(h.detach().sum(0))\n{SGD}",
    f"b.add_(h.detach().sum(0))\nif n % 4 == 3: b.mul_(2)\nr = b * 1\n{SGD}",
    f"b.add_(h.detach().sum(0))\nr = b.tanh() if n % 4 == 3 else b.exp()\n{SGD}",
    f"b.add_(h.detach().sum(0))\nif n == 6: m[0].weight.data = m[0].weight.data.clone()\n{SGD}",
    f"if n == 6: m[0].weight.data = m[0].weight.data.clone()\nb.add_(h.detach().sum(0))\n{SGD}",
    f"b.add_(h.detach().sum(0))\n{SGD}\nr = b.numpy()\nif n == 6: r += 1",
    f"{SGD}\nk = b.clone() if n % 4 == 3 else b\nk.add_(h.detach()[0]); r = k * 1",
    "for p in ps: p.data -= 0.1 * p.grad; p.grad = None",
    "for p in ps: p.data.add_(p.grad.data, alpha=-0.1); p.grad.zero_()",
    f"b.add_(h.detach().sum(0)); b.grad = None; r = b.view(3, 1) * 1\n{SGD}",
    f"kept.append(b.clone()); del kept[:-2]; kept[0].add_(h.detach()[0]); r = kept[0] * 1\n{SGD}",
    f"{SGD}\nb.add_(h.detach()[0]); b.requires_grad_(n % 4 == 3); r = b * 2; b.requires_grad_(False)",
    f"b.add_(h.detach()[0] if n % 2 else h.detach()[1])\n{SGD}",
    f"b.add_(h.detach().sum(0))\n{SGD}\nr = (b * ps[3]).sum(); r.backward(); ps[3].grad = None",
]


@pytest.fixture(autouse=True)
def memory_of_others() -> Any:
    with overwritten_between_steps():
        yield


def check(text: str, mode: str, change: Callable[[State, int, Any], Any] | None = None) -> Any:
    states = State(), State()
    step = step_of(states[0], text)
    compiled = Compiled(step_of(states[1], text), always=True, exact=mode == "exact", replay=mode == "replay")
    for n in range(STEPS):
        generator = numpy.random.default_rng(n)
        x, y = generator.standard_normal((5, 4)).astype("float32"), generator.integers(0, 3, 5)
        sights = []
        for state, function in zip(states, (step, compiled)):
            torch.manual_seed(n)
            given = torch.from_numpy(x.copy())
            if change is not None:
                given = change(state, n, given)
            result = function(given, torch.from_numpy(y.copy()), n)
            sights.append(
                [
                    seen(result),
                    seen([state.m, state.e, state.v, state.b, state.w, state.count, state.flat]),
                    seen(state.kept),
                ]
            )
            del result
        told = difference(*sights, 0.0 if mode == "exact" else 1e-4)
        assert not told, f"step {n}: {told}\n{compiled.report()}"
    return compiled


@pytest.mark.parametrize("mode", ["exact", "default", "replay"])
@pytest.mark.parametrize("text", STORED)
def test_stores_go_along_the_record(text: str, mode: str) -> None:
    compiled = check(text, mode)
    assert compiled.walked == STEPS - 2, compiled.report()
    stores = [event for event in compiled.walk.path.events if event.kind == "store"]
    assert len(stores) == STORED[text], compiled.report()


@pytest.mark.parametrize("mode", ["exact", "default", "replay"])
@pytest.mark.parametrize("text", OTHERS)
def test_steps_with_other_writes_are_right(text: str, mode: str) -> None:
    check(text, mode)


def test_an_input_in_the_memory_that_is_written_sees_it() -> None:
    def change(state: State, n: int, x: Any) -> Any:
        return state.m[0].weight.data[:5] if n in (4, 7) else x

    check(f"{SGD}\nr = x * 2", "exact", change)


def test_what_backward_still_needs_is_refused() -> None:
    state = State()
    step = Compiled(
        step_of(
            state,
            f"k = ps[2] * h[0, 0]\n{NO_GRAD}\n    ps[2].add_(h.detach()[0, 0])\nif n > 4: k.sum().backward()\n{SGD}",
        ),
        always=True,
    )
    x, y = torch.ones(5, 4), torch.zeros(5, dtype=torch.int64)
    for n in range(8):
        if n > 4:
            with pytest.raises(torch.errors.InplaceError, match="modified by an inplace operation"):
                step(x, y, n)
        else:
            step(x, y, n)


def test_what_was_written_before_an_error_stays() -> None:
    sides = []
    for compiled in (False, True):
        state = State()
        step = step_of(
            state,
            f"b.add_(h.detach()[0])\nr = h.detach().view(-1) @ w[: 15 if n != 5 else 14].expand(15).float() if n == 5 else None\n{SGD}",
        )
        sides.append((state, Compiled(step, always=True, exact=True) if compiled else step))
    x, y = torch.ones(5, 4), torch.zeros(5, dtype=torch.int64)
    for n in range(8):
        for state, step in sides:
            if n == 5:
                with pytest.raises(RuntimeError):
                    step(x, y, n)
                for p in state.m.parameters():
                    p.grad = None
            else:
                step(x, y, n)
        first, second = [seen([state.b, state.m]) for state, _ in sides]
        assert not difference(first, second), n


def test_forward_passes_that_write_averages_are_differentiated_later() -> None:
    class Averaging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 3)
            self.register_buffer("average", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            h = self.inner(x)
            with torch.no_grad():
                self.average.mul_(0.9).add_(h.mean(0), alpha=0.1)
            return (h - self.average).tanh()

    models = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = Averaging()
        models.append((model, Compiled(model, always=True, exact=True) if compiled else model))
    for n in range(STEPS):
        sights = []
        for model, function in models:
            x = torch.from_numpy(numpy.random.default_rng(n).standard_normal((5, 4)).astype("float32"))
            model.zero_grad()
            function(x).square().sum().backward()
            sights.append(seen([model, [p.grad for p in model.parameters()]]))
        assert not difference(*sights), n


@pytest.mark.parametrize("mode", ["exact", "default", "replay"])
@pytest.mark.parametrize(
    "text",
    [
        f"b.mul_(0.9).add_(h.detach().mean(0)); r = b * 2\n{SGD}",
        f"{SGD}\nb.copy_(h.detach().sum(0)); r = (h.detach() * b).sum(1)",
    ],
)
def test_stores_beside_lengths_that_change(text: str, mode: str) -> None:
    states = State(), State()
    step = step_of(states[0], text)
    compiled = Compiled(step_of(states[1], text), always=True, exact=mode == "exact", replay=mode == "replay")
    for n in range(30):
        generator = numpy.random.default_rng(n)
        rows = int(generator.integers(2, 40))
        x, y = generator.standard_normal((rows, 4)).astype("float32"), generator.integers(0, 3, rows)
        sights = []
        for state, function in zip(states, (step, compiled)):
            result = function(torch.from_numpy(x.copy()), torch.from_numpy(y.copy()), n)
            sights.append([seen(result), seen([state.m, state.b])])
        told = difference(*sights, 0.0 if mode == "exact" else 1e-4)
        assert not told, f"step {n}: {told}\n{compiled.report()}"
    assert compiled.walked > 5, compiled.report()


STATEMENTS = [
    "b.add_(h.detach().sum(0))",
    "b.mul_(0.9)",
    "b.copy_(h.detach()[1])",
    "b.lerp_(h.detach().mean(0), 0.3)",
    "b.sub_(b * h.detach()[0])",
    "w.add_(h.detach()[0].double())",
    "count.add_(y[:1])",
    "count.add_((h.detach()[0, :1] > 0).long())",
    "b.clamp_(-1, 1)",
    "b[1] = 0.5",
    "b[0] = h.detach()[0, 0]",
    "r = b * 2",
    "r = (b * h.detach()).sum()",
    "kept.append(b.clone()); del kept[:-3]",
    "flat.add_(h.detach().sum())",
    "halves[0].mul_(h.detach()[0, 0])",
    "v[1].add_(ps[1].grad if ps[1].grad is not None else 0.1)",
    "e[1].mul_(0.5).add_(ps[1].detach(), alpha=0.5)",
    "with torch.no_grad(): ps[1].sub_(0.1 * h.detach()[0, 0])",
    "with torch.no_grad(): ps[3].add_(h.detach().mean(0))",
    "ps[3].data.add_(h.detach().mean(0))",
    "r = (ps[3] * b).detach()",
    "s = b.sum().item(); b.mul_(0.5 if s > 0 else 0.25)",
    "b.div_(b.abs().max().clamp(min=1))",
    "q = b.detach(); q.add_(h.detach()[2])",
    "q = b.view(3, 1); q.add_(1)",
    "b.copy_(w)",
    "w.copy_(b * 2)",
    "torch._foreach_add_([b, w], 0.1)",
    "torch._foreach_mul_([b], [h.detach()[0]])",
    "b.add_(h.detach().sum(0), alpha=n * 0.1)",
    "b.add_(torch.randn(3) * h.detach()[0])",
    "h2 = m(x); b.add_(h2.detach()[0])",
    "F.mse_loss(m(x), h.detach() + 1).backward()",
    "b.data = b.data * 1",
    "b.addcmul_(h.detach()[0], h.detach()[1])",
    "b.zero_(); b.add_(h.detach()[1])",
    "b.masked_fill_(h.detach()[0] > 0, 0.1)",
    "b.where(h.detach()[0] > 0, b * 0.5); b.exp_().log_()",
]


def random_lines(seed: int) -> str:
    """Some of the statements, some of them in some of the steps only, and mostly the update of the parameters."""
    choose = random.Random(seed)
    lines = []
    for _ in range(choose.randrange(2, 7)):
        line = choose.choice(STATEMENTS)
        sometimes = choose.random() < 0.2 and not line.startswith("with")
        lines.append(f"if n % {choose.randrange(2, 5)} == 1: {line}" if sometimes else line)
    if choose.random() < 0.7:
        lines.insert(choose.randrange(len(lines) + 1), SGD)
    else:
        lines.append("for p in ps: p.grad = None")
    return "\n".join(lines)


@pytest.mark.parametrize("mode", ["exact", "default", "replay"])
@pytest.mark.parametrize("seed", range(12))
def test_random_lines(seed: int, mode: str) -> None:
    check(random_lines(seed), mode)
