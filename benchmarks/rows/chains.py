"""A chain of 20 small ops: what a library adds to NumPy's own time for each op."""

from __future__ import annotations

import numpy

from benchmarks.workload import (
    BACKWARD_BUDGET,
    FORWARD_BUDGET,
    Workload,
    compiled,
    fingerprint,
    generator,
    normal,
    row,
    train,
)

REPEATS = 5
OPERATIONS = 4 * REPEATS
SHAPES = ((8, 64), (4, 4))


def chain(x, w, c, tanh):
    """Four ops, five times over; runs on tensors of either library and on arrays."""
    y = x
    for _ in range(REPEATS):
        y = y * w
        y = y + c
        y = tanh(y)
        y = y - w
    return y


def operands(shape):
    random = generator()
    return normal(random, *shape), normal(random, *shape), normal(random, *shape), normal(random, *shape)


def leaves(torch, shape):
    x, w, c, g = [torch.from_numpy(array) for array in operands(shape)]
    x.requires_grad_()
    w.requires_grad_()
    return x, w, c, g


def without_grad(torch, shape):
    x, w, c, _ = leaves(torch, shape)

    def step():
        with torch.no_grad():
            return chain(x, w, c, torch.tanh)

    return Workload(step, lambda: fingerprint(step()))


def with_grad(torch, shape):
    x, w, c, _ = leaves(torch, shape)

    def step():
        return chain(x, w, c, torch.tanh)

    return Workload(step, lambda: fingerprint(step()))


def with_backward(torch, shape):
    x, w, c, g = leaves(torch, shape)

    def step():
        x.grad = None
        w.grad = None
        y = chain(x, w, c, torch.tanh)
        y.backward(g)
        return y

    return Workload(step, lambda: fingerprint(step(), x.grad, w.grad))


def forward_floor(shape):
    x, w, c, _ = operands(shape)

    def step():
        return chain(x, w, c, numpy.tanh)

    return Workload(step, lambda: fingerprint(step()))


def backward_floor(shape):
    """Forward and backward as one would write them by hand, each array operation once."""
    x, w, c, g = operands(shape)

    def step():
        y = x
        saved = []
        for _ in range(REPEATS):
            before = y
            y = numpy.tanh(y * w + c)
            saved.append((before, y))
            y = y - w
        x_grad, w_grad = g, None
        for before, after in reversed(saved):
            w_grad = -x_grad if w_grad is None else w_grad - x_grad
            x_grad = x_grad * (1 - after * after)
            w_grad = w_grad + x_grad * before
            x_grad = x_grad * w
        return y, x_grad, w_grad

    return Workload(step, lambda: fingerprint(*step()))


def register(shape):
    name = f"chain.{'x'.join(map(str, shape))}"
    kinds = [
        ("no_grad", without_grad, forward_floor, FORWARD_BUDGET),
        ("grad", with_grad, forward_floor, FORWARD_BUDGET),
        ("backward", with_backward, backward_floor, BACKWARD_BUDGET),
    ]
    for kind, build, floor, budget in kinds:
        row(
            f"{name}.{kind}",
            group="overhead",
            operations=OPERATIONS,
            floor=lambda floor=floor: floor(shape),
            budget=budget,
        )(lambda torch, build=build: build(torch, shape))


for shape in SHAPES:
    register(shape)


@row("chain.256k")
def large_chain(torch):
    """Seven elementwise ops on 256 K elements, forward and backward: what a loop over all of them at once saves."""
    x = torch.from_numpy(normal(generator(), 1 << 18)).requires_grad_()

    def loss_of():
        return (x * torch.sigmoid(1.702 * x) + 0.1 * torch.tanh(x) ** 2 - 0.5 * x).sum()

    forward = compiled(loss_of)

    def step():
        x.grad = None
        loss = forward()
        loss.backward()
        return loss

    return train(step, [x])
