"""Programs that have gradients as values. Each is a function of `compile` that gives (step, watched), as those of `programs.py`; `WALKED` says how many of
twelve calls go along the record at least.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynograd as torch
from dynograd import nn
from tests.plans.programs import F, batch, network

grad = torch.autograd.grad
CALLS = 12
PROGRAMS: dict[str, Callable[[Any], tuple[Callable[[int], Any], Any]]] = {}
WALKED: dict[str, int] = {}


def program(walked: int) -> Callable[[Any], Any]:
    def enter(function: Any) -> Any:
        PROGRAMS[function.__name__], WALKED[function.__name__] = function, walked
        return function

    return enter


def weights_of(*sizes: int) -> list[Any]:
    return [parameter for layer in network(*sizes) for parameter in layer.parameters()]


def predicted(x: Any, weights: Any) -> Any:
    for place in range(0, len(weights) - 2, 2):
        x = F.linear(x, weights[place], weights[place + 1]).tanh()
    return F.linear(x, weights[-2], weights[-1])


def on_batches(step: Any, *shapes: tuple[int, ...]) -> Callable[[int], Any]:
    return lambda n: step(n, *[batch(n, *shape, seed=seed) for seed, shape in enumerate(shapes)])


def adapted(steps: int, create_graph: bool, classes: int = 0) -> Callable[[Any], Any]:
    """MAML: an outer loss of weights that inner steps have changed."""

    def make(compile: Any) -> Any:
        weights = weights_of(3, 6, classes or 2)
        optimizer = torch.optim.Adam(weights, lr=1e-2)

        def loss_of(x: Any, y: Any, fast: Any) -> Any:
            out = predicted(x, fast)
            return F.cross_entropy(out, y) if classes else F.mse_loss(out, y)

        @compile
        def step(xs: Any, ys: Any) -> Any:
            losses = []
            for x, y in zip(xs, ys):
                fast = weights
                for _ in range(steps):
                    slopes = grad(loss_of(x[:3], y[:3], fast), fast, create_graph=create_graph)
                    fast = [weight - 0.1 * slope for weight, slope in zip(fast, slopes)]
                losses.append(loss_of(x[3:], y[3:], fast))
            loss = torch.stack(losses).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        def run(n: int) -> Any:
            return step(batch(n, 2, 6, 3), batch(n, 2, 6, classes=classes) if classes else batch(n, 2, 6, 2, seed=1))

        return run, [weights, optimizer]

    return make


for title, make in {
    "maml_of_two_steps": adapted(2, True),
    "maml_of_first_order": adapted(2, False),
    "maml_of_classes": adapted(1, True, 4),
}.items():
    PROGRAMS[title], WALKED[title] = make, 10


@program(10)
def penalty_of_a_slope(compile: Any) -> Any:
    critic = network(4, 8, 1)

    @compile
    def step(n: int, real: Any, fake: Any) -> Any:
        between = (real * 0.3 + fake * 0.7).requires_grad_()
        (slope,) = grad(critic(between).sum(), between, create_graph=True)
        loss = critic(fake).mean() - critic(real).mean() + 10 * (slope.norm(2, 1) - 1).pow(2).mean()
        critic.zero_grad()
        loss.backward()
        return loss, slope.detach()

    return on_batches(step, (5, 4), (5, 4)), critic


@program(10)
def products_with_the_hessian(compile: Any) -> Any:
    weights = weights_of(3, 5, 1)

    @compile
    def step(n: int, x: Any) -> Any:
        slopes = grad(predicted(x, weights).pow(2).sum(), weights, create_graph=True)
        total = sum([(slope * slope.detach()).sum() for slope in slopes])
        return grad(total, weights)

    return on_batches(step, (4, 3)), weights


@program(10)
def third_derivatives(compile: Any) -> Any:
    @compile
    def step(n: int, x: Any) -> Any:
        x = x.detach().requires_grad_()
        (first,) = grad((x.sin() * x).sum(), x, create_graph=True)
        (second,) = grad(first.sum(), x, create_graph=True)
        (third,) = grad(second.pow(2).sum(), x)
        return first.detach(), second.detach(), third

    return on_batches(step, (4, 3)), []


@program(10)
def two_losses(compile: Any) -> Any:
    model = network(3, 4, 2)
    parameters = list(model.parameters())

    @compile
    def step(n: int, x: Any, y: Any) -> Any:
        h = model(x)
        first, second = h.pow(2).mean(), (h * y).sum()
        kept = grad(first, parameters, retain_graph=True)
        together = grad([first, second], parameters, [torch.ones(()), torch.full((), 0.5)])
        return kept, together

    return on_batches(step, (5, 3), (5, 2)), model


@program(10)
def adversarial_examples(compile: Any) -> Any:
    model = network(3, 4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(x: Any, y: Any) -> Any:
        start = x.clone().requires_grad_()
        (slope,) = grad(F.cross_entropy(model(start), y), start)
        moved = (start + 0.1 * slope.sign()).detach()
        loss = F.cross_entropy(model(moved), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, moved

    return lambda n: step(batch(n, 6, 3), batch(n, 6, classes=2)), [model, optimizer]


@program(10)
def attack_in_steps(compile: Any) -> Any:
    model = network(3, 4, 2)

    @compile
    def step(x: Any, y: Any) -> Any:
        moved = x
        for _ in range(3):
            moved = moved.detach().requires_grad_()
            (slope,) = grad(F.cross_entropy(model(moved), y), moved)
            moved = torch.clamp(moved + 0.1 * slope.sign(), x - 0.2, x + 0.2)
        return moved.detach()

    return lambda n: step(batch(n, 6, 3), batch(n, 6, classes=2)), model


@program(10)
def seeds_of_the_program(compile: Any) -> Any:
    model = network(3, 4, 2)
    parameters = list(model.parameters())

    @compile
    def step(n: int, x: Any, y: Any) -> Any:
        out = model(x)
        through = grad(out, parameters, y, retain_graph=True)
        model.zero_grad()
        out.backward(y * 0.5)
        return through, [parameter.grad for parameter in parameters]

    return on_batches(step, (5, 3), (5, 2)), model


@program(10)
def several_roots(compile: Any) -> Any:
    model = network(3, 4, 2)

    @compile
    def step(n: int, x: Any) -> Any:
        model.zero_grad()
        out = model(x)
        torch.autograd.backward([out.sum(), out.pow(2).mean()])
        return out.detach()

    return on_batches(step, (5, 3)), model


@program(5)
def roots_that_change(compile: Any) -> Any:
    model = network(3, 4, 2)

    @compile
    def step(n: int, x: Any) -> Any:
        model.zero_grad()
        out = model(x).sum()
        if n % 3 == 0:
            out.backward()
        elif n % 3 == 1:
            out.backward(torch.full((), 0.5 + n))
        else:
            torch.autograd.backward([out, out])
        return out.detach()

    return on_batches(step, (5, 3)), model


@program(10)
def what_is_not_used(compile: Any) -> Any:
    used, unused = nn.Parameter(batch(0, 3)), nn.Parameter(batch(1, 3))

    @compile
    def step(n: int, x: Any) -> Any:
        loss = (x * used).sum()
        first = grad(loss, [used, unused], retain_graph=True, allow_unused=True)
        second = grad(loss, [used, unused], materialize_grads=True)
        return first, [slope * 2 for slope in second]

    return on_batches(step, (4, 3)), [used, unused]


@program(10)
def chosen_leaves(compile: Any) -> Any:
    model = network(3, 4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(n: int, x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward(inputs=list(model[2].parameters()))
        optimizer.step()
        return loss

    return on_batches(step, (5, 3)), [model, optimizer]


@program(10)
def gradients_that_are_assigned(compile: Any) -> Any:
    model = network(3, 4, 2)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=1e-2)

    @compile
    def step(n: int, x: Any) -> Any:
        loss = model(x).pow(2).mean()
        for parameter, slope in zip(parameters, grad(loss, parameters)):
            parameter.grad = slope * 0.5
        optimizer.step()
        return loss

    return on_batches(step, (5, 3)), [model, optimizer]


@program(0)  # a write into a parameter reads what is written
def gradients_that_are_written(compile: Any) -> Any:
    model = network(3, 4, 2)
    parameters = list(model.parameters())

    @compile
    def step(n: int, x: Any) -> Any:
        slopes = grad(model(x).pow(2).mean(), parameters)
        with torch.no_grad():
            for parameter, slope in zip(parameters, slopes):
                parameter.sub_(slope, alpha=0.1)
        return [slope.sum() for slope in slopes]

    return on_batches(step, (5, 3)), model


@program(8)
def decided_by_a_gradient(compile: Any) -> Any:
    weight = nn.Parameter(batch(0, 3))

    @compile
    def step(n: int, x: Any) -> Any:
        (slope,) = grad((x * weight).pow(2).mean(), weight, create_graph=True)
        scale = 0.5 if slope.norm().item() > 2 else 2.0
        weight.grad = None
        (slope * scale).pow(2).sum().backward()
        return scale, slope.detach()

    return on_batches(step, (4, 3)), weight


@program(10)
def noise_in_a_gradient(compile: Any) -> Any:
    weights = weights_of(4, 6, 2)

    @compile
    def step(n: int, x: Any) -> Any:
        h = F.dropout(F.linear(x, weights[0], weights[1]).tanh(), 0.4)
        loss = F.linear(h, weights[2], weights[3]).pow(2).mean()
        slopes = grad(loss, weights, create_graph=True)
        for weight in weights:
            weight.grad = None
        sum([slope.pow(2).sum() for slope in slopes]).backward()
        return loss.detach(), torch.rand(2)

    return on_batches(step, (5, 4)), weights


@program(8)
def sizes_that_change(compile: Any) -> Any:
    weights = weights_of(3, 4, 1)

    @compile
    def step(x: Any) -> Any:
        slopes = grad(predicted(x, weights).pow(2).mean(), weights, create_graph=True)
        return grad(sum([slope.pow(2).sum() for slope in slopes]), weights)

    return lambda n: step(batch(n, 3 + n % 2, 3)), weights


@program(7)
def ways_behind_a_gradient(compile: Any) -> Any:
    weights = weights_of(3, 4, 1)

    @compile
    def step(n: int, x: Any) -> Any:
        slopes = grad(predicted(x, weights).pow(2).mean(), weights, create_graph=True)
        fast = [weight - 0.1 * slope for weight, slope in zip(weights, slopes)]
        out = predicted(x, fast)
        loss = out.pow(2).mean() if n % 4 else out.abs().mean()
        for weight in weights:
            weight.grad = None
        loss.backward()
        return loss

    return on_batches(step, (4, 3)), weights


@program(4)
def the_graph_is_used_up(compile: Any) -> Any:
    weight = nn.Parameter(batch(0, 3))

    @compile
    def step(n: int, x: Any) -> Any:
        loss = (x * weight).pow(2).mean()
        (slope,) = grad(loss, weight)
        if n % 5 == 4:
            loss.backward()
        return slope

    return on_batches(step, (4, 3)), weight


@program(0)
def a_leaf_that_is_kept(compile: Any) -> Any:
    weight = nn.Parameter(batch(0, 3))

    @compile
    def step(n: int, x: Any) -> Any:
        leaf = (x * 2).requires_grad_()
        return leaf, (leaf * weight).pow(2).sum()

    def run(n: int) -> Any:
        leaf, loss = step(n, batch(n, 4, 3))
        weight.grad = None
        loss.backward()
        return leaf, leaf.grad, loss

    return run, weight


@program(10)
def differentiated_twice_outside(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    compiled = compile(model)

    def run(n: int) -> Any:
        x = batch(n, 4, 3).requires_grad_()
        (slope,) = grad(compiled(x).sum(), x, create_graph=True)
        model.zero_grad()
        slope.pow(2).sum().backward()
        return slope.detach(), x.grad

    return run, model


@program(10)
def gradients_in_a_module(compile: Any) -> Any:
    class Energy(nn.Module):
        """A force is the slope of an energy: its loss differentiates it again, outside."""

        def __init__(self) -> None:
            super().__init__()
            self.net = network(3, 5, 1)

        def forward(self, x: Any) -> Any:
            x = x.detach().requires_grad_()
            energy = self.net[2](self.net[0](x).tanh()).sum()
            return energy.detach(), grad(energy, x, create_graph=True)[0]

    model = Energy()
    compiled = compile(model)

    def run(n: int) -> Any:
        energy, force = compiled(batch(n, 4, 3))
        model.zero_grad()
        force.pow(2).sum().backward()
        return energy, force.detach()

    return run, model


@program(10)
def gradients_of_functions(compile: Any) -> Any:
    model = network(3, 4, 2)
    parameters = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(torch.func.functional_call(model, parameters, (x,)), y)

    step = compile(torch.func.grad_and_value(loss))

    def run(n: int) -> Any:
        slopes, value = step(parameters, batch(n, 5, 3), batch(n, 5, classes=2))
        for name, slope in slopes.items():
            parameters[name] = parameters[name] - 0.1 * slope
        return slopes, value

    return run, model


@program(10)
def products_with_a_jacobian(compile: Any) -> Any:
    model = network(3, 4, 2)

    @compile
    def step(n: int, x: Any, y: Any) -> Any:
        out, pull = torch.func.vjp(lambda x: model(x).tanh(), x)
        (through,) = pull(y)
        return out.detach(), through.detach()

    return on_batches(step, (5, 3), (5, 2)), model


@program(10)
def hooks_of_parameters(compile: Any) -> Any:
    model = network(3, 4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    told: list[Any] = []
    model[0].weight.register_hook(lambda g: g * 0.5)
    model[2].weight.register_hook(lambda g: told.append(g.sum().item()))
    model[2].bias.register_post_accumulate_grad_hook(lambda leaf: leaf.grad.mul_(2))

    @compile
    def step(n: int, x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        total = sum([parameter.grad.sum() for parameter in model.parameters()])
        optimizer.step()
        return loss, total, list(told)

    return on_batches(step, (4, 3)), [model, optimizer]


@program(8)
def optimizers_in_hooks(compile: Any) -> Any:
    """Each parameter is changed as soon as it has its gradient, and the gradient goes."""
    model = network(3, 4, 2)
    optimizers = {parameter: torch.optim.Adam([parameter], lr=0.1) for parameter in model.parameters()}

    def update(parameter: Any) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)

    @compile
    def step(n: int, x: Any) -> Any:
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss, model(x).sum().detach()

    return on_batches(step, (4, 3)), [model, *optimizers.values()]


@program(3)
def hooks_that_come_and_go(compile: Any) -> Any:
    model = network(3, 4, 2)
    handles: list[Any] = []

    @compile
    def step(n: int, x: Any) -> Any:
        model.zero_grad(set_to_none=n % 2 == 0)
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    def run(n: int) -> Any:
        if n in (3, 8):
            handles.append(model[0].weight.register_hook(lambda g: g * n))
        elif n == 6:
            handles.pop().remove()
        return step(n, batch(n, 4, 3))

    return run, model


@program(0)
def hooks_of_results(compile: Any) -> Any:
    model = network(3, 4, 2)

    @compile
    def step(n: int, x: Any) -> Any:
        model.zero_grad()
        h = model[0](x)
        h.register_hook(lambda g: g * 2)
        loss = model[2](model[1](h)).sum()
        loss.backward()
        return loss

    return on_batches(step, (4, 3)), model


@program(10)
def hooks_of_a_forward(compile: Any) -> Any:
    model = network(3, 4, 2)
    model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    model[1].register_forward_hook(lambda module, args, out: out + args[0].mean())

    @compile
    def step(n: int, x: Any) -> Any:
        model.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    return on_batches(step, (4, 3)), model


@program(8)
def an_error_in_a_hook(compile: Any) -> Any:
    model = network(3, 4, 2)

    def hook(g: Any) -> None:
        if torch.initial_seed() % 5 == 3:
            raise ValueError("a hook says no")

    model[0].weight.register_hook(hook)

    @compile
    def step(n: int, x: Any) -> Any:
        model.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    return on_batches(step, (4, 3)), model
