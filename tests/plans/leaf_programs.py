"""Programs whose leaves get gradients that are differentiated, or that are leaves of the step itself: rows beside those of `second_order_programs`."""

from __future__ import annotations

from typing import Any

import dynograd as torch
from dynograd import nn
from tests.plans.programs import F, batch, network
from tests.plans.second_order_programs import grad, on_batches, program


@program(10)
def penalty_of_all_gradients(compile: Any) -> Any:
    model = network(3, 4, 2)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=1e-2)

    @compile
    def step(n: int, x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x).tanh(), y)
        loss.backward(create_graph=True)
        penalty = sum([parameter.grad.pow(2).sum() for parameter in parameters])
        optimizer.zero_grad()
        (loss + 0.1 * penalty).backward()
        optimizer.step()
        return loss.detach(), penalty.detach()

    return on_batches(step, (4, 3), (4, 2)), [model, optimizer]


@program(10)
def gradients_beside_differentiated_ones(compile: Any) -> Any:
    """What is differentiated stays in `.grad`, and the second backward is added to it."""
    model = network(3, 4, 2)
    parameters = list(model.parameters())

    @compile
    def step(n: int, x: Any) -> Any:
        model.zero_grad()
        model(x).tanh().pow(2).mean().backward(create_graph=True)
        sum([parameter.grad.pow(2).sum() for parameter in parameters]).backward()
        seen = [parameter.grad.detach().clone() for parameter in parameters]
        model.zero_grad()
        return seen

    return on_batches(step, (4, 3)), model


@program(10)
def twice_into_one_gradient(compile: Any) -> Any:
    weight = nn.Parameter(batch(0, 3))

    @compile
    def step(n: int, x: Any) -> Any:
        weight.grad = None
        out = (x * weight).sin()
        out.pow(2).mean().backward(create_graph=True)
        out.exp().mean().backward(create_graph=True)
        total = weight.grad.pow(3).sum()
        (slope,) = grad(total, weight)
        return total.detach(), slope, weight.grad.detach().clone()

    return on_batches(step, (4, 3)), []


@program(9)
def ways_behind_all_gradients(compile: Any) -> Any:
    model = network(3, 4, 1)
    parameters = list(model.parameters())

    @compile
    def step(n: int, x: Any) -> Any:
        loss = model(x).pow(2).mean()
        loss.backward(create_graph=True)
        total = sum([parameter.grad.pow(2).sum() for parameter in parameters])
        if n % 4 == 3:
            total = total + parameters[0].grad.abs().sum()
        model.zero_grad()
        total.backward()
        return total.detach()

    return on_batches(step, (4, 3)), model


@program(10)
def hooks_that_are_differentiated(compile: Any) -> Any:
    model = network(3, 4, 2)
    parameters = list(model.parameters())
    told: list[Any] = []
    model[0].weight.register_hook(lambda g: g * g.detach().abs())
    model[2].weight.register_post_accumulate_grad_hook(lambda leaf: told.append(leaf.grad.shape))

    @compile
    def step(n: int, x: Any) -> Any:
        for parameter in parameters:
            parameter.grad = None
        model(x).tanh().pow(2).mean().backward(create_graph=True)
        slopes = grad(sum([parameter.grad.pow(2).sum() for parameter in parameters]), x_weights)
        for parameter in parameters:
            parameter.grad = None
        return slopes, len(told)

    x_weights = [model[0].bias, model[2].bias]
    return on_batches(step, (4, 3)), model


@program(10)
def hooks_of_values(compile: Any) -> Any:
    """`autograd.grad` runs hooks of the leaves that it is asked for."""
    weight = nn.Parameter(batch(0, 3))
    told: list[int] = []
    weight.register_hook(lambda g: told.append(len(told)) or g * 0.5)
    weight.register_hook(lambda g: told.append(2))

    @compile
    def step(n: int, x: Any) -> Any:
        out = (x * weight).sin().sum()
        (first,) = grad(out, weight, retain_graph=True)
        (second,) = grad(out, weight, create_graph=True)
        return first, second.detach(), len(told)

    return on_batches(step, (4, 3)), []


@program(10)
def adversarial_examples(compile: Any) -> Any:
    model = network(3, 4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(n: int, x: Any, y: Any) -> Any:
        x = (x * 2).requires_grad_()
        F.mse_loss(model(x), y).backward()
        other = (x + 0.1 * x.grad.sign()).detach()
        optimizer.zero_grad()
        loss = F.mse_loss(model(other), y)
        loss.backward()
        optimizer.step()
        return loss, x.grad

    return on_batches(step, (4, 3), (4, 2)), [model, optimizer]


@program(9)
def gradients_of_examples_are_added(compile: Any) -> Any:
    """Each backward adds to gradients of parameters of earlier steps, and to those of a leaf of this step."""
    model = network(3, 4, 2)

    @compile
    def step(n: int, x: Any) -> Any:
        x = x.clone().requires_grad_()
        out = model(x)
        out.pow(2).mean().backward(retain_graph=True)
        first = x.grad.clone()
        out.sin().mean().backward()
        return first, x.grad

    return on_batches(step, (4, 3)), model


@program(10)
def penalties_of_examples(compile: Any) -> Any:
    """A critic, whose slope at its inputs is to be one: by `.grad` of these."""
    critic = network(3, 6, 1)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)

    @compile
    def step(n: int, x: Any) -> Any:
        x = (x * 0.5).requires_grad_()
        critic(x).sum().backward(create_graph=True)
        penalty = (x.grad.norm(dim=1) - 1).pow(2).mean()
        optimizer.zero_grad()
        penalty.backward()
        optimizer.step()
        return penalty

    return on_batches(step, (4, 3)), [critic, optimizer]


@program(10)
def leaves_that_are_kept(compile: Any) -> Any:
    weight = nn.Parameter(batch(0, 3))
    kept: list[Any] = []

    @compile
    def step(n: int, x: Any) -> Any:
        x = (x * 1).requires_grad_()
        (x * weight).sin().sum().backward()
        kept.append(x)
        return x.grad.sum()

    return on_batches(step, (4, 3)), [weight, kept]


@program(10)
def gradients_of_each_example(compile: Any) -> Any:
    """Clipped one by one, as in differentially private training."""
    model = network(3, 4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(torch.func.functional_call(model, parameters, (x,)).tanh(), y)

    slopes = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))

    @compile
    def step(n: int, x: Any, y: Any) -> Any:
        parameters = dict(model.named_parameters())
        per_example = slopes({name: parameter.detach() for name, parameter in parameters.items()}, x, y)
        for name, parameter in parameters.items():
            each = per_example[name].flatten(1)
            parameter.grad = (each / each.norm(dim=1, keepdim=True).clamp(min=1)).mean(0).view_as(parameter)
        optimizer.step()
        return per_example

    return on_batches(step, (5, 3), (5, 2)), [model, optimizer]


@program(10)
def gradients_of_each_example_as_they_are(compile: Any) -> Any:
    model = network(3, 4, 2)
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(torch.func.functional_call(model, parameters, (x,)), y)

    step = compile(torch.func.vmap(torch.func.grad_and_value(loss), in_dims=(None, 0, 0)))
    return lambda n: step(parameters, batch(n, 5, 3), batch(n, 5, 2, seed=1)), model


@program(10)
def models_side_by_side(compile: Any) -> Any:
    models = [network(3, 4, 2) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)

    def one(parameters: Any, buffers: Any, x: Any) -> Any:
        return torch.func.functional_call(models[0], (parameters, buffers), (x,))

    @compile
    def step(n: int, x: Any) -> Any:
        return torch.func.vmap(one, in_dims=(0, 0, None))(parameters, buffers, x).detach()

    return on_batches(step, (4, 3)), []


@program(10)
def tangents(compile: Any) -> Any:
    model = network(3, 4, 2)

    @compile
    def step(n: int, x: Any, way: Any) -> Any:
        with torch.no_grad():
            return torch.func.jvp(lambda x: model(x).tanh().logsumexp(1), (x,), (way,))

    return on_batches(step, (4, 3), (4, 3)), model


@program(10)
def tangents_that_are_learnt(compile: Any) -> Any:
    model = network(3, 4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(n: int, x: Any, way: Any) -> Any:
        optimizer.zero_grad()
        out, moved = torch.func.jvp(lambda x: model(x).tanh(), (x,), (way,))
        loss = out.pow(2).mean() + moved.pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return on_batches(step, (4, 3), (4, 3)), [model, optimizer]


@program(8)
def columns_of_a_jacobian(compile: Any) -> Any:
    model = network(3, 4, 2)

    @compile
    def step(n: int, x: Any) -> Any:
        return torch.func.jacfwd(lambda x: model(x).tanh())(x).detach()

    return on_batches(step, (3,)), model


@program(0)
def a_way_out_amid_tangents(compile: Any) -> Any:
    """Where the walk ends within `jvp`, backward passes in it still see what moves."""
    weight = nn.Parameter(batch(0, 3))

    @compile
    def step(n: int, x: Any, way: Any) -> Any:
        def slope(x: Any) -> Any:
            out = (x * weight).sin()
            if n % 4 == 3:
                out = out.abs() + x
            return torch.func.grad(lambda y: (y.exp() * out).sum())(x)

        return [value.detach() for value in torch.func.jvp(slope, (x,), (way,))]

    return on_batches(step, (4, 3), (4, 3)), []
