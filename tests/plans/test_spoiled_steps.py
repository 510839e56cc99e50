"""Writes into what a backward pass needs: the errors are those of the program as it is written, in whichever call the write comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dynograd as torch
from dynograd.nn import functional as F
from dynograd.plans.compiling import Compiled

Step = Callable[..., Any]  # of an input, and whether it is written
CALLS = [False] * 4 + [True, False, True, True, False]


def input_that_a_norm_saved(w: Any) -> Step:
    def step(x: Any, writes: bool) -> Any:
        y = F.layer_norm(x, (4,), w)
        if writes:
            x[0] = 1.0
        y.square().sum().backward()
        return y.sum().detach()

    return step


def parameter_between_two_passes(w: Any) -> Step:
    def step(x: Any, writes: bool) -> Any:
        first, second = (x * w).square().sum(), (x * w).tanh().sum()
        first.backward()
        if writes:
            with torch.no_grad():
                w.mul_(0.5)
        second.backward()
        return second.detach()

    return step


def input_behind_its_last_pass(w: Any) -> Step:
    def step(x: Any, writes: bool) -> Any:
        (x * w).square().sum().backward()
        if writes:
            x[0] = 1.0
        loss = (x * w).sum()
        loss.backward()
        return loss.detach()

    return step


def another_row_of_what_is_saved(w: Any) -> Step:
    rows = torch.randn(4, 2, 4)

    def step(x: Any, writes: bool) -> Any:
        y = rows[0] * w
        if writes:
            rows[1].add_(1)
        y.square().sum().backward()
        return (rows[1] * x[:2]).sum()

    return step


def input_where_another_pass_follows(w: Any) -> Step:
    def step(x: Any, writes: bool) -> Any:
        y = x * w
        if writes:
            x.add_(1)
        if writes:
            y = y.square()
        y.sum().backward()
        return y.sum().detach()

    return step


def input_of_a_graph_that_is_kept(w: Any) -> Step:
    def step(x: Any, writes: bool) -> Any:
        y = (x * w).sum()
        y.backward(retain_graph=True)
        if writes:
            x.add_(1)
        y.backward()
        return y.detach()

    return step


def gradients_as_values(w: Any) -> Step:
    def step(x: Any, writes: bool) -> Any:
        y = (x * w).square().sum()
        if writes:
            x.add_(1)
        (g,) = torch.autograd.grad(y, [w], create_graph=True)
        return g.square().sum().detach()

    return step


def input_that_a_function_saved(w: Any) -> Step:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, w = ctx.saved_tensors
            return g * w, (g * x).sum(0)

    def step(x: Any, writes: bool) -> Any:
        y = Product.apply(x, w)
        if writes:
            x.add_(1)
        y.square().sum().backward()
        return y.sum().detach()

    return step


def data_behind_backwards_back(w: Any) -> Step:
    """`.data` is not watched: backward takes what is there by then."""

    def step(x: Any, writes: bool) -> Any:
        y = x * w
        if writes:
            x.data.add_(1)
        y.square().sum().backward()
        return y.sum().detach()

    return step


def branch_behind_the_write(w: Any) -> Step:
    """The way with the write is recorded without a pass; then one comes."""
    count = [0]

    def step(x: Any, writes: bool) -> Any:
        count[0] += 1
        y = F.layer_norm(x, (4,), w).square().sum()
        x.add_(1)
        if count[0] > 5:
            y.backward()
        return y.detach()

    return step


def outside_of_the_step(w: Any) -> Step:
    def step(x: Any, writes: bool) -> Any:
        y = (x * w).square().sum()
        if writes:
            x.add_(1)
        return y

    return step


def another_way_behind_a_write(w: Any) -> Step:
    """As in a search along a line: the pass is over when the parameter is written, and another way begins behind that."""

    def step(x: Any, writes: bool) -> Any:
        loss = (w * w * x).square().sum()
        (gradient,) = torch.autograd.grad(loss, [w])
        with torch.no_grad():
            w.sub_(gradient, alpha=1e-3)
            lower = (w * w * x).square().sum()
            return lower.sqrt() + loss if writes else lower - loss

    return step


def another_way_behind_a_gradient_and_a_write(w: Any) -> Step:
    def step(x: Any, writes: bool) -> Any:
        loss = (x * w).square().sum()
        loss.backward()
        with torch.no_grad():
            w.mul_(0.9)
        other = (x * w).exp().sum()
        return (other.sqrt() if writes else other.log()).detach()

    return step


def another_way_behind_two_passes(w: Any) -> Step:
    """The gradients of the first pass are dropped before the second one, as they are of each example by itself."""

    def step(x: Any, writes: bool) -> Any:
        total = torch.zeros(4)
        for row in x:
            w.grad = None
            (row * w).exp().sum().backward()
            assert w.grad is not None
            total += w.grad.tanh()
        return total.abs().sum() if writes else total.sum()

    return step


STEPS = [
    another_way_behind_two_passes,
    another_way_behind_a_write,
    another_way_behind_a_gradient_and_a_write,
    input_that_a_norm_saved,
    parameter_between_two_passes,
    input_behind_its_last_pass,
    another_row_of_what_is_saved,
    input_where_another_pass_follows,
    input_of_a_graph_that_is_kept,
    gradients_as_values,
    input_that_a_function_saved,
    data_behind_backwards_back,
    branch_behind_the_write,
    outside_of_the_step,
]


def outcomes(make: Callable[[Any], Step], compile: Callable[[Step], Any]) -> tuple[list[Any], Any]:
    torch.manual_seed(0)
    w = torch.nn.Parameter(torch.rand(4))
    step, seen = compile(make(w)), []
    for writes in CALLS:
        w.grad = None
        x = torch.randn(3, 4)
        try:
            result = step(x, writes)
            if result.requires_grad:
                result.backward()
            seen.append((result.item(), None if w.grad is None else w.grad.tolist()))
        except torch.errors.InplaceError as error:
            seen.append((type(error), "has been modified by an inplace operation" in str(error)))
        seen.append(x.tolist())
    return seen, step


@pytest.mark.parametrize("make", STEPS, ids=lambda make: make.__name__)
def test_what_backward_needs_is_not_written_unseen(make: Callable[[Any], Step]) -> None:
    expected, _ = outcomes(make, lambda step: step)
    got, compiled = outcomes(make, lambda step: Compiled(step, always=True, exact=True))
    assert got == expected
    assert compiled.walked >= 2, str(compiled.report())


@pytest.mark.parametrize("exact", [False, True])
def test_a_leaf_that_is_used_twice_gets_what_it_has_and_two_parts(exact: bool) -> None:
    """Outside of the step backward adds to the gradient that is there, part by part, as it does in eager mode."""

    def trained(compile: Callable[[Any], Any]) -> tuple[list[Any], Any]:
        torch.manual_seed(0)
        w = torch.nn.Parameter(torch.randn(64))
        step = compile(lambda x: ((w * x).tanh() * w * x).sum())
        seen = []
        for n in range(8):
            step(torch.randn(5, 64)).backward()
            assert w.grad is not None
            seen.append(w.grad.clone())
            if n == 5:
                w.grad = None
        return seen, step

    expected, _ = trained(lambda step: step)
    got, compiled = trained(lambda step: Compiled(step, always=True, exact=exact))
    assert compiled.walked >= 5, str(compiled.report())
    for ours, its in zip(got, expected, strict=True):
        assert torch.equal(ours, its) if exact else torch.allclose(ours, its, rtol=1e-5, atol=1e-5)
