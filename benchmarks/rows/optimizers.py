"""The part of a training step after backward, alone: 150 tensors, 5 million parameters, gradients that stay."""

from __future__ import annotations

from benchmarks.workload import Workload, fingerprint, generator, normal, row

BLOCKS = 50
"""A block is a weight of 312 x 320 and two vectors of 320."""


def parameters_of(torch):
    random = generator(14)
    made = []
    for _ in range(BLOCKS):
        for shape in ((312, 320), (320,), (320,)):
            parameter = torch.nn.Parameter(torch.from_numpy(normal(random, *shape)))
            parameter.grad = torch.from_numpy(normal(random, *shape))
            made.append(parameter)
    return made


def stepping(torch, make):
    parameters = parameters_of(torch)
    optimizer = make(parameters)

    def checksum():
        for _ in range(3):
            optimizer.step()
        return fingerprint(*parameters)

    return Workload(optimizer.step, checksum)


row("optimizer.adamw", compiles=False)(
    lambda torch: stepping(torch, lambda parameters: torch.optim.AdamW(parameters, lr=1e-3))
)
row("optimizer.sgd", compiles=False)(
    lambda torch: stepping(torch, lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9))
)


@row("optimizer.clip", compiles=False)
def clip(torch):
    """clip_grad_norm_ to 1; the coefficient stays just below 1, so that every call scales."""
    parameters = parameters_of(torch)

    def step():
        return torch.nn.utils.clip_grad_norm_(parameters, 1.0)

    return Workload(step, lambda: fingerprint(step(), *[parameter.grad for parameter in parameters]))


@row("optimizer.zero_grad", compiles=False)
def zero_grad(torch):
    """zero_grad, which forgets the gradients; giving them back before is part of the step."""
    parameters = parameters_of(torch)
    gradients = [parameter.grad for parameter in parameters]
    optimizer = torch.optim.SGD(parameters, lr=1e-3)

    def step():
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        optimizer.zero_grad()

    def checksum():
        step()
        return fingerprint(float(sum(parameter.grad is None for parameter in parameters)))

    return Workload(step, checksum)


@row("optimizer.zero_fill", compiles=False)
def zero_fill(torch):
    """zero_grad(set_to_none=False), which writes zeros over them."""
    parameters = parameters_of(torch)
    optimizer = torch.optim.SGD(parameters, lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=False)

    def checksum():
        step()
        return fingerprint(*[parameter.grad for parameter in parameters])

    return Workload(step, checksum)
