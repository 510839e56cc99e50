"""Steps with hooks that a record cannot have run as they are written, with what the hooks do, and the report says which it was and where."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled

F = nn.functional
G = torch.autograd.graph


class Program:
    """A step of two layers; `log` is what hooks have seen."""

    def __init__(self, compile: Callable[[Any], Any]) -> None:
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)
        self.log: list[Any] = []
        self.between: Callable[[Any, Any], Any] = lambda h, out: out
        self.call = compile(self.step)

    def step(self, x: Any, y: Any) -> Any:
        h = self.first(x).tanh()
        out = self.between(h, self.second(h))
        loss = F.mse_loss(out, y)
        loss.backward()
        return loss.detach()

    def note(self, *values: Any) -> None:
        self.log += [value.detach().numpy().copy() for value in values]


def before(register: Callable[[Program], Any]) -> Callable[[Program], None]:
    return lambda program: register(program) and None


def within(register: Callable[[Program, Any, Any], Any]) -> Callable[[Program], None]:
    """Of what the step has made: registered in each call."""

    def install(program: Program) -> None:
        def between(h: Any, out: Any) -> Any:
            result = register(program, h, out)
            return result if isinstance(result, torch.Tensor) else out

        program.between = between

    return install


def packed(program: Program, h: Any, out: Any) -> Any:
    with G.saved_tensors_hooks(lambda tensor: tensor * 2, lambda tensor: tensor / 2):
        return out * out


def saved_on_cpu(program: Program, h: Any, out: Any) -> Any:
    with G.save_on_cpu():
        return out * out


ROWS: dict[str, tuple[Callable[[Program], None], str]] = {
    "of a tensor": (within(lambda p, h, out: h.register_hook(lambda g: g * 2)), "a hook on a gradient of tanh"),
    "of a tensor, that looks": (
        within(lambda p, h, out: h.register_hook(lambda g: p.note(g))),
        "a hook on a gradient of tanh",
    ),
    "of a node": (
        within(lambda p, h, out: out.grad_fn.register_hook(lambda into, of: p.note(of[0]))),
        "a hook on a gradient of linear",
    ),
    "before a node": (
        within(lambda p, h, out: out.grad_fn.register_prehook(lambda of: (of[0] * 3,))),
        "a hook on a gradient of linear",
    ),
    "of several": (
        within(lambda p, h, out: G.register_multi_grad_hook((h, out), lambda gs: p.note(*gs)) and None),
        "a hook on a gradient of linear",
    ),
    "a gradient that is kept": (within(lambda p, h, out: h.retain_grad()), r"or retain_grad\(\) of its result"),
    "of a module": (
        before(lambda p: p.second.register_full_backward_hook(lambda module, into, of: p.note(of[0]))),
        "",
    ),
    "of a module, that changes": (
        before(lambda p: p.second.register_full_backward_hook(lambda module, into, of: (into[0] * 0.5,))),
        "",
    ),
    "before a module": (
        before(lambda p: p.second.register_full_backward_pre_hook(lambda module, of: (of[0] * 2,))),
        "",
    ),
    "of saved tensors": (within(packed), "hooks of saved tensors"),
    "saved on the CPU": (within(saved_on_cpu), "hooks of saved tensors"),
}


@pytest.mark.parametrize("name", ROWS)
def test_hooks_do_what_they_do(name: str) -> None:
    install, reason = ROWS[name]
    programs = [Program(lambda step: step), Program(lambda step: Compiled(step, always=True, exact=True))]
    for program in programs:
        install(program)
    numbers = numpy.random.default_rng(0)
    for _ in range(5):
        x, y = [torch.from_numpy(numbers.standard_normal((5, size)).astype("float32")) for size in (4, 2)]
        seen = []
        for program in programs:
            parameters = [*program.first.parameters(), *program.second.parameters()]
            for parameter in parameters:
                parameter.grad = None
            loss = program.call(x, y)
            seen.append(
                [loss.numpy().copy(), *[parameter.grad.numpy().copy() for parameter in parameters], *program.log]
            )
        assert len(seen[0]) == len(seen[1])
        for left, right in zip(*seen):
            numpy.testing.assert_array_equal(left, right)
    compiled = programs[1].call
    if not reason:
        assert compiled.walked == 3 and not compiled.report().breaks
        return
    (why,) = compiled.report().breaks
    assert re.search(reason, why.reason) and "test_hooks_in_steps.py" in why.line
    assert compiled.walked == 0 and why.times == 5
