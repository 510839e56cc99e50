"""Programs with `autograd.Function`s that leave the record, read values, raise, or do something else than one pass; what their Python does is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynograd as torch
from dynograd import nn
from tests.plans.programs import batch, watching

F = nn.functional
LENGTHS = [7, 7, 12, 5, 9, 6, 8, 12, 11, 10]
CHANGES = [False]  # whether the number of rows does
PROGRAMS_WITH_FUNCTIONS: dict[str, Callable[[Any], Any]] = {}


def program(function: Any) -> Any:
    PROGRAMS_WITH_FUNCTIONS[function.__name__] = function
    return function


def rows(n: int) -> int:
    return LENGTHS[n] if CHANGES[0] else 5


class Noted(torch.autograd.Function):
    """Notes its calls in a list, and does something of its own in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, notes: list[Any], own: Any = None) -> Any:
        notes.append("forward")
        ctx.notes, ctx.own = notes, own
        result = x.sigmoid()
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        ctx.notes.append("backward")
        x, result = ctx.saved_tensors
        g = g * result * (1 - result)
        if ctx.own is not None:
            g = ctx.own(g, x)
        return g, None, None


def network() -> Any:
    torch.manual_seed(3)
    return nn.Linear(4, 6), nn.Linear(6, 2)


def trained(compile: Any, run: Any) -> Any:
    """A step that calls `run(n, loss_of)` between `zero_grad` and the optimizer's step."""
    first, second = network()
    parameters = nn.ModuleList([first, second])
    optimizer = torch.optim.SGD(parameters.parameters(), lr=0.1, momentum=0.9)
    notes: list[Any] = []

    def loss_of(x: Any, own: Any = None, after: Any = None) -> Any:
        hidden = Noted.apply(first(x), notes, own)
        if after is not None:
            hidden = after(hidden)
        return second(Noted.apply(2 * hidden, notes, own)).square().mean()

    now = [0]

    @compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        result = run(now[0], x, loss_of, notes)
        optimizer.step()
        return result

    def call(n: int) -> Any:
        now[0] = n
        return step(batch(n, rows(n), 4))

    return call, watching(parameters, optimizer, notes)


@program
def another_way_in_front_of_the_second_one(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        loss = loss_of(x, after=torch.cos if n in (4, 7) else torch.sin)
        loss.backward()
        return loss

    return trained(compile, run)


@program
def another_way_behind_the_pass(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        loss = loss_of(x)
        loss.backward()
        if n in (4, 7):
            notes.append(2 * loss.detach())
        return loss.detach() + 1

    return trained(compile, run)


@program
def another_way_within_the_second_backward(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        def own(g: Any, x: Any) -> Any:
            notes.append(1)
            if n == 5 and notes[-4:].count(1) > 1:
                return g * 0.5 + x.cos() * 0.01
            return g * 0.5

        loss = loss_of(x, own)
        loss.backward()
        return loss

    return trained(compile, run)


@program
def another_way_within_the_first_backward(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        def own(g: Any, x: Any) -> Any:
            notes.append(g)
            return (g * 0.5 if n != 5 else g * 0.25) + 0.1

        loss = loss_of(x, own)
        loss.backward()
        return loss

    return trained(compile, run)


@program
def draws_within_backward(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        def own(g: Any, x: Any) -> Any:
            g = F.dropout(g, 0.3)
            return g if n != 6 else F.dropout(g, 0.2)

        loss = loss_of(x, own)
        loss.backward()
        return loss, torch.rand(2)

    return trained(compile, run)


@program
def values_are_read_in_backward(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        def own(g: Any, x: Any) -> Any:
            notes.append(round(g.abs().max().item(), 5))
            return g if x.abs().max() < 100 else 0 * g

        loss = loss_of(x, own)
        loss.backward()
        return loss

    return trained(compile, run)


@program
def values_are_read_and_then_another_way(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        def own(g: Any, x: Any) -> Any:
            notes.append(round(g.abs().max().item(), 5))
            return g if n not in (4, 5) else g / 2

        loss = loss_of(x, own)
        loss.backward()
        return loss

    return trained(compile, run)


@program
def two_passes_of_one_graph(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        loss = loss_of(x)
        loss.backward(retain_graph=True)
        loss.backward()
        return loss

    return trained(compile, run)


@program
def gradients_are_added_up(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        losses = []
        for _ in range(3):
            loss = loss_of(x)
            loss.backward()
            losses.append(loss)
        return losses

    return trained(compile, run)


@program
def gradients_as_values(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        x = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(loss_of(x), x)
        loss = loss_of(x.detach() + 0.1 * slope.sign())
        loss.backward()
        return loss, slope

    return trained(compile, run)


@program
def another_way_within_gradients_as_values(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        def own(g: Any, x: Any) -> Any:
            return g.clamp(-1, 1) if n != 5 else g

        x = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(loss_of(x, own), x)
        loss = loss_of(x.detach() + 0.1 * slope)
        loss.backward()
        return loss, slope

    return trained(compile, run)


@program
def seeds_of_its_own(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        loss = loss_of(x) * torch.ones(3)
        loss.backward(torch.full((3,), 0.1 + n / 100))
        return loss

    return trained(compile, run)


@program
def a_result_is_read_at_once(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        def after(hidden: Any) -> Any:
            notes.append(hidden.sum().item())
            return hidden

        loss = loss_of(x, after=after)
        loss.backward()
        return loss, loss.item()

    return trained(compile, run)


@program
def a_hook_of_a_leaf(compile: Any) -> Any:
    first, second = network()
    notes: list[Any] = []
    first.weight.register_hook(lambda g: notes.append(g.sum().item()))
    optimizer = torch.optim.SGD(first.parameters(), lr=0.1)

    @compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = second(Noted.apply(first(x), notes)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, rows(n), 4)), watching(first, notes)


@program
def a_result_is_differentiated_outside(compile: Any) -> Any:
    first, second = network()
    notes: list[Any] = []

    @compile
    def step(x: Any) -> Any:
        return second(Noted.apply(first(x), notes))

    def call(n: int) -> Any:
        first.zero_grad()
        loss = step(batch(n, rows(n), 4)).square().mean()
        loss.backward()
        return loss

    return call, watching(first, notes)


@program
def a_result_that_nobody_uses(compile: Any) -> Any:
    first, second = network()
    notes: list[Any] = []

    @compile
    def step(x: Any) -> Any:
        hidden = first(x)
        Noted.apply(hidden, notes, lambda g, x: g * 0.5)
        return second(Noted.apply(hidden.tanh(), notes, lambda g, x: g * 2.0))

    def call(n: int) -> Any:
        first.zero_grad()
        second.zero_grad()
        out = step(batch(n, rows(n), 4))
        out.square().mean().backward()
        return [out.tolist(), [parameter.grad.tolist() for parameter in (*first.parameters(), *second.parameters())]]

    return call, watching(nn.ModuleList([first, second]), None, notes)


@program
def an_error_in_backward(compile: Any) -> Any:
    def run(n: int, x: Any, loss_of: Any, notes: Any) -> Any:
        def own(g: Any, x: Any) -> Any:
            if n in (3, 5) and notes.count("backward") % 2 == 0:
                raise ValueError(f"in step {n}")
            return g + 0.5

        loss = loss_of(x, own)
        loss.backward()
        return loss

    call, watched = trained(compile, run)

    def guarded(n: int) -> Any:
        try:
            return call(n)
        except ValueError as error:
            return str(error), [note.split(";")[0] for note in getattr(error, "__notes__", [])]

    return guarded, watched


@program
def written_in_place_behind(compile: Any) -> Any:
    first, second = network()
    notes: list[Any] = []

    @compile
    def step(x: Any) -> Any:
        first.zero_grad()
        hidden = Noted.apply(first(x), notes)
        hidden = hidden * 2
        hidden += 1
        loss = second(hidden.relu_()).square().mean()
        loss.backward()
        return loss

    return lambda n: step(batch(n, rows(n), 4)), watching(first, notes)


@program
def saved_values_are_overwritten(compile: Any) -> Any:
    """Eager raises an error: so does the compiled step."""
    first, second = network()
    notes: list[Any] = []

    @compile
    def step(x: Any) -> Any:
        first.zero_grad()
        hidden = Noted.apply(first(x), notes)
        hidden += 1
        try:
            second(hidden).sum().backward()
        except RuntimeError as error:
            return str(error)[:40]
        return hidden

    return lambda n: step(batch(n, rows(n), 4)), watching(first, notes)


@program
def nothing_is_differentiated(compile: Any) -> Any:
    """The context of each call has the result, and dies with it."""
    first, second = network()
    notes: list[Any] = []

    @compile
    def step(x: Any) -> Any:
        return second(Noted.apply(first(x), notes)).square().mean().item()

    return lambda n: step(batch(n, rows(n), 4)), watching(first, notes)


@program
def without_a_gradient(compile: Any) -> Any:
    first, second = network()
    notes: list[Any] = []

    @compile
    def step(x: Any) -> Any:
        with torch.no_grad():
            return second(Noted.apply(first(x).relu(), notes))

    return lambda n: step(batch(n, rows(n), 4)), watching(first, notes)


@program
def of_a_parameter(compile: Any) -> Any:
    """Weights are rounded: the gradient goes straight to them, and is kept."""
    first, second = network()
    notes: list[Any] = []
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)

    def own(g: Any, x: Any) -> Any:
        notes.append(g)
        return g

    @compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = F.linear(second(F.linear(x, Noted.apply(first.weight, notes, own))), second.weight.t()).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return lambda n: step(batch(n, rows(n), 4)), watching(first, second, notes)
