"""The everyday training step: a small multilayer perceptron with AdamW."""

from __future__ import annotations

from benchmarks.workload import Workload, fill, fingerprint, generator, normal, row, train

BATCH = 64
CLASSES = 10


def network(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    fill(torch, model)
    return model


@row("mlp")
def mlp(torch):
    """784-256-128-10, batch 64: forward, cross_entropy, backward, AdamW."""
    random = generator(3)
    x = torch.from_numpy(normal(random, BATCH, 784))
    y = torch.from_numpy(random.integers(0, CLASSES, BATCH))
    model = network(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return train(step, model.parameters())


@row("mlp.forward")
def mlp_forward(torch):
    """The same network answering: no gradients, eval mode."""
    x = torch.from_numpy(normal(generator(3), BATCH, 784))
    model = network(torch).eval()

    def step():
        with torch.no_grad():
            return model(x)

    return Workload(step, lambda: fingerprint(step()))
