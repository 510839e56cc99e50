"""A convolutional network on images, with transforms, a sampler and a loader of its own batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import Tensor, nn
from dynograd.utils.data import DataLoader, Dataset, Sampler, Subset, TensorDataset, random_split

Transform = Callable[[Tensor], Tensor]


class Images(Dataset[tuple[Tensor, int]]):
    classes: Sequence[str] = ("dark", "bright")

    def __init__(self, count: int, transform: Transform | None = None) -> None:
        pixels = np.random.default_rng(0).random((count, 3, 8, 8), dtype=np.float32)
        self.pixels = torch.from_numpy(pixels)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.pixels[index]
        if self.transform is not None:
            image = self.transform(image)
        return image, int(image.mean() > 0.5)


class EvenFirst(Sampler[int]):
    def __init__(self, source: Dataset[tuple[Tensor, int]], count: int) -> None:
        self.source, self.count = source, count

    def __iter__(self) -> Iterator[int]:
        yield from range(0, self.count, 2)
        yield from range(1, self.count, 2)

    def __len__(self) -> int:
        return self.count


class Residual(nn.Module):
    def __init__(self, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, stride=stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity() if stride == 1 else nn.AvgPool2d(stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)) + self.shortcut(x), inplace=True)


class Net(nn.Module):
    def __init__(self, channels: int = 8, depth: int = 2, classes: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, (3, 3), padding="same")
        self.body = nn.Sequential(*[Residual(channels, stride=1 + i % 2) for i in range(depth)])
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.head = nn.Linear(channels, classes)
        self.apply(self._initialize)

    @staticmethod
    def _initialize(module: nn.Module) -> None:
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.constant_(module.weight, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.stem(x), kernel_size=2)
        x = self.pool(self.body(x)).flatten(1)
        return self.head(x)


def normalize(image: Tensor) -> Tensor:
    mean = image.mean(dim=(1, 2), keepdim=True)
    return (image - mean + 0.5).clamp(0.0, 1.0).flip(-1)


def main(epochs: int = 1) -> float:
    torch.manual_seed(0)
    data = Images(24, transform=normalize)
    train, test = random_split(data, [16, 8], generator=torch.Generator().manual_seed(1))
    first: Subset[tuple[Tensor, int]] = Subset(data, indices=list(range(4)))
    loader = DataLoader(train, batch_size=8, shuffle=True, drop_last=True)
    checks = DataLoader(data, batch_size=8, sampler=EvenFirst(data, len(data)))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=epochs * len(loader))
    for _ in range(epochs):
        model.train()
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for images, labels in checks:
            correct += (model(images).argmax(1) == labels).sum().item()
    rows = TensorDataset(torch.ones(4, 2), torch.zeros(4))
    x, y = rows[0]
    assert x.shape == (2,) and y.ndim == 0 and len(first) == 4 and len(test) == 8
    return correct / len(data)


if __name__ == "__main__":
    main()
