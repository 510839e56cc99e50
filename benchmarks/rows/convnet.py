"""A small convolutional network on pictures of MNIST's size."""

from __future__ import annotations

from benchmarks.workload import fill, generator, normal, row, train

BATCH = 64
CLASSES = 10


@row("convnet")
def convnet(torch):
    """Two 3x3 convolutions (16 and 32 channels) with ReLU and max pooling, one Linear; SGD with momentum, batch 64."""
    nn = torch.nn
    random = generator(8)
    x = torch.from_numpy(normal(random, BATCH, 1, 28, 28))
    y = torch.from_numpy(random.integers(0, CLASSES, BATCH))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, CLASSES),
    )
    fill(torch, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return train(step, model.parameters())
