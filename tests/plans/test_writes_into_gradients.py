"""Writes in place into gradients, and into parameters by hand: compiled steps give what the same steps do as they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from tests.plans.twins import difference, overwritten_between_steps, seen

F = nn.functional
STEPS = 9
ALL = "for p in m.parameters():"


def after(text: str) -> Callable[..., Any]:
    """A function of (m, x, y, n, o) with these lines, which run behind the first backward pass of a step."""
    body = "\n".join([f"    {line}" for line in text.split("\n")])
    space: dict[str, Any] = dict(torch=torch, nn=nn, F=F, kept=[])
    exec(compile(f"def f(m, x, y, n, o):\n{body}\n    return m[2].bias.grad\n", "<lines>", "exec"), space)
    return space["f"]


WALKED = {
    "clipped by value": f"{ALL} p.grad.clamp_(-0.01, 0.01)",
    "clipped as data": f"{ALL} p.grad.data.clamp_(-0.01, 0.01)",
    "scaled": f"{ALL} p.grad.mul_(0.5); p.grad /= 2",
    "decay by hand": f"{ALL} p.grad.add_(p.data, alpha=0.1)",
    "noise": f"{ALL} p.grad += 0.01 * torch.randn_like(p.grad)",
    "the norm by hand": "s = torch.stack([p.grad.norm() for p in m.parameters()]).norm()\nfor p in m.parameters(): p.grad.mul_(0.1 / (s + 1e-6))",
    "the norm is read": f"s = sum(p.grad.data.norm().item() for p in m.parameters())\n{ALL} p.grad.data.mul_(0.1 / s)",
    "rows": "m[0].weight.grad[:2] = 0; m[2].bias.grad[1].zero_(); m[2].weight.grad.t()[0].mul_(3)",
    "a view is kept": f"v = m[0].weight.grad.view(-1); d = m[0].weight.grad.data\n{ALL} p.grad.mul_(2)\nkept.append(v + d.view(-1))",
    "flat": "g = torch.cat([p.grad.view(-1) for p in m.parameters()]) / 2; k = 0\nfor p in m.parameters():\n    p.grad.copy_(g[k:k + p.numel()].view_as(p)); k += p.numel()",
    "twice": f"{ALL} p.grad.mul_(2); p.grad.data.add_(1); p.grad[0] = 0.5",
    "kept behind": f"{ALL} p.grad.mul_(2)\nkept.append(m[0].weight.grad); kept.append(m[2].bias.grad.data); del kept[:-4]",
    "kept before": f"kept.append(m[0].weight.grad)\n{ALL} p.grad.mul_(2)\ndel kept[:-2]",
    "read behind": f"{ALL} p.grad.mul_(2)\nkept.append(m[0].weight.grad.sum().item()); kept.append(m[0].weight.grad.tolist()[0])",
    "numpy behind": f"{ALL} p.grad.mul_(2)\nkept.append(m[0].weight.grad.numpy().copy())",
    "of other numbers": f"{ALL} p.grad.mul_(1.0 + n)",
    "clipped behind": f"{ALL} p.grad.mul_(4)\nnn.utils.clip_grad_norm_(m.parameters(), 0.1); nn.utils.clip_grad_value_(m.parameters(), 0.05)",
    "a norm": "kept.append(nn.utils.clip_grad_norm_(m.parameters(), 0.1)); kept.append([p.grad._version for p in m.parameters()])",
    "a norm, in some steps": "kept.append(nn.utils.clip_grad_norm_(m.parameters(), 0.1 if n % 3 else 100.0)); kept.append(m[0].weight.grad._version)",
    "the largest": "kept.append(nn.utils.clip_grad_norm_(m.parameters(), 0.1, norm_type=float('inf'), error_if_nonfinite=True))",
    "by values": "nn.utils.clip_grad_value_(m.parameters(), 0.01); kept.append(m[2].bias.grad)",
    "a norm in two steps": "s = nn.utils.get_total_norm([p.grad for p in m.parameters()]); nn.utils.clip_grads_with_norm_(m.parameters(), 0.1, s); kept.append(s)",
    "several norms": "w = m[0].weight; nn.utils.clip_grad_norm_([w, w], 0.1); nn.utils.clip_grad_norm_(m.parameters(), 0.05); nn.utils.clip_grad_value_([w], 0.01)",
    "a norm, kept before": "g = [p.grad for p in m.parameters()]; nn.utils.clip_grad_norm_(m.parameters(), 0.1); kept.append(g[0] is m[0].weight.grad); kept.append(g)",
    "a norm, read behind": "nn.utils.clip_grad_norm_(m.parameters(), 0.1); kept.append(m[0].weight.grad.tolist())",
    "a norm, numpy behind": "nn.utils.clip_grad_norm_(m.parameters(), 0.1); kept.append(m[2].bias.grad.numpy().copy())",
    "as lists": "torch._foreach_mul_([p.grad for p in m.parameters()], 0.5)",
    "zeroed by hand": f"o.step()\n{ALL} p.grad.zero_()",
    "put in its place": f"{ALL} p.grad = p.grad.mul_(2) + 1",
    "parameters by hand": f"with torch.no_grad():\n    {ALL} p -= 0.1 * p.grad.mul_(2)",
}
OF_VIEWS = ("rows", "a view is kept")  # not where gradients of the step before are added to
# In some of the steps, or in none: they give what they give as they are written all the same.
OTHERS = {
    "a norm, written behind": f"nn.utils.clip_grad_norm_(m.parameters(), 0.1)\n{ALL} p.grad.mul_(2)",
    "a norm, and another way": "s = nn.utils.clip_grad_norm_(m.parameters(), 0.1); kept.append(m[0].weight.grad * 2 if n % 3 == 1 else s * 2)",
    "a norm, and an op": "c = m[0].weight.grad.clone(); nn.utils.clip_grad_norm_(m.parameters(), 0.1); kept.append(c + m[0].weight.grad); kept.append(c.sum())",
    "a norm, and views": "v = m[0].weight.grad.view(-1); d = m[2].weight.grad.detach(); nn.utils.clip_grad_norm_(m.parameters(), 0.1); kept.append(v.sum() + d.sum())",
    "a norm of squares": "s = (m[0].weight.grad ** 2).sum(); nn.utils.clip_grad_norm_(m.parameters(), 0.1 * float(s)); kept.append(s)",
    "a norm before another pass": "nn.utils.clip_grad_norm_(m.parameters(), 0.1); F.cross_entropy(m(x[:2]), y[:2]).backward(); nn.utils.clip_grad_norm_(m.parameters(), 0.1)",
    "a norm, and none in some": "nn.utils.clip_grad_norm_(m.parameters(), 0.1) if n % 3 else None",
    "in some steps": "if n % 3: [p.grad.mul_(2) for p in m.parameters()]",
    "as data in some steps": "if n % 3: [p.grad.data.mul_(2) for p in m.parameters()]",
    "if it is large": "s = m[0].weight.grad.norm()\nif s > 0.2: m[0].weight.grad.mul_(0.2 / s)",
    "before another pass": f"{ALL} p.grad.mul_(2)\nF.cross_entropy(m(x[:2]), y[:2]).backward()",
    "behind another pass": f"F.cross_entropy(m(x[:2]), y[:2]).backward()\n{ALL} p.grad.div_(2)",
    "between passes": f"{ALL} p.grad.mul_(2)\nF.cross_entropy(m(x[:2]), y[:2]).backward()\n{ALL} p.grad.mul_(2)",
    "read behind another pass": "F.cross_entropy(m(x[:2]), y[:2]).backward(); kept.append(m[0].weight.grad * 1); kept.append(m[2].bias.grad.norm())",
    "data in the place of data": f"{ALL} p.grad.data = p.grad.data * 2",
    "data kept and replaced": "d = m[0].weight.grad.data; m[0].weight.grad.data = d * 2; kept.append(d.sum())",
    "numpy before": f"a = m[0].weight.grad.numpy()\n{ALL} p.grad.mul_(2)\nkept.append(a.copy())",
    "a leaf of it": "g = m[0].weight.grad.data; g.mul_(2); g.requires_grad_(); (g * g).sum().backward(); kept.append(g.grad)",
    "of one that stays": "o.step(); m[0].weight.grad.mul_(0.5)",
    "data of parameters": f"{ALL} p.data = p.data - 0.1 * p.grad.data",
    "parameters as data": f"{ALL} p.data.sub_(0.1 * p.grad.data); p.grad.data.zero_()",
}


def side(function: Any, compile: Any, zero: str, kind: Any) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    optimizer = kind(model.parameters(), lr=0.05)

    def step(x: Any, y: Any, n: int) -> Any:
        if zero == "first":
            optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        gradient = function(model, x, y, n, optimizer)
        optimizer.step()
        if zero == "last":
            optimizer.zero_grad()
        elif zero == "zeros":
            optimizer.zero_grad(set_to_none=False)
        return loss.detach(), gradient

    return compile(step), model


def check(text: str, zero: str, kind: Any, exact: bool) -> Any:
    functions = after(text), after(text)
    sides = [
        side(function, compile, zero, kind)
        for function, compile in zip(
            functions, (lambda step: step, lambda step: Compiled(step, always=True, exact=exact))
        )
    ]
    results: list[list[Any]] = [[], []]
    compiled = sides[1][0]
    for n in range(STEPS):
        generator = numpy.random.default_rng(n)
        x = generator.standard_normal((5, 4)).astype("float32")
        y = generator.integers(0, 3, 5)
        sights = []
        for (step, model), function, own in zip(sides, functions, results):
            torch.manual_seed(n)
            own.append(step(torch.from_numpy(x.copy()), torch.from_numpy(y.copy()), n))
            sights.append(
                [seen(own), seen(model), seen([p.grad for p in model.parameters()]), seen(function.__globals__["kept"])]
            )
        told = difference(*sights, 0.0 if exact else 1e-4)
        assert not told, f"step {n}: {told}\n{compiled.report()}"
    return compiled


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "rounded"])
@pytest.mark.parametrize("zero", ["first", "last", "zeros"])
@pytest.mark.parametrize("name", WALKED)
def test_they_go_along_the_record(name: str, zero: str, exact: bool) -> None:
    with overwritten_between_steps():
        compiled = check(WALKED[name], zero, torch.optim.AdamW if exact else torch.optim.SGD, exact)
    assert compiled.walked >= STEPS - 3 or (zero == "zeros" and name in OF_VIEWS), compiled.report()


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("zero", ["first", "last", "zeros", "never"])
@pytest.mark.parametrize("name", OTHERS)
def test_they_give_what_they_give_as_they_are_written(name: str, zero: str, kind: Any) -> None:
    with overwritten_between_steps():
        check(OTHERS[name], zero, kind, True)


@pytest.mark.parametrize("name", WALKED)
def test_where_gradients_are_never_zeroed(name: str) -> None:
    with overwritten_between_steps():
        check(WALKED[name], "never", torch.optim.SGD, True)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize(
    "change",
    ["p.grad.mul_(0.5)", "p.grad.data.clamp_(-0.01, 0.01)", "p.grad[0] = 0.0", "p.grad /= 2", "p.grad = p.grad * 2"],
)
def test_they_are_not_left_out_of_a_replay(change: str, kind: Any) -> None:
    sides = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
        optimizer = kind(model.parameters(), lr=0.05)
        space = dict(F=F, model=model, optimizer=optimizer)
        lines = [
            "def step(x, y):",
            "    loss = F.cross_entropy(model(x), y)",
            "    loss.backward()",
            f"    for p in model.parameters(): {change}",
            "    optimizer.step()",
            "    optimizer.zero_grad()",
            "    return loss.detach()",
        ]
        exec("\n".join(lines), space)
        sides.append((torch.compile(space["step"], mode="replay") if compiled else space["step"], model))
    for n in range(20):
        numbers = numpy.random.default_rng(n)
        x = numbers.standard_normal((5, 4)).astype("float32")
        y = numbers.integers(0, 3, 5)
        sights = [seen([step(torch.from_numpy(x), torch.from_numpy(y)), model]) for step, model in sides]
        told = difference(*sights, 1e-4)
        assert not told, f"step {n}: {told}\n{sides[1][0].report()}"
