"""A convolutional network over a Dataset and a DataLoader, with transforms and a split."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import Tensor, nn
from dynograd.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split


class Pictures(Dataset[tuple[Tensor, int]]):
    def __init__(self, count: int, transform: Callable[[Tensor], Tensor] | None = None) -> None:
        self.pixels = np.random.default_rng(0).random((count, 1, 8, 8), dtype=np.float32)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture = torch.from_numpy(self.pixels[index])
        label = int(picture.mean() > 0.5)
        if self.transform is not None:
            picture = self.transform(picture)
        return picture, label


def normalize(x: Tensor) -> Tensor:
    return (x - x.mean()) / x.std().clamp(min=1e-6)


class ConvNet(nn.Module):
    def __init__(self, channels: int = 4, classes: int = 2) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, kernel_size=3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, stride=1, padding="same"),
        )
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Linear(2 * channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.features(x))
        x = torch.flatten(self.pool(x), 1)
        logits: Tensor = self.classifier(x)
        return logits


def run(model: ConvNet, batches: DataLoader[tuple[Tensor, int]], optimizer: torch.optim.Optimizer) -> float:
    model.train()
    total, count = 0.0, 0
    for pictures, labels in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * pictures.size(0)
        count += pictures.size(0)
    return total / count


def evaluate(model: ConvNet, batches: DataLoader[tuple[Tensor, int]]) -> Iterator[bool]:
    model.eval()
    with torch.inference_mode():
        for pictures, labels in batches:
            yield from (model(pictures).argmax(1) == labels).tolist()


def collate(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    return torch.stack([picture for picture, _ in samples]), torch.tensor([label for _, label in samples])


def main() -> float:
    torch.manual_seed(0)
    dataset = Pictures(12, transform=normalize)
    train, test = random_split(dataset, [8, 4], generator=torch.Generator().manual_seed(0))
    loader: DataLoader[tuple[Tensor, int]] = DataLoader(
        train, batch_size=4, shuffle=True, collate_fn=collate, num_workers=0, drop_last=True
    )
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    loss = run(model, loader, optimizer)
    right = list(evaluate(model, DataLoader(test, batch_size=2, collate_fn=collate)))
    first: Subset[tuple[Tensor, int]] = Subset(dataset, [0, 1])
    assert len(loader) == 2 and len(first) == 2 and len(right) == 4
    pairs = TensorDataset(torch.randn(4, 2), torch.arange(4))
    assert len(pairs) == 4 and pairs[0][0].shape == (2,)
    padded = F.pad(torch.zeros(1, 1, 4, 4), (1, 1, 1, 1), mode="constant", value=0.0)
    larger = F.interpolate(padded, scale_factor=2, mode="bilinear", align_corners=False)
    array = larger.squeeze(0).permute(1, 2, 0).detach().cpu().numpy()
    assert array.shape == (12, 12, 1)
    return loss + sum(right)


if __name__ == "__main__":
    print(main())
