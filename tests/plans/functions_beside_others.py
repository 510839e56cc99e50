"""Programs with `autograd.Function`s beside autocast, checkpoints, hooks of leaves and flags that change, which leave the record now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynograd as torch
from dynograd import nn
from dynograd.utils.checkpoint import checkpoint
from tests.plans.functions_in_programs import Noted, network, rows
from tests.plans.functions_of_users import FUNCTIONS
from tests.plans.programs import batch, watching

F = nn.functional
FUNCTIONS_BESIDE_OTHERS: dict[str, Callable[[Any], Any]] = {}


def program(function: Any) -> Any:
    FUNCTIONS_BESIDE_OTHERS[function.__name__] = function
    return function


def learning(compile: Any, run: Callable[..., Any]) -> Any:
    """A step `run(n, x, first, second, notes)`, which gives a loss, between `zero_grad` and the optimizer's step; also its layers and notes."""
    first, second = network()
    both = nn.ModuleList([first, second])
    optimizer = torch.optim.SGD(both.parameters(), lr=0.1, momentum=0.9)
    notes: list[Any] = []
    now = [0]

    @compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = run(now[0], x, first, second, notes)
        loss.backward()
        optimizer.step()
        return loss

    def call(n: int) -> Any:
        now[0] = n
        return step(batch(n, rows(n), 4))

    return call, watching(both, optimizer, notes), both, notes


def halved(n: int, at: Any) -> Any:
    """What a backward does; in some steps it is something else."""
    return lambda g, x: g * 0.5 if n not in at else g * 0.5 + 0.01 * x.cos()


# --- autocast ---------------------------------------------------------------------------------------------------------------------


@program
def under_autocast(compile: Any) -> Any:
    def run(n: int, x: Any, first: Any, second: Any, notes: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = Noted.apply(first(x), notes, halved(n, ()))
            out = second(hidden)
        return out.float().square().mean()

    return learning(compile, run)[:2]


@program
def under_autocast_another_way_behind(compile: Any) -> Any:
    def run(n: int, x: Any, first: Any, second: Any, notes: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            out = second(Noted.apply(first(x), notes, halved(n, ())))
        out = out.float()
        return (out.square() if n not in (5, 7) else out.square() + out.abs()).mean()

    return learning(compile, run)[:2]


@program
def under_autocast_another_way_within_backward(compile: Any) -> Any:
    def run(n: int, x: Any, first: Any, second: Any, notes: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = Noted.apply(first(x), notes, halved(n, (5,)))
            out = second(Noted.apply(hidden, notes, halved(n, (6,))))
        return out.float().square().mean()

    return learning(compile, run)[:2]


class _Product(torch.autograd.Function):
    """Products in forward and backward, under autocast as PyTorch's decorators say."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, g: Any) -> Any:
        x, weight = ctx.saved_tensors
        return g @ weight, g.t() @ x


@program
def with_casts_of_its_own(compile: Any) -> Any:
    def run(n: int, x: Any, first: Any, second: Any, notes: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            out = _Product.apply(first(x).relu(), second.weight)
        return out.float().square().mean() + second.bias.sum()

    return learning(compile, run)[:2]


@program
def autocast_now_and_then(compile: Any) -> Any:
    def run(n: int, x: Any, first: Any, second: Any, notes: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=n % 3 > 0):
            out = second(Noted.apply(first(x), notes, halved(n, ())))
        return out.float().square().mean()

    return learning(compile, run)[:2]


# --- checkpoints ------------------------------------------------------------------------------------------------------------------


def checkpointed(reentrant: bool, at: Any, behind: Any = ()) -> Any:
    """The part runs once in a compiled step: how often it has run is not compared."""

    def run(n: int, x: Any, first: Any, second: Any, notes: Any) -> Any:
        def part(x: Any) -> Any:
            return Noted.apply(first(x), [], halved(n, at)).tanh()

        hidden = checkpoint(part, x * 1.0 if not reentrant else x.clone().requires_grad_(), use_reentrant=reentrant)
        out = second(hidden)
        return (out.square() if n not in behind else out.abs()).mean()

    return run


@program
def within_a_checkpoint(compile: Any) -> Any:
    return learning(compile, checkpointed(False, ()))[:2]


@program
def within_a_checkpoint_another_way_behind(compile: Any) -> Any:
    return learning(compile, checkpointed(False, (), (5, 8)))[:2]


@program
def within_a_checkpoint_another_way_within_backward(compile: Any) -> Any:
    return learning(compile, checkpointed(False, (5, 8)))[:2]


@program
def within_a_reentrant_checkpoint(compile: Any) -> Any:
    return learning(compile, checkpointed(True, ()))[:2]


@program
def a_checkpoint_beside_it(compile: Any) -> Any:
    def run(n: int, x: Any, first: Any, second: Any, notes: Any) -> Any:
        hidden = checkpoint(lambda x: F.dropout(first(x).exp(), 0.2).tanh(), x, use_reentrant=False)
        return second(Noted.apply(hidden, notes, halved(n, (6,)))).square().mean()

    return learning(compile, run)[:2]


# --- hooks of leaves --------------------------------------------------------------------------------------------------------------


def hooked(register: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def make(compile: Any) -> Any:
        def run(n: int, x: Any, first: Any, second: Any, notes: Any) -> Any:
            return second(Noted.apply(first(x), notes, halved(n, (5,)))).square().mean()

        call, watched, both, notes = learning(compile, run)
        register(both, notes)
        return call, watched

    return make


FUNCTIONS_BESIDE_OTHERS["a_hook_that_looks"] = hooked(
    lambda both, notes: both[1].weight.register_hook(lambda g: notes.append(g.sum().item()))
)
FUNCTIONS_BESIDE_OTHERS["a_hook_that_halves"] = hooked(
    lambda both, notes: both[0].weight.register_hook(lambda g: g / 2)
)
FUNCTIONS_BESIDE_OTHERS["a_hook_behind"] = hooked(
    lambda both, notes: both[0].bias.register_post_accumulate_grad_hook(lambda p: p.grad.clamp_(-0.01, 0.01))
)


@program
def a_hook_that_comes_later(compile: Any) -> Any:
    def run(n: int, x: Any, first: Any, second: Any, notes: Any) -> Any:
        return second(Noted.apply(first(x), notes, halved(n, ()))).square().mean()

    call, watched, both, _ = learning(compile, run)
    hooks: list[Any] = []

    def hooking(n: int) -> Any:
        if n == 4:
            hooks.append(both[0].weight.register_hook(lambda g: g / 2))
        if n == 6:
            hooks.pop().remove()
        return call(n)

    return hooking, watched


# --- flags ------------------------------------------------------------------------------------------------------------------------


def with_flags(at: Any = (), behind: Any = (), read: bool = False) -> Callable[[Any], Any]:
    """The second layer is held fixed for one of two losses, each through a Function."""

    def make(compile: Any) -> Any:
        def run(n: int, x: Any, first: Any, second: Any, notes: Any) -> Any:
            second.weight.requires_grad_(False)
            element = second(Noted.apply(first(x), notes, halved(n, at))).square().mean()
            if read:
                notes.append(element.item())
            if n in behind:
                element = element + x.cos().mean()
            second.weight.requires_grad_(True)
            two = F.linear(Noted.apply(F.linear(x, first.weight.detach()), notes, halved(n, at)), second.weight)
            return element + two.abs().mean()

        return learning(compile, run)[:2]

    return make


FUNCTIONS_BESIDE_OTHERS["a_flag_changes"] = with_flags()
FUNCTIONS_BESIDE_OTHERS["a_flag_changes_and_another_way_within_backward"] = with_flags(at=(5, 7))
FUNCTIONS_BESIDE_OTHERS["a_flag_changes_and_another_way_between"] = with_flags(behind=(5, 7))
FUNCTIONS_BESIDE_OTHERS["a_flag_changes_behind_what_is_read"] = with_flags(at=(6,), read=True)


@program
def a_flag_changes_within_backward(compile: Any) -> Any:
    """As odd as it is: the leaf is fixed while the pass runs."""

    def run(n: int, x: Any, first: Any, second: Any, notes: Any) -> Any:
        def own(g: Any, x: Any) -> Any:
            second.bias.requires_grad_(False)
            second.bias.requires_grad_(True)
            return g * 0.5

        return second(Noted.apply(first(x), notes, own)).square().mean()

    return learning(compile, run)[:2]


@program
def adversaries(compile: Any) -> Any:
    """A critic behind a reversal is fixed and freed again, with a pass of its own each."""
    first, second = network()
    steps = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in (first, second)]
    now = [0]

    @compile
    def step(x: Any) -> Any:
        for parameter in second.parameters():
            parameter.requires_grad_(False)
        steps[0].zero_grad()
        loss = second(FUNCTIONS["Reversed"](first(x)).tanh()).mean()
        loss.backward()
        for parameter in second.parameters():
            parameter.requires_grad_(True)
        steps[1].zero_grad()
        other = second(FUNCTIONS["Clamped"](first(x).detach())).square().mean()
        if now[0] in (5, 7):
            other = other * 2
        other.backward()
        steps[0].step()
        steps[1].step()
        return loss, other

    def call(n: int) -> Any:
        now[0] = n
        return step(batch(n, rows(n), 4))

    return call, watching(first, second)
