"""The everyday training step: a multilayer perceptron with AdamW."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.workload import Workload, compiled, fill, fingerprint, generator, normal, row, train_on

BATCH = 64
CLASSES = 10


def network(torch, *sizes):
    """Linear layers with ReLU between them."""
    nn = torch.nn
    layers = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    fill(torch, model)
    return model


def training(torch, batch, *sizes):
    """Forward, cross_entropy, backward, AdamW."""
    random = generator(3)
    x = torch.from_numpy(normal(random, batch, sizes[0]))
    y = torch.from_numpy(random.integers(0, sizes[-1], batch))
    model = network(torch, *sizes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    cross_entropy = torch.nn.functional.cross_entropy
    return train_on([(x, y)], lambda x, y: cross_entropy(model(x), y), optimizer, model.parameters())


row("mlp")(lambda torch: training(torch, BATCH, 784, 256, 128, CLASSES))
row("mlp.small")(lambda torch: training(torch, 16, 64, 64, 64, CLASSES))
for _batch in (1, 4, 16, 64, 256, 1024):
    row(f"mlp.batch{_batch}", group="batches")(
        lambda torch, _batch=_batch: training(torch, _batch, 784, 256, 128, CLASSES)
    )


@row("mlp.forward")
def mlp_forward(torch):
    """The larger network answering: no gradients, eval mode."""
    x = torch.from_numpy(normal(generator(3), BATCH, 784))
    model = network(torch, 784, 256, 128, CLASSES).eval()
    answer = compiled(model, alone=True)

    def step():
        with torch.no_grad():
            return answer(x)

    return Workload(step, lambda: fingerprint(step()))
