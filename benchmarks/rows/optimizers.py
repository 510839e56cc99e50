"""The part of a training step after backward, alone: 150 tensors, 5 million parameters (or 7,200, `_small`), gradients that stay."""

from __future__ import annotations

from functools import partial

from benchmarks.workload import Workload, fingerprint, generator, normal, row

BLOCKS = 50
BLOCK = ((312, 320), (320,), (320,))
SMALL = ((16, 8), (8,), (8,))
"""Shapes of a block, of which there are 50."""


def parameters_of(torch, block=BLOCK):
    random = generator(14)
    parameters = []
    for _ in range(BLOCKS):
        for shape in block:
            parameter = torch.nn.Parameter(torch.from_numpy(normal(random, *shape)))
            parameter.grad = torch.from_numpy(normal(random, *shape))
            parameters.append(parameter)
    return parameters


def stepping(torch, make, block=BLOCK, steps=3):
    parameters = parameters_of(torch, block)
    optimizer = make(parameters)

    def checksum():
        for _ in range(steps):
            optimizer.step()
        return fingerprint(*parameters)

    return Workload(optimizer.step, checksum)


OPTIMIZERS = {
    "adamw": ("AdamW", {}),
    "sgd": ("SGD", {"momentum": 0.9}),
    "adam": ("Adam", {"amsgrad": True}),
    "nadam": ("NAdam", {}),
    "radam": ("RAdam", {}),
    "adamax": ("Adamax", {}),
    "adagrad": ("Adagrad", {}),
    "adadelta": ("Adadelta", {}),
    "rmsprop": ("RMSprop", {"momentum": 0.9, "centered": True}),
    "rprop": ("Rprop", {}),
    "asgd": ("ASGD", {}),
    "adafactor": ("Adafactor", {}),
}
for _name, (_class, _options) in OPTIMIZERS.items():

    def _make(torch, parameters, name=_class, options=_options):
        return getattr(torch.optim, name)(parameters, lr=1e-3, **options)

    row(f"optimizer.{_name}", compiles=False)(lambda torch, make=_make: stepping(torch, partial(make, torch)))
    row(f"optimizer.{_name}_small", compiles=False)(
        lambda torch, make=_make: stepping(torch, partial(make, torch), SMALL, 2)
    )


@row("optimizer.muon", compiles=False)
def muon(torch):
    """Of the 50 weights alone: vectors are not for it."""
    return stepping(torch, lambda parameters: torch.optim.Muon([p for p in parameters if p.ndim == 2], lr=1e-3))


@row("optimizer.lbfgs", compiles=False)
def lbfgs(torch):
    """Five iterations on the sum of squares of all parameters, with a history of ten."""
    parameters = parameters_of(torch, SMALL)
    optimizer = torch.optim.LBFGS(parameters, lr=0.1, max_iter=5, history_size=10)

    def closure():
        optimizer.zero_grad()
        loss = sum(((p - 1) ** 2).sum() + (p**4).sum() for p in parameters)
        loss.backward()
        return loss

    def checksum():
        optimizer.step(closure)
        return fingerprint(*parameters)

    return Workload(lambda: optimizer.step(closure), checksum)


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


@row("optimizer.sparse_adam", compiles=False)
def sparse_adam(torch):
    """A training step of a table of 200,000 rows of 64: 8,192 of them are looked up, summed, and updated by SparseAdam."""
    return table_steps(torch, torch.optim.SparseAdam)


@row("optimizer.sparse_sgd", compiles=False)
def sparse_sgd(torch):
    """The same with SGD."""
    return table_steps(torch, torch.optim.SGD)


def table_steps(torch, optimizer_class):
    random = generator(15)
    table = torch.nn.Embedding.from_pretrained(torch.from_numpy(normal(random, 200_000, 64)), freeze=False, sparse=True)
    index = torch.from_numpy(random.integers(0, 200_000, 8192))
    optimizer = optimizer_class(table.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        table(index).sum().backward()
        optimizer.step()

    def checksum():
        step()
        return fingerprint(table.weight)

    return Workload(step, checksum)
