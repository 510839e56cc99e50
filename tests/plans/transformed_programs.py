"""Programs that ask for gradients of batches (`jacrev`, rows of seeds) and of moving tensors (`hessian`, products with it): rows beside `leaf_programs`."""

from __future__ import annotations

from typing import Any

import dynograd as torch
from dynograd import nn
from dynograd.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from tests.plans.programs import F, batch, network
from tests.plans.second_order_programs import on_batches, program


@program(10)
def rows_of_a_jacobian(compile: Any) -> Any:
    model = network(3, 4, 3)

    @compile
    def step(n: int, x: Any) -> Any:
        return jacrev(lambda x: model(x).tanh())(x).detach()

    return on_batches(step, (3,)), model


@program(10)
def rows_of_a_jacobian_without_history(compile: Any) -> Any:
    weight = batch(0, 3, 5)
    step = compile(vmap(jacrev(lambda x: (x @ weight).sin().cumsum(0))))
    return lambda n: step(batch(n, 4, 3)), []


@program(10)
def jacobians_of_parameters(compile: Any) -> Any:
    """As for neural tangent kernels: of each example, with an auxiliary result."""
    model = network(3, 4, 3)
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def called(weights: Any, x: Any) -> Any:
        out = functional_call(model, weights, (x,))
        return out, out.exp().sum()

    @compile
    def step(n: int, x: Any) -> Any:
        parts, aux = vmap(jacrev(called, has_aux=True), (None, 0))(weights, x)
        flat = torch.cat([part.flatten(2) for part in parts.values()], 2)
        return torch.einsum("nap,map->nma", flat, flat), aux

    return on_batches(step, (4, 3)), []


@program(10)
def jacobians_that_are_learnt(compile: Any) -> Any:
    """A penalty on the Jacobian: its rows are differentiated."""
    model = network(3, 4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(n: int, x: Any) -> Any:
        optimizer.zero_grad()
        penalty = jacrev(lambda x: model(x).tanh())(x).pow(2).sum()
        penalty.backward()
        optimizer.step()
        return penalty.detach()

    return on_batches(step, (3,)), [model, optimizer]


@program(10)
def jacobians_in_pieces(compile: Any) -> Any:
    weight = nn.Parameter(batch(0, 3, 7))

    @compile
    def step(n: int, x: Any, y: Any) -> Any:
        left, right = jacrev(lambda x, y: (x @ weight).tanh() * y, argnums=(0, 1), chunk_size=4)(x, y)
        return left.detach(), right.detach()

    return on_batches(step, (3,), (7,)), [weight]


@program(10)
def rows_of_seeds(compile: Any) -> Any:
    """`is_grads_batched`, as `Function`s of one's own and libraries of sensitivities ask."""
    weight = nn.Parameter(batch(0, 3))

    @compile
    def step(n: int, x: Any, seeds: Any) -> Any:
        out = (x * weight).sin()
        (rows,) = torch.autograd.grad(out, weight, seeds, is_grads_batched=True)
        return rows

    return on_batches(step, (4, 3), (5, 4, 3)), [weight]


@program(10)
def rows_of_seeds_that_are_differentiated(compile: Any) -> Any:
    weight = nn.Parameter(batch(0, 3))

    @compile
    def step(n: int, x: Any, seeds: Any) -> Any:
        weight.grad = None
        out = (x * weight).sin()
        (rows,) = torch.autograd.grad(out, weight, seeds, is_grads_batched=True, create_graph=True)
        rows.pow(2).sum().backward()
        return rows.detach(), weight.grad.clone()

    return on_batches(step, (4, 3), (5, 4, 3)), [weight]


@program(10)
def second_derivatives(compile: Any) -> Any:
    weight = batch(0, 4, 3)
    step = compile(hessian(lambda x: (x @ weight).tanh().square().sum()))
    return lambda n: step(batch(n, 4)), []


@program(10)
def second_derivatives_of_examples(compile: Any) -> Any:
    model = network(3, 4, 1)

    @compile
    def step(n: int, x: Any) -> Any:
        return vmap(hessian(lambda x: model(x).sigmoid().sum()))(x).detach()

    return on_batches(step, (4, 3)), model


@program(10)
def second_derivatives_by_two_backwards(compile: Any) -> Any:
    weight = batch(0, 4, 3)

    @compile
    def step(n: int, x: Any) -> Any:
        def f(x: Any) -> Any:
            return (x @ weight).softmax(0).log().square().sum()

        return jacrev(jacrev(f))(x), jacrev(grad(f))(x), jacfwd(grad(f))(x)

    return on_batches(step, (4,)), []


@program(10)
def products_with_second_derivatives(compile: Any) -> Any:
    model = network(3, 4, 2)
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}

    @compile
    def step(n: int, x: Any, y: Any) -> Any:
        def loss(weights: Any) -> Any:
            return F.mse_loss(functional_call(model, weights, (x,)).tanh(), y)

        ways = {name: weight.cos() for name, weight in weights.items()}
        return jvp(grad(loss), (weights,), (ways,))

    return on_batches(step, (4, 3), (4, 2)), []


@program(10)
def laplacians_that_are_learnt(compile: Any) -> Any:
    """A network that solves an equation: the trace of the second derivatives is part of what it learns."""
    model = network(2, 6, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def step(n: int, x: Any) -> Any:
        optimizer.zero_grad()
        second = vmap(hessian(lambda x: model(x).tanh().sum()))(x)
        loss = (second.diagonal(dim1=1, dim2=2).sum(1) - x.sin().prod(1)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return on_batches(step, (4, 2)), [model, optimizer]


@program(10)
def seeds_of_each_example(compile: Any) -> Any:
    @compile
    def step(n: int, x: Any, seeds: Any) -> Any:
        out, pull = vjp(lambda x: x.sin().cumsum(1), x)
        return out, vmap(lambda seed: pull(seed)[0])(seeds)

    return on_batches(step, (4, 3), (5, 4, 3)), []


@program(7)
def ways_within_second_derivatives(compile: Any) -> Any:
    """The walk ends within `jvp` and `vmap`: what moves, and what is batched, goes on as it is written."""
    weight = batch(0, 4, 3)

    @compile
    def step(n: int, x: Any) -> Any:
        def f(x: Any) -> Any:
            slopes = grad(lambda x: (x @ weight).tanh().square().sum())(x)
            return slopes.exp() if n % 4 == 3 else slopes.sin() * 2

        return jacfwd(f)(x), jacrev(f)(x)

    return on_batches(step, (4,)), []


@program(7)
def other_seeds(compile: Any) -> Any:
    """Now rows of seeds, now one of them."""

    @compile
    def step(n: int, x: Any, seeds: Any) -> Any:
        x = x.clone().requires_grad_()
        out = x.sin().exp()
        if n % 4 == 3:
            return torch.autograd.grad(out, x, seeds[0])[0]
        return torch.autograd.grad(out, x, seeds, is_grads_batched=True)[0]

    return on_batches(step, (3,), (5, 3)), []
