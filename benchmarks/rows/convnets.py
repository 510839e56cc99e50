"""Convolutional networks: a small one and LeNet on pictures of MNIST's size, ResNet-20 on CIFAR's."""

from __future__ import annotations

from benchmarks.workload import fill, generator, normal, row, train_on

CLASSES = 10


def training(torch, model, batch, *picture, channels_last=False):
    """Forward, cross_entropy, backward, SGD with momentum."""
    random = generator(8)
    x = torch.from_numpy(normal(random, batch, *picture))
    y = torch.from_numpy(random.integers(0, CLASSES, batch))
    fill(torch, model)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    cross_entropy = torch.nn.functional.cross_entropy
    return train_on([(x, y)], lambda x, y: cross_entropy(model(x), y), optimizer, model.parameters())


@row("convnet")
def convnet(torch):
    """Two 3x3 convolutions (16 and 32 channels) with ReLU and max pooling, one Linear; batch 64."""
    nn = torch.nn
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
    return training(torch, model, 64, 1, 28, 28)


@row("lenet")
def lenet(torch):
    """LeNet-5: 5x5 convolutions (6 and 16 channels), pools, three Linear; batch 128."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, CLASSES),
    )
    return training(torch, model, 128, 1, 28, 28)


def resnet20(torch, blocks=3):
    """He et al. 2016 for CIFAR: 3x3 convolutions of 16, 32 and 64 channels, three blocks each; 1x1 convolutions where the shape changes."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
            self.norm1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(outputs)
            self.shortcut = nn.Identity()
            if inputs != outputs:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x):
            y = torch.relu(self.norm1(self.conv1(x)))
            return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))

    layers = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for outputs in (16, 32, 64):
        for _ in range(blocks):
            layers.append(Block(inputs, outputs, 2 if inputs != outputs else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


# A value that one library rounds below zero and the other above takes another branch of ReLU, and 20 layers spread that: both
# lie as far from a computation in float64, from the first step on, as from each other.
row("resnet20", tolerance=0.05)(lambda torch: training(torch, resnet20(torch), 32, 3, 32, 32))
row("resnet20.channels_last", tolerance=0.05)(
    lambda torch: training(torch, resnet20(torch), 32, 3, 32, 32, channels_last=True)
)
