"""Gradients of every example of a batch: `func.vmap` of `func.grad`."""

from __future__ import annotations

from benchmarks.rows.mlp import CLASSES, network
from benchmarks.workload import Workload, fill, fingerprint, generator, normal, row


def per_example(torch, model, x, y):
    """One gradient of every parameter for each row of `x`."""
    params = {name: parameter.detach() for name, parameter in model.named_parameters()}
    call, cross_entropy = torch.func.functional_call, torch.nn.functional.cross_entropy

    def loss(params, x, y):
        return cross_entropy(call(model, params, (x.unsqueeze(0),)), y.unsqueeze(0))

    slopes = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))

    def step():
        return slopes(params, x, y)

    return Workload(step, lambda: fingerprint(torch.cat([gradient.flatten() for gradient in step().values()])))


@row("per_example.mlp")
def mlp(torch):
    """A perceptron 784-256-128-10, batch 64."""
    random = generator(3)
    x = torch.from_numpy(normal(random, 64, 784))
    y = torch.from_numpy(random.integers(0, CLASSES, 64))
    return per_example(torch, network(torch, 784, 256, 128, CLASSES), x, y)


@row("per_example.cnn")
def cnn(torch):
    """Two convolutions and a linear layer on 28 x 28 images, batch 64."""
    nn, random = torch.nn, generator(3)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, CLASSES),
    )
    fill(torch, model)
    x = torch.from_numpy(normal(random, 64, 1, 28, 28))
    y = torch.from_numpy(random.integers(0, CLASSES, 64))
    return per_example(torch, model, x, y)
